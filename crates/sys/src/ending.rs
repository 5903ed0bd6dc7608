//! Waiting for a child with a limit, and ending one in order: asked by a signal first, killed when that was in vain.

use crate::confine;
use std::io;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How often is looked whether a child has ended.
const GLANCE: Duration = Duration::from_millis(2);

/// Waits for a child's own end until `is_over`, which is asked between looks; `None` when it has not come by then.
///
/// # Errors
/// What `waitpid(2)` gives.
pub fn wait_until(child: &mut Child, is_over: impl Fn() -> bool) -> io::Result<Option<ExitStatus>> {
    loop {
        match child.try_wait()? {
            None if !is_over() => thread::sleep(GLANCE),
            ended => return Ok(ended),
        }
    }
}

/// The same, at most `limit`.
///
/// # Errors
/// What `waitpid(2)` gives.
pub fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    wait_until(child, || Instant::now() >= deadline)
}

/// Asks a child to end by `signal`, and kills it when it has not after `grace`; it is gone then. One that has ended already is waited for.
pub fn end(child: &mut Child, signal: i32, grace: Duration) {
    if matches!(child.try_wait(), Ok(None)) {
        drop(confine::send(child.id().cast_signed(), signal));
        drop(wait(child, grace));
    }
    kill(child);
}

/// Kills a child and waits until it is gone.
pub fn kill(child: &mut Child) {
    drop(child.kill());
    drop(child.wait());
}
