//! Frames between the lab and the agent in a guest, paced as `model::flow_control` says.

use crate::interruptible::receive;
use baremark_model::flow_control::{self, Credit, ToGuest};
use baremark_model::site::{Link, SiteError};
use std::io::{self, PipeReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Instant;

/// Why there is no agent.
pub(crate) enum NotThere {
    /// The guest is gone.
    Ended,
    /// The time is over.
    Silent,
    /// It could not be waited for.
    Other(SiteError),
}

impl From<SiteError> for NotThere {
    fn from(why: SiteError) -> Self {
        NotThere::Other(why)
    }
}

/// Carries frames between the guest's port and a pipe, once the guest says that it listens. The reading end is dropped
/// when the guest's stream has ended.
///
/// # Errors
/// Why there is no agent by `deadline`.
pub(crate) fn connect(
    from_port: impl Read + Send + 'static,
    to_port: impl Write + Send + 'static,
    deadline: Instant,
    interrupt: &AtomicBool,
) -> Result<Link, NotThere> {
    let (from_agent, passed): (PipeReader, _) = io::pipe().map_err(SiteError::io("piping to the guest"))?;
    let credit = Arc::new(Credit::default());
    let granted = Arc::clone(&credit);
    let (ready, is_ready) = sync_channel(1);
    thread::spawn(move || {
        // Whoever waits for a guest that is too late has left.
        let tell = move || ready.send(()).unwrap_or_default();
        flow_control::from_guest(from_port, tell, passed, &granted)
    });
    match receive(&is_ready, deadline, interrupt)? {
        Ok(()) => {
            let to_agent = Box::new(ToGuest { port: to_port, credit });
            Ok(Link { from_agent: Box::new(from_agent), to_agent })
        }
        Err(RecvTimeoutError::Disconnected) => Err(NotThere::Ended),
        Err(RecvTimeoutError::Timeout) => Err(NotThere::Silent),
    }
}
