//! One line of the bench: two rates, their ratio with its interval, and what that says of the goal.

use crate::Outcome;
use baremark_stats::Estimate;
use baremark_stats::estimate::median;
use baremark_stats::location::SMALLEST;

/// How far below its goal a lower limit may lie.
const TOLERANCE: f64 = 0.02;
/// What is said of a pairing that has none.
pub const NO_GOAL: &str = "no goal";

/// The line of a pairing of rates, ours and the peer's of each round; higher is better.
///
/// # Errors
/// When there are too few rounds for an interval.
pub fn line(rounds: &[(f64, f64)], unit: &str, goal: Option<f64>) -> Outcome<String> {
    let logs: Vec<f64> = rounds.iter().map(|(ours, peers)| (ours / peers).ln()).collect();
    let interval = Estimate::of(&logs).ok_or_else(|| format!("an interval needs {SMALLEST} rounds or more"))?;
    let interval = interval.interval(0.95);
    let [ratio, lo, hi] = [interval.centre, interval.lo, interval.hi].map(f64::exp);
    let side = |of: fn(&(f64, f64)) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN);
    let (ours, peers) = (side(|round| round.0), side(|round| round.1));
    let judged = match goal {
        Some(goal) => format!("goal {goal:.2}  {}", judge(lo, hi, goal)),
        None => NO_GOAL.to_owned(),
    };
    Ok(format!("ours {ours:.4} {unit}  peer {peers:.4} {unit}  ratio {ratio:.3} [{lo:.3}, {hi:.3}]  {judged}"))
}

/// What an interval says of a goal.
pub fn judge(lo: f64, hi: f64, goal: f64) -> &'static str {
    if lo >= goal * (1.0 - TOLERANCE) {
        "ok"
    } else if hi < goal {
        "SHORT"
    } else {
        "undecided"
    }
}

/// What an interval of a cost says of a limit.
pub fn within(lo: f64, hi: f64, limit: f64) -> &'static str {
    if hi <= limit * (1.0 + TOLERANCE) {
        "ok"
    } else if lo > limit {
        "SHORT"
    } else {
        "undecided"
    }
}
