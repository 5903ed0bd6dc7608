//! Waiting that ends when the user no longer wants it.

use baremark_model::site::SiteError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often a waiting lab checks whether it was interrupted.
pub const GLANCE: Duration = Duration::from_millis(20);

/// The next thing from `channel` until `deadline`; the outer error is the interrupt.
pub fn receive<T>(
    channel: &Receiver<T>,
    deadline: Instant,
    interrupt: &AtomicBool,
) -> Result<Result<T, RecvTimeoutError>, SiteError> {
    loop {
        unless(interrupt)?;
        let left = deadline.saturating_duration_since(Instant::now());
        match channel.recv_timeout(left.min(GLANCE)) {
            Err(RecvTimeoutError::Timeout) if left > GLANCE => {}
            done => return Ok(done),
        }
    }
}

/// The interrupt as an error.
pub fn unless(interrupt: &AtomicBool) -> Result<(), SiteError> {
    if interrupt.load(Ordering::Relaxed) { Err(SiteError::Interrupted) } else { Ok(()) }
}
