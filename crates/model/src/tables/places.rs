//! The places of every study: environments, and what `[environments.NAME]` may set about each.

use super::{HOUR, SECOND};
use crate::descriptor::{Default, Kind, Knob, Value};
use std::collections::BTreeMap;

/// Where a study's work can run, and what can be set about it in `[environments.NAME]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Its name as a level of the factor `environment`.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// Whether its arms run in an agent on this machine itself, so that two of them can be interleaved in one process.
    pub on_this_machine: bool,
    /// Whether it runs on this machine's kernel.
    pub host_kernel: bool,
    /// Whether it runs on this machine's processors.
    pub host_cpus: bool,
    /// Whether it is a virtual machine, whose exits cost time.
    pub exits: bool,
    /// Whether its programs find this machine's files at the same paths.
    pub host_files: bool,
    /// Whether several can run at once, among which ranks and memory are divided behind one gate.
    pub divisible: bool,
    /// Whether it can be the other end of a workload that talks to another site.
    pub peer: bool,
    /// What can be set.
    pub settings: &'static [Knob],
}

/// A place that shares nothing with this machine.
const ELSEWHERE: Place = Place {
    name: "",
    help: "",
    on_this_machine: false,
    host_kernel: false,
    host_cpus: false,
    exits: false,
    host_files: false,
    divisible: false,
    peer: false,
    settings: &[],
};

/// A place whose agent is this machine's own.
const HERE: Place = Place { on_this_machine: true, host_kernel: true, host_cpus: true, host_files: true, ..ELSEWHERE };

/// All places.
pub const PLACES: &[Place] = &[
    Place { name: "native", help: "this machine itself", peer: true, ..HERE },
    Place {
        name: "microvm",
        help: "this machine, inside a virtual machine that shares the agent's memory: the CPU and MMU part alone. Runs kernels, and \
               any 64-bit x86 program with the host's kernel behind it: good for what paging, page sizes and exits cost your \
               own code within a minute; device and kernel work runs natively, so it is a lower bound for a virtual machine. With exitless = \"on\" a \
               polling thread answers the system calls of a program without exits, which takes a CPU of its own",
        exits: true,
        divisible: true,
        ..HERE
    },
    Place { name: "null", help: "no-op: measures the harness overhead", ..HERE },
    Place {
        name: "sandbox",
        help: "this machine's programs in namespaces and under a seccomp filter, as a container engine's default; made by baremark itself, without \
               an engine, an image or root. What the kernel refuses is left out and recorded",
        host_kernel: true,
        host_cpus: true,
        host_files: true,
        divisible: true,
        peer: true,
        settings: SANDBOX,
        ..ELSEWHERE
    },
    Place {
        name: "container",
        help: "a container (podman) made of this program alone",
        host_kernel: true,
        host_cpus: true,
        divisible: true,
        peer: true,
        settings: CONTAINER,
        ..ELSEWHERE
    },
    Place {
        name: "qemu",
        help: "a Linux guest with this program as its first process",
        host_cpus: true,
        exits: true,
        divisible: true,
        peer: true,
        settings: QEMU,
        ..ELSEWHERE
    },
    Place { name: "ssh", help: "another machine, reached by ssh", peer: true, settings: SSH, ..ELSEWHERE },
    Place { name: "slurm", help: "a job of a Slurm cluster, by srun or sbatch", settings: SLURM, ..ELSEWHERE },
    Place { name: "mpi", help: "a process that Open MPI has launched", settings: MPI, ..ELSEWHERE },
    Place { name: "kubernetes", help: "a pod of a Kubernetes cluster, by kubectl", settings: KUBERNETES, ..ELSEWHERE },
];

