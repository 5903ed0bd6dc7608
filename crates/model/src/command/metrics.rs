//! Metrics of programs: those that every one has, how its run times are spread, and what the microVM and protection add.

use crate::metric::{Aggregate, Better, Metric};

/// Wall time of the measured program.
pub const WALL: Metric = Metric::lower("wall_s", "s", Aggregate::Most).help("from the program's start to its end");
/// Processor time of the measured program.
pub const CPU: Metric = Metric::lower("cpu_s", "s", Aggregate::Sum)
    .help("processor time, user and system, of the program and of all that it waited for");
/// Processor time of the measured program in user mode.
pub const USER: Metric = Metric::lower("user_s", "s", Aggregate::Sum)
    .help("processor time in user mode, of the program and of all that it waited for");
/// Processor time of the measured program in the kernel.
pub const SYSTEM: Metric = Metric::lower("system_s", "s", Aggregate::Sum)
    .help("processor time in the kernel, of the program and of all that it waited for");
/// Memory of the measured program.
pub const PEAK_MEMORY: Metric = Metric::lower("peak_memory_bytes", "B", Aggregate::Sum).help(
    "the largest resident set of the program or of one that it waited for; not known below some 3 MiB, \
     from which the kernel counts on",
);
/// Context switches of the measured program.
pub const CONTEXT_SWITCHES: Metric = Metric::lower("context_switches", "1", Aggregate::Sum)
    .help("context switches, voluntary or not, of the program and of all that it waited for");
/// Page faults of the measured program.
pub const PAGE_FAULTS: Metric = Metric::lower("page_faults", "1", Aggregate::Sum)
    .help("page faults, with or without a disk, of the program and of all that it waited for");
/// Page faults of the measured program that read from a disk.
pub const MAJOR_FAULTS: Metric = Metric::lower("major_faults", "1", Aggregate::Sum)
    .help("page faults that read from a disk, of the program and of all that it waited for");

/// The metrics that every program has.
pub const USUAL: [Metric; 8] = [WALL, CPU, USER, SYSTEM, PEAK_MEMORY, CONTEXT_SWITCHES, PAGE_FAULTS, MAJOR_FAULTS];

/// System calls of a program in the microVM.
pub const FORWARDED_CALLS: Metric = Metric::lower("forwarded_calls", "1", Aggregate::Mean)
    .help("system calls that left the microVM for the host's kernel");
/// Exits of a program's virtual processors.
pub const VM_EXITS: Metric = Metric::lower("vm_exits", "1", Aggregate::Mean)
    .help("times that the program left the microVM, for calls and everything else");
/// Page faults of a program in the microVM that were not the host's alone.
pub const GUEST_FAULTS: Metric = Metric::lower("guest_faults", "1", Aggregate::Mean)
    .help("page faults of the guest's own page tables, and of the host's that came as an error");
/// Signals that a program handled in the microVM.
pub const GUEST_SIGNALS: Metric = Metric::lower("guest_signals", "1", Aggregate::Mean)
    .help("signals that were delivered to the program in the microVM");
/// What making the microVM took.
pub const GUEST_START: Metric = Metric::lower("guest_start_s", "s", Aggregate::Mean).help(
    "making the microVM, up to the first instruction in it, of all programs that it started; part of the \
     wall time",
);
/// What a forwarded call costs.
pub const CALL_COST: Metric = Metric::lower("call_cost_ns", "ns", Aggregate::Mean)
    .help("one forwarded call that does nothing, measured in the trial: the median of its batches");
/// What leaving the microVM and entering it again costs.
pub const EXIT_COST: Metric = Metric::lower("exit_cost_ns", "ns", Aggregate::Mean).help(
    "one exit: a forwarded call that does nothing, less the same call natively, both measured in the \
     trial",
);
/// The share of a program's time that leaving the microVM explains.
pub const EXIT_SHARE: Metric = Metric::lower("exit_share_percent", "%", Aggregate::Mean).help(
    "share of the wall time that exits explain: forwarded calls and other exits, times exit_cost_ns of \
     the trial",
);

