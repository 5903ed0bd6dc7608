//! The way between the lab and the agent in a container: a socket that the container sees, else the engine's standard streams.
//!
//! Whatever passes messages on works on this machine's CPUs, also when the phase of the agent has begun: Go's runtime, in which engines are written, looks
//! after its threads every 0.1 ms for as long as 10 ms after each message, which has taken 6 % of a kernel's rate where its phases were short. Through a socket the agent and
//! the lab speak without anybody between them. An agent that cannot connect to it, such as one with a kernel of its own, says so over the streams, and they are used.

use crate::child::{GO_RELAY, Piped};
use crate::folder::Folder;
use baremark_model::flow_control::READY;
use baremark_model::site::{Link, SiteError};
use baremark_sys::container_engine::{Access, mounted};
use baremark_sys::private_folder::directory::Directory;
use baremark_sys::ready::Ready;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where a container sees the socket: in the folder that is its own whatever its root is, so that no mount point is made in a root that is somebody's.
pub(super) const INSIDE: &str = "/dev/baremark/frames";
/// Its folder there, which is mounted: a socket alone is nothing that gVisor mounts.
const FOLDER_INSIDE: &str = "/dev/baremark";
/// Its folder in the container's private folder, and its name.
const FOLDER: &str = "frames";
const NAME: &str = "frames";

/// The lab's end.
pub(super) struct Frames {
    folder: PathBuf,
    /// Until the agent's streams are taken; `None` without a socket.
    listener: Option<UnixListener>,
    out: Arc<Mutex<Out>>,
}

/// The way to the agent.
struct Out {
    to: To,
    /// The client's input, whose end shows the agent that the lab has gone; whatever the way, it is open until then.
    input: Option<ChildStdin>,
}

/// Where messages go.
enum To {
    /// Nobody has spoken yet: they are kept.
    Unknown(Vec<u8>),
    /// To the agent itself.
    Socket(UnixStream),
    /// To the client's input.
    Streams,
    /// Nowhere any more.
    Gone,
}

impl Frames {
    /// With a `socket` in this folder, which nobody else can enter, or without one.
    pub(super) fn of(folder: &Folder, socket: bool) -> Result<Self, SiteError> {
        let folder = folder.path().join(FOLDER);
        let listen = || {
            Directory::make_new(&folder)?;
            // An image may run its programs as another user, who finds it in the container alone.
            fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
            // An address has 108 bytes; a folder may have a longer path.
            let short = File::open(&folder)?;
            let listener = UnixListener::bind(format!("/proc/self/fd/{}/{NAME}", short.as_raw_fd()))?;
            fs::set_permissions(folder.join(NAME), Permissions::from_mode(0o666))?;
            Ok(listener)
        };
        let listener = socket.then(listen).transpose();
        let listener = listener.map_err(SiteError::io(format!("making a socket in {}", folder.display())))?;
        let out = Out { to: To::Unknown(Vec::new()), input: None };
        Ok(Frames { folder, listener, out: Arc::new(Mutex::new(out)) })
    }

    /// The options that show it in a container.
    pub(super) fn options(&self) -> Vec<OsString> {
        match self.listener {
            Some(_) => mounted(&self.folder, Path::new(FOLDER_INSIDE), Access::Read).into(),
            None => Vec::new(),
        }
    }

    /// The agent's streams, once, with those of the engine's client.
    pub(super) fn link(&mut self, client: &mut Piped) -> Option<Link> {
        let (output, input) = client.streams("the agent").ok()?;
        locked(&self.out).input = Some(input);
        let from_agent = FromAgent {
            waits: true,
            listener: self.listener.take(),
            socket: None,
            client: output,
            out: Arc::clone(&self.out),
        };
        Some(Link { from_agent: Box::new(from_agent), to_agent: Box::new(ToAgent(Arc::clone(&self.out))) })
    }

    /// For how long whatever passes messages on goes on working after each.
    pub(super) fn relay_works_for(&self) -> Duration {
        if matches!(locked(&self.out).to, To::Streams) { GO_RELAY } else { Duration::ZERO }
    }
}

fn locked(out: &Mutex<Out>) -> MutexGuard<'_, Out> {
    out.lock().unwrap_or_else(PoisonError::into_inner)
}

struct ToAgent(Arc<Mutex<Out>>);