/// Whether the host of an environment of this kind is this machine, so that features of this host (`host.KEY`) are features below its work.
/// Processes of MPI are here where nothing names hosts.
#[must_use]
pub fn is_hosted_here(kind: &str, settings: Option<&BTreeMap<String, Value>>) -> bool {
    let names_hosts = |key: &str| settings.is_some_and(|settings| settings.contains_key(key));
    place(kind).is_some_and(|place| place.host_cpus)
        || (kind == "mpi" && !names_hosts("hostfile") && !names_hosts("arguments"))
}

/// Whether programs in an environment of this kind run on this machine's kernel behind a filter of system calls, as the engines of containers have
/// by default: it refuses io_uring and others.
#[must_use]
pub fn filters_calls(kind: &str, settings: Option<&BTreeMap<String, Value>>) -> bool {
    let behind = place(kind).is_some_and(|place| place.host_kernel && !place.on_this_machine);
    let setting = |key: &str| settings.and_then(|settings| settings.get(key));
    let off = matches!(setting("seccomp"), Some(Value::Choice(word)) if word == "off");
    let without =
        matches!(setting("layers"), Some(Value::Words(layers)) if layers.iter().all(|layer| layer != "seccomp"));
    behind && !off && !without
}

/// The names of [`PLACES`].
pub const ENVIRONMENTS: &[&str] =
    &["native", "microvm", "null", "sandbox", "container", "qemu", "ssh", "slurm", "mpi", "kubernetes"];

const SANDBOX: &[Knob] = &[
    Knob {
        key: "layers",
        kind: Kind::Words,
        default: Default::Derived("all that this machine permits"),
        help: "what separates the sandbox from this machine: control-group, user, mount, ipc, uts, network, pid (namespaces), capabilities, \
               seccomp; without network it has this machine's network",
    },
    Knob {
        key: "write",
        kind: Kind::Words,
        default: Default::Derived("the working folder"),
        help: "folders of this machine that programs in the sandbox may write to; all others are read-only, /tmp and /dev/shm are its own",
    },
    Knob {
        key: "read",
        kind: Kind::Words,
        default: Default::Derived("none"),
        help: "files and folders in /tmp or /dev/shm that the sandbox sees, read-only",
    },
    Knob {
        key: "memory",
        kind: Kind::Size { min: 16 << 20, max: 1 << 46 },
        default: Default::Derived("no limit"),
        help: "the most memory that the sandbox may use; needs a control group",
    },
    Knob {
        key: "cpus",
        kind: Kind::Words,
        default: Default::Derived("all"),
        help: "the numbers of the CPUs that the sandbox may use",
    },
    INSTEAD_OF,
    FRESH,
];

const CONTAINER: &[Knob] = &[
    Knob {
        key: "memory",
        kind: Kind::Size { min: 16 << 20, max: 1 << 46 },
        default: Default::Derived("no limit"),
        help: "the most memory that the container may use",
    },
    Knob {
        key: "network",
        kind: Kind::Choice(&["none", "lab", "host", "bridge"]),
        default: Default::Typed("none"),
        help: "the network that the container sees: none, a bridge that the run makes with a namespace for each container, this machine's, or a bridge of the engine's",
    },
    Knob {
        key: "seccomp",
        kind: Kind::Choice(&["on", "off"]),
        default: Default::Typed("on"),
        help: "whether the engine filters the container's system calls",
    },
    Knob {
        key: "engine",
        kind: Kind::Choice(&["podman", "docker"]),
        default: Default::Typed("podman"),
        help: "the program that makes containers",
    },
    Knob {
        key: "runtime",
        kind: Kind::Choice(&["runc", "crun", "runsc"]),
        default: Default::Derived("the engine's own, or runc where that does not work"),
        help: "the runtime that the engine starts containers with; runsc is gVisor, which needs engine podman and network none",
    },
    Knob {
        key: "platform",
        kind: Kind::Choice(&["ptrace", "systrap", "kvm"]),
        default: Default::Derived("ptrace with runtime = runsc, else none"),
        help: "how gVisor intercepts system calls; Debian 12's runsc has ptrace and kvm",
    },
    Knob {
        key: "image",
        kind: Kind::Text,
        default: Default::Derived("nothing but this program"),
        help: "the container's image; the engine pulls it when it is missing",
    },
    Knob {
        key: "rootfs",
        kind: Kind::Text,
        default: Default::Derived("nothing but this program"),
        help: "the folder that is the root of its files, instead of an image; \"host\" is this machine's own files under an overlay, so that the same \
               programs run natively and in the container, and what they write is dropped (needs root); podman alone",
    },
    Knob {
        key: "layer",
        kind: Kind::Choice(&["folder", "overlay"]),
        default: Default::Typed("folder"),
        help: "without an image: the container writes to a plain folder, or to an overlay over one; podman alone",
    },
    Knob {
        key: "volumes",
        kind: Kind::Words,
        default: Default::Derived("none"),
        help: "folders of this machine that the container sees and may write to, as \"HERE:INSIDE\"",
    },
    Knob {
        key: "cpus",
        kind: Kind::Words,
        default: Default::Derived("all"),
        help: "the numbers of the CPUs that the container may use",
    },
    INSTEAD_OF,
    FRESH,
];

