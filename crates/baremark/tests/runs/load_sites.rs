//! One load from several agents on this machine.

use crate::common::bench::{Bench, children, signal, text};
use crate::common::http::server;
use crate::common::points::{kill, stopped_at};
use std::process::Stdio;

fn json(output: &[u8]) -> serde_json::Value {
    serde_json::from_slice(output).unwrap_or_else(|why| panic!("{why}: {}", text(output)))
}

/// Two agents on this machine share one load: what each would have done alone is dealt between them and merged exactly.
#[test]
fn sites_share_a_load_and_begin_together() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let arguments = [
        "load",
        &url,
        "--rate",
        "200",
        "--duration",
        "3s",
        "--site",
        "native",
        "--site",
        "native",
        "--timeout",
        "5 min",
        "--json",
    ];
    let output = bench.run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = json(&output.stdout);
    assert_eq!((&document["counts"]["intended"], &document["asked"]["sites"]), (&600.into(), &2.into()));
    let ended =
        600 - document["counts"]["unfinished"].as_u64().unwrap() - document["counts"]["unsent"].as_u64().unwrap();
    assert_eq!(document["latency"]["corrected"]["samples"], ended, "{}", document["failures"]);
    assert_eq!(document["generator"]["threads"].as_array().map(Vec::len), Some(2));
    let sites = document["sites"].as_array().unwrap();
    assert!(sites.len() == 2 && sites.iter().all(|site| site["lost"].is_null() && site["seconds"].as_u64() >= Some(3)));
    let series: u64 = document["series"].as_array().unwrap().iter().map(|row| row["intended"].as_u64().unwrap()).sum();
    assert_eq!(series, 600, "the seconds are merged as well");
}

#[test]
fn a_site_that_is_lost_is_told_and_the_others_count() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let arguments = ["load", &url, "--rate", "100", "--duration", "5s", "--site", "native", "--site", "native"];
    let mut command = bench.command(&arguments);
    // Both have reported a second.
    let child = stopped_at(command.stdout(Stdio::piped()).stderr(Stdio::piped()), "progress-stored:1");
    let agents = children(child.id());
    assert_eq!(agents.len(), 2, "{agents:?}");
    signal(agents[0], libc::SIGKILL);
    signal(child.id(), libc::SIGCONT);
    let output = child.wait_with_output().unwrap();
    let (said, told) = (text(&output.stderr), text(&output.stdout));
    let document = json(&bench.run(&["report", "--json"]).stdout);
    let found = (output.status.code(), document["ended"].as_str().unwrap(), &document["counts"]["intended"]);
    if output.status.code() == Some(0) {
        // On a machine that stood still for seconds it had sent all that it had before it was killed.
        return assert_eq!(found, (Some(0), "complete", &500.into()), "{said}");
    }
    assert_eq!(found, (Some(1), "site-lost", &250.into()), "{said}");
    assert!(said.contains("is lost"), "{said}");
    assert!(told.contains("SITE LOST after ") && told.contains("not in the figures"), "{told}");
    let history = json(&bench.run(&["history", "--json"]).stdout);
    assert_eq!(history["runs"][0]["stop_reason"], "a site was lost");
}

/// As its command line said: from as many sites, with the same configuration of ssh.
#[test]
fn a_killed_load_of_sites_is_resumed_from_them() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let load = ["load", &url, "--connections", "2", "--count", "300", "--timeout", "5 min", "--site", "native"];
    let arguments = [&load[..], &["--site", "native", "--ssh-config", "nowhere"]].concat();
    let mut command = bench.command(&arguments);
    kill(&mut stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "progress-stored:1"));
    let id = bench.json(&["history", "--json"])["runs"][0]["id"].as_str().unwrap().to_owned();
    let store = baremark_store::Store::open_read_only(bench.store()).unwrap();
    let request = store.load(&id.parse().unwrap()).unwrap().plan.load.expect("it can be resumed");
    let config = request.ssh_config.expect("what would be asked for a site elsewhere");
    assert!(config.starts_with('/') && config.ends_with("/nowhere"), "{config}");
    let output = bench.run(&["resume", &id, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = json(&output.stdout);
    assert_eq!((&document["counts"]["intended"], &document["asked"]["sites"]), (&300.into(), &2.into()));
    assert_eq!(document["sites"].as_array().map(Vec::len), Some(2), "{document:#}");
    assert_eq!(bench.json(&["report", "--json"]), document, "what is stored is what was printed");
    let history = bench.json(&["history", "--json"]);
    let runs = history["runs"].as_array().unwrap();
    assert!(runs.len() == 1 && runs[0]["state"] == "finished", "{history:#}");
}
