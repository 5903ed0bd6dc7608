//! Limits checked against the result of a whole load: met, exceeded, or not enough to tell.
//!
//! A percentile or a share is compared with its limit as it was measured in this run, as other load generators do it; how runs
//! differ is not in it. Failed operations meet no limit on latency. With fewer operations than the percentile's sample floor
//! ([`sample_floor`]) a limit that was met so far is undecided, for no percentile is known then; one that is exceeded by the
//! share that it allows of that floor is exceeded whatever had come.

use crate::latency::{Latencies, sample_floor};
use crate::load::{Drive, Load};
use crate::reading::{counted, is_timed, overdue};
use crate::record::Part;
use baremark_model::knob::InvalidValue;
use baremark_model::qos::{Bound, Broken, Limit, Qos};
use baremark_stats::multinomial::off_mix;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Confidence of the intervals by which a mix is judged, for all operations at once.
const MIX_CONFIDENCE: f64 = 0.99;

/// A limit and what the load says of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitRow {
    /// The limit as typed, such as `p99<50 ms`.
    pub limit: String,
    /// Whether it was met.
    pub verdict: Verdict,
    /// Whether the scenario states it, rather than the command line.
    pub of_scenario: bool,
    /// The limit's percentile of the latencies of successes, or of delays; `null` for other limits and below its sample floor.
    pub measured_ns: Option<u64>,
    /// The share that failed, the utilization, or the largest deviation from the mix; `null` for other limits, and where
    /// nothing was measured.
    pub measured_share: Option<f64>,
    /// Operations (or delays) that broke it, and all; `null` for limits on the mix and on utilization.
    pub broken: Option<Broken>,
    /// Operations that a verdict needs at least, where there are fewer.
    pub needed: Option<u64>,
}

/// What the load says of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was met.
    Met,
    /// It was exceeded.
    Exceeded,
    /// Too little was measured to tell.
    Undecided,
}

/// The verdict on each limit of `qos`, in its order. `utilization` holds the shares of resources used during the load, by
/// name; `of_scenario` says who states the limits.
pub(crate) fn check(
    part: &Part,
    drive: &Drive,
    qos: &Qos,
    utilization: &BTreeMap<String, f64>,
    of_scenario: bool,
) -> Vec<LimitRow> {
    let rows = qos.limits.iter().map(|limit| {
        let mut row = match &limit.bound {
            Bound::Latency { .. } | Bound::Delay { .. } | Bound::Failures { .. } => of_share(part, drive, limit),
            Bound::Mix { tolerance } => of_mix(part, qos, *tolerance),
            Bound::Utilization { resource, most } => of_utilization(utilization, resource.as_deref(), *most),
        };
        row.limit = limit.to_string();
        row.of_scenario = of_scenario;
        row
    });
    rows.collect()
}

/// The only resource of which a load reads the utilization: the processors of its own machine.
pub const CPU: &str = "cpu";

/// The limits as typed, or those of the scenario where none are, with what they are judged by.
///
/// # Errors
/// Which limit names what is not there, or cannot be judged.
pub fn qos(load: &Load, typed: &[Limit]) -> Result<Qos, InvalidValue> {
    let limits = if typed.is_empty() { load.scenario.limits() } else { typed.to_vec() };
    load.scenario.check_limits(&limits)?;
    let unknown = limits.iter().find_map(|limit| match &limit.bound {
        Bound::Utilization { resource: Some(name), .. } if name != CPU => Some(name),
        _ => None,
    });
    if let Some(name) = unknown {
        return Err(InvalidValue::new(format!("unknown resource '{name}'"), format!("write utilization.{CPU}")));
    }
    Ok(Qos { mix: mix(load, &limits)?, limits })
}

/// The mix that a limit on it is judged by; empty where nobody asks and it is not known.
fn mix(load: &Load, limits: &[Limit]) -> Result<BTreeMap<String, f64>, InvalidValue> {
    let known = match load.drive {
        Drive::Open { .. } => Some(load.scenario.mix()),
        Drive::Users { .. } | Drive::Closed => load.scenario.mix_of_users(),
    };
    if known.is_none() && limits.iter().any(|limit| matches!(limit.bound, Bound::Mix { .. })) {
        let what = "the operation mix of these users depends on conditions";
        return Err(InvalidValue::new(what, "leave out the limit 'mix'"));
    }
    Ok(known.unwrap_or_default())
}

/// A row that says nothing yet.
fn row(verdict: Verdict) -> LimitRow {
    LimitRow {
        limit: String::new(),
        verdict,
        of_scenario: false,
        measured_ns: None,
        measured_share: None,
        broken: None,
        needed: None,
    }
}

