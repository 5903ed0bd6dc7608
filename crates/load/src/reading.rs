//! What a window of load says of limits: the bridge from histograms to a search that knows neither HTTP nor engine.

use crate::failure::Failure;
use crate::latency::Latencies;
use crate::record::{OperationPart, Part};
use crate::scenario::{Next, Scenario};
use baremark_model::knob::InvalidValue;
use baremark_model::problem::nearest;
use baremark_model::qos::{Bound, Broken, Limit, Qos, Reading};
use baremark_model::units::Nanos;
use std::collections::BTreeMap;

/// A thread of the generator that is this busy has no more to give.
const FULL_SHARE: f64 = 0.95;

/// The share of operations that must keep the limits that a scenario states, and the share that may fail, where nobody says
/// otherwise: 99 %, and 0.5 %.
const BEYOND: f64 = 0.01;
const FAILURES: f64 = 0.005;
/// Steps after which a chain of operations is taken to have come to rest.
const MOST_STEPS: usize = 10_000;

impl Scenario {
    /// The limits that the scenario itself states: 99 % of each operation, and of what it tells of, within its limit, and at
    /// most 0.5 % failures. Empty where no operation has a limit.
    #[must_use]
    pub fn limits(&self) -> Vec<Limit> {
        let mut limits = Vec::new();
        for operation in &self.operations {
            let named = |bound| Limit { operation: Some(operation.name.clone()), bound };
            limits.extend(operation.limit.map(|within| named(Bound::Latency { beyond: BEYOND, within })));
            let delays = operation.requests.iter().filter_map(|request| request.delay.as_ref()?.limit);
            limits.extend(delays.min().map(|within| named(Bound::Delay { beyond: BEYOND, within })));
        }
        if !limits.is_empty() {
            limits.push(Limit { operation: None, bound: Bound::Failures { most: FAILURES } });
        }
        limits
    }

    /// The mix that an open loop draws: each operation's weight as a share; empty where none has one.
    #[must_use]
    pub fn mix(&self) -> BTreeMap<String, f64> {
        let sum: f64 = self.operations.iter().map(|operation| operation.weight).sum();
        let weighed = self.operations.iter().filter(|operation| operation.weight > 0.0);
        weighed.map(|operation| (operation.name.clone(), operation.weight / sum)).collect()
    }

    /// The mix that users come to in the long run: how often the chain of operations visits each, when all succeed. `None`
    /// where a way depends on what a user has seen. Power iteration on the chain that stays put half of the time, which has
    /// the same shares and no period.
    #[must_use]
    pub fn mix_of_users(&self) -> Option<BTreeMap<String, f64>> {
        let ways: Vec<Vec<(usize, f64)>> =
            self.operations.iter().map(|operation| self.ways(operation.next)).collect::<Option<_>>()?;
        let mut shares = vec![0.0; ways.len()];
        shares[self.start] = 1.0;
        for _ in 0..MOST_STEPS {
            let mut next: Vec<f64> = shares.iter().map(|share| 0.5 * share).collect();
            for (share, ways) in shares.iter().zip(&ways) {
                ways.iter().for_each(|(to, chance)| next[*to] += 0.5 * share * chance);
            }
            let moved = shares.iter().zip(&next).map(|(before, after)| (before - after).abs()).fold(0.0, f64::max);
            shares = next;
            if moved < 1e-13 {
                break;
            }
        }
        let visited = self.operations.iter().zip(shares).filter(|(_, share)| *share > 1e-6);
        Some(visited.map(|(operation, share)| (operation.name.clone(), share)).collect())
    }

    /// Where a user may go from here, with the chance of each way.
    fn ways(&self, from: Next) -> Option<Vec<(usize, f64)>> {
        let choice = match from {
            Next::Operation(operation) => return Some(vec![(operation, 1.0)]),
            Next::Choice(choice) => &self.choices[choice],
        };
        if choice.iter().any(|candidate| !candidate.when.is_empty()) {
            return None;
        }
        let (mut ways, mut left) = (Vec::new(), 1.0);
        let mut go = |to: Next, chance: f64| {
            ways.extend(self.ways(to)?.into_iter().map(|(operation, share)| (operation, share * chance)));
            Some(())
        };
        for candidate in choice {
            if let Some(chance) = candidate.chance {
                go(candidate.to, left * chance)?;
                left *= 1.0 - chance;
            }
        }
        let weighed = || choice.iter().filter(|candidate| candidate.chance.is_none());
        let sum: f64 = weighed().map(|candidate| candidate.weight).sum();
        if sum <= 0.0 {
            go(Next::Operation(self.start), left)?;
        }
        for candidate in weighed().filter(|_| sum > 0.0) {
            go(candidate.to, left * candidate.weight / sum)?;
        }
        Some(ways)
    }

