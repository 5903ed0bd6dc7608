//! What an application under load reports alongside its metrics: operations against their limits, the levels of a search, changes
//! of the number of servers, and each instance.
//!
//! The details are read by their keys: one that is not there is left out, so that older and newer ones can be shown.

use crate::grid::{Cell, Grid, GridRow};
use crate::number::{fixed, percent, three_digits};
use crate::section::Group;
use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::document::{DetailRow, Document};
use baremark_model::units::Nanos;
use serde_json::Value;

/// How the formats begin that are shown here.
const FORMAT: &str = "baremark-auction/";
/// More limits than these are counted only.
const MOST_LIMITS: usize = 4;

/// The applications of a document, by treatment.
pub(crate) fn groups(document: &Document) -> Vec<Group> {
    let factors = Factors::of(&document.run);
    let shown = document.details.iter().filter(|detail| detail.format.starts_with(FORMAT));
    shown.flat_map(|detail| of_detail(&factors.name(&detail.treatment), detail)).collect()
}

/// What searches for the most users found, and which resource was used up, a sentence for each application.
pub(crate) fn found(document: &Document) -> Vec<String> {
    let factors = Factors::of(&document.run);
    let shown = document.details.iter().filter(|detail| detail.format.starts_with(FORMAT));
    let of_row = |name: &str, row: &Value, whole: &Value| {
        let found = searched(row, whole)?;
        let why = row["saturated"].as_str().map(|why| format!(" {}.", clean(why))).unwrap_or_default();
        Some(format!("{name}: {found}{why}"))
    };
    let of_detail = |detail: &DetailRow| -> Vec<String> {
        let (name, whole) = (factors.name(&detail.treatment), &detail.document);
        list(&whole["applications"]).iter().filter_map(|row| of_row(&name, row, whole)).collect()
    };
    shown.flat_map(of_detail).collect()
}

fn of_detail(name: &str, detail: &DetailRow) -> Vec<Group> {
    let whole = &detail.document;
    let rows = list(&whole["applications"]);
    let several = rows.len() > 1;
    let of = |row: &&Value| {
        let own = if several { format!(" {}", text(&row["name"])) } else { String::new() };
        Group {
            head: format!("Application{own}: {name}, block {}", detail.block + 1),
            lines: lines(row, whole),
            grids: grids(row),
        }
    };
    rows.iter().collect::<Vec<_>>().iter().map(of).collect()
}

fn lines(row: &Value, whole: &Value) -> Vec<String> {
    let mut lines = vec![tiers(row)];
    lines.extend(searched(row, whole).map(|found| format!("Search: {found}")));
    lines.extend(list(&row["attempts"]).iter().map(attempt));
    let load = &row["load"];
    if load.is_object() {
        lines.push(loaded(load, &row["tiers"]));
        lines.extend(sites(load));
        lines.extend(elasticity(&load["elasticity"]));
    }
    lines.extend(row["saturated"].as_str().map(|why| format!("{}.", clean(why))));
    let held = row["invariants"]["held"].as_bool();
    lines.extend(held.map(|held| match held {
        true => "Data after the load: no bid lost, nothing sold twice, the money adds up.".to_owned(),
        false => "Data after the load: INCONSISTENT.".to_owned(),
    }));
    lines
}

/// "1 auction app on native; database sqlite, bus process; data for 300 users; a user starts an operation every 0.5 s."
fn tiers(row: &Value) -> String {
    let tiers = row["tiers"].as_object().map(|tiers| {
        let one = |(tier, plan): (&String, &Value)| {
            format!("{} {} {tier} on {}", number(&plan["count"]), text(&plan["service"]), text(&plan["on"]))
        };
        tiers.iter().map(one).collect::<Vec<_>>().join(", ")
    });
    let tls = if row["tls"].as_bool() == Some(true) { "; TLS 1.3" } else { "" };
    format!(
        "Tiers: {}{tls}; database {}, bus {}; data for {} users; one operation per user every {} s.",
        tiers.unwrap_or_default(),
        text(&row["database"]),
        text(&row["bus"]),
        number(&row["max_users"]),
        number(&row["cycle_s"])
    )
}

