//! The tables of every study: what may be in `[study]`, `[factors]`, `[design]` and `[report]`.
//!
//! A workload's own parameters are in its [`Descriptor`](crate::descriptor::Descriptor); these are the keys that all
//! workloads share. The reference page in docs/ is generated from the same rows.

use crate::arm::{ExecutorKind, Frames};
use crate::environments;
use crate::knob::{Default, Kind, Knob};
use crate::placement::{MemoryPolicy, Placement};
use crate::units::{HOUR, SECOND};
use std::collections::BTreeMap;

/// Keys of `[study]`.
pub const STUDY: &[Knob] = &[
    Knob::new("title", Kind::Text, Default::Required).help("the study's question, in one line"),
    Knob::new("published", Kind::Text, Default::Derived("nothing to compare with"))
        .help("the published table to print next to the values measured here, as source/table"),
];

/// Keys of `[factors]` in addition to the workload's own parameters.
pub const FACTORS: &[Knob] = &[
    Knob::new(environments::FACTOR, Kind::Choice(environments::NAMES), Default::Typed(environments::NATIVE)).help(
        "where the workload runs; microvm is native with the executor microvm, null is a no-op that measures \
         the harness overhead; or a name of your own, described in [environments.NAME]",
    ),
    Knob::new("page", Kind::Page, Default::Typed("4k")).help(
        "the page size that the application sees: the process's own when native, the guest's in a virtual \
         machine",
    ),
    Knob::new("host_backing", Kind::Page, Default::Derived("the same as page")).help(
        "page size of a virtual machine's memory on the host; of a program in the microVM, by default the \
         kernel's and the program's own choice; does not apply to native",
    ),
    Knob::new("page_frames", Kind::Choice(Frames::WORDS), Default::Typed("default")).help(
        "how the frames of 4k pages lie in physical memory: as the kernel gives them, contiguous by 2 MiB, or \
         scattered; a virtual machine is compared with native memory that lies like its own where the study \
         has it; does not apply to memory in 2m pages, nor to containers and sandboxes",
    ),
    Knob::new("guest_tables", Kind::Choice(&["contiguous", "scattered"]), Default::Typed("contiguous"))
        .help("how a microVM's guest page tables lie in memory; does not apply to native"),
    Knob::new(
        "ranks",
        Kind::Count { min: 1, max: 4096 },
        Default::Derived("one rank per CPU that the process may use"),
    )
    .help(
        "how many CPUs the work has: a kernel has a thread pinned to each (and a vCPU), a program may use them; with \
         count, those of all machines together",
    ),
    Knob::new("placement", Kind::Choice(Placement::WORDS), Default::Typed("numbered")).help(
        "the CPUs of the ranks: pinned by number, moved by the operating system, as near to each other as \
         they fit, as far apart as they can be, inside the first socket, or one a core; of several machines \
         (count) each confined to one NUMA node (node), pinned inside of one (affinity), or moved by the \
         operating system (free)",
    ),
    Knob::new("memory", Kind::Choice(MemoryPolicy::WORDS), Default::Typed("first-touch")).help(
        "the NUMA nodes of a rank's memory: where it touches it first, bound to its own node, bound to \
         another, or page by page over all; read back after every trial",
    ),
    Knob::new("count", Kind::Count { min: 1, max: 64 }, Default::Typed("1")).help(
        "machines (microvm, qemu, container, sandbox) among which ranks and memory are divided, released by \
         one barrier; rates of several are the sums of their bests, as published, and simultaneous ones are \
         shown next to them; does not apply to native",
    ),
    Knob::new("provisioned", Kind::Percent { min: 0.01, max: 1.0 }, Default::Typed("100 %")).help(
        "share of this machine's CPUs that the ranks of all machines (count) get together; a share that \
         machines of equal size miss by more than 2.5 % of the CPUs is absent; excludes ranks; does not \
         apply to native",
    ),
    // Features of this host: set between trials with --allow-host-changes and undone at the end.
    host("host.thp", Kind::Choice(&["always", "madvise", "never"])).help("transparent huge pages of the host"),
    host("host.thp_defrag", Kind::Choice(&["always", "defer", "defer+madvise", "madvise", "never"]))
        .help("when the host makes room for transparent huge pages"),
    host("host.thp_shmem", Kind::Choice(&["always", "within_size", "advise", "never", "deny", "force"]))
        .help("transparent huge pages of the host for shared memory"),
    host("host.numa_balancing", Kind::Choice(&["off", "on"]))
        .help("whether the host moves pages to the NUMA node that uses them"),
    host("host.ksm", Kind::Choice(&["off", "on"])).help("whether the host merges pages of the same content"),
    host("host.halt_poll_ns", Kind::Count { min: 0, max: 1_000_000 })
        .help("longest time that KVM polls before a halted vCPU sleeps, in ns"),
    host("host.guest_halt_poll_ns", Kind::Count { min: 0, max: 1_000_000 })
        .help("the same of this machine as a guest (haltpoll), in ns"),
    host("host.timer_migration", Kind::Choice(&["off", "on"])).help("whether timers of idle CPUs move to busy ones"),
    host("host.deepest_idle_state", Kind::Count { min: 0, max: 31 })
        .help("deepest idle state of the CPUs that stays enabled"),
    host("host.idle_governor", Kind::Choice(&["menu", "teo", "ladder", "haltpoll"])).help("governor of idle states"),
    host(
        "host.governor",
        Kind::Choice(&["performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"]),
    )
    .help("frequency governor of all CPUs"),
    host("host.boost", Kind::Choice(&["off", "on"])).help("frequencies above the nominal one"),
    host("host.smt", Kind::Choice(&["off", "on"]))
        .help("hardware threads; off takes the siblings offline, whose CPUs no rank may use then"),
    host("host.tdp_mmu", Kind::Choice(&["off", "on"]))
        .help("parallel page-table code of KVM for nested paging, for virtual machines that start afterwards"),
    host("host.mmu", Kind::Choice(&["nested", "shadow"]))
        .help("nested paging (EPT, NPT) or shadow page tables in KVM, whose module is loaded again"),
    host("host.irq_affinity", Kind::Text).help("list of the CPUs that serve the interrupts, such as 0 or 0-1"),
    host("host.preempt", Kind::Choice(&["none", "voluntary", "full", "lazy"]))
        .help("preemption of the kernel's own code"),
    host("host.sched_features", Kind::Text)
        .help("switches of the scheduler, such as NO_PLACE_LAG or NO_HRTICK,NEXT_BUDDY; the others stay as they are"),
    host("host.sched_base_slice_ns", Kind::Count { min: 1, max: 1_000_000_000 })
        .help("slice of a thread before another one that waits may run, in ns"),
    host("host.sched_migration_cost_ns", Kind::Count { min: 0, max: 1_000_000_000 })
        .help("time since it ran within which the scheduler leaves a thread where its caches are, in ns"),
    host("host.sched_nr_migrate", Kind::Count { min: 1, max: 10_000 })
        .help("threads that the scheduler moves at a time"),
    host("host.sched_autogroup", Kind::Choice(&["off", "on"])).help("one scheduling group for each session"),
    host("host.sched_slice_us", Kind::Count { min: 0, max: 1_000_000 }).help("slice of CPU quotas, in us"),
    host("host.swappiness", Kind::Count { min: 0, max: 200 })
        .help("how readily memory of programs is swapped instead of the file cache"),
    host("host.dirty_ratio", Kind::Count { min: 0, max: 100 })
        .help("share of memory that may wait to be written before writers wait, in %"),
    host("host.dirty_background_ratio", Kind::Count { min: 0, max: 100 })
        .help("share of memory that may wait to be written before writing begins, in %"),
    host("host.vfs_cache_pressure", Kind::Count { min: 0, max: 1_000 })
        .help("how readily the caches of names and inodes are given up"),
    host("host.compaction_proactiveness", Kind::Count { min: 0, max: 100 })
        .help("how much memory is compacted in advance"),
    host("host.zone_reclaim_mode", Kind::Count { min: 0, max: 7 })
        .help("whether a NUMA node frees its own memory before another's is taken"),
    host("host.dirty_expire_centisecs", Kind::Count { min: 0, max: 1_000_000 })
        .help("age at which changed pages are written, in 1/100 s"),
    host("host.dirty_writeback_centisecs", Kind::Count { min: 0, max: 1_000_000 })
        .help("time between two rounds of writing changed pages, in 1/100 s; 0 for none"),
    host("host.page_cluster", Kind::Count { min: 0, max: 31 })
        .help("pages that are read from swap at a time, as a power of two"),
    host("host.stat_interval", Kind::Count { min: 1, max: 3_600 })
        .help("time between two updates of the memory statistics, in s"),
    host("host.watermark_scale_factor", Kind::Count { min: 1, max: 3_000 })
        .help("distance of the watermarks at which memory is freed, in 1/10000 of the memory"),
    host("host.io_scheduler", Kind::Choice(&["none", "mq-deadline", "kyber", "bfq"])).help(
        "scheduler of I/Os to the disks that hold what the study reads and writes: its path, file or device, \
         its guests' disks, else the folder of temporary files",
    ),
    host("host.read_ahead_kib", Kind::Count { min: 0, max: 1_048_576 }).help(
        "most that is read ahead of sequential reads through the page cache, in KiB, a multiple of the page size, \
         of the disks as for `host.io_scheduler`",
    ),
];

