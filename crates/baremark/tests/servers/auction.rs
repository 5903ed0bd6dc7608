//! The auction application with tiers of other people's servers, interrupted, killed, and over TLS.

use crate::common::bench::{Bench, signal, text};
use crate::common::full::over_two_balancers;
use crate::common::tiers::{
    all_gone, assert_private, have, kept_data_are_reused, ran, run_shrunk, runs, sound, told, under_way,
};
use baremark_sys::network::HeldPort;
use serde_json::Value;

const NEEDS: &[&str] = &["haproxy", "nginx", "postgres"];

/// All tiers with state and TLS; and the port of the balancer, which nobody else is given meanwhile.
fn widest() -> (Vec<String>, HeldPort) {
    let held = HeldPort::any().unwrap();
    let own = ["topology.tls=true", "balancer.service=haproxy", "web.service=nginx", "database.service=postgres"];
    let own = own.iter().map(|text| (*text).to_owned()).chain([format!("balancer.port={}", held.number())]);
    (own.collect(), held)
}

#[test]
fn an_interrupted_run_leaves_nothing_and_goes_on_where_it_was() {
    if !have(NEEDS) {
        return;
    }
    let bench = Bench::new();
    let (set, port) = widest();
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let (child, servers) = under_way(&bench, &set);
    assert!(servers.len() >= 4, "{servers:?}");
    assert_private(&bench);
    an_untrusting_client_is_refused(&bench, &port.number().to_string());
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stdout));
    all_gone(&servers);
    assert_eq!(runs(&bench), [""; 0], "its folder is gone");
}

/// Whoever knows nothing of the run's own authority does not talk to its servers.
fn an_untrusting_client_is_refused(bench: &Bench, port: &str) {
    let url = format!("https://127.0.0.1:{port}/");
    let ask = |trust: &[&str]| {
        let words = [&["load", &url, "--count", "3", "--json"], trust].concat();
        let output = bench.run(&words);
        serde_json::from_slice::<Value>(&output.stdout)
            .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)))
    };
    let stranger = ask(&[]);
    assert_eq!(stranger["failures"]["tls"], 3, "{stranger}");
    let careless = ask(&["--insecure"]);
    assert_eq!(careless["failures"], serde_json::json!({}), "it is the certificate alone: {careless}");
}

#[test]
fn a_killed_run_of_all_tiers_leaves_nothing_running_and_the_next_removes_its_folder() {
    if !have(NEEDS) {
        return;
    }
    let bench = Bench::new();
    let (set, _port) = widest();
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let (mut child, servers) = under_way(&bench, &set);
    assert!(servers.len() >= 4, "{servers:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    all_gone(&servers);
    assert_eq!(runs(&bench).len(), 1, "nobody was there to remove it");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("app.port={}", taken.local_addr().unwrap().port());
    let next = ran(&bench, &[&port], &["--folder", bench.path("runs").to_str().unwrap()]);
    assert_eq!(next.status.code(), Some(1), "{}", text(&next.stderr));
    assert_eq!(runs(&bench), [""; 0]);
}

/// That of places is run with its guests, see `places`.
#[test]
fn shipped_studies_run_shrunk() {
    if have(NEEDS) {
        run_shrunk(&[("auction-elastic", 2)]);
    }
}

#[test]
#[ignore = "more starts of what the other tests start: part of `make soak`"]
fn the_other_shipped_studies_run_shrunk() {
    if have(&["haproxy", "nginx", "apache2", "postgres", "mariadbd"]) {
        run_shrunk(&[("auction-bursts", 4), ("auction-tiers", 5), ("auction-databases", 6)]);
    }
}

#[test]
fn loaded_data_of_postgres_are_kept_verified_and_reused() {
    if have(&["postgres"]) {
        kept_data_are_reused(&["database.service=postgres"]);
    }
}

#[test]
fn users_of_two_sites_are_spread_over_two_balancers() {
    if !have(&["haproxy"]) {
        return;
    }
    let (result, shown) = over_two_balancers();
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
    assert!(shown.contains("Users from 2 sites: 1 (native) "), "{shown}");
    let sessions = |name: &str| told(row, name)["statistics"]["front.FRONTEND.stot"].as_f64().unwrap_or(0.0);
    let (one, other) = (sessions("balancer-1"), sessions("balancer-2"));
    assert!(one >= 5.0 && other >= 5.0, "five users each: {one} and {other}");
    assert!(shown.contains("2 haproxy balancer on native") && shown.contains("(sum of 2)"), "{shown}");
}