/// What a search found of all applications together.
fn searched(row: &Value, whole: &Value) -> Option<String> {
    if !row["search"].is_object() {
        return None;
    }
    let users = &whole["users"];
    let limits: Vec<String> = list(&row["search"]["limited_by"])
        .iter()
        .take(MOST_LIMITS)
        .map(|one| format!("{} ({})", text(&one["what"]), percent(one["share"].as_f64().unwrap_or(0.0))))
        .collect();
    let limited = match limits.is_empty() {
        true => String::new(),
        false => format!(" Limited by (share of the windows that failed): {}.", limits.join(", ")),
    };
    if users["verified"].as_bool() != Some(true) {
        return Some(format!("no number of users was verified to meet every limit.{limited}"));
    }
    let interval = match (users["low"].as_f64(), users["high"].as_f64()) {
        (Some(low), Some(high)) => {
            let basis = match users["basis"].as_str() {
                Some("bracket") => "from what met the limits to what exceeded them".to_owned(),
                _ => format!("{} interval within this search", percent(users["confidence"].as_f64().unwrap_or(0.0))),
            };
            format!(" ({} to {}, {basis})", fixed(low, 0), fixed(high, 0))
        }
        _ => String::new(),
    };
    Some(format!("{} users meet every limit{interval}.{limited}", number(&users["most"])))
}

fn attempt(attempt: &Value) -> String {
    let broken = list(&attempt["broken"]);
    let said = match attempt["kept"].as_bool() {
        Some(true) => "every limit met".to_owned(),
        _ => format!("exceeded: {}", limits(broken)),
    };
    format!("Verified with {} users for {} s: {said}.", number(&attempt["users"]), number(&attempt["elapsed_s"]))
}

fn limits(broken: &[Value]) -> String {
    let mut shown: Vec<String> = broken.iter().take(MOST_LIMITS).map(text).collect();
    if broken.len() > MOST_LIMITS {
        shown.push(format!("{} more", broken.len() - MOST_LIMITS));
    }
    shown.join("; ")
}

/// "40 users for 6 s: 93 operations/s, every limit met."
fn loaded(load: &Value, tiers: &Value) -> String {
    let broken = list(&load["broken"]);
    let said = if broken.is_empty() { "every limit met".to_owned() } else { format!("exceeded: {}", limits(broken)) };
    let delay = &load["propagation"];
    let of = |key: &str, name: &str| delay[key].as_u64().map(|ns| format!("{} ({name})", time(Some(ns))));
    let delays: Vec<String> = [of("p50_ns", "p50"), of("p99_ns", "p99")].into_iter().flatten().collect();
    let seen = match delays.is_empty() {
        true => String::new(),
        false => format!(" Attendees saw bids after {}.", delays.join(", ")),
    };
    let used = load["cpus_used"].as_object().map(|used| {
        let one = |(key, used): (&String, &Value)| {
            let tier = key.trim_end_matches(".cpus");
            let several = tiers[tier]["count"].as_u64().filter(|count| *count > 1);
            let over = several.map_or_else(String::new, |count| format!(" (sum of {count})"));
            format!("{tier} {}{over}", number(used))
        };
        used.iter().map(one).collect::<Vec<_>>().join(", ")
    });
    let waited = load["waits"].as_object().map(|tiers| {
        let waiting = |(key, threads): (&String, &Value)| {
            key.strip_suffix(".waiting").map(|tier| format!("{tier} {}", number(threads)))
        };
        tiers.iter().filter_map(waiting).collect::<Vec<_>>().join(", ")
    });
    let waited = waited.filter(|all| !all.is_empty()).map(|all| format!(" Threads waiting for a CPU: {all}."));
    format!(
        "{} users for {} s: {} operations/s, {said}.{seen} CPUs used: {}, generator {}.{}",
        number(&load["users"]),
        number(&load["elapsed_s"]),
        number(&load["operations_per_s"]),
        used.unwrap_or_default(),
        number(&load["generator_cpus_used"]),
        waited.unwrap_or_default()
    )
}

