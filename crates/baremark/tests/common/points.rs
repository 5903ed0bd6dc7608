//! Processes that stop themselves at a named point of the program (`baremark_sys::point`).

use super::bench::signal;
use baremark_sys::point::STOP_AT;
use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// What hangs is ended after this.
const PATIENCE: Duration = Duration::from_secs(180);

/// Starts a program that stops itself at this point, and waits until it has. Its streams must not fill up before.
pub fn stopped_at(command: &mut Command, point: &str) -> Child {
    let mut child = command.env(STOP_AT, point).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !is_stopped(child.id()) {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("{point} was not reached: {status}; {:?}", child.wait_with_output());
        }
        assert!(Instant::now() < deadline, "{point} was not reached");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Waits until one of the processes that `among` gives has stopped itself, while `child` runs.
pub fn one_stopped(child: &mut Child, point: &str, mut among: impl FnMut() -> Vec<u32>) -> u32 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(stopped) = among().into_iter().find(|pid| is_stopped(*pid)) {
            return stopped;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before it reached {point}");
        assert!(Instant::now() < deadline, "{point} was not reached");
        // Whoever lists processes reads all that there are.
        thread::sleep(Duration::from_millis(50));
    }
}

/// Whether a process is stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

/// Kills a child and waits for its end.
pub fn kill(child: &mut Child) {
    signal(child.id(), libc::SIGKILL);
    child.wait().unwrap();
}

/// Has a stopped child go on, with an interrupt that waits for it.
pub fn interrupt(child: &Child) {
    signal(child.id(), libc::SIGINT);
    signal(child.id(), libc::SIGCONT);
}
