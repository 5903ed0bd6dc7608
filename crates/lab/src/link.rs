//! The lab's end of the wire to one agent.

use crate::disk_counts::DiskCounts;
use crate::lab_clock::now_ns;
use baremark_model::loading::Loading;
use baremark_model::observation::Observation;
use baremark_model::observer::ObserveSpec;
use baremark_model::site::{Environment, Site, SiteError};
use baremark_model::wire::{
    FromAgent, PROTOCOL, Pass, ToAgent, TrialResult, TrialSpec, TurnsSpec, WireError, read_frame, write_frame,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often a waiting lab checks whether it was interrupted.
const GLANCE: Duration = Duration::from_millis(20);
/// How long an agent may take to greet.
const GREETING: Duration = Duration::from_secs(30);

/// How long an agent that is told to leave in the middle of a trial may take: a job stops its servers and removes its files.
const LEAVING: Duration = Duration::from_secs(20);

/// How often a clock is read.
const CLOCK_READINGS: usize = 10;

/// Why an agent gave no result.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It could not be started.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The stream failed or ended.
    #[error("the agent is lost: {why}{log}")]
    Lost {
        /// What the stream said.
        why: WireError,
        /// The last lines of its log.
        log: String,
    },
    /// It did not answer in time.
    #[error("the agent did not {what} within {seconds} s and was stopped{log}")]
    Silent {
        /// What it should have done.
        what: &'static str,
        /// How long it had.
        seconds: u64,
        /// The last lines of its log.
        log: String,
    },
    /// It said that it could not.
    #[error("{what} failed: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// What it said.
        why: String,
    },
    /// This host could not be brought into the state that the trial asks for.
    #[error("{0}")]
    Host(String),
    /// One site of several that ran a trial together.
    #[error("site {} of {of}: {why}", index + 1)]
    Member {
        /// Which, from 0.
        index: usize,
        /// Of how many.
        of: usize,
        /// What became of it.
        why: Box<LinkError>,
    },
    /// One side of a trial in turns.
    #[error("at {place}: {why}")]
    Side {
        /// The name of its environment.
        place: String,
        /// What became of it.
        why: Box<LinkError>,
    },
    /// It said something that does not belong here.
    #[error("the agent does not fit: {0}")]
    OutOfTurn(String),
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
}

impl LinkError {
    /// The same, of one site of several.
    pub(crate) fn of_site(self, index: usize, of: usize) -> Self {
        match self {
            LinkError::Interrupted => LinkError::Interrupted,
            _ if of == 1 => self,
            why => LinkError::Member { index, of, why: Box::new(why) },
        }
    }

    /// The same, of the side of a trial in turns that runs in `place`.
    pub(crate) fn at(self, place: &str) -> Self {
        match self {
            LinkError::Interrupted => LinkError::Interrupted,
            why => LinkError::Side { place: place.to_owned(), why: Box::new(why) },
        }
    }
}

/// What comes of a trial before its end.
pub enum Came {
    /// So much of the data is loaded that the trial needs.
    Loading(Loading),
    /// A phase is over.
    Phase {
        /// Its place in the schedule.
        position: usize,
        /// How many the schedule has.
        of: usize,
    },
    /// Part of a phase, which is to be stored at once.
    Progress {
        /// The phase's place in the schedule.
        position: usize,
        /// As the workload writes it.
        row: Value,
    },
}

/// What was done for a site already: an agent that serves several trials is not asked twice.
#[derive(Default)]
pub(crate) struct Provisioned {
    /// Files that it was brought, with their paths there.
    pub(crate) brought: BTreeMap<String, String>,
    /// Ports of this machine that it was offered, with where it reaches them.
    pub(crate) offered: BTreeMap<u16, SocketAddr>,
}

