//! What every environment must do, checked on any of them.
//!
//! It is next to the adapters and not in a test, so that every suite that can start real agents holds all of them to
//! the same contract: those of this project and those of somebody who writes one more.

use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::conformance::{Violation, demand};
use baremark_model::page_size::PageSize;
use baremark_model::site::{Environment, Link, Site};
use baremark_model::spawned::{LONGEST_PIECE, PutFile, Spawn, SpawnLimits, Spawned};
use baremark_model::units::Bytes;
use baremark_model::value::Value;
use baremark_model::wire::{
    ArmSpec, FromAgent, PROTOCOL, ToAgent, TrialResult, TrialSpec, WireError, read_frame, write_frame,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How soon after a kill the streams must have ended and nothing may be left, on however busy a machine.
const END: Duration = Duration::from_secs(60);
/// A frame of this length must pass to the agent: more than any buffer on its way holds.
const LONG_FRAME: usize = 2 << 20;
/// Phases of a trial whose result is about as long.
const MANY_PHASES: usize = 2000;

/// What is known about the environment's sites, and how long things may take there.
pub struct Place<'p> {
    /// A CPU that an agent at a site can be pinned to.
    pub cpu: usize,
    /// How long a trial of a few phases may take, all told.
    pub patience: Duration,
    /// What is left of sites that have been dropped, in words: processes, mounts, containers, files. Empty is right.
    pub residue: &'p dyn Fn() -> Vec<String>,
}

/// Runs every check against `environment`.
///
/// # Errors
/// What it did that it must not, in words; the first violation ends the suite.
pub fn conformance(environment: &dyn Environment, place: &Place<'_>) -> Result<(), Violation> {
    environment.probe().map_err(|missing| format!("its probe says: {missing}"))?;
    demand(!environment.name().is_empty(), || "its name is empty".to_owned())?;
    a_trial_runs_and_two_sites_do_not_disturb_each_other(environment, place)?;
    nothing_is_left(place, "two sites and a goodbye")?;
    long_frames_pass_both_ways(environment, place)?;
    nothing_is_left(place, "long frames")?;
    a_kill_ends_a_trial(environment, place)?;
    nothing_is_left(place, "a kill in the middle of a trial")?;
    programs_run_there_and_go_with_the_site(environment, place)?;
    nothing_is_left(place, "a site with programs")?;
    the_log_is_the_agents(environment, place)?;
    nothing_is_left(place, "an agent that refused a frame")
}

fn a_trial_runs_and_two_sites_do_not_disturb_each_other(
    environment: &dyn Environment,
    place: &Place<'_>,
) -> Result<(), Violation> {
    let mut first = Talk::start(environment, place)?;
    let mut second = Talk::start(environment, place)?;
    demand(first.site.link().is_none(), || "its streams can be taken twice".to_owned())?;
    let null = first.trial(&spec(place, ExecutorKind::Null, 4))?;
    demand(null.series.len() == 4, || format!("{} of 4 empty phases came back", null.series.len()))?;
    second.site.kill();
    let direct = first.trial(&spec(place, ExecutorKind::Direct, 4))?;
    demand(direct.series.len() == 4, || format!("{} of 4 phases came back", direct.series.len()))?;
    let value = direct.series[0].samples.iter().find(|sample| sample.metric == "update_ns").map(|sample| sample.value);
    demand(value.is_some_and(|value| value > 0.0), || format!("an update took {value:?} ns"))?;
    first.send(&ToAgent::Goodbye)?;
    match first.receive(END) {
        Err(Silence::Ended(WireError::Closed)) => Ok(()),
        other => Err(Violation(format!("after a goodbye the agent gave {other:?}"))),
    }
}

fn long_frames_pass_both_ways(environment: &dyn Environment, place: &Place<'_>) -> Result<(), Violation> {
    let mut talk = Talk::start(environment, place)?;
    talk.greet("v".repeat(LONG_FRAME))?;
    let long = talk.trial(&TrialSpec { phase_ns: 2000, ..spec(place, ExecutorKind::Null, MANY_PHASES) })?;
    demand(long.series.len() == MANY_PHASES, || format!("{} of {MANY_PHASES} phases came back", long.series.len()))
}

