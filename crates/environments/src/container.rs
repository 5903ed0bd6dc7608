//! A container on this machine, made by podman, or by docker as far as that takes the same commands.
//!
//! Nothing is built or fetched: unless an image or a folder is given, the root is an empty folder into which the program
//! is mounted read-only, which a static program does not mind. The agent speaks over a socket that is mounted, too ([`frames`]).
//! It has no network and no capability unless asked. The engine's client is started by a supervisor ([`supervisor`]), which removes the
//! container when the lab is killed; what is left when the supervisor is killed too is recorded, and the next start removes it.

mod frames;
mod leftovers;
pub(crate) mod study;
pub mod supervisor;

pub use leftovers::Containers;

use crate::child::{self, Piped, Ran};
use crate::folder::Folder;
use crate::lab::{Connect, LabPort};
use baremark_model::image;
use baremark_model::site::{Environment, Link, Missing, OWN_ROOT, Portion, Site, SiteError, loopback};
use baremark_sys::container_engine::{self, Access, GVISOR, INSIDE, NOTHING, PODMAN, WAYS, Way, mounted};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use frames::Frames;

/// How long the engine may take to start a container that ends at once, or to remove one.
const ENGINE_LIMIT: Duration = Duration::from_secs(20);

/// What the container's files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Root {
    /// Nothing but the program.
    #[default]
    Program,
    /// An image; it is fetched by the engine when it does not exist.
    Image(String),
    /// A folder; the engine makes mount points in it.
    Folder(PathBuf),
}

/// The container's network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Only its own loopback.
    #[default]
    None,
    /// The machine's own.
    Host,
    /// A bridge of the engine's.
    Bridge,
    /// A network namespace on a bridge of the lab, made for each container that starts.
    Lab(Connect),
}

/// Whether system calls pass the engine's filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seccomp {
    /// The engine's default filter, as users have it.
    #[default]
    On,
    /// No filter.
    Off,
}

/// What the engine starts containers with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Its name, as the engine knows it.
    pub name: String,
    /// How gVisor intercepts system calls; used with `runsc` alone.
    pub platform: String,
}

/// How containers are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The container's files.
    pub root: Root,
    /// The CPUs that it may use; all when `None`.
    pub cpus: Option<Vec<usize>>,
    /// The most memory that it may use, in bytes; no limit when `None`.
    pub memory_bytes: Option<u64>,
    /// Its network.
    pub network: Network,
    /// Its system call filter.
    pub seccomp: Seccomp,
    /// Its runtime; the engine's own when `None`.
    pub runtime: Option<Runtime>,
    /// Where what it writes to its own files goes.
    pub layer: Layer,
    /// Folders of this machine, and where the container sees them, writable.
    pub volumes: Vec<(PathBuf, PathBuf)>,
}

/// Where a container without an image writes its own files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// To the folder that is its root.
    #[default]
    Folder,
    /// To an overlay over that folder, as containers of images do.
    Overlay,
}

/// What works on this machine.
#[derive(Clone, Copy, Debug)]
struct Works {
    way: Way,
    /// Whether the agent's socket can be mounted. An engine whose users are others may not reach a private folder.
    socket: bool,
}

/// The container environment: starts `program agent` in a container of its own for each site.
pub struct Container {
    program: PathBuf,
    settings: Settings,
    engine: OsString,
    works: OnceLock<Result<Works, Missing>>,
}

impl Container {
    /// With this program as the agent, usually the one that is running; it must be static.
    #[must_use]
    pub fn new(program: PathBuf, settings: Settings) -> Self {
        Container { program, settings, engine: OsString::from(PODMAN), works: OnceLock::new() }
    }

    /// With another engine that takes podman's command line.
    #[must_use]
    pub fn with_engine(mut self, engine: impl Into<OsString>) -> Self {
        self.engine = engine.into();
        self
    }

