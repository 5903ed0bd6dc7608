//! A full Linux guest in QEMU, from a kernel and the program alone.
//!
//! There is no disk image: the initial file system is the program as the first process, and the kernel modules that are
//! requested. Nothing lies on this machine's disk either; the file system is handed over in memory. The first serial port
//! is the guest's console and becomes the site's log, the second or a virtio port carries the frames, paced as `model::flow_control` says. QEMU
//! is a child like any other and dies with the lab, and the guest with it.
//!
//! It is fast only where the processor runs the guest itself. Where that does not work, in a bounded test, the guest is
//! emulated, and says so.

mod disk_totals;
mod hardware;
mod operations;
mod portion;
mod qmp;
mod root;
mod settings;
pub(crate) mod study;

pub use operations::{Done, GuestOperations, Operation};
pub use settings::{Accel, Backing, Disks, Mmu, Net, Port, Root, Settings, Topology};

use crate::child::{self, Piped};
use crate::guest::difference::Difference;
use crate::guest::frames::{NotThere, connect};
use crate::guest::initial::Initial;
use crate::guest::portion::environment;
use crate::guest::{kernel, memory};
use crate::lab::LabPort;
use baremark_model::disk_latency::DiskLatency;
use baremark_model::site::{Environment, Link, Missing, OWN_ROOT, Portion, Site, SiteError, loopback};
use baremark_sys::affinity::pin_thread;
use baremark_sys::process_tree;
use disk_totals::DiskTotals;
use qmp::Qmp;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The emulator's program.
const QEMU: &str = "qemu-system-x86_64";
/// A guest's first disk, as it sees it.
const FIRST_DISK: &str = "/dev/vda";
/// The qemu environment: boots one guest for each site.
pub struct Qemu {
    program: PathBuf,
    settings: Settings,
    /// What is found or made once, for all guests of the same kernel and program.
    once: Arc<Once>,
}

#[derive(Default)]
struct Once {
    initial: Initial,
    emulated: OnceLock<bool>,
}

impl Qemu {
    /// With this program as the guest's first process, usually the one that is running; it must be static.
    #[must_use]
    pub fn new(program: PathBuf, settings: Settings) -> Self {
        Qemu { program, settings, once: Arc::default() }
    }

    /// The same with other settings.
    fn with(&self, settings: Settings) -> Self {
        Qemu { program: self.program.clone(), settings, once: Arc::clone(&self.once) }
    }

    fn kernel(&self) -> PathBuf {
        self.settings.kernel.clone().unwrap_or_else(kernel::of_this_machine)
    }

    /// All modules that the guest loads, in order.
    fn module_files(&self) -> Result<Vec<PathBuf>, Missing> {
        let settings = &self.settings;
        let mut names = hardware::drivers(settings);
        names.extend(settings.module_names.iter().cloned());
        kernel::module_files(&settings.modules, &names, settings.module_folder.as_deref())
    }

    /// The initial file system, made once and kept in memory.
    fn initial(&self) -> Result<PathBuf, SiteError> {
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let search_path = (self.settings.root == Root::Host).then_some(search_path.as_os_str());
        self.once.initial.path(&self.program, || self.module_files(), search_path)
    }

