//! One test in a process tree of its own: nothing that it started outlives it unseen.
//!
//! `supervise MODE LIMIT ENDING PROGRAM ARGUMENT...`: MODE is `plain`, or `apart` for private namespaces where they are permitted, or `inside`
//! for the first process of those. The program has LIMIT seconds; what it leaves then has ENDING seconds to end by itself: where nothing is
//! left these cost nothing. It exits with 0 when the program did, in time, and left nothing; else with 1.

use crate::namespaces;
use crate::processes::{descendants, described};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub fn main(words: &[OsString]) -> ExitCode {
    let supervised = || -> Result<bool, String> {
        let [mode, limit, ending, program, arguments @ ..] = words else {
            return Err("usage: supervise MODE LIMIT ENDING PROGRAM ARGUMENT...".to_owned());
        };
        let seconds = |word: &OsString| {
            let number = word.to_str().and_then(|text| text.parse().ok());
            number.map(Duration::from_secs).ok_or_else(|| format!("{}: no number of seconds", word.display()))
        };
        let limits = (seconds(limit)?, seconds(ending)?);
        match mode.to_str() {
            Some("plain") => {
                become_reaper()?;
                supervised(program, arguments, limits)
            }
            Some("apart") => {
                become_reaper()?;
                let permitted = namespaces::unshare();
                let mode = if permitted { "inside" } else { "plain" };
                let mut own = Command::new("/proc/self/exe");
                own.args(["supervise", mode]).args([limit, ending, program]).args(arguments);
                let child = started(&mut own).map_err(|why| format!("/proc/self/exe: {why}"))?;
                Ok(waited(child.id().cast_signed()) == Some(0))
            }
            Some("inside") => {
                namespaces::settle()?;
                supervised(program, arguments, limits)
            }
            _ => Err(format!("{}: no such mode", mode.display())),
        }
    };
    match supervised() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("test-runner supervise: {why}");
            ExitCode::from(2)
        }
    }
}

/// A session of its own without a terminal, the parent of all orphans below. When its own parent is gone, it ends them all and goes, too.
fn become_reaper() -> Result<(), String> {
    let action: extern "C" fn(libc::c_int) = give_up;
    // SAFETY: the action is a function that lives as long as the process; the other calls take numbers and touch no memory of ours.
    let done = unsafe {
        libc::setsid();
        let mut handler: libc::sigaction = std::mem::zeroed();
        handler.sa_sigaction = action as libc::sighandler_t;
        [libc::SIGTERM, libc::SIGALRM]
            .iter()
            .all(|signal| libc::sigaction(*signal, &raw const handler, std::ptr::null_mut()) == 0)
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) == 0
            && libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) == 0
    };
    done.then_some(()).ok_or_else(|| format!("prctl: {}", io::Error::last_os_error()))
}

/// Whether this process was asked to end.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// A signal that comes just before a wait begins, or to another thread, interrupts no wait: it is followed by others, a second apart.
extern "C" fn give_up(_: libc::c_int) {
    GIVEN_UP.store(true, Ordering::Relaxed);
    // SAFETY: takes a number, and may be called in a handler.
    unsafe { libc::alarm(1) };
}

/// Starts a child that ends with this process, and has the usual action for each signal: under `nohup` or in a shell's background some would be ignored.
fn started(command: &mut Command) -> io::Result<Child> {
    // SAFETY: prctl and signal are allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command.stdin(Stdio::null()).spawn()
}

/// Runs the program; whether it succeeded within its time and left no process.
fn supervised(
    program: &OsString,
    arguments: &[OsString],
    (limit, ending): (Duration, Duration),
) -> Result<bool, String> {
    let child =
        started(Command::new(program).args(arguments)).map_err(|why| format!("{}: {why}", program.display()))?;
    let pid = child.id().cast_signed();
    let (ended, timer) = timer(pid, limit);
    let succeeded = waited(pid) == Some(0);
    drop(ended);
    let in_time = timer.join().unwrap_or(false);
    Ok(left_nothing(ending) && succeeded && in_time)
}

/// Kills the process when its time is over, and says where it stood. Gives whether it ended in time.
fn timer(pid: i32, limit: Duration) -> (Sender<()>, JoinHandle<bool>) {
    let (ended, end) = channel::<()>();
    let thread = thread::spawn(move || {
        if end.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
            return true;
        }
        println!("not ended within {} s:", limit.as_secs());
        for process in descendants(own_pid()) {
            println!("  {}", described(&process));
        }
        kill(pid);
        false
    });
    (ended, thread)
}

/// Waits for this child, and for orphans, which become children of this process. Gives the wait status.
fn waited(pid: i32) -> Option<i32> {
    loop {
        let mut status = 0;
        // SAFETY: the status is ours.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if ended == pid {
            return Some(status);
        }
        if ended >= 0 {
            continue;
        }
        if GIVEN_UP.load(Ordering::Relaxed) {
            end_all();
            return None;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// Waits for what ends by itself, names and ends what does not.
fn left_nothing(ending: Duration) -> bool {
    let until = Instant::now() + ending;
    loop {
        reaped();
        let left = descendants(own_pid());
        if left.is_empty() {
            return true;
        }
        if Instant::now() > until {
            for process in &left {
                println!("left: {}", described(process));
            }
            end_all();
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Kills all that descend from this process, until there are none. One that the kernel does not let go of is left after a minute.
fn end_all() {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let left = descendants(own_pid());
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|process| kill(process.pid));
        thread::sleep(Duration::from_millis(1));
        reaped();
    }
}

fn reaped() {
    // SAFETY: no status is asked for.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

fn kill(pid: i32) {
    // SAFETY: kill takes two numbers and touches no memory of ours.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

fn own_pid() -> i32 {
    std::process::id().cast_signed()
}