    /// The options that work here, found once by running the program's `--version` in a container.
    ///
    /// # Errors
    /// What is missing, with its remedy.
    pub fn way(&self) -> Result<Way, Missing> {
        self.works().map(|works| works.way)
    }

    fn works(&self) -> Result<Works, Missing> {
        self.works.get_or_init(|| self.find()).clone()
    }

    fn find(&self) -> Result<Works, Missing> {
        self.program_can_be_mounted()?;
        self.image_can_be_named()?;
        self.volumes_can_be_mounted()?;
        self.docker_has_a_root()?;
        self.runtime_is_known()?;
        self.network_is_possible()?;
        self.engine_is_known()?;
        let mut failures: Vec<(Way, String)> = Vec::new();
        // A runtime that is named takes the place of any that would be tried.
        let tried = |way: &Way| self.settings.runtime.is_none() || !way.contains(&"--runtime");
        // Without the socket where nothing else can be at fault: an image that is not there would be looked for again in every way.
        let sockets = if self.settings.root == Root::Program { &[true, false][..] } else { &[true] };
        for &socket in sockets {
            failures.clear();
            for way in WAYS.into_iter().filter(tried) {
                let works = Works { way, socket };
                match self.try_out(works) {
                    Ok(ran) if ran.well() => return Ok(works),
                    Ok(ran) => failures.push((way, ran.failure())),
                    Err(why) => return Err(self.cannot_be_asked(&why)),
                }
            }
        }
        if let Some(works) = self.setting_at_fault(&failures)? {
            return Ok(works);
        }
        let why = failures.into_iter().next().map(|(_, why)| why).unwrap_or_default();
        Err(self.starts_none(&why))
    }

    /// Refuses an engine that is not installed, which the supervisor would find out in each container.
    fn engine_is_known(&self) -> Result<(), Missing> {
        let ran = child::run(Command::new(&self.engine).arg("version"), ENGINE_LIMIT);
        let ran = ran.map_err(|why| self.cannot_be_asked(&why))?;
        if ran.well() { Ok(()) } else { Err(self.starts_none(&ran.failure())) }
    }

    fn starts_none(&self, why: &str) -> Missing {
        let remedy = format!("see whether `{} run` works at all for this user", self.engine.to_string_lossy());
        Missing { what: format!("containers cannot be started: {why}"), remedy }
    }

    /// Refuses a runtime that is not installed or that the engine cannot be asked for.
    fn runtime_is_known(&self) -> Result<(), Missing> {
        let Some(Runtime { name, .. }) = &self.settings.runtime else { return Ok(()) };
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        if !path.split(':').any(|folder| Path::new(folder).join(name).is_file()) {
            let what = format!("container runtime {name} not found");
            return Err(Missing { what, remedy: format!("install it (Debian package {name})") });
        }
        let of_gvisor = name == GVISOR;
        if of_gvisor && self.is_docker() {
            let what = "docker takes no options of a runtime, which runsc needs".to_owned();
            return Err(Missing { what, remedy: "write engine = \"podman\"".to_owned() });
        }
        if of_gvisor && self.settings.network != Network::None {
            let what = "gVisor is run without a network here".to_owned();
            return Err(Missing { what, remedy: "write network = \"none\"".to_owned() });
        }
        Ok(())
    }

    /// Docker puts no container into a namespace that is there.
    fn network_is_possible(&self) -> Result<(), Missing> {
        if self.is_docker() && matches!(self.settings.network, Network::Lab(_)) {
            let what = "docker puts no container into a network namespace that is there".to_owned();
            return Err(Missing { what, remedy: "write engine = \"podman\" for network = \"lab\"".to_owned() });
        }
        Ok(())
    }

    fn cannot_be_asked(&self, why: &SiteError) -> Missing {
        let engine = self.engine.to_string_lossy();
        let engine = engine.rsplit('/').next().unwrap_or_default();
        let remedy = format!("install {engine}, or leave the environment container out");
        Missing { what: format!("containers cannot be started: {why}"), remedy }
    }

