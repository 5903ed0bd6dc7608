//! The latest finished result of each study as metrics.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch::say;
use crate::{record, sides};
use baremark_model::document::Document;
use baremark_model::order;
use baremark_report::open_metrics::{Latest, render};
use baremark_store::{RunState, RunSummary};
use std::collections::BTreeMap;

/// Runs of a study that are read at most: the latest may be of `--quick`, next to which the latest of the whole study is shown.
const MOST_READ: usize = 8;

/// Prints them. A run that cannot be shown is named on standard error, and the one before it is shown.
pub fn run(context: &Context) -> Result<(String, Exit), Refusal> {
    let store = record::open_existing(context)?;
    let mut studies: BTreeMap<String, Vec<RunSummary>> = BTreeMap::new();
    for run in store.runs().map_err(Refusal::failure)? {
        if run.state == RunState::Finished {
            studies.entry(run.title.clone()).or_default().push(run);
        }
    }
    let mut results: Vec<(Document, f64)> = Vec::new();
    let mut refused = false;
    for mut runs in studies.into_values() {
        order::by_key(&mut runs, |run| std::cmp::Reverse(run.started.0));
        let mut seen = [false; 2];
        for run in runs.into_iter().take(MOST_READ) {
            if seen == [true; 2] {
                break;
            }
            match sides::stored(&store, run.id.as_str()) {
                // A comparison of a study with itself is not its result.
                Ok(document) if document.run.mode.self_check => {}
                Ok(document) => {
                    let known = &mut seen[usize::from(document.run.mode.quick)];
                    if !std::mem::replace(known, true) {
                        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
                        results.push((document, (run.started.0 / 1_000_000) as f64 / 1e3));
                    }
                }
                Err(why) => {
                    say(format_args!("error: {}", why.message));
                    refused = true;
                }
            }
        }
    }
    let latest: Vec<Latest<'_>> =
        results.iter().map(|(document, began_s)| Latest { document, began_s: *began_s }).collect();
    Ok((render(&latest), if refused { Exit::Regression } else { Exit::Success }))
}
