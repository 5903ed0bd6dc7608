//! Predictions on the command line: of studies, of programs, from shared distances; and what is refused.

use crate::bench::{Bench, SMALL, kvm, text};
use crate::environments::wait_for;
use baremark_microvm::{MmuMode, mmu_virtualization};
use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn refused(bench: &Bench, arguments: &[&str], code: i32) -> String {
    let output = bench.run(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed {}", text(&output.stdout));
    message
}

#[test]
fn a_study_is_predicted_for_a_named_machine() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    let output = bench.run(&["--json", "predict", "small.toml", "--machine", "nehalem-x5570"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = document["subjects"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 10, "native, nested and shadow by page sizes");
    for cell in cells {
        let ratio = &cell["relative_run_time"];
        let [low, median, high] = ["low", "median", "high"].map(|key| ratio[key].as_f64().unwrap());
        assert!(0.5 < low && low <= median && median <= high && high < 10.0, "{cell}");
    }
    assert!(!bench.store().exists(), "a prediction is not a run");
}

const KERNELS: &str = r#"[study]
title = "Every kernel whose addresses are known, and one without"

[workload]
kind = ["random-access", "stream", "pointer-chase", "hpl", "dgemm", "page-table", "syscall"]

[workload.random-access]
table = "8 MiB"

[workload.stream]
array = "8 MiB"
small = true

[workload.pointer-chase]
working_set = "8 MiB"

[workload.hpl]
n = 500

[workload.dgemm]
n = 500

[workload.page-table]
region = "8 MiB"

[factors]
ranks = 1
"#;

#[test]
fn every_kernel_of_a_study_is_predicted_and_others_are_named() {
    let bench = Bench::new();
    bench.write("kernels.toml", KERNELS);
    let output = bench.run(&["--json", "predict", "kernels.toml", "--machine", "nehalem-x5570"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let subjects = document["subjects"].as_array().unwrap();
    let names: Vec<&str> = subjects.iter().map(|one| one["subject"].as_str().unwrap()).collect();
    let expected = [
        "random updates of a table of 8 MiB on each rank",
        "passes over three arrays, 8 MiB of each on each rank",
        "dependent loads from 8 MiB on each rank",
        "updates of a matrix of 500 by 500, 192 deep",
        "updates of a matrix of 500 by 500, 256 deep",
        "first touches of 8 MiB on each rank",
    ];
    assert_eq!(names, expected);
    let left_out = document["not_predicted"].as_array().unwrap();
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert!(left_out[0].as_str().unwrap().starts_with("no addresses are known of the workload 'syscall'"));
    let ratio = |subject: usize, scheme: &str| {
        let cells = subjects[subject]["cells"].as_array().unwrap();
        let cell = cells.iter().find(|cell| cell["scheme"] == scheme).unwrap();
        cell["relative_run_time"]["median"].as_f64().unwrap()
    };
    let touches = ratio(5, "shadow, guest 4k on host 2m") / ratio(5, "nested, guest 4k on host 2m");
    assert!(touches > 1.5, "a fault exits under shadow paging: {touches}");
    assert!(
        ratio(0, "nested, guest 4k on host 2m") > ratio(1, "nested, guest 4k on host 2m"),
        "random against in order"
    );
}

#[test]
fn what_cannot_be_predicted_is_refused_with_a_remedy() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    bench.write("fma.toml", SMALL.replace("random-access", "fma").replace("table = \"8 MiB\"", ""));
    bench.write("odd.txt", "once upon a time\n");
    let unknown = refused(&bench, &["predict", "small.toml", "--machine", "zen-44"], 2);
    assert!(unknown.contains("'zen-44' is not known; did you mean 'zen-4'?"), "{unknown}");
    let fma = refused(&bench, &["predict", "fma.toml", "--machine", "zen-4"], 2);
    assert!(fma.contains("no addresses are known of the workload 'fma'"), "{fma}");
    let odd = refused(&bench, &["predict", "--distances", "odd.txt", "--machine", "zen-4"], 2);
    assert!(odd.contains("odd.txt: line 1: 'once upon a time'"), "{odd}");
    refused(&bench, &["predict"], 2);
    refused(&bench, &["predict", "small.toml", "--validate"], 2);
}

#[test]
fn a_program_is_traced_and_its_distances_say_the_same() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: tracing a program: valgrind is not installed");
        return;
    }
    let bench = Bench::new();
    let traced =
        ["predict", "--machine", "nehalem-x5570", "--save-distances", "d.txt", "--", "/bin/echo", "its own words"];
    let output = bench.run(&traced);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("its own words"), "the program's output is not the prediction's");
    assert!(text(&output.stdout).contains("make no clear difference"), "{}", text(&output.stdout));
    let shared = bench.run(&["predict", "--machine", "nehalem-x5570", "--distances", "d.txt"]);
    assert_eq!(shared.status.code(), Some(0), "{}", text(&shared.stderr));
    let failed = refused(&bench, &["predict", "--machine", "zen-4", "--", "/bin/false"], 2);
    assert!(failed.contains("/bin/false ended with exit status 1 under the tracer"), "{failed}");
    let nowhere =
        ["predict", "--machine", "zen-4", "--save-distances", "no/such/folder", "--", "/bin/echo", "its own words"];
    let nowhere = refused(&bench, &nowhere, 2);
    assert!(nowhere.contains("no/such/folder") && !nowhere.contains("its own words"), "told before it runs: {nowhere}");
    let missing = refused(&bench, &["predict", "--machine", "zen-4", "--", "no-such-program"], 2);
    assert!(missing.contains("could not be run under valgrind"), "{missing}");
    let killed = refused(&bench, &["predict", "--machine", "zen-4", "--", "/bin/sh", "-c", "kill -9 $$"], 2);
    assert!(killed.contains("ended with signal: 9 (SIGKILL) under the tracer"), "{killed}");
}

