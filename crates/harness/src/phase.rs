//! A phase of the auction: users come to every application, stay or are searched for, and what became of it is gathered.

use crate::budget::Budget;
use crate::cluster::{Cluster, ClusterError, Told};
use crate::document::{ApplicationRow, Document, InstanceRow, Invariants, TierRow, Users};
use crate::fixed_load;
use crate::instances;
use crate::phase_context::{Ground, Measured, RunError};
use crate::saturation;
use crate::search::search;
use crate::topology::{Application, Demand, On};
use crate::under_load::Loaded;
use crate::users;
use crate::verify::{self, verify};
use baremark_model::maximum::{Basis, Ended};
use baremark_services::card::Tier;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Measured {
    fn of(clusters: &[Cluster]) -> Measured {
        let rows: Vec<ApplicationRow> = clusters.iter().map(|cluster| described(cluster.plan())).collect();
        let parts = rows.iter().map(|_| None).collect();
        Measured { rows, parts, remarks: Vec::new() }
    }
}

/// What comes after the users have gone takes about so long, and a share of what the start took: the data is counted again.
const CLOSING_S: f64 = 3.0;
const CLOSING_SHARE: f64 = 0.3;

/// The time that checking the data takes, where starting the tiers took `start`.
pub(crate) fn closing_s(start: Duration) -> f64 {
    CLOSING_S + CLOSING_SHARE * start.as_secs_f64()
}

/// Keeps the users of all applications at the same time, and measures one after the other.
pub(crate) fn keep(
    clusters: &mut [Cluster],
    (demands, seed): (&[Demand], u64),
    ground: &mut Ground<'_>,
) -> Result<Measured, RunError> {
    let mut measured = Measured::of(clusters);
    let users = |demand: &Demand| demand.users.unwrap_or(1);
    let mut all = Vec::new();
    for (at, (cluster, demand)) in clusters.iter_mut().zip(demands).enumerate() {
        all.push(fixed_load::loaded(cluster, demand, users(demand), seed.wrapping_add(1000 * at as u64), ground)?);
    }
    if all.len() > 1 {
        for (loaded, demand) in all.iter_mut().zip(demands) {
            loaded.users(users(demand) as f64).map_err(RunError::Load)?;
        }
    }
    for (at, (loaded, demand)) in all.iter_mut().zip(demands).enumerate() {
        let (row, part) = fixed_load::window(loaded, demand, users(demand), ground)?;
        (measured.rows[at].load, measured.parts[at]) = (Some(row), Some(part));
    }
    Ok(measured)
}

/// Finds the most users of each application, and verifies that they keep every limit.
pub(crate) fn find(
    clusters: &mut [Cluster],
    (demands, seed): (&[Demand], u64),
    (budget, closing_s): (&Budget, f64),
    ground: &mut Ground<'_>,
) -> Result<Measured, RunError> {
    let mut measured = Measured::of(clusters);
    let mut all: Vec<Loaded<'_>> = clusters
        .iter_mut()
        .zip(demands)
        .enumerate()
        .map(|(at, (cluster, demand))| {
            let highest = Loaded::searchable(cluster, demand);
            let seed = seed.wrapping_add(1000 * at as u64);
            Loaded::new(cluster, demand, highest, seed, Arc::clone(&ground.interrupt))
        })
        .collect();
    let verifying_s: f64 = demands.iter().map(verify::takes_s).sum();
    let last_window_s = users::patience().seconds() + demands[0].search.settle_s;
    let deadline = budget.before_end(closing_s + verifying_s + last_window_s);
    let Measured { rows, remarks, .. } = &mut measured;
    match &mut all[..] {
        [only] => {
            rows[0].search =
                Some(search(only, (0, &rows[0].name), demands[0].search.lowest, deadline, ground, remarks)?);
        }
        several => instances::find(several, deadline, ground, rows, remarks)?,
    }
    if rows.iter().any(|row| row.search.as_ref().is_some_and(|search| search.ended == Ended::TimeOver)) {
        remarks.push(format!(
            "the time budget of {:.0} s ended the search before its last step: more users may be possible; raise load.budget",
            budget.seconds().unwrap_or(0.0)
        ));
    }
    for loaded in &mut all {
        loaded.begin().map_err(RunError::Load)?;
    }
    verify(&mut all, (budget, closing_s), ground, &mut measured)?;
    Ok(measured)
}

