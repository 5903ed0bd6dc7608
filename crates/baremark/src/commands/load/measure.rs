//! A load in this process, or at sites: prepared, measured, and told.

use super::record::Recorder;
use super::sites::{self, Site};
use super::view::View;
use super::words;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch;
use baremark_lab::conduct::Ending;
use baremark_load::document::{Document, Ended};
use baremark_load::limits::Verdict;
use baremark_load::load::{Engine, Load, LoadError};
use baremark_load::order::Order;
use baremark_load::requirements::Requirements;
use baremark_model::problem::chain;
use baremark_model::qos::Limit;
use baremark_model::units::Share;
use baremark_sys::cpu_time::CpuTime;
use std::sync::Arc;

/// A load that can be made: whatever is wrong with it has been said, and nothing was sent.
pub(super) struct Ready {
    order: Order,
    load: Load,
    required: Requirements,
    /// What makes it in this process; `None` where sites do.
    engine: Option<Engine>,
    sites: Vec<Site>,
}

impl Ready {
    /// Prepares a load with the limits that it must meet and the share of its operations that may fail; from this process where there are no sites.
    pub(super) fn of(
        context: &Context,
        mut order: Order,
        (limits, error_limit): (&[Limit], Option<Share>),
        sites: Vec<Site>,
    ) -> Result<Ready, Refusal> {
        let mut load = order.of_site(0, sites.len().max(1) as u64).load().map_err(Refusal::bad_input)?;
        let required = Requirements::of(&load, limits, error_limit).map_err(Refusal::bad_input)?;
        load.grace = required.grace(&load);
        order.grace_ns = Some(load.grace);
        let engine = sites.is_empty().then(|| Engine::new(load.clone(), Arc::clone(&context.interrupt)));
        let engine = engine.transpose().map_err(failed)?;
        Ok(Ready { order, load, required, engine, sites })
    }

    /// Makes the load, writes it down and reports what it came to.
    pub(super) fn measure(self, context: &Context, recorder: Recorder<'_>) -> Result<(String, Exit), Refusal> {
        let Ready { order, load, required, engine, sites } = self;
        let mut view = View::new(context, recorder);
        let before = CpuTime::now().ok();
        let measured = match &engine {
            Some(engine) => {
                let ran = engine.run(&mut |second| view.see(second.second, &second.part)).map_err(failed);
                ran.map(|part| (Document::new(engine.load(), &part), part))
            }
            None => sites::run(context, &sites, &order, &load, &mut view),
        };
        let recorder = view.finish();
        let (mut document, part) = match measured {
            Ok(measured) => measured,
            Err(why) => return Err(recorder.fail(why)),
        };
        required.check(&mut document, &part, &load, before);
        let end = match document.ended {
            Ended::Complete => Ending::Complete("complete".to_owned()),
            Ended::Interrupted => Ending::Interrupted,
            Ended::SiteLost => Ending::Complete("a site was lost".to_owned()),
        };
        recorder.end(&end, &document, &part);
        told(context, &document)
    }
}

/// What a load came to, and its exit code.
pub(super) fn told(context: &Context, document: &Document) -> Result<(String, Exit), Refusal> {
    let value = serde_json::to_value(document).map_err(|why| Refusal::failure(format!("writing JSON: {why}")))?;
    let text = if context.json { format!("{value:#}\n") } else { words::describe(document, &watch::style()) };
    Ok((text, exit_of(document)))
}

/// The exit code of a load: a broken run before failures, failures before limits.
fn exit_of(document: &Document) -> Exit {
    let any =
        |verdict, stated| document.limits.iter().any(|row| row.verdict == verdict && (stated || !row.of_scenario));
    match document.ended {
        Ended::Interrupted => Exit::Interrupted,
        Ended::SiteLost => Exit::Failure,
        // Not one answer: nothing has been measured.
        Ended::Complete if document.counts.answered == 0 || document.has_failed() => Exit::Failure,
        Ended::Complete if any(Verdict::Exceeded, true) => Exit::Regression,
        // What only the scenario states is reported; too short a run is not refused for it.
        Ended::Complete if any(Verdict::Undecided, false) => Exit::Undecided,
        Ended::Complete => Exit::Success,
    }
}

/// A load that was refused is bad input; one that broke is a failure.
pub(super) fn failed(why: LoadError) -> Refusal {
    let broke = matches!(why, LoadError::Thread(_) | LoadError::Loop(_) | LoadError::Panicked | LoadError::Merge(_));
    if broke { Refusal::failure(chain(&why)) } else { Refusal::bad_input(chain(&why)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_breaks_is_a_failure_and_what_is_refused_is_bad_input() {
        let refused = LoadError::Refused { what: "0 threads".to_owned(), remedy: "use 1 to 4096" };
        assert_eq!(failed(refused).exit, Exit::BadInput);
        for broken in [LoadError::Loop(io::Error::other("no more")), LoadError::Thread(io::Error::other("no more"))] {
            let told = failed(broken);
            assert_eq!(told.exit, Exit::Failure);
            assert!(told.message.ends_with(": no more"), "{}", told.message);
        }
    }
}