/// Whether valgrind traces a program whose command line holds `mark`.
fn traced(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let line = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let lines = processes.map(line).map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.into_iter().any(|line| line.contains("--tool=lackey") && line.contains(mark))
}

#[test]
fn a_program_without_end_is_predicted_from_its_beginning_and_ends_with_the_prediction() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: tracing a program: valgrind is not installed");
        return;
    }
    let bench = Bench::new();
    let endless = format!("while :; do :; done # {}", bench.folder.path().display());
    let limited = ["predict", "--machine", "zen-4", "--limit", "10s", "--", "/bin/sh", "-c", &endless];
    let output = bench.run(&limited);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("ended after the limit: the prediction is of its beginning"));
    assert!(text(&output.stdout).contains("a program of "), "{}", text(&output.stdout));
    // It ends with the limit.
    wait_for(|| (!traced(&endless)).then_some(()));
    // A prediction that is killed takes the tracer along.
    let mut killed = bench.command(&["predict", "--machine", "zen-4", "--", "/bin/sh", "-c", &endless]);
    // Valgrind takes the names of its own files away as soon as they are made: the kill may come before that.
    killed.env("TMPDIR", bench.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut killed = killed.spawn().unwrap();
    wait_for(|| traced(&endless).then_some(()));
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_for(|| (!traced(&endless)).then_some(()));
}

/// Leaves a process behind that ends when something is written to the pipe `held`, and tells so in the file `gone`.
const PARENT: &str = "mkfifo held; (read line <> held; echo > gone) > /dev/null 2>&1 & kill -0 $!";

#[test]
fn a_program_in_the_background_does_not_hold_up_the_trace() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: tracing a program: valgrind is not installed");
        return;
    }
    let bench = Bench::new();
    let [held, gone] = ["held", "gone"].map(|name| bench.path(name));
    let (done, waited) = std::sync::mpsc::channel();
    let release = std::thread::spawn(move || {
        let in_time = waited.recv_timeout(Duration::from_secs(300)).is_ok();
        let mut pipe = OpenOptions::new().read(true).write(true).open(held).unwrap();
        pipe.write_all(b"end\n").unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        while !gone.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        (in_time, gone.exists())
    });
    let output = bench.run(&["predict", "--machine", "zen-4", "--", "/bin/sh", "-c", PARENT]);
    done.send(()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(release.join().unwrap(), (true, true), "predicted before it ended, and it ended");
}

fn calibration(machine: &str, processor: &str) -> String {
    format!(
        "machine = \"{machine}\"\nprocessor = \"{processor}\"\ndate = \"today\"\nrun = \"made-up\"\n\n[latency]\n\
         l1_ns = [1.0, 1.1]\nl2_ns = [3.5, 4.0]\nl3_ns = [14.0, 16.0]\nmemory_ns = [100.0, 160.0]\n"
    )
}

