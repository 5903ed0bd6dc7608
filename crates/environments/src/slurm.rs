//! A job of a Slurm cluster: Slurm decides where and when, baremark submits, waits, talks and cancels.
//!
//! With `srun` the agent's streams are srun's own. With `sbatch`, for clusters where only batch jobs are let in, they are
//! two files in a folder that all nodes see. Either way the agent is the job's first task; further tasks leave
//! at once, and their places in the allocation are there for what the agent starts. The job bears a
//! name that nobody else's has, by which it is watched and cancelled; it names the lab's process too, so that jobs of labs
//! that died without a word are found and cancelled by the next.

mod batch;
mod job;
mod settings;
pub(crate) mod study;

pub use settings::{Launcher, Settings};

use crate::child::{self, Piped};
use crate::interruptible::receive;
use crate::ready_line::agent_in;
use baremark_model::site::{Environment, Link, Missing, Site, SiteError};
use job::{Job, Look};
use settings::ANSWER_LIMIT;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long srun may take to end once its job is cancelled.
const END_LIMIT: Duration = Duration::from_secs(5);
/// How soon the queue is first looked into, and how seldom at last: many labs ask the same controller.
const FIRST_LOOK: Duration = Duration::from_millis(500);
const LAST_LOOK: Duration = Duration::from_secs(5);

/// The slurm environment: one job for each site.
pub struct Slurm {
    program: PathBuf,
    settings: Settings,
    swept: Once,
}

impl Slurm {
    /// With this program as the agent; with srun it must be at the same path on all nodes.
    #[must_use]
    pub fn new(program: PathBuf, settings: Settings) -> Self {
        Slurm { program, settings, swept: Once::new() }
    }

    fn interactive(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        let job = Job::new(&self.settings);
        let mut command = self.settings.tool("srun");
        // Unbuffered: a buffered stream is held back until a line ends, and frames have no lines.
        command.args(["--quiet", "--unbuffered", "--kill-on-bad-exit=0"]);
        self.settings.ask(&mut command, job.name());
        if self.settings.ntasks > 1 {
            command.args(["--input=0", "--output=0"]);
        }
        command.arg(&self.program).args(["agent", "--announce"]);
        let mut srun = Piped::launch(&mut command, END_LIMIT)?;
        let (from, to_agent) = srun.streams("srun")?;
        let heard = self.wait_for_agent(&job, &agent_in(from), interrupt);
        let mut site = SrunSite { srun, job, link: None, ended: None, gone: false };
        match heard {
            Ok(from_agent) => {
                site.link = Some(Link { from_agent, to_agent: Box::new(to_agent) });
                Ok(Box::new(site))
            }
            Err(NotThere::Other(why)) => Err(why),
            Err(NotThere::Because(what)) => {
                site.kill();
                Err(SiteError::NotReady { what, log: site.log() })
            }
        }
    }

    /// What the agent says, once it is there.
    fn wait_for_agent(
        &self,
        job: &Job,
        agent: &Receiver<Box<dyn Read + Send>>,
        interrupt: &AtomicBool,
    ) -> Result<Box<dyn Read + Send>, NotThere> {
        let Settings { pending_limit, start_limit, .. } = self.settings;
        let submitted = Instant::now();
        let mut running: Option<Instant> = None;
        let mut pause = FIRST_LOOK;
        loop {
            match receive(agent, Instant::now() + pause, interrupt)? {
                Ok(from_agent) => return Ok(from_agent),
                Err(RecvTimeoutError::Disconnected) => {
                    let what = "the job ended before its agent was there".to_owned();
                    return Err(NotThere::Because(what));
                }
                Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(LAST_LOOK),
            }
            match job.look() {
                Some(look) if look.ended() => {
                    return Err(NotThere::Because(format!("{look} before its agent was there")));
                }
                Some(look) if look.pending() => {
                    if submitted.elapsed() >= pending_limit {
                        let seconds = pending_limit.as_secs();
                        return Err(NotThere::Because(format!("{look} and still waits after {seconds} s")));
                    }
                    pause = pause.min(pending_limit.saturating_sub(submitted.elapsed()));
                }
                look => {
                    let since = *running.get_or_insert_with(Instant::now);
                    if since.elapsed() >= start_limit {
                        let look =
                            look.map_or_else(|| format!("{} is not in the queue", job.name()), |l| l.to_string());
                        let seconds = start_limit.as_secs();
                        return Err(NotThere::Because(format!(
                            "{look}, but its agent did not connect within {seconds} s"
                        )));
                    }
                }
            }
        }
    }

