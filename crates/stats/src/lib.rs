//! The statistics of baremark: pure mathematics on slices of numbers.
//!
//! Nothing here reads a clock, a file or an environment; every random choice comes from a seed. Statistics whose data
//! are too few return `None` (or say how many are needed): absence is never 0.
//!
//! How a study is judged, in the order of the code path:
//! 1. [`PairedRatio`] takes one log ratio a block, looks at shape ([`shape`]) and serial correlation ([`serial`]) and
//!    chooses the estimator: a t interval for the mean, or an order-statistic interval for the median when the ratios
//!    are skewed or bimodal; means of batches when neighbouring blocks are correlated.
//! 2. [`StoppingRule`] asks for further blocks until the half-width is met and *confirmed*, or the budget ends.
//! 3. [`verdict`] turns an interval into one of four outcomes, [`family`] does so for all ratios of a study together.
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    clippy::allow_attributes,
    reason = "numerical code: counts are converted to f64 and back, and exact comparison with 0 is meant"
)]

pub mod estimate;
pub mod family;
pub mod halves;
mod interval;
pub mod percentile;
pub mod pricing;
mod ratio;
pub mod rng;
pub mod serial;
pub mod shape;
pub mod special;
pub mod stopping;
pub mod unpaired;
pub mod variance;
pub mod verdict;
pub mod warmup;

pub use family::{Family, Judged, judge};
pub use interval::{Estimator, Interval};
pub use ratio::{PairedRatio, SMALLEST_STUDY};
pub use rng::Rng;
pub use stopping::{Decision, Look, StopReason, StoppingRule};
pub use verdict::{Reason, Verdict, verdict};
