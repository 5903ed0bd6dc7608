//! The workloads of a study as streams of addresses: what each kernel accesses, with what work alongside it.
//!
//! A stream is one rank's; the others do the same alongside it (`busy`). What a workload does that is not an access (floating-point
//! work, faults) is a range here, so that what is not known of a kernel becomes width. Workloads that are neither loops over
//! memory nor changes of page tables are refused: their addresses are not known.

use crate::range::Range;
use crate::stream::{BlockedUpdate, Chase, RandomAccess, Stream, StreamError, Touch, Triad};
use baremark_model::arm::ResolvedArm;
use baremark_model::page_size::PageSize;
use baremark_model::parameters::Typed;
use baremark_model::units::Bytes;
use std::fmt;

/// What one rank of a workload accesses.
#[derive(Clone, Debug, PartialEq)]
pub enum Kernel {
    /// Updates of a private table.
    RandomAccess {
        /// Its bytes, a power of two.
        table: u64,
    },
    /// Passes over arrays in order.
    Triad {
        /// Bytes of this rank's share of each.
        array: u64,
    },
    /// Dependent loads.
    Chase {
        /// Bytes of this rank's lines.
        bytes: u64,
    },
    /// Updates of a matrix by blocks.
    Blocked {
        /// Rows and columns.
        order: u64,
        /// Columns of a panel: the depth of each update.
        depth: u64,
    },
    /// First touches of fresh pages: each is a fault, a change of a page table.
    Touches {
        /// Bytes of this rank's region.
        region: u64,
    },
}

/// A workload that cannot be predicted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpredictable {
    /// Its addresses are not known.
    #[error(
        "no addresses are known of the workload '{0}'; predicted are random-access, stream, pointer-chase, hpl, dgemm and page-table, or any program after --"
    )]
    Unknown(String),
    /// A parameter is missing or cannot be.
    #[error("{workload}: {why}")]
    Parameter {
        /// The workload.
        workload: String,
        /// What is wrong.
        why: String,
    },
}

/// An array of STREAM where the study leaves its size to the machine: beyond the caches of all known ones.
const ARRAY: u64 = 4 << 30;
/// Words of a block of A that the kernels pack: 384 KiB.
const BLOCK_WORDS: u64 = 49_152;
/// Columns of A that DGEMM takes at a time.
const DEPTH: u64 = 256;
/// What a core computes, in Gflop/s: two operations a cycle without vectors at 1 GHz, to 32 at 4 GHz.
const GFLOPS: Range = Range { low: 2.0, high: 128.0 };

/// The kernel that an arm of a study runs on each rank.
///
/// # Errors
/// When its addresses are not known, or a parameter does not fit.
pub fn of_arm(workload: &str, arm: &ResolvedArm) -> Result<Kernel, Unpredictable> {
    let ranks = arm.ranks.max(1) as u64;
    let refuse = |why: String| Unpredictable::Parameter { workload: workload.to_owned(), why };
    let unset = |key: &str| refuse(format!("'{key}' is not set, and nothing can be predicted without"));
    let size = |key: &str| {
        let total = arm.parameters.get(key).and_then(Bytes::typed);
        total.map(|Bytes(bytes)| bytes / ranks).ok_or_else(|| unset(key))
    };
    let count = |key: &str| arm.parameters.get(key).and_then(u64::typed).ok_or_else(|| unset(key));
    let kernel = match workload {
        "random-access" => {
            let each = size("table")?;
            Kernel::RandomAccess { table: if each.is_power_of_two() { each } else { each.next_power_of_two() / 2 } }
        }
        "stream" => Kernel::Triad { array: size("array").unwrap_or(ARRAY / ranks) },
        "pointer-chase" => Kernel::Chase { bytes: size("working_set")? },
        "hpl" => Kernel::Blocked { order: count("n")?, depth: count("nb")?.max(1) },
        "dgemm" => Kernel::Blocked { order: count("n")?, depth: DEPTH },
        "page-table" if arm.page == PageSize::Large => {
            return Err(refuse("a fault of a large page is the clearing of it; predict page = \"4k\"".to_owned()));
        }
        "page-table" => Kernel::Touches { region: size("region")? },
        other => return Err(Unpredictable::Unknown(other.to_owned())),
    };
    kernel.try_stream().map_err(|why| refuse(why.to_string()))?;
    Ok(kernel)
}

impl Kernel {
    /// A fresh stream of its addresses.
    ///
    /// # Panics
    /// Never of a kernel that [`of_arm`] returned.
    #[must_use]
    pub fn stream(&self) -> Box<dyn Stream> {
        match self.try_stream() {
            Ok(stream) => stream,
            Err(why) => unreachable!("it was tried when it was made: {why}"),
        }
    }

    fn try_stream(&self) -> Result<Box<dyn Stream>, StreamError> {
        Ok(match *self {
            Kernel::RandomAccess { table } => Box::new(RandomAccess::new(table)?),
            Kernel::Triad { array } => Box::new(Triad::new(array)?),
            Kernel::Chase { bytes } => Box::new(Chase::new(bytes)?),
            Kernel::Blocked { order, depth } => {
                Box::new(BlockedUpdate::new(order, (BLOCK_WORDS / depth).clamp(1, order.max(1)))?)
            }
            Kernel::Touches { region } => Box::new(Touch::new(region)?),
        })
    }

    /// Nanoseconds of other work for each access: a quarter to one for three instructions, or the floating-point work.
    #[must_use]
    pub fn work_ns(&self) -> Range {
        match self {
            Kernel::Blocked { depth, .. } => {
                let flops = BlockedUpdate::flops_per_access(*depth);
                Range { low: flops / GFLOPS.high, high: flops / GFLOPS.low }
            }
            _ => Range { low: 0.25, high: 1.0 },
        }
    }

    /// Faults, which change a page table, for each access.
    #[must_use]
    pub fn faults(&self) -> f64 {
        if matches!(self, Kernel::Touches { .. }) { 1.0 } else { 0.0 }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kernel::RandomAccess { table } => write!(f, "random updates of a table of {} on each rank", Bytes(*table)),
            Kernel::Triad { array } => write!(f, "passes over three arrays, {} of each on each rank", Bytes(*array)),
            Kernel::Chase { bytes } => write!(f, "dependent loads from {} on each rank", Bytes(*bytes)),
            Kernel::Blocked { order, depth } => write!(f, "updates of a matrix of {order} by {order}, {depth} deep"),
            Kernel::Touches { region } => write!(f, "first touches of {} on each rank", Bytes(*region)),
        }
    }
}
