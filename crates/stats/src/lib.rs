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
//! 3. [`mod@verdict`] turns an interval into one of four outcomes, [`family`] does so for all ratios of a study
//!    together.
//!
//! Beside it: [`search`] finds the maximum of a monotone factor, [`unpaired`] compares runs that share no blocks, and
//! [`percentile`], [`variance`], [`warmup`], [`halves`] and [`pricing`] say what the rest of a report needs.
//!
//! # What was decided by simulation
//! `cargo test --release -p baremark-stats proof -- --nocapture` runs thousands of studies a case and prints the figures.
//! Random order takes care of whatever the machine does to both arms, autocorrelated or not. What it cannot repair is an
//! *effect* that wanders from block to block: a t interval then declares a third of the studies of no effect at
//! correlation 0.6, and a lag-1 test on 10 to 20 blocks sees too few of them. Hence:
//! - a confirmed study has at least 25 blocks ([`serial::SHOWN_INDEPENDENT`]); with fewer the verdict stands on assumed
//!   independence, which [`PairedRatio::independence`] says;
//! - every verdict must survive the longest interval that the correlation not excluded would give ([`serial`]);
//! - rejected independence leaves no interval at all, batches of blocks only where they are long and many enough.
//!
//! With that, false "differs" stay at or below 5 % under the standard rule, for effects that wander with correlation
//! 0.3 to 0.9, at a cost of at most 10 blocks to an easy study. Ten blocks (quick mode) keep the power to find
//! twice the noise, and pay for it: there a wandering effect is declared too often, by how much the test
//! `limits_of_few_blocks` prints and bounds. Nothing computed from the blocks can know of a rare slow mode that
//! a study never saw, nor of an effect that stays put for a study and wanders over days.
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
pub mod multinomial;
pub mod percentile;
pub mod pricing;
pub mod quads;
mod ratio;
pub mod rng;
pub mod search;
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
pub use ratio::{PairedRatio, SMALLEST_STUDY, block_log_ratio};
pub use rng::Rng;
pub use serial::Independence;
pub use stopping::{Decision, Look, StopReason, StoppingRule};
pub use verdict::{Reason, Verdict, verdict};
