//! The agent's side of the wire: greet, run what is requested, leave when the other side is gone.

use crate::call_costs;
use crate::gate::{self, Gate};
use crate::interrupt::Interrupt;
use crate::load;
use crate::progress::{Told, Way};
use crate::runner::Runners;
use crate::spawned::{SpawnError, SpawnedPrograms};
use crate::turns::{Turns, UsedUntilHeard};
use baremark_model::wire::{
    FromAgent, MemberResult, PROTOCOL, SideResult, ToAgent, TrialSpec, WireError, read_frame, write_frame,
};
use baremark_observe::watch::Watch;
use baremark_sys::paging;
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// What this agent can do, as it says in its greeting.
pub const CAPABILITIES: &[&str] = &[
    "run-trial",
    "run-member",
    "take-turns",
    "observe",
    "load",
    "steer-load",
    "put-file",
    "spawn",
    "time-calls",
    "identify",
];

/// What an agent is told by whoever made it.
#[derive(Clone, Copy)]
pub struct Means<'m> {
    /// The kinds of workloads that it can run.
    pub runners: Runners,
    /// Raised when the lab says goodbye or is gone; shared with whoever watches for its end.
    pub interrupt: &'m Interrupt,
    /// The program that tends what the lab spawns; see [`SpawnedPrograms::new`].
    pub tender: Option<&'m Path>,
}

/// Serves one lab until it says goodbye or is gone. A thread of its own reads, so that a load or a job can be stopped while it
/// runs.
///
/// # Errors
/// When the stream is torn or the other side is not a lab of this protocol.
pub fn serve(input: &mut (impl Read + Send), output: &mut impl Write, means: Means<'_>) -> Result<(), WireError> {
    let used = UsedUntilHeard::default();
    thread::scope(|scope| {
        let (sender, heard) = channel();
        let used = &used;
        scope.spawn(move || {
            loop {
                let frame = read_frame(input);
                used.note();
                let last = matches!(frame, Ok(ToAgent::Goodbye) | Err(_));
                if last {
                    means.interrupt.raise();
                }
                if sender.send(frame).is_err() || last {
                    return;
                }
            }
        });
        answer((&heard, used), output, means)
    })
}

fn answer(
    (heard, used): (&Receiver<Result<ToAgent, WireError>>, &UsedUntilHeard),
    output: &mut impl Write,
    Means { runners, interrupt, tender }: Means<'_>,
) -> Result<(), WireError> {
    let spawned = SpawnedPrograms::new(tender.map(Path::to_owned));
    let mut at_work = AtWork { load: None, beside: None, stored: Vec::new(), spawned };
    loop {
        match heard.recv().unwrap_or(Err(WireError::Closed)) {
            Ok(ToAgent::Hello { protocol, .. }) => {
                write_frame(output, &greeting())?;
                if protocol != PROTOCOL {
                    return Err(WireError::Version { theirs: protocol });
                }
            }
            Ok(ToAgent::Progress { rows }) => at_work.stored = rows,
            Ok(ToAgent::RunTrial(spec)) => {
                let stored = std::mem::take(&mut at_work.stored);
                trial_of(&runners, &spec, (Way::Alone, stored), output, interrupt)?;
            }
            Ok(ToAgent::RunMember(spec)) => {
                trial_of(&runners, &spec, (Way::Together(Gate::new(heard)), Vec::new()), output, interrupt)?;
            }
            Ok(ToAgent::TakeTurns(side)) => {
                let way =
                    Way::InTurns(Turns::new((heard, used), (side.arm.min(1), Duration::from_nanos(side.rest_ns))));
                trial_of(&runners, &side.spec, (way, Vec::new()), output, interrupt)?;
            }
            // The trial that it was for has failed here.
            Ok(ToAgent::Pass(_) | ToAgent::Turn { .. } | ToAgent::EndTurns { .. }) => {}
            Ok(ToAgent::StartLoad { begin_ns }) => match at_work.load.take() {
                Some(prepared) => load::run(prepared, begin_ns, heard, output)?,
                None => write_frame(output, &failed("starting the load", "none has been prepared"))?,
            },
            Ok(ToAgent::SteerLoad { begin_ns }) => match at_work.load.take() {
                Some(prepared) => load::steer(prepared, begin_ns, heard, output)?,
                None => write_frame(output, &failed("starting the load", "none has been prepared"))?,
            },
            // The load had ended by itself.
            Ok(ToAgent::StopLoad | ToAgent::SetLevel { .. } | ToAgent::AskWindow { .. }) => {}
            Ok(ToAgent::Goodbye) | Err(WireError::Closed) => return Ok(()),
            Ok(errand) => write_frame(output, &at_work.do_errand(errand))?,
            Err(why) => return Err(why),
        }
    }
}

