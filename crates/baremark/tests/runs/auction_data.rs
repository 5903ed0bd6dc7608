//! Loaded data of the auction that are kept, and users from two sites, on the embedded database.

use crate::common::bench::{Bench, text};
use crate::common::tiers::{BRISK, document, kept_data_are_reused, ran, sound, without_pictures};

#[test]
fn loaded_data_of_sqlite_are_kept_verified_and_reused() {
    kept_data_are_reused(&[]);
}

const FEW: [&str; 3] = ["load.users=10", "load.warm_up=200 ms", "load.duration=1 s"];
const TWO: &str = "load.on=['native', 'native']";

#[test]
fn users_of_two_sites_are_one_load() {
    let bench = Bench::new();
    let users = format!("load.scenario={}", without_pictures(&bench).display());
    let result = document(&ran(&bench, &[&[TWO, &users][..], &FEW, &BRISK].concat(), &[]));
    let row = sound(&result);
    let load = &row["load"];
    let sites = load["sites"].as_array().unwrap();
    let names: Vec<&str> = sites.iter().map(|site| site["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["1 (native)", "2 (native)"]);
    let succeeded = |row: &serde_json::Value| row["succeeded"].as_u64().unwrap();
    let by_site: Vec<u64> = sites.iter().map(succeeded).collect();
    assert!(by_site.iter().all(|count| *count > 0), "both have users: {by_site:?}");
    // Every operation of the whole is one of a site.
    let whole: u64 = load["operations"].as_array().unwrap().iter().map(succeeded).sum();
    assert_eq!(by_site.iter().sum::<u64>(), whole);
    assert!(sites.iter().all(|site| site["generator"]["send_lag"]["p50_ns"].is_u64()), "{sites:?}");
    assert_eq!(load["users"], 10.0);
    let shown = text(&bench.run(&["report", "--details"]).stdout);
    assert!(shown.contains("Users from 2 sites: 1 (native) "), "{shown}");
}
