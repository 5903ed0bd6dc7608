//! The number of users that the embedded default of the auction carries, and several applications at once.

use crate::common::bench::Bench;
use crate::common::tiers::{arguments, assert_merged_by_one_rule, assert_stored, metric, ran, result, searched, sound};
use std::time::{Duration, Instant};

#[test]
fn the_embedded_default_finds_how_many_users_it_carries() {
    let bench = Bench::new();
    let set = [
        "load.users=0",
        "load.cycle=100 ms",
        "load.lowest=20",
        "load.highest=80",
        "load.finest=20 %",
        "load.visits=6",
        "load.window=1500 ms",
        "load.settle=500 ms",
        "load.trials=1",
        // Long enough for the rarest operation on a busy machine.
        "load.verify=8 s",
    ];
    let page = bench.path("report.html");
    let output = ran(&bench, &set, &["--html", page.to_str().unwrap()]);
    let result = searched(&output);
    let row = sound(&result);
    assert_merged_by_one_rule(&row["search"]);
    assert_stored(&bench, &output);
    let load = &row["load"];
    let operation = |name: &str| {
        let rows = load["operations"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
    };
    for name in ["home", "login", "active-auctions", "join", "place-bid", "next-bid", "logout"] {
        assert!(operation(name)["succeeded"].as_u64().unwrap_or(0) > 0, "{name}: {load}");
    }
    assert!(load["propagation"]["samples"].as_u64().unwrap_or(0) > 0, "pushed bids are seen: {load}");
    assert!(load["mix"]["shares"].as_array().is_some_and(|shares| shares.len() == 6));
    assert!(row["instances"][0]["statistics"].as_object().is_some_and(|all| !all.is_empty()));
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("Operations: latency from the intended start") && !html.contains("<script"));
}

#[test]
fn several_applications_carry_their_sum() {
    let bench = Bench::new();
    let set = [
        "instances.a.app.count=1",
        "instances.b.app.settings.threads=1",
        "load.users=0",
        "load.cycle=100 ms",
        "load.lowest=10",
        "load.highest=40",
        "load.finest=30 %",
        "load.visits=6",
        "load.window=1 s",
        "load.settle=300 ms",
        "load.trials=1",
    ];
    let result = searched(&ran(&bench, &set, &[]));
    let rows = result["applications"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["invariants"]["held"], true);
        assert!(row["search"]["ended"].is_string(), "{row}");
    }
    assert!(result["remarks"].to_string().contains("in step"), "{}", result["remarks"]);
}

#[test]
fn a_search_ends_with_its_time_budget_and_says_so() {
    let bench = Bench::new();
    let slow = [
        "load.users=0",
        "load.cycle=200 ms",
        "load.lowest=20",
        "load.highest=300",
        "load.visits=500",
        "load.window=1 s",
    ];
    let times = ["load.settle=200 ms", "load.verify=4 s", "load.budget=40 s"];
    let begin = Instant::now();
    let result = searched(&ran(&bench, &[&slow[..], &times].concat(), &[]));
    // So many visits would take ten minutes at each level. A busy machine adds the time of servers that start and end.
    assert!(begin.elapsed() < Duration::from_secs(180), "a limit is a limit: {:?}", begin.elapsed());
    assert_eq!(result["budget_s"].as_f64(), Some(40.0), "{result}");
    assert!(result["elapsed_s"].as_f64().unwrap() < 100.0, "{}", result["elapsed_s"]);
    assert_eq!(result["applications"][0]["search"]["ended"], "time-over");
    assert!(
        result["remarks"].to_string().contains("the time budget of 40 s ended the search before its last step"),
        "{}",
        result["remarks"]
    );
}

/// Log-ins of those who are there all along were two thirds of what was measured with a long cycle and a short warm-up, nobody had bid, and
/// checking passwords was most of the app server's CPU time.
#[test]
fn log_ins_of_a_steady_population_are_not_what_is_measured() {
    let bench = Bench::new();
    let set = ["load.users=60", "load.cycle=2 s", "load.warm_up=2 s", "load.duration=10 s"];
    // At the cost that is the default, unlike other tests.
    let mut words = arguments(&set);
    let cost = words.iter().position(|word| word.starts_with("topology.argon2=")).expect("other tests set it");
    words.drain(cost - 1..=cost);
    let result = result(&bench.command(&words).output().unwrap());
    let load = &result["details"][0]["document"]["applications"][0]["load"];
    let done = |name: &str| {
        let rows = load["operations"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).and_then(|row| row["succeeded"].as_f64()).unwrap_or(0.0)
    };
    let all: f64 = load["operations"].as_array().unwrap().iter().filter_map(|row| row["succeeded"].as_f64()).sum();
    assert!(done("login") < 0.1 * all && done("current-item") > 0.0, "{load:#}");
    assert!(metric(&result, "app_cpu_passwords").is_some_and(|share| share < 20.0), "{result:#}");
}