    fn command(&self, emulated: bool) -> Result<(Command, Qmp), SiteError> {
        let settings = &self.settings;
        let mut command = Command::new(QEMU);
        command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35"]);
        let (accel, usual) = if emulated { ("tcg,thread=multi", "max") } else { ("kvm", "host") };
        command.args(["-accel", accel, "-cpu", settings.cpu_model.as_deref().unwrap_or(usual)]);
        if settings.port == Port::Virtio {
            // Before all other virtio devices, which the guest would count first.
            command.args(["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=frames,name=baremark"]);
        }
        hardware::tell(settings, &mut command)?;
        command.arg("-kernel").arg(self.kernel());
        command.arg("-initrd").arg(self.initial()?);
        let mut words = vec!["console=ttyS0", "quiet", "panic=-1"];
        if emulated {
            // The kernel panics when a timer looks broken that is merely late, as an emulated one is on a busy machine.
            words.push("no_timer_check");
        }
        let own_root = format!("{OWN_ROOT}=1");
        if settings.root == Root::Program {
            // What the kernel does not know it hands to its first process as a variable.
            words.push(&own_root);
        }
        words.extend(settings.kernel_options.iter().map(String::as_str));
        words.extend(["--", "agent", "--guest", settings.port.path()]);
        if let Some(address) = &settings.address {
            words.extend(["--address", address]);
        }
        if settings.root == Root::Host {
            words.extend(["--host-files", root::TAG]);
        }
        let dirty_per_s = settings.beat.map(|bytes| bytes.to_string());
        if let Some(bytes) = &dirty_per_s {
            words.extend(["--beat", bytes]);
            if !settings.disks.paths.is_empty() {
                words.extend(["--disk", FIRST_DISK]);
            }
        }
        command.arg("-append").arg(words.join(" "));
        command.args(["-chardev", "file,id=console,path=/dev/stderr", "-serial", "chardev:console"]);
        command.args(["-chardev", "stdio,id=frames,signal=off"]);
        if settings.port == Port::Serial {
            command.args(["-serial", "chardev:frames"]);
        }
        let qmp = Qmp::attach(&mut command).map_err(SiteError::io("preparing QEMU's machine protocol"))?;
        Ok((command, qmp))
    }

    /// Boots a guest and waits until its agent listens.
    fn boot(&self, emulated: bool, limit: Duration, interrupt: &AtomicBool) -> Result<QemuSite, SiteError> {
        let Net::Lab(lab) = self.settings.net else { return self.boot_connected(emulated, limit, interrupt) };
        let remedy = "run as root, or with CAP_NET_ADMIN, or write net = \"user\"".to_owned();
        let port = lab.0().map_err(|what| Missing { what, remedy })?;
        let net = Net::Tap { device: port.name(), vhost: Path::new("/dev/vhost-net").exists() };
        let address = Some(format!("{}/{}", port.address(), port.length()));
        let settings = Settings { net, address, ..self.settings.clone() };
        let guest = self.with(settings);
        let mut site = guest.boot_connected(emulated, limit, interrupt)?;
        site.lab = Some(port);
        Ok(site)
    }

    fn boot_connected(&self, emulated: bool, limit: Duration, interrupt: &AtomicBool) -> Result<QemuSite, SiteError> {
        let (mut command, mut qmp) = self.command(emulated)?;
        let (files, socket) = root::serve(&self.settings, &mut command)?.unzip();
        let mut guest = Piped::spawn(&mut command)?;
        // With a copy of QEMU's end left open here the daemon would not hear QEMU's end.
        drop(socket);
        qmp.handed_over();
        let (from_port, to_port) = guest.streams("QEMU")?;
        match connect(from_port, to_port, Instant::now() + limit, interrupt) {
            Ok(link) => {
                let mut site = QemuSite {
                    guest,
                    files,
                    link: Some(link),
                    qmp,
                    address: self.user_address(),
                    lab: None,
                    disks: DiskTotals::of(&self.settings.disks),
                };
                match self.settle(emulated, &mut site.qmp, site.guest.pid()) {
                    Ok(()) => Ok(site),
                    Err(why) => Err(site.not_ready(why.to_string())),
                }
            }
            Err(why) => {
                let accel = if emulated { "emulated" } else { "KVM" };
                let what = match why {
                    NotThere::Other(why) => return Err(why),
                    NotThere::Ended => {
                        let stopped = qmp.stopped().map(str::to_owned);
                        stopped.unwrap_or_else(|| format!("the {accel} guest ended before its agent was there"))
                    }
                    NotThere::Silent => {
                        format!(
                            "the agent did not connect within {} s of the start of its {accel} guest",
                            limit.as_secs()
                        )
                    }
                };
                Err(QemuSite { guest, files, link: None, qmp, address: None, lab: None, disks: DiskTotals::default() }
                    .not_ready(what))
            }
        }
    }