/// Adds what instances report and what the check of the data says; why the phase does not count, if it does not.
///
/// # Errors
/// When the data could not be checked.
pub(crate) fn close(clusters: &mut [Cluster], measured: &mut Measured) -> Result<Option<String>, ClusterError> {
    let cpus = baremark_sys::affinity::allowed_cpus().map_or(0, |cpus| cpus.len());
    for (cluster, row) in clusters.iter_mut().zip(&mut measured.rows) {
        row.saturated = saturation::explained(row, cpus);
        row.instances = cluster.collect().into_iter().map(instance).collect();
        let checked = cluster.check_invariants()?;
        row.invariants = Some(Invariants { held: checked.valid, report: checked.report.clone() });
        if !checked.valid {
            return Ok(Some(format!("{}: the data is inconsistent after the load: {}", row.name, checked.report)));
        }
    }
    measured.remarks.extend(remarks(&measured.rows));
    Ok(None)
}

/// What the places of tiers mean for their figures.
fn remarks(rows: &[ApplicationRow]) -> Vec<String> {
    let mut remarks = Vec::new();
    if rows.iter().flat_map(|row| &row.instances).any(|instance| instance.emulated) {
        remarks.push("a tier ran on an emulated processor: its figures measure nothing".to_owned());
    }
    if rows.iter().filter_map(|row| row.load.as_ref()).any(|load| load.sites.len() > 1) {
        remarks
            .push("users came from several sites: propagation delays are those between users of one site".to_owned());
    }
    for plan in rows.iter().filter_map(|row| row.tiers.get(Tier::Database.label())) {
        if plan.on.starts_with("external:") {
            remarks.push(format!("the CPU time of the database is not known: its server is {}", plan.on));
        }
    }
    let in_guest = |row: &ApplicationRow| {
        row.tiers.get(Tier::Database.label()).is_some_and(|plan| plan.on == On::Qemu.to_string())
    };
    if rows.iter().any(in_guest) {
        remarks.push(
            "the database kept its files in its guest's memory: flushing them cost no disk, whatever its durability settings"
                .to_owned(),
        );
    }
    remarks
}

/// The detail of a phase.
pub(crate) fn document(measured: &Measured, begun: Instant, budget_s: Option<f64>) -> Document {
    Document {
        remarks: measured.remarks.clone(),
        users: total(&measured.rows),
        applications: measured.rows.clone(),
        elapsed_s: begun.elapsed().as_secs_f64(),
        budget_s,
    }
}

/// The users that were verified to keep every limit, of all applications together.
///
/// # Errors
/// Why there are none: no level was verified, or what would have to be known for it is missing.
pub(crate) fn verified(document: &Document) -> Result<f64, Unverified> {
    let rows = &document.applications;
    match round(rows) {
        Some(round) => Ok(rows.iter().map(|row| row.attempts[round].users).sum()),
        None => Err(rows
            .iter()
            .map(unverified)
            .max_by_key(|why| matches!(why, Unverified::Refuted(_)))
            .unwrap_or_else(|| Unverified::Unknown("no application ran".to_owned()))),
    }
}

/// The first attempt in which the users of all applications, all there at once, kept every limit.
fn round(rows: &[ApplicationRow]) -> Option<usize> {
    let most = rows.iter().map(|row| row.attempts.len()).min()?;
    (0..most).find(|&round| rows.iter().all(|row| row.attempts[round].kept))
}

/// Why a search has no number of users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unverified {
    /// Every level that was verified exceeded a limit.
    #[error("no level verified: {0}")]
    Refuted(String),
    /// Not enough is known.
    #[error("undecided: {0}")]
    Unknown(String),
}

/// Why an application has no verified users.
fn unverified(row: &ApplicationRow) -> Unverified {
    let search = row.search.as_ref();
    let refuted = !row.attempts.is_empty() && row.attempts.iter().all(|attempt| !attempt.kept);
    if refuted {
        let tried: Vec<String> = row.attempts.iter().map(|attempt| format!("{:.0}", attempt.users)).collect();
        let found = search.and_then(|search| search.maximum);
        let found = found.map_or_else(String::new, |found| format!("; the search had found {:.0}", found.level));
        return Unverified::Refuted(format!(
            "{} users exceeded limits when they stayed for longer{found}",
            tried.join(", ")
        ));
    }
    match search.map(|search| search.ended) {
        Some(Ended::FailsAll) => {
            let lowest = search.map_or(0.0, |search| search.plan.lowest);
            Unverified::Refuted(format!("even {lowest:.0} users exceed a limit; lower load.lowest to search below"))
        }
        Some(Ended::Insufficient) => Unverified::Unknown(
            "windows have too few samples for the limits; raise load.window or load.windows".to_owned(),
        ),
        Some(Ended::Broken) => Unverified::Unknown("the search was broken off".to_owned()),
        _ => Unverified::Unknown("no time was left to verify a level; raise load.budget".to_owned()),
    }
}

