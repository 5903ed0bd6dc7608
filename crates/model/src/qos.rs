//! What a service must keep while it is loaded, as data, and what one window of load says of it.
//!
//! A limit is typed as a person says it: `p99<50ms`, `login:p95<2s`, `delay.p99<500ms`, `failures<0.5%`, `mix<20%`,
//! `utilization.cpu<80%`. Whoever applies load counts against the limits; whoever searches for a maximum judges the counts.
//! Neither needs to know the other.

use crate::histogram::Histogram;
use crate::units::{Nanos, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What must be kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// At most the share `beyond` of operations takes longer than `within` from its intended start; a failure keeps no limit.
    Latency {
        /// The share that may be slower: 0.01 for p99.
        beyond: f64,
        /// The limit.
        within: Nanos,
    },
    /// At most the share `beyond` of what is told of arrives later than `within` after it happened.
    Delay {
        /// The share that may be later.
        beyond: f64,
        /// The limit.
        within: Nanos,
    },
    /// At most this share of operations fails.
    Failures {
        /// The share.
        most: f64,
    },
    /// No operation's share of the mix is off the requested one by more than this share of it.
    Mix {
        /// The tolerance, as a share of each requested share.
        tolerance: f64,
    },
    /// A resource is used to at most this share.
    Utilization {
        /// Which; `None` for each that is read.
        resource: Option<String>,
        /// The ceiling.
        most: f64,
    },
}

/// One limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The operation that it is for; `None` for all operations together.
    pub operation: Option<String>,
    /// What must be kept.
    pub bound: Bound,
}

/// Why a limit was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' {what}; write such as p99<50ms, login:p95<2s, delay.p99<500ms, failures<0.5%, mix<20% or utilization.cpu<80%"
)]
pub struct LimitError {
    text: String,
    what: String,
}

impl Limit {
    /// The share of operations that may break it; `None` for limits that are not a share.
    #[must_use]
    pub fn allowed(&self) -> Option<f64> {
        match self.bound {
            Bound::Latency { beyond, .. } | Bound::Delay { beyond, .. } => Some(beyond),
            Bound::Failures { most } => Some(most),
            Bound::Mix { .. } | Bound::Utilization { .. } => None,
        }
    }
}

impl FromStr for Limit {
    type Err = LimitError;
    fn from_str(text: &str) -> Result<Limit, LimitError> {
        let refused = |what: String| LimitError { text: text.chars().take(100).collect(), what };
        let Some((subject, value)) = text.split_once('<') else {
            return Err(refused("has no '<'".to_owned()));
        };
        let (operation, subject) = match subject.trim().rsplit_once(':') {
            Some((operation, subject)) if !operation.trim().is_empty() => {
                (Some(operation.trim().to_owned()), subject.trim())
            }
            Some(_) => return Err(refused("names no operation before its colon".to_owned())),
            None => (None, subject.trim()),
        };
        let value = value.trim();
        let time = || value.parse::<Nanos>().map_err(|why| refused(format!("has a limit that is not a time: {why}")));
        let share = |least: f64, most: f64| {
            let share =
                value.parse::<Share>().map_err(|why| refused(format!("has a limit that is not a share: {why}")))?.0;
            let sound = share > least && share < most;
            if sound { Ok(share) } else { Err(refused(format!("has a limit beyond {} %", 100.0 * most))) }
        };
        let beyond = |percentile: &str| {
            let percent = percentile.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
            let inside = percent.filter(|percent| (1.0..100.0).contains(percent));
            // Rounded: 100 - 99.9 is not quite 0.1.
            inside.map(|percent| ((100.0 - percent) * 1e7).round() / 1e9)
        };
        let bound = if let Some(beyond) = beyond(subject) {
            Bound::Latency { beyond, within: time()? }
        } else if let Some(beyond) = subject.strip_prefix("delay.").and_then(beyond) {
            Bound::Delay { beyond, within: time()? }
        } else if subject == "failures" {
            Bound::Failures { most: share(0.0, 1.0)? }
        } else if subject == "mix" && operation.is_none() {
            Bound::Mix { tolerance: share(0.0, 10.0)? }
        } else if subject == "utilization" && operation.is_none() {
            Bound::Utilization { resource: None, most: share(0.0, 1.0)? }
        } else if let Some(resource) = subject.strip_prefix("utilization.").filter(|_| operation.is_none()) {
            Bound::Utilization { resource: Some(resource.to_owned()), most: share(0.0, 1.0)? }
        } else {
            return Err(refused(format!("limits '{subject}', which is not known")));
        };
        Ok(Limit { operation, bound })
    }
}