#[test]
fn reports_use_the_calibration_of_this_very_machine_alone() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    bench.write("guests.toml", SMALL.replace("\"null\"", "\"microvm\""));
    let first = bench.json(&["--json", "run", "guests.toml", "--quick"]);
    if first["predictions"].as_array().is_none_or(Vec::is_empty) {
        println!("skipped: predictions in a report: this processor is none of those known");
        return;
    }
    let processor = |document: &serde_json::Value| document["predictions"][0]["processor"].as_str().unwrap().to_owned();
    assert!(processor(&first).ends_with(", not calibrated"), "{}", processor(&first));
    let machine = bench.json(&["--json", "predict", "guests.toml"])["machine"].as_str().unwrap().to_owned();
    let named = first["run"]["machine"]["cpu"]["model_name"].as_str().unwrap().to_owned();
    let report = |file: &str| {
        bench.write("store/machine.toml", file);
        let output = bench.run(&["--json", "report"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        (processor(&serde_json::from_slice(&output.stdout).unwrap()), text(&output.stderr))
    };
    let (calibrated, _) = report(&calibration(&machine, &named));
    assert!(calibrated.ends_with(", calibrated by run made-up"), "{calibrated}");
    let (other, said) = report(&calibration(&machine, "another processor"));
    assert!(other.ends_with(", not calibrated") && said.is_empty(), "{other}: {said}");
    let (broken, said) = report("once upon a time");
    assert!(broken.ends_with(", not calibrated"), "{broken}");
    assert!(said.contains("predictions do without the calibration") && said.contains("machine.toml"), "{said}");
    let refused = refused(&bench, &["predict", "guests.toml"], 2);
    assert!(refused.contains("measure again with `baremark predict --calibrate`"), "{refused}");
}

#[test]
fn what_was_predicted_of_a_program_is_next_to_its_ratio_in_the_microvm() {
    if !kvm() || Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: a program's prediction in its report: no KVM, or valgrind is not installed");
        return;
    }
    let bench = Bench::new();
    std::fs::copy("/bin/sh", bench.path("program")).unwrap();
    let words = ["--", "./program", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"];
    let run = ["run", "--in", "native,microvm", "--budget", "6s", "--precision", "20"];
    let ran = bench.run(&[&run[..], &words].concat());
    assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stdout), text(&ran.stderr));
    assert!(!text(&ran.stdout).contains("baremark predict"), "not on the first screen: {}", text(&ran.stdout));
    let report = || bench.json(&["--json", "report"]);
    let advised = |document: &serde_json::Value| {
        let rows = document["explanations"].as_array().unwrap().clone();
        let exits = |row: &&serde_json::Value| row["what"].as_str().unwrap().contains("exits from the microVM explain");
        rows.iter()
            .find(exits)
            .map(|row| row["advice"].as_str().unwrap().contains("`baremark predict -- ./program -c '"))
    };
    let before = report();
    assert!(before["predictions"].is_null(), "{}", before["predictions"]);
    // With fewer than four blocks, on a busy machine, there is no row that could say it.
    assert_ne!(advised(&before), Some(false), "{}", before["explanations"]);
    let predicted = bench.run(&[&["predict", "--limit", "10s"][..], &words].concat());
    let said = text(&predicted.stderr);
    if said.contains("unknown processor") || mmu_virtualization().mode == MmuMode::Unknown {
        println!(
            "skipped: a program's prediction in its report: an unknown processor, or nothing says how KVM translates"
        );
        return;
    }
    assert_eq!(predicted.status.code(), Some(0), "{said}");
    assert!(said.contains("kept for reports of this program in the microVM"), "{said}");
    let after = report();
    let rows = after["predictions"].as_array().unwrap_or_else(|| panic!("no predictions: {after:#}"));
    for row in rows {
        assert_eq!((row["metric"].as_str(), row["disagrees"].as_bool()), (Some("wall_s"), Some(false)), "{row}");
        let scheme = row["scheme"].as_str().unwrap();
        assert!(scheme.contains("guest 2m on host") && scheme.contains(", against native "), "{row}");
        // A slow machine traces its beginning alone within the time limit, and says so.
        let traced = ["its accesses", "the accesses of its beginning"];
        assert!(traced.iter().any(|what| scheme.ends_with(&format!("page walks of {what}, without exits"))), "{row}");
        assert_eq!(row["treatment"]["environment"].as_str(), Some("microvm"), "{row}");
    }
    assert_ne!(advised(&after), Some(true), "{}", after["explanations"]);
    // Another program may have run then.
    std::fs::copy("/bin/sh", bench.path("program")).unwrap();
    assert!(report()["predictions"].is_null());
}