fn a_kill_ends_a_trial(environment: &dyn Environment, place: &Place<'_>) -> Result<(), Violation> {
    let mut talk = Talk::start(environment, place)?;
    let hour = 3_600_000_000_000;
    let endless = TrialSpec { phase_ns: hour, watchdog_ns: hour, ..spec(place, ExecutorKind::Direct, 4) };
    talk.send(&ToAgent::RunTrial(Box::new(endless)))?;
    thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    talk.site.kill();
    talk.site.kill();
    demand(begun.elapsed() < END, || format!("a kill took {:?}", begun.elapsed()))?;
    match talk.receive(END) {
        Err(Silence::Ended(_)) => Ok(()),
        other => Err(Violation(format!("after a kill the agent gave {other:?}"))),
    }
}

/// Files come, programs run with what they are given, are told about and stopped, and what still runs goes with the site.
fn programs_run_there_and_go_with_the_site(environment: &dyn Environment, place: &Place<'_>) -> Result<(), Violation> {
    let mut talk = Talk::start(environment, place)?;
    let content = vec![b'x'; LONGEST_PIECE];
    for append in [false, true] {
        let file =
            PutFile { name: "file".to_owned(), append, executable: false, content: content[append.into()..].to_vec() };
        match talk.ask(&ToAgent::PutFile(file))? {
            FromAgent::FilePut { path } if path.ends_with("/file") => {}
            other => return talk.complain(format!("a file was answered with {other:?}")),
        }
    }
    let version = talk.spawned(&ToAgent::Spawn(own_program("version", &["--version"])))?;
    demand(version.pid > 0, || "a program has no process number".to_owned())?;
    let ended = talk.until("version", |told| told.ended.is_some())?;
    demand(ended.ended.as_deref() == Some("exit status: 0") && ended.lines == 1, || {
        format!("the program's --version gave {ended:?}")
    })?;
    let serving = ["echo", "--listen", "127.0.0.1:0"];
    for name in ["stopped", "left"] {
        talk.spawned(&ToAgent::Spawn(own_program(name, &serving)))?;
        talk.until(name, |told| told.lines > 0)?;
    }
    let grace_ns = u64::try_from(END.as_nanos()).unwrap_or(u64::MAX);
    let stopped = talk.spawned(&ToAgent::Stop { name: "stopped".to_owned(), grace_ns })?;
    demand(stopped.ended.as_deref().is_some_and(|how| how.contains("SIGTERM")), || {
        format!("a program that was stopped says {stopped:?}")
    })?;
    let left = talk.spawned(&ToAgent::Tell { name: "left".to_owned() })?;
    demand(left.ended.is_none() && left.used.processes > 0, || format!("a program that runs says {left:?}"))?;
    talk.site.kill();
    Ok(())
}

/// This program itself, as the site has it.
fn own_program(name: &str, arguments: &[&str]) -> Spawn {
    Spawn {
        name: name.to_owned(),
        program: None,
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
        environment: BTreeMap::new(),
        limits: SpawnLimits::default(),
    }
}

fn the_log_is_the_agents(environment: &dyn Environment, place: &Place<'_>) -> Result<(), Violation> {
    let mut talk = Talk::start(environment, place)?;
    let garbage = b"this is no frame";
    let written = talk.to_agent.write_all(&16_u32.to_le_bytes()).and_then(|()| talk.to_agent.write_all(garbage));
    written.and_then(|()| talk.to_agent.flush()).map_err(|why| format!("writing garbage: {why}"))?;
    match talk.receive(END) {
        Err(Silence::Ended(_)) => {}
        other => return Err(Violation(format!("told garbage, the agent gave {other:?}"))),
    }
    talk.site.kill();
    let log = talk.site.log().join("\n");
    demand(log.contains("not a message of protocol"), || format!("the agent's complaint is not in its log: {log:?}"))
}

/// A trial of `phases` phases of one arm, on a table of 1 MiB.
fn spec(place: &Place<'_>, executor: ExecutorKind, phases: usize) -> TrialSpec {
    let plain = ResolvedArm::native(1, PageSize::Small).with("table", Value::SizeBytes(Bytes(1 << 20)));
    let arm = ResolvedArm { executor, ..plain };
    TrialSpec {
        schedule: vec![0; phases],
        phase_ns: 20_000_000,
        cpus: vec![place.cpu],
        seed: 1,
        ..TrialSpec::new("random-access", [ArmSpec::of_one(arm)])
    }
}