impl Write for ToAgent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Out { to, input } = &mut *locked(&self.0);
        match (to, input) {
            (To::Unknown(kept), _) => kept.write(bytes),
            (To::Socket(socket), _) => socket.write(bytes),
            (To::Streams, Some(input)) => input.write(bytes),
            (To::Streams, None) | (To::Gone, _) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ToAgent {
    fn drop(&mut self) {
        let mut out = locked(&self.0);
        if let To::Socket(socket) = std::mem::replace(&mut out.to, To::Gone) {
            // The reading half has it open as well. An agent that is gone has been told already.
            drop(socket.shutdown(Shutdown::Write));
        }
        out.input = None;
    }
}

struct FromAgent {
    /// Nobody has spoken yet.
    waits: bool,
    listener: Option<UnixListener>,
    /// Where the agent has connected.
    socket: Option<UnixStream>,
    client: ChildStdout,
    out: Arc<Mutex<Out>>,
}

impl FromAgent {
    /// Waits until the agent has connected, has said that it cannot, or is gone; messages go the way that is found, with those that were kept.
    fn first_word(&mut self) -> io::Result<()> {
        // Nobody connects twice.
        if let Some(listener) = self.listener.take() {
            let mut ready = Ready::of(vec![listener.as_fd(), self.client.as_fd()]);
            while !ready.is(0) && !ready.is(1) {
                ready.wait(None)?;
            }
            self.socket = ready.is(0).then(|| listener.accept()).transpose()?.map(|(socket, _)| socket);
        }
        let mut said = [0; READY.len()];
        if self.socket.is_none() && (self.client.read_exact(&mut said).is_err() || said != *READY) {
            locked(&self.out).to = To::Gone;
            return Ok(());
        }
        let Out { to, input } = &mut *locked(&self.out);
        // Unless the lab has left meanwhile.
        if let To::Unknown(kept) = to {
            *to = match (&self.socket, input) {
                (Some(socket), _) => {
                    let mut socket = socket.try_clone()?;
                    socket.write_all(kept)?;
                    To::Socket(socket)
                }
                (None, Some(input)) => input.write_all(kept).map(|()| To::Streams)?,
                (None, None) => To::Gone,
            };
        }
        Ok(())
    }
}

impl Read for FromAgent {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if std::mem::take(&mut self.waits) {
            self.first_word()?;
        }
        let Some(socket) = &mut self.socket else { return self.client.read(bytes) };
        match socket.read(bytes) {
            Ok(count) if count > 0 => Ok(count),
            Err(why) if why.kind() != io::ErrorKind::ConnectionReset => Err(why),
            // Its last words are in the log when the engine's client is done.
            Ok(_) | Err(_) => io::copy(&mut self.client, &mut io::sink()).map(|_| 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::thread;

    /// Frames in a folder with a long path, and a shell as the engine's client.
    fn played(script: &str, socket: bool) -> (Folder, Frames, Link, Piped) {
        let folder = Folder::create(
            "frames-of-a-container-whose-folder-has-a-path-longer-than-any-address-of-a-socket-may-be-so-that-it-is-bound-in-its-folder",
        );
        let folder = folder.expect("a folder");
        let mut frames = Frames::of(&folder, socket).expect("a socket");
        assert_eq!(frames.options().len(), if socket { 2 } else { 0 });
        let mut client = Piped::spawn(Command::new("sh").args(["-c", script])).expect("a shell");
        let link = frames.link(&mut client).expect("the only link");
        (folder, frames, link, client)
    }

    #[test]
    fn an_agent_that_connects_speaks_past_the_client_and_sees_the_lab_go() {
        let (folder, frames, Link { mut from_agent, mut to_agent }, _client) =
            played("cat > /dev/null; echo noise", true);
        to_agent.write_all(b"hello ").expect("kept until somebody connects");
        let inside = File::open(folder.path().join(FOLDER)).expect("the folder");
        let path = format!("/proc/self/fd/{}/{NAME}", inside.as_raw_fd());
        let agent = thread::spawn(move || {
            let mut socket = UnixStream::connect(path).expect("anybody may connect");
            socket.write_all(b"here").expect("said");
            let mut heard = String::new();
            socket.read_to_string(&mut heard).expect("until the lab has gone");
            heard
        });
        let mut said = [0; 4];
        from_agent.read_exact(&mut said).expect("what the agent says");
        assert_eq!((&said, frames.relay_works_for()), (b"here", Duration::ZERO));
        to_agent.write_all(b"there").expect("sent");
        drop(to_agent);
        assert_eq!(agent.join().expect("no panic"), "hello there");
        // The client's input has ended, too: it says something that is no frame, and ends.
        assert_eq!(from_agent.read(&mut said).expect("the end"), 0);
    }

    #[test]
    fn an_agent_that_cannot_connect_is_heard_over_the_client() {
        let script = format!("printf '{}'; read word; printf \"heard $word\"", String::from_utf8_lossy(READY));
        for socket in [true, false] {
            let (_folder, frames, Link { mut from_agent, mut to_agent }, _client) = played(&script, socket);
            to_agent.write_all(b"hello\n").expect("kept until it speaks");
            let mut said = String::new();
            from_agent.read_to_string(&mut said).expect("until it ends");
            assert_eq!((said.as_str(), frames.relay_works_for()), ("heard hello", GO_RELAY));
        }
    }

    #[test]
    fn a_client_that_ends_before_there_is_an_agent_is_the_end() {
        for script in ["exit 1", "echo something else is said that is as long as the line"] {
            let (_folder, _frames, Link { mut from_agent, mut to_agent }, _client) = played(script, true);
            let mut said = Vec::new();
            from_agent.read_to_end(&mut said).expect("the end");
            let why = to_agent.write(b"hello").expect_err("nobody");
            assert_eq!(why.kind(), io::ErrorKind::BrokenPipe, "{script}: {said:?}");
        }
    }
}
