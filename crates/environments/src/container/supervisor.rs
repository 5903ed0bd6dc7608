//! The supervisor of a container: a process between whoever wants a container and the engine's client.
//!
//! A client that is killed while it starts a container leaves the engine's monitor, what the runtime has started and the runtime's state, of
//! which the engine itself does not know yet. So whoever starts a container does not start the client, but this: it records the
//! container before it starts, lets the client finish the start when it is asked to end or its parent dies, and then removes the container. What
//! remains when the supervisor is killed too, the next start of the program removes by the record.

use super::leftovers::{self, Identities, Leftover};
use crate::child;
use baremark_journal::{Journal, JournalError, MakeError};
use baremark_model::site::SiteError;
use baremark_sys::end_request::{EndRequests, Event};
use baremark_sys::{ending, process};
use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long the engine may take to start a container that is no longer wanted.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long the client may take to notice that its container is gone.
const CLIENT_MOMENT: Duration = Duration::from_millis(200);
/// How long a supervisor takes at most to end what it has started.
pub const END_LIMIT: Duration = Duration::from_secs(60);

/// Why a container was not supervised to its end.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// There was nothing to start.
    #[error("no engine to start; write baremark supervise --name NAME -- ENGINE run ...")]
    NoEngine,
    /// The engine is not there.
    #[error("{0} is not installed; install it, or compare other environments")]
    NotInstalled(String),
    /// The system refused.
    #[error("supervising a container: {0}")]
    Io(#[from] io::Error),
    /// It was not started.
    #[error(transparent)]
    Start(#[from] MakeError<SiteError>),
    /// The client has ended, and the container could not be removed.
    #[error("the engine's client has ended ({status}); {source}")]
    Removal {
        /// How the client ended.
        status: ExitStatus,
        /// Why not.
        #[source]
        source: JournalError,
    },
}

/// Runs `words`, which is an engine's command line that starts the container `name`, and returns how that ended; the container is gone then.
/// `begins` is called just before the start, when the container is recorded.
///
/// # Errors
/// When the container cannot be recorded, started or removed.
pub fn supervise(
    journal: &Journal,
    name: &str,
    words: &[OsString],
    begins: impl FnOnce() -> io::Result<()>,
) -> Result<ExitStatus, SupervisorError> {
    let Some((engine, arguments)) = words.split_first() else { return Err(SupervisorError::NoEngine) };
    // A record of a container whose engine is not there could not be undone.
    let name_of_engine = engine.to_string_lossy();
    if process::installed(&name_of_engine, &[]).is_none() {
        return Err(SupervisorError::NotInstalled(name_of_engine.into_owned()));
    }
    let requests = EndRequests::expect()?;
    let container = Leftover::new(engine, name)?;
    let start = || {
        begins().map_err(SiteError::io("announcing the start"))?;
        child::spawn(Command::new(engine).args(arguments), libc::SIGKILL)
    };
    let (mut client, held) = journal.make(container.change()?, start)?;
    let (status, by_itself) = match requests.wait(&mut client)? {
        Event::Ended(status) => (status, true),
        Event::Requested => (end(&container, &mut client)?, false),
    };
    // A client that ended well by itself has seen its container removed.
    let removed = if by_itself && status.success() { held.gone() } else { held.undo().map(drop) };
    removed.map(|()| status).map_err(|source| SupervisorError::Removal { status, source })
}

/// Ends a container by its engine while the client lives. One that is still being made is not known yet, so that the engine is asked again until
/// the client has seen the end.
fn end(container: &Leftover, client: &mut Child) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + START_LIMIT;
    let mut identities = Identities::new();
    let status = loop {
        // The engine forgets it even where its runtime does not, so that its identity comes first.
        if container.identify(&mut identities)? {
            // What remains is looked for afterwards.
            drop(leftovers::remove(container));
        }
        if let Some(status) = ending::wait(client, CLIENT_MOMENT)? {
            break status;
        }
        if Instant::now() > deadline {
            client.kill()?;
            break client.wait()?;
        }
    };
    container.end(&mut identities).map(|_| status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_journal::change::Kind;
    use baremark_sys::private_folder::PrivateFolder;

    /// Each record of a container that podman was to start stayed for good where podman is not installed.
    #[test]
    fn nothing_is_recorded_of_an_engine_that_is_not_there() {
        let folder = PrivateFolder::create(&std::env::temp_dir(), "baremark-journal-").expect("a folder");
        let kinds: Vec<Box<dyn Kind>> = vec![Box::new(leftovers::Containers)];
        let journal = Journal::open(folder.path().join("journal"), kinds).expect("a journal");
        let words = ["/nowhere/podman", "run"].map(OsString::from);
        let why = supervise(&journal, "baremark-start-1-1", &words, || Ok(())).expect_err("no engine");
        assert!(why.to_string().starts_with("/nowhere/podman is not installed; "), "{why}");
        assert!(journal.recover().expect("read").failed.is_empty());
    }
}