    /// Says which of the settings it is that the engine cannot do, where it starts containers without; what works where it is none but the agent's socket.
    fn setting_at_fault(&self, failures: &[(Way, String)]) -> Result<Option<Works>, Missing> {
        let mut without = self.settings.clone();
        let (none, remedy) = match (std::mem::take(&mut without.root), self.settings.network) {
            (Root::Image(name), _) => (format!("none of the image {name}"), "give an image that it has or can fetch"),
            (Root::Folder(path), _) => {
                (format!("none of the folder {}", path.display()), "give a folder that holds a system's files")
            }
            (Root::Program, Network::Bridge) => {
                without.network = Network::None;
                let remedy =
                    "install what it makes bridges with (Debian: netavark and iptables), or write network = \"host\"";
                ("none on a bridge".to_owned(), remedy)
            }
            (Root::Program, _) if self.settings.runtime.is_some() => {
                without.runtime = None;
                ("none by that runtime".to_owned(), "see whether the engine can use it, or take another")
            }
            (Root::Program, _) => return Ok(None),
        };
        let works = Container::new(self.program.clone(), without).with_engine(&self.engine).works()?;
        if !works.socket && self.try_out(works).is_ok_and(|ran| ran.well()) {
            return Ok(Some(works));
        }
        let same = failures.iter().find(|(way, _)| *way == works.way);
        let why = same.or(failures.last()).map_or("", |(_, why)| why);
        Err(Missing { what: format!("containers can be started here, but {none}: {why}"), remedy: remedy.to_owned() })
    }

    fn is_docker(&self) -> bool {
        container_engine::is_docker(&self.engine)
    }

    /// Docker takes no folder as a root, so it gets an image that holds nothing.
    fn docker_has_a_root(&self) -> Result<(), Missing> {
        if !self.is_docker() {
            return Ok(());
        }
        if matches!(self.settings.root, Root::Folder(_)) {
            let what = "docker makes no container of a folder".to_owned();
            return Err(Missing { what, remedy: "give an image, or take podman".to_owned() });
        }
        if self.settings.layer == Layer::Overlay && self.settings.root == Root::Program {
            // Docker's own image of nothing has an overlay of the engine's storage driver.
            return Err(Missing {
                what: "layer = \"overlay\" is podman's".to_owned(),
                remedy: "leave layer out".to_owned(),
            });
        }
        if self.settings.root != Root::Program {
            return Ok(());
        }
        let ask = |words: &[&OsStr]| child::run(Command::new(&self.engine).args(words), ENGINE_LIMIT);
        let found = ask(&["image".as_ref(), "inspect".as_ref(), NOTHING.as_ref()]);
        if found.map_err(|why| self.cannot_be_asked(&why))?.well() {
            return Ok(());
        }
        let import = || {
            let folder = Folder::create("container")?;
            let tar = folder.inner().join("nothing.tar");
            // The end of an archive, and nothing before it.
            fs::write(&tar, [0; 10 << 10]).map_err(SiteError::io(format!("writing {}", tar.display())))?;
            ask(&["import".as_ref(), tar.as_ref(), NOTHING.as_ref()])
        };
        let why = match import() {
            Ok(ran) if ran.well() => return Ok(()),
            Ok(ran) => ran.failure(),
            Err(why) => why.to_string(),
        };
        let remedy = "see whether `docker info` works for this user".to_owned();
        Err(Missing { what: format!("containers cannot be started: {why}"), remedy })
    }

    fn program_can_be_mounted(&self) -> Result<(), Missing> {
        child::has_its_program(&self.program)?;
        let path = self.program.to_string_lossy();
        if path.contains([',', '"', '\n']) {
            let what = format!("path {path}: the engine cannot take it");
            return Err(Missing { what, remedy: "move the program to a path without commas and quotes".to_owned() });
        }
        Ok(())
    }

