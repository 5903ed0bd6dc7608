//! Which tier and resource was used up where limits were exceeded, as far as the CPU time, run-queue waits and disk traffic of tiers
//! show it.

use crate::document::{ApplicationRow, TierRow};
use crate::under_load::{CPUS, DISK, IO_STALL, MEMORY_STALL, WAITING};
use baremark_model::maximum::Said;
use std::collections::BTreeMap;

/// CPUs that are used to this share have no more to give: what is left goes to the kernel and to waiting for each other.
const SATURATED: f64 = 0.9;

/// So many threads that wait for a CPU on average are a queue.
const QUEUED: f64 = 0.5;

/// A tier that stalls for this share of the time waits for what is short more than it works.
const STALLED: f64 = 0.5;

/// The tier and resource that was used up where limits were exceeded, with the evidence; `None` where none was exceeded or nothing is
/// known. `cpus` are those of this machine that tiers without CPUs of their own share with each other and the generator.
pub(crate) fn explained(row: &ApplicationRow, cpus: usize) -> Option<String> {
    let seen = Seen::of(row)?;
    own_cpus(row, &seen).or_else(|| this_machine(row, &seen, cpus))
}

/// A tier that used up the CPUs that it has for itself.
fn own_cpus(row: &ApplicationRow, seen: &Seen) -> Option<String> {
    let own = |tier: &str| row.tiers.get(tier).map_or(0, TierRow::own_cpus);
    let share = |(tier, used): &(&String, &f64)| **used / own(tier).max(1) as f64;
    let bound = seen.used.iter().filter(|(tier, _)| own(tier) > 0);
    let (tier, used) = bound.max_by(|left, right| share(left).total_cmp(&share(right)))?;
    (share(&(tier, used)) >= SATURATED).then(|| {
        format!(
            "CPU of the {tier} tier saturated: {used:.2} of its {} CPUs used where limits were exceeded{}",
            own(tier),
            seen.queue(tier)
        )
    })
}

/// What the tiers that share this machine's CPUs used of them, and waited for.
fn this_machine(row: &ApplicationRow, seen: &Seen, cpus: usize) -> Option<String> {
    let here: Vec<(&String, &f64)> = seen.used.iter().filter(|(tier, _)| is_here(row, tier)).collect();
    let shared = |tier: &str| row.tiers.get(tier).is_none_or(|plan| plan.cpus.is_empty());
    let (most, _) = here.iter().filter(|(tier, _)| shared(tier)).max_by(|left, right| left.1.total_cmp(right.1))?;
    let all = here.iter().map(|(_, used)| **used).sum::<f64>() + seen.generator;
    let parts: Vec<String> = here.iter().map(|(tier, used)| format!("{tier} {used:.2}")).collect();
    let parts = format!("{}, generator {:.2}", parts.join(", "), seen.generator);
    let used = format!("{all:.2} of {cpus} CPUs used where limits were exceeded ({parts})");
    if all >= SATURATED * cpus as f64 {
        return Some(format!("CPU of this machine saturated, mostly by the {most} tier: {used}{}", seen.queue(most)));
    }
    let longest = seen.waiting.iter().max_by(|left, right| left.1.total_cmp(right.1));
    if let Some((tier, _)) = longest.filter(|(_, waiting)| **waiting >= QUEUED) {
        return Some(format!(
            "The {tier} tier waited for CPUs, which other programs used or a quota withheld: {used}{}",
            seen.queue(tier)
        ));
    }
    let most = |stalled: &BTreeMap<String, f64>| {
        let most =
            stalled.iter().max_by(|left, right| left.1.total_cmp(right.1)).filter(|(_, share)| **share >= STALLED);
        most.map(|(tier, share)| (tier.clone(), 100.0 * share))
    };
    for (stalled, what) in [(&seen.memory_stall, "memory"), (&seen.io_stall, "I/O")] {
        if let Some((tier, percent)) = most(stalled) {
            return Some(format!("The {tier} tier stalled on {what} for {percent:.0} % of the time (PSI): {used}"));
        }
    }
    let disk = seen.disk.iter().max_by(|left, right| left.1.total_cmp(right.1)).filter(|(_, bytes)| **bytes > 0.0);
    let disk = disk
        .map_or_else(String::new, |(tier, bytes)| format!("; most disk traffic: {tier} tier, {:.1} MB/s", bytes / 1e6));
    Some(format!("CPU time of tiers does not explain the limit: {used}{disk}; look for disk, locks or the network"))
}

/// Whether a tier shares this machine's CPUs.
fn is_here(row: &ApplicationRow, tier: &str) -> bool {
    row.tiers.get(tier).is_some_and(TierRow::is_here)
}

/// What tiers used and waited for where limits were exceeded: the mean of such windows of the search, or the load.
#[derive(Default)]
struct Seen {
    /// CPUs used, by tier.
    used: BTreeMap<String, f64>,
    /// Threads that waited for a CPU on average, by tier.
    waiting: BTreeMap<String, f64>,
    /// Bytes read from and written to disks per second, by tier.
    disk: BTreeMap<String, f64>,
    /// Shares of the time in which threads stalled for lack of memory, by tier.
    memory_stall: BTreeMap<String, f64>,
    /// And for I/O.
    io_stall: BTreeMap<String, f64>,
    /// CPUs of this machine that the generator used.
    generator: f64,
}