/// An agent at its site, greeted and ready.
pub struct AgentLink<'i> {
    pub(crate) site: Box<dyn Site>,
    /// `None` once nothing more will be said.
    to_agent: Option<Box<dyn Write + Send>>,
    frames: Receiver<Result<FromAgent, WireError>>,
    interrupt: &'i AtomicBool,
    capabilities: Vec<String>,
    /// A trial was begun there, and nothing has come of it yet.
    in_a_trial: bool,
    pub(crate) provisioned: Provisioned,
}

impl<'i> AgentLink<'i> {
    /// Starts an agent and greets it.
    pub fn start(environment: &dyn Environment, interrupt: &'i AtomicBool) -> Result<Self, LinkError> {
        AgentLink::start_unless(interrupt, environment, interrupt)
    }

    /// The same, given up as interrupted as soon as `given_up` is set while its site is not there yet.
    pub(crate) fn start_unless(
        given_up: &AtomicBool,
        environment: &dyn Environment,
        interrupt: &'i AtomicBool,
    ) -> Result<Self, LinkError> {
        let mut site = environment.start(given_up).map_err(|why| match why {
            SiteError::Interrupted => LinkError::Interrupted,
            why => LinkError::Site(why),
        })?;
        let Some(mut link) = site.link() else {
            return Err(LinkError::OutOfTurn("its site has no streams".to_owned()));
        };
        let (sender, frames) = channel();
        thread::spawn(move || {
            loop {
                let frame = read_frame(&mut link.from_agent);
                let last = frame.is_err();
                if sender.send(frame).is_err() || last {
                    return;
                }
            }
        });
        let mut agent = AgentLink {
            site,
            to_agent: Some(link.to_agent),
            frames,
            interrupt,
            capabilities: Vec::new(),
            in_a_trial: false,
            provisioned: Provisioned::default(),
        };
        agent.greet()?;
        Ok(agent)
    }

