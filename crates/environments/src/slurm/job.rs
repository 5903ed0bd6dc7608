//! One job in Slurm's queue, known by a name that nobody else's has.

use super::settings::{ANSWER_LIMIT, Settings};
use crate::child;
use std::fmt;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a cancelled job may take to leave the queue before it is left to Slurm.
const LEAVE_LIMIT: Duration = Duration::from_secs(40);
/// How long the queue may say nothing of a job before that counts as its end: a controller that is busy or restarts does not answer.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(30);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A job, submitted or about to be.
pub struct Job {
    name: String,
    settings: Settings,
}

/// What the queue says of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    number: String,
    state: String,
    reason: String,
}

impl Look {
    /// From a line of `squeue --format=%i|%T|%r`.
    fn of(line: &str) -> Option<Self> {
        let mut words = line.trim().splitn(3, '|').map(str::to_owned);
        Some(Look { number: words.next()?, state: words.next()?, reason: words.next()? })
    }

    /// Whether it has not begun.
    pub fn pending(&self) -> bool {
        ["PENDING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED", "STOPPED"].contains(&self.state.as_str())
    }

    /// Whether nothing of it runs any more.
    pub fn ended(&self) -> bool {
        !self.pending()
            && !["RUNNING", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT"]
                .contains(&self.state.as_str())
    }
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} is {}", self.number, self.state)?;
        if self.reason == "None" { Ok(()) } else { write!(f, " ({})", self.reason) }
    }
}

/// Whether a job that was there has ended, by what the queue says from time to time.
#[derive(Debug, Default)]
pub struct Watched {
    /// Since when it says nothing.
    unknown_since: Option<Instant>,
}

impl Watched {
    /// By what it says now.
    pub fn has_ended(&mut self, look: Option<&Look>, now: Instant) -> bool {
        match look {
            Some(look) => {
                self.unknown_since = None;
                look.ended()
            }
            None => now.duration_since(*self.unknown_since.get_or_insert(now)) >= UNKNOWN_LIMIT,
        }
    }
}

impl Job {
    /// With a new name.
    pub fn new(settings: &Settings) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let lab = std::process::id();
        let name = format!("{}{lab}-{}-{number}", prefix(), begun(lab).unwrap_or_default());
        Job { name, settings: settings.clone() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the queue says; `None` where it does not know the job, or does not answer in time.
    pub fn look(&self) -> Option<Look> {
        let mut squeue = self.settings.tool("squeue");
        squeue.args(["--noheader", "--states=all", "--format=%i|%T|%r"]).arg(format!("--name={}", self.name));
        lines(&mut squeue).iter().find_map(|line| Look::of(line))
    }

    /// Has Slurm end it, wherever it is.
    pub fn cancel(&self) {
        cancel(&self.settings, &self.name);
    }

    /// Waits until nothing of it runs any more; asks Slurm again meanwhile.
    pub fn wait_until_gone(&self) {
        let deadline = Instant::now() + LEAVE_LIMIT;
        let mut pause = Duration::from_millis(50);
        while self.look().is_some_and(|look| !look.ended()) && Instant::now() < deadline {
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
            self.cancel();
        }
    }
}

/// Cancels the jobs of labs on this machine that are no more.
pub fn sweep(settings: &Settings) {
    let mut squeue = settings.tool("squeue");
    squeue.args(["--noheader", "--me", "--format=%j"]);
    for name in lines(&mut squeue).iter().filter(|name| is_orphan(name.trim())) {
        cancel(settings, name.trim());
    }
}

/// Whether a job's name says that a lab on this machine submitted it which is gone.
fn is_orphan(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(&prefix()) else { return false };
    let numbers: Result<Vec<u64>, _> = rest.split('-').map(str::parse::<u64>).collect();
    // More of them are the end of another machine's name, such as login-2 where this one is login.
    let Ok([lab, then, _]) = numbers.as_deref() else { return false };
    u32::try_from(*lab).ok().and_then(begun) != Some(*then)
}

fn cancel(settings: &Settings, name: &str) {
    let mut scancel = settings.tool("scancel");
    drop(lines(scancel.arg("--quiet").arg(format!("--name={name}"))));
}

/// What a command says; nothing where it fails or is too late.
fn lines(command: &mut Command) -> Vec<String> {
    match child::run(command, ANSWER_LIMIT) {
        Ok(ran) if ran.well() => ran.said,
        _ => Vec::new(),
    }
}

/// How the names of this machine's jobs begin.
fn prefix() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("baremark-{}-", host.trim())
}

/// When a process began, in ticks since the boot; `None` where there is none. With its number it names it for ever.
fn begun(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_queue_is_understood() {
        let look = Look::of(" 12|PENDING|ReqNodeNotAvail, UnavailableNodes:n1").expect("three fields");
        assert!(look.pending() && !look.ended());
        assert_eq!(look.to_string(), "job 12 is PENDING (ReqNodeNotAvail, UnavailableNodes:n1)");
        let look = Look::of("12|TIMEOUT|TimeLimit").expect("three fields");
        assert!(look.ended() && !look.pending());
        let look = Look::of("12|RUNNING|None").expect("three fields");
        assert_eq!((look.ended(), look.to_string().as_str()), (false, "job 12 is RUNNING"));
        assert_eq!(Look::of("slurm_load_jobs error: Unable to contact slurm controller"), None);
    }

    /// One question that the controller did not answer in time ended the trial of a job that went on.
    #[test]
    fn a_queue_that_does_not_answer_ends_no_job_at_once() {
        let look = |state: &str| Look::of(&format!("12|{state}|None"));
        let (mut watched, begin) = (Watched::default(), Instant::now());
        let mut has_ended = |look: Option<Look>, after: Duration| watched.has_ended(look.as_ref(), begin + after);
        let nearly = UNKNOWN_LIMIT - Duration::from_secs(1);
        assert!(!has_ended(None, Duration::ZERO) && !has_ended(None, nearly));
        assert!(!has_ended(look("RUNNING"), nearly) && !has_ended(None, UNKNOWN_LIMIT), "it is known again");
        assert!(has_ended(None, 2 * UNKNOWN_LIMIT) && has_ended(look("COMPLETED"), Duration::ZERO));
    }

    #[test]
    fn only_the_jobs_of_labs_that_are_gone_are_orphans() {
        let settings = Settings::default();
        let own = Job::new(&settings);
        assert!(!is_orphan(own.name()), "{}", own.name());
        assert!(is_orphan(&format!("{}{}-1-0", prefix(), std::process::id())), "the number is somebody else's by now");
        assert!(
            !is_orphan("simulation") && !is_orphan("baremark-other-1-1-1") && !is_orphan(&format!("{}x-1-0", prefix()))
        );
        assert!(!is_orphan(&format!("{}2-4711-123456-0", prefix())), "another machine's, whose name is longer");
    }
}
