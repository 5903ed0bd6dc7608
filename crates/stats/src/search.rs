//! The largest level of a monotone factor (users, virtual machines, requests a second) that still keeps its limits.
//!
//! A level is tried for windows of about 10 s; a window is the unit, since requests inside it queue behind each other.
//! [`Staircase`] says where to measure next, [`capacity`] fits what came out, [`judge_level`] says whether a single
//! level may be called passed. A window with too few samples is insufficient and never a pass.
//!
//! A single search is one trial: its interval knows the windows' noise only and is labelled so. Trials repeated from a
//! fresh start, 3 at least, give the interval that counts ([`over_trials`]).

mod capacity;
mod limits;
mod mean;
mod staircase;

pub use capacity::{Basis, Capacity, FEWEST_TRIALS, capacity, capacity_isotonic, hysteresis, over_trials};
pub use limits::{LevelVerdict, MeanLimit, Operation, judge_level, judge_limits};
pub use mean::{Level, capacity_of_mean};
pub use staircase::{End, Next, Response, Staircase, Visit};

/// How an operation fared in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Operations that broke their limit (too slow, failed).
    pub bad: u64,
    /// All operations started as planned in the window.
    pub all: u64,
}

/// From which side a window's level was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approach {
    /// From a lower level.
    Below,
    /// From a higher level, after draining.
    Above,
}

/// One operation in one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The level requested.
    pub level: f64,
    /// What happened.
    pub count: Count,
    /// Where the level was approached from.
    pub approach: Approach,
}
