//! What an application under load reports alongside its metrics: operations against their limits, the levels of a search, changes
//! of the number of servers, and each instance.

mod read;
mod seconds;

use crate::axis::Figure;
use crate::grid::{Cell, Grid, GridRow};
use crate::number::{fixed, percent, rounded};
use crate::section::Group;
use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::document::{DetailRow, Document};
use baremark_model::units::Nanos;
use read::{AppLoad, Application, Elasticity, Phase, SearchOfUsers, SearchedLevel, UserAttempt};

/// How the formats begin that are shown here.
const FORMAT: &str = "baremark-auction/";
/// Loads that are drawn second by second.
const MOST_DRAWN: usize = 8;
/// More limits than these are counted only.
const MOST_LIMITS: usize = 4;

/// The applications of a document, by treatment.
pub(crate) fn groups(document: &Document) -> Vec<Group> {
    let factors = Factors::of(&document.run);
    phases(document).flat_map(|(detail, phase)| of_phase(&factors.name(&detail.treatment), detail, &phase)).collect()
}

/// What searches for the most users found, and which resource was used up, a sentence for each application.
pub(crate) fn found(document: &Document) -> Vec<String> {
    let factors = Factors::of(&document.run);
    let of_row = |name: &str, row: &Application, phase: &Phase| {
        let found = searched(row, phase)?;
        let why = row.saturated.as_ref().map(|why| format!(" {}.", clean(why))).unwrap_or_default();
        Some(format!("{name}: {found}{why}"))
    };
    let of_detail = |(detail, phase): (&DetailRow, Phase)| -> Vec<String> {
        let name = factors.name(&detail.treatment);
        phase.applications.iter().filter_map(|row| of_row(&name, row, &phase)).collect()
    };
    phases(document).flat_map(of_detail).collect()
}

/// The loads of a document second by second, by treatment.
pub(crate) fn figures(document: &Document) -> Vec<Figure> {
    let factors = Factors::of(&document.run);
    let of_detail = |(detail, phase): (&DetailRow, Phase)| -> Vec<(String, AppLoad)> {
        let several = phase.applications.len() > 1;
        let own = |row: Application| {
            let own = if several { format!(" {}", clean(&row.name)) } else { String::new() };
            Some((format!("{}{own}", factors.name(&detail.treatment)), row.load?))
        };
        phase.applications.into_iter().filter_map(own).collect()
    };
    let loads: Vec<(String, AppLoad)> = phases(document).flat_map(of_detail).collect();
    loads
        .iter()
        .take(MOST_DRAWN)
        .zip(1..)
        .filter_map(|((name, load), number)| seconds::draw(name, load, number))
        .collect()
}

/// The details that are shown here. What is of another form is left out.
fn phases(document: &Document) -> impl Iterator<Item = (&DetailRow, Phase)> {
    let shown = document.details.iter().filter(|detail| detail.format.starts_with(FORMAT));
    shown.filter_map(|detail| Some((detail, Phase::of(&detail.document)?)))
}

fn of_phase(name: &str, detail: &DetailRow, phase: &Phase) -> Vec<Group> {
    let several = phase.applications.len() > 1;
    let of = |row: &Application| {
        let own = if several { format!(" {}", clean(&row.name)) } else { String::new() };
        Group {
            head: format!("Application{own}: {name}, block {}", detail.block + 1),
            lines: lines(row, phase),
            grids: grids(row),
        }
    };
    phase.applications.iter().map(of).collect()
}

fn lines(row: &Application, phase: &Phase) -> Vec<String> {
    let mut lines = vec![tiers(row)];
    lines.extend(searched(row, phase).map(|found| format!("Search: {found}")));
    lines.extend(row.attempts.iter().map(attempt));
    if let Some(load) = &row.load {
        lines.push(loaded(load, row));
        lines.extend(sites(load));
        lines.extend(load.elasticity.as_ref().map(elasticity).unwrap_or_default());
    }
    lines.extend(row.saturated.as_ref().map(|why| format!("{}.", clean(why))));
    lines.extend(row.invariants.as_ref().map(|invariants| match invariants.held {
        true => "Data after the load: no bid lost, nothing sold twice, the money adds up.".to_owned(),
        false => "Data after the load: INCONSISTENT.".to_owned(),
    }));
    lines
}