const QEMU: &[Knob] = &[
    Knob {
        key: "vcpus",
        kind: Kind::Count { min: 1, max: 4096 },
        default: Default::Derived("as many as ranks"),
        help: "virtual processors of the guest, or of all guests together where count divides the work",
    },
    Knob {
        key: "memory",
        kind: Kind::Size { min: 128 << 20, max: 1 << 46 },
        default: Default::Typed("2 GiB"),
        help: "memory of the guest, or of all guests together",
    },
    Knob {
        key: "accel",
        kind: Kind::Choice(&["auto", "kvm", "tcg"]),
        default: Default::Typed("auto"),
        help: "auto takes kvm where a test boot succeeds in time, else tcg, which emulates and never gives a verdict",
    },
    Knob {
        key: "kernel",
        kind: Kind::Text,
        default: Default::Derived(
            "what `baremark setup guest-kernel` has fetched, else this machine's own, under /boot",
        ),
        help: "the guest's kernel: a bzImage, or a folder that `baremark setup guest-kernel --to FOLDER` has filled",
    },
    Knob {
        key: "rootfs",
        kind: Kind::Choice(&["program", "host"]),
        default: Default::Typed("program"),
        help: "the guest's files: this program alone, or this machine's own, read-only under a layer in the guest's memory \
               (virtiofs; needs root), so that the same programs run natively and in the guest",
    },
    Knob {
        key: "sockets",
        kind: Kind::Count { min: 1, max: 256 },
        default: Default::Derived("one"),
        help: "sockets that the guest sees; with cores and threads it must give vcpus",
    },
    Knob {
        key: "cores",
        kind: Kind::Count { min: 1, max: 4096 },
        default: Default::Derived("vcpus"),
        help: "cores in each socket",
    },
    Knob {
        key: "threads",
        kind: Kind::Count { min: 1, max: 8 },
        default: Default::Derived("one"),
        help: "hardware threads of each core",
    },
    Knob {
        key: "guest_numa",
        kind: Kind::Choice(&["hidden", "exposed"]),
        default: Default::Typed("hidden"),
        help: "exposed gives the guest this machine's NUMA nodes, each with memory of its own node",
    },
    Knob {
        key: "guest_nodes",
        kind: Kind::Count { min: 1, max: 64 },
        default: Default::Derived("as many as this machine has"),
        help: "with guest_numa = exposed: NUMA nodes among which the guest's vCPUs and memory are divided, each within one of this \
               machine's",
    },
    Knob {
        key: "cpu_model",
        kind: Kind::Text,
        default: Default::Derived("host with kvm, max when emulated"),
        help: "the guest's processor, as qemu-system-x86_64 -cpu help lists them",
    },
    Knob {
        key: "backing",
        kind: Kind::Choice(&["as-is", "4k", "2m", "hugetlb"]),
        default: Default::Typed("as-is"),
        help: "backing of the guest's memory: the kernel's choice, small pages, transparent huge pages, or reserved ones",
    },
    Knob {
        key: "guest_pages",
        kind: Kind::Choice(&["always", "madvise", "never"]),
        default: Default::Typed("madvise"),
        help: "the guest kernel's transparent huge pages",
    },
    Knob {
        key: "mmu",
        kind: Kind::Choice(&["as-is", "nested", "shadow"]),
        default: Default::Typed("as-is"),
        help: "how KVM translates addresses; refused where the loaded module does otherwise",
    },
    Knob {
        key: "pin",
        kind: Kind::Words,
        default: Default::Derived("not pinned"),
        help: "the CPU of each vCPU thread, in order; pinned over QMP and read back",
    },
    Knob {
        key: "disks",
        kind: Kind::Words,
        default: Default::Derived("none"),
        help: "files or block devices that the guest sees as virtio disks, raw",
    },
    Knob {
        key: "disk_cache",
        kind: Kind::Choice(&["none", "writeback", "writethrough", "directsync", "unsafe"]),
        default: Default::Typed("none"),
        help: "how this machine caches the guest's disks",
    },
    Knob {
        key: "disk_aio",
        kind: Kind::Choice(&["threads", "native", "io_uring"]),
        default: Default::Typed("threads"),
        help: "how QEMU reads and writes them; native needs disk_cache none or directsync",
    },
    Knob {
        key: "disk_iothread",
        kind: Kind::Switch,
        default: Default::Typed("false"),
        help: "true serves each of them by a thread of its own, outside QEMU's main loop; read back over QMP",
    },
    Knob {
        key: "disk_queues",
        kind: Kind::Count { min: 1, max: 1024 },
        default: Default::Derived("one for each vCPU"),
        help: "queues of each of them, at most vcpus; read back over QMP",
    },
    Knob {
        key: "block_devices",
        kind: Kind::Switch,
        default: Default::Typed("false"),
        help: "true lets disks be block devices, whose contents the guest may overwrite",
    },
    Knob {
        key: "net",
        kind: Kind::Choice(&["none", "lab", "user", "tap"]),
        default: Default::Typed("none"),
        help: "the guest's network: none, a bridge that the run makes with a tap for each guest, QEMU's user network (its address is 10.0.2.15), or a tap of this machine",
    },
    Knob {
        key: "forwards",
        kind: Kind::Words,
        default: Default::Derived("none"),
        help: "ports of this machine's loopback that lead into a guest with net = user, as HOST:GUEST",
    },
    Knob {
        key: "tap",
        kind: Kind::Text,
        default: Default::Derived("none"),
        help: "the tap device of net = tap, which must be there",
    },
    Knob {
        key: "address",
        kind: Kind::Text,
        default: Default::Derived("10.0.2.15/24 with net = user, else none"),
        help: "the guest's address and prefix length",
    },
    Knob {
        key: "vhost",
        kind: Kind::Switch,
        default: Default::Typed("false"),
        help: "whether this machine's kernel moves the packets of a tap",
    },
    Knob {
        key: "offloads",
        kind: Kind::Switch,
        default: Default::Typed("true"),
        help: "whether checksums and segmentation are left to the device",
    },
    Knob {
        key: "modules",
        kind: Kind::Words,
        default: Default::Derived("none"),
        help: "modules that the guest's kernel loads, by name; their dependencies are loaded first",
    },
    Knob {
        key: "kernel_options",
        kind: Kind::Words,
        default: Default::Derived("none"),
        help: "further words of the guest kernel's command line, such as mitigations=off or nohz_full=1-3",
    },
    Knob {
        key: "start_limit",
        kind: START_LIMIT,
        default: Default::Typed("180 s"),
        help: "how long a guest may take to boot until its agent connects, also an emulated one on a busy machine; accel = auto gives KVM's test boot a few seconds of it",
    },
    INSTEAD_OF,
    FRESH,
];

