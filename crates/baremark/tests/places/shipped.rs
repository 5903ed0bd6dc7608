//! Each shipped study, as far as a minute of it goes with what this machine has: its document keeps every rule of `report --verify-document`.

use crate::common::bench::{Bench, signal, text};
use std::process::{Child, ExitStatus, Output};
use std::time::{Duration, Instant};

/// After which a study is interrupted, and how long it may take to end then.
const INTERRUPTED: Duration = Duration::from_mins(1);

/// Tests that share the studies, so that a failure names few.
const PARTS: usize = 8;

/// Waits for the end; an interrupt after a minute, a second one (which ends a trial that does not heed the first) after two.
fn ended(lab: &mut Child) -> ExitStatus {
    let start = Instant::now();
    for limit in [INTERRUPTED, 2 * INTERRUPTED, 10 * INTERRUPTED] {
        while start.elapsed() < limit {
            if let Some(status) = lab.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        signal(lab.id(), libc::SIGINT);
    }
    panic!("it does not end after three interrupts");
}

fn judged(study: &str, faults: &mut Vec<String>) {
    let bench = Bench::new();
    let mut command = bench.command(&["run", study, "--quick"]);
    let log = std::fs::File::create(bench.path("log")).unwrap();
    let mut lab = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    let code = ended(&mut lab).code();
    let said = std::fs::read_to_string(bench.path("log")).unwrap();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    println!("{study}: exit {code:?}: {last}");
    let says_why = said.contains("nothing could be compared: ") || said.contains("nothing could be measured: ");
    let is_outcome = match code {
        // 3: the machine has not what it takes; 130: interrupted by this test.
        Some(0 | 3 | 4 | 5 | 130) => true,
        Some(1) => says_why,
        _ => false,
    };
    if !is_outcome {
        faults.push(format!("{study} ended with {code:?}:\n{said}"));
    }
    let Output { status, stdout, stderr } = bench.run(&["report", "--verify-document"]);
    let stored = bench.store().exists() && !bench.json(&["history", "--json"])["runs"].as_array().unwrap().is_empty();
    if !stored && matches!(code, Some(0 | 4 | 5)) {
        faults.push(format!("{study} ended with {code:?} and left no run"));
    }
    if stored && !status.success() {
        faults.push(format!("{study}: {}{}", text(&stdout), text(&stderr)));
    }
}

fn part(index: usize) {
    let all = Bench::new().json(&["--json", "list", "studies"]);
    let names = all["studies"].as_array().unwrap().iter().map(|study| study["name"].as_str().unwrap());
    let own: Vec<&str> = names.skip(index).step_by(PARTS).collect();
    assert!(!own.is_empty());
    let mut faults = Vec::new();
    for study in own {
        judged(study, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

macro_rules! parts {
    ($($name:ident = $index:literal),+) => {
        $(
            #[test]
            fn $name() {
                part($index);
            }
        )+
        const _: () = assert!([$($index),+].len() == PARTS);
    };
}

parts!(
    shipped_studies_1_of_8 = 0,
    shipped_studies_2_of_8 = 1,
    shipped_studies_3_of_8 = 2,
    shipped_studies_4_of_8 = 3,
    shipped_studies_5_of_8 = 4,
    shipped_studies_6_of_8 = 5,
    shipped_studies_7_of_8 = 6,
    shipped_studies_8_of_8 = 7
);
