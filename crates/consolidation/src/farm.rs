//! Web servers that run: each in a network namespace of its own on one bridge, in a control group with a quota, or in a container with both.
//!
//! A farm needs the superuser, or two of its rights; its servers need none, and every user of this machine reaches them. So those that the superuser
//! starts are another user's before they answer, and get nothing of this program's environment.

use crate::content;
use crate::deferral::{self, LinkSettings};
pub use crate::farm_error::{FarmError, ServerFault};
use crate::quota::Quotas;
use crate::starter::Starter;
use baremark_journal::Journal;
use baremark_networks::{Network, Node};
use baremark_services::card::Install;
use baremark_services::nginx::Nginx;
use baremark_services::place::in_this_namespace;
use baremark_services::service::Service as _;
use baremark_services::users::{make_for, own_environment};
use baremark_sys::calls::again_after_signals;
use baremark_sys::confine::{self, Held, Limits};
use baremark_sys::container_engine::{Container, INSIDE, PODMAN, Root};
use baremark_sys::private_folder::PrivateFolder;
use baremark_sys::private_folder::directory::Directory;
use baremark_sys::supervised;
use baremark_sys::{process, process_tree};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// One that needs no privilege, which servers in containers lack.
const PORT: u16 = 8080;
const PREFIX: &str = "baremark-farm-";
/// What nginx serves and its own files, which its user writes, below the farm's folder.
const SERVED: &str = "served";
/// How long a server may take to listen, and to send a file.
const PATIENCE: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(2);

/// Which web server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// This program's own ([`crate::static_server`]).
    Static,
    /// nginx, one process.
    Nginx(PathBuf),
}

/// What a farm is made of.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The web server.
    pub program: Program,
    /// This program, which is the static server as well.
    pub own: PathBuf,
    /// The most servers.
    pub most: u32,
    /// CPUs that one server may use of all, 1.0 being one.
    pub quota: f64,
    /// Limit of the rate of each server's link, in bits per second.
    pub link: Option<u64>,
    /// The CPUs on which servers run; empty for all.
    pub cpus: Vec<usize>,
    /// The options with which podman starts containers here, where each server is in one; `None` for processes in namespaces.
    pub container: Option<Vec<String>>,
}

struct Server {
    /// The server, or the supervisor of its container.
    child: Child,
    /// The server's sign of life in a container: its end is the container's.
    input: Option<ChildStdin>,
    /// The server itself, once it listens; it is alone in its control group.
    pid: Option<u32>,
    node: Arc<Node>,
    /// The settings of its link as the kernel made it, or why they are unknown: dense mode alone needs them.
    link: Result<LinkSettings, Arc<FarmError>>,
    _held: Held,
}

impl Server {
    /// The settings of its link as the kernel made it.
    fn link(&self) -> Result<&LinkSettings, FarmError> {
        self.link.as_ref().map_err(|why| FarmError::Link(Arc::clone(why)))
    }
}

/// Servers that listen. Dropping it ends them and removes the network.
pub struct Farm {
    layout: Layout,
    // In the order in which they go.
    servers: Vec<Server>,
    starter: Starter,
    quotas: Option<Quotas>,
    network: Network,
    /// As whom servers run; `None` leaves them to this process's user.
    owner: Option<(u32, u32)>,
    folder: PrivateFolder,
}

impl Drop for Farm {
    fn drop(&mut self) {
        if self.layout.container.is_some() {
            // All containers end with their input, at the same time. Their supervisors are asked to end one after the other: each asks the engine.
            self.servers.iter_mut().for_each(|server| drop(server.input.take()));
            self.servers.iter_mut().for_each(|server| supervised::end(&mut server.child));
            return;
        }
        self.servers.iter_mut().for_each(|server| drop(server.child.kill()));
        self.servers.iter_mut().for_each(|server| drop(server.child.wait()));
    }
}