/// A limit that a share of operations may break.
fn of_share(part: &Part, drive: &Drive, limit: &Limit) -> LimitRow {
    let Some(allowed) = limit.allowed() else { return row(Verdict::Undecided) };
    let mut broken = counted(part, limit);
    if limit.operation.is_none() && !matches!(limit.bound, Bound::Delay { .. }) {
        let unsent = never_begun(part, drive);
        broken.bad += unsent;
        broken.all += unsent;
    }
    let floor = sample_floor(1.0 - allowed);
    let verdict = if broken.bad as f64 > allowed * broken.all.max(floor) as f64 {
        Verdict::Exceeded
    } else if broken.all < floor {
        Verdict::Undecided
    } else {
        Verdict::Met
    };
    let series = match limit.bound {
        Bound::Latency { .. } => Some(latencies(part, limit, false)),
        Bound::Delay { .. } => Some(latencies(part, limit, true)),
        _ => None,
    };
    let is_share = series.is_none() && broken.all > 0;
    LimitRow {
        measured_ns: series.and_then(|series| series.percentile(1.0 - allowed)),
        measured_share: is_share.then(|| broken.bad as f64 / broken.all as f64),
        broken: Some(broken),
        needed: (verdict == Verdict::Undecided).then_some(floor),
        ..row(verdict)
    }
}

/// Operations that were refused a place in the queue, which no operation's record has. A caller of a closed loop that never
/// got a connection has begun nothing.
fn never_begun(part: &Part, drive: &Drive) -> u64 {
    if *drive == Drive::Closed {
        return 0;
    }
    let queued = part.operations.iter().map(overdue).sum::<u64>().saturating_sub(part.counts.unfinished);
    part.counts.unsent.saturating_sub(queued)
}

/// What the limit's percentile is taken from.
fn latencies(part: &Part, limit: &Limit, delays: bool) -> Latencies {
    let mut all = Latencies::default();
    let meant = part.operations.iter().filter(|one| limit.operation.as_ref().is_none_or(|name| *name == one.name));
    for operation in meant.filter(|one| delays || is_timed(one, limit)) {
        all.merge(if delays { &operation.delay } else { crate::reading::latencies(operation) });
    }
    all
}

fn of_mix(part: &Part, qos: &Qos, tolerance: f64) -> LimitRow {
    let ended = |name: &String| {
        let found = part.operations.iter().find(|one| one.name == *name);
        found.map_or(0, |one| one.raw.count() + one.failed())
    };
    let counts: Vec<u64> = qos.mix.keys().map(ended).collect();
    let wanted: Vec<f64> = qos.mix.values().copied().collect();
    let all: u64 = counts.iter().sum();
    if all == 0 {
        return row(Verdict::Undecided);
    }
    let off = !off_mix(&counts, &wanted, tolerance, MIX_CONFIDENCE).is_empty();
    let deviations =
        counts.iter().zip(&wanted).map(|(count, wanted)| (*count as f64 / all as f64 / wanted - 1.0).abs());
    let verdict = if off { Verdict::Exceeded } else { Verdict::Met };
    LimitRow { measured_share: deviations.reduce(f64::max), ..row(verdict) }
}