/// "1 auction app on native; database sqlite, bus process; data for 300 users; a user starts an operation every 0.5 s."
fn tiers(row: &Application) -> String {
    let one = |(tier, plan): (&String, &read::AppTier)| {
        format!("{} {} {tier} on {}", plan.count, clean(&plan.service), clean(&plan.on))
    };
    let tiers: Vec<String> = row.tiers.iter().map(one).collect();
    let tls = if row.tls { "; TLS 1.3" } else { "" };
    format!(
        "Tiers: {}{tls}; database {}, bus {}; data for {} users; one operation per user every {} s.",
        tiers.join(", "),
        clean(&row.database),
        clean(&row.bus),
        number(row.max_users),
        number(row.cycle_s)
    )
}

/// What a search found of all applications together.
fn searched(row: &Application, phase: &Phase) -> Option<String> {
    let search = row.search.as_ref()?;
    let of = |one: &read::LimitedBy| format!("{} ({})", clean(&one.what), share(one.share));
    let limits: Vec<String> = search.limited_by.iter().take(MOST_LIMITS).map(of).collect();
    let limited = match limits.is_empty() {
        true => String::new(),
        false => format!(" Limited by (share of the windows that failed): {}.", limits.join(", ")),
    };
    let Some(users) = phase.users.as_ref().filter(|users| users.verified) else {
        return Some(format!("no number of users was verified to meet every limit.{limited}"));
    };
    let interval = users.low.zip(users.high).map(|(low, high)| {
        let basis = match users.basis.as_str() {
            "bracket" => "from what met the limits to what exceeded them".to_owned(),
            _ => format!("{} interval within this search", share(users.confidence)),
        };
        format!(" ({} to {}, {basis})", fixed(low, 0), fixed(high, 0))
    });
    let most = number(users.most);
    Some(format!("{most} users meet every limit{}.{limited}", interval.unwrap_or_default()))
}

fn attempt(attempt: &UserAttempt) -> String {
    let said = match attempt.kept {
        true => "every limit met".to_owned(),
        false => format!("exceeded: {}", limits(&attempt.broken)),
    };
    format!("Verified with {} users for {} s: {said}.", number(attempt.users), number(attempt.elapsed_s))
}

fn limits(broken: &[String]) -> String {
    let mut shown: Vec<String> = broken.iter().take(MOST_LIMITS).map(|limit| clean(limit)).collect();
    if broken.len() > MOST_LIMITS {
        shown.push(format!("{} more", broken.len() - MOST_LIMITS));
    }
    shown.join("; ")
}

/// "40 users for 6 s: 93 operations/s, every limit met."
fn loaded(load: &AppLoad, row: &Application) -> String {
    let said = match load.broken.is_empty() {
        true => "every limit met".to_owned(),
        false => format!("exceeded: {}", limits(&load.broken)),
    };
    let delay = load.propagation.as_ref();
    let of = |ns: Option<u64>, name: &str| ns.map(|ns| format!("{} ({name})", time(Some(ns))));
    let delays = [of(delay.and_then(|of| of.p50_ns), "p50"), of(delay.and_then(|of| of.p99_ns), "p99")];
    let delays: Vec<String> = delays.into_iter().flatten().collect();
    let seen = match delays.is_empty() {
        true => String::new(),
        false => format!(" Attendees saw bids after {}.", delays.join(", ")),
    };
    let used = |(key, used): (&String, &Option<f64>)| {
        let tier = key.trim_end_matches(".cpus");
        let several = row.tiers.get(tier).map(|tier| tier.count).filter(|count| *count > 1);
        let over = several.map_or_else(String::new, |count| format!(" (sum of {count})"));
        format!("{tier} {}{over}", number(*used))
    };
    let used: Vec<String> = load.cpus_used.iter().map(used).collect();
    let waiting = |(key, threads): (&String, &Option<f64>)| {
        key.strip_suffix(".waiting").map(|tier| format!("{tier} {}", number(*threads)))
    };
    let waiting: Vec<String> = load.waits.iter().filter_map(waiting).collect();
    let waited = match waiting.is_empty() {
        true => String::new(),
        false => format!(" Threads waiting for a CPU: {}.", waiting.join(", ")),
    };
    format!(
        "{} users for {} s: {} operations/s, {said}.{seen} CPUs used: {}, generator {}.{waited}",
        number(load.users),
        number(load.elapsed_s),
        number(load.operations_per_s),
        used.join(", "),
        number(load.generator_cpus_used),
    )
}

