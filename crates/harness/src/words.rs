//! The result of a run in words and tables, for a terminal.

use crate::document::{ApplicationRow, Document, ElasticityRow, LoadRow};
use baremark_load::latency::Summary;
use baremark_model::maximum::{self, Ended, Said};
use baremark_model::units::Nanos;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// So many of the limits that were broken are told.
const TOLD: usize = 4;

/// The whole result.
#[must_use]
pub fn describe(document: &Document) -> String {
    let mut text = String::new();
    for why in &document.void {
        let _ = writeln!(text, "VOID: {why}");
    }
    let _ = writeln!(text, "{}", headline(document));
    for row in &document.applications {
        let _ = write!(text, "\n{}", application(row, document.applications.len() > 1));
    }
    for remark in &document.remarks {
        let _ = writeln!(text, "  - {remark}");
    }
    let budget = document.budget_s.map_or(String::new(), |budget| format!(" of {budget:.0} s allowed"));
    let (seed, cpus, elapsed) = (document.seed, document.cpus, document.elapsed_s);
    let _ = writeln!(text, "\nseed {seed}, {cpus} CPUs, {elapsed:.0} s in all{budget}");
    text
}

/// The answer in one line.
#[must_use]
pub fn headline(document: &Document) -> String {
    let title = &document.title;
    if let Some(users) = &document.users {
        let at =
            if users.basis == "bracket" { String::new() } else { format!(" at {:.0} %", 100.0 * users.confidence) };
        let interval = match (users.low, users.high) {
            (Some(low), Some(high)) => format!(" ({low:.0} to {high:.0}{at})"),
            _ => " (no interval yet)".to_owned(),
        };
        let basis = match users.basis.as_str() {
            "fresh-trials" => "over fresh trials",
            "bracket" => "between what kept the limits and what broke them in one search",
            _ => "within one search: fresh trials are not in it",
        };
        let seen = if users.verified { "seen to keep every limit" } else { "no level verified: no time was left" };
        return format!("{title}: at most {:.0} users keep the limits{interval}, {basis}; {seen}", users.most);
    }
    let searches: Vec<&maximum::Document> =
        document.applications.iter().filter_map(|row| row.search.as_ref()).collect();
    if let Some(refuted) = refuted(document) {
        return format!("{title}: {refuted}");
    }
    if let Some(search) = searches.first() {
        let highest = search.knee.iter().map(|row| row.level).fold(0.0, f64::max);
        let lowest = search.knee.iter().map(|row| row.level).fold(f64::INFINITY, f64::min);
        return match search.ended {
            Ended::PassesAll => {
                let mut tried = document.applications.iter().flat_map(|row| &row.attempts);
                let seen = match tried.find(|attempt| attempt.kept) {
                    Some(attempt) => format!("seen for {:.0} of them", attempt.users),
                    None => "no level verified: no time was left".to_owned(),
                };
                format!("{title}: at least {highest:.0} users keep every limit; the search went no higher; {seen}")
            }
            Ended::FailsAll => format!("{title}: not even {lowest:.0} users keep every limit"),
            Ended::Insufficient => {
                format!("{title}: undecided: windows have too few samples for the limits; ask for longer ones")
            }
            Ended::Interrupted => format!("{title}: interrupted before the most users were known"),
            Ended::TimeOver => format!("{title}: the time was over before the most users were known"),
            Ended::Found | Ended::Broken => format!("{title}: broken off before the most users were known"),
        };
    }
    let loads: Vec<&LoadRow> = document.applications.iter().filter_map(|row| row.load.as_ref()).collect();
    let users: f64 = loads.iter().map(|load| load.users).sum();
    let kept = loads.iter().all(|load| load.kept);
    format!("{title}: {users:.0} users {} every limit", if kept { "keep" } else { "DO NOT keep" })
}

/// What is said where every level that was kept for a while broke a limit: which they were, and where the search was.
fn refuted(document: &Document) -> Option<String> {
    let row = document.applications.iter().find(|row| row.no_level_verified() && !row.attempts.is_empty())?;
    let of = if document.applications.len() > 1 { format!("of {}, ", row.name) } else { String::new() };
    let tried: Vec<String> = row.attempts.iter().map(|attempt| format!("{:.0}", attempt.users)).collect();
    let search = match row.search.as_ref().and_then(|search| search.maximum) {
        Some(maximum) => format!("; the search had found {:.0}", maximum.level),
        None => String::new(),
    };
    Some(format!(
        "no level verified: {of}{} users broke limits when they were kept for longer{search}",
        tried.join(", ")
    ))
}

