//! Mistakes of loads and topologies in studies, told all at once before anything runs.

use crate::common::bench::text;
use crate::common::studied::{AUCTION, LOAD, Studied};

/// Mistakes of a study, each with its line and what would be right; nothing is run and nothing is stored.
fn refused(study: &str, code: i32, expected: &[&str]) {
    let studied = Studied::new(study);
    let output = studied.run(&["run", "study.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let lines: Vec<&str> = said.trim_start_matches("error: ").lines().collect();
    assert_eq!(lines, expected, "{said}");
    assert!(!studied.bench.store().exists() && studied.folders().is_empty());
}

#[test]
fn mistakes_of_loads_and_topologies_are_told_all_at_once_before_anything_runs() {
    let load = LOAD.replace("ADDRESS", "127.0.0.1:1");
    refused(
        &load.replace("http://", ""),
        2,
        &["study.toml:6: url: '127.0.0.1:1/' has no scheme; write such as http://127.0.0.1:8080/path"],
    );
    refused(
        &load.replace("100 ms", "10 min"),
        2,
        &[
            "study.toml:7: duration and warm_up are 600.01 s together, and the timeout is 10 min; write a shorter duration, or a longer timeout",
        ],
    );
    let topology = "[topology]\nmax_users = 75\nimagse = \"memory\"\nhistory = 5\nstudy = 1\n";
    let wrong = AUCTION.replace("[topology]\nmax_users = 75\n", topology);
    let wrong = wrong.replace("cycle = \"40 ms\"", "cycle = \"40 ms\"\nusers = 9");
    refused(
        &wrong.replace("[topology.app.settings]", "[topology.app]\non = \"qeum\"\n[topology.app.settings]"),
        2,
        &[
            "study.toml:12: unknown key 'imagse' in [topology]; did you mean 'images'?",
            "study.toml:13: invalid history = 5 in [topology]; write text in quotation marks",
            "study.toml:14: unknown key 'study' in [topology] of a study; write what differs as levels in [factors], or as [topology.variants.NAME] with variant in [factors]",
            "study.toml:17: unknown key 'users' in [topology.load] of a study; write users in [workload] or [factors]",
            "study.toml:19: unknown environment 'qeum'; did you mean 'qemu'?",
        ],
    );
    let factors = "[factors]\n\"app.cuont\" = [1]\n\"database.service\" = [\"sqlite\", \"postgers\"]\n";
    let wrong = AUCTION.replace("[factors]\n", factors).replace("\"off\"]", "\"offf\"]");
    refused(
        &wrong.replace("users = 20", "users = 100").replace("200 ms", "20 min"),
        2,
        &[
            "study.toml:7: duration and warm_up are 1200.05 s together, and the timeout is 10 min; write a shorter duration, or a longer timeout",
            "study.toml:17: unknown key 'cuont' in [app]; did you mean 'count'?",
            "study.toml:18: the database tier has no service 'postgers'; did you mean 'postgres'?",
            "study.toml:19: durable = 'offf' is not known; did you mean 'off'?",
        ],
    );
    refused(
        &AUCTION.replace("users = 20", "users = 100"),
        2,
        &[
            "study.toml:6: 100 users, and data for 75 (max_users); write fewer users, or max_users = 100 or more in [topology]",
        ],
    );
}
