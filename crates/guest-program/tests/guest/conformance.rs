//! Other people's programs as a table: whether they print and end as natively, what they take, and how many calls are forwarded.
//!
//! A program runs natively and in the guest in turns, in the order of one round and then the other way round. Every run is compared with the
//! first native one. The ratio is that of run times from start to end, so that short programs show what starting a process costs.
//! The test fails when a program differs or does not end in time, when a control is slower than its limit, and when too few are identical.
//! Programs that are done are kept in a file of the target folder: a later start with the same runner does the others.
#![expect(clippy::print_stdout, reason = "a table")]

use crate::cases::{CONTROLS, Case, FEW, LIMIT, MANY};
use crate::programs::{compared, in_the_guest, missing, natively, says_something};
use crate::support::{has_kvm, skip};
use baremark_stats::Estimate;
use baremark_stats::estimate::median;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// The most wall time of a run, natively and in the guest.
const LONGEST: Duration = Duration::from_secs(30);
/// Programs of the whole table that must be identical at least.
const FEWEST: usize = 36;
/// A hang of one run in so many was seen under ThreadSanitizer.
const RUNS_OF_THREADS: usize = 45;
/// Rounds of a program; the fewest that have an interval, and more for controls.
const ROUNDS: usize = baremark_stats::location::SMALLEST;
const ROUNDS_OF_CONTROL: usize = 16;
const KEPT: &str = "programs.jsonl";
/// Characters of a difference that are printed.
const SHOWN: usize = 600;

/// What became of a program.
#[derive(Debug, Serialize, Deserialize)]
enum Outcome {
    /// It is not installed.
    Missing { what: String },
    /// It differs, fails natively, or does not end in time.
    Different { how: String },
    Identical {
        native_ms: f64,
        /// Run time in the guest over that natively, and the ends of its interval.
        ratio: [f64; 3],
        calls: u64,
        /// Programs that were executed.
        images: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct Done {
    /// Of the runner and of what is run.
    key: u64,
    name: String,
    outcome: Outcome,
}

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

fn is_control(name: &str) -> bool {
    CONTROLS.iter().any(|control| control.name == name)
}

/// What an interval of a run time over the native one says of the limit.
fn verdict([_, low, high]: [f64; 3]) -> &'static str {
    match () {
        () if high <= LIMIT => "ok",
        () if low > LIMIT => "SHORT",
        () => "undecided",
    }
}

/// The table, its totals, and what differs.
fn table(done: &[Done]) -> String {
    let mut text =
        "| program | native | microVM / native | 95 % interval | calls forwarded | programs executed | result |\n"
            .to_owned();
    text += "|---|---|---|---|---|---|---|\n";
    let (mut identical, mut absent, mut notes) = (0, Vec::new(), String::new());
    for Done { name, outcome, .. } in done {
        match outcome {
            Outcome::Missing { what } => absent.push(format!("{name} (no {what})")),
            Outcome::Different { how } => {
                let shown: String = how.chars().take(SHOWN).collect();
                writeln!(text, "| {name} | | | | | | differs |").unwrap();
                writeln!(notes, "\n{name}: {shown}").unwrap();
            }
            Outcome::Identical { native_ms, ratio, calls, images } => {
                identical += 1;
                let judged = if is_control(name) { format!(", {LIMIT}: {}", verdict(*ratio)) } else { String::new() };
                let [ratio, low, high] = ratio;
                let line =
                    format!("| {name} | {native_ms:.0} ms | {ratio:.3} | [{low:.3}, {high:.3}] | {calls} | {images} |");
                writeln!(text, "{line} identical{judged} |").unwrap();
            }
        }
    }
    writeln!(text, "\n{identical} of {} programs are identical.", done.len() - absent.len()).unwrap();
    if !absent.is_empty() {
        writeln!(text, "{} are not installed here: {}.", absent.len(), absent.join(", ")).unwrap();
    }
    text + &notes
}

/// Why the table fails; of a part of it the number of programs is not judged.
fn failures(done: &[Done], whole: bool) -> Vec<String> {
    let (mut failures, mut absent, mut identical) = (Vec::new(), Vec::new(), 0);
    for Done { name, outcome, .. } in done {
        match outcome {
            Outcome::Missing { what } => absent.push(format!("{name} (no {what})")),
            Outcome::Different { .. } => failures.push(format!("{name} differs; see the lines above")),
            Outcome::Identical { ratio, .. } => {
                identical += 1;
                if is_control(name) && verdict(*ratio) == "SHORT" {
                    let [ratio, low, high] = ratio;
                    failures.push(format!("{name}: {ratio:.3} [{low:.3}, {high:.3}] of native, above {LIMIT}"));
                }
            }
        }
    }
    if whole && identical < FEWEST {
        let missing = if absent.is_empty() { "none".to_owned() } else { absent.join(", ") };
        failures.push(format!("{identical} programs are identical, fewer than {FEWEST}; not installed: {missing}"));
    }
    failures
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

#[test]
fn a_table_counts_what_is_identical_and_names_what_differs_and_what_is_not_here() {
    let done = |name: &str, outcome: Outcome| Done { key: 0, name: name.to_owned(), outcome };
    let identical = |ratio| Outcome::Identical { native_ms: 1234.5, ratio, calls: 17, images: 1 };
    let text = table(&[
        done("C integers", identical([1.0, 0.99, 1.02])),
        done("awk loop", identical([1.1, 1.05, 1.2])),
        done("sh", identical([3.0, 2.0, 4.0])),
        done("go", Outcome::Missing { what: "go".to_owned() }),
        done("git", Outcome::Different { how: "another word".to_owned() }),
    ]);
    for part in [
        "| C integers | 1234 ms | 1.000 | [0.990, 1.020] | 17 | 1 | identical, 1.03: ok |\n",
        "| awk loop | 1234 ms | 1.100 | [1.050, 1.200] | 17 | 1 | identical, 1.03: SHORT |\n",
        "| sh | 1234 ms | 3.000 | [2.000, 4.000] | 17 | 1 | identical |\n",
        "| git | | | | | | differs |\n",
        "\n3 of 4 programs are identical.\n1 are not installed here: go (no go).\n",
        "\ngit: another word\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(verdict([1.0, 0.99, 1.04]), "undecided");
}

#[test]
fn the_table_fails_by_what_differs_by_slow_controls_and_by_too_few_programs() {
    let done = |name: &str, outcome: Outcome| Done { key: 0, name: name.to_owned(), outcome };
    let identical = |ratio| Outcome::Identical { native_ms: 1.0, ratio, calls: 1, images: 1 };
    let mut all: Vec<Done> = (0..FEWEST - 2).map(|_| done("sh", identical([3.0, 2.0, 4.0]))).collect();
    all.push(done("C integers", identical([1.02, 0.99, 1.05])));
    all.push(done("go", Outcome::Missing { what: "go".to_owned() }));
    let too_few = "35 programs are identical, fewer than 36; not installed: go (no go)";
    assert_eq!((failures(&all, true), failures(&all, false)), (vec![too_few.to_owned()], Vec::new()));
    all.push(done("awk loop", identical([1.1, 1.05, 1.2])));
    assert_eq!(failures(&all, true), ["awk loop: 1.100 [1.050, 1.200] of native, above 1.03"]);
    all.push(done("git", Outcome::Different { how: "another word".to_owned() }));
    assert_eq!(failures(&all, false)[1..], ["git differs; see the lines above"]);
}