/// Nothing may be left once sites are gone; what the kernel still buries is given a moment.
fn nothing_is_left(place: &Place<'_>, after: &str) -> Result<(), Violation> {
    let deadline = Instant::now() + END;
    loop {
        let left = (place.residue)();
        if left.is_empty() {
            return Ok(());
        }
        demand(Instant::now() < deadline, || format!("after {after} this is left: {}", left.join(", ")))?;
        thread::sleep(Duration::from_millis(20));
    }
}

/// Why no frame came.
#[derive(Debug)]
enum Silence {
    /// The stream ended or failed.
    Ended(WireError),
    /// Nothing came in time.
    TimedOut,
}

/// A site and its agent, greeted.
struct Talk {
    site: Box<dyn Site>,
    to_agent: Box<dyn Write + Send>,
    frames: Receiver<Result<FromAgent, WireError>>,
    patience: Duration,
}

impl Talk {
    fn start(environment: &dyn Environment, place: &Place<'_>) -> Result<Self, Violation> {
        let mut site =
            environment.start(&AtomicBool::new(false)).map_err(|why| format!("a site did not start: {why}"))?;
        let Some(Link { mut from_agent, to_agent }) = site.link() else {
            return Err(Violation("a new site has no streams".to_owned()));
        };
        let (sender, frames) = channel();
        thread::spawn(move || {
            loop {
                let frame = read_frame(&mut from_agent);
                let last = frame.is_err();
                if sender.send(frame).is_err() || last {
                    return;
                }
            }
        });
        let mut talk = Talk { site, to_agent, frames, patience: place.patience };
        talk.greet("conformance".to_owned())?;
        Ok(talk)
    }

    fn greet(&mut self, version: String) -> Result<(), Violation> {
        self.send(&ToAgent::Hello { protocol: PROTOCOL, version })?;
        match self.receive(self.patience) {
            Ok(FromAgent::Hello { protocol: PROTOCOL, capabilities, pid, .. }) => {
                demand(capabilities.iter().any(|name| name == "run-trial"), || {
                    format!("it can only {capabilities:?}")
                })?;
                demand(pid > 0, || "it has no process number".to_owned())
            }
            other => self.complain(format!("a greeting was answered with {other:?}")),
        }
    }

    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, Violation> {
        self.send(&ToAgent::RunTrial(Box::new(spec.clone())))?;
        loop {
            match self.receive(self.patience) {
                Ok(FromAgent::Phase { .. }) => {}
                Ok(FromAgent::TrialDone(result)) => return Ok(*result),
                other => return self.complain(format!("a trial gave {other:?}")),
            }
        }
    }

    fn ask(&mut self, message: &ToAgent) -> Result<FromAgent, Violation> {
        self.send(message)?;
        self.receive(self.patience).or_else(|why| self.complain(format!("{message:?} was answered with {why:?}")))
    }

    fn spawned(&mut self, message: &ToAgent) -> Result<Spawned, Violation> {
        match self.ask(message)? {
            FromAgent::Spawned(spawned) => Ok(spawned),
            other => self.complain(format!("{message:?} was answered with {other:?}")),
        }
    }

    /// Asks until a program is as requested.
    fn until(&mut self, name: &str, wanted: impl Fn(&Spawned) -> bool) -> Result<Spawned, Violation> {
        let deadline = Instant::now() + self.patience;
        loop {
            let told = self.spawned(&ToAgent::Tell { name: name.to_owned() })?;
            if wanted(&told) {
                return Ok(told);
            }
            if Instant::now() > deadline {
                return self.complain(format!("{name} does not come along: {told:?}"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn send(&mut self, message: &ToAgent) -> Result<(), Violation> {
        write_frame(&mut self.to_agent, message)
            .or_else(|why| self.complain(format!("the agent cannot be reached: {why}")))
    }

    fn receive(&mut self, limit: Duration) -> Result<FromAgent, Silence> {
        match self.frames.recv_timeout(limit) {
            Ok(Ok(frame)) => Ok(frame),
            Ok(Err(why)) => Err(Silence::Ended(why)),
            Err(RecvTimeoutError::Disconnected) => Err(Silence::Ended(WireError::Closed)),
            Err(RecvTimeoutError::Timeout) => Err(Silence::TimedOut),
        }
    }

    /// What went wrong, with the site's log.
    fn complain<T>(&mut self, what: String) -> Result<T, Violation> {
        self.site.kill();
        Err(Violation(format!("{what}; its log: {:?}", self.site.log())))
    }
}