pub(crate) fn instance(told: Told) -> InstanceRow {
    let (statistics, silent) = match told.statistics {
        Ok(statistics) => (statistics, None),
        Err(why) => (BTreeMap::new(), Some(why)),
    };
    InstanceRow {
        name: told.name,
        service: told.service.to_owned(),
        cpu_s: told.usage.cpu_ns as f64 / 1e9,
        resident_bytes: told.usage.resident_bytes,
        processes: told.usage.processes,
        memory_limit: told.memory_limit.to_owned(),
        on: told.on,
        emulated: told.emulated,
        statistics,
        silent,
        log: told.log,
    }
}

pub(crate) fn described(plan: &Application) -> ApplicationRow {
    let tiers = plan.tiers.iter().map(|(tier, plan)| {
        let row = TierRow {
            service: plan.service.kind().to_owned(),
            count: plan.count,
            on: plan.on.to_string(),
            settings: plan.settings.iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect(),
            extra: plan.settings.extra.clone(),
            cpus: plan.limits.cpus.clone(),
            memory_bytes: plan.limits.memory_bytes,
        };
        (tier.label().to_owned(), row)
    });
    ApplicationRow {
        name: plan.name.clone(),
        tiers: tiers.collect(),
        database: plan.database.clone(),
        bus: plan.bus.clone(),
        tls: plan.tls,
        max_users: plan.max_users,
        cycle_s: plan.load.cycle_s,
        search: None,
        attempts: Vec::new(),
        load: None,
        invariants: None,
        saturated: None,
        instances: Vec::new(),
    }
}

/// The sum of the maxima; the ends of the intervals are summed, which is on the safe side.
fn total(rows: &[ApplicationRow]) -> Option<Users> {
    let round = round(rows);
    let parts: Option<Vec<Users>> = rows.iter().map(|row| most(row, round)).collect();
    let parts = parts.filter(|list| !list.is_empty())?;
    let sum = |of: fn(&Users) -> Option<f64>| parts.iter().map(of).sum::<Option<f64>>();
    let basis =
        [BRACKET, WITHIN].into_iter().find(|basis| parts.iter().any(|one| one.basis == *basis)).unwrap_or(FRESH);
    Some(Users {
        most: parts.iter().map(|one| one.most).sum(),
        verified: parts.iter().all(|one| one.verified),
        low: sum(|one| one.low),
        high: sum(|one| one.high),
        confidence: parts[0].confidence,
        basis: basis.to_owned(),
    })
}

const FRESH: &str = "fresh-trials";
const WITHIN: &str = "within-run";
const BRACKET: &str = "bracket";

