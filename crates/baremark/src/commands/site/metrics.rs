//! The latest finished result of each study as metrics.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch::say;
use crate::{record, sides};
use baremark_model::document::Document;
use baremark_model::order;
use baremark_model::plan::Mode;
use baremark_report::open_metrics::{Latest, render};
use baremark_store::{RunState, RunSummary};
use std::collections::BTreeMap;

/// Runs of a study of which the mode is looked up at most: the latest may be of `--quick`, next to which the latest of the whole study is shown.
const MOST_READ: usize = 1000;

/// Prints them. A run that cannot be shown is named on standard error, and the one before it is shown.
pub fn run(context: &Context) -> Result<(String, Exit), Refusal> {
    let store = record::open_existing(context)?;
    let failed = |why: &str| say(format_args!("error: {why}"));
    let list = store.list().map_err(Refusal::failure)?;
    list.damaged.iter().for_each(|why| failed(&why.to_string()));
    let mut studies: BTreeMap<String, Vec<RunSummary>> = BTreeMap::new();
    for run in list.runs {
        if run.state == RunState::Finished {
            studies.entry(run.title.clone()).or_default().push(run);
        }
    }
    let mut results: Vec<(Document, f64)> = Vec::new();
    let (mut refused, mut unshown) = (!list.damaged.is_empty(), false);
    for mut runs in studies.into_values() {
        order::by_key(&mut runs, |run| std::cmp::Reverse(run.started.0));
        // The head of a run says how it was made: of the others nothing more is read. One that cannot be read, as of an earlier version, keeps nothing from
        // being shown where a later run of the whole study is.
        let mode = |run: &RunSummary, is_shown: bool| match store.load_head(&run.id) {
            Ok(head) => Some(head.plan.mode),
            Err(_) if is_shown => None,
            Err(why) => {
                failed(&why.to_string());
                refused = true;
                None
            }
        };
        let shown = |run: &RunSummary| match sides::stored(&store, run.id.as_str()) {
            Ok(document) => {
                #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
                results.push((document, (run.started.0 / 1_000_000) as f64 / 1e3));
                true
            }
            Err(why) => {
                failed(&why.message);
                unshown = true;
                false
            }
        };
        first_of_each(&runs[..runs.len().min(MOST_READ)], mode, shown);
    }
    let latest: Vec<Latest<'_>> =
        results.iter().map(|(document, began_s)| Latest { document, began_s: *began_s }).collect();
    Ok((render(&latest), if refused || unshown { Exit::Regression } else { Exit::Success }))
}

/// Of runs, the latest first, shows the first of the whole study and the first of `--quick`; where one cannot be shown, the one before it. A comparison of
/// a study with itself is not its result. `mode` is called with whether the whole study has been shown.
fn first_of_each<R>(runs: &[R], mut mode: impl FnMut(&R, bool) -> Option<Mode>, mut show: impl FnMut(&R) -> bool) {
    let mut seen = [false; 2];
    for run in runs {
        if seen == [true; 2] {
            break;
        }
        let Some(Mode { quick, self_check: false }) = mode(run, seen[0]) else { continue };
        let seen = &mut seen[usize::from(quick)];
        *seen = *seen || show(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After eight quick runs that of the whole study was no longer among the metrics.
    #[test]
    fn a_whole_study_is_shown_behind_any_number_of_quick_runs() {
        let of = |quick, self_check| Mode { quick, self_check };
        let runs = [vec![of(true, false); 20], vec![of(false, true), of(false, false), of(false, false)]].concat();
        let numbered: Vec<(usize, Mode)> = runs.into_iter().enumerate().collect();
        let shown = |broken: usize| {
            let mut shown = Vec::new();
            first_of_each(
                &numbered,
                |(_, mode), _| Some(*mode),
                |(at, _)| {
                    if *at != broken {
                        shown.push(*at);
                    }
                    *at != broken
                },
            );
            shown
        };
        assert_eq!((shown(99), shown(0), shown(21)), (vec![0, 21], vec![1, 21], vec![0, 22]));
    }

    /// A store with a run of an earlier version, however old, had 4 as the exit code ever after where nobody ran `--quick`.
    #[test]
    fn an_earlier_run_than_the_one_that_is_shown_need_not_be_read() {
        let mut asked = Vec::new();
        let mode = |run: &u32, is_shown: bool| {
            asked.push((*run, is_shown));
            (*run != 2).then_some(Mode { quick: false, self_check: false })
        };
        first_of_each(&[0, 1, 2], mode, |run| *run == 1);
        assert_eq!(asked, [(0, false), (1, false), (2, true)]);
    }
}