/// How the keys of the host's features begin.
pub const HOST: &str = "host.";

const fn host(key: &'static str, kind: Kind) -> Knob {
    Knob::new(key, kind, Default::Derived("as it is on this host"))
}

/// The features of the host among the levels of a treatment: key and level.
pub fn host_levels(treatment: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    treatment.iter().filter(|(key, _)| key.starts_with(HOST)).map(|(key, level)| (key.as_str(), level.as_str()))
}

/// Factors that do not apply to every environment.
pub const MACHINE_FACTORS: &[&str] =
    &["host_backing", "guest_tables", "guest_page", "exitless", "prefault", "count", "provisioned", "host.mmu"];

/// Whether `factor` says anything about an arm in `environment`.
#[must_use]
pub fn applies(factor: &str, environment: &str) -> bool {
    let can = environments::can(environment);
    match factor {
        "host_backing" | "guest_tables" | "guest_page" | "exitless" | "prefault" => {
            can.executor == ExecutorKind::Microvm
        }
        // The memory of a container is this kernel's, as that of any program.
        "page_frames" => !can.separates_programs(),
        "host.mmu" => can.virtual_machine,
        "count" | "provisioned" => can.is_bounded(),
        _ => true,
    }
}

/// Whether a parameter of a workload must not have this name, which means something else in every study: a factor that all
/// share, whose setting would be taken for the parameter's, or a key next to the parameters of a workload.
#[must_use]
pub fn is_reserved(key: &str) -> bool {
    let shared = FACTORS.iter().chain(OF_ONE_WORKLOAD).any(|knob| knob.key == key);
    shared || MACHINE_FACTORS.contains(&key) || [WORKLOAD, "kind"].contains(&key)
}