/// Runs a trial, with what was stored of it before it was interrupted, and reports what came of it.
fn trial_of(
    runners: &Runners,
    spec: &TrialSpec,
    (way, stored): (Way<'_>, Vec<(usize, Value)>),
    output: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<(), WireError> {
    interrupt.trial_begins(runners.find(&spec.workload).is_some_and(|runner| runner.descriptor().stops_on_interrupt));
    let watch = spec.observe.as_ref().map(Watch::start);
    let mut told = Told { output, of: spec.schedule.len(), watch, way, interrupt: interrupt.flag(), stored };
    let result = runners.run(spec, &mut told);
    let Told { output, watch, way, .. } = told;
    let observation = watch.map(Watch::stop);
    let answer = match result {
        Err(why) => failed(format!("a trial of {}", spec.workload), why.to_string()),
        Ok(mut result) => {
            result.observations.extend(observation);
            match way {
                Way::Alone => FromAgent::TrialDone(Box::new(result)),
                Way::InTurns(turns) => FromAgent::TurnsDone(Box::new(SideResult { result, idle: turns.idle })),
                Way::Together(gate) => {
                    let (stretches, together) = (gate.stretches, runners.together(spec));
                    FromAgent::MemberDone(Box::new(MemberResult { result, stretches, together }))
                }
            }
        }
    };
    write_frame(output, &answer)?;
    interrupt.trial_ends();
    Ok(())
}

/// What this agent holds between one message and the next.
struct AtWork {
    load: Option<load::Prepared>,
    beside: Option<Watch>,
    /// What was stored of the next trial before it was interrupted.
    stored: Vec<(usize, Value)>,
    spawned: SpawnedPrograms,
}

impl AtWork {
    /// Does what is answered by one frame at once.
    fn do_errand(&mut self, asked: ToAgent) -> FromAgent {
        match asked {
            ToAgent::Observe(spec) => {
                self.beside = Some(Watch::start(&spec));
                FromAgent::Observing
            }
            ToAgent::EndObservation => match self.beside.take() {
                Some(watch) => FromAgent::Observed(Box::new(watch.stop())),
                None => failed("the end of an observation", "none was begun"),
            },
            ToAgent::PrepareLoad { order } => match load::prepare(*order) {
                Ok(load) => {
                    self.load = Some(load);
                    FromAgent::LoadReady
                }
                Err(why) => failed("preparing the load", why.to_string()),
            },
            ToAgent::ReadClock => gate::now(),
            ToAgent::TimeCalls { calls } => call_costs::measure(calls),
            ToAgent::Identify { argument } => {
                paging::identify(argument);
                FromAgent::Identified
            }
            ToAgent::PutFile(file) => {
                let answer = self.spawned.put(&file).map(|path| FromAgent::FilePut { path });
                or_failed(format!("the file {}", file.name), answer)
            }
            ToAgent::Spawn(asked) => {
                let answer = self.spawned.spawn(&asked).map(FromAgent::Spawned);
                or_failed(format!("the start of {}", asked.name), answer)
            }
            ToAgent::Tell { name } => {
                let answer = self.spawned.tell(&name).map(FromAgent::Spawned);
                or_failed(format!("the state of {name}"), answer)
            }
            ToAgent::Stop { name, grace_ns } => {
                let answer = self.spawned.stop(&name, Duration::from_nanos(grace_ns)).map(FromAgent::Spawned);
                or_failed(format!("the end of {name}"), answer)
            }
            other => failed("an unexpected message", format!("{other:?}")),
        }
    }
}

fn failed(what: impl Into<String>, why: impl Into<String>) -> FromAgent {
    FromAgent::Failed { what: what.into(), why: why.into() }
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
