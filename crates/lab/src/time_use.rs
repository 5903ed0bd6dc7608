//! Where the wall time of a run's trials went: how much of it was measured, and what the rest was.

use crate::trials::Finished;
use baremark_model::document::TimeRow;
use baremark_model::wire::TrialResult;
use std::collections::BTreeMap;

/// Time inside the measured regions, as trials record it.
const MEASURED: &str = "measured";

/// One row for each workload and part, those of all workloads together last; none where no trial recorded its parts.
pub(crate) fn rows(trials: &[Finished]) -> Vec<TimeRow> {
    let mut by_workload: BTreeMap<&str, Vec<(&Finished, &TrialResult)>> = BTreeMap::new();
    let recorded = |trial: &'_ &Finished| trial.result.as_ref().is_some_and(|result| !result.spent_ns.is_empty());
    for trial in trials.iter().filter(recorded) {
        let own = by_workload.entry(&trial.spec.workload).or_default();
        own.extend(trial.result.as_ref().map(|result| (trial, result)));
    }
    let all: Vec<_> = by_workload.values().flatten().copied().collect();
    let together = (!all.is_empty()).then(|| of("", &all)).into_iter().flatten();
    by_workload.iter().flat_map(|(workload, own)| of(workload, own)).chain(together).collect()
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run")]
fn of(workload: &str, trials: &[(&Finished, &TrialResult)]) -> Vec<TimeRow> {
    let mut parts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut wall_ns = 0;
    for (trial, result) in trials {
        wall_ns += trial.elapsed_ns;
        *parts.entry("start").or_default() += trial.elapsed_ns.saturating_sub(result.elapsed_ns);
        let measured = result.spent_ns.get(MEASURED).copied().unwrap_or(0);
        for (part, &ns) in &result.spent_ns {
            match part.as_str() {
                // Both are shares of the phases.
                "waits" => {}
                "phases" => *parts.entry("between phases").or_default() += ns.saturating_sub(measured),
                part => *parts.entry(part).or_default() += ns,
            }
        }
    }
    let row = |(part, ns): (&str, u64)| TimeRow {
        workload: workload.to_owned(),
        part: part.to_owned(),
        seconds: ns as f64 / 1e9,
        share: ns as f64 / (wall_ns as f64).max(1.0),
    };
    parts.into_iter().map(row).collect()
}
