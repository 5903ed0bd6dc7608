//! Any machine that ssh reaches, hence any hypervisor and any cloud.
//!
//! Two connections, both by the user's own `ssh` with the user's configuration, keys and known hosts, and never a prompt.
//! The first brings the program into a private folder and stays: it ends agents when it is told to, and when it is cut,
//! however that happens, it ends all of them and removes the folder. The others each carry one agent's streams. The
//! remote side needs `sh` and what every Linux has; the two scripts are constants whose arguments are a number, a
//! hexadecimal hash and a path of harmless characters.

pub(crate) mod study;

use crate::child::{self, Piped};
use crate::interruptible::receive;
use baremark_model::site::{Environment, Link, Missing, Site, SiteError, loopback};
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ChildStdin, Command};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How long the keeper may take to end an agent, and a connection to end once it has nothing to carry.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Keeps the folder `$folder`: receives `$2` bytes of a program of hash `$1`, says where it is, ends agents by number on
/// demand, and ends all and removes everything at the end of its input. An agent is ended only while its process is still
/// the program: its number may belong to somebody else by then. Users whom the folder lets through may run the program, as the auction's
/// servers do at a site of the superuser's. One line, because not every login shell lets a quoted
/// word have several.
const KEEPER: &str = "umask 077; \
    folder=$(mktemp -d \"${TMPDIR:-/tmp}/baremark-ssh-XXXXXXXX\") || exit 1; \
    program=$folder/baremark-$1; \
    runs() { case $(readlink \"/proc/$1/exe\") in \"$folder\"/*) return 0;; esac; return 1; }; \
    end() { read -r pid <\"$1\" || return 0; \
        while runs \"$pid\"; do kill -9 \"$pid\" 2>/dev/null; sleep 0.02; done; \
        rm -rf \"$1\" \"$folder/baremark-files-$pid-\"*; }; \
    leave() { for agent in \"$folder\"/agent-*; do [ -f \"$agent\" ] && end \"$agent\"; done; rm -rf \"$folder\"; }; \
    trap leave EXIT; trap \"exit 1\" HUP INT TERM PIPE; \
    head -c \"$2\" >\"$program\" && chmod 755 \"$program\" && \"$program\" --version >/dev/null || exit 1; \
    echo \"ready $folder\"; \
    while read -r number; do \
        [ -f \"$folder/agent-$number\" ] && end \"$folder/agent-$number\"; echo \"ended $number\"; \
    done";

/// What a connection runs that carries ports alone.
const SAY_AND_STAY: &str = "echo ready; cat";

/// Becomes the agent with number `$2` from the folder `$0`, which holds the program of hash `$1`, and what the agent is sent.
const AGENT: &str =
    "umask 077; echo $$ >\"$0/agent-$2\" && TMPDIR=$0 && export TMPDIR && exec \"$0/baremark-$1\" agent";

/// Which machine, and how to reach it; what is `None` or empty is left to ssh's own configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where to: a host, `user@host`, or a name from ssh's configuration.
    pub destination: String,
    /// The port.
    pub port: Option<u16>,
    /// The private key.
    pub identity: Option<PathBuf>,
    /// The configuration file, instead of the user's.
    pub config: Option<PathBuf>,
    /// How long a connection may take to come about; ten seconds when `None`.
    pub connect_limit: Option<Duration>,
    /// How long the program may take to be brought there; two minutes when `None`.
    pub push_limit: Option<Duration>,
}

impl Settings {
    /// `ssh` up to the remote command, with a port that is forwarded as its option and words say.
    fn command(&self, forward: Option<[&str; 2]>) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-T", "-x", "-a", "-oBatchMode=yes", "-oRemoteCommand=none"]);
        match forward {
            Some(words) => command.arg("-oExitOnForwardFailure=yes").args(words),
            None => command.arg("-oClearAllForwardings=yes"),
        };
        // A connection of its own dies with its agent; one shared with others might outlive it.
        command.args([
            "-oControlMaster=no",
            "-oControlPath=none",
            "-oServerAliveInterval=5",
            "-oServerAliveCountMax=6",
        ]);
        command.arg(format!("-oConnectTimeout={}", self.connect_limit().as_secs().max(1)));
        if let Some(port) = self.port {
            command.arg(format!("-p{port}"));
        }
        for (option, file) in [("-i", &self.identity), ("-F", &self.config)] {
            if let Some(file) = file {
                command.arg(option).arg(file);
            }
        }
        command.arg("--").arg(&self.destination);
        command
    }

    fn connect_limit(&self) -> Duration {
        self.connect_limit.unwrap_or(Duration::from_secs(10))
    }
}

