//! Programs that are stopped where they are, and go on.

use baremark_sys::suspended::Suspended;
use baremark_sys::{confine, process_tree};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// A shell in a process group of its own, which is killed with all of it.
struct Group(Child);

impl Group {
    fn of(script: &str) -> Group {
        Group(Command::new("/bin/sh").args(["-c", script]).process_group(0).spawn().unwrap())
    }

    /// CPU time of it and of all that it has started.
    fn cpu_ns(&self) -> u64 {
        process_tree::pids(self.0.id()).unwrap().into_iter().filter_map(process_tree::cpu_ns).sum()
    }

    /// Its processes and their CPU time, once neither changes within 20 ms: what has stopped may still leave its CPU. Programs that run never come to that.
    fn settled(&self) -> (Vec<u32>, u64) {
        let now = || (process_tree::pids(self.0.id()).unwrap(), self.cpu_ns());
        let deadline = Instant::now() + LIMIT;
        loop {
            let before = now();
            thread::sleep(Duration::from_millis(20));
            if before == now() {
                return before;
            }
            assert!(Instant::now() < deadline, "it runs on: {before:?}");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: takes two numbers; the group is that of a child that was not waited for.
        unsafe { libc::kill(-self.0.id().cast_signed(), libc::SIGKILL) };
        self.0.wait().unwrap();
    }
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn programs_that_spin_use_no_cpu_time_while_they_are_suspended_and_go_on() {
    let group = Group::of("(while :; do :; done) & (while :; do :; done) & while :; do :; done");
    wait_for("it spins", || process_tree::pids(group.0.id()).unwrap().len() == 3 && group.cpu_ns() > 20_000_000);
    for round in 0..20 {
        let suspended = Suspended::of(group.0.id(), LIMIT).unwrap();
        let (_, before_ns) = group.settled();
        assert_eq!(suspended.cpu_ns(), before_ns, "all of it is suspended, round {round}");
        drop(suspended);
        wait_for("it goes on", || group.cpu_ns() > before_ns + 2_000_000);
    }
}

#[test]
fn nothing_runs_of_a_program_that_forks_while_it_is_suspended() {
    let group = Group::of("while :; do (:); done");
    wait_for("it forks", || group.cpu_ns() > 20_000_000);
    for _ in 0..50 {
        let suspended = Suspended::of(group.0.id(), LIMIT).unwrap();
        group.settled();
        drop(suspended);
    }
    let before_ns = group.cpu_ns();
    wait_for("it goes on", || group.cpu_ns() != before_ns);
}

/// Somebody else lets it go on: a process that is started then was never stopped.
#[test]
fn cpu_time_of_a_process_that_is_started_while_a_program_should_rest_is_seen() {
    let group = Group::of("while :; do (i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); done");
    wait_for("it computes", || process_tree::pids(group.0.id()).unwrap().len() == 2 && group.cpu_ns() > 20_000_000);
    let suspended = Suspended::of(group.0.id(), LIMIT).unwrap();
    group.settled();
    let of_stopped =
        || suspended.processes().iter().filter_map(|process| process_tree::cpu_ns(process.pid)).sum::<u64>();
    assert_eq!(suspended.cpu_ns(), of_stopped());
    for process in suspended.processes() {
        confine::send(process.pid.cast_signed(), libc::SIGCONT).unwrap();
    }
    wait_for("it is seen", || suspended.cpu_ns() > of_stopped() + 2_000_000);
}

const STARTER: &str = "BAREMARK_SYS_STARTER";

/// Not a test: a process that starts others by vfork(2) all the time.
#[test]
fn starter() {
    while std::env::var_os(STARTER).is_some() {
        Command::new("true").status().unwrap();
    }
}

/// Its parent waits for a child that was stopped before its program was executed, and does not stop.
#[test]
fn a_program_that_waits_for_children_by_vfork_is_suspended() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "suspended::starter", "--nocapture"]).env(STARTER, "1").stdout(Stdio::null());
    let group = Group(command.process_group(0).spawn().unwrap());
    wait_for("it starts others", || process_tree::pids(group.0.id()).unwrap().len() == 2);
    for _ in 0..20 {
        let suspended = Suspended::of(group.0.id(), LIMIT).unwrap();
        group.settled();
        drop(suspended);
    }
}