    /// What the cluster says of the partition that is requested, or of all.
    fn partition_is_up(&self) -> Result<(), Missing> {
        // Of what a command says the last lines alone are kept: a cluster may have more partitions than these.
        let of = |partition: Option<&String>| {
            let mut sinfo = self.settings.tool("sinfo");
            sinfo.args(["--noheader", "--format=%R %a"]).args(partition.map(|name| format!("--partition={name}")));
            child::run(&mut sinfo, ANSWER_LIMIT).map_err(|why| Missing {
                what: format!("Slurm cannot be used: {why}"),
                remedy: "install its commands (slurm-client on Debian)".to_owned(),
            })
        };
        let asked = self.settings.partition.as_ref();
        let is_asked = |line: &String| line.split_whitespace().next() == asked.map(String::as_str);
        let mut ran = of(asked)?;
        if asked.is_some() && !ran.said.iter().any(is_asked) {
            ran = of(None)?;
        }
        if !ran.well() {
            let remedy = "see whether `sinfo` works: slurm.conf, slurmctld, munge".to_owned();
            return Err(Missing { what: format!("Slurm does not answer: {}", ran.failure()), remedy });
        }
        let known: Vec<(&str, &str)> = ran.said.iter().filter_map(|line| line.trim().split_once(' ')).collect();
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        match &self.settings.partition {
            Some(asked) => match known.iter().find(|(name, _)| name == asked) {
                Some((_, state)) if state.trim() == "up" => Ok(()),
                Some((_, state)) => Err(Missing {
                    what: format!("Slurm's partition {asked} is {}", state.trim()),
                    remedy: "take another, or ask the cluster's administrator".to_owned(),
                }),
                None => Err(Missing {
                    what: format!("Slurm has no partition {asked}"),
                    remedy: format!("take one of {}", names.join(", ")),
                }),
            },
            None if known.is_empty() => Err(Missing {
                what: "Slurm has no partition for this user".to_owned(),
                remedy: "ask the cluster's administrator".to_owned(),
            }),
            None => Ok(()),
        }
    }
}

impl Environment for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn probe(&self) -> Result<(), Missing> {
        self.partition_is_up()?;
        child::has_its_program(&self.program)
    }

    fn start(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        self.swept.call_once(|| job::sweep(&self.settings));
        match self.settings.launcher {
            Launcher::Srun => self.interactive(interrupt),
            Launcher::Sbatch => self.batch(interrupt),
        }
    }
}

/// Why there is no agent.
enum NotThere {
    /// The job did not become what it should, in words.
    Because(String),
    /// It could not be waited for.
    Other(SiteError),
}

impl From<SiteError> for NotThere {
    fn from(why: SiteError) -> Self {
        NotThere::Other(why)
    }
}

struct SrunSite {
    srun: Piped,
    job: Job,
    link: Option<Link>,
    ended: Option<Look>,
    gone: bool,
}

impl Site for SrunSite {
    fn link(&mut self) -> Option<Link> {
        self.link.take()
    }

    fn kill(&mut self) {
        if self.gone {
            return;
        }
        self.gone = true;
        // An agent that left by itself has seen to everything, and the queue need not be asked.
        if !self.srun.ended_well() {
            self.ended = self.job.look();
            self.job.cancel();
            self.srun.kill();
            self.job.wait_until_gone();
        }
        self.srun.kill();
    }

    fn log(&self) -> Vec<String> {
        let mut log = self.srun.log();
        log.extend(self.ended.as_ref().map(|look| format!("Slurm says: {look}")));
        log
    }
}

impl Drop for SrunSite {
    fn drop(&mut self) {
        self.kill();
    }
}