impl Seen {
    fn of(row: &ApplicationRow) -> Option<Seen> {
        let windows = row.search.iter().flat_map(|search| &search.trials).flat_map(|trial| &trial.windows);
        let failed: Vec<_> = windows.filter(|window| window.said == Said::Fail).map(|window| &window.reading).collect();
        if failed.is_empty() {
            let load = row.load.as_ref().filter(|load| !load.broken.is_empty())?;
            let mut seen = Seen { generator: load.generator_cpus_used_here(), ..Seen::default() };
            load.cpus_used.iter().chain(&load.waits).for_each(|(key, value)| seen.add(key, *value));
            return Some(seen);
        }
        let count = failed.len() as f64;
        let generator = failed.iter().filter_map(|reading| reading.generator_cpus).sum::<f64>() / count;
        let mut seen = Seen { generator, ..Seen::default() };
        let all = failed.iter().flat_map(|reading| &reading.utilization);
        all.for_each(|(key, value)| seen.add(key, value / count));
        Some(seen)
    }

    fn add(&mut self, key: &str, value: f64) {
        for (end, all) in [
            (CPUS, &mut self.used),
            (WAITING, &mut self.waiting),
            (DISK, &mut self.disk),
            (MEMORY_STALL, &mut self.memory_stall),
            (IO_STALL, &mut self.io_stall),
        ] {
            if let Some(tier) = key.strip_suffix(end) {
                *all.entry(tier.to_owned()).or_default() += value;
            }
        }
    }

    /// How many threads of a tier waited for a CPU, in words; nothing where that is not known.
    fn queue(&self, tier: &str) -> String {
        let waiting = self.waiting.get(tier);
        waiting.map_or_else(String::new, |waiting| format!("; {waiting:.2} of its threads waited for a CPU on average"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
                generator_cpus: Some(0.2),
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
            at_answer: None,
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
        let mut two = row(&[(Said::Fail, 0.95, 0.5)], &[1]);
        two.tiers.get_mut("app").expect("a tier").count = 2;
        let said = explained(&two, 4).unwrap_or_default();
        assert!(said.starts_with("CPU of the app tier saturated: 0.95 of its 1 CPUs"), "two share the CPU: {said}");
    }

    #[test]
    fn all_threads_of_the_generator_count_and_none_of_another_machine() {
        let with = |cpus: f64| {
            let mut row = row(&[(Said::Fail, 0.4, 0.3)], &[]);
            row.search.as_mut().expect("a search").trials[0].windows[0].reading.generator_cpus = Some(cpus);
            explained(&row, 4).unwrap_or_default()
        };
        let busy = with(3.0);
        assert!(
            busy.starts_with("CPU of this machine saturated, mostly by the app tier: 3.70 of 4 CPUs used"),
            "{busy}"
        );
        assert!(busy.ends_with("(app 0.40, database 0.30, generator 3.00)"), "{busy}");
        // All of it is elsewhere.
        let elsewhere = with(0.0);
        assert!(
            elsewhere.starts_with("CPU time of tiers does not explain the limit: 0.70 of 4 CPUs used"),
            "{elsewhere}"
        );
    }

    /// What tiers waited for names the resource where their own CPU time does not.
    #[test]
    fn waits_are_evidence_of_what_others_used_up() {
        let with = |waits: &[(&str, f64)]| {
            let mut row = row(&[(Said::Fail, 0.4, 0.3)], &[]);
            let windows = &mut row.search.as_mut().expect("a search").trials[0].windows;
            windows[0].reading.utilization.extend(waits.iter().map(|(key, value)| ((*key).to_owned(), *value)));
            explained(&row, 4).unwrap_or_default()
        };
        let waited = with(&[("app.waiting", 2.5), ("database.waiting", 0.1)]);
        assert_eq!(
            waited,
            "The app tier waited for CPUs, which other programs used or a quota withheld: 0.90 of 4 CPUs used where limits were exceeded (app 0.40, database 0.30, \
             generator 0.20); 2.50 of its threads waited for a CPU on average"
        );
        let disk = with(&[("app.waiting", 0.0), ("app.disk", 0.0), ("database.disk", 12_340_000.0)]);
        assert!(disk.contains("; most disk traffic: database tier, 12.3 MB/s; look for disk"), "{disk}");
        let stalled = with(&[("database.io_stall", 0.71), ("app.io_stall", 0.2), ("app.memory_stall", 0.1)]);
        assert!(
            stalled.starts_with("The database tier stalled on I/O for 71 % of the time (PSI): 0.90 of 4 CPUs used"),
            "{stalled}"
        );
        let short = with(&[("app.io_stall", 0.6), ("app.memory_stall", 0.8)]);
        assert!(short.starts_with("The app tier stalled on memory for 80 % of the time"), "memory causes I/O: {short}");
    }
}
