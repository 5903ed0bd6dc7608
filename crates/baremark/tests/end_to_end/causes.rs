//! Known causes of a loss are injected, and must be named: by a run's first screen, and by `explain`. A control comes first; one that names
//! the cause already, as on a busy machine, and what the machine lacks are counted skips. The injections are those of `make soak`.

use crate::bench::{Bench, SMALL, text};
use crate::schemas::assert_fits;
use std::path::Path;
use std::process::Command;

/// Runs `scripts/injections` for these kinds, and passes on what it skipped.
fn injected(kinds: &[&str]) {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: no python3");
        return;
    }
    let bench = Bench::sole();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/injections");
    let ran = Command::new("python3")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_baremark"))
        .arg(bench.path("injections"))
        .args(kinds)
        .output()
        .unwrap();
    let out = text(&ran.stdout);
    out.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| eprintln!("{line}"));
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    for kind in kinds {
        let line =
            |line: &str| line.starts_with(&format!("{kind}: named")) || line.contains(&format!("injection {kind}:"));
        assert!(out.lines().any(line), "{kind} was neither tried nor skipped: {out}");
    }
}

#[test]
fn page_walks_are_named_as_the_cause_of_a_loss() {
    injected(&["page-walks"]);
}

#[test]
fn neighbours_in_the_phases_of_one_arm_are_named_by_what_they_take() {
    injected(&["cpu-hog", "memory-neighbour"]);
}

#[test]
fn saturated_layers_of_the_machine_are_named() {
    injected(&["cpu", "neighbour", "memory"]);
}

#[test]
fn a_throttled_disk_a_slow_link_and_a_slow_server_are_named() {
    injected(&["disk", "network", "server"]);
}

/// Loads the script, has it make rounds of a toy until it is interrupted, then go on, then start anew with another program.
const PIECES: &str = r#"
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("injections", sys.argv[1])
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("injections", loader))
loader.exec_module(script)
folder, made = sys.argv[2], []
def rounds(count, last, content="one build"):
    program = folder + "/program"
    script.written(program, content)
    def toy(*where):
        if len(made) == last:
            raise KeyboardInterrupt
        made.append(1)
        return script.Found(False, True, True, 0.75, "words")
    script.KINDS = {"toy": toy}
    script.table(["toy"], program, folder, True, count)
    print("made", len(made))
rounds(4, 3)
open(folder + "/rounds.jsonl", "a").write('[["torn by a kill')
rounds(5, 9)
rounds(1, 9, "another build")
"#;

#[test]
fn the_table_of_injections_can_be_made_in_pieces() {
    let bench = Bench::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/injections");
    let ran = Command::new("python3").args(["-c", PIECES]).arg(script).arg(bench.folder.path()).output();
    let Ok(ran) = ran else {
        eprintln!("skipped: no python3");
        return;
    };
    let out = text(&ran.stdout);
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    let of = |start: &str| out.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    assert_eq!(of("made"), ["made 3", "made 5", "made 6"], "{out}");
    let counts: Vec<_> = of("toy").iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(counts, ["3", "5", "1"], "{out}");
    assert!(out.contains("rounds.jsonl has toy 3 of this program, 0 of others"), "{out}");
    assert!(out.contains("rounds.jsonl has none of this program, 5 of others"), "{out}");
}

#[test]
fn explain_answers_for_a_run_and_for_the_machine_now() {
    let bench = Bench::new();
    let study = bench.write("small.toml", SMALL);
    bench.json(&["run", study.to_str().unwrap(), "--json", "--quick"]);
    let layers = ["hypervisor", "CPU", "run queue", "memory", "paging", "disk", "network", "application tier"];
    let now = ["explain", "--now", "--for", "2 s", "--json"];
    for (arguments, run) in [(&["explain", "--json"][..], true), (&now[..], false)] {
        let document = assert_fits(&bench.run(arguments).stdout, "baremark-explanation/1");
        assert_eq!(document["run"].is_string(), run);
        let place = &document["places"][0];
        let found: Vec<&str> =
            place["layers"].as_array().unwrap().iter().map(|row| row["layer"].as_str().unwrap()).collect();
        assert_eq!(found, layers);
        let used = &place["layers"][1]["utilization"];
        assert!(used["lo"].as_f64() <= used["value"].as_f64() && used["value"].as_f64() > Some(0.0), "{place:#}");
        assert_eq!(
            place["layers"][7]["saturated"].is_null(),
            run,
            "sockets are observed now, and in runs that ask for it"
        );
    }
    let shown = text(&bench.run(&["explain"]).stdout);
    assert!(shown.contains("Answer  ") && shown.contains("  application tier  not observed"), "{shown}");
    for (arguments, why) in [
        (&["explain", "--now", "--for", "1 s"][..], "write a time from 2 s to 10 min"),
        (&["explain", "--now", "latest"][..], "cannot be used with"),
        (&["explain", "--for", "3 s"][..], "--now"),
    ] {
        let refused = bench.run(arguments);
        assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    }
    let unobserved = format!("{SMALL}\n[observe]\nwhich = \"null\"\n");
    let study = bench.write("null.toml", unobserved);
    bench.json(&["run", study.to_str().unwrap(), "--json", "--quick"]);
    // What ranks themselves measured is known without observers, and the rest is not guessed.
    let place = &bench.json(&["explain", "--json"])["places"][0];
    let known = |layer: &str| {
        let row = place["layers"].as_array().unwrap().iter().find(|row| row["layer"] == layer);
        !row.expect(layer)["saturated"].is_null()
    };
    assert!(known("run queue") && !known("CPU") && !known("disk"), "{place:#}");
}
