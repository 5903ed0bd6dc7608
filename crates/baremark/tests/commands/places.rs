//! What is said of places before anything runs there: settings that cannot be, sites without a network, machines that are not there.

use crate::bench::{Bench, text};
use crate::guests::study;
use crate::scripts::{QEMU, Scripts};

/// What `plan` prints of guests with these settings, on one line; QEMU is a script.
fn planned(guest: &str) -> String {
    let (bench, scripts) = (Bench::new(), Scripts::new(&[QEMU]));
    let work = "[workload]\nkind = \"random-access\"\ntable = \"16 MiB\"";
    let factors = "environment = \"qemu\"\nmemory = [\"local\", \"remote\", \"interleave\"]\nranks = 2\npage = \"4k\"";
    let design = "least_blocks = 2\nmost_blocks = 2\nphase = \"50 ms\"\nquads = 1";
    let written = bench.write("study.toml", study(&bench, work, factors, guest, design));
    let output =
        bench.command(&["plan", written.to_str().unwrap()]).env("PATH", scripts.search_path()).output().unwrap();
    (text(&output.stdout) + &text(&output.stderr)).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn nodes_that_no_guest_can_have_are_refused() {
    let said = planned("guest_nodes = 2");
    assert!(said.contains("guest_nodes and hides them; add guest_numa = \"exposed\""), "{said}");
    let said = planned("memory = \"128 MiB\"\nguest_numa = \"exposed\"\nguest_nodes = 4");
    assert!(said.contains("4 NUMA nodes of 128 MiB in all are too small; give the guest 256 MiB"), "{said}");
}

#[test]
fn a_container_that_could_change_this_machines_files_is_refused() {
    let bench = Bench::new();
    let study = "[study]\ntitle = \"host's files\"\n[workload]\nkind = \"command\"\n[command]\nargv = [\"true\"]\n\
                 [factors]\nenvironment = \"container\"\nranks = 1\n[environments.container]\nrootfs = \"ROOT\"\n\
                 [design]\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"2 min\"\nphase = \"50 ms\"\nquads = 1\n";
    for root in ["/", "/..", "/usr/..", "/proc/self/root"] {
        bench.write("study.toml", study.replace("ROOT", root));
        let refused = bench.run(&["run", "study.toml"]);
        let why = text(&refused.stderr);
        assert!(
            why.contains("would let the container change this machine's own files; write \"host\""),
            "{root}: {why}"
        );
        assert_eq!(refused.status.code(), Some(2), "{root}: {why}");
    }
}

#[test]
fn a_program_to_be_brought_that_is_not_there_is_refused() {
    let bench = Bench::new();
    let study = "[study]\ntitle = \"a program that is brought\"\n[workload]\nkind = \"command\"\n[command]\n\
                 argv = [\"{folder}/bin/sum\"]\n[command.bring]\n\"bin/sum\" = \"/nowhere/sum\"\n\
                 [design]\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"3 min\"\nphase = \"50 ms\"\nquads = 1\n";
    bench.write("study.toml", study);
    let output = bench.run(&["run", "study.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("[command.bring] bin/sum: /nowhere/sum cannot be read"), "{said}");
}

#[test]
fn a_jitter_of_more_than_half_of_the_round_trip_is_refused() {
    let bench = Bench::new();
    let uneven = bench.run(&["nodes", "--round-trip", "1ms", "--jitter", "600us", "--", "true"]);
    let said = text(&uneven.stderr);
    assert!(said.contains("--jitter 600 us is more than half of --round-trip 1 ms; write at most 500 us"), "{said}");
    assert_eq!(uneven.status.code(), Some(2), "{said}");
}

#[test]
fn tiers_that_cannot_run_elsewhere_are_refused_before_anything_runs() {
    let bench = Bench::new();
    for (set, phrases) in [
        ("app.on=qemu", &["app servers on qemu and a database that is a file", "postgres or mariadb"][..]),
        ("environments.qemu.acel=tcg", &["unknown key 'acel' in [environments.qemu]", "did you mean 'accel'?"]),
        ("environments.moon.accel=tcg", &["unknown key 'moon' in [environments]"]),
        ("environments.qemu.memory=much", &["memory = 'much' does not start with a number"]),
    ] {
        let output = bench.run(&["auction", "run", "--json", "--set", set, "--set", "topology.max_users=300"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{set:?}: {said}");
        for phrase in phrases {
            assert!(said.contains(phrase), "{set:?}: {said}");
        }
    }
}