/// System calls that a polling thread answered.
pub const EXITLESS_CALLS: Metric = Metric::lower("exitless_calls", "1", Aggregate::Mean)
    .help("system calls that a polling thread answered without an exit; of exitless = \"on\"");
/// System calls that a polling thread did not answer.
pub const EXITLESS_FALLBACKS: Metric = Metric::lower("exitless_fallbacks", "1", Aggregate::Mean).help(
    "system calls that were left to a polling thread and then left the microVM: refused, or not begun in \
     time; of exitless = \"on\"",
);
/// What polling took.
pub const POLLING_CPU: Metric = Metric::lower("polling_cpu_s", "s", Aggregate::Mean)
    .help("CPU time of the polling threads, part of the program's; of exitless = \"on\"");

/// The metrics that a program has in the microVM alone.
pub const IN_GUEST: [Metric; 11] = [
    FORWARDED_CALLS,
    VM_EXITS,
    GUEST_FAULTS,
    GUEST_SIGNALS,
    GUEST_START,
    CALL_COST,
    EXIT_COST,
    EXIT_SHARE,
    EXITLESS_CALLS,
    EXITLESS_FALLBACKS,
    POLLING_CPU,
];

/// CPUs that a program uses at most whose processor time is a part of its wall time: one, and what its start and the kernel's clocks add.
pub const ONE_CPU: f64 = 1.05;

/// The distribution of which [`RUN_TIMES`] are percentiles.
pub const RUN_TIMES_OF: &str = "run_time_s";

/// How the run times of a program are spread, over all runs of all trials: percentiles of one distribution, from the shortest to the longest.
pub const RUN_TIMES: [Metric; 5] = [
    run_time("run_time_p00_s", "from a run's start to its end: the shortest run"),
    run_time("run_time_p25_s", "the same, lower quartile of all runs; absent below 13 runs"),
    run_time("run_time_p50_s", "the same, median of all runs; absent below 6 runs"),
    run_time("run_time_p75_s", "the same, upper quartile of all runs; absent below 13 runs"),
    run_time("run_time_max_s", "the same, the longest run"),
];

const fn run_time(key: &'static str, help: &'static str) -> Metric {
    Metric { key, unit: "s", better: Better::Lower, together: Aggregate::Mean, help }
}

/// The metrics that a protected program has in addition to its own.
pub const PROTECTED: [Metric; 11] = [
    protected("pages_per_epoch", "pages", "changed pages of 4 KiB, mean over epochs"),
    protected("mb_per_epoch", "MB", "10^6 bytes sent to the secondary, mean over epochs"),
    protected("epochs", "1", "epochs of the run"),
    protected(
        "epoch_ms",
        "ms",
        "from one checkpoint to the next, mean; longer than requested where pauses or the link take longer",
    ),
    protected("pause_us", "us", "the program stands at a checkpoint, median"),
    protected("pause_p99_us", "us", "the program stands at a checkpoint, 99th percentile; from 368 epochs on"),
    protected("paused_percent", "%", "share of the run time in which the program stood"),
    protected("link_mbit_per_s", "Mbit/s", "10^6 bit/s sent to the secondary, over the run time"),
    protected("link_use_percent", "%", "share of the run time in which a checkpoint was being sent"),
    protected(
        "protection_cpus",
        "CPUs",
        "CPUs that the primary's side kept busy: stopping, copying, sending; without the secondary",
    ),
    protected(
        "predicted_ratio",
        "1",
        "run time over that without protection as pages x cost + epochs x pause + stops of threads x cost predicts it; costs are \
         measured in the trial with programs that only write pages or start processes",
    ),
];

const fn protected(key: &'static str, unit: &'static str, help: &'static str) -> Metric {
    Metric { key, unit, better: Better::Lower, together: Aggregate::Mean, help }
}