const SSH: &[Knob] = &[
    Knob {
        key: "host",
        kind: Kind::Text,
        default: Default::Required,
        help: "the machine as ssh knows it: a name of its configuration, or user@address",
    },
    Knob {
        key: "port",
        kind: Kind::Count { min: 1, max: 65_535 },
        default: Default::Derived("from ssh's configuration"),
        help: "the port of its ssh server",
    },
    Knob {
        key: "config",
        kind: Kind::Text,
        default: Default::Derived("the user's own"),
        help: "ssh's configuration file",
    },
    Knob {
        key: "identity",
        kind: Kind::Text,
        default: Default::Derived("from ssh's configuration"),
        help: "the private key",
    },
    INSTEAD_OF,
    FRESH,
];

const SLURM: &[Knob] = &[
    Knob {
        key: "launcher",
        kind: Kind::Choice(&["srun", "sbatch"]),
        default: Default::Typed("srun"),
        help: "srun talks with the job directly, sbatch by files, for clusters that let in batch jobs alone",
    },
    Knob {
        key: "partition",
        kind: Kind::Text,
        default: Default::Derived("the cluster's default"),
        help: "the partition of the job",
    },
    Knob {
        key: "nodes",
        kind: Kind::Count { min: 1, max: 100_000 },
        default: Default::Typed("1"),
        help: "nodes of the job; the agent runs on the first, and its processes may use all",
    },
    Knob {
        key: "ntasks",
        kind: Kind::Count { min: 1, max: 10_000_000 },
        default: Default::Typed("1"),
        help: "tasks of the job; the agent is the first, and its processes may use the slots of the others",
    },
    Knob {
        key: "cpus",
        kind: Kind::Count { min: 1, max: 4096 },
        default: Default::Derived("one for each CPU that the process may use"),
        help: "CPUs of each task",
    },
    Knob {
        key: "time",
        kind: Kind::Time { min: 60 * SECOND, max: 8784 * HOUR },
        default: Default::Derived("the partition's limit"),
        help: "the job's time limit, rounded up to minutes",
    },
    Knob {
        key: "pending_limit",
        kind: Kind::Time { min: SECOND, max: 8784 * HOUR },
        default: Default::Typed("10 min"),
        help: "how long a job may wait in the queue before it is cancelled and its trial fails",
    },
    Knob { key: "start_limit", kind: START_LIMIT, default: Default::Typed("60 s"), help: START_HELP },
    Knob {
        key: "folder",
        kind: Kind::Text,
        default: Default::Derived("the working directory"),
        help: "where batch jobs keep their files: a folder that all nodes see",
    },
    Knob {
        key: "config",
        kind: Kind::Text,
        default: Default::Derived("from Slurm's commands"),
        help: "the cluster's slurm.conf",
    },
    Knob {
        key: "arguments",
        kind: Kind::Words,
        default: Default::Derived("none"),
        help: "further arguments of srun or sbatch, passed on unchanged",
    },
    INSTEAD_OF,
    FRESH,
];

