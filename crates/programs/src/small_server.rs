//! A small server that is started in a place: as a process, in the microVM, in a container of podman, in gVisor, or in a QEMU guest.
//!
//! The server is this program's own (`baremark echo`). It reads its clock as it begins, which is that of this machine in a process, in
//! the microVM and in a container alike, so that the moment needs no message. gVisor and a guest have clocks of their own: there the moment is
//! that at which the server's line arrives here. It ends when its standard input does, so that a container goes with whoever started it; a guest is
//! ended with QEMU.
//!
//! gVisor and guests have no network here but their own loopback. A request is then asked for over the server's standard input: the server makes it
//! to itself over that loopback, and prints that it was answered.
//!
//! It refuses a server that does not answer with the bytes that it was sent.

use crate::echo::{Mode, PATIENCE, Payload, head};
use crate::server_failure::ServerFailure;
use crate::small_guest::{Accel, Guest};
use baremark_model::arm::ResolvedArm;
use baremark_model::job::{JobContext, JobError};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::peer::LISTENING;
use baremark_model::units::Bytes;
use baremark_sys::clock::monotonic_ns;
use baremark_sys::confine::{self, Limits};
use baremark_sys::container_engine::{self, Container, GVISOR, INSIDE, PODMAN, ways_with_any_runtime};
use baremark_sys::file_system::{FileSystem, drop_cache};
use baremark_sys::private_folder::PrivateFolder;
use baremark_sys::private_folder::directory::Directory;
use baremark_sys::{ending, process_tree, supervised};
use std::fmt::Display;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What the supervisor of a container prints before it starts the engine: the monotonic clock in nanoseconds.
pub const STARTED: &str = "started ";
/// What the server prints first: the monotonic clock in nanoseconds as it began.
pub const BEGAN: &str = "began ";
/// The line on its standard input at which it makes a request to itself.
pub const ASK: &str = "ask";
/// What it prints, with the request's number, when that was answered.
pub const ANSWERED: &str = "answered ";
/// What it prints, with the reason, when it was not.
pub const UNANSWERED: &str = "unanswered ";
/// Bytes of the request.
const REQUEST: usize = 64;
/// How long a start may take, and an end.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a guest may take under KVM before it is emulated.
const KVM_LIMIT: Duration = Duration::from_secs(8);
const GLANCE: Duration = Duration::from_millis(1);
/// Where a server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Process,
    Microvm,
    Container,
    Gvisor,
    Qemu,
}

/// Places by the words of studies, with what each needs.
const PLACES: [(&str, Place, &str); 5] = [
    ("process", Place::Process, "see the message"),
    ("microvm", Place::Microvm, "run it where /dev/kvm can be opened"),
    ("container", Place::Container, "install podman and the runtime, and see that `podman run` works"),
    (
        "gvisor",
        Place::Gvisor,
        "install podman and runsc (Debian package runsc), and see that `podman --runtime runsc run` works",
    ),
    (
        "qemu",
        Place::Qemu,
        "install QEMU for x86-64 (qemu-system-x86 on Debian) and a kernel (`baremark setup guest-kernel`)",
    ),
];

impl Place {
    fn of(arm: &ResolvedArm) -> Result<Place, InvalidValue> {
        let typed: String = PLACE.get(arm)?;
        Ok(PLACES.iter().find(|(word, ..)| *word == typed).map_or(Place::Process, |(_, place, _)| *place))
    }

    fn row(self) -> &'static (&'static str, Place, &'static str) {
        PLACES.iter().find(|(_, place, _)| *place == self).unwrap_or(&PLACES[0])
    }

    /// Whether a server there has another clock than this machine, and no network but its own loopback.
    fn is_apart(self) -> bool {
        matches!(self, Place::Gvisor | Place::Qemu)
    }
}

/// The knob of places. The factor `environment` of every study is where this program runs that starts them.
pub(crate) const PLACE: Knob = Knob::new(
    "server_environment",
    Kind::Choice(&["process", "microvm", "container", "gvisor", "qemu"]),
    Default::Typed("process"),
)
.help(
    "where the server is started: as a process, in the microVM, in a container of podman, which this \
     program alone is in, in such a container by gVisor (runsc, ptrace platform), or in a QEMU guest \
     with a kernel and this program as its first process. gVisor and guests have no network but their \
     own loopback, over which the server makes its requests when it is asked to by its standard input",
);

