//! Which tier and resource was used up where limits were exceeded, as far as the tiers' own CPU time shows it.

use crate::document::ApplicationRow;
use baremark_model::maximum::Said;
use std::collections::BTreeMap;

/// CPUs that are used to this share have no more to give: what is left goes to the kernel and to waiting for each other.
const SATURATED: f64 = 0.9;

/// The tier whose CPUs were used most where limits were exceeded, with the evidence; `None` where none was exceeded or nothing is
/// known. `cpus` are those of this machine that tiers without CPUs of their own share with each other and the generator.
pub(crate) fn explained(row: &ApplicationRow, cpus: usize) -> Option<String> {
    let (used, generator) = used(row)?;
    let own =
        |tier: &str| row.tiers.get(tier).map_or(0, |plan| plan.cpus.len() * usize::try_from(plan.count).unwrap_or(1));
    let share = |(tier, used): &(&String, &f64)| **used / own(tier).max(1) as f64;
    let bound =
        used.iter().filter(|(tier, _)| own(tier) > 0).max_by(|left, right| share(left).total_cmp(&share(right)));
    if let Some((tier, used)) = bound.filter(|pair| share(pair) >= SATURATED) {
        return Some(format!(
            "CPU of the {tier} tier saturated: {used:.2} of its {} CPUs used where limits were exceeded",
            own(tier)
        ));
    }
    let here: Vec<(&String, &f64)> = used.iter().filter(|(tier, _)| is_here(row, tier)).collect();
    let most = here.iter().filter(|(tier, _)| own(tier) == 0).max_by(|left, right| left.1.total_cmp(right.1))?;
    let all = here.iter().map(|(_, used)| **used).sum::<f64>() + generator;
    let parts: Vec<String> = here.iter().map(|(tier, used)| format!("{tier} {used:.2}")).collect();
    let parts = format!("{}, generator {generator:.2}", parts.join(", "));
    Some(match all >= SATURATED * cpus as f64 {
        true => format!(
            "CPU of this machine saturated, mostly by the {} tier: {all:.2} of {cpus} CPUs used where limits were exceeded ({parts})",
            most.0
        ),
        false => format!(
            "CPU time of tiers does not explain the limit: {all:.2} of {cpus} CPUs used where limits were exceeded ({parts}); look for disk, locks or the network"
        ),
    })
}

/// Whether a tier shares this machine's CPUs.
fn is_here(row: &ApplicationRow, tier: &str) -> bool {
    row.tiers.get(tier).is_some_and(|plan| plan.on == "native" || plan.on == "container")
}

/// CPUs used by each tier and by the generator where limits were exceeded: the mean of such windows of the search, or the load.
fn used(row: &ApplicationRow) -> Option<(BTreeMap<String, f64>, f64)> {
    let name = |key: &String| key.trim_end_matches(".cpus").to_owned();
    let windows = row.search.iter().flat_map(|search| &search.trials).flat_map(|trial| &trial.windows);
    let failed: Vec<_> = windows.filter(|window| window.said == Said::Fail).map(|window| &window.reading).collect();
    if failed.is_empty() {
        let load = row.load.as_ref().filter(|load| !load.broken.is_empty())?;
        let used = load.cpus_used.iter().map(|(key, used)| (name(key), *used)).collect();
        return Some((used, load.generator_cpus_used));
    }
    let count = failed.len() as f64;
    let mut used: BTreeMap<String, f64> = BTreeMap::new();
    for (key, value) in failed.iter().flat_map(|reading| &reading.utilization) {
        *used.entry(name(key)).or_default() += value / count;
    }
    let generator = failed.iter().filter_map(|reading| reading.generator_cpu_share).sum::<f64>() / count;
    Some((used, generator))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::TierRow;
    use baremark_model::maximum::{self, Ended, Plan, Trial, Window};
    use baremark_model::qos::{Qos, Reading};

    fn row(windows: &[(Said, f64, f64)], app_cpus: &[usize]) -> ApplicationRow {
        let window = |(said, app, database): &(Said, f64, f64)| Window {
            level: 100.0,
            from_above: false,
            fitted: false,
            said: *said,
            reading: Reading {
                utilization: [("app.cpus".to_owned(), *app), ("database.cpus".to_owned(), *database)].into(),
                generator_cpu_share: Some(0.2),
                ..Reading::default()
            },
        };
        let search = maximum::Document {
            format: maximum::FORMAT.to_owned(),
            title: String::new(),
            factor: "users".to_owned(),
            qos: Qos::default(),
            plan: Plan::between(1.0, 2000.0),
            ended: Ended::Found,
            maximum: None,
            shown_level: None,
            limited_by: Vec::new(),
            generator_was_the_limit: false,
            hysteresis: None,
            knee: Vec::new(),
            trials: vec![Trial {
                ended: Ended::Found,
                maximum: None,
                limiting: None,
                hysteresis: None,
                windows: windows.iter().map(window).collect(),
            }],
        };
        let tier = |cpus: &[usize]| TierRow {
            service: String::new(),
            count: 1,
            on: "native".to_owned(),
            settings: BTreeMap::new(),
            extra: Vec::new(),
            cpus: cpus.to_vec(),
            memory_bytes: None,
        };
        ApplicationRow {
            name: "main".to_owned(),
            tiers: [("app".to_owned(), tier(app_cpus)), ("database".to_owned(), tier(&[]))].into(),
            database: String::new(),
            bus: String::new(),
            tls: false,
            max_users: 2000,
            cycle_s: 1.0,
            search: Some(search),
            attempts: Vec::new(),
            load: None,
            invariants: None,
            saturated: None,
            instances: Vec::new(),
        }
    }

    #[test]
    fn the_tier_that_used_its_cpus_up_is_named_with_the_evidence() {
        let of = |windows: &[(Said, f64, f64)], cpus: &[usize]| explained(&row(windows, cpus), 4).unwrap_or_default();
        // Windows that met the limits say nothing.
        let own = of(&[(Said::Pass, 0.2, 3.0), (Said::Fail, 0.9, 0.5), (Said::Fail, 1.0, 0.5)], &[1]);
        assert_eq!(own, "CPU of the app tier saturated: 0.95 of its 1 CPUs used where limits were exceeded");
        let shared = of(&[(Said::Fail, 1.0, 2.6)], &[]);
        assert!(
            shared.starts_with("CPU of this machine saturated, mostly by the database tier: 3.80 of 4 CPUs"),
            "{shared}"
        );
        let idle = of(&[(Said::Fail, 0.4, 0.3)], &[]);
        assert!(idle.starts_with("CPU time of tiers does not explain the limit: 0.90 of 4 CPUs used"), "{idle}");
        assert_eq!(explained(&row(&[(Said::Pass, 1.0, 3.0)], &[]), 4), None);
    }
}
