//! What a search for the most users found, as every search is reported: level by level, with the limit, where the windows place it and how each
//! level was judged.

use baremark_model::maximum::{Basis, Document, Ended, FORMAT, KneeRow, Maximum, Plan, Samples};
use baremark_model::qos::{Bound, Limit, Qos};
use baremark_model::units::Nanos;
use baremark_stats::search::{Capacity, Count, End, LevelVerdict, Operation, judge_level};
use std::collections::BTreeMap;

/// Confidence of what a search says.
pub(super) const CONFIDENCE: f64 = 0.95;

/// What is searched, and how.
pub(super) struct Search {
    /// The most users that are tried.
    pub highest: f64,
    /// The limit, and the share of actions that may be slower.
    pub limit: Nanos,
    pub allowed: f64,
    /// One window, in seconds, and how many there are at the finest step.
    pub window_s: f64,
    pub fine_windows: usize,
}

/// All windows of a number of users.
pub(super) struct Level {
    pub users: f64,
    /// Of each window how many actions there were, and how many of them were slow.
    pub counts: Vec<Count>,
    /// Actions that came within their window and its grace.
    pub came: u64,
    /// Responses at some shares of all, in ns.
    pub percentiles_ns: Vec<(f64, u64)>,
}

/// The document of a search that ended so after these levels, ascending; `place` is where the windows at the finest step reach the limit.
pub(super) fn document(search: &Search, end: End, levels: &[Level], place: Option<Capacity>) -> Document {
    let limit = Limit { operation: None, bound: Bound::Latency { beyond: search.allowed, within: search.limit } };
    let plan = Plan {
        finest: 1.0 / search.highest.max(1.0),
        window_s: search.window_s,
        settle_s: 0.0,
        visits: search.fine_windows,
        windows_per_visit: 1,
        trials: 1,
        confidence: CONFIDENCE,
        samples: Samples::Each,
        confirming: 0,
        ..Plan::between(1.0, search.highest)
    };
    let ended = match end {
        End::Turned => Ended::Found,
        End::PassesAll => Ended::PassesAll,
        End::FailsAll => Ended::FailsAll,
        End::Insufficient => Ended::Insufficient,
    };
    let judged: Vec<(&Level, LevelVerdict)> =
        levels.iter().map(|level| (level, verdict(&level.counts, search.allowed))).collect();
    let knee = judged.iter().map(|(level, verdict)| row(search, level, verdict)).collect();
    let maximum = place.filter(|_| end == End::Turned).and_then(|place| maximum(&place, &judged, &plan));
    Document {
        format: FORMAT.to_owned(),
        title: "Desktop users".to_owned(),
        factor: "users".to_owned(),
        qos: Qos { limits: vec![limit], ..Qos::default() },
        plan,
        ended,
        maximum,
        shown_level: None,
        limited_by: Vec::new(),
        generator_was_the_limit: false,
        hysteresis: None,
        knee,
        at_answer: None,
        trials: Vec::new(),
    }
}

/// Where the limit is reached, if that is among the levels that were tried and not above those from which on all failed.
fn maximum(place: &Capacity, judged: &[(&Level, LevelVerdict)], plan: &Plan) -> Option<Maximum> {
    let failed = judged.iter().rev().take_while(|(_, verdict)| matches!(verdict, LevelVerdict::Fail(_))).last();
    let most = failed.or(judged.last())?.0.users;
    let level = place.level;
    if !(plan.lowest..=most).contains(&level) {
        return None;
    }
    let (low, high) =
        place.interval.map(|of| (of.lo.clamp(plan.lowest, level), of.hi.clamp(level, plan.highest))).unzip();
    let basis = Basis::WithinRun;
    Some(Maximum { level, low, high, confidence: CONFIDENCE, basis, isotonic_level: None })
}

/// All windows of a number of users together.
#[expect(clippy::cast_precision_loss, reason = "numbers of windows and of actions")]
fn row(search: &Search, level: &Level, verdict: &LevelVerdict) -> KneeRow {
    let all: u64 = level.counts.iter().map(|count| count.all).sum();
    let seconds = search.window_s * level.counts.len() as f64;
    let at = |p: f64| level.percentiles_ns.iter().find(|(of, _)| of.total_cmp(&p).is_eq()).map(|(_, ns)| *ns);
    KneeRow {
        level: level.users,
        windows: level.counts.len(),
        verdict: verdict.name().to_owned(),
        achieved_per_s: if seconds > 0.0 { level.came as f64 / seconds } else { 0.0 },
        failed_share: if all > 0 { 1.0 - level.came as f64 / all as f64 } else { 0.0 },
        p50_ns: at(0.5),
        p95_ns: at(0.95),
        p99_ns: at(0.99),
        utilization: BTreeMap::new(),
        generator_cpu_share: None,
    }
}

fn verdict(counts: &[Count], allowed: f64) -> LevelVerdict {
    judge_level(&[Operation { windows: counts, allowed }], 1.0 - CONFIDENCE)
}