/// "Users from 2 sites: 1 (native) 120 operations, 0 failed, send lag p99 1.20 ms; ..."
fn sites(load: &AppLoad) -> Option<String> {
    let one = |site: &read::LoadSite| {
        let lag = site.generator.send_lag.as_ref().and_then(|lag| lag.p99_ns);
        let lag = lag.map_or_else(String::new, |ns| format!(", send lag p99 {}", time(Some(ns))));
        format!("{} {} operations, {} failed{lag}", clean(&site.name), site.succeeded, site.failed)
    };
    let said: Vec<String> = load.sites.iter().map(one).collect();
    (!said.is_empty()).then(|| format!("Users from {} sites: {}.", said.len(), said.join("; ")))
}

fn elasticity(elastic: &Elasticity) -> Vec<String> {
    let mut lines = vec![format!(
        "Elasticity: {} changes of the number of servers, {} operations failed.",
        elastic.adaptations.len(),
        elastic.failed_operations
    )];
    let of_tier = |(tier, of): (&String, &read::SupplyFit)| {
        format!(
            "{tier}: {} servers too few on average ({} of the time), {} too many ({}), jitter {}/min.",
            number(of.accuracy_under),
            share(of.timeshare_under),
            number(of.accuracy_over),
            share(of.timeshare_over),
            number(of.jitter_per_min)
        )
    };
    lines.extend(elastic.metrics.iter().map(of_tier));
    lines
}

fn grids(row: &Application) -> Vec<Grid> {
    let load = row.load.as_ref();
    let changes = load.and_then(|load| load.elasticity.as_ref()).and_then(changes);
    let all = [load.and_then(operations), row.search.as_ref().and_then(levels), changes, instances(row)];
    all.into_iter().flatten().collect()
}

fn operations(load: &AppLoad) -> Option<Grid> {
    let row = |row: &read::AppOperation| {
        let summary = row.corrected.as_ref().or(row.raw.as_ref());
        let at = |of: fn(&read::Percentiles) -> Option<u64>| time(summary.and_then(of));
        let cells = vec![
            row.succeeded.to_string(),
            row.failed.to_string(),
            at(|of| of.p50_ns),
            at(|of| of.p95_ns),
            at(|of| of.p99_ns),
            time(row.limit_ns),
        ];
        (clean(&row.name), cells)
    };
    let columns = ["done", "failed", "p50", "p95", "p99", "limit"];
    let tried = load.operations.iter().filter(|row| row.succeeded + row.failed > 0);
    table("Operations: latency from the intended start", &columns, tried.map(row).collect())
}

/// Levels that a search measured: all windows of one level together.
fn levels(search: &SearchOfUsers) -> Option<Grid> {
    let row = |row: &SearchedLevel| {
        let cells = vec![
            row.windows.to_string(),
            verdict(search, row),
            number(row.achieved_per_s),
            row.failed_share.map_or_else(String::new, percent),
            time(row.p50_ns),
            time(row.p99_ns),
        ];
        (format!("{} users", number(Some(row.level))), cells)
    };
    let columns = ["windows", "limits", "operations/s", "failed", "p50", "p99"];
    table("Levels that the search measured", &columns, search.knee.iter().map(row).collect())
}

