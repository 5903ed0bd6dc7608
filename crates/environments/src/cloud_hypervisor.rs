//! A full Linux guest in Cloud Hypervisor, from a kernel and the program alone, on KVM.
//!
//! Its machine is described and started over Cloud Hypervisor's API, and what was requested is read back. There is no disk
//! image: the initial file system is the program as the first process, in memory. The serial port is the guest's console
//! and becomes the site's log. The frames are carried by a virtio socket: the guest connects to a socket of the lab, paced
//! as `model::flow_control` says.
//!
//! Cloud Hypervisor is a child like any other and dies with the lab, and the guest with it. Its sockets lie in a private
//! folder, which is its working folder and is removed once the agent has connected; that of a lab which was killed before
//! goes with the next start. A guest has no network and no files but the program, and is never emulated.

mod api;
mod events;
mod machine;
mod settings;
pub(crate) mod study;

pub use crate::guest::memory::Backing;
pub use crate::guest::mmu::Mmu;
pub use crate::guest::topology::Topology;
pub use settings::{Disks, GuestKernel, Settings};

use crate::child::{self, Piped, hand_over};
use crate::folder::Folder;
use crate::guest::frames::{NotThere, connect};
use crate::guest::initial::Initial;
use crate::guest::memory;
use crate::guest::portion::environment;
use crate::interruptible::{GLANCE, unless};
use api::{Api, Until};
use baremark_model::environments::VERSION;
use baremark_model::site::{Environment, Link, Missing, Portion, Site, SiteError};
use baremark_sys::process_tree;
use events::Events;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf, absolute};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Its name in studies.
const NAME: &str = "cloud-hypervisor";
/// How long the program may take to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// The API's socket, in its working folder.
const API_SOCKET: &str = "api";
/// The first version that boots a bzImage.
const LEAST_VERSION: u32 = 39;

/// The cloud-hypervisor environment: boots one guest for each site.
pub struct CloudHypervisor {
    program: PathBuf,
    settings: Settings,
    /// What is found or made once, for all guests of the same kernel and program.
    once: Arc<Once>,
}

#[derive(Default)]
struct Once {
    initial: Initial,
    version: OnceLock<Result<String, Missing>>,
}

impl CloudHypervisor {
    /// With this program as the guest's first process, usually the one that is running; it must be static.
    #[must_use]
    pub fn new(program: PathBuf, settings: Settings) -> Self {
        CloudHypervisor { program, settings, once: Arc::default() }
    }

    /// The same with other settings.
    fn with(&self, settings: Settings) -> Self {
        CloudHypervisor { program: self.program.clone(), settings, once: Arc::clone(&self.once) }
    }

    /// The version of Cloud Hypervisor as it prints it, asked for once.
    fn version(&self) -> Result<String, Missing> {
        let name = self.settings.program.display();
        let find = || {
            let said = child::run(Command::new(self.executable()?).arg("--version"), VERSION_LIMIT);
            let why = match said {
                Ok(ran) if ran.well() => {
                    let version = ran.said.first().cloned().unwrap_or_default();
                    return is_recent(&version).map(|()| version);
                }
                Ok(ran) => ran.failure(),
                Err(why) => why.to_string(),
            };
            let remedy = "install Cloud Hypervisor, or name its file: executable".to_owned();
            Err(Missing { what: format!("{name} does not run: {why}"), remedy })
        };
        self.once.version.get_or_init(find).clone()
    }

    /// The program of Cloud Hypervisor, whatever the folder in which it is started.
    fn executable(&self) -> Result<PathBuf, Missing> {
        let named = &self.settings.program;
        if named.components().count() == 1 {
            return Ok(named.clone());
        }
        absolute(named).map_err(|why| Missing {
            what: format!("the program {} of Cloud Hypervisor: {why}", named.display()),
            remedy: "give the absolute path".to_owned(),
        })
    }

    /// Boots a guest and waits until its agent listens.
    fn boot(&self, interrupt: &AtomicBool) -> Result<GuestSite, SiteError> {
        let initial = self.once.initial.path(&self.program, || machine::module_files(&self.settings), None)?;
        let config = machine::config(&self.settings, &initial)?;
        let sockets = Sockets::make().map_err(SiteError::io("making sockets for Cloud Hypervisor"))?;
        let (events, theirs) = Events::heard().map_err(SiteError::io("making a pipe for Cloud Hypervisor"))?;
        let mut command = Command::new(self.executable()?);
        command.arg("--api-socket").arg(format!("path={API_SOCKET}"));
        command.arg("--event-monitor").arg(format!("fd={}", theirs.as_raw_fd()));
        command.current_dir(sockets.folder.inner());
        memory::hold_to(self.settings.backing, &mut command);
        hand_over(&mut command, &theirs);
        let process = Piped::spawn(&mut command)?;
        // With a copy of that end left open here the end of its events would not be heard.
        drop(theirs);
        let mut site = GuestSite { process, events, link: None };
        match site.come_up(&self.settings, &config, &sockets, interrupt) {
            Ok(()) => Ok(site),
            Err(why) => Err(site.give_up(why, self.settings.boot_limit)),
        }
    }
}

