//! The agent's side of the wire: greet, run what is asked for, leave when the other side is gone.

use crate::gate::{self, Gate};
use crate::progress::Told;
use crate::spawned::{Errands, SpawnError};
use crate::{load, trial};
use baremark_model::wire::{FromAgent, MemberResult, PROTOCOL, ToAgent, TrialSpec, WireError, read_frame, write_frame};
use baremark_observe::watch::Watch;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// What this agent can do, as it says in its greeting.
pub const CAPABILITIES: &[&str] = &["run-trial", "run-member", "observe", "load", "put-file", "spawn"];

/// Serves one lab until it says goodbye or is gone; `busy` says whether a trial is running, to whoever watches for the
/// lab's end meanwhile. A thread of its own reads, so that a load can be stopped while it runs.
///
/// # Errors
/// When the stream is torn or the other side is not a lab of this protocol.
pub fn serve(input: &mut (impl Read + Send), output: &mut impl Write, busy: &AtomicBool) -> Result<(), WireError> {
    thread::scope(|scope| {
        let (sender, heard) = channel();
        scope.spawn(move || {
            loop {
                let frame = read_frame(input);
                let last = matches!(frame, Ok(ToAgent::Goodbye) | Err(_));
                if sender.send(frame).is_err() || last {
                    return;
                }
            }
        });
        answer(&heard, output, busy)
    })
}

fn answer(
    heard: &Receiver<Result<ToAgent, WireError>>,
    output: &mut impl Write,
    busy: &AtomicBool,
) -> Result<(), WireError> {
    let mut prepared = None;
    let mut beside: Option<Watch> = None;
    let mut errands = Errands::default();
    loop {
        match heard.recv().unwrap_or(Err(WireError::Closed)) {
            Ok(ToAgent::Hello { protocol, .. }) => {
                write_frame(output, &greeting())?;
                if protocol != PROTOCOL {
                    return Err(WireError::Version { theirs: protocol });
                }
            }
            Ok(ToAgent::RunTrial(spec)) => trial_of(&spec, None, output, busy)?,
            Ok(ToAgent::RunMember(spec)) => trial_of(&spec, Some(Gate::new(heard)), output, busy)?,
            // The trial that it was for has failed here.
            Ok(ToAgent::Pass(_)) => {}
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
            Ok(ToAgent::PrepareLoad { order }) => {
                let answer = match load::prepare(*order) {
                    Ok(load) => {
                        prepared = Some(load);
                        FromAgent::LoadReady
                    }
                    Err(why) => FromAgent::Failed { what: "preparing the load".to_owned(), why },
                };
                write_frame(output, &answer)?;
            }
            Ok(ToAgent::ReadClock) => write_frame(output, &gate::now())?,
            Ok(ToAgent::StartLoad { begin_ns }) => match prepared.take() {
                Some(prepared) => load::run(prepared, begin_ns, heard, output)?,
                None => {
                    let why = "none has been prepared".to_owned();
                    write_frame(output, &FromAgent::Failed { what: "starting the load".to_owned(), why })?;
                }
            },
            // The load had ended by itself.
            Ok(ToAgent::StopLoad) => {}
            Ok(ToAgent::PutFile(file)) => {
                let answer = errands.put(&file).map(|path| FromAgent::FilePut { path });
                write_frame(output, &or_failed(format!("the file {}", file.name), answer))?;
            }
            Ok(ToAgent::Spawn(asked)) => {
                let answer = errands.spawn(&asked).map(FromAgent::Spawned);
                write_frame(output, &or_failed(format!("the start of {}", asked.name), answer))?;
            }
            Ok(ToAgent::Tell { name }) => {
                let answer = errands.tell(&name).map(FromAgent::Spawned);
                write_frame(output, &or_failed(format!("the state of {name}"), answer))?;
            }
            Ok(ToAgent::Stop { name, grace_ns }) => {
                let answer = errands.stop(&name, Duration::from_nanos(grace_ns)).map(FromAgent::Spawned);
                write_frame(output, &or_failed(format!("the end of {name}"), answer))?;
            }
            Ok(ToAgent::Goodbye) | Err(WireError::Closed) => return Ok(()),
            Err(why) => return Err(why),
        }
    }
}

/// Runs a trial, as one of several sites where there is a gate, and tells what came of it.
fn trial_of(
    spec: &TrialSpec,
    gate: Option<Gate<'_>>,
    output: &mut impl Write,
    busy: &AtomicBool,
) -> Result<(), WireError> {
    busy.store(true, Ordering::Release);
    let watch = spec.observe.as_ref().map(Watch::start);
    let mut told = Told { output, of: spec.schedule.len(), watch, gate };
    let result = trial::run(spec, &mut told);
    let Told { output, watch, gate, .. } = told;
    let observation = watch.map(Watch::stop);
    let answer = match result {
        Err(why) => FromAgent::Failed { what: format!("a trial of {}", spec.workload), why: why.to_string() },
        Ok(mut result) => {
            result.observations.extend(observation);
            match gate {
                None => FromAgent::TrialDone(Box::new(result)),
                Some(gate) => {
                    let (stretches, together) = (gate.stretches, trial::rules(spec));
                    FromAgent::MemberDone(Box::new(MemberResult { result, stretches, together }))
                }
            }
        }
    };
    write_frame(output, &answer)?;
    busy.store(false, Ordering::Release);
    Ok(())
}

fn or_failed(what: String, answer: Result<FromAgent, SpawnError>) -> FromAgent {
    answer.unwrap_or_else(|why| FromAgent::Failed { what, why: why.to_string() })
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