    /// Whether limits name operations that the scenario has.
    ///
    /// # Errors
    /// The first name that it has not, with the nearest that it has.
    pub fn check_limits(&self, limits: &[Limit]) -> Result<(), InvalidValue> {
        let names: Vec<&str> = self.operations.iter().map(|operation| operation.name.as_str()).collect();
        let unknown = limits.iter().filter_map(|limit| limit.operation.as_deref()).find(|name| !names.contains(name));
        match unknown {
            Some(name) => Err(InvalidValue::new(format!("no operation is '{name}'"), nearest(name, &names))),
            None => Ok(()),
        }
    }
}

/// How long what began in a window is waited for: the longest limit, beyond which it is broken anyway, and no less than a
/// quarter of a second.
#[must_use]
pub fn patience(qos: &Qos) -> Nanos {
    let limits = qos.limits.iter().filter_map(|limit| match limit.bound {
        Bound::Latency { within, .. } => Some(within.0),
        _ => None,
    });
    // A tenth more: nobody is called late for lack of a look.
    Nanos(limits.max().unwrap_or(0).max(250_000_000) / 10 * 11)
}

/// What a window shows of the limits. What was meant to start in it and has not ended counts as broken and failed; what was achieved is what
/// ended in it, whenever it was meant to start. Rates and percentiles over all operations leave out loops alongside users: they wait for events,
/// and how long is not a doing of the server.
#[must_use]
pub fn reading(window: &Part, qos: &Qos) -> Reading {
    let seconds = window.elapsed_ns as f64 / 1e9;
    let mut all = Latencies::default();
    let awaited = window.operations.iter().filter(|operation| operation.intended > 0);
    awaited.for_each(|operation| all.merge(latencies(operation)));
    let failures: u64 = window.operations.iter().map(OperationPart::failed).sum();
    let lost = window.operations.iter().map(overdue).sum::<u64>() + window.counts.unsent;
    let succeeded: u64 = window.operations.iter().map(|operation| operation.raw.count()).sum();
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let busiest = window.threads.iter().map(|thread| thread.cpu_ns as f64 / thread.wall_ns.max(1) as f64);
    let busiest = busiest.reduce(f64::max);
    let ended = window.operations.iter().map(|one| (one.name.clone(), one.raw.count() + one.failed()));
    let broken: Vec<Option<Broken>> = qos.limits.iter().map(|limit| broken(window, limit)).collect();
    let generator_limit = generator_limit(window, busiest, qos, qos.is_exceeded(&broken));
    Reading {
        elapsed_s: seconds,
        asked_per_s: rate(window.counts.intended),
        achieved_per_s: rate(window.succeeded()),
        broken,
        ended: ended.filter(|(_, count)| *count > 0).collect(),
        failed: failures + lost,
        all: succeeded + failures + lost,
        p50_ns: all.percentile(0.5),
        p95_ns: all.percentile(0.95),
        p99_ns: all.percentile(0.99),
        latencies: all.counts(),
        utilization: BTreeMap::new(),
        generator_cpu_share: busiest,
        generator_cpus: Some(window.cpus_used()),
        send_lag_p99_ns: window.send_lag.percentile(0.99),
        generator_limit,
    }
}

/// From the intended start where every success has one.
pub(crate) fn latencies(operation: &OperationPart) -> &Latencies {
    let corrected = operation.corrected.count() >= operation.raw.count();
    if corrected { &operation.corrected } else { &operation.raw }
}

/// Operations meant to start that have not ended.
pub(crate) fn overdue(operation: &OperationPart) -> u64 {
    operation.intended.saturating_sub(operation.raw.count() + operation.failed())
}

fn broken(window: &Part, limit: &Limit) -> Option<Broken> {
    limit.allowed()?;
    let sum = counted(window, limit);
    let kept_at = |name: &String| {
        let own = window.operations.iter().filter(|one| one.name == *name);
        own.map(|one| one.kept).sum::<u64>()
    };
    let unsent = match limit.bound {
        Bound::Delay { .. } => 0,
        _ => limit.operation.as_ref().map_or(window.counts.unsent, kept_at),
    };
    Some(Broken { bad: sum.bad + unsent, all: sum.all + unsent })
}

/// Whether the latencies of an operation are among those that a limit is for: loops alongside users, which wait for events, only by their name.
pub(crate) fn is_timed(operation: &OperationPart, limit: &Limit) -> bool {
    limit.operation.is_some() || operation.intended > 0
}

