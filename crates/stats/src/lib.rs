//! The statistics of baremark: pure mathematics on slices of numbers.
//!
//! Nothing here reads a clock, a file or an environment; every random choice comes from a seed. Statistics whose data
//! are too few return `None` (or say how many are needed): absence is never 0.
//!
//! How a study is judged, in the order of the code path:
//! 1. [`quads`] makes one robust log ratio of a trial.
//! 2. [`Estimate`] is the one estimate over blocks, with one interval, which is printed and decides; serial correlation
//!    widens it from 30 blocks on ([`mod@long_run`]).
//! 3. [`interim::Rule`] asks for blocks until the half-width is met and confirmed, or the budget ends.
//! 4. [`multiplicity::judge_study`] judges all ratios of a study together, as one of the answers of [`outcome::Outcome`].
//!
//! In addition to it: [`mod@spend`] says how many quads trials should have, [`clusters`] has limits of percentiles of several trials' samples, [`precision`] says what a width costs and [`mod@forecast`] how long a study takes, [`gate`] whether a build became slower, [`runs`] compares what shares no
//! blocks, [`mod@changes`] finds changes over a history, [`components`] says where the noise comes from, and [`search`] finds
//! the maximum of a monotone factor. docs/statistics.md has the formulas and the coverage under the stopping rule.
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    clippy::allow_attributes,
    reason = "numerical code: counts are converted to f64 and back, and exact comparison with 0 is meant"
)]

pub mod changes;
pub mod clusters;
pub mod components;
pub mod estimate;
pub mod forecast;
pub mod gate;
pub mod halves;
pub mod interim;
mod interval;
pub mod line;
pub mod location;
pub mod long_run;
pub mod multinomial;
pub mod multiplicity;
pub mod outcome;
pub mod percentile;
pub mod permutation;
pub mod precision;
pub mod quads;
pub mod rng;
pub mod runs;
pub mod search;
pub mod special;
pub mod spend;
mod walsh;
pub mod zipf;

pub use interval::Interval;
pub use location::Estimate;
pub use rng::Rng;
