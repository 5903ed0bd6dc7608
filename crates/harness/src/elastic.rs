//! Counts of servers that change while a run goes on: by schedule, by a reactive policy, and how well they followed.
//!
//! The metrics are those of the SPEC Research Group (Herbst et al., "BUNGEE", 2015): how much too few and too many servers there
//! were on average (accuracy), for what share of the time (timeshare), and how many more adaptations there were than the
//! demand asked for (jitter). Demand is users over the capacity of one server, rounded up.

use baremark_model::units::{Nanos, Share};
use baremark_services::card::Tier;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How counts change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Elastic {
    /// Changes by time.
    pub schedule: Vec<Change>,
    /// The schedule begins again after this; 0 never.
    pub repeat_s: f64,
    /// A rule instead.
    pub policy: Option<Policy>,
    /// Users that one server of the tier carries.
    pub capacity: Option<u64>,
}

/// Counts from a moment on.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// From the begin of measuring.
    pub at_s: f64,
    /// The counts that change.
    pub counts: BTreeMap<Tier, u64>,
}

/// Something that goes wrong on purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// From the begin of measuring.
    pub at_s: f64,
    /// Whose tier.
    pub tier: Tier,
    /// Which instance, from 0.
    pub index: usize,
    /// What.
    pub what: Wrong,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wrong {
    /// It is killed, and started again after so many seconds, if ever.
    Killed(Option<f64>),
    /// It reads its configuration again.
    Reloaded,
}

/// What a policy looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Processor time of the tier's servers, as a share of one CPU each.
    Utilization,
    /// The 99th percentile of latency in the last interval.
    Latency,
    /// Operations in flight for each server.
    Queue,
}

/// A reactive rule: one more above `high`, one less below `low`, no sooner than `cooldown` after the last change.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// What it looks at.
    pub signal: Signal,
    /// The tier that it changes.
    pub tier: Tier,
    /// Never fewer.
    pub least: u64,
    /// Never more.
    pub most: u64,
    /// Above this there shall be one more, as typed.
    pub high: String,
    /// Below this one less.
    pub low: String,
    /// How often it looks.
    pub every_s: f64,
    /// How long it rests.
    pub cooldown_s: f64,
}

impl Elastic {
    /// Whether anything ever changes.
    #[must_use]
    pub fn changes(&self) -> bool {
        !self.schedule.is_empty() || self.policy.is_some()
    }

    /// The most servers of a tier that it ever asks for.
    #[must_use]
    pub fn most(&self, tier: Tier) -> u64 {
        let scheduled = self.schedule.iter().filter_map(|change| change.counts.get(&tier).copied()).max().unwrap_or(0);
        let reactive = self.policy.as_ref().filter(|policy| policy.tier == tier).map_or(0, |policy| policy.most);
        scheduled.max(reactive)
    }

    /// What the schedule asks for at a moment; `None` where it says nothing of the tier yet.
    #[must_use]
    pub fn scheduled(&self, tier: Tier, at_s: f64) -> Option<u64> {
        let at_s = if self.repeat_s > 0.0 { at_s % self.repeat_s } else { at_s };
        let past = self.schedule.iter().filter(|change| change.at_s <= at_s);
        past.filter_map(|change| Some((change.at_s, *change.counts.get(&tier)?)))
            .max_by(|left, right| left.0.total_cmp(&right.0))
            .map(|(_, count)| count)
    }
}

impl Policy {
    /// The thresholds as numbers of the signal: shares, seconds, operations.
    ///
    /// # Errors
    /// What is wrong with them, as a phrase.
    pub fn thresholds(&self) -> Result<(f64, f64), String> {
        let read = |text: &str| -> Result<f64, String> {
            match self.signal {
                Signal::Utilization => text.parse::<Share>().map(|share| share.0).map_err(|why| why.to_string()),
                Signal::Latency => text.parse::<Nanos>().map(Nanos::seconds).map_err(|why| why.to_string()),
                Signal::Queue => text.trim().parse::<f64>().map_err(|why| format!("'{text}': {why}")),
            }
        };
        let (low, high) = (read(&self.low)?, read(&self.high)?);
        if low < high {
            Ok((low, high))
        } else {
            Err(format!("low = \"{}\" is not below high = \"{}\"", self.low, self.high))
        }
    }

    /// How many servers there shall be, given how many there are and what the signal says.
    #[must_use]
    pub fn decide(&self, count: u64, signal: f64) -> u64 {
        let Ok((low, high)) = self.thresholds() else { return count };
        let wanted = if signal > high {
            count + 1
        } else if signal < low {
            count.saturating_sub(1)
        } else {
            count
        };
        wanted.clamp(self.least, self.most)
    }
}

/// Whose count changed when, and how that went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adaptation {
    /// From the begin of measuring, when it was decided.
    pub at_s: f64,
    /// The tier.
    pub tier: String,
    /// Servers before.
    pub from: u64,
    /// Servers after.
    pub to: u64,
    /// Until requests were sent to just the new set of servers.
    pub took_s: f64,
}

