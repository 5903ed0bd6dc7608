//! `baremark top`: rows of processes, and the live view.

use crate::common::bench::{Bench, text};
use crate::common::sites::cpu;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Busy processes, ended when dropped.
struct Busy(Vec<Child>);

impl Busy {
    /// Of one CPU.
    fn new(count: usize) -> Self {
        let cpu = cpu().to_string();
        let hog = || Command::new("taskset").args(["-c", &cpu, "sh", "-c", "while :; do :; done"]).spawn().unwrap();
        Busy((0..count).map(|_| hog()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

#[test]
fn rows_show_who_uses_a_cpu_and_who_waits_for_it() {
    let bench = Bench::new();
    let busy = Busy::new(2);
    let arguments = ["top", "--rows", "--batch", "json", "--sort", "ready", "--interval", "500 ms"];
    let mut top = bench.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let _ends = Busy(vec![top]);
    let mut samples = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    // In an interval in which this machine stood still nobody used a CPU.
    let both = |sample: &Value| {
        let shares = |child: &Child| {
            let id = child.id().to_string();
            let row = sample["rows"].as_array().unwrap().iter().find(|row| row["id"] == id.as_str()).unwrap();
            row["kind"] == "process" && row["cpu_ns"].as_u64().unwrap() > 0 && row["ready_ns"].as_u64().unwrap() > 0
        };
        busy.0.iter().all(shares)
    };
    let sample = samples.find(both).expect("two share a CPU");
    let ready: Vec<u64> =
        sample["rows"].as_array().unwrap().iter().map(|row| row["ready_ns"].as_u64().unwrap()).collect();
    assert!(ready.is_sorted_by(|a, b| a >= b), "{ready:?}");
    let sheet = text(&bench.run(&["top", "--rows", "--batch", "csv", "--interval", "100 ms", "--count", "1"]).stdout);
    let columns = sheet.lines().next().unwrap().split(',').count();
    assert!(sheet.lines().count() > 2 && sheet.lines().nth(1).unwrap().split(',').count() == columns, "{sheet}");
    let table = text(&bench.run(&["top", "--rows", "--interval", "100 ms", "--count", "1"]).stdout);
    assert!(table.contains("sorted by cpu") && table.contains("ready %"), "{table}");
    let refused = bench.run(&["top", "--batch", "csv"]);
    assert_eq!(refused.status.code(), Some(2), "--batch needs --rows");
}

#[test]
fn the_live_view_tells_people_and_programs() {
    let bench = Bench::new();
    let screen = bench.run(&["top", "--interval", "200 ms", "--count", "2"]);
    let screen_text = text(&screen.stdout);
    assert!(screen.status.success() && screen_text.matches("CPU  ").count() == 2, "{screen_text}");
    let lines = text(&bench.run(&["top", "--json", "--interval", "100 ms", "--count", "3"]).stdout);
    let laps: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(laps.len(), 3);
    assert!(laps.iter().all(|lap| lap["values"]["kernel.context_switches"].as_f64() > Some(0.0)), "{lines}");
    let cost = bench.run(&["top", "--cost", "--json", "--interval", "100 ms", "--count", "4"]);
    let cost: Value = serde_json::from_slice(&cost.stdout).unwrap();
    for of in ["share_of_one_cpu", "null"] {
        let [lo, share, hi] = ["lo", "estimate", "hi"].map(|key| cost[of][key].as_f64());
        assert!(share >= Some(0.0) && lo <= share && share <= hi, "{of}: {cost}");
    }
    for (arguments, why) in [
        (vec!["top", "--which", "cpux"], "there is no observer 'cpux'"),
        (vec!["top", "--interval", "1 us"], "write a time from 10 ms to 1 h"),
        (vec!["top", "--cost", "--count", "3"], "needs four readings"),
    ] {
        let refused = bench.run(&arguments);
        assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains(why), "{arguments:?}");
    }
}