/// How many of the operations that a limit is for broke it; what was meant to start and has not ended is among them.
pub(crate) fn counted(window: &Part, limit: &Limit) -> Broken {
    let mut sum = Broken::default();
    for operation in &window.operations {
        if limit.operation.as_ref().is_some_and(|name| *name != operation.name) {
            continue;
        }
        if matches!(limit.bound, Bound::Latency { .. }) && !is_timed(operation, limit) {
            continue;
        }
        let lost = operation.failed() + overdue(operation);
        let done = operation.raw.count();
        let (bad, all) = match limit.bound {
            Bound::Latency { within, .. } => (lost + latencies(operation).count_above(within.0), lost + done),
            Bound::Delay { within, .. } => (operation.delay.count_above(within.0), operation.delay.count()),
            Bound::Failures { .. } => (lost, lost + done),
            Bound::Mix { .. } | Bound::Utilization { .. } => (0, 0),
        };
        sum.bad += bad;
        sum.all += all;
    }
    sum
}

/// A generator that ends less than this share of what was meant to start does not make its load.
const MADE: f64 = 0.95;

/// Why the generator may be what kept a load from its limits. A busy thread alone is no such reason: latencies are measured from the intended start,
/// so that a limit of them that is kept was kept whatever the generator added. Without such a limit it must have made its load.
fn generator_limit(window: &Part, busiest: Option<f64>, qos: &Qos, exceeded: bool) -> Option<String> {
    let of_all = |limit: &Limit| limit.operation.is_none() && matches!(limit.bound, Bound::Latency { .. });
    let ended = window.succeeded() + window.operations.iter().map(OperationPart::failed).sum::<u64>();
    let falls_behind = !qos.limits.iter().any(of_all) && (ended as f64) < MADE * window.counts.intended as f64;
    let full = busiest.filter(|share| *share >= FULL_SHARE);
    if let Some(busiest) = full.filter(|_| exceeded || falls_behind) {
        return Some(format!("generator: a thread was busy {:.0} % of the time", 100.0 * busiest));
    }
    let own = [Failure::PortsExhausted, Failure::DescriptorsExhausted];
    let starved = own.into_iter().find(|kind| window.operations.iter().any(|one| one.failures[*kind as usize] > 0));
    starved.map(|kind| format!("generator: out of resources ({})", kind.label()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ThreadPart;
    use crate::scenario::file;

    fn mix(choices: &str) -> Option<BTreeMap<String, f64>> {
        let text = format!(
            "[scenario]\nstart = \"a\"\n[choices]\n{choices}\n[operations.a]\nnext = \"x\"\n[[operations.a.requests]]\nget = \"/\"
             [operations.b]\nnext = \"a\"\n[[operations.b.requests]]\nget = \"/\"
             [operations.c]\nnext = \"a\"\n[[operations.c.requests]]\nget = \"/\""
        );
        let parsed = file::parse("t.toml", text.as_bytes(), Some("http://127.0.0.1:1"), ".".as_ref());
        parsed.unwrap_or_else(|why| panic!("{why}")).mix_of_users()
    }

    /// From a always to b or c, from there back to a: half of all are a, whatever the period of two does.
    #[test]
    fn the_mix_of_users_is_that_of_their_chain() {
        let shares = |choices: &str| {
            let mix = mix(choices).expect("no conditions");
            ["a", "b", "c"].map(|name| format!("{:.6}", mix.get(name).copied().unwrap_or(0.0)))
        };
        let weighed = shares("x = [{ to = \"b\", weight = 3 }, { to = \"c\", weight = 1 }]");
        assert_eq!(weighed, ["0.500000", "0.375000", "0.125000"]);
        let by_chance = shares("x = [{ to = \"b\", chance = \"10 %\" }, { to = \"y\" }]\ny = [{ to = \"c\" }]");
        assert_eq!(by_chance, ["0.500000", "0.050000", "0.450000"]);
        assert_eq!(shares("x = [{ to = \"a\" }]"), ["1.000000", "0.000000", "0.000000"]);
    }

    fn limits<const N: usize>(texts: [&str; N]) -> Vec<Limit> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    /// A search of a server that answers at once found half of what it keeps: most windows were called the generator's limit.
    #[test]
    fn a_busy_generator_is_a_limit_where_limits_are_exceeded_or_it_falls_behind() {
        let of = |limit: &str, busy: u64, ended: u64, latency: u64| {
            let qos = Qos { limits: limits([limit]), ..Qos::default() };
            let mut window = Part::new(&["read".to_owned()]);
            (window.elapsed_ns, window.counts.intended) = (1_000_000_000, 1000);
            window.threads.push(ThreadPart { cpu: None, cpu_ns: 10 * busy, wall_ns: 1000, away_ns: 0 });
            let operation = &mut window.operations[0];
            (operation.intended, operation.in_time) = (1000, ended);
            (0..1000).for_each(|_| operation.raw.record(1000));
            (0..1000).for_each(|_| operation.corrected.record(latency));
            reading(&window, &qos).generator_limit
        };
        let (quick, slow) = (2_000_000, 90_000_000);
        let none = [
            of("p99<50ms", 99, 1000, quick),
            // What has not ended when the window does may end within the limit.
            of("p99<50ms", 99, 900, quick),
            of("p99<50ms", 60, 1000, slow),
            of("failures<1%", 99, 1000, slow),
            of("failures<1%", 60, 900, slow),
        ];
        assert_eq!(none, [const { None }; 5]);
        let busy = Some("generator: a thread was busy 99 % of the time".to_owned());
        assert_eq!([of("p99<50ms", 99, 1000, slow), of("failures<1%", 99, 900, slow)], [busy.clone(), busy]);
    }

    #[test]
    fn waiting_for_events_beside_users_is_no_latency_of_the_server() {
        let mut window = Part::new(&["read".to_owned(), "next-event".to_owned()]);
        window.elapsed_ns = 1_000_000_000;
        window.operations[0].intended = 100;
        window.operations[0].in_time = 100;
        (0..100).for_each(|_| window.operations[0].raw.record(2_000_000));
        (0..1000).for_each(|_| window.operations[1].raw.record(20_000_000_000));
        let reading = reading(
            &window,
            &Qos { limits: limits(["failures<1%", "p99<50ms", "next-event:p99<50ms"]), mix: BTreeMap::new() },
        );
        let of = |bad, all| Some(Broken { bad, all });
        assert_eq!(reading.broken, [of(0, 1100), of(0, 100), of(1000, 1000)], "by its name alone");
        assert_eq!(reading.achieved_per_s.to_bits(), 100.0_f64.to_bits());
        assert!(reading.p50_ns.expect("a hundred samples") < 3_000_000, "{:?}", reading.p50_ns);
        assert_eq!((reading.latencies.count(), reading.latencies.value_at(0.5)), (100, reading.p50_ns));
        // Among what ended, where limits of the mix look, they are all the same.
        assert_eq!(reading.ended["next-event"], 1000);
    }

    /// Two hundred failures of what was meant to start a hundred times were 200 %.
    #[test]
    fn what_failed_is_a_part_of_all() {
        let mut window = Part::new(&["read".to_owned(), "next-event".to_owned()]);
        window.elapsed_ns = 1_000_000_000;
        window.counts.intended = 103;
        window.counts.unsent = 3;
        window.operations[0].intended = 100;
        window.operations[0].failures[Failure::Reset as usize] = 90;
        window.operations[1].failures[Failure::Reset as usize] = 110;
        (0..40).for_each(|_| window.operations[1].raw.record(2_000_000));
        let reading = reading(&window, &Qos { limits: limits(["failures<1%"]), mix: BTreeMap::new() });
        // 90 + 110 failed, 10 never ended, 3 were never sent; 40 loops succeeded.
        assert_eq!((reading.failed, reading.all), (213, 253));
        assert_eq!(reading.broken, [Some(Broken { bad: 213, all: 253 })]);
    }

    #[test]
    fn what_is_late_failed_or_never_ended_has_broken_its_limit() {
        let mut window = Part::new(&["a".to_owned(), "b".to_owned()]);
        window.elapsed_ns = 2_000_000_000;
        let a = &mut window.operations[0];
        a.intended = 10;
        for ms in [1, 2, 3, 60, 70] {
            a.raw.record(ms * 1_000_000);
            a.corrected.record((ms + 1) * 1_000_000);
        }
        a.failures[Failure::Reset as usize] = 2;
        window.operations[1].intended = 4;
        (0..4).for_each(|_| window.operations[1].raw.record(1000));
        window.counts.intended = 14;
        let limits = ["p99<50ms", "a:p90<61ms", "b:p99<50ms", "failures<1%", "a:delay.p99<1s", "mix<5%"];
        let qos = Qos { limits: limits.iter().map(|text| text.parse().expect(text)).collect(), mix: BTreeMap::new() };
        let reading = reading(&window, &qos);
        let of = |bad, all| Some(Broken { bad, all });
        // Three of a never ended, two failed, and of 61 and 71 ms the limit of 61 ms breaks one.
        assert_eq!(reading.broken, [of(7, 14), of(6, 10), of(0, 4), of(5, 14), of(0, 0), None]);
        assert_eq!((reading.failed, reading.all, reading.asked_per_s.to_bits()), (5, 14, 7.0_f64.to_bits()));
        assert_eq!(reading.ended, BTreeMap::from([("a".to_owned(), 7), ("b".to_owned(), 4)]));
        assert_eq!(patience(&qos), Nanos(275_000_000));
    }
}