/// The knob of guests' virtualization.
pub(crate) const ACCEL: Knob = Knob::new("accel", Kind::Choice(&["auto", "kvm", "tcg"]), Default::Typed("auto")).help(
    "what runs a QEMU guest: KVM, the emulator (tcg), or KVM where a guest starts within 8 s under it, \
     which is tried before each trial, else the emulator",
);

fn accels(arm: &ResolvedArm) -> Result<&'static [Accel], InvalidValue> {
    Ok(match ACCEL.get::<String>(arm)?.as_str() {
        "kvm" => &[Accel::Kvm],
        "tcg" => &[Accel::Tcg],
        _ => &[Accel::Kvm, Accel::Tcg],
    })
}

/// The knob of guests' kernel.
pub(crate) const KERNEL: Knob = Knob::new(
    "kernel",
    Kind::Text,
    Default::Derived("that of `baremark setup guest-kernel`, or this machine's in /boot"),
)
.help("kernel of QEMU guests, a bzImage");

/// The knob of guests' memory.
pub(crate) const GUEST_MEMORY: Knob =
    Knob::new("guest_memory", Kind::Size { min: 64 << 20, max: 1 << 36 }, Default::Typed("256 MiB"))
        .help("memory of a QEMU guest, in whole MiB");

/// The knob of containers' runtimes.
pub(crate) const RUNTIME: Knob = Knob::new("runtime", Kind::Choice(&["runc", "crun"]), Default::Typed("runc"))
    .help("runtime of containers; server_environment = gvisor has its own");

/// The knob of the page cache.
pub(crate) const CACHE: Knob = Knob::new("cache", Kind::Choice(&["warm", "cold"]), Default::Typed("warm")).help(
    "whether the server's program is in the page cache when it starts: cold reads it from the disk, a \
     copy in the temporary folder; the container engine and the microVM stay cached",
);

/// Starts servers in one place.
pub(crate) struct Launcher {
    place: Place,
    runtime: String,
    /// This program, and that of the server, which can be a copy.
    keeper: PathBuf,
    program: PathBuf,
    guest: Option<Guest>,
    /// Where copies are of what a server starts from, which are not in the page cache then.
    cold: Option<PrivateFolder>,
    /// How a guest is run, tried in this order.
    accels: &'static [Accel],
    way: usize,
}