impl Farm {
    /// A farm without servers.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(journal: &Journal, layout: Layout) -> Result<Farm, FarmError> {
        let parent = std::env::temp_dir();
        drop(PrivateFolder::orphans(&parent, PREFIX));
        let folder = PrivateFolder::create(&parent, PREFIX)
            .map_err(FarmError::io(format!("making a folder under {}", parent.display())))?;
        let owner = owner(&layout.program);
        if let Program::Nginx(_) = layout.program {
            let served = folder.path().join(SERVED);
            let written = make_for(owner, &served)
                .and_then(|()| Directory::of_others(&served))
                .and_then(|served| content::write(&served, owner));
            written.map_err(FarmError::io("writing the files to be served"))?;
        }
        let network = Network::with_room(journal, layout.most)?;
        // Containers have control groups of the engine's.
        let own_groups = layout.container.is_none();
        let quotas = own_groups.then(|| Quotas::new(journal, layout.quota)).transpose()?.flatten();
        let starter = Starter::new().map_err(FarmError::io("starting a thread"))?;
        Ok(Farm { layout, servers: Vec::new(), starter, quotas, network, owner, folder })
    }

    /// Whether this machine holds servers to their quota.
    #[must_use]
    pub fn has_quota(&self) -> bool {
        self.quotas.is_some() || self.layout.container.is_some()
    }

    /// Starts servers until there are `count`, and waits until each has sent its files.
    ///
    /// # Errors
    /// Why one did not.
    pub fn grow(&mut self, count: usize) -> Result<(), FarmError> {
        let first = self.servers.len();
        while self.servers.len() < count {
            self.add()?;
        }
        (first..count).try_for_each(|at| self.check(at))?;
        self.identify(first)
    }

    /// Looks for the processes of the servers from `first` on: a container's is somewhere below its engine.
    fn identify(&mut self, first: usize) -> Result<(), FarmError> {
        if self.layout.container.is_none() {
            self.servers[first..].iter_mut().for_each(|server| server.pid = Some(server.child.id()));
            return Ok(());
        }
        let begin = [INSIDE, "static", "--listen"];
        // The last word of a command line is followed by an empty one.
        let is = |words: &[String]| words.len() > 3 && words.iter().zip(begin).all(|(word, own)| word == own);
        let found = process_tree::with_command(is).map_err(FarmError::io("looking for web servers"))?;
        for server in &mut self.servers[first..] {
            let address = SocketAddr::from((server.node.address, PORT)).to_string();
            server.pid = found.iter().find(|(_, words)| words[3] == address).map(|(pid, _)| *pid);
        }
        Ok(())
    }

    /// Processor time that the servers have used so far, in ns: each is one process, alone in its control group. `None` where one's is
    /// unknown.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        self.servers.iter().map(|server| process_tree::cpu_ns(server.pid?)).sum()
    }

    /// Where the first `count` servers listen.
    #[must_use]
    pub fn addresses(&self, count: usize) -> Vec<SocketAddr> {
        self.servers.iter().take(count).map(|server| SocketAddr::from((server.node.address, PORT))).collect()
    }

    /// Brings every link into a mode: packets from the servers wait up to `Some` time for others before they are taken, or are taken at once as the
    /// kernel does by default.
    ///
    /// # Errors
    /// When the kernel refuses one of the settings, or keeps another value.
    pub fn defer(&self, timeout: Option<Duration>) -> Result<(), FarmError> {
        self.servers.iter().try_for_each(|server| server.link()?.set(&server.node, timeout))
    }

    /// A link that is not in this mode, as its settings are read now.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn in_other_mode(&self, timeout: Option<Duration>) -> Result<Option<String>, FarmError> {
        for server in &self.servers {
            let wanted = server.link()?.wanted(timeout);
            let found = LinkSettings::read(&server.node)?;
            if found != wanted {
                return Ok(Some(format!("{}: {found}, not {wanted}", server.node.outside)));
            }
        }
        Ok(None)
    }

    /// Packets that the host's ends of all links have taken from the servers so far.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn packets(&self) -> std::io::Result<u64> {
        self.servers.iter().map(|server| deferral::packets(&server.node)).sum()
    }

    /// A server that has ended, in words.
    pub fn fallen(&mut self) -> Option<String> {
        let ended = |(at, server): (usize, &mut Server)| {
            let status = server.child.try_wait().ok()??;
            Some(format!("web server {} has ended: {status}", at + 1))
        };
        self.servers.iter_mut().enumerate().find_map(ended)
    }

    fn add(&mut self) -> Result<(), FarmError> {
        let node = Arc::new(self.network.namespace()?);
        let link = LinkSettings::read(&node).map_err(Arc::new);
        self.layout.link.map(|rate| self.network.limit_rate(&node, rate)).transpose()?;
        let address = SocketAddr::from((node.address, PORT));
        // It begins when it reads a line, in its control group by then.
        let mut command = Command::new("sh");
        command.args(["-c", "read -r go && exec \"$0\" \"$@\""]);
        match (&self.layout.program, &self.layout.container) {
            (_, Some(options)) => {
                let words = self.contained(options, &node, address);
                command.arg(&self.layout.own).args(words.map_err(FarmError::io("making a container's root"))?)
            }
            (Program::Static, None) => {
                own_environment(&mut command, self.folder.path());
                command.arg(&self.layout.own).args(["static", "--listen", &address.to_string()]);
                // It becomes that user itself, who need not get to where this program is.
                command.args(self.owner.map(|(user, group)| format!("--user={user}:{group}")))
            }
            (Program::Nginx(nginx), None) => {
                let served = self.folder.path().join(SERVED);
                let file = self.configured(&served, address);
                let file = file.map_err(FarmError::io("writing nginx's configuration"))?;
                if let Some((user, group)) = self.owner {
                    command.uid(user).gid(group);
                }
                own_environment(&mut command, &served);
                command.current_dir(&served);
                command.arg(nginx).arg("-p").arg(&served).arg("-e").arg("stderr").arg("-c").arg(file)
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let limits = Limits { cpus: self.layout.cpus.clone(), ..Limits::default() };
        // The engine itself stays outside: runtimes refuse a container in the namespace in which they run.
        let inside = self.layout.container.is_none().then_some(&node);
        let at_death = if inside.is_some() { confine::SIGKILL } else { supervised::AT_DEATH };
        let started = self.starter.start(inside, command, &limits, at_death);
        let (child, held) = started.map_err(FarmError::io("starting a web server"))?;
        self.servers.push(Server { child, input: None, pid: None, node, link, _held: held });
        let at = self.servers.len() - 1;
        let child = &mut self.servers[at].child;
        if let Some(quotas) = &mut self.quotas {
            let joined = quotas.group().and_then(|group| fs::write(group, child.id().to_string()));
            joined.map_err(FarmError::io("giving a web server its CPU quota"))?;
        }
        let mut input = child.stdin.take();
        let go = input.as_mut().map(|input| input.write_all(b"go\n"));
        self.servers[at].input = input;
        go.transpose().map(drop).map_err(FarmError::io("starting a web server"))
    }

    fn container_name(&self, at: usize) -> String {
        let name = self.folder.path().file_name().map(|name| name.to_string_lossy().into_owned());
        format!("{}-{at}", name.unwrap_or_default())
    }

    /// The arguments of this program that start the next server in a container, under a supervisor: without privileges, in its namespace, with its
    /// quota.
    fn contained(&self, options: &[String], node: &Node, address: SocketAddr) -> std::io::Result<Vec<OsString>> {
        let at = self.servers.len();
        let root = self.folder.path().join(format!("root-{at}"));
        for folder in ["tmp", "dev", "proc", "sys", "etc", "run"] {
            fs::create_dir_all(root.join(folder))?;
        }
        let name = self.container_name(at);
        let way: Vec<&str> = options.iter().map(String::as_str).collect();
        let container = Container {
            engine: PODMAN.as_ref(),
            name: &name,
            way: &way,
            network: &format!("ns:{}", node.namespace.path().display()),
            cpus: &self.layout.cpus,
            memory_bytes: None,
            program: &self.layout.own,
            options: vec![format!("--cpus={}", self.layout.quota).into()],
            root: Root::Empty(&root),
        };
        let supervisor = supervised::podman(&[], &name).into_iter().map(OsString::from);
        let mut words: Vec<OsString> = supervisor.chain(container.arguments()).collect();
        words.extend([INSIDE, "tend", INSIDE, "static", "--listen"].map(OsString::from));
        words.push(address.to_string().into());
        Ok(words)
    }

    /// The configuration of one nginx: one process, which serves the files of the folder.
    fn configured(&self, root: &Path, address: SocketAddr) -> std::io::Result<PathBuf> {
        let name = address.ip().to_string();
        let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|key| format!("  {key}_temp_path {}/{name}-{key};\n", root.display()))
            .collect();
        let text = format!(
            "daemon off; master_process off; worker_processes 1; pid {root}/{name}.pid;\nevents {{ worker_connections 1024; }}\n\
             http {{\n  types {{ text/html html; image/jpeg jpg; }}\n  access_log off; sendfile on; tcp_nopush on; \
             keepalive_requests 1000000;\n{folders}  server {{ listen {address}; root {root}; }}\n}}\n",
            root = root.display()
        );
        let file = format!("{name}.conf");
        // The folder is its owner's, who may exchange what is in it: nothing is opened by a link.
        Directory::of_others(root)?.replace(Path::new(&file), text.as_bytes(), self.owner)?;
        Ok(root.join(file))
    }

    /// Waits until a server listens and compares what it sends with what it should.
    fn check(&mut self, at: usize) -> Result<(), FarmError> {
        let faulty = |fault| FarmError::Server { number: at + 1, fault };
        let server = &mut self.servers[at];
        let address = SocketAddr::from((server.node.address, PORT));
        // Many containers that start at once wait for each other.
        let until = Instant::now() + if self.layout.container.is_some() { 6 * PATIENCE } else { PATIENCE };
        let mut stream = loop {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => break stream,
                Err(why) => {
                    if let Ok(Some(status)) = server.child.try_wait() {
                        return Err(faulty(ServerFault::Ended(status)));
                    }
                    if Instant::now() >= until {
                        return Err(faulty(ServerFault::Unreachable(address, why)));
                    }
                    thread::sleep(GLANCE);
                }
            }
        };
        for file in content::files() {
            let right = served(&mut stream, file.path).is_ok_and(|bytes| bytes == file.bytes);
            if !right {
                return Err(faulty(ServerFault::OtherBytes(file.path)));
            }
        }
        Ok(())
    }
}

/// As whom servers run that the superuser starts: nginx as its package's user, this program as nobody. Neither looks its user up, so that there need be none
/// of that name.
fn owner(program: &Program) -> Option<(u32, u32)> {
    if !confine::is_root() {
        return None;
    }
    let account = |user| Install { user, ..Nginx.install() }.account(confine::user);
    let of_package = match program {
        Program::Static => None,
        Program::Nginx(_) => account(Nginx.install().user),
    };
    in_this_namespace(of_package.or_else(|| account(None))?)
}

/// The body of one file.
fn served(stream: &mut TcpStream, path: &str) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: farm\r\n\r\n").as_bytes())?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
            let whole = end + 4 + length.unwrap_or(0);
            if bytes.len() >= whole {
                return Ok(bytes.split_off(end + 4));
            }
        }
        match again_after_signals(|| stream.read(&mut buffer))? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => bytes.extend(&buffer[..read]),
        }
    }
}

/// nginx of this machine.
#[must_use]
pub fn nginx() -> Option<PathBuf> {
    process::installed("nginx", &["/usr/sbin", "/usr/local/sbin"])
}