/// What all windows of a level say together, or where they are too few for that, how many of them met every limit.
fn verdict(search: &SearchOfUsers, row: &SearchedLevel) -> String {
    match row.verdict.as_str() {
        "pass" => return "met".to_owned(),
        "fail" => return "exceeded".to_owned(),
        _ => {}
    }
    let level = row.level.max(1.0);
    let windows = search.trials.iter().flat_map(|trial| &trial.windows);
    let here: Vec<&str> = windows
        .filter(|window| (window.level / level - 1.0).abs() <= search.plan.finest)
        .map(|window| window.said.as_str())
        .filter(|said| !said.is_empty() && *said != "insufficient")
        .collect();
    if here.is_empty() {
        return "too few samples".to_owned();
    }
    format!("met in {} of {}", here.iter().filter(|said| **said == "pass").count(), here.len())
}

fn changes(elastic: &Elasticity) -> Option<Grid> {
    let row = |change: &read::ServerChange| {
        let cells = vec![clean(&change.tier), change.from.to_string(), change.to.to_string(), number(change.took_s)];
        (format!("at {} s", number(change.at_s)), cells)
    };
    let rows = elastic.adaptations.iter().map(row).collect();
    table("Changes of the number of servers", &["tier", "from", "to", "took (s)"], rows)
}

fn instances(row: &Application) -> Option<Grid> {
    let cells = |one: &read::AppInstance| {
        let mib = one.resident_bytes.map_or_else(String::new, |bytes| fixed(bytes / f64::from(1 << 20), 0));
        let emulated = if one.emulated { " (emulated)" } else { "" };
        let cells = vec![clean(&one.service), format!("{}{emulated}", clean(&one.on)), number(one.cpu_s), mib];
        (clean(&one.name), cells)
    };
    let columns = ["service", "on", "CPU (s)", "memory (MiB)"];
    table("Instances", &columns, row.instances.iter().map(cells).collect())
}

fn table(caption: &str, columns: &[&str], rows: Vec<(String, Vec<String>)>) -> Option<Grid> {
    let cell = |text: String| match text.is_empty() {
        true => Cell::Blank,
        false => Cell::Measured { estimate: text, ratio: None },
    };
    let rows: Vec<GridRow> = rows
        .into_iter()
        .map(|(label, cells)| GridRow { label, cells: cells.into_iter().map(cell).collect() })
        .collect();
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    (!rows.is_empty()).then(|| Grid { caption: caption.to_owned(), columns, rows, reasons: Vec::new() })
}