/// The factor that is there when a study runs several workloads: their kinds.
pub const WORKLOAD: &str = "workload";

const ALSO: Knob = Knob::new("also", Kind::Names, Default::Derived("no other"))
    .help("other metrics that get a ratio; not used by the stopping rule");
const AGAINST: Knob = Knob::new("against", Kind::Text, Default::Derived("no slope")).help(
    "a metric on whose measured value the headline's metric depends: its slope along the columns is \
     estimated, block by block",
);

/// Keys of `[workload.KIND]` in addition to the workload's own parameters and the shared factors that are held for it.
pub const OF_ONE_WORKLOAD: &[Knob] = &[
    Knob::new("metric", Kind::Text, Default::Derived("the workload's first metric"))
        .help("the metric of this workload's headline and of the stopping rule"),
    ALSO,
    AGAINST,
    Knob::new("published", Kind::Text, Default::Derived("nothing to compare with"))
        .help("the published table to print next to this workload's values, as source/table"),
];

/// Keys of `[design]`.
pub const DESIGN: &[Knob] = &[
    Knob::new("precision", Kind::Percent { min: 0.0001, max: 0.5 }, Default::Typed("1 %"))
        .help("the half-width that the 95 % interval of every ratio shall reach"),
    Knob::new("delta", Kind::Percent { min: 0.0002, max: 1.0 }, Default::Derived("twice the precision"))
        .help("the difference that matters: smaller ones are called equivalent; at least twice the precision"),
    Knob::new("budget", Kind::Time { min: SECOND, max: 168 * HOUR }, Default::Typed("3 min"))
        .help("the longest that the study may run"),
    Knob::new(
        "phase",
        Kind::Time { min: 1_000_000, max: 600 * SECOND },
        Default::Derived("5 ms for kernels, 100 ms for programs"),
    )
    .help(
        "least duration of one phase of one arm; short phases that alternate quickly cancel the machine's \
         noise",
    ),
    Knob::new(
        "quads",
        Kind::Count { min: 0, max: 1000 },
        Default::Derived(
            "20 for kernels, 1 for programs; from the second block on by what the first has shown of noise and costs",
        ),
    )
    .help(
        "quads in a trial: each interleaves its two arms as ABBA or BAAB, equally often, in random order; 0 \
         for one phase of each arm, where phases take minutes",
    ),
    Knob::new("duet", Kind::Switch, Default::Typed("false")).help(
        "whether both programs of a pair run at the same time, on one CPU each, and swap the CPUs in their \
         next run; they are compared by cpu_s alone",
    ),
    Knob::new("least_blocks", Kind::Count { min: 1, max: 10_000 }, Default::Typed("6")).help(
        "the smallest number of blocks with which the study gives an answer: 4 at least for an interval; from \
         30 blocks on intervals allow for serial correlation",
    ),
    Knob::new("most_blocks", Kind::Count { min: 1, max: 100_000 }, Default::Typed("200"))
        .help("blocks after which the study ends, whatever has been reached"),
    Knob::new("seed", Kind::Count { min: 0, max: u64::MAX }, Default::Derived("drawn for each run and recorded"))
        .help("the seed of every random order in the study"),
];

/// Keys of `[report]`; `ratio_to` is a table and parsed apart.
pub const REPORT: &[Knob] = &[
    Knob::new("metric", Kind::Text, Default::Derived("the workload's first metric"))
        .help("the metric of the headline and of the stopping rule"),
    ALSO,
    AGAINST,
    Knob::new("rows", Kind::Text, Default::Derived("every factor but the columns'"))
        .help("the factor down the table's side"),
    Knob::new("columns", Kind::Text, Default::Typed("environment")).help("the factor along the table's top"),
];