/// The ssh environment: brings the program there once and starts one agent for each site.
pub struct Ssh {
    program: PathBuf,
    settings: Settings,
    keeper: Mutex<Option<Arc<Keeper>>>,
}

impl Ssh {
    /// With this program as the agent, usually the one that is running; it must be static.
    #[must_use]
    pub fn new(program: PathBuf, settings: Settings) -> Self {
        Ssh { program, settings, keeper: Mutex::new(None) }
    }

    /// `ssh` up to the remote command.
    fn command(&self) -> Command {
        self.settings.command(None)
    }

    fn connect_limit(&self) -> Duration {
        self.settings.connect_limit()
    }

    /// The keeper that is there, or a new one when there is none or its connection has ended.
    fn keeper(&self, interrupt: &AtomicBool) -> Result<Arc<Keeper>, SiteError> {
        let mut kept = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keeper) = kept.as_ref().filter(|keeper| keeper.is_there()) {
            return Ok(Arc::clone(keeper));
        }
        let limit = self.connect_limit() + self.settings.push_limit.unwrap_or(Duration::from_secs(120));
        let way = Way { destination: &self.settings.destination, limit, interrupt };
        let keeper = Arc::new(Keeper::send(&self.program, self.command(), &way)?);
        *kept = Some(Arc::clone(&keeper));
        Ok(keeper)
    }
}

impl Environment for Ssh {
    fn name(&self) -> &'static str {
        "ssh"
    }

    /// Connects and asks for the kind of machine.
    fn probe(&self) -> Result<(), Missing> {
        let destination = &self.settings.destination;
        if destination.is_empty() || destination.starts_with('-') {
            let remedy = "give a host, user@host or a name from ssh's configuration".to_owned();
            return Err(Missing { what: format!("'{destination}' is not a destination for ssh"), remedy });
        }
        let ran = child::run(self.command().args(["uname", "-s", "-m"]), self.connect_limit() + END_LIMIT);
        let ran = ran.map_err(|why| Missing {
            what: format!("{destination} cannot be reached: {why}"),
            remedy: "install the OpenSSH client".to_owned(),
        })?;
        if !ran.well() {
            let what = format!("{destination} cannot be reached by ssh: {}", ran.failure());
            let remedy = format!("make `ssh -o BatchMode=yes {destination} true` work: address, key, known host");
            return Err(Missing { what, remedy });
        }
        if ran.said.iter().any(|line| line == "Linux x86_64") {
            return Ok(());
        }
        let machine = ran.said.first().map_or("a machine that does not report its architecture", String::as_str);
        let remedy = "give a machine with Linux on x86-64, which this program is built for".to_owned();
        Err(Missing { what: format!("{destination} is {machine}"), remedy })
    }

    fn start(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        let keeper = self.keeper(interrupt)?;
        let number = keeper.next_number();
        let mut command = self.command();
        command.arg(remote(AGENT, &[&keeper.folder, &keeper.hash, &number.to_string()]));
        let client = Piped::spawn(&mut command)?;
        let settings = self.settings.clone();
        Ok(Box::new(SshSite { client, keeper, number, settings, forwards: Vec::new(), gone: false }))
    }
}

impl SshSite {
    /// Forwards a port by a connection of its own, which says so once it does.
    fn forward(&mut self, option: &str, words: &str) -> Result<(), SiteError> {
        let mut client = Piped::spawn(self.settings.command(Some([option, words])).arg(SAY_AND_STAY))?;
        let (from, to) = client.streams("ssh")?;
        let limit = self.settings.connect_limit() + END_LIMIT;
        // The other side answers in order: the forwarding is settled when the command speaks.
        if lines_of(from).recv_timeout(limit).is_ok_and(|line| line == "ready") {
            self.forwards.push((client, to));
            return Ok(());
        }
        client.kill();
        let what = format!("a port of {} could not be forwarded ({option} {words})", self.settings.destination);
        Err(SiteError::NotReady { what, log: client.log() })
    }
}

/// `exec sh -c SCRIPT ARGUMENTS` for the login shell on the other side. The script has no single quote and the arguments
/// have only harmless characters, as their makers see to.
fn remote(script: &str, arguments: &[&str]) -> OsString {
    OsString::from(format!("exec sh -c '{script}' {}", arguments.join(" ")))
}

struct SshSite {
    client: Piped,
    keeper: Arc<Keeper>,
    number: u64,
    settings: Settings,
    /// The connections that carry ports, with what keeps each of them.
    forwards: Vec<(Piped, ChildStdin)>,
    gone: bool,
}

impl Site for SshSite {
    fn link(&mut self) -> Option<Link> {
        self.client.link()
    }

    fn leave(&mut self, limit: Duration) {
        self.client.ends_within(limit);
    }

