//! The studies that ship with the program.

use crate::bench::{Bench, kvm, root, text};
use crate::environments::qemu;
use crate::turns::long_turn;
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn every_study_of_the_folder_is_shipped_and_can_be_planned() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let bench = Bench::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let output = bench.run(&["plan", name]);
        let said = text(&output.stderr);
        assert!(!said.contains("no shipped study"), "{name} is not built in");
        // 3: nothing of it can run here, which is the machine's matter and not the study's.
        if output.status.code() == Some(3) {
            continue;
        }
        assert!(output.status.success(), "{name}: {said}");
        let plan = bench.json(&["plan", name, "--json"]);
        assert!(!rows(&plan, "arms").is_empty(), "{plan:#}");
        let asked = rows(&plan, "pairs").iter().any(|pair| pair["asked"] == true);
        assert_eq!(text(&output.stdout).contains("Time to ±"), asked, "{name}: {output:?}");
    }
}

#[test]
fn the_standard_study_gives_the_three_kernels_and_says_why() {
    if !kvm() {
        return;
    }
    let bench = Bench::busy();
    // A look has a number of blocks, whatever its budget: a busy machine gets the time for them.
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/standard.toml");
    let shipped = fs::read_to_string(shipped).unwrap();
    let patient = shipped.replace("budget = \"60 s\"", "budget = \"10 min\"");
    assert_ne!(patient, shipped);
    bench.write("standard.toml", patient);
    let document = bench.json(&["run", "standard.toml", "--quick", "--json"]);
    let (ratios, why) = (rows(&document, "ratios"), rows(&document, "explanations"));
    for (workload, metric) in
        [("stream", "triad_mb_per_s"), ("random-access", "gups"), ("hpl", "gflops"), ("fma", "gflops")]
    {
        let of = |row: &&Value| row["treatment"]["workload"] == workload;
        let own: Vec<_> = ratios.iter().filter(of).collect();
        assert!(!own.is_empty(), "{workload} has no ratio");
        for ratio in own.iter().filter(|ratio| ratio["contrast"] == "environment") {
            assert_eq!(ratio["metric"], metric, "{ratio}");
            // The kernel may move a page in a phase: the trial is void, and of the fewest blocks of --quick one is missing.
            let void = |row: &&Value| row["status"] == "void" && row["arms"].to_string().contains(workload);
            if ratio["outcome"] == "not_enough" && rows(&document, "trials").iter().filter(void).count() > 0 {
                continue;
            }
            let limits = (ratio["lo"].as_f64(), ratio["ratio"].as_f64(), ratio["hi"].as_f64());
            // No run ends without a bound, on a busy machine too.
            assert!(limits.0 > Some(0.0) && limits.0 <= limits.1 && limits.1 <= limits.2, "{ratio}");
            assert_ne!(ratio["outcome"], "not_enough", "{ratio}");
            assert_eq!(ratio["treatment"]["workload"], ratio["relative_to"]["workload"]);
        }
        let said: Vec<&str> = why.iter().filter(of).filter_map(|row| row["what"].as_str()).collect();
        let expected = if workload == "fma" { "of computing alone" } else { "computing alone does not explain" };
        assert!(said.iter().any(|what| what.contains(expected)), "{workload}: {said:?}");
        assert!(said.iter().any(|what| what.contains("VM exits")), "{workload}: {said:?}");
    }
    assert!(why.iter().any(|row| row["what"] == "one demand-zero page fault" && row["lo"].as_f64().is_some()));
    assert!(rows(&document, "absent").iter().all(|row| row["treatment"]["workload"] == "page-table"));
    let report = text(&bench.run(&["report", "--details"]).stdout);
    for part in ["stream:", "random-access:", "hpl:", "fma:", "page-table:", "Published", "Why"] {
        assert!(report.contains(part), "{part} is missing: {report}");
    }
}