    /// An engine could take another name for an option.
    fn image_can_be_named(&self) -> Result<(), Missing> {
        let Root::Image(name) = &self.settings.root else { return Ok(()) };
        image::check(name).map_err(|why| Missing { what: why.what, remedy: why.remedy })
    }

    fn try_out(&self, Works { way, socket }: Works) -> Result<Ran, SiteError> {
        let folder = Folder::create("container")?;
        let frames = Frames::of(&folder, socket)?;
        let mut command = self.command(&folder, way, frames.options(), None);
        child::run_launcher(command.args([INSIDE, "--version"]), ENGINE_LIMIT, supervisor::END_LIMIT)
    }

    /// The supervisor of `podman run` up to the command inside; `folder` is the container's own and names it, `own` are options of this one alone.
    /// A container on the lab's bridge is one without a network until it has a place there.
    fn command(&self, folder: &Folder, way: Way, own: Vec<OsString>, lab: Option<&dyn LabPort>) -> Command {
        let mut command = Command::new(&self.program);
        // What watches over the container for podman leaves a file where it stands when the memory is used up.
        command.current_dir(folder.path());
        command.args(["supervise", "--name"]).arg(folder.name()).arg("--").arg(&self.engine);
        let network = match (self.settings.network, lab) {
            (Network::Lab(_), Some(port)) => format!("ns:{}", port.name()),
            (Network::None | Network::Lab(_), _) => "none".to_owned(),
            (Network::Host, _) => "host".to_owned(),
            (Network::Bridge, _) => "bridge".to_owned(),
        };
        let (inner, overlay) = (folder.inner(), self.settings.layer == Layer::Overlay);
        let absolute = |root: &PathBuf| std::path::absolute(root).unwrap_or_else(|_| root.clone());
        let path = match &self.settings.root {
            Root::Folder(root) => absolute(root),
            Root::Program | Root::Image(_) => inner.clone(),
        };
        let root = match &self.settings.root {
            Root::Program if self.is_docker() => container_engine::Root::Empty(&inner),
            Root::Program | Root::Folder(_) => container_engine::Root::Folder { path: &path, overlay },
            Root::Image(name) => container_engine::Root::Image(name),
        };
        command.args(
            container_engine::Container {
                engine: &self.engine,
                name: &folder.name(),
                way,
                network: &network,
                cpus: self.settings.cpus.as_deref().unwrap_or_default(),
                memory_bytes: self.settings.memory_bytes,
                program: &self.program,
                options: self.options().into_iter().chain(own).collect(),
                root,
            }
            .arguments(),
        );
        command
    }

    /// Further options of the engine.
    fn options(&self) -> Vec<OsString> {
        let runtime = self.settings.runtime.as_ref();
        let mut options = runtime.map_or_else(Vec::new, |of| container_engine::runtime(&of.name, &of.platform));
        options.extend((self.settings.root == Root::Program).then(|| format!("--env={OWN_ROOT}=1").into()));
        options.extend((self.settings.seccomp == Seccomp::Off).then(|| "--security-opt=seccomp=unconfined".into()));
        let volumes = self.settings.volumes.iter();
        options.extend(volumes.flat_map(|(here, inside)| mounted(here, inside, Access::Write)));
        options
    }

    /// A volume that the engine could misread, or that is not there.
    fn volumes_can_be_mounted(&self) -> Result<(), Missing> {
        for (here, inside) in &self.settings.volumes {
            let odd = |path: &Path| !path.is_absolute() || path.to_string_lossy().contains([',', '"', '\n']);
            if odd(here) || odd(inside) {
                let what = format!("volume {}:{} is not a pair of absolute paths", here.display(), inside.display());
                return Err(Missing { what, remedy: "write such as \"/srv/data:/data\", without commas".to_owned() });
            }
            if !here.is_dir() {
                let what = format!("the volume's folder {} does not exist", here.display());
                return Err(Missing { what, remedy: "make it, or name another".to_owned() });
            }
        }
        Ok(())
    }
}