/// "Users from 2 sites: 1 (native) 120 operations, 0 failed, send lag p99 1.20 ms; ..."
fn sites(load: &Value) -> Option<String> {
    let rows = list(&load["sites"]);
    let one = |site: &Value| {
        let lag = site["generator"]["send_lag"]["p99_ns"].as_u64();
        let lag = lag.map_or_else(String::new, |ns| format!(", send lag p99 {}", time(Some(ns))));
        format!(
            "{} {} operations, {} failed{lag}",
            text(&site["name"]),
            number(&site["succeeded"]),
            number(&site["failed"])
        )
    };
    let said: Vec<String> = rows.iter().map(one).collect();
    (!said.is_empty()).then(|| format!("Users from {} sites: {}.", said.len(), said.join("; ")))
}

fn elasticity(elastic: &Value) -> Vec<String> {
    if !elastic.is_object() {
        return Vec::new();
    }
    let changes = list(&elastic["adaptations"]);
    let mut lines = vec![format!(
        "Elasticity: {} changes of the number of servers, {} operations failed.",
        changes.len(),
        number(&elastic["failed_operations"])
    )];
    let of_tier = |(tier, of): (&String, &Value)| {
        let share = |key: &str| percent(of[key].as_f64().unwrap_or(0.0));
        format!(
            "{tier}: {} servers too few on average ({} of the time), {} too many ({}), jitter {}/min.",
            number(&of["accuracy_under"]),
            share("timeshare_under"),
            number(&of["accuracy_over"]),
            share("timeshare_over"),
            number(&of["jitter_per_min"])
        )
    };
    lines.extend(elastic["metrics"].as_object().into_iter().flatten().map(of_tier));
    lines
}

fn grids(row: &Value) -> Vec<Grid> {
    [operations(&row["load"]), levels(&row["search"]), changes(&row["load"]["elasticity"]), instances(row)]
        .into_iter()
        .flatten()
        .collect()
}

fn operations(load: &Value) -> Option<Grid> {
    let rows = list(&load["operations"])
        .iter()
        .filter(|row| row["succeeded"].as_u64().unwrap_or(0) + row["failed"].as_u64().unwrap_or(0) > 0);
    let row = |row: &Value| {
        let summary = if row["corrected"].is_object() { &row["corrected"] } else { &row["raw"] };
        let at = |key: &str| time(summary[key].as_u64());
        let cells = [
            number(&row["succeeded"]),
            number(&row["failed"]),
            at("p50_ns"),
            at("p95_ns"),
            at("p99_ns"),
            time(row["limit_ns"].as_u64()),
        ];
        (text(&row["name"]), cells.to_vec())
    };
    let columns = ["done", "failed", "p50", "p95", "p99", "limit"];
    table("Operations: latency from the intended start", &columns, rows.map(row).collect())
}

/// Levels that a search measured: all windows of one level together.
fn levels(search: &Value) -> Option<Grid> {
    let row = |row: &Value| {
        let cells = [
            number(&row["windows"]),
            verdict(search, row),
            number(&row["achieved_per_s"]),
            row["failed_share"].as_f64().map_or_else(String::new, percent),
            time(row["p50_ns"].as_u64()),
            time(row["p99_ns"].as_u64()),
        ];
        (format!("{} users", number(&row["level"])), cells.to_vec())
    };
    let columns = ["windows", "limits", "operations/s", "failed", "p50", "p99"];
    table("Levels that the search measured", &columns, list(&search["knee"]).iter().map(row).collect())
}

