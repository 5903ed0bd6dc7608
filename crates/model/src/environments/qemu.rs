//! A Linux guest of QEMU.

use super::guest::{BLOCK_DEVICES, BY_KERNEL, CORES, DISKS, GUEST, GUEST_PAGES, KERNEL_OPTIONS, MMU, MODULES, SOCKETS};
use super::kind::{
    Capabilities, EnvironmentKind, FRESH, INSTEAD_OF, START_LIMIT, Setting, harmless, identifying, setting,
};
use crate::knob::{Default, Kind};

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "qemu",
    help: "a Linux guest with this program as its first process",
    needs: "QEMU and a kernel for guests; emulated without access to /dev/kvm",
    grant: "apt-get install qemu-system-x86 && baremark setup guest-kernel",
    can: Capabilities { network: true, ..GUEST },
    settings: SETTINGS,
    elsewhere_by: &[],
    short: Some(BY_KERNEL),
};

const SETTINGS: &[Setting] = &[
    setting("vcpus", Kind::Count { min: 1, max: 4096 }, Default::Derived("as many as ranks"))
        .help("virtual processors of the guest, or of all guests together where count divides the work"),
    setting("memory", Kind::Size { min: 128 << 20, max: 1 << 46 }, Default::Typed("2 GiB"))
        .help("memory of the guest, or of all guests together"),
    setting("accel", Kind::Choice(&["auto", "kvm", "tcg"]), Default::Typed("auto")).help(
        "auto takes kvm where a test boot succeeds in time, else tcg, which emulates and never gives a \
         verdict",
    ),
    identifying(
        "kernel",
        Kind::Text,
        Default::Derived("what `baremark setup guest-kernel` has fetched, else this machine's own, under /boot"),
    )
    .help("the guest's kernel: a bzImage, or a folder that `baremark setup guest-kernel --to FOLDER` has filled"),
    setting("rootfs", Kind::Choice(&["program", "host"]), Default::Typed("program")).help(
        "the guest's files: this program alone, or this machine's own, read-only under a layer in the guest's \
         memory (virtiofs; needs root), so that the same programs run natively and in the guest",
    ),
    SOCKETS,
    CORES,
    setting("threads", Kind::Count { min: 1, max: 8 }, Default::Derived("one")).help("hardware threads of each core"),
    setting("guest_numa", Kind::Choice(&["hidden", "exposed"]), Default::Typed("hidden"))
        .help("exposed gives the guest this machine's NUMA nodes, each with memory of its own node"),
    setting("guest_nodes", Kind::Count { min: 1, max: 64 }, Default::Derived("as many as this machine has")).help(
        "with guest_numa = exposed: NUMA nodes among which the guest's vCPUs and memory are divided, each \
         within one of this machine's",
    ),
    harmless("cpu_model", Kind::Text, Default::Derived("host with kvm, max when emulated"))
        .help("the guest's processor, as qemu-system-x86_64 -cpu help lists them"),
    setting("backing", Kind::Choice(&["as-is", "4k", "2m", "hugetlb"]), Default::Typed("as-is")).help(
        "backing of the guest's memory: the kernel's choice, small pages, transparent huge pages, or reserved \
         ones",
    ),
    GUEST_PAGES,
    MMU,
    harmless("pin", Kind::Words, Default::Derived("not pinned"))
        .help("the CPU of each vCPU thread, in order; pinned over QMP and read back"),
    DISKS,
    setting(
        "disk_cache",
        Kind::Choice(&["none", "writeback", "writethrough", "directsync", "unsafe"]),
        Default::Typed("none"),
    )
    .help("how this machine caches the guest's disks"),
    setting("disk_aio", Kind::Choice(&["threads", "native", "io_uring"]), Default::Typed("threads"))
        .help("how QEMU reads and writes them; native needs disk_cache none or directsync"),
    setting("disk_iothread", Kind::Switch, Default::Typed("false"))
        .help("true serves each of them by a thread of its own, outside QEMU's main loop; read back over QMP"),
    setting("disk_queues", Kind::Count { min: 1, max: 1024 }, Default::Derived("one for each vCPU"))
        .help("queues of each of them, at most vcpus; read back over QMP"),
    BLOCK_DEVICES,
    setting("net", Kind::Choice(&["none", "lab", "user", "tap"]), Default::Typed("none")).help(
        "the guest's network: none, a bridge that the run makes with a tap for each guest, QEMU's user \
         network (its address is 10.0.2.15), or a tap of this machine",
    ),
    identifying("forwards", Kind::Words, Default::Derived("none"))
        .help("ports of this machine's loopback that lead into a guest with net = user, as HOST:GUEST"),
    identifying("tap", Kind::Text, Default::Derived("none")).help("the tap device of net = tap, which must be there"),
    identifying("address", Kind::Text, Default::Derived("10.0.2.15/24 with net = user, else none"))
        .help("the guest's address and prefix length"),
    setting("vhost", Kind::Switch, Default::Typed("false"))
        .help("whether this machine's kernel moves the packets of a tap"),
    setting("offloads", Kind::Switch, Default::Typed("true"))
        .help("whether checksums and segmentation are left to the device"),
    MODULES,
    KERNEL_OPTIONS,
    setting("start_limit", START_LIMIT, Default::Typed("180 s")).help(
        "how long a guest may take to boot until its agent connects, also an emulated one on a busy machine; \
         accel = auto gives KVM's test boot a few seconds of it",
    ),
    INSTEAD_OF,
    FRESH,
];