fn application(row: &ApplicationRow, named: bool) -> String {
    let mut text = String::new();
    let tiers: Vec<String> = row
        .tiers
        .iter()
        .map(|(tier, plan)| format!("{} {} {} on {}", plan.count, plan.service, tier, plan.on))
        .collect();
    let name = if named { format!("{}: ", row.name) } else { String::new() };
    let _ = writeln!(
        text,
        "{name}{}{}; database {}, bus {}, data for {} users; a user's cycle is {} s",
        tiers.join(", "),
        if row.tls { "; users come by TLS 1.3" } else { "" },
        row.database,
        row.bus,
        row.max_users,
        row.cycle_s
    );
    let _ = writeln!(text, "durability: {}", durability(row));
    if let Some(search) = &row.search {
        knee(&mut text, search);
    }
    for attempt in &row.attempts {
        let said = if attempt.kept {
            "every limit kept".to_owned()
        } else {
            format!("{} limits broken", attempt.broken.len())
        };
        let _ = writeln!(text, "verification at {:.0} users for {:.0} s: {said}", attempt.users, attempt.elapsed_s);
    }
    if let Some(load) = &row.load {
        loaded(&mut text, load);
    }
    if let Some(invariants) = &row.invariants {
        let said =
            if invariants.held { "hold: no bid lost, nothing sold twice, the money adds up" } else { "ARE VIOLATED" };
        let _ = writeln!(text, "invariants {said}");
    }
    instances(&mut text, row);
    text
}

fn durability(row: &ApplicationRow) -> String {
    let Some(database) = row.tiers.get("database") else {
        let said = row.tiers.get("app").and_then(|app| app.settings.get("durable"));
        return said.cloned().unwrap_or_else(|| "unknown".to_owned());
    };
    let keys = ["fsync", "commit", "full_page_writes", "doublewrite"].iter();
    let said = keys.filter_map(|key| Some(format!("{key} = {}", database.settings.get(*key)?)));
    said.collect::<Vec<_>>().join(", ")
}

fn instances(text: &mut String, row: &ApplicationRow) {
    let _ =
        writeln!(text, "\n{:<14} {:<10} {:>9} {:>12} {:>10}", "instance", "service", "CPU s", "memory", "processes");
    for one in &row.instances {
        let memory = format!("{:.0} MiB", one.resident_bytes as f64 / f64::from(1 << 20));
        let _ = writeln!(
            text,
            "{:<14} {:<10} {:>9.2} {memory:>12} {:>10}",
            one.name, one.service, one.cpu_s, one.processes
        );
    }
}

fn knee(text: &mut String, search: &maximum::Document) {
    let _ = writeln!(
        text,
        "\n{:>8} {:>8} {:>12} {:>12} {:>10} {:>10} {:>10}  CPUs used",
        "users", "windows", "says", "ops/s", "failed", "p50", "p99"
    );
    for row in &search.knee {
        let _ = writeln!(
            text,
            "{:>8.0} {:>8} {:>12} {:>12.0} {:>9.2}% {:>10} {:>10}  {}",
            row.level,
            row.windows,
            says(search, row),
            row.achieved_per_s,
            100.0 * row.failed_share,
            time(row.p50_ns),
            time(row.p99_ns),
            used(&row.utilization)
        );
    }
    if let Some(limits) = limits(&search.limited_by) {
        let _ = writeln!(text, "  {limits}");
    }
    if search.generator_was_the_limit {
        let _ = writeln!(text, "  THE GENERATOR WAS THE LIMIT at times: the maximum is at least what is given");
    }
}

/// What the windows of a level say together, or what each said where they are too few for that.
fn says(search: &maximum::Document, row: &maximum::KneeRow) -> String {
    if row.verdict != "insufficient" {
        return row.verdict.clone();
    }
    let all = search.trials.iter().flat_map(|trial| &trial.windows);
    let here: Vec<Said> = all
        .filter(|window| (window.level / row.level.max(1.0) - 1.0).abs() <= search.plan.finest)
        .map(|window| window.said)
        .collect();
    if here.iter().all(|said| *said == Said::Insufficient) {
        return "too few".to_owned();
    }
    let kept = here.iter().filter(|said| **said == Said::Pass).count();
    format!("{kept} of {} kept", here.len())
}