const START_LIMIT: Kind = Kind::Time { min: SECOND, max: 24 * HOUR };
const START_HELP: &str = "how long it may take, once it runs, until the agent is there";

const MPI: &[Knob] = &[
    Knob {
        key: "np",
        kind: Kind::Count { min: 1, max: 10_000_000 },
        default: Default::Typed("1"),
        help: "processes of the job; the agent is the first, and its processes may use the slots of the others",
    },
    Knob {
        key: "hostfile",
        kind: Kind::Text,
        default: Default::Derived("this machine, or the batch system's"),
        help: "the hosts and their slots, as mpirun takes them",
    },
    Knob { key: "start_limit", kind: START_LIMIT, default: Default::Typed("60 s"), help: START_HELP },
    Knob {
        key: "arguments",
        kind: Kind::Words,
        default: Default::Derived("none"),
        help: "further arguments of mpirun, passed on unchanged",
    },
    INSTEAD_OF,
    FRESH,
];

const KUBERNETES: &[Knob] = &[
    Knob {
        key: "image",
        kind: Kind::Text,
        default: Default::Required,
        help: "image of the pod's container; it must have a shell (sh) and the usual small programs, as busybox has",
    },
    Knob {
        key: "context",
        kind: Kind::Text,
        default: Default::Derived("kubectl's current context"),
        help: "context of kubectl's configuration",
    },
    Knob {
        key: "namespace",
        kind: Kind::Text,
        default: Default::Derived("the context's namespace"),
        help: "namespace in which pods are created",
    },
    Knob {
        key: "runtime_class",
        kind: Kind::Text,
        default: Default::Derived("the cluster's default"),
        help: "runtime class of the pods, such as gvisor or kata",
    },
    Knob {
        key: "node",
        kind: Kind::Words,
        default: Default::Derived("any"),
        help: "labels that a node must have, as \"KEY=VALUE\"",
    },
    Knob {
        key: "cpus",
        kind: Kind::Count { min: 1, max: 4096 },
        default: Default::Derived("no request and no limit"),
        help: "CPUs that a pod requests, and its limit",
    },
    Knob {
        key: "memory",
        kind: Kind::Size { min: 16 << 20, max: 1 << 46 },
        default: Default::Derived("no request and no limit"),
        help: "memory that a pod requests, and its limit",
    },
    Knob {
        key: "time",
        kind: Kind::Time { min: 60 * SECOND, max: 8784 * HOUR },
        default: Default::Typed("1 h"),
        help: "deadline of a pod, after which the cluster ends it; it must cover the whole run with fresh = \"run\"",
    },
    Knob {
        key: "start_limit",
        kind: START_LIMIT,
        default: Default::Typed("2 min"),
        help: "how long a pod may take until it is ready: scheduling, pulling the image, starting",
    },
    INSTEAD_OF,
    FRESH,
];

