//! The formats: one file and one line each.

mod criterion;
mod csv;
mod fio;
mod google_benchmark;
mod hpcc;
mod hyperfine;
mod iperf3;
mod k6;
mod pgbench;
mod phoronix;
mod stress_ng;
mod sysbench;
mod wrk;

use crate::format::Format;

/// Every format, in the order in which files are recognised.
pub const FORMATS: &[Format] = &[
    hyperfine::FORMAT,
    fio::FORMAT,
    google_benchmark::FORMAT,
    criterion::FORMAT,
    pgbench::FORMAT,
    sysbench::FORMAT,
    wrk::FORMAT,
    k6::FORMAT,
    iperf3::FORMAT,
    hpcc::FORMAT,
    phoronix::FORMAT,
    stress_ng::FORMAT,
    CSV,
];

/// The format of files whose columns the user names.
pub(crate) const CSV: Format = csv::FORMAT;
