//! Predictions of programs, which valgrind traces.

use crate::common::bench::{Bench, kvm, text};
use crate::common::installed::has;
use crate::common::refused::refused;
use crate::common::sites::wait_for;
use baremark_microvm::{MmuMode, mmu_virtualization};
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_program_is_traced_and_its_distances_say_the_same() {
    if !has("tracing a program", &["valgrind"]) {
        return;
    }
    let bench = Bench::new();
    let traced =
        ["predict", "--machine", "nehalem-x5570", "--save-distances", "d.txt", "--", "/bin/echo", "its own words"];
    let output = bench.run(&traced);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("its own words"), "the program's output is not the prediction's");
    // It fits the caches of translations: its first touches alone walk.
    let said = text(&output.stdout);
    assert!(said.contains("Contrast of page sizes, native: small over large 1.000 (1.000 to 1.000)."), "{said}");
    let words = ["The model leaves it open: 4k pages cost 0 to 0 % natively, nested paging", "by less than 2 %."];
    assert_eq!(words.iter().filter(|words| said.contains(**words)).count(), 1, "{said}");
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
    if !has("tracing a program", &["valgrind"]) {
        return;
    }
    let bench = Bench::new();
    let endless = format!("while :; do :; done # {}", bench.folder.path().display());
    let limited = ["predict", "--machine", "zen-4", "--limit", "10s", "--", "/bin/sh", "-c", &endless];
    let output = bench.run(&limited);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("ended after the limit: the prediction is of its beginning"));
    assert!(text(&output.stdout).contains("the beginning of a program, its first "), "{}", text(&output.stdout));
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
    if !has("tracing a program", &["valgrind"]) {
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

#[test]
fn what_was_predicted_of_a_program_is_next_to_its_ratio_in_the_microvm() {
    if !kvm() || !has("a program's prediction in its report", &["valgrind"]) {
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
