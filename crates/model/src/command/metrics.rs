//! Metrics of programs that are several of one kind: how their run times are spread, and what protection does to them.

use crate::descriptor::{Better, Metric, Together};

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
    Metric { key, unit: "s", better: Better::Lower, together: Together::Mean, help }
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
    Metric { key, unit, better: Better::Lower, together: Together::Mean, help }
}