/// A number with as many digits as are of use.
fn number(value: Option<f64>) -> String {
    match value {
        Some(number) if number.fract() == 0.0 => fixed(number, 0),
        Some(number) => rounded(number),
        None => "?".to_owned(),
    }
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "?".to_owned(), percent)
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, |ns| format!("{:.2}", Nanos(ns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::{Value, json};

    fn application(row: Value) -> Application {
        Application::deserialize(row).expect("an application")
    }

    fn phase(whole: Value) -> Phase {
        Phase::deserialize(whole).expect("a phase")
    }

    fn row() -> Value {
        json!({
            "name": "main", "database": "sqlite", "bus": "process", "tls": false, "max_users": 300, "cycle_s": 0.5,
            "tiers": { "app": { "service": "auction", "count": 1, "on": "native" } },
            "search": {
                "plan": { "finest": 0.1 },
                "trials": [{ "windows": [{ "level": 400.0, "said": "pass" }, { "level": 410.0, "said": "fail" }, { "level": 390.0, "said": "insufficient" }] }],
                "knee": [{ "level": 400.0, "windows": 2, "verdict": "insufficient", "achieved_per_s": 800.0, "failed_share": 0.0 },
                    { "level": 510.0, "windows": 3, "verdict": "fail", "achieved_per_s": 900.0, "failed_share": 0.032,
                    "p50_ns": 5_000_000, "p99_ns": 550_000_000 }],
                "limited_by": [{ "what": "home:p99<2 s", "share": 0.5 }],
            },
            "attempts": [{ "users": 510.0, "elapsed_s": 10.0, "kept": false, "broken": ["home:p99<2 s", "login:p99<3 s"] }],
            "load": { "users": 510.0, "elapsed_s": 10.0, "broken": ["home:p99<2 s"], "operations_per_s": 900.0, "cpus_used": { "app.cpus": 1.0 },
                "generator_cpus_used": 0.5, "operations": [
                    { "name": "home", "succeeded": 10, "failed": 1, "mix_share": 0.1, "corrected": { "p50_ns": 1_000_000 }, "limit_ns": 2_000_000_000_u64 },
                    { "name": "never", "succeeded": 0, "failed": 0 }] },
            "invariants": { "held": true },
            "instances": [{ "name": "app-1", "service": "auction", "on": "native", "cpu_s": 1.5, "resident_bytes": 1_048_576 }],
        })
    }

    /// "At most 510 users keep the limits" was printed next to "verified at 510 users: 16 limits broken".
    #[test]
    fn users_that_exceeded_a_limit_are_never_reported_to_meet_every_limit() {
        let said = lines(&application(row()), &phase(json!({ "users": null }))).join("\n");
        assert!(said.contains("no number of users was verified to meet every limit"), "{said}");
        assert!(said.contains("Verified with 510 users for 10 s: exceeded: home:p99<2 s; login:p99<3 s."), "{said}");
        assert!(!said.contains("users meet every limit"), "{said}");
        let unverified = json!({ "users": { "most": 510.0, "verified": false, "low": 1.0, "high": 2.0 } });
        assert!(!lines(&application(row()), &phase(unverified)).join("\n").contains("users meet every limit"));
        let verified =
            json!({ "users": { "most": 485.0, "verified": true, "low": 400.0, "high": 510.0, "basis": "bracket" } });
        let said = lines(&application(row()), &phase(verified)).join("\n");
        assert!(
            said.contains("485 users meet every limit (400 to 510, from what met the limits to what exceeded them)"),
            "{said}"
        );
    }

    #[test]
    fn the_cpu_time_of_a_tier_is_the_sum_of_its_instances() {
        let mut row = row();
        row["tiers"]["balancer"] = json!({ "service": "haproxy", "count": 2, "on": "native" });
        row["load"]["cpus_used"]["balancer.cpus"] = json!(0.5);
        let said = lines(&application(row), &phase(json!({}))).join("\n");
        assert!(said.contains("CPUs used: app 1, balancer 0.500 (sum of 2), generator 0.500."), "{said}");
    }

    #[test]
    fn sites_of_users_are_shown_with_their_failures_and_send_lag() {
        let mut row = row();
        row["load"]["sites"] = json!([
            { "name": "1 (native)", "succeeded": 120, "failed": 0, "generator": { "send_lag": { "p99_ns": 1_200_000 } } },
            { "name": "2 (container)", "succeeded": 118, "failed": 3, "generator": { "send_lag": null } },
        ]);
        let said = lines(&application(row), &phase(json!({}))).join("\n");
        let expected = "Users from 2 sites: 1 (native) 120 operations, 0 failed, send lag p99 1.20 ms; 2 (container) 118 operations, 3 failed.";
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn tables_hold_what_was_measured() {
        let grids = grids(&application(row()));
        let captions: Vec<&str> = grids.iter().map(|grid| grid.caption.split(':').next().unwrap_or_default()).collect();
        assert_eq!(captions, ["Operations", "Levels that the search measured", "Instances"]);
        let labels: Vec<&str> = grids[0].rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(labels, ["home"], "what nobody did has no row");
        let said: Vec<&Cell> = grids[1].rows.iter().map(|row| &row.cells[1]).collect();
        let measured = |text: &str| Cell::Measured { estimate: text.to_owned(), ratio: None };
        assert_eq!(said, [&measured("met in 1 of 2"), &measured("exceeded")]);
        assert!(grids.iter().all(|grid| grid.rows.iter().all(|row| row.cells.len() == grid.columns.len())));
    }
}