impl Environment for CloudHypervisor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn probe(&self) -> Result<(), Missing> {
        self.version()?;
        can_use(&self.settings.device)?;
        child::has_its_program(&self.program)?;
        machine::check(&self.settings)
    }

    fn found(&self) -> BTreeMap<String, Vec<String>> {
        self.version().map(|version| (VERSION.to_owned(), vec![version])).into_iter().collect()
    }

    fn portion(&self, portion: Portion) -> Result<Option<Box<dyn Environment>>, Missing> {
        let own = machine::portion(&self.settings, portion)?;
        Ok(environment(&self.settings, own, |settings| self.with(settings)))
    }

    fn start(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        self.probe()?;
        // A lab that was killed while its guest booted has left its folder.
        drop(Folder::orphans(NAME));
        Ok(Box::new(self.boot(interrupt)?))
    }
}

/// Says that a version is too early, where its number can be read: `cloud-hypervisor v49.0`.
fn is_recent(version: &str) -> Result<(), Missing> {
    let number: Option<u32> =
        version.split_whitespace().find_map(|word| word.strip_prefix('v')?.split('.').next()?.parse().ok());
    match number {
        Some(number) if number < LEAST_VERSION => Err(Missing {
            what: format!("{version} boots no bzImage"),
            remedy: format!("install version {LEAST_VERSION} or a later one"),
        }),
        _ => Ok(()),
    }
}

/// Says why this machine runs no guests by this device.
fn can_use(device: &Path) -> Result<(), Missing> {
    let Err(why) = File::options().read(true).write(true).open(device) else { return Ok(()) };
    let remedy = match why.kind() {
        io::ErrorKind::NotFound => "load kvm_intel or kvm_amd, or take the environment qemu, which can emulate",
        io::ErrorKind::PermissionDenied => "add the user to the group of that file, mostly kvm, and log in again",
        _ => "let the kernel's KVM work, or take the environment qemu, which can emulate",
    };
    Err(Missing { what: format!("{} cannot be opened: {why}", device.display()), remedy: remedy.to_owned() })
}

/// The private folder with the sockets of one Cloud Hypervisor, which has it as its working folder.
struct Sockets {
    folder: Folder,
    /// That folder, by which its sockets have short names however long its path is.
    opened: File,
    /// Where the guest's agent connects.
    agent: UnixListener,
}

impl Sockets {
    fn make() -> io::Result<Self> {
        let folder = Folder::create(NAME).map_err(io::Error::other)?;
        let opened = File::open(folder.inner())?;
        let agent = UnixListener::bind(within(&opened, &machine::agent_socket()))?;
        agent.set_nonblocking(true)?;
        Ok(Sockets { folder, opened, agent })
    }

    /// That of the API, once Cloud Hypervisor has made it.
    fn of_api(&self) -> PathBuf {
        within(&self.opened, API_SOCKET)
    }
}

