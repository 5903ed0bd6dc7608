//! A small server that is started in a place: as a process, in the microVM, or in a container of podman.
//!
//! The server is this program's own (`baremark echo`). It reads its clock as it begins, which is that of this machine in a process, in
//! the microVM and in a container alike, so that the moment needs no message. It ends when its standard input does, so that a container
//! goes with whoever started it.
//!
//! It refuses a server that does not answer with the bytes that it was sent. QEMU guests are not started here: their clock is another.

use crate::echo::{Mode, PATIENCE, Payload, head};
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::{Default, Kind, Knob, Value};
use baremark_model::job::{JobError, Surroundings};
use baremark_model::peer::LISTENING;
use baremark_sys::clock::monotonic_ns;
use baremark_sys::confine::{self, Limits};
use baremark_sys::file_system::{FileSystem, drop_cache};
use baremark_sys::private_folder::PrivateFolder;
use baremark_sys::process_tree;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What the server prints first: the monotonic clock in nanoseconds as it began.
pub const BEGAN: &str = "began ";
/// Bytes of the request.
const REQUEST: usize = 64;
/// How long a start may take, and an end.
const LIMIT: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(1);
/// SIGKILL.
const KILL: i32 = 9;
/// Where a container has this program.
const INSIDE: &str = "/baremark";
/// Options that the engine needs on some machines, tried in this order.
const WAYS: [&[&str]; 2] = [&[], &["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]];

/// The knob of places.
pub(crate) const PLACE: Knob = Knob {
    key: "place",
    kind: Kind::Choice(&["process", "microvm", "container"]),
    default: Default::Typed("process"),
    help: "where the server is started: as a process, in the microVM, or in a container of podman, which this program alone is in",
};

/// The knob of containers' runtimes.
pub(crate) const RUNTIME: Knob = Knob {
    key: "runtime",
    kind: Kind::Choice(&["runc", "crun"]),
    default: Default::Typed("runc"),
    help: "runtime of containers",
};

/// The knob of the page cache.
pub(crate) const CACHE: Knob = Knob {
    key: "cache",
    kind: Kind::Choice(&["warm", "cold"]),
    default: Default::Typed("warm"),
    help: "whether the server's program is in the page cache when it starts: cold reads it from the disk, a copy in the temporary folder; \
           the container engine and the microVM stay cached",
};

/// The word of a parameter, or the usual one.
pub(crate) fn word(arm: &ResolvedArm, knob: &Knob, usual: &'static str) -> String {
    match arm.parameters.get(knob.key) {
        Some(Value::Choice(word)) => word.clone(),
        _ => usual.to_owned(),
    }
}

/// Starts servers in one place.
pub(crate) struct Launcher {
    place: String,
    runtime: String,
    program: PathBuf,
    /// A copy of the program, which is not in the page cache when a server starts from it.
    cold: Option<Cold>,
    way: usize,
}

/// A copy of the program in a folder of its own.
struct Cold {
    program: PathBuf,
    _folder: PrivateFolder,
}

impl Cold {
    fn of(program: &Path) -> Result<Cold, JobError> {
        let failed = |why: io::Error| JobError::failed(format!("copying the program: {why}"));
        let folder = folder().map_err(failed)?;
        if FileSystem::of(folder.path()).map_err(failed)?.in_memory {
            let what = format!("{} is in memory, where every file is cached", folder.path().display());
            return Err(JobError::Missing { what, remedy: "set TMPDIR to a folder on a disk".to_owned() });
        }
        let copy = folder.path().join("baremark");
        fs::copy(program, &copy).map_err(failed)?;
        Ok(Cold { program: copy, _folder: folder })
    }
}

/// How the names of folders begin; that of a killed process is removed by the next that starts servers.
const FOLDER: &str = "baremark-start-";

fn folder() -> io::Result<PrivateFolder> {
    PrivateFolder::create(&std::env::temp_dir(), FOLDER)
}

/// An empty folder for the root of a container's files, removed when dropped.
struct Root {
    folder: PrivateFolder,
    path: PathBuf,
}

impl Root {
    fn create() -> io::Result<Root> {
        let folder = folder()?;
        let path = folder.path().join("root");
        fs::create_dir(&path)?;
        Ok(Root { folder, path })
    }

    /// The name of its container.
    fn name(&self) -> String {
        self.folder.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl Launcher {
    /// A launcher for the place and the runtime of an arm, which has started one server.
    ///
    /// # Errors
    /// When none can be started there, with the reason.
    pub(crate) fn of(arm: &ResolvedArm, around: &Surroundings<'_>) -> Result<Launcher, JobError> {
        let program =
            around.keeper.canonicalize().map_err(|why| JobError::failed(format!("finding this program: {why}")))?;
        drop(PrivateFolder::orphans(&std::env::temp_dir(), FOLDER));
        let (place, runtime) = (word(arm, &PLACE, "process"), word(arm, &RUNTIME, "runc"));
        let cold = if word(arm, &CACHE, "warm") == "cold" { Some(Cold::of(&program)?) } else { None };
        let mut launcher = Launcher { place, runtime, program, cold, way: 0 };
        launcher.find_way()?;
        Ok(launcher)
    }

    /// The place's name.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The program of the server.
    fn server(&self) -> &Path {
        self.cold.as_ref().map_or(&self.program, |cold| &cold.program)
    }

    /// Drops the server's program from the page cache, where it shall be cold. No server may run.
    ///
    /// # Errors
    /// When it cannot be dropped.
    pub(crate) fn cool(&self) -> Result<(), JobError> {
        let Some(cold) = &self.cold else { return Ok(()) };
        drop_cache(&cold.program).map_err(|why| JobError::failed(format!("dropping the page cache: {why}")))
    }

    /// Finds what the engine needs here to start a container; nothing for other places.
    fn find_way(&mut self) -> Result<(), JobError> {
        let mut last = String::new();
        for way in 0..WAYS.len() {
            self.way = way;
            match self.launch().and_then(|mut server| server.request().and_then(|()| server.end())) {
                Ok(()) => return Ok(()),
                Err(why) => last = why,
            }
            if self.place != "container" {
                break;
            }
        }
        let remedy = match self.place.as_str() {
            "container" => format!("install podman and {}, and see that `podman run` works", self.runtime),
            "microvm" => "run it where /dev/kvm can be opened".to_owned(),
            _ => "see the message".to_owned(),
        };
        Err(JobError::Missing { what: format!("a server cannot be started as {}: {last}", self.place), remedy })
    }

    fn command(&self, root: &Root) -> Command {
        let mut command;
        match self.place.as_str() {
            "container" => {
                command = Command::new("podman");
                command.args(["--runtime", &self.runtime, "run", "--rm", "--interactive"]);
                command.args(["--name", &root.name(), "--log-driver=none", "--network=host"]);
                command.args(["--cap-drop=all", "--security-opt=no-new-privileges", "--security-opt=label=disable"]);
                command.args(WAYS[self.way]);
                command.arg("--mount").arg(format!("type=bind,src={},dst={INSIDE},ro", self.server().display()));
                command.arg("--rootfs").arg(&root.path).arg(INSIDE);
            }
            "microvm" => {
                command = Command::new(&self.program);
                command.args(["guest", "--"]).arg(self.server());
            }
            _ => command = Command::new(self.server()),
        }
        command.args(["echo", "--while-input"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a server and waits until it listens. It dies with the calling thread.
    ///
    /// # Errors
    /// What it complains of.
    pub(crate) fn launch(&self) -> Result<Server, String> {
        let root = Root::create().map_err(|why| format!("making a folder: {why}"))?;
        let mut command = self.command(&root);
        confine::hold(&mut command, &Limits::default(), KILL).map_err(|why| why.to_string())?;
        let started_ns = monotonic_ns();
        let child = command.spawn().map_err(|why| format!("starting {:?}: {why}", command.get_program()))?;
        let container = (self.place == "container").then(|| root.name());
        let mut server =
            Server { child, container, began_ns: 0, listening_ns: 0, started_ns, address: None, _root: root };
        match server.listen() {
            Ok(()) => Ok(server),
            Err(why) => Err(format!("{why}{}", server.complaint())),
        }
    }
}

/// A server that listens; it is killed when dropped, if it lives.
pub(crate) struct Server {
    child: Child,
    /// The name of its container, where it is in one.
    container: Option<String>,
    /// When its launch began, its main function ran, and it listened, by the monotonic clock.
    pub started_ns: u64,
    pub began_ns: u64,
    pub listening_ns: u64,
    address: Option<SocketAddr>,
    _root: Root,
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

impl Server {
    /// Waits until it listens.
    fn listen(&mut self) -> Result<(), String> {
        let output = self.child.stdout.take().ok_or("it has no output")?;
        let lines = heard(output);
        let (began, _) = next(&lines, BEGAN)?;
        self.began_ns = began.trim().parse().map_err(|why| format!("'{began}': {why}"))?;
        if self.began_ns < self.started_ns {
            return Err("its clock is not this machine's".to_owned());
        }
        let (address, listening_ns) = next(&lines, LISTENING)?;
        self.listening_ns = listening_ns;
        self.address = Some(address.trim().parse().map_err(|why| format!("'{address}': {why}"))?);
        Ok(())
    }

    /// A connection on which it answers requests.
    pub(crate) fn connect(&self) -> Result<Connection, String> {
        let address = self.address.ok_or("it does not listen")?;
        Connection::open(address).map_err(|why| format!("{address}: {why}"))
    }

    /// Connects and gets the answer to one request.
    pub(crate) fn request(&self) -> Result<(), String> {
        self.connect()?.request().map_err(|why| format!("its answer: {why}"))
    }

    /// Ends it by its input, and waits.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        self.ask_to_end();
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.child.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) if Instant::now() < deadline => thread::sleep(GLANCE),
                Ok(None) => return Err(format!("it did not end within {} s of its input", LIMIT.as_secs())),
                Err(why) => return Err(why.to_string()),
            }
        }
    }

    /// Ends its input, after which it ends by itself.
    pub(crate) fn ask_to_end(&mut self) {
        drop(self.child.stdin.take());
    }

    /// The processes that it consists of: in a container the server and its monitor, without the engine's client, which a
    /// detached container does not have.
    pub(crate) fn processes(&self) -> io::Result<Vec<u32>> {
        match &self.container {
            None => process_tree::pids(self.child.id()),
            Some(name) => process_tree::pids(monitor(name)?),
        }
    }

    /// What it complained of; it is ended for that.
    fn complaint(&mut self) -> String {
        self.ask_to_end();
        drop(self.child.kill());
        let mut text = String::new();
        if let Some(errors) = self.child.stderr.take() {
            drop(errors.take(4096).read_to_string(&mut text));
        }
        match text.trim() {
            "" => String::new(),
            said => format!(": {said}"),
        }
    }
}

/// The process of podman's that watches over the container `name`.
fn monitor(name: &str) -> io::Result<u32> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end while it is looked at.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        let program = words.next().unwrap_or_default();
        if program.ends_with(b"conmon") && words.any(|word| word == name.as_bytes()) {
            return Ok(pid);
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("container {name} has no conmon process")))
}

/// A connection to a server.
pub(crate) struct Connection {
    stream: TcpStream,
    payload: Payload,
    number: u64,
}

impl Connection {
    fn open(address: SocketAddr) -> io::Result<Connection> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&head(Mode::Echo, REQUEST as u64))?;
        Ok(Connection { stream, payload: Payload::new(REQUEST, 0), number: 0 })
    }

    /// One request and its answer.
    pub(crate) fn request(&mut self) -> io::Result<()> {
        self.number += 1;
        self.stream.write_all(self.payload.of(self.number))?;
        let mut answer = [0_u8; REQUEST];
        self.stream.read_exact(&mut answer)?;
        match self.payload.is(self.number, &answer) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the answer has other bytes than the request")),
        }
    }
}

/// The lines of an output, each with the moment at which it was read.
fn heard(output: ChildStdout) -> Receiver<(String, u64)> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send((line, monotonic_ns())).is_err() {
                return;
            }
        }
    });
    lines
}

/// What stands behind `word` on the next line, and when it was read.
fn next(lines: &Receiver<(String, u64)>, word: &str) -> Result<(String, u64), String> {
    let (line, at_ns) = lines.recv_timeout(LIMIT).map_err(|why| match why {
        RecvTimeoutError::Timeout => format!("it printed no line '{word}' within {} s", LIMIT.as_secs()),
        RecvTimeoutError::Disconnected => format!("it ended before it printed '{word}'"),
    })?;
    match line.strip_prefix(word) {
        Some(rest) => Ok((rest.to_owned(), at_ns)),
        None => Err(format!("it printed '{line}' instead of '{word}'")),
    }
}
