//! `baremark tend`: a program for as long as somebody holds standard input.
//!
//! The client of a container engine can be killed while its container continues, and an agent while what it has spawned goes
//! on. Standard input ends then, and this is who notices: it ends the program and everything that the program has started,
//! daemons included, for it adopts what they leave behind. It is two processes, so that this holds also when one is killed.

use crate::exit::{Exit, Refusal};
use baremark_sys::confine::{self, Limits, SIGKILL, SIGTERM};
use baremark_sys::supervisor::{self, Half};
use baremark_sys::{namespace, subreaper};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const GLANCE: Duration = Duration::from_millis(20);
/// How long processes that were killed may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(8);

/// Waits for the end of input and removes the folder then, if process `owner`, which started this, did not live to do it. It may have ended
/// before this process looks for the first time, and before it has made the folder.
pub fn guard(folder: &Path, owner: u32) -> Result<(String, Exit), Refusal> {
    drop(baremark_sys::process::wait_for_hang_up_of_stdin());
    let deadline = Instant::now() + END_LIMIT;
    // Programs that are just being ended may still write there; and a parent that is still ending removes it itself.
    while folder.exists() && Instant::now() < deadline {
        if std::os::unix::process::parent_id() != owner {
            drop(std::fs::remove_dir_all(folder));
        }
        thread::sleep(GLANCE);
    }
    Ok((String::new(), Exit::Success))
}

/// Where and as whom the program runs.
#[derive(clap::Args)]
pub struct Within {
    /// Run it in this network namespace, a file of /proc
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// Run it as this user and group
    #[arg(long, value_name = "USER:GROUP", value_parser = user_and_group)]
    user: Option<(u32, u32)>,
}

/// The numbers of a user and a group, as in `--user`.
pub(super) fn user_and_group(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once(':').and_then(|(user, group)| Some((user.parse().ok()?, group.parse().ok()?)));
    numbers.ok_or_else(|| format!("'{text}' must be two numbers; write such as 65534:65534"))
}

/// Runs the program and ends as it ended; a signal to stop is handed on, the end of input ends it at once.
pub fn run(command: &[OsString], within: &Within, interrupt: &AtomicBool) -> Result<(String, Exit), Refusal> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Refusal::bad_input("no program to tend"));
    };
    let guard = match supervisor::divide().map_err(Refusal::failure)? {
        Half::Guard(status) => return end_as(status),
        Half::Worker(guard) => guard,
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    if let Some(path) = &within.network {
        // Of this thread, by which the program is started.
        let entered = File::open(path).and_then(namespace::enter_network);
        entered.map_err(|why| Refusal::failure(format!("entering the network of {}: {why}", path.display())))?;
    }
    if let Some((user, group)) = within.user {
        command.uid(user).gid(group);
    }
    let _held = confine::hold(&mut command, &Limits::default(), SIGKILL).map_err(Refusal::failure)?;
    let mut child = subreaper::start(&mut command)
        .map_err(|why| Refusal::failure(format!("starting {}: {why}", program.to_string_lossy())))?;
    let left = Arc::new(AtomicBool::new(false));
    let [by_agent, by_guard] = [Arc::clone(&left), Arc::clone(&left)];
    thread::spawn(move || {
        drop(baremark_sys::process::wait_for_hang_up_of_stdin());
        by_agent.store(true, Ordering::Relaxed);
    });
    thread::spawn(move || {
        guard.wait_for_its_end();
        by_guard.store(true, Ordering::Relaxed);
    });
    let status = wait_for(&mut child, (interrupt, &left), GLANCE)?;
    subreaper::end_all_but(&[], END_LIMIT)
        .map_err(|why| Refusal::failure(format!("ending remaining processes: {why}")))?;
    end_as(status)
}

/// Waits for the end of a program that leads a group of its own, and looks every `glance`. An interrupt is handed on to the group; it is killed once
/// `left` says that who has started this is gone.
pub(super) fn wait_for(
    child: &mut Child,
    (interrupt, left): (&AtomicBool, &AtomicBool),
    glance: Duration,
) -> Result<ExitStatus, Refusal> {
    let group = -i32::try_from(child.id()).unwrap_or(i32::MAX);
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait().map_err(Refusal::failure)? {
            return Ok(status);
        }
        if left.load(Ordering::Relaxed) {
            drop(confine::send(group, SIGKILL));
        } else if interrupt.load(Ordering::Relaxed) && !told {
            told = true;
            drop(confine::send(group, SIGTERM));
        }
        thread::sleep(glance);
    }
}

/// Ends this process as the program has ended.
pub fn end_as(status: ExitStatus) -> Result<(String, Exit), Refusal> {
    if let Some(signal) = status.signal() {
        // Comes back for signals that end nobody.
        drop(signal_hook::low_level::emulate_default_handler(signal));
    }
    #[expect(clippy::exit, reason = "an exit code of the program itself")]
    std::process::exit(status.code().unwrap_or(1))
}