/// A folder whose files can be dropped from the page cache.
fn on_disk() -> Result<PrivateFolder, JobError> {
    let failed = |why: io::Error| JobError::failed(format!("copying the program: {why}"));
    let folder = folder().map_err(failed)?;
    if FileSystem::of(folder.path()).map_err(failed)?.in_memory {
        let what = format!("{} is in memory, where every file is cached", folder.path().display());
        return Err(JobError::Missing { what, remedy: "set TMPDIR to a folder on a disk".to_owned() });
    }
    Ok(folder)
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
        Directory::make_new(&path)?;
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
    pub(crate) fn of(arm: &ResolvedArm, around: &JobContext<'_>) -> Result<Launcher, JobError> {
        let keeper =
            around.keeper.canonicalize().map_err(|why| JobError::failed(format!("finding this program: {why}")))?;
        drop(PrivateFolder::orphans(&std::env::temp_dir(), FOLDER));
        let mut program = keeper.clone();
        let place = Place::of(arm)?;
        let cold = if CACHE.get::<String>(arm)? == "cold" { Some(on_disk()?) } else { None };
        let guest = match place {
            Place::Qemu => Some(guest(arm, &program, cold.as_ref().map(PrivateFolder::path))?),
            _ => None,
        };
        if let (Some(folder), None) = (&cold, &guest) {
            let copy = folder.path().join("baremark");
            fs::copy(&program, &copy).map_err(|why| JobError::failed(format!("copying the program: {why}")))?;
            program = copy;
        }
        let runtime = RUNTIME.get(arm)?;
        let mut launcher = Launcher { place, runtime, keeper, program, guest, cold, accels: accels(arm)?, way: 0 };
        launcher.find_way()?;
        Ok(launcher)
    }

    /// The place's name.
    pub(crate) fn place(&self) -> &'static str {
        self.place.row().0
    }

    /// Whether copies are processes that this program has started: those of a container are its engine's.
    pub(crate) fn starts_own_processes(&self) -> bool {
        !matches!(self.place, Place::Container | Place::Gvisor)
    }

    /// What a reader of the figures has to know of the place.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.place.is_apart() {
            remarks.push(format!(
                "{}: no network but its own loopback, over which the server asks itself; moments are those at which its lines arrive",
                self.place()
            ));
        }
        if self.guest.is_some() && self.accels[self.way] == Accel::Tcg {
            let why = if self.way > 0 { ": no guest starts under KVM here" } else { "" };
            remarks.push(format!("qemu: the guest is emulated (TCG){why}"));
        }
        remarks
    }

    /// The memory of a guest's own; `None` where the place is no guest.
    pub(crate) fn guest_memory_bytes(&self) -> Option<u64> {
        self.guest.as_ref().map(Guest::memory_bytes)
    }

    /// Drops what a server starts from from the page cache, where it shall be cold. No server may run.
    ///
    /// # Errors
    /// When it cannot be dropped.
    pub(crate) fn cool(&self) -> Result<(), JobError> {
        if self.cold.is_none() {
            return Ok(());
        }
        let files = self.guest.as_ref().map_or(vec![self.program.as_path()], |guest| guest.files().to_vec());
        let dropped = files.into_iter().try_for_each(drop_cache);
        dropped.map_err(|why| JobError::failed(format!("dropping the page cache: {why}")))
    }

    /// Finds what the place needs here to start a server.
    fn find_way(&mut self) -> Result<(), JobError> {
        let ways = match self.place {
            Place::Container | Place::Gvisor => ways_with_any_runtime().count(),
            Place::Qemu => self.accels.len(),
            Place::Process | Place::Microvm => 1,
        };
        let mut last = String::new();
        for way in 0..ways {
            self.way = way;
            match self.launch().and_then(|mut server| server.request().and_then(|()| server.end())) {
                Ok(()) => return Ok(()),
                Err(why) => last = why.to_string(),
            }
        }
        let (name, _, remedy) = self.place.row();
        Err(JobError::Missing {
            what: format!("a server cannot be started as {name}: {last}"),
            remedy: (*remedy).to_owned(),
        })
    }

    /// How long a start may take.
    fn limit(&self) -> Duration {
        // The last way is given its time: there is no other.
        if self.guest.is_some() && self.way + 1 < self.accels.len() { KVM_LIMIT } else { LIMIT }
    }

    /// The supervisor of podman with the container's root, up to the words that run in it.
    fn podman(&self, root: &Root) -> Command {
        let (runtime, network) = match self.place {
            Place::Gvisor => (GVISOR, "none"),
            _ => (self.runtime.as_str(), "host"),
        };
        let mut command = Command::new(&self.keeper);
        command.args(supervised::podman(&["--announce"], &root.name()));
        let container = Container {
            engine: PODMAN.as_ref(),
            name: &root.name(),
            way: ways_with_any_runtime().nth(self.way).unwrap_or_default(),
            network,
            cpus: &[],
            memory_bytes: None,
            program: &self.program,
            options: container_engine::runtime(runtime, "ptrace"),
            root: container_engine::Root::Empty(&root.path),
        };
        command.args(container.arguments()).arg(INSIDE);
        command
    }

    fn command(&self, root: &Root) -> Command {
        let mut command = match (self.place, &self.guest) {
            (Place::Qemu, Some(guest)) => guest.command(self.accels[self.way]),
            (Place::Container | Place::Gvisor, _) => self.podman(root),
            (Place::Microvm, _) => {
                let mut command = Command::new(&self.keeper);
                command.args(["guest", "--"]).arg(&self.program);
                command
            }
            _ => Command::new(&self.program),
        };
        if self.guest.is_none() {
            command.args(["echo", "--while-input"]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a server and waits until it listens. It dies with the calling thread.
    ///
    /// # Errors
    /// What it complains of.
    pub(crate) fn launch(&self) -> Result<Server, ServerFailure> {
        let root = Root::create().map_err(ServerFailure::io("making a folder"))?;
        let mut command = self.command(&root);
        let container = matches!(self.place, Place::Container | Place::Gvisor).then(|| root.name());
        let at_death = if container.is_some() { supervised::AT_DEATH } else { confine::SIGKILL };
        confine::hold(&mut command, &Limits::default(), at_death)?;
        let started_ns = monotonic_ns();
        let child = command.spawn().map_err(|source| {
            let what = format!("starting {:?}", command.get_program());
            ServerFailure::Io { what, source }
        })?;
        let mut server = Server {
            child,
            container,
            is_guest: self.guest.is_some(),
            began_ns: 0,
            listening_ns: 0,
            started_ns,
            reach: None,
            _root: root,
        };
        match server.listen(self.place.is_apart(), self.limit()) {
            Ok(()) => Ok(server),
            Err(failure) => Err(server.complaint(failure)),
        }
    }
}

/// The guest of an arm; its files are copies where a folder is given.
fn guest(arm: &ResolvedArm, program: &Path, folder: Option<&Path>) -> Result<Guest, JobError> {
    let kernel: Option<PathBuf> = KERNEL.find::<String>(arm)?.map(PathBuf::from);
    let Bytes(memory) = GUEST_MEMORY.get(arm)?;
    Guest::of(program, kernel.as_deref(), memory >> 20 << 20, folder)
}

/// How a server gets requests.
enum Reach {
    /// Over a network, at this address.
    Network(SocketAddr),
    /// It makes them itself.
    Asked(Mutex<Asked>),
}

/// A server that makes requests to itself when it is asked to.
pub(crate) struct Asked {
    input: ChildStdin,
    lines: Receiver<(String, u64)>,
    number: u64,
}

impl Asked {
    /// Asks for one request and waits for its answer.
    fn request(&mut self) -> io::Result<()> {
        self.number += 1;
        self.input.write_all(format!("{ASK}\n").as_bytes())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (line, _) = self.lines.recv_timeout(left).map_err(io::Error::other)?;
            if let Some(why) = line.strip_prefix(UNANSWERED) {
                return Err(io::Error::other(why.to_owned()));
            }
            // Whatever else a console prints is no answer.
            match line.strip_prefix(ANSWERED).map(str::parse::<u64>) {
                Some(Ok(number)) if number == self.number => return Ok(()),
                Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, line)),
                None => {}
            }
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
    /// Whether its process is QEMU, which does not end with its input.
    is_guest: bool,
    reach: Option<Reach>,
    _root: Root,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Server {
    /// Ends it if it lives; a container by its supervisor, which removes it.
    fn stop(&mut self) {
        if self.container.is_some() {
            return supervised::end(&mut self.child);
        }
        ending::kill(&mut self.child);
    }

    /// Waits until it listens. One that is `apart` has a clock of its own.
    fn listen(&mut self, apart: bool, limit: Duration) -> Result<(), ServerFailure> {
        let output = self.child.stdout.take().ok_or(ServerFailure::Lacks("has no output"))?;
        let lines = heard(output);
        let deadline = Instant::now() + limit;
        let next = |word| next(&lines, word, deadline, apart);
        if self.container.is_some() {
            // The supervisor and its record are no part of a start.
            let (started, _) = next(STARTED)?;
            self.started_ns = read(&started)?;
        }
        let (began, began_ns) = next(BEGAN)?;
        self.began_ns = if apart { began_ns } else { read(&began)? };
        if !is_by_this_clock(self.began_ns, (self.started_ns, began_ns)) {
            return Err(ServerFailure::Clock);
        }
        let (address, listening_ns) = next(LISTENING)?;
        self.listening_ns = listening_ns;
        let address = read(&address)?;
        self.reach = Some(if apart {
            let input = self.child.stdin.take().ok_or(ServerFailure::Lacks("has no input"))?;
            Reach::Asked(Mutex::new(Asked { input, lines, number: 0 }))
        } else {
            Reach::Network(address)
        });
        Ok(())
    }

    /// A connection on which it answers requests.
    pub(crate) fn connect(&self) -> Result<Connection<'_>, ServerFailure> {
        match self.reach.as_ref().ok_or(ServerFailure::Lacks("does not listen"))? {
            Reach::Network(address) => {
                let refused = |source| ServerFailure::Io { what: address.to_string(), source };
                Client::open(*address).map(Connection::Network).map_err(refused)
            }
            Reach::Asked(asked) => Ok(Connection::Asked(asked)),
        }
    }

    /// Connects and gets the answer to one request.
    pub(crate) fn request(&self) -> Result<(), ServerFailure> {
        self.connect()?.request().map_err(ServerFailure::io("its answer"))
    }

    /// Ends it by its input, and waits.
    pub(crate) fn end(&mut self) -> Result<(), ServerFailure> {
        self.ask_to_end();
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.child.try_wait()? {
                Some(_) => return Ok(()),
                None if Instant::now() < deadline => thread::sleep(GLANCE),
                None => return Err(ServerFailure::Endless { limit_s: LIMIT.as_secs() }),
            }
        }
    }

    /// Ends its input, after which it ends by itself; a guest is switched off.
    pub(crate) fn ask_to_end(&mut self) {
        drop(self.child.stdin.take());
        self.reach = None;
        if self.is_guest {
            drop(self.child.kill());
        }
    }

    /// The processes that it consists of: in a container the server and its monitor, without the engine's client, which a
    /// detached container does not have.
    pub(crate) fn processes(&self) -> io::Result<Vec<u32>> {
        match &self.container {
            None => process_tree::pids(self.child.id()),
            Some(name) => process_tree::pids(monitor(name)?),
        }
    }

    /// A failure with what it complained of; it is ended for that.
    fn complaint(&mut self, failure: ServerFailure) -> ServerFailure {
        self.ask_to_end();
        self.stop();
        let mut text = String::new();
        if let Some(errors) = self.child.stderr.take() {
            drop(errors.take(4096).read_to_string(&mut text));
        }
        match text.trim() {
            "" => failure,
            said => ServerFailure::Complaint { failure: Box::new(failure), said: said.to_owned() },
        }
    }
}

