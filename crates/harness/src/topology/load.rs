//! `[load]` and `[limits]`: how load is found or kept, and what must hold meanwhile.

use super::defaults::DEFAULTS_FILE;
use crate::demand::Demand;
use crate::users;
use baremark_model::config::{Reader, Section};
use baremark_model::maximum::{Plan, Samples};
use std::collections::BTreeMap;

/// CPUs by their numbers.
pub(super) fn cpus(reader: &mut Reader, section: &Section<'_>) -> Vec<usize> {
    let cpus = reader.counts(section, "cpus", (0, u64::from(u32::MAX))).unwrap_or_default();
    cpus.into_iter().filter_map(|cpu| usize::try_from(cpu).ok()).collect()
}

pub(super) fn demand(reader: &mut Reader, root: &Section<'_>) -> Option<Demand> {
    let load = reader.section(root, "load");
    reader.known_by(&load, DEFAULTS_FILE, &[]);
    let limits = reader.section(root, "limits");
    reader.known_by(&limits, DEFAULTS_FILE, &[]);
    let users = reader.count(&load, "users", (0, 10_000_000))?;
    let number = |reader: &mut Reader, key: &str, most: u64| reader.count(&load, key, (1, most)).unwrap_or(1);
    let (lowest, highest) = (number(reader, "lowest", 10_000_000), number(reader, "highest", 10_000_000));
    if lowest >= highest {
        let what = format!("lowest = {lowest} is not below highest = {highest}");
        reader.wrong(&load, "lowest", what, "let lowest be below highest");
    }
    let mut search = Plan::between(lowest as f64, highest as f64);
    search.first = number(reader, "first", 10_000_000) as f64;
    search.finest = reader.share(&load, "finest");
    search.window_s = reader.seconds(&load, "window");
    search.settle_s = reader.seconds(&load, "settle");
    search.visits = usize::try_from(number(reader, "visits", 1000)).unwrap_or(12);
    search.windows_per_visit = usize::try_from(number(reader, "windows", 1000)).unwrap_or(6);
    search.trials = usize::try_from(number(reader, "trials", 1000)).unwrap_or(1);
    search.samples = if reader.switch(&limits, "per_operation") == Some(true) { Samples::Each } else { Samples::Some };
    // What was found is kept for longer than any visit.
    search.confirming = 0;
    Some(Demand {
        users: Some(users).filter(|users| *users > 0),
        profile: reader.text(&load, "profile").unwrap_or_default().to_owned(),
        cycle_s: reader.seconds(&load, "cycle").max(0.01),
        duration_s: reader.seconds(&load, "duration"),
        warm_s: reader.seconds(&load, "warm_up"),
        ramp_down_s: reader.seconds(&load, "ramp_down"),
        on: load_sites(reader, &load),
        threads: usize::try_from(number(reader, "threads", 256)).unwrap_or(1),
        cpus: cpus(reader, &load),
        search,
        verify_s: reader.seconds(&load, "verify"),
        budget_s: Some(reader.seconds(&load, "budget")).filter(|seconds| *seconds > 0.0),
        latency_s: users::latency_limit(reader, &limits),
        beyond: reader.share(&limits, "violations_allowed"),
        delay_s: reader.seconds(&limits, "delay"),
        failures: reader.share(&limits, "failures"),
        mix: reader.share(&limits, "mix"),
        scenario: scenario(reader, &load),
        utilization: BTreeMap::new(),
    })
}

/// Where load generators run.
fn load_sites(reader: &mut Reader, load: &Section<'_>) -> Vec<String> {
    let sites = reader.texts(load, "on");
    for site in sites.iter().copied() {
        let (name, target) = site.split_once(':').unwrap_or((site, ""));
        let possible = match name {
            "native" | "container" => !site.contains(':'),
            "ssh" => !target.is_empty(),
            _ => false,
        };
        if !possible {
            let remedy = "write native, container or ssh:HOST[:PORT]";
            reader.wrong(load, "on", format!("'{site}' is not a site of a load generator"), remedy);
        }
    }
    if sites.iter().any(|site| site.starts_with("ssh:")) && !cpus(reader, load).is_empty() {
        let what = "CPUs of this machine for load generators on another";
        reader.wrong(load, "cpus", what, "leave cpus out; generators spread over the CPUs of their site");
    }
    sites.into_iter().map(str::to_owned).collect()
}

/// The scenario of a file, which must be one.
fn scenario(reader: &mut Reader, load: &Section<'_>) -> Option<(String, String)> {
    let file = reader.text(load, "scenario").filter(|file| !file.is_empty())?;
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(why) => {
            reader.wrong(load, "scenario", format!("{file}: {why}"), "name a scenario file, see docs/load-scenario.md");
            return None;
        }
    };
    let own = (file.to_owned(), text);
    if let Err(why) = users::scenario("http://127.0.0.1:1", "password", Some(&own)) {
        reader.wrong(load, "scenario", why.to_string(), "correct the scenario");
    }
    Some(own)
}