fn of_utilization(utilization: &BTreeMap<String, f64>, resource: Option<&str>, most: f64) -> LimitRow {
    let read = utilization.iter().filter(|(name, _)| resource.is_none_or(|wanted| wanted == name.as_str()));
    let highest = read.map(|(_, share)| *share).reduce(f64::max);
    let verdict = match highest {
        None => Verdict::Undecided,
        Some(share) if share > most => Verdict::Exceeded,
        Some(_) => Verdict::Met,
    };
    LimitRow { measured_share: highest, ..row(verdict) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrival::Arrival;
    use crate::failure::Failure;
    use crate::profile::Profile;

    fn rows(part: &Part, limits: &[&str]) -> Vec<LimitRow> {
        let limits = limits.iter().map(|text| text.parse().expect(text)).collect();
        let mix = BTreeMap::from([("a".to_owned(), 0.75), ("b".to_owned(), 0.25)]);
        let utilization = BTreeMap::from([("cpu".to_owned(), 0.5)]);
        let open = Drive::Open { arrival: Arrival::Constant, profile: Profile::steady(1.0) };
        check(part, &open, &Qos { limits, mix }, &utilization, false)
    }

    fn verdicts(part: &Part, limits: &[&str]) -> Vec<Verdict> {
        rows(part, limits).iter().map(|row| row.verdict).collect()
    }

    /// `fast` operations of 2 ms, `slow` ones of 80 ms and `failed` ones.
    fn part(fast: u64, slow: u64, failed: u64) -> Part {
        let mut part = Part::new(&["a".to_owned(), "b".to_owned()]);
        let one = &mut part.operations[0];
        one.intended = fast + slow + failed;
        for (ns, count) in [(2_000_000, fast), (80_000_000, slow)] {
            for _ in 0..count {
                one.raw.record(ns);
                one.corrected.record(ns);
            }
        }
        one.failures[Failure::Reset as usize] = failed;
        part
    }

    #[test]
    fn percentiles_and_shares_are_compared_with_their_limits() {
        use Verdict::{Exceeded, Met};
        let limits = ["p99<50ms", "a:p99<50ms", "p99<1ms", "failures<1%"];
        assert_eq!(verdicts(&part(1000, 10, 0), &limits), [Met, Met, Exceeded, Met]);
        assert_eq!(verdicts(&part(1000, 11, 0), &limits), [Exceeded, Exceeded, Exceeded, Met]);
        // What fails meets no limit on latency.
        assert_eq!(verdicts(&part(1000, 0, 11), &limits), [Exceeded, Exceeded, Exceeded, Exceeded]);
        let row = &rows(&part(1000, 0, 11), &limits)[0];
        assert!(row.measured_ns.is_some_and(|ns| ns < 3_000_000), "of those that succeeded: {row:?}");
        assert_eq!((row.limit.as_str(), row.broken), ("p99<50 ms", Some(Broken { bad: 11, all: 1011 })));
        assert!(rows(&part(90, 0, 10), &limits)[3].measured_share.is_some_and(|share| (share - 0.1).abs() < 1e-9));
    }

    #[test]
    fn a_few_operations_decide_only_what_no_others_could_mend() {
        use Verdict::{Exceeded, Met, Undecided};
        let limits = ["p99<50ms", "p50<50ms"];
        assert_eq!(verdicts(&part(5, 0, 0), &limits), [Undecided, Undecided]);
        assert_eq!(verdicts(&part(100, 0, 0), &limits), [Undecided, Met]);
        assert_eq!(rows(&part(100, 0, 0), &limits)[0].needed, Some(368));
        // Four slow ones of 100 are more than 1 % of 368; three might be fixed.
        assert_eq!(verdicts(&part(97, 3, 0), &limits), [Undecided, Met]);
        assert_eq!(verdicts(&part(96, 4, 0), &limits), [Exceeded, Met]);
        assert_eq!(verdicts(&part(0, 0, 0), &limits), [Undecided, Undecided]);
    }

    /// Loops alongside users wait for events for as long as there are none.
    #[test]
    fn a_limit_on_all_latencies_leaves_out_loops_alongside_users() {
        use Verdict::{Exceeded, Met};
        let mut part = part(1000, 0, 0);
        (0..1000).for_each(|_| part.operations[1].raw.record(20_000_000_000));
        assert_eq!(verdicts(&part, &["p99<50ms", "b:p99<50ms"]), [Met, Exceeded]);
        assert!(rows(&part, &["p99<50ms"])[0].measured_ns.is_some_and(|ns| ns < 3_000_000));
    }

    /// Operations that had no end when the load was over, or never got a connection, count once.
    #[test]
    fn what_never_ended_has_met_nothing() {
        let mut part = part(1000, 0, 0);
        part.operations[0].intended = 1015;
        (part.counts.unfinished, part.counts.unsent) = (5, 10);
        assert_eq!(rows(&part, &["failures<1%"])[0].broken, Some(Broken { bad: 15, all: 1015 }));
        // Those that were refused a place in the queue were never begun.
        part.counts.unsent = 40;
        assert_eq!(rows(&part, &["failures<1%"])[0].broken, Some(Broken { bad: 45, all: 1045 }));
        let closed = check(
            &part,
            &Drive::Closed,
            &Qos { limits: vec!["failures<1%".parse().expect("one")], mix: BTreeMap::new() },
            &BTreeMap::new(),
            false,
        );
        assert_eq!(closed[0].broken, Some(Broken { bad: 15, all: 1015 }));
    }

    #[test]
    fn mix_delay_and_utilization_have_verdicts_too() {
        use Verdict::{Exceeded, Met, Undecided};
        let mut part = part(750, 0, 0);
        (0..250).for_each(|_| part.operations[1].raw.record(1000));
        (0..400).for_each(|_| part.operations[1].delay.record(30_000_000));
        let limits = ["mix<10%", "delay.p99<50ms", "b:delay.p99<20ms", "utilization.cpu<80%", "utilization<40%"];
        assert_eq!(verdicts(&part, &limits), [Met, Met, Exceeded, Met, Exceeded]);
        (0..900).for_each(|_| part.operations[1].raw.record(1000));
        assert_eq!(verdicts(&part, &["mix<10%", "utilization.db<80%"]), [Exceeded, Undecided]);
        assert_eq!(verdicts(&Part::new(&["a".to_owned()]), &["mix<10%", "delay.p99<1s"]), [Undecided, Undecided]);
    }
}
