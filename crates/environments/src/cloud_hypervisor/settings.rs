//! How guests are made: what can be set of them.

use crate::guest::memory::Backing;
use crate::guest::mmu::Mmu;
use crate::guest::topology::Topology;
use baremark_sys::user_folder;
use std::path::PathBuf;
use std::time::Duration;

/// The kernel that guests boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GuestKernel {
    /// This machine's own, under /boot, with its modules under /lib/modules.
    #[default]
    OfThisMachine,
    /// That of a folder which `baremark setup guest-kernel` has filled, with its modules.
    Fetched(PathBuf),
    /// A bzImage, or a vmlinux that PVH boots, with virtio-pci and virtio-vsock built in.
    File(PathBuf),
}

impl GuestKernel {
    /// The one of that name, a file or a folder; without a name what was fetched for the user, or this machine's own.
    #[must_use]
    pub fn named(name: Option<PathBuf>) -> Self {
        match name.or_else(user_folder::fetched_kernel) {
            Some(folder) if folder.is_dir() => GuestKernel::Fetched(folder),
            Some(file) => GuestKernel::File(file),
            None => GuestKernel::OfThisMachine,
        }
    }
}

/// The guest's disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disks {
    /// Files, or block devices where that is allowed; raw.
    pub paths: Vec<PathBuf>,
    /// Whether this machine's page cache is between the guest and them.
    pub cached: bool,
    /// Queues of each.
    pub queues: Option<usize>,
    /// Whether block devices may be given to the guest.
    pub block_devices: bool,
}

/// How guests are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The program of Cloud Hypervisor.
    pub program: PathBuf,
    /// The device by which it runs guests.
    pub device: PathBuf,
    /// The kernel.
    pub kernel: GuestKernel,
    /// Kernel modules by name, loaded with all that they need.
    pub module_names: Vec<String>,
    /// Words for the kernel's command line, after ours.
    pub kernel_options: Vec<String>,
    /// Virtual processors.
    pub vcpus: usize,
    /// Whether a site gets as many as ranks run at it, instead of its part of these.
    pub vcpus_as_ranks: bool,
    /// How they are sockets, cores and threads.
    pub topology: Topology,
    /// The CPU on which each vCPU's thread runs, in order; any when empty.
    pub pin: Vec<usize>,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// What it is made of.
    pub backing: Backing,
    /// How KVM translates its addresses.
    pub mmu: Mmu,
    /// Disks.
    pub disks: Disks,
    /// How long a guest may take to boot until its agent listens.
    pub boot_limit: Duration,
    /// How long Cloud Hypervisor may take to answer a request that takes no time.
    pub answer_limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            program: PathBuf::from("cloud-hypervisor"),
            device: PathBuf::from("/dev/kvm"),
            kernel: GuestKernel::default(),
            module_names: Vec::new(),
            kernel_options: Vec::new(),
            vcpus: 1,
            vcpus_as_ranks: false,
            topology: Topology::default(),
            pin: Vec::new(),
            memory_bytes: 512 << 20,
            backing: Backing::AsIs,
            mmu: Mmu::AsIs,
            disks: Disks::default(),
            boot_limit: Duration::from_secs(60),
            answer_limit: Duration::from_secs(30),
        }
    }
}