/// What broke in visits that failed: an overload breaks many limits at once, of which the first few tell enough.
fn limits(found: &[maximum::Limiting]) -> Option<String> {
    let told = found.iter().take(TOLD).map(|one| format!("{} ({:.0} %)", one.what, 100.0 * one.share));
    let told = told.collect::<Vec<_>>().join(", ");
    let others = match found.len().saturating_sub(TOLD) {
        0 => String::new(),
        1 => ", and by one other limit".to_owned(),
        count => format!(", and by {count} other limits"),
    };
    (!found.is_empty()).then(|| format!("limited by (share of the visits that failed): {told}{others}"))
}

fn loaded(text: &mut String, load: &LoadRow) {
    let _ = writeln!(
        text,
        "\n{:.0} users for {:.0} s: {:.0} operations/s; limits {}",
        load.users,
        load.elapsed_s,
        load.operations_per_s,
        if load.kept { "met" } else { "exceeded" }
    );
    for broken in &load.broken {
        let _ = writeln!(text, "  exceeded: {broken}");
    }
    operations(text, load);
    if let Some(delay) = &load.propagation {
        propagation(text, delay, load.propagation_within_limit_share);
    }
    for (kind, count) in &load.failures {
        let _ = writeln!(text, "failed: {count} {kind}");
    }
    for example in &load.failure_examples {
        let _ = writeln!(text, "  such as at {example}");
    }
    let _ = writeln!(text, "CPUs used: {}; generator {:.2}", used(&load.cpus_used), load.generator_cpus_used);
    if let Some(rate) = load.operations_per_app_cpu_second {
        let _ = writeln!(text, "{rate:.0} operations for each CPU-second of the app tier");
    }
    if let Some(elastic) = &load.elasticity {
        elasticity(text, elastic);
    }
}

fn operations(text: &mut String, load: &LoadRow) {
    let _ = writeln!(
        text,
        "{:<20} {:>9} {:>7} {:>7} {:>10} {:>10} {:>10} {:>10}",
        "operation", "done", "failed", "mix", "p50", "p95", "p99", "limit"
    );
    for row in load.operations.iter().filter(|row| row.succeeded + row.failed > 0) {
        let summary = row.corrected.as_ref().or(row.raw.as_ref());
        let at = |pick: fn(&Summary) -> Option<u64>| time(summary.and_then(pick));
        let _ = writeln!(
            text,
            "{:<20} {:>9} {:>7} {:>6.2}% {:>10} {:>10} {:>10} {:>10}",
            row.name,
            row.succeeded,
            row.failed,
            100.0 * row.mix_share.unwrap_or(0.0),
            at(|all| all.p50_ns),
            at(|all| all.p95_ns),
            at(|all| all.p99_ns),
            time(row.limit_ns)
        );
    }
}

fn propagation(text: &mut String, delay: &Summary, within: Option<f64>) {
    let share = within.map_or(String::new(), |share| format!(", {:.2} % within the limit", 100.0 * share));
    let (samples, p50, p99) = (delay.samples, time(delay.p50_ns), time(delay.p99_ns));
    let _ = writeln!(text, "bids seen by attendees: {samples}, p50 {p50}, p99 {p99}{share}");
}

/// CPUs by tier.
fn used(cpus: &BTreeMap<String, f64>) -> String {
    let used = cpus.iter().map(|(name, used)| format!("{} {used:.2}", name.trim_end_matches(".cpus")));
    used.collect::<Vec<_>>().join(", ")
}

fn elasticity(text: &mut String, elastic: &ElasticityRow) {
    let (changes, failed) = (elastic.adaptations.len(), elastic.failed_operations);
    let _ = writeln!(text, "elasticity: {changes} adaptations, {failed} failed operations in all");
    for change in &elastic.adaptations {
        let _ = writeln!(
            text,
            "  at {:.1} s {} {} -> {} in {:.2} s",
            change.at_s, change.tier, change.from, change.to, change.took_s
        );
    }
    for (tier, metrics) in &elastic.metrics {
        let _ = writeln!(
            text,
            "  {tier}: under-provisioned by {:.3} servers for {:.1} % of the time, over-provisioned by {:.3} for {:.1} %, jitter {:+.2}/min",
            metrics.accuracy_under,
            100.0 * metrics.timeshare_under,
            metrics.accuracy_over,
            100.0 * metrics.timeshare_over,
            metrics.jitter_per_min
        );
    }
}

pub(crate) fn time(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("{:.2}", Nanos(ns)))
}