    /// The guest's address in QEMU's own network, where it has that.
    fn user_address(&self) -> Option<String> {
        let address = self.settings.address.as_deref().filter(|_| matches!(self.settings.net, Net::User(_)))?;
        Some(address.split('/').next().unwrap_or(address).to_owned())
    }

    /// Makes of a running guest what was requested and reads back that it is; else what is not so.
    fn settle(&self, emulated: bool, qmp: &mut Qmp, pid: u32) -> Result<(), Difference> {
        let settings = &self.settings;
        if qmp.kvm().map_err(Difference::Protocol)? == emulated {
            return Err(Difference::Accelerator);
        }
        let threads = qmp.vcpu_threads().map_err(Difference::Protocol)?;
        if threads.len() != settings.vcpus {
            return Err(Difference::Vcpus { found: threads.len().into(), wanted: settings.vcpus });
        }
        for (vcpu, (&thread, &cpu)) in threads.iter().zip(&settings.pin).enumerate() {
            pin_thread(thread, cpu).map_err(|source| Difference::Pinning { vcpu, cpu, source })?;
        }
        for disk in 0..settings.disks.paths.len() {
            let cache = qmp.cache_of(&format!("disk{disk}")).map_err(Difference::Protocol)?;
            if cache != Some(hardware::caching(&settings.disks)) {
                return Err(Difference::Cache(disk));
            }
            let (thread, queues) = qmp.disk_device(&hardware::device_id(disk)).map_err(Difference::Protocol)?;
            if thread != settings.disks.iothread.then(|| hardware::iothread_id(disk)) {
                let thread = thread.unwrap_or_else(|| "the main loop".to_owned());
                return Err(Difference::Thread { disk, thread });
            }
            if settings.disks.queues.is_some_and(|asked| queues != Some(asked as u64)) {
                return Err(Difference::Queues { disk, queues });
            }
        }
        memory::backing_is(settings.backing, settings.memory_bytes, pid)
    }

    /// Whether a guest reaches its agent within the test's limit when the processor runs it.
    fn kvm_works(&self, interrupt: &AtomicBool) -> bool {
        let device = File::options().read(true).write(true).open("/dev/kvm");
        device.is_ok() && self.boot(false, self.settings.test_limit, interrupt).is_ok()
    }
}

impl Environment for Qemu {
    fn name(&self) -> &'static str {
        "qemu"
    }

    fn probe(&self) -> Result<(), Missing> {
        let ran = child::run(Command::new(QEMU).arg("--version"), Duration::from_secs(10));
        let why = match ran {
            Ok(ran) if ran.well() => None,
            Ok(ran) => Some(ran.failure()),
            Err(why) => Some(why.to_string()),
        };
        if let Some(why) = why {
            let remedy = "install QEMU for x86-64 (qemu-system-x86 on Debian)".to_owned();
            return Err(Missing { what: format!("{QEMU} does not run: {why}"), remedy });
        }
        child::has_its_program(&self.program)?;
        kernel::are_words(&self.settings.kernel_options)?;
        hardware::check(&self.settings)?;
        root::check(self.settings.root)?;
        kernel::are_readable(std::iter::once(self.kernel()).chain(self.module_files()?))
    }

    fn emulated(&self, interrupt: &AtomicBool) -> bool {
        match self.settings.accel {
            Accel::Kvm => false,
            Accel::Tcg => true,
            Accel::Auto => *self.once.emulated.get_or_init(|| !self.kvm_works(interrupt)),
        }
    }

    fn portion(&self, portion: Portion) -> Result<Option<Box<dyn Environment>>, Missing> {
        let own = portion::of(&self.settings, portion)?;
        Ok(environment(&self.settings, own, |settings| self.with(settings)))
    }

    fn start(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        self.probe()?;
        Ok(Box::new(self.boot(self.emulated(interrupt), self.settings.boot_limit, interrupt)?))
    }
}