impl Environment for Container {
    fn name(&self) -> &'static str {
        "container"
    }

    fn probe(&self) -> Result<(), Missing> {
        self.way().map(drop)
    }

    /// Each gets CPUs of its own as long as there are enough, else they share them in turn, and its part of the memory.
    fn portion(&self, portion: Portion) -> Result<Option<Box<dyn Environment>>, Missing> {
        let of = portion.of;
        if of == 1 {
            return Ok(None);
        }
        let cpus = crate::portion::cpus(self.settings.cpus.as_deref(), portion, "containers")?;
        let memory_bytes = self.settings.memory_bytes.map(|bytes| bytes / of as u64);
        let settings = Settings { cpus: Some(cpus), memory_bytes, ..self.settings.clone() };
        let own = Container::new(self.program.clone(), settings).with_engine(&self.engine);
        Ok(Some(Box::new(Container { works: self.works.clone(), ..own })))
    }

    fn start(&self, _interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        drop(Folder::orphans("container"));
        let Works { way, socket } = self.works()?;
        let folder = Folder::create("container")?;
        let lab = match self.settings.network {
            Network::Lab(lab) => Some(lab.0().map_err(|what| Missing {
                what,
                remedy: "run as root, or with CAP_NET_ADMIN, or write network = \"host\"".to_owned(),
            })?),
            _ => None,
        };
        let frames = Frames::of(&folder, socket)?;
        let mut command = self.command(&folder, way, frames.options(), lab.as_deref());
        command.args([INSIDE, "agent", "--frames", frames::INSIDE]);
        let client = Piped::launch(&mut command, supervisor::END_LIMIT)?;
        let engine = Container::new(self.program.clone(), self.settings.clone()).with_engine(&self.engine);
        Ok(Box::new(ContainerSite { client, frames, engine, _folder: folder, lab }))
    }
}

struct ContainerSite {
    client: Piped,
    frames: Frames,
    engine: Container,
    _folder: Folder,
    /// On the lab's bridge; it is there until the container has gone.
    lab: Option<Box<dyn LabPort>>,
}

impl Site for ContainerSite {
    fn link(&mut self) -> Option<Link> {
        self.frames.link(&mut self.client)
    }

    fn relay_works_for(&self) -> Duration {
        self.frames.relay_works_for()
    }

    fn kill(&mut self) {
        // The supervisor removes the container; killing the client alone would leave the agent running for as long as it takes it to notice.
        self.client.kill();
    }

    fn log(&self) -> Vec<String> {
        self.client.log()
    }

    fn listens_on(&self) -> Ipv4Addr {
        if self.lab.is_some() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST }
    }

    fn reach(&mut self, there: u16, _here: u16) -> Result<SocketAddr, SiteError> {
        if let Some(port) = &self.lab {
            return Ok(SocketAddr::from((port.address(), there)));
        }
        self.shares_the_network().map(|()| loopback(there))
    }

    fn offer(&mut self, here: u16, _there: u16) -> Result<SocketAddr, SiteError> {
        if let Some(port) = &mut self.lab {
            let what = format!("leading a container to port {here} of this machine");
            return port.offer(here).map_err(SiteError::io(what));
        }
        self.shares_the_network().map(|()| loopback(here))
    }

    fn sees(&mut self, address: SocketAddr) -> Result<SocketAddr, SiteError> {
        if self.lab.is_some() { Ok(address) } else { self.shares_the_network().map(|()| address) }
    }
}

impl ContainerSite {
    fn shares_the_network(&self) -> Result<(), SiteError> {
        if self.engine.settings.network == Network::Host {
            return Ok(());
        }
        let what = "the container's network is isolated".to_owned();
        Err(Missing {
            what,
            remedy: "write network = \"lab\" or network = \"host\" in [environments.container]".to_owned(),
        }
        .into())
    }
}
