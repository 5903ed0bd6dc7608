//! How guests are made: what can be set of them.

pub use crate::guest::memory::Backing;
pub use crate::guest::mmu::Mmu;
pub use crate::guest::topology::Topology;
use crate::lab::Connect;
use baremark_sys::user_folder;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a kernel such as Debian's needs for a virtio port, in the order in which they are loaded.
const VIRTIO_PORT_MODULES: &[&str] = &[
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "drivers/char/virtio_console",
];

/// The guest's disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disks {
    /// Files, or block devices where that is allowed; raw.
    pub paths: Vec<PathBuf>,
    /// QEMU's word for how this machine caches them; none when empty.
    pub cache: String,
    /// QEMU's word for how it reads and writes; threads when empty.
    pub aio: String,
    /// Whether each has a thread of QEMU of its own; without one it is in QEMU's main loop.
    pub iothread: bool,
    /// Queues of each; as many as vCPUs when `None`.
    pub queues: Option<usize>,
    /// Whether block devices may be given to the guest.
    pub block_devices: bool,
}

/// The guest's network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Net {
    /// None.
    #[default]
    None,
    /// QEMU's own, with ports of this machine's loopback (the first of each pair) that lead to the guest's (the second).
    User(Vec<(u16, u16)>),
    /// A tap of this machine.
    Tap {
        /// The device.
        device: String,
        /// Whether the kernel moves the packets.
        vhost: bool,
    },
    /// A tap on a bridge of the lab, made for each guest that starts.
    Lab(Connect),
}

/// What the guest's files are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Root {
    /// The program alone.
    #[default]
    Program,
    /// This machine's, read-only, under a layer that the guest writes to.
    Host,
}

/// What carries the frames. Both are paced in the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Port {
    /// The second serial port, which every kernel knows. It takes a byte or some at a time and is slow with long frames.
    #[default]
    Serial,
    /// A port of virtio, which takes pages at a time and may need kernel modules.
    Virtio,
}

impl Port {
    /// Its name in the guest.
    pub(super) fn path(self) -> &'static str {
        match self {
            Port::Serial => "/dev/ttyS1",
            Port::Virtio => "/dev/vport0p1",
        }
    }
}

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accel {
    /// The processor where a test boot shows that it can, else the emulator.
    #[default]
    Auto,
    /// The processor, by KVM.
    Kvm,
    /// The emulator: exercises the mechanics and measures nothing.
    Tcg,
}

/// How guests are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The kernel, a bzImage; this machine's own under /boot when `None`.
    pub kernel: Option<PathBuf>,
    /// Kernel modules, loaded in this order.
    pub modules: Vec<PathBuf>,
    /// Modules by name, loaded after those with all that they need.
    pub module_names: Vec<String>,
    /// Where modules are looked for by name; where this machine's own are when `None`.
    pub module_folder: Option<PathBuf>,
    /// What its files are.
    pub root: Root,
    /// Words for the kernel's command line, after ours.
    pub kernel_options: Vec<String>,
    /// What carries the frames.
    pub port: Port,
    /// Virtual processors.
    pub vcpus: usize,
    /// Whether a site gets as many as ranks run at it, instead of its part of these.
    pub vcpus_as_ranks: bool,
    /// How they are sockets, cores and threads.
    pub topology: Topology,
    /// The processor, by QEMU's name; as good as there is when `None`.
    pub cpu_model: Option<String>,
    /// The CPU to which each vCPU's thread is pinned, in order; none is when empty.
    pub pin: Vec<usize>,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// What it is made of.
    pub backing: Backing,
    /// Whether the guest sees this machine's NUMA nodes.
    pub guest_numa: bool,
    /// How many nodes it then sees, spread over this machine's; as many as this machine has when `None`.
    pub guest_nodes: Option<usize>,
    /// How KVM translates its addresses.
    pub mmu: Mmu,
    /// Disks.
    pub disks: Disks,
    /// Network.
    pub net: Net,
    /// The guest's address and prefix length, such as 10.0.2.15/24.
    pub address: Option<String>,
    /// Whether checksums and segmentation are left to the network device.
    pub offloads: bool,
    /// Instead of an agent, the guest has a first process that reports that it works, and writes so many bytes of memory each second.
    pub beat: Option<u64>,
    /// What runs its instructions.
    pub accel: Accel,
    /// How long a guest may take until its agent listens.
    pub boot_limit: Duration,
    /// How long the test boot of [`Accel::Auto`] may take.
    pub test_limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            kernel: None,
            modules: Vec::new(),
            module_names: Vec::new(),
            module_folder: None,
            root: Root::Program,
            kernel_options: Vec::new(),
            port: Port::Serial,
            vcpus: 1,
            vcpus_as_ranks: false,
            topology: Topology::default(),
            cpu_model: None,
            pin: Vec::new(),
            memory_bytes: 512 << 20,
            backing: Backing::AsIs,
            guest_numa: false,
            guest_nodes: None,
            mmu: Mmu::AsIs,
            disks: Disks::default(),
            net: Net::None,
            address: None,
            offloads: true,
            beat: None,
            accel: Accel::Auto,
            boot_limit: Duration::from_secs(180),
            test_limit: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// With this kernel, a bzImage or a folder that `baremark setup guest-kernel` has filled; without one with what it has fetched for the user, or with
    /// the kernel of this machine.
    #[must_use]
    pub fn of_kernel(named: Option<PathBuf>) -> Self {
        match named.or_else(user_folder::fetched_kernel) {
            Some(folder) if folder.is_dir() => Settings::of_fetched(&folder),
            kernel => Settings { kernel, ..Settings::default() },
        }
    }

    /// With the kernel that `baremark setup guest-kernel` has put into a folder, and with its modules for a fast port.
    #[must_use]
    pub fn of_fetched(folder: &Path) -> Self {
        let module = |name: &&str| folder.join("modules/kernel").join(format!("{name}.ko"));
        Settings {
            kernel: Some(folder.join("vmlinuz")),
            modules: VIRTIO_PORT_MODULES.iter().map(module).collect(),
            module_folder: Some(folder.join("modules")),
            port: Port::Virtio,
            ..Settings::default()
        }
    }
}
