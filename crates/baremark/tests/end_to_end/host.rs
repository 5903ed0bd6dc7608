//! Features of the host as factors: refused unless allowed, set for each trial, undone at the end and after a kill.

use crate::bench::{Bench, root, text};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const STUDY: &str = r#"
[study]
title = "swapping"
[workload]
kind = "random-access"
table = "8 MiB"
[factors]
"host.swappiness" = [11, 12]
page = "4k"
ranks = 1
[design]
phase = "50 ms"
quads = 1
least_blocks = 5
most_blocks = 6
precision = "0.1 %"
budget = "60 s"
[report]
columns = "host.swappiness"
ratio_to = { "host.swappiness" = 11 }
"#;

fn value() -> String {
    fs::read_to_string(SWAPPINESS).unwrap().trim().to_owned()
}

fn command(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.command(arguments);
    command.env("XDG_STATE_HOME", bench.path("state"));
    command
}

#[test]
fn a_study_varies_a_feature_of_the_host() {
    if !root() {
        return;
    }
    let (bench, before) = (Bench::new(), value());
    bench.write("swapping.toml", STUDY);
    let refused = command(&bench, &["run", "swapping.toml"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("host.swappiness: this changes the host"), "{}", text(&refused.stderr));

    // Killed between two trials of the run: what it had set is left, until the next start.
    let mut lab = command(&bench, &["run", "swapping.toml", "--allow-host-changes"]);
    let mut lab = lab.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(lab.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.starts_with("block 1 is stored")), "no block was measured");
    lab.kill().unwrap();
    lab.wait().unwrap();
    assert!(["11", "12"].contains(&value().as_str()), "{}", value());
    let doctor = command(&bench, &["doctor"]).output().unwrap();
    assert!(text(&doctor.stderr).contains(&format!("undone: {SWAPPINESS}")), "{}", text(&doctor.stderr));
    assert_eq!(value(), before);

    let resumed = command(&bench, &["resume", "--allow-host-changes", "--json"]).output().unwrap();
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert_eq!(value(), before, "undone at the end");
    let document: Value = serde_json::from_slice(&resumed.stdout).unwrap();
    let ratios = document["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), 1, "{document:#}");
    assert_eq!(ratios[0]["treatment"]["host.swappiness"], "12");
    // A feature is set for a whole trial: no trial has arms of both levels.
    let trials = document["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["arms"].as_array().unwrap().len() == 1), "{document:#}");
}

#[test]
fn what_this_machine_lacks_is_absent_with_its_reason() {
    let bench = Bench::new();
    let study = STUDY.replace("\"host.swappiness\" = [11, 12]", "\"host.governor\" = [\"userspace\"]");
    bench.write("governor.toml", study.split("[report]").next().unwrap());
    let plan = bench.run(&["plan", "governor.toml"]);
    let said = text(&plan.stdout) + &text(&plan.stderr);
    // A machine with that governor plans it; on others nothing can run.
    let planned = plan.status.success();
    assert!(planned || (plan.status.code() == Some(3) && said.contains("host.governor = userspace: ")), "{said}");
}
