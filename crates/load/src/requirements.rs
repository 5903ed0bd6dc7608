//! What a whole load must keep, and whether it did: one judgement of a command's load and of a phase of a study.

use crate::document::{Document, Ended};
use crate::limits::{CPU, check, qos};
use crate::load::Load;
use crate::reading::patience;
use crate::record::Part;
use baremark_model::knob::InvalidValue;
use baremark_model::qos::{Bound, Limit, Qos};
use baremark_model::units::{Nanos, Share};
use baremark_sys::cpu_time::CpuTime;

/// The share of operations that may fail where nobody says.
const ERROR_LIMIT: f64 = 0.01;

/// What a whole load must keep: limits, and the share of its operations that may fail.
#[derive(Clone, Debug)]
pub struct Requirements {
    qos: Qos,
    of_scenario: bool,
    error_limit: Option<f64>,
}

impl Requirements {
    /// The limits as typed, or those of the scenario where none are. Where `error_limit` is not set, 1 % may fail, or what a typed limit on all
    /// failures says.
    ///
    /// # Errors
    /// As [`qos`].
    pub fn of(load: &Load, typed: &[Limit], error_limit: Option<Share>) -> Result<Requirements, InvalidValue> {
        let of_failures = |limit: &Limit| limit.operation.is_none() && matches!(limit.bound, Bound::Failures { .. });
        let usual = (!typed.iter().any(of_failures)).then_some(ERROR_LIMIT);
        let error_limit = error_limit.map(|Share(share)| share).or(usual);
        Ok(Requirements { qos: qos(load, typed)?, of_scenario: typed.is_empty(), error_limit })
    }

    /// How long to wait at the end: until every limit on a latency is known to be broken or met, but not beyond the timeout.
    #[must_use]
    pub fn grace(&self, load: &Load) -> Nanos {
        let wanted = if self.qos.limits.is_empty() { Nanos(0) } else { patience(&self.qos) };
        load.grace.max(wanted.min(load.timeout))
    }

    /// Writes the verdicts into the result; `before` is when the load began. An interrupted load has none: what was under way was cut off.
    pub fn check(&self, document: &mut Document, part: &Part, load: &Load, before: Option<CpuTime>) {
        document.error_limit_share = self.error_limit;
        if document.ended == Ended::Interrupted {
            return;
        }
        let cpu = before.and_then(|before| CpuTime::now().ok()?.share_since(&before));
        let utilization = cpu.map(|share| (CPU.to_owned(), share)).into_iter().collect();
        document.limits = check(part, &load.drive, &self.qos, &utilization, self.of_scenario);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Drive, Stop};
    use crate::scenario::Scenario;

    fn load() -> Load {
        Load::new(Scenario::of_url("http://127.0.0.1/").expect("a URL"), Drive::Closed, Stop::Count(1))
    }

    fn of(typed: &[&str], error_limit: Option<Share>) -> Requirements {
        let typed: Vec<Limit> = typed.iter().map(|text| text.parse().expect("a limit")).collect();
        Requirements::of(&load(), &typed, error_limit).expect("limits of this load")
    }

    #[test]
    fn one_percent_may_fail_where_neither_the_share_nor_a_limit_on_failures_is_set() {
        assert_eq!([of(&[], None), of(&["p99<5s"], None)].map(|one| one.error_limit), [Some(0.01); 2]);
        assert_eq!(of(&["failures<20%"], None).error_limit, None);
        assert_eq!(of(&["failures<20%"], Some(Share(0.3))).error_limit, Some(0.3));
    }

    #[test]
    fn limits_on_latencies_are_waited_for_until_the_timeout() {
        let mut load = load();
        let usual = load.grace;
        assert_eq!(of(&[], None).grace(&load), usual);
        let strict = of(&["p99<5s"], None);
        assert_eq!(strict.grace(&load), Nanos(5_500_000_000));
        load.timeout = Nanos(3_000_000_000);
        assert_eq!(strict.grace(&load), load.timeout);
    }
}