/// What all windows of a level say together, or where they are too few for that, how many of them met every limit.
fn verdict(search: &Value, row: &Value) -> String {
    match row["verdict"].as_str() {
        Some("pass") => return "met".to_owned(),
        Some("fail") => return "exceeded".to_owned(),
        _ => {}
    }
    let level = row["level"].as_f64().unwrap_or(0.0).max(1.0);
    let near = search["plan"]["finest"].as_f64().unwrap_or(0.0);
    let windows = list(&search["trials"]).iter().flat_map(|trial| list(&trial["windows"]));
    let here: Vec<&str> = windows
        .filter(|window| (window["level"].as_f64().unwrap_or(0.0) / level - 1.0).abs() <= near)
        .filter_map(|window| window["said"].as_str())
        .filter(|said| *said != "insufficient")
        .collect();
    if here.is_empty() {
        return "too few samples".to_owned();
    }
    format!("met in {} of {}", here.iter().filter(|said| **said == "pass").count(), here.len())
}

fn changes(elastic: &Value) -> Option<Grid> {
    let row = |change: &Value| {
        let cells = [text(&change["tier"]), number(&change["from"]), number(&change["to"]), number(&change["took_s"])];
        (format!("at {} s", number(&change["at_s"])), cells.to_vec())
    };
    let rows = list(&elastic["adaptations"]).iter().map(row).collect();
    table("Changes of the number of servers", &["tier", "from", "to", "took (s)"], rows)
}

fn instances(row: &Value) -> Option<Grid> {
    let cells = |one: &Value| {
        let mib = one["resident_bytes"].as_f64().map_or_else(String::new, |bytes| fixed(bytes / f64::from(1 << 20), 0));
        let emulated = if one["emulated"].as_bool() == Some(true) { " (emulated)" } else { "" };
        let cells = [text(&one["service"]), format!("{}{emulated}", text(&one["on"])), number(&one["cpu_s"]), mib];
        (text(&one["name"]), cells.to_vec())
    };
    table(
        "Instances",
        &["service", "on", "CPU (s)", "memory (MiB)"],
        list(&row["instances"]).iter().map(cells).collect(),
    )
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

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(String::new, clean)
}

/// A number with as many digits as are of use.
fn number(value: &Value) -> String {
    match (value.as_i64(), value.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(number)) if number.fract() == 0.0 => fixed(number, 0),
        (None, Some(number)) => fixed(number, three_digits(number)),
        (None, None) => "?".to_owned(),
    }
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, |ns| format!("{:.2}", Nanos(ns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        let said = lines(&row(), &json!({ "users": null })).join("\n");
        assert!(said.contains("no number of users was verified to meet every limit"), "{said}");
        assert!(said.contains("Verified with 510 users for 10 s: exceeded: home:p99<2 s; login:p99<3 s."), "{said}");
        assert!(!said.contains("users meet every limit"), "{said}");
        let unverified = json!({ "users": { "most": 510.0, "verified": false, "low": 1.0, "high": 2.0 } });
        assert!(!lines(&row(), &unverified).join("\n").contains("users meet every limit"));
        let verified =
            json!({ "users": { "most": 485.0, "verified": true, "low": 400.0, "high": 510.0, "basis": "bracket" } });
        let said = lines(&row(), &verified).join("\n");
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
        let said = loaded(&row["load"], &row["tiers"]);
        assert!(said.contains("CPUs used: app 1, balancer 0.500 (sum of 2), generator 0.500."), "{said}");
    }

    #[test]
    fn sites_of_users_are_shown_with_their_failures_and_send_lag() {
        let mut row = row();
        row["load"]["sites"] = json!([
            { "name": "1 (native)", "succeeded": 120, "failed": 0, "generator": { "send_lag": { "p99_ns": 1_200_000 } } },
            { "name": "2 (container)", "succeeded": 118, "failed": 3, "generator": { "send_lag": null } },
        ]);
        let said = lines(&row, &json!({})).join("\n");
        let expected = "Users from 2 sites: 1 (native) 120 operations, 0 failed, send lag p99 1.20 ms; 2 (container) 118 operations, 3 failed.";
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn tables_hold_what_was_measured() {
        let grids = grids(&row());
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