/// Runs a shipped study, with some of its text changed, to the end of its first block: every treatment that is planned was
/// measured, or is absent with its reason.
fn one_block(study: &str, changes: &[(&str, &str)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../studies/{study}.toml"));
    let text = changes.iter().fold(fs::read_to_string(path).unwrap(), |text, (from, to)| {
        assert!(text.contains(from), "{study} has no {from}");
        text.replace(from, to)
    });
    let text = text
        .lines()
        .filter(|line| !line.starts_with("phase = ") && !line.starts_with("quads = "))
        .collect::<Vec<_>>()
        .join("\n");
    let bench = Bench::new();
    let (document, said) = bench.first_block(&text.replace("[design]", "[design]\nphase = \"20 ms\"\nquads = 1"));
    let plan = bench.json(&["plan", "study.toml", "--json"]);
    let (estimates, absent) = (rows(&document, "estimates"), rows(&document, "absent"));
    let trials = rows(&document, "trials");
    let count = |status: &str| trials.iter().filter(|trial| trial["status"] == status).count();
    // A trial in which the host moved a page is void, and its two arms have nothing to show; none fails.
    let (ran, void) = (count("ok"), count("void"));
    assert!(ran > void && ran + void == trials.len(), "{study}: {said:#?}");
    let mut missing = Vec::new();
    for arm in rows(&plan, "arms") {
        let of = |row: &&Value| row["treatment"] == arm["treatment"];
        let told = |row: &Value| row["reason"].as_str().is_some_and(|why| !why.is_empty());
        let measured = estimates.iter().filter(of).any(|row| row["estimate"].as_f64().is_some_and(|value| value > 0.0));
        if !measured && !absent.iter().filter(of).any(told) {
            missing.push(&arm["treatment"]);
        }
    }
    assert!(missing.len() <= 2 * void, "{study}: {missing:?}: {said:#?}");
    // A place that has nothing to show is not there.
    for place in ["microvm", "container", "qemu"] {
        let of = |row: &&Value| row["treatment"]["environment"] == place;
        if let Some(row) = absent.iter().find(of).filter(|_| !estimates.iter().any(|row| of(&row))) {
            println!("skipped: study {study} in {place}: {}", row["reason"]);
        }
    }
}

const SMALL_STREAM: (&str, &str) = ("kind = \"stream\"", "kind = \"stream\"\narray = \"16 MiB\"\nsmall = true");

#[test]
#[ignore = "soak: wants a machine on which nobody else's work makes the host move pages, which voids trials"]
fn studies_of_kernels_and_micro_vms_run_to_their_first_block() {
    if !kvm() {
        return;
    }
    let small = |text| (text, "\"16 MiB\"");
    one_block("stream", &[]);
    one_block("star-random-access", &[small("\"256 MiB\"")]);
    one_block("hpl", &[("n = 3000", "n = 500")]);
    one_block("mmu-micro", &[(", \"256 MiB\"]", "]")]);
    one_block("page-walks", &[small("\"512 MiB\""), small("\"256 MiB\"")]);
    one_block("consolidation", &[]);
    one_block("monster-vms", &[small("\"256 MiB\"")]);
    one_block("hpl-40000", &[("n = 40000", "n = 500")]);
    one_block("numa", &[]);
    one_block("numa-threads", &[]);
}

#[test]
fn the_study_of_several_guests_and_containers_runs_to_its_first_block() {
    let _alone = qemu::alone();
    let kernel = format!("[environments.qemu]\nkernel = {:?}\naccel = \"tcg\"", qemu::fetched());
    let once = ("fresh = \"block\"", "fresh = \"run\"");
    one_block(
        "consolidation-guests",
        &[SMALL_STREAM, ("[environments.qemu]", &kernel), ("\"4 GiB\"", "\"2 GiB\""), once],
    );
}

/// Each layout of LUNs is made, loaded and taken down again, with as many devices as the study says and little on them.
#[test]
fn the_studies_of_layouts_run_to_their_first_block() {
    let _turn = long_turn();
    if !root() {
        return;
    }
    let little = [
        ("devices = 20", "devices = 12"),
        ("device_size = \"256 MiB\"", "device_size = \"128 MiB\"\npath = \"/var/tmp\""),
        ("[\"50 %\", \"100 %\"]", "[\"1 %\", \"2 %\"]"),
        ("warm_up = \"1 s\"", "warm_up = \"0 s\""),
        ("duration = \"3 s\"", "duration = \"100 ms\""),
    ];
    one_block("provision", &little);
    let little = [
        ("device_size = \"128 MiB\"", "device_size = \"128 MiB\"\npath = \"/var/tmp\""),
        ("\"50 %\"", "\"1 %\""),
        ("warm_up = \"200 ms\"", "warm_up = \"0 s\""),
        ("duration = \"1 s\"", "duration = \"100 ms\""),
    ];
    one_block("provision-layers", &little);
}

fn rows<'v>(document: &'v Value, key: &str) -> &'v Vec<Value> {
    document[key].as_array().unwrap()
}