/// As it is typed.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = &self.operation {
            write!(f, "{operation}:")?;
        }
        let percentile = |beyond: f64| format!("p{}", ((100.0 - beyond * 100.0) * 1e7).round() / 1e7);
        match &self.bound {
            Bound::Latency { beyond, within } => write!(f, "{}<{within}", percentile(*beyond)),
            Bound::Delay { beyond, within } => write!(f, "delay.{}<{within}", percentile(*beyond)),
            Bound::Failures { most } => write!(f, "failures<{}", Share(*most)),
            Bound::Mix { tolerance } => write!(f, "mix<{}", Share(*tolerance)),
            Bound::Utilization { resource: None, most } => write!(f, "utilization<{}", Share(*most)),
            Bound::Utilization { resource: Some(name), most } => write!(f, "utilization.{name}<{}", Share(*most)),
        }
    }
}

impl Serialize for Limit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Limit, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// All limits, and the mix that is requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Qos {
    /// What must be kept, all of it.
    pub limits: Vec<Limit>,
    /// Each operation's requested share of all that end; for the limit on the mix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mix: BTreeMap<String, f64>,
}

impl Qos {
    /// Whether a window that broke each of the limits so often exceeds one that counts operations.
    #[must_use]
    pub fn is_exceeded(&self, broken: &[Option<Broken>]) -> bool {
        let exceeds = |(limit, broken): (&Limit, &Option<Broken>)| {
            limit.allowed().zip(*broken).is_some_and(|(allowed, of)| of.bad as f64 > allowed * of.all as f64)
        };
        self.limits.iter().zip(broken).any(exceeds)
    }
}

/// How many broke a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// Those that broke it.
    pub bad: u64,
    /// All that were meant to start in the window.
    pub all: u64,
}

/// What one window of load has shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// How long the window was.
    pub elapsed_s: f64,
    /// Operations meant to start in it, per second.
    pub asked_per_s: f64,
    /// Operations that ended well within it, whenever they were meant to start, per second of it; loops alongside users, which wait for events, are
    /// not counted.
    pub achieved_per_s: f64,
    /// For each limit, in the order of [`Qos::limits`]; `None` where the limit is not a share of operations.
    pub broken: Vec<Option<Broken>>,
    /// Operations of it that ended, by name.
    pub ended: BTreeMap<String, u64>,
    /// Operations of it that failed or never ended.
    pub failed: u64,
    /// All that these are a part of: what was meant to start in it, and of loops alongside users what ended. 0 in windows of earlier versions.
    #[serde(default)]
    pub all: u64,
    /// Median latency from the intended start, of all those operations together; absent below its sample floor.
    pub p50_ns: Option<u64>,
    /// Its 95th percentile.
    pub p95_ns: Option<u64>,
    /// Its 99th percentile.
    pub p99_ns: Option<u64>,
    /// All of those latencies, so that windows can be judged together; not written down.
    #[serde(skip)]
    pub latencies: Histogram,
    /// Shares of resources used, by name: `cpu` is this machine, others as their reader calls them.
    pub utilization: BTreeMap<String, f64>,
    /// Processor share of the generator's busiest thread.
    pub generator_cpu_share: Option<f64>,
    /// CPUs that all of the generator's threads used together, those on other machines apart where its reader knows of them; absent in windows of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_cpus: Option<f64>,
    /// The 99th percentile of how late the generator began.
    pub send_lag_p99_ns: Option<u64>,
    /// Why the generator could not make this load, where it could not.
    pub generator_limit: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_back_as_they_are_written() {
        for (text, written) in [
            ("p99<50ms", "p99<50 ms"),
            ("p99.9 < 1 s", "p99.9<1 s"),
            ("log in:p95<2s", "log in:p95<2 s"),
            ("delay.p99<500ms", "delay.p99<500 ms"),
            ("next-bid:delay.p99<500ms", "next-bid:delay.p99<500 ms"),
            ("failures<0.5%", "failures<0.5 %"),
            ("mix<20%", "mix<20 %"),
            ("utilization<80%", "utilization<80 %"),
            ("utilization.app1.cpu<80%", "utilization.app1.cpu<80 %"),
        ] {
            let limit: Limit = text.parse().expect(text);
            assert_eq!(limit.to_string(), written);
            assert_eq!(limit.to_string().parse::<Limit>().expect(written), limit);
        }
        assert_eq!("p99.9<1s".parse::<Limit>().expect("a limit").allowed(), Some(0.001));
    }

    #[test]
    fn what_is_no_limit_is_refused_with_examples() {
        for text in
            ["", "p99", "p99<", "p99<5", "p100<5ms", "q9<5ms", ":p99<5ms", "failures<5", "failures<100%", "a:mix<5%"]
        {
            let why = text.parse::<Limit>().expect_err(text).to_string();
            assert!(why.contains("write such as p99<50ms"), "{text}: {why}");
        }
    }
}