/// Where a guest reaches this machine's loopback through QEMU's own network.
pub const HOST_SEEN: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

struct QemuSite {
    guest: Piped,
    /// What serves the guest's files, where that is a process of its own.
    files: Option<Piped>,
    link: Option<Link>,
    qmp: Qmp,
    /// In QEMU's own network.
    address: Option<String>,
    /// On the lab's bridge; dropped after the guest.
    lab: Option<Box<dyn LabPort>>,
    disks: DiskTotals,
}

impl QemuSite {
    fn address(&self) -> Result<&str, SiteError> {
        self.address.as_deref().ok_or_else(|| {
            let remedy = "write net = \"lab\" or net = \"user\" in [environments.qemu]".to_owned();
            Missing { what: "the guest is on no network of the lab's, nor in QEMU's own".to_owned(), remedy }.into()
        })
    }
}

impl QemuSite {
    /// Ends it, because of this.
    fn not_ready(mut self, what: String) -> SiteError {
        self.kill();
        SiteError::NotReady { what, log: self.log() }
    }
}

impl Site for QemuSite {
    fn link(&mut self) -> Option<Link> {
        self.link.take()
    }

    fn kill(&mut self) {
        self.guest.kill();
        if let Some(files) = &mut self.files {
            files.kill();
        }
    }

    fn log(&self) -> Vec<String> {
        let complaint = |line: &String| !line.contains("Waiting for vhost-user socket connection");
        let mut lines: Vec<String> =
            self.files.iter().flat_map(Piped::log).filter(complaint).map(|line| format!("virtiofsd: {line}")).collect();
        lines.extend(self.guest.log());
        lines.extend(self.qmp.stopped().map(str::to_owned));
        lines
    }

    fn hypervisor_cpu_ns(&self) -> Option<u64> {
        let processes = std::iter::once(&self.guest).chain(&self.files);
        processes.map(|process| process_tree::cpu_ns(process.pid())).sum()
    }

    /// Its loopback cannot be led to.
    fn listens_on(&self) -> Ipv4Addr {
        Ipv4Addr::UNSPECIFIED
    }

    /// Both for streams and for datagrams.
    fn reach(&mut self, there: u16, here: u16) -> Result<SocketAddr, SiteError> {
        if let Some(port) = &self.lab {
            return Ok(SocketAddr::from((port.address(), there)));
        }
        let to = format!("127.0.0.1:{here}-{}:{there}", self.address()?);
        for transport in ["tcp", "udp"] {
            let forwarded = self.qmp.monitor(&format!("hostfwd_add net0 {transport}:{to}"));
            forwarded.map_err(SiteError::io(format!("leading port {here} into the guest")))?;
        }
        Ok(loopback(here))
    }

    fn offer(&mut self, here: u16, _there: u16) -> Result<SocketAddr, SiteError> {
        if let Some(port) = &mut self.lab {
            let what = format!("leading a guest to port {here} of this machine");
            return port.offer(here).map_err(SiteError::io(what));
        }
        self.address()?;
        Ok(SocketAddr::from((HOST_SEEN, here)))
    }

    fn count_disks(&mut self) -> io::Result<bool> {
        self.disks.count(&mut self.qmp)
    }

    fn disks_counted(&mut self) -> io::Result<Vec<DiskLatency>> {
        self.disks.counted(&mut self.qmp)
    }

    /// From the lab's bridge as it is, from QEMU's own network through this machine.
    fn sees(&mut self, address: SocketAddr) -> Result<SocketAddr, SiteError> {
        if self.lab.is_some() { Ok(address) } else { self.address().map(|_| address) }
    }
}