/// A name in an opened folder.
fn within(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

/// A guest, and the lab's child that runs it.
struct GuestSite {
    process: Piped,
    events: Events,
    link: Option<Link>,
}

/// Why a guest did not become a site.
enum Failure {
    /// Something else than the guest or Cloud Hypervisor.
    Own(SiteError),
    /// In words.
    Said(String),
    /// There is no agent in time.
    Silent,
}

impl From<SiteError> for Failure {
    fn from(why: SiteError) -> Self {
        Failure::Own(why)
    }
}

impl From<api::ApiError> for Failure {
    fn from(why: api::ApiError) -> Self {
        match why {
            api::ApiError::Interrupted => Failure::Own(SiteError::Interrupted),
            why => Failure::Said(why.to_string()),
        }
    }
}

impl GuestSite {
    /// Has the guest made and booted, and waits until its agent listens and it is as requested.
    fn come_up(
        &mut self,
        settings: &Settings,
        config: &serde_json::Value,
        sockets: &Sockets,
        interrupt: &AtomicBool,
    ) -> Result<(), Failure> {
        let within_limit = |limit| Until::within(limit, interrupt);
        let api = self.api(&sockets.of_api(), settings.answer_limit, interrupt)?;
        api.get("vmm.ping", within_limit(settings.answer_limit))?;
        // Memory that is touched before the guest runs takes its time in one of these, by the version.
        let long = settings.boot_limit.max(settings.answer_limit);
        api.put("vm.create", Some(config), within_limit(long))?;
        api.put("vm.boot", None, within_limit(long))?;
        let until = within_limit(settings.boot_limit);
        let stream = self.accepted(&sockets.agent, until)?;
        let copy = stream.try_clone().map_err(SiteError::io("the guest's socket"))?;
        match connect(FromGuest(stream), copy, until.deadline, interrupt) {
            Ok(link) => self.link = Some(link),
            Err(NotThere::Other(why)) => return Err(Failure::Own(why)),
            Err(NotThere::Ended) => return Err(Failure::Said(AGENT_ENDED.to_owned())),
            Err(NotThere::Silent) => return Err(Failure::Silent),
        }
        let info = api.get("vm.info", within_limit(settings.answer_limit))?;
        machine::is_as_requested(settings, &info, self.process.pid()).map_err(|why| Failure::Said(why.to_string()))
    }

    /// A connection to the API, once its socket is there.
    fn api(&mut self, socket: &Path, limit: Duration, interrupt: &AtomicBool) -> Result<Api, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            match UnixStream::connect(socket).and_then(Api::over) {
                Ok(api) => return Ok(api),
                Err(why) if Instant::now() >= deadline => {
                    let limit_s = limit.as_secs();
                    let what = format!("Cloud Hypervisor made no API socket within {limit_s} s: {why}");
                    return Err(Failure::Said(what));
                }
                Err(_) => self.still_runs(interrupt)?,
            }
        }
    }

    /// The connection of the guest's agent.
    fn accepted(&mut self, listener: &UnixListener, until: Until<'_>) -> Result<UnixStream, Failure> {
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(why) if why.kind() != io::ErrorKind::WouldBlock => {
                    return Err(SiteError::io("waiting for the guest's agent")(why).into());
                }
                Err(_) if Instant::now() >= until.deadline => return Err(Failure::Silent),
                Err(_) => self.still_runs(until.interrupt)?,
            }
        }
    }

    /// Waits a moment and says why it is in vain to wait longer.
    fn still_runs(&mut self, interrupt: &AtomicBool) -> Result<(), Failure> {
        unless(interrupt)?;
        if self.events.restarted() {
            return Err(Failure::Said(RESTARTED.to_owned()));
        }
        match self.process.ends_within(GLANCE) {
            true => Err(Failure::Said("Cloud Hypervisor ended before the guest's agent was there".to_owned())),
            false => Ok(()),
        }
    }

    /// Ends it, because of this.
    fn give_up(mut self, why: Failure, limit: Duration) -> SiteError {
        self.process.kill();
        let what = match why {
            Failure::Own(why) => return why,
            Failure::Said(what) => what,
            Failure::Silent => {
                format!("the agent did not connect within {} s of the start of its guest", limit.as_secs())
            }
        };
        SiteError::NotReady { what, log: self.process.log() }
    }
}

/// What is said of a guest whose first process could not go on.
const AGENT_ENDED: &str = "the guest's agent ended before it was ready";
/// What is said of a guest that restarted itself.
const RESTARTED: &str = "the guest restarted itself, as it does when its kernel panics";

impl Site for GuestSite {
    fn link(&mut self) -> Option<Link> {
        self.link.take()
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn log(&self) -> Vec<String> {
        let mut lines = self.process.log();
        lines.extend(self.events.restarted().then(|| RESTARTED.to_owned()));
        lines
    }

    fn hypervisor_cpu_ns(&self) -> Option<u64> {
        process_tree::cpu_ns(self.process.pid())
    }
}

/// What comes from the guest. Its end closes the whole connection, for which a guest waits that is about to switch itself off.
struct FromGuest(UnixStream);

impl Read for FromGuest {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Drop for FromGuest {
    fn drop(&mut self) {
        drop(self.0.shutdown(Shutdown::Both));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_boots_no_distributions_kernel_is_refused() {
        for version in ["cloud-hypervisor v39.0", "cloud-hypervisor v49.0-12-g0123", "cloud-hypervisor of my own", ""] {
            assert_eq!(is_recent(version), Ok(()), "{version}");
        }
        let why = is_recent("cloud-hypervisor v38.0.0").expect_err("too early").to_string();
        assert_eq!(why, "cloud-hypervisor v38.0.0 boots no bzImage; install version 39 or a later one");
    }

    #[test]
    fn a_device_that_cannot_be_opened_is_refused_with_a_remedy() {
        let why = can_use(Path::new("/nowhere/kvm")).expect_err("it does not exist").to_string();
        assert!(why.starts_with("/nowhere/kvm cannot be opened: No such file or directory"), "{why}");
        assert!(why.ends_with("; load kvm_intel or kvm_amd, or take the environment qemu, which can emulate"), "{why}");
        let why = can_use(Path::new("/")).expect_err("a folder").to_string();
        assert!(why.contains("let the kernel's KVM work"), "{why}");
        assert_eq!(can_use(Path::new("/dev/null")), Ok(()));
    }

    #[test]
    fn a_program_that_does_not_exist_is_missing_with_a_remedy() {
        let settings = Settings { program: PathBuf::from("/nowhere/cloud-hypervisor"), ..Settings::default() };
        let why = CloudHypervisor::new(PathBuf::from("/bin/sh"), settings).probe().expect_err("gone").to_string();
        assert!(
            why.starts_with("/nowhere/cloud-hypervisor does not run: starting /nowhere/cloud-hypervisor: "),
            "{why}"
        );
        assert!(why.ends_with("; install Cloud Hypervisor, or name its file: executable"), "{why}");
    }
}
