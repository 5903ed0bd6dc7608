//! The agent's side of the wire: greet, run what is asked for, leave when the other side is gone.

use crate::progress::Told;
use crate::trial;
use baremark_model::wire::{FromAgent, PROTOCOL, ToAgent, WireError, read_frame, write_frame};
use baremark_observe::watch::Watch;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// What this agent can do, as it says in its greeting.
pub const CAPABILITIES: &[&str] = &["run-trial", "observe"];

/// Serves one lab until it says goodbye or is gone; `busy` says whether a trial is running, to whoever watches for the
/// lab's end meanwhile.
///
/// # Errors
/// When the stream is torn or the other side is not a lab of this protocol.
pub fn serve(input: &mut impl Read, output: &mut impl Write, busy: &AtomicBool) -> Result<(), WireError> {
    let mut beside: Option<Watch> = None;
    loop {
        match read_frame(input) {
            Ok(ToAgent::Hello { protocol, .. }) => {
                write_frame(output, &greeting())?;
                if protocol != PROTOCOL {
                    return Err(WireError::Version { theirs: protocol });
                }
            }
            Ok(ToAgent::RunTrial(spec)) => {
                busy.store(true, Ordering::Release);
                let mut told = Told { output, of: spec.schedule.len(), watch: spec.observe.as_ref().map(Watch::start) };
                let result = trial::run(&spec, &mut told);
                let observation = told.watch.map(Watch::stop);
                let answer = match result {
                    Ok(mut result) => {
                        result.observations.extend(observation);
                        FromAgent::TrialDone(Box::new(result))
                    }
                    Err(why) => {
                        FromAgent::Failed { what: format!("a trial of {}", spec.workload), why: why.to_string() }
                    }
                };
                write_frame(output, &answer)?;
                busy.store(false, Ordering::Release);
            }
            Ok(ToAgent::Observe(spec)) => {
                beside = Some(Watch::start(&spec));
                write_frame(output, &FromAgent::Observing)?;
            }
            Ok(ToAgent::EndObservation) => {
                let answer = match beside.take() {
                    Some(watch) => FromAgent::Observed(Box::new(watch.stop())),
                    None => FromAgent::Failed {
                        what: "the end of an observation".to_owned(),
                        why: "none was begun".to_owned(),
                    },
                };
                write_frame(output, &answer)?;
            }
            Ok(ToAgent::Goodbye) | Err(WireError::Closed) => return Ok(()),
            Err(why) => return Err(why),
        }
    }
}

fn greeting() -> FromAgent {
    FromAgent::Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        capabilities: CAPABILITIES.iter().map(|&name| name.to_owned()).collect(),
        instruction_set: baremark_kernels::isa::widest(),
        pid: std::process::id(),
    }
}
