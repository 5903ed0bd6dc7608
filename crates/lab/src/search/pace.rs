//! How long the windows of a search have to be, and how long it takes.

use super::RAMP_WINDOW;
use baremark_model::maximum::Plan;
use baremark_model::qos::{Bound, Limit, Qos};
use baremark_stats::percentile::one_sided_floor;

/// The shortest and the longest window, in s; the longest where nothing is known of the server.
const WINDOW_S: (f64, f64) = (2.0, 10.0);
/// So many times the samples that a limit needs are in a window.
const SAMPLES: f64 = 1.5;
/// One-sided error of the verdict on a window.
const ALPHA: f64 = 0.1;

/// How long a window takes in which limits have samples enough, at the throughput of a closed loop; and in which a queue that grows by a step's excess
/// grows to the limit of latency.
#[must_use]
pub fn window_s(qos: &Qos, per_s: Option<f64>, finest: f64) -> f64 {
    let Some(per_s) = per_s else { return WINDOW_S.1 };
    let samples = |limit: &Limit| {
        let floor = limit.allowed().map_or(0, |allowed| one_sided_floor(1.0 - allowed, ALPHA));
        SAMPLES * floor as f64 / per_s
    };
    let grows = |limit: &Limit| match limit.bound {
        Bound::Latency { within, .. } => within.seconds() / (2.0 * finest),
        _ => 0.0,
    };
    let needed = qos.limits.iter().map(|limit| samples(limit).max(grows(limit))).fold(0.0, f64::max);
    needed.clamp(WINDOW_S.0, WINDOW_S.1)
}

/// Visits of a bracket or, per tenfold range, of a ramp, in short windows; and of a staircase before its finest step.
const BRACKET: f64 = 3.0;
const RAMP: f64 = 3.4;
const COARSE: f64 = 3.5;

/// About how long a search takes, in s: visits that need more windows, or a system that is slow to drain, are not in it.
#[must_use]
pub fn takes_s(plan: &Plan, around: Option<f64>) -> f64 {
    let (trials, fine) = (plan.trials as f64, (plan.visits + plan.confirming) as f64);
    let short = plan.settle_s + RAMP_WINDOW * plan.window_s;
    let full = plan.settle_s + plan.window_s;
    let way = match around {
        Some(_) => BRACKET * trials * short,
        // The later trials go up from half of the first's answer.
        None => RAMP * (plan.highest / plan.lowest).log10() * short + (trials - 1.0) * COARSE * full,
    };
    // One visit at the answer.
    let last = if plan.confirming > 0 { full } else { 0.0 };
    way + trials * (COARSE + fine) * full + last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of 10 s, twelve at the finest step and three below it took eight minutes at any server.
    #[test]
    fn a_fast_server_is_searched_in_about_a_minute() {
        let qos = |limits: &[&str]| Qos {
            limits: limits.iter().map(|text| text.parse().expect("a limit")).collect(),
            ..Qos::default()
        };
        let about = |found: f64, seconds: f64| (found - seconds).abs() < 1e-9;
        let strict = qos(&["p99<50ms", "failures<1%"]);
        assert!(about(window_s(&strict, Some(20_000.0), 0.025), 2.0));
        assert!(about(window_s(&strict, None, 0.025), 10.0), "nothing is known of the server");
        assert!(window_s(&strict, Some(60.0), 0.025) > 5.0, "230 samples for a p99");
        assert!(about(window_s(&qos(&["p99<200ms"]), Some(20_000.0), 0.025), 4.0), "at 5 % beyond it 200 ms queue up");
        let plan = Plan { window_s: 2.0, settle_s: 1.0 / 3.0, visits: 6, confirming: 1, ..Plan::between(10.0, 2e5) };
        let (takes, ramped) = (takes_s(&plan, Some(2e4)), takes_s(&plan, None));
        assert!((60.0..90.0).contains(&takes) && ramped > takes, "{takes} {ramped}");
    }
}
