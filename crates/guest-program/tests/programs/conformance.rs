//! Other people's programs as a table: whether they print and end as natively, what they take, and how many calls are forwarded.
//!
//! A program runs natively and in the guest in turns, in the order of one round and then the other way round. Every run is compared with the
//! first native one. The ratio is that of run times from start to end, so that short programs show what starting a process costs.
//! The test fails when a program differs or does not end in time, when a control is slower than its limit, and when too few are identical.
//! Programs that are done are kept in a file of the target folder: a later start with the same runner does the others.
#![expect(clippy::print_stdout, reason = "a table")]

use crate::both::{compared, in_the_guest, missing, natively, says_something};
use crate::cases::{CONTROLS, Case, FEW, MANY};
use crate::support::{has_kvm, skip};
use crate::table::{Done, Outcome, failures, table};
use baremark_stats::Estimate;
use baremark_stats::estimate::median;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// The most wall time of a run, natively and in the guest.
const LONGEST: Duration = Duration::from_secs(30);
/// A hang of one run in so many was seen under ThreadSanitizer.
const RUNS_OF_THREADS: usize = 45;
/// Rounds of a program; the fewest that have an interval, and more for controls.
const ROUNDS: usize = baremark_stats::location::SMALLEST;
const ROUNDS_OF_CONTROL: usize = 16;
const KEPT: &str = "programs.jsonl";

/// Runs a program so many rounds.
fn outcome_of(case: &Case, rounds: usize) -> Outcome {
    match missing(case) {
        Some(what) => Outcome::Missing { what },
        None => measured(case, rounds).unwrap_or_else(|how| Outcome::Different { how }),
    }
}

/// The outcome of a program that is installed; how it differs.
fn measured(case: &Case, rounds: usize) -> Result<Outcome, String> {
    let (first, _) = natively(case, LONGEST)?;
    if !says_something(case, &first) {
        return Err(format!("prints nothing natively: {first:?}"));
    }
    let expected = compared(case, &first);
    // The first run of each side reads files that later ones find in memory; it does not count.
    let (warmed, _) = in_the_guest(case, LONGEST)?;
    let warmed = compared(case, &warmed);
    if warmed != expected {
        return Err(format!("natively {expected:?}, in the guest {warmed:?}"));
    }
    let (mut natives, mut ratios, mut counts) = (Vec::new(), Vec::new(), (0, 0));
    for round in 0..rounds {
        let mut times = [0.0; 2];
        let order = if round % 2 == 0 { [false, true] } else { [true, false] };
        for is_guest in order {
            let (ended, seconds) = if is_guest {
                let (ended, report) = in_the_guest(case, LONGEST)?;
                counts = (report.counters.calls, report.counters.images);
                (ended, report.wall.as_secs_f64())
            } else {
                let (ended, took) = natively(case, LONGEST)?;
                (ended, took.as_secs_f64())
            };
            let found = compared(case, &ended);
            if found != expected {
                let how = if is_guest { "in the guest" } else { "natively, a second time" };
                return Err(format!("first natively {expected:?}, {how} {found:?}"));
            }
            times[usize::from(is_guest)] = seconds;
        }
        natives.push(times[0] * 1e3);
        ratios.push((times[1] / times[0]).ln());
    }
    let interval = Estimate::of(&ratios).map(|estimate| estimate.interval(0.95));
    let ratio = interval.map_or([f64::NAN; 3], |of| [of.centre, of.lo, of.hi].map(f64::exp));
    let (calls, images) = counts;
    Ok(Outcome::Identical { native_ms: median(&natives).unwrap_or(f64::NAN), ratio, calls, images })
}

/// What was done before, by a runner with these bytes.
fn kept(file: &Path) -> Vec<Done> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // A line that was cut by an interrupt is none. What was missing may be there by now.
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Done>(line).ok());
    lines.filter(|done| !matches!(done.outcome, Outcome::Missing { .. })).collect()
}

#[test]
#[ignore = "a quarter of an hour: `make soak-programs`"]
fn soak_programs_print_and_end_as_natively() {
    if !has_kvm() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak-programs");
    fs::create_dir_all(&folder).unwrap();
    let mut before = kept(&folder.join(KEPT));
    let mut log = File::options().create(true).append(true).open(folder.join(KEPT)).unwrap();
    let runner = fs::read("/proc/self/exe").unwrap();
    let only = std::env::var("BAREMARK_ONLY").unwrap_or_default();
    let mut done = Vec::new();
    let controls = CONTROLS.iter().map(|case| (case, ROUNDS_OF_CONTROL));
    let others = FEW.iter().chain(MANY).map(|case| (case, ROUNDS));
    for (case, rounds) in controls.chain(others).filter(|(case, _)| case.name.contains(&only)) {
        let mut hasher = DefaultHasher::new();
        (&runner, case, rounds).hash(&mut hasher);
        let key = hasher.finish();
        if let Some(at) = before.iter().position(|done| done.key == key) {
            done.push(before.swap_remove(at));
            continue;
        }
        let one = Done { key, name: case.name.to_owned(), outcome: outcome_of(case, rounds) };
        writeln!(log, "{}", serde_json::to_string(&one).unwrap()).unwrap();
        println!("{}: {:?}", one.name, one.outcome);
        done.push(one);
    }
    let text = table(&done);
    println!("\n{text}");
    fs::write(folder.join("table.md"), &text).unwrap();
    let failures = failures(&done, only.is_empty());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
#[ignore = "minutes: `make soak`"]
fn soak_threads_under_thread_sanitizer_end_every_time() {
    if !has_kvm() {
        return;
    }
    let case = MANY.iter().find(|case| case.name == "ThreadSanitizer").unwrap();
    if let Some(what) = missing(case) {
        skip(&format!("no {what}"));
        return;
    }
    let (first, _) = natively(case, LONGEST).unwrap();
    assert!(says_something(case, &first), "prints nothing natively: {first:?}");
    let expected = compared(case, &first);
    for run in 1..=RUNS_OF_THREADS {
        let (found, report) = in_the_guest(case, LONGEST).unwrap_or_else(|why| panic!("run {run}: {why}"));
        assert_eq!(compared(case, &found), expected, "left: run {run} in the guest, right: natively; {report:?}");
    }
}