/// How well supply followed demand.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElasticityMetrics {
    /// Servers missing, on average over the time.
    pub accuracy_under: f64,
    /// Servers too many, on average over the time.
    pub accuracy_over: f64,
    /// Share of the time with too few.
    pub timeshare_under: f64,
    /// Share of the time with too many.
    pub timeshare_over: f64,
    /// Changes of the supply.
    pub supply_adaptations: u64,
    /// Changes of the demand.
    pub demand_adaptations: u64,
    /// Their difference per minute; below 0 changes were missed.
    pub jitter_per_min: f64,
}

/// A count that holds from a moment on; ascending.
pub type Steps = [(f64, u64)];

/// The metrics over `0..end_s`; `None` without any time, or when either has no step at 0.
#[must_use]
pub fn metrics(demand: &Steps, supply: &Steps, end_s: f64) -> Option<ElasticityMetrics> {
    let starts = |steps: &Steps| steps.first().is_some_and(|(at, _)| *at <= 0.0);
    if end_s <= 0.0 || !starts(demand) || !starts(supply) {
        return None;
    }
    let mut moments: Vec<f64> = demand.iter().chain(supply).map(|(at, _)| at.clamp(0.0, end_s)).collect();
    moments.push(end_s);
    moments.sort_by(f64::total_cmp);
    let (mut under, mut over, mut under_s, mut over_s) = (0.0, 0.0, 0.0, 0.0);
    for two in moments.windows(2) {
        let (begin, length) = (two[0], two[1] - two[0]);
        let (wanted, there) = (at(demand, begin), at(supply, begin));
        under += wanted.saturating_sub(there) as f64 * length;
        over += there.saturating_sub(wanted) as f64 * length;
        under_s += if wanted > there { length } else { 0.0 };
        over_s += if there > wanted { length } else { 0.0 };
    }
    let (supplied, demanded) = (changes(supply, end_s), changes(demand, end_s));
    Some(ElasticityMetrics {
        accuracy_under: under / end_s,
        accuracy_over: over / end_s,
        timeshare_under: under_s / end_s,
        timeshare_over: over_s / end_s,
        supply_adaptations: supplied,
        demand_adaptations: demanded,
        jitter_per_min: (supplied as f64 - demanded as f64) / (end_s / 60.0),
    })
}

fn at(steps: &Steps, moment: f64) -> u64 {
    steps.iter().take_while(|(at, _)| *at <= moment).last().map_or(0, |(_, count)| *count)
}

fn changes(steps: &Steps, end_s: f64) -> u64 {
    steps.windows(2).filter(|two| two[0].1 != two[1].1 && two[1].0 < end_s).count() as u64
}

/// Servers that so many users need, of the capacity of one.
#[must_use]
pub fn demanded(users: f64, capacity: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    let servers = (users / capacity.max(1) as f64).ceil() as u64;
    servers.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_those_of_the_definition() {
        // 2 wanted from 10 s to 30 s; the second comes 5 s late and leaves 10 s late.
        let demand = [(0.0, 1), (10.0, 2), (30.0, 1)];
        let supply = [(0.0, 1), (15.0, 2), (40.0, 1)];
        let metrics = metrics(&demand, &supply, 50.0).expect("some time");
        let close = |left: f64, right: f64| (left - right).abs() < 1e-9;
        assert!(close(metrics.accuracy_under, 0.1) && close(metrics.timeshare_under, 0.1), "{metrics:?}");
        assert!(close(metrics.accuracy_over, 0.2) && close(metrics.timeshare_over, 0.2), "{metrics:?}");
        assert_eq!((metrics.supply_adaptations, metrics.demand_adaptations), (2, 2));
        assert!(close(metrics.jitter_per_min, 0.0));
    }

    #[test]
    fn there_are_no_metrics_of_no_time() {
        assert_eq!(metrics(&[(0.0, 1)], &[(0.0, 1)], 0.0), None);
        assert_eq!(metrics(&[], &[(0.0, 1)], 5.0), None);
    }

    #[test]
    fn the_schedule_repeats() {
        let change = |at_s, app| Change { at_s, counts: BTreeMap::from([(Tier::App, app)]) };
        let elastic = Elastic { schedule: vec![change(0.0, 1), change(10.0, 2)], repeat_s: 30.0, ..Elastic::default() };
        let counts = [0.0, 9.0, 10.0, 29.0, 31.0, 45.0].map(|at| elastic.scheduled(Tier::App, at));
        assert_eq!(counts, [Some(1), Some(1), Some(2), Some(2), Some(1), Some(2)]);
        assert_eq!((elastic.scheduled(Tier::Web, 5.0), elastic.most(Tier::App)), (None, 2));
    }

    #[test]
    fn a_policy_keeps_its_bounds() {
        let policy = Policy {
            signal: Signal::Utilization,
            tier: Tier::App,
            least: 1,
            most: 2,
            high: "70 %".to_owned(),
            low: "30 %".to_owned(),
            every_s: 1.0,
            cooldown_s: 5.0,
        };
        assert_eq!(
            [(1, 0.9), (2, 0.9), (2, 0.5), (2, 0.1), (1, 0.1)].map(|(count, signal)| policy.decide(count, signal)),
            [2, 2, 2, 1, 1]
        );
        let upside_down = Policy { high: "20 %".to_owned(), ..policy };
        assert!(upside_down.thresholds().is_err());
    }
}
