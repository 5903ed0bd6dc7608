//! Topologies that cannot be are refused with what would be right, before anything runs.

use crate::common::bench::{Bench, text};
use crate::common::tiers::ran;

#[test]
fn mistakes_are_told_before_anything_runs() {
    let bench = Bench::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("app.port={}", taken.local_addr().unwrap().port());
    for (set, phrases) in [
        (&["app.cuont=2"][..], &["unknown key 'cuont' in [app]", "did you mean 'count'?"][..]),
        (&["topology.max_users=3"], &["invalid max_users = 3", "75"]),
        (&[port.as_str()], &["is taken", "choose another port"]),
        (&["app.image=--privileged", "app.on=container"], &["'--privileged' is not an image reference; write [HOST"]),
        (&["topology.argon2=4294967295,4294967295"], &["'4294967295,4294967295' is not a possible cost; write KiB of"]),
        (&["app.cpus=[99999]"], &["app.cpus: no CPU 99999 can be used here; choose from 0"]),
        (&["load.cpus=[99999]"], &["load.cpus: no CPU 99999 can be used here; choose from 0"]),
        (&["app.cpus=[99999]", "app.on=container"], &["app.cpus: no CPU 99999 can be used here; choose from 0"]),
    ] {
        let output = ran(&bench, set, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let taken = set.contains(&port.as_str());
        assert_eq!(output.status.code(), Some(if taken { 1 } else { 2 }), "{set:?}: {said}");
        for phrase in phrases {
            assert!(said.contains(phrase), "{set:?}: {said}");
        }
    }
    let runs = bench.json(&["history", "--json"])["runs"].as_array().unwrap().len();
    assert_eq!(runs, 1, "only what was started is stored");
    let output = bench.run(&["auction", "run", "auction-tiers"]);
    let said = text(&output.stderr);
    assert!(said.contains("auction-tiers is a study; run it with `baremark run auction-tiers`"), "{said}");
    let file = bench.write("wrong.toml", "[app]\ncount = 1\n\n[load]\nuser = 5\n");
    let output = bench.command(&["auction", "run", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("wrong.toml:5: unknown key 'user' in [load]; did you mean 'users'?"), "{said}");
}

#[test]
fn a_network_that_cannot_be_is_refused_with_what_would_be_right() {
    let bench = Bench::new();
    for (set, phrase) in [
        (&["topology.network=lap"][..], "network = 'lap' is not known; did you mean 'lab'?"),
        (
            &["topology.network=lab", "app.on=ssh:elsewhere", "database.service=postgres"],
            "network = \"lab\" and the tier app on ssh:elsewhere",
        ),
    ] {
        let output = ran(&bench, set, &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(phrase), "{said}");
    }
}