    fn greet(&mut self) -> Result<(), LinkError> {
        let hello = ToAgent::Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned() };
        self.send(&hello)?;
        match self.receive("greet", GREETING)? {
            FromAgent::Hello { protocol: PROTOCOL, capabilities, .. } => {
                self.capabilities = capabilities;
                Ok(())
            }
            FromAgent::Hello { protocol, .. } => Err(self.lost(WireError::Version { theirs: protocol })),
            other => Err(LinkError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// Has the agent run a trial, within `limit`; `came` is called with all that comes of it before its end. `stored` is what came of
    /// it in an earlier process.
    pub fn run(
        &mut self,
        (spec, stored): (&TrialSpec, Vec<(usize, Value)>),
        limit: Duration,
        came: &mut dyn FnMut(Came),
    ) -> Result<TrialResult, LinkError> {
        if !stored.is_empty() {
            self.send(&ToAgent::Progress { rows: stored })?;
        }
        self.send(&ToAgent::RunTrial(Box::new(spec.clone())))?;
        self.in_a_trial = true;
        let deadline = Instant::now() + limit;
        let mut disks = DiskCounts::default();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.receive_until("finish a trial", left, limit)? {
                FromAgent::DiskPhases => disks.begin(&mut *self.site),
                FromAgent::Phase { position, of, .. } => {
                    disks.phase_done(&mut *self.site, position);
                    came(Came::Phase { position, of });
                }
                FromAgent::Loading(loading) => came(Came::Loading(loading)),
                FromAgent::Progress { position, row } => came(Came::Progress { position, row }),
                FromAgent::TrialDone(mut result) => {
                    disks.put_into(&mut result);
                    return Ok(*result);
                }
                other => return Err(LinkError::OutOfTurn(format!("{other:?}"))),
            }
        }
    }

    /// Refuses where the agent cannot do what has this name among its capabilities.
    fn demand(&self, capability: &str, what: &str) -> Result<(), LinkError> {
        match self.capabilities.iter().any(|name| name == capability) {
            true => Ok(()),
            false => Err(LinkError::OutOfTurn(format!("it cannot {what}; use this version of baremark there"))),
        }
    }

    /// Has the agent run a trial as one of several sites.
    pub(crate) fn run_member(&mut self, spec: &TrialSpec) -> Result<(), LinkError> {
        self.demand("run-member", "run a trial together with others")?;
        self.in_a_trial = true;
        self.send(&ToAgent::RunMember(Box::new(spec.clone())))
    }

    /// Has the agent run one side of a trial in turns.
    pub(crate) fn take_turns(&mut self, side: TurnsSpec) -> Result<(), LinkError> {
        self.demand("take-turns", "take turns with another site")?;
        self.in_a_trial = true;
        self.send(&ToAgent::TakeTurns(Box::new(side)))
    }

    /// Lets the agent through the gate at which it waits.
    pub(crate) fn pass(&mut self, pass: Pass) -> Result<(), LinkError> {
        self.send(&ToAgent::Pass(pass))
    }

    /// It did not `what` within `limit`, and is ended.
    pub(crate) fn silent(&mut self, what: &'static str, limit: Duration) -> LinkError {
        LinkError::Silent { what, seconds: limit.as_secs(), log: self.last_words() }
    }

    /// Has the agent observe its site from now on.
    pub fn observe(&mut self, spec: &ObserveSpec) -> Result<(), LinkError> {
        self.send(&ToAgent::Observe(Box::new(spec.clone())))?;
        match self.receive("observe", GREETING)? {
            FromAgent::Observing => Ok(()),
            other => Err(LinkError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// Ends that, and takes what was observed.
    pub fn end_observation(&mut self) -> Result<Observation, LinkError> {
        self.send(&ToAgent::EndObservation)?;
        match self.receive("report its observations", GREETING)? {
            FromAgent::Observed(observation) => Ok(*observation),
            other => Err(LinkError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// Has the agent prepare its part of a load.
    pub fn prepare_load(&mut self, order: &serde_json::Value) -> Result<(), LinkError> {
        self.demand("load", "take part in a load")?;
        self.send(&ToAgent::PrepareLoad { order: Box::new(order.clone()) })?;
        match self.receive("prepare the load", GREETING)? {
            FromAgent::LoadReady => Ok(()),
            other => Err(LinkError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// The agent's monotonic clock less ours, in nanoseconds, and by how much that may be off: the quickest of some answers.
    pub fn clock_offset(&mut self, clock_ns: fn() -> u64) -> Result<(i64, u64), LinkError> {
        let mut best: Option<(i64, u64)> = None;
        for _ in 0..CLOCK_READINGS {
            let before = clock_ns();
            self.send(&ToAgent::ReadClock)?;
            let answer = self.receive("read its clock", GREETING)?;
            let took = clock_ns().saturating_sub(before);
            let FromAgent::Clock { monotonic_ns } = answer else {
                return Err(LinkError::OutOfTurn(format!("{answer:?}")));
            };
            let ours = before + took / 2;
            let offset = monotonic_ns.cast_signed().wrapping_sub(ours.cast_signed());
            if best.is_none_or(|(_, error)| took / 2 < error) {
                best = Some((offset, took / 2));
            }
        }
        Ok(best.unwrap_or_default())
    }

    /// Has the agent make so many system calls, or some more; nanoseconds of one, and of a page fault where that can be timed.
    pub(crate) fn time_calls(&mut self, calls: u64) -> Result<(f64, Option<f64>), LinkError> {
        self.demand("time-calls", "time system calls")?;
        self.send(&ToAgent::TimeCalls { calls })?;
        match self.receive("time system calls", GREETING)? {
            FromAgent::CallsTimed { call_ns, fault_ns } => Ok((call_ns, fault_ns)),
            other => Err(LinkError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// Has the agent make a system call with this argument.
    pub(crate) fn identify(&mut self, argument: u32) -> Result<(), LinkError> {
        self.demand("identify", "identify itself by a system call")?;
        self.send(&ToAgent::Identify { argument })?;
        match self.receive("identify itself", GREETING)? {
            FromAgent::Identified => Ok(()),
            other => Err(LinkError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// How long a short frame takes to the agent and back, in nanoseconds: the quickest of some.
    pub(crate) fn round_trip_ns(&mut self) -> Result<u64, LinkError> {
        let (_, half_ns) = self.clock_offset(now_ns)?;
        Ok(2 * half_ns)
    }

    /// Begins the prepared load at this moment of the agent's clock.
    pub fn start_load(&mut self, begin_ns: u64) -> Result<(), LinkError> {
        self.send(&ToAgent::StartLoad { begin_ns })
    }

    /// Begins the prepared load at this moment of the agent's clock, at level 0, to be steered from here.
    pub(crate) fn steer_load(&mut self, begin_ns: u64) -> Result<(), LinkError> {
        self.demand("steer-load", "change a load that runs")?;
        self.send(&ToAgent::SteerLoad { begin_ns })
    }

    /// Asks for what there is of a load.
    pub fn stop_load(&mut self) -> Result<(), LinkError> {
        self.send(&ToAgent::StopLoad)
    }

    /// What the agent has said, if anything; never waits.
    pub fn heard(&mut self) -> Result<Option<FromAgent>, LinkError> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(LinkError::Interrupted);
        }
        match self.frames.try_recv() {
            Ok(Ok(frame)) => Ok(Some(self.seen(frame))),
            Ok(Err(why)) => Err(self.lost(why)),
            Err(TryRecvError::Disconnected) => Err(self.lost(WireError::Closed)),
            Err(TryRecvError::Empty) => Ok(None),
        }
    }

    pub(crate) fn send(&mut self, message: &ToAgent) -> Result<(), LinkError> {
        let sent = self.to_agent.as_mut().map_or(Err(WireError::Closed), |stream| write_frame(stream, message));
        sent.map_err(|why| self.lost(why))
    }

    /// What the agent answers; that it failed is an error.
    pub(crate) fn receive(&mut self, what: &'static str, limit: Duration) -> Result<FromAgent, LinkError> {
        self.receive_until(what, limit, limit)
    }

    pub(crate) fn receive_until(
        &mut self,
        what: &'static str,
        left: Duration,
        limit: Duration,
    ) -> Result<FromAgent, LinkError> {
        let deadline = Instant::now() + left;
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(LinkError::Interrupted);
            }
            match self.frames.recv_timeout(GLANCE) {
                Ok(Ok(frame)) => match self.seen(frame) {
                    FromAgent::Failed { what, why } => return Err(LinkError::Refused { what, why }),
                    frame => return Ok(frame),
                },
                Ok(Err(why)) => return Err(self.lost(why)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost(WireError::Closed)),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                    return Err(self.silent(what, limit));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn seen(&mut self, frame: FromAgent) -> FromAgent {
        let ends = matches!(
            frame,
            FromAgent::TrialDone(_) | FromAgent::MemberDone(_) | FromAgent::TurnsDone(_) | FromAgent::Failed { .. }
        );
        if ends {
            self.in_a_trial = false;
        }
        frame
    }

    fn lost(&mut self, why: WireError) -> LinkError {
        LinkError::Lost { why, log: self.last_words() }
    }

    /// Ends the agent and gives the end of its log, indented, or nothing.
    fn last_words(&mut self) -> String {
        self.site.kill();
        let lines = self.site.log();
        if lines.is_empty() { String::new() } else { format!("; its last words:\n    {}", lines.join("\n    ")) }
    }
}

impl Drop for AgentLink<'_> {
    fn drop(&mut self) {
        let Some(mut stream) = self.to_agent.take() else { return };
        // A goodbye is courtesy: the site is killed when it is dropped, whether or not this arrives.
        drop(write_frame(&mut stream, &ToAgent::Goodbye));
        drop(stream);
        if self.in_a_trial {
            self.site.leave(LEAVING);
        }
    }
}
