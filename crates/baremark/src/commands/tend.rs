//! `baremark tend`: a program for as long as somebody holds standard input.
//!
//! The client of a container engine can be killed while its container goes on; the container's input ends then, and this is
//! who notices.

use crate::exit::{Exit, Refusal};
use baremark_sys::confine::{self, Limits};
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const GLANCE: Duration = Duration::from_millis(20);

/// Runs the program; a signal to stop is handed on, the end of input ends it at once.
pub fn run(command: &[OsString], interrupt: &AtomicBool) -> Result<(String, Exit), Refusal> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Refusal::bad_input("no program to tend"));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let _held = confine::hold(&mut command, &Limits::default(), SIGKILL).map_err(Refusal::failure)?;
    let mut child =
        command.spawn().map_err(|why| Refusal::failure(format!("starting {}: {why}", program.to_string_lossy())))?;
    let group = -i32::try_from(child.id()).unwrap_or(i32::MAX);
    let left = Arc::new(AtomicBool::new(false));
    let alone = Arc::clone(&left);
    thread::spawn(move || {
        drop(baremark_sys::process::wait_for_hang_up_of_stdin());
        alone.store(true, Ordering::Relaxed);
    });
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait().map_err(Refusal::failure)? {
            return Ok((String::new(), if status.success() { Exit::Success } else { Exit::Failure }));
        }
        if left.load(Ordering::Relaxed) {
            drop(confine::send(group, SIGKILL));
        } else if interrupt.load(Ordering::Relaxed) && !told {
            told = true;
            drop(confine::send(group, signal_hook::consts::SIGTERM));
        }
        thread::sleep(GLANCE);
    }
}

const SIGKILL: i32 = 9;