/// The most users of one application: those that were seen to keep every limit, within what the search and the attempts say.
/// `None` where every attempt broke one: what the search found has been refuted.
fn most(row: &ApplicationRow, round: Option<usize>) -> Option<Users> {
    let found = row.search.as_ref()?.maximum?;
    if row.no_level_verified() {
        return None;
    }
    let basis = match found.basis {
        Basis::FreshTrials => FRESH,
        Basis::WithinRun => WITHIN,
        Basis::Bracket => BRACKET,
    };
    let kept = round.and_then(|round| row.attempts.get(round)).map(|attempt| attempt.users);
    let broke = row.attempts.iter().filter(|attempt| !attempt.kept).map(|attempt| attempt.users).reduce(f64::min);
    let most = kept.unwrap_or(found.level);
    // What was seen to be kept, or to break, lies within or bounds.
    let low = found.low.map(|low| low.min(most).max(0.0));
    let high = broke.or(found.high).map(|high| high.max(most));
    Some(Users { most, verified: kept.is_some(), low, high, confidence: found.confidence, basis: basis.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Attempt;
    use baremark_model::maximum::{self, Maximum, Plan};
    use baremark_model::qos::Qos;

    fn row(low: Option<f64>, high: Option<f64>, attempts: &[(f64, bool)]) -> ApplicationRow {
        let maximum =
            Maximum { level: 1000.0, low, high, confidence: 0.95, basis: Basis::WithinRun, isotonic_level: None };
        let search = maximum::Document {
            format: maximum::FORMAT.to_owned(),
            title: String::new(),
            factor: "users".to_owned(),
            qos: Qos::default(),
            plan: Plan::between(1.0, 2000.0),
            ended: Ended::Found,
            maximum: Some(maximum),
            shown_level: None,
            at_answer: None,
            limited_by: Vec::new(),
            generator_was_the_limit: false,
            hysteresis: None,
            knee: Vec::new(),
            trials: Vec::new(),
        };
        let attempt =
            |(users, kept): &(f64, bool)| Attempt { users: *users, elapsed_s: 10.0, kept: *kept, broken: Vec::new() };
        ApplicationRow {
            name: "main".to_owned(),
            tiers: BTreeMap::new(),
            database: String::new(),
            bus: String::new(),
            tls: false,
            max_users: 2000,
            cycle_s: 1.0,
            search: Some(search),
            attempts: attempts.iter().map(attempt).collect(),
            load: None,
            invariants: None,
            saturated: None,
            instances: Vec::new(),
        }
    }

    #[test]
    fn the_verified_users_lie_within_their_interval() {
        let ends = |one: &ApplicationRow| {
            most(one, round(std::slice::from_ref(one))).map(|users| (users.most, users.low, users.high, users.verified))
        };
        let (low, high) = (Some(970.0), Some(1030.0));
        let first = row(low, high, &[(950.0, true)]);
        assert_eq!(ends(&first), Some((950.0, Some(950.0), high, true)), "the interval takes in what was seen");
        let second = row(low, high, &[(950.0, false), (850.0, true)]);
        assert_eq!(ends(&second), Some((850.0, Some(850.0), Some(950.0), true)), "what broke bounds it from above");
        let unseen = row(low, high, &[]);
        assert_eq!(ends(&unseen), Some((1000.0, low, high, false)));
        let none = row(low, high, &[(950.0, false), (850.0, false), (700.0, false)]);
        assert_eq!((ends(&none), none.no_level_verified()), (None, true), "what was found has been refuted");
        assert!(total(&[first, none]).is_none(), "nor is there a sum");
        assert!(!unseen.no_level_verified() && !second.no_level_verified());
    }

    fn document(applications: Vec<ApplicationRow>) -> Document {
        let users = total(&applications);
        Document { remarks: Vec::new(), users, applications, elapsed_s: 1.0, budget_s: None }
    }

    fn ended(mut row: ApplicationRow, how: Ended) -> ApplicationRow {
        let search = row.search.as_mut().expect("a search");
        (search.ended, search.maximum) = (how, None);
        row
    }

    /// "At most 510 users keep the limits" was printed next to "verified at 510 users: 16 limits broken".
    #[test]
    fn a_refuted_search_has_no_number_of_users() {
        let refuted = document(vec![row(Some(970.0), Some(1030.0), &[(950.0, false), (850.0, false), (700.0, false)])]);
        let why = verified(&refuted).expect_err("every level exceeded a limit");
        assert_eq!(
            why.to_string(),
            "no level verified: 950, 850, 700 users exceeded limits when they stayed for longer; the search had found 1000"
        );
        assert!(refuted.users.is_none());
        let passes = document(vec![ended(row(None, None, &[(1900.0, false)]), Ended::PassesAll)]);
        let why = verified(&passes).expect_err("the only level exceeded a limit").to_string();
        assert_eq!(why, "no level verified: 1900 users exceeded limits when they stayed for longer");
        let fails = document(vec![ended(row(None, None, &[]), Ended::FailsAll)]);
        assert!(matches!(verified(&fails), Err(Unverified::Refuted(_))));
        let kept = document(vec![row(Some(970.0), Some(1030.0), &[(950.0, false), (850.0, true)])]);
        assert_eq!(verified(&kept), Ok(850.0));
    }

    /// What a search found without verifying it is no result, and neither is it refuted.
    #[test]
    fn an_unverified_search_is_undecided() {
        for (how, remedy) in [(Ended::TimeOver, "raise load.budget"), (Ended::Insufficient, "raise load.window")] {
            let why = verified(&document(vec![ended(row(None, None, &[]), how)])).expect_err("nothing was verified");
            assert!(matches!(&why, Unverified::Unknown(said) if said.contains(remedy)), "{why}");
        }
        let both = [row(None, None, &[(950.0, true)]), row(None, None, &[(700.0, true)])];
        assert_eq!(verified(&document(both.into())), Ok(1650.0));
        let one = [row(None, None, &[(950.0, true)]), row(None, None, &[(700.0, false)])];
        assert!(verified(&document(one.into())).is_err());
    }

    #[test]
    fn several_are_summed_with_the_weakest_of_their_words() {
        let mut other = row(Some(970.0), Some(1030.0), &[(950.0, true)]);
        if let Some(maximum) = other.search.as_mut().and_then(|search| search.maximum.as_mut()) {
            maximum.basis = Basis::Bracket;
        }
        let both = [row(Some(970.0), Some(1030.0), &[]), other];
        let users = total(&both).expect("a sum");
        assert_eq!((users.most, users.low, users.high), (2000.0, Some(1940.0), Some(2060.0)));
        assert_eq!((users.verified, users.basis.as_str()), (false, BRACKET));
    }
}
