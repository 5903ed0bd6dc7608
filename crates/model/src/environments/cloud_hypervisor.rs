//! A Linux guest of Cloud Hypervisor.

use super::guest::{BLOCK_DEVICES, BY_KERNEL, CORES, DISKS, GUEST, GUEST_PAGES, KERNEL_OPTIONS, MMU, MODULES, SOCKETS};
use super::kind::{EnvironmentKind, FRESH, INSTEAD_OF, START_LIMIT, Setting, harmless, identifying, setting};
use crate::knob::{Default, Kind};

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "cloud-hypervisor",
    help: "a Linux guest of Cloud Hypervisor on KVM, with this program as its first process; no network, no files of this machine",
    needs: "Cloud Hypervisor 39 or later, and access to /dev/kvm",
    grant: "usermod -aG kvm USER",
    can: GUEST,
    settings: SETTINGS,
    elsewhere_by: &[],
    short: Some(BY_KERNEL),
};

const SETTINGS: &[Setting] = &[
    setting("vcpus", Kind::Count { min: 1, max: 4096 }, Default::Derived("as many as ranks")).help(
        "virtual processors of the guest, or of all guests together where count divides the work; Cloud \
         Hypervisor has limits of its own",
    ),
    setting("memory", Kind::Size { min: 128 << 20, max: 1 << 46 }, Default::Typed("2 GiB"))
        .help("memory of the guest, or of all guests together, in whole pages of 2 MiB"),
    identifying("executable", Kind::Text, Default::Derived("cloud-hypervisor, found by PATH"))
        .help("the file of Cloud Hypervisor, version 39 or later"),
    identifying(
        "kernel",
        Kind::Text,
        Default::Derived("what `baremark setup guest-kernel` has fetched, else this machine's own, under /boot"),
    )
    .help(
        "the guest's kernel: a folder that `baremark setup guest-kernel --to FOLDER` has filled, or a bzImage \
         or vmlinux (PVH) that has virtio-pci and virtio-vsock built in",
    ),
    SOCKETS,
    CORES,
    setting("threads", Kind::Count { min: 1, max: 2 }, Default::Derived("one")).help("hardware threads of each core"),
    setting("backing", Kind::Choice(&["as-is", "4k", "2m", "hugetlb"]), Default::Typed("as-is")).help(
        "backing of the guest's memory: Cloud Hypervisor's choice, small pages, transparent huge pages, or \
         reserved ones; counted in the kernel's statistics of its process",
    ),
    GUEST_PAGES,
    MMU,
    harmless("pin", Kind::Words, Default::Derived("not pinned"))
        .help("the CPU of each vCPU thread, in order; read back from the kernel"),
    DISKS,
    setting("disk_cache", Kind::Choice(&["none", "writeback"]), Default::Typed("none"))
        .help("whether this machine's page cache is between the guest and its disks"),
    setting("disk_queues", Kind::Count { min: 1, max: 1024 }, Default::Derived("one"))
        .help("queues of each of them, at most vcpus"),
    BLOCK_DEVICES,
    MODULES,
    KERNEL_OPTIONS,
    setting("start_limit", START_LIMIT, Default::Typed("60 s"))
        .help("how long a guest may take to boot until its agent connects"),
    INSTEAD_OF,
    FRESH,
];