/// The process of podman's that watches over the container `name`.
fn monitor(name: &str) -> io::Result<u32> {
    let is = |words: &[String]| words[0].ends_with("conmon") && words.iter().any(|word| word == name);
    let found = process_tree::with_command(is)?;
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("container {name} has no conmon process"));
    found.first().map(|(pid, _)| *pid).ok_or_else(missing)
}

/// A connection to a server.
pub(crate) enum Connection<'s> {
    Network(Client),
    Asked(&'s Mutex<Asked>),
}

impl Connection<'_> {
    /// One request and its answer.
    pub(crate) fn request(&mut self) -> io::Result<()> {
        match self {
            Connection::Network(client) => client.request().map(drop),
            Connection::Asked(asked) => asked.lock().unwrap_or_else(PoisonError::into_inner).request(),
        }
    }
}

/// A client of a server, over a network.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    payload: Payload,
    number: u64,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// What connecting gives.
    pub fn open(address: SocketAddr) -> io::Result<Client> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&head(Mode::Echo, REQUEST as u64))?;
        Ok(Client { stream, payload: Payload::new(REQUEST, 0), number: 0 })
    }

    /// One request and its answer; its number, the first of which is 1.
    ///
    /// # Errors
    /// What sending and receiving give, and when the answer has other bytes than the request.
    pub fn request(&mut self) -> io::Result<u64> {
        self.number += 1;
        self.stream.write_all(self.payload.of(self.number))?;
        let mut answer = [0_u8; REQUEST];
        self.stream.read_exact(&mut answer)?;
        match self.payload.is(self.number, &answer) {
            true => Ok(self.number),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the answer has other bytes than the request")),
        }
    }
}