/// The key by which `[environments.NAME]` of a name of one's own says which place it is.
pub const LIKE: Knob = Knob {
    key: "like",
    kind: Kind::Choice(&["sandbox", "container", "qemu", "ssh", "slurm", "mpi", "kubernetes"]),
    default: Default::Required,
    help: "the environment that it extends; its settings apply here too, unless they are set otherwise",
};

/// Which place an environment of these settings says that it is like.
#[must_use]
pub fn like(settings: &BTreeMap<String, Value>) -> Option<&str> {
    match settings.get(LIKE.key) {
        Some(Value::Choice(like)) => Some(like),
        _ => None,
    }
}

/// Which place the environment `name` is: itself, or what it says that it is like. `settings` are those of environments.
#[must_use]
pub fn kind_of<'n>(name: &'n str, settings: &'n BTreeMap<String, BTreeMap<String, Value>>) -> &'n str {
    settings.get(name).and_then(like).unwrap_or(name)
}

/// The names of the places that are so.
#[must_use]
pub fn names(so: fn(&Place) -> bool) -> Vec<&'static str> {
    PLACES.iter().filter(|place| so(place)).map(|place| place.name).collect()
}

/// The key of `[environments.NAME]` that names the environment without which alone this one is used.
pub const INSTEAD_OF: Knob = Knob {
    key: "instead_of",
    kind: Kind::Text,
    default: Default::Derived("none"),
    help: "another environment of the study: this one is used only where that one cannot run, such as where there is no KVM",
};

/// The place of that name.
#[must_use]
pub fn place(name: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.name == name)
}

const FRESH: Knob = Knob {
    key: "fresh",
    kind: Kind::Choice(&["trial", "block", "run"]),
    default: Default::Typed("trial"),
    help: "how long one site serves: a new one for each trial, for each block, or one for the whole run",
};
