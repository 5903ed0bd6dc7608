//! Loaded data of the auction that are kept, and users from two sites, on the embedded database.

use crate::common::bench::{Bench, text};
use crate::common::tiers::{BRISK, document, kept_data_are_reused, ran, sound, with_operations, without_pictures};

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
    let set = [&[TWO, &users][..], &FEW, &BRISK].concat();
    let result = document(&with_operations(|| ran(&bench, &set, &[])));
    let row = sound(&result);
    let load = &row["load"];
    let sites = load["sites"].as_array().unwrap();
    let names: Vec<&str> = sites.iter().map(|site| site["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["1 (native)", "2 (native)"]);
    let succeeded = |row: &serde_json::Value| row["succeeded"].as_u64().unwrap();
    let by_site: Vec<u64> = sites.iter().map(succeeded).collect();
    // Every operation of the whole is one of a site.
    let whole: u64 = load["operations"].as_array().unwrap().iter().map(succeeded).sum();
    assert_eq!(by_site.iter().sum::<u64>(), whole);
    // How late it sent is known where a user waited for the clock: on a slow machine the server may have kept all of them.
    let generator = |site: &serde_json::Value| {
        let (own, lag) = (&site["generator"], &site["generator"]["send_lag"]);
        let is_told = lag.is_null() || lag["samples"].as_u64().is_some_and(|samples| samples > 0);
        is_told && own["verdict"].is_string() && own["threads"].as_array().is_some_and(|threads| threads.len() == 1)
    };
    assert!(sites.iter().all(generator), "{sites:?}");
    assert_eq!(load["users"], 10.0);
    let shown = text(&bench.run(&["report", "--details"]).stdout);
    assert!(shown.contains("Users from 2 sites: 1 (native) "), "{shown}");
}