    fn kill(&mut self) {
        if self.gone {
            return;
        }
        self.gone = true;
        // Without a keeper the connection's end must do: it ends the agent's input, which the agent notices.
        if self.keeper.end(self.number) {
            self.client.ends_within(END_LIMIT);
        }
        self.client.kill();
        self.forwards.clear();
    }

    fn log(&self) -> Vec<String> {
        self.client.log()
    }

    fn reach(&mut self, there: u16, here: u16) -> Result<SocketAddr, SiteError> {
        self.forward("-L", &format!("127.0.0.1:{here}:127.0.0.1:{there}"))?;
        Ok(loopback(here))
    }

    fn offer(&mut self, here: u16, there: u16) -> Result<SocketAddr, SiteError> {
        self.forward("-R", &format!("127.0.0.1:{there}:127.0.0.1:{here}"))?;
        Ok(loopback(there))
    }
}

impl Drop for SshSite {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The connection that keeps the program at the other side, and the folder that it is in.
struct Keeper {
    folder: String,
    hash: String,
    talk: Mutex<Talk>,
}

struct Talk {
    client: Piped,
    to_keeper: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
}

/// Where the program goes, and what ends the try.
struct Way<'w> {
    destination: &'w str,
    limit: Duration,
    interrupt: &'w AtomicBool,
}

impl Keeper {
    /// Brings the program there.
    fn send(program: &PathBuf, mut ssh: Command, way: &Way<'_>) -> Result<Self, SiteError> {
        let &Way { destination, limit, interrupt } = way;
        let content = fs::read(program).map_err(SiteError::io(format!("reading {}", program.display())))?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&content);
        let hash = format!("{:016x}", hasher.finish());
        ssh.arg(remote(KEEPER, &["keeper", &hash, &content.len().to_string()]));
        let mut client = Piped::spawn(&mut ssh)?;
        let (from, mut to) = client.streams("ssh")?;
        let lines = lines_of(from);
        // A thread of its own, so that a machine that reads nothing cannot hold us beyond the limit.
        let sender = thread::spawn(move || to.write_all(&content).and_then(|()| to.flush()).map(|()| to));
        let deadline = Instant::now() + limit;
        while let Ok(line) = receive(&lines, deadline, interrupt)? {
            let Some(folder) = line.strip_prefix("ready ") else { continue };
            let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
            let (true, Ok(Ok(to))) = (folder.starts_with('/') && folder.bytes().all(harmless), sender.join()) else {
                let remedy = "let TMPDIR there be an absolute path of letters, digits and / . _ -".to_owned();
                return Err(Missing { what: format!("the folder '{folder}' cannot be used"), remedy }.into());
            };
            let talk = Talk { client, to_keeper: Some(to), lines, next: 0 };
            return Ok(Keeper { folder: folder.to_owned(), hash, talk: Mutex::new(talk) });
        }
        let seconds = limit.as_secs();
        let what = if client.ends_within(Duration::from_millis(100)) {
            format!("the program could not be brought to {destination}")
        } else {
            format!("the program was not at {destination} within {seconds} s")
        };
        client.kill();
        Err(SiteError::NotReady { what, log: client.log() })
    }

    fn talk(&self) -> std::sync::MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_there(&self) -> bool {
        !self.talk().client.ends_within(Duration::ZERO)
    }

    fn next_number(&self) -> u64 {
        let mut talk = self.talk();
        talk.next += 1;
        talk.next
    }

    /// Has an agent ended; whether the keeper says that it is gone.
    fn end(&self, number: u64) -> bool {
        let mut talk = self.talk();
        let Some(to_keeper) = talk.to_keeper.as_mut() else { return false };
        if writeln!(to_keeper, "{number}").and_then(|()| to_keeper.flush()).is_err() {
            return false;
        }
        let (answer, deadline) = (format!("ended {number}"), Instant::now() + END_LIMIT);
        while let Ok(line) = talk.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if line == answer {
                return true;
            }
        }
        false
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut talk = self.talk();
        drop(talk.to_keeper.take());
        talk.client.ends_within(END_LIMIT);
        talk.client.kill();
    }
}

/// The lines of a stream, as they come.
fn lines_of(stream: impl io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_one_quoted_word_for_any_login_shell() {
        for script in [KEEPER, AGENT] {
            assert!(!script.contains(['\'', '\n', '!']), "{script}");
        }
    }

    #[test]
    fn a_destination_is_never_an_option() {
        let ssh =
            Ssh::new(PathBuf::new(), Settings { destination: "-oProxyCommand=x".to_owned(), ..Settings::default() });
        let missing = ssh.probe().expect_err("refused before anything runs");
        assert!(missing.to_string().contains("is not a destination for ssh; give a host"), "{missing}");
    }
}