/// Whether a moment that another process has read lies between two of ours, as it does where both read one clock. That of a time namespace
/// may be behind or ahead by any amount.
fn is_by_this_clock(moment_ns: u64, (before_ns, after_ns): (u64, u64)) -> bool {
    (before_ns..=after_ns).contains(&moment_ns)
}

/// The lines of an output, each with the moment at which it was read. A guest's console prints more than text.
fn heard(output: ChildStdout) -> Receiver<(String, u64)> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            if sender.send((line, monotonic_ns())).is_err() {
                return;
            }
        }
    });
    lines
}

/// What a server printed, as a number or an address.
fn read<T>(text: &str) -> Result<T, ServerFailure>
where
    T: FromStr<Err: Display>,
{
    text.trim().parse().map_err(|why| ServerFailure::unread(text, why))
}

/// What stands behind `word` on the next line, and when it was read. Others may print between the lines of a server that is `apart`.
fn next(
    lines: &Receiver<(String, u64)>,
    word: &str,
    deadline: Instant,
    apart: bool,
) -> Result<(String, u64), ServerFailure> {
    let mut last = String::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let (line, at_ns) = match lines.recv_timeout(left) {
            Ok(read) => read,
            Err(RecvTimeoutError::Timeout) => return Err(ServerFailure::Silent { word: word.to_owned(), last }),
            Err(RecvTimeoutError::Disconnected) => return Err(ServerFailure::Ended { word: word.to_owned(), last }),
        };
        match line.strip_prefix(word) {
            Some(rest) => return Ok((rest.to_owned(), at_ns)),
            None if apart && !line.trim().is_empty() => last = format!("; its last line was '{}'", line.trim()),
            None if apart => {}
            None => return Err(ServerFailure::Other { line, word: word.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_by_this_clock;

    #[test]
    fn a_clock_that_is_behind_or_ahead_is_not_this_one() {
        assert!(is_by_this_clock(5, (5, 9)) && is_by_this_clock(9, (5, 9)));
        assert!(!is_by_this_clock(4, (5, 9)) && !is_by_this_clock(86_400_000_000_000, (5, 9)));
    }
}
