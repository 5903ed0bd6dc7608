//! The table of other people's programs: what became of each, its totals, and why it fails.

use crate::cases::{CONTROLS, LIMIT};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Programs of the whole table that must be identical at least.
pub const FEWEST: usize = 36;
/// Characters of a difference that are printed.
const SHOWN: usize = 600;

/// What became of a program.
#[derive(Debug, Serialize, Deserialize)]
pub enum Outcome {
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
pub struct Done {
    /// Of the runner and of what is run.
    pub key: u64,
    pub name: String,
    pub outcome: Outcome,
}

fn is_control(name: &str) -> bool {
    CONTROLS.iter().any(|control| control.name == name)
}

/// What an interval of a run time over the native one says of the limit.
pub fn verdict([_, low, high]: [f64; 3]) -> &'static str {
    match () {
        () if high <= LIMIT => "ok",
        () if low > LIMIT => "SHORT",
        () => "undecided",
    }
}

/// The table, its totals, and what differs.
pub fn table(done: &[Done]) -> String {
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
pub fn failures(done: &[Done], whole: bool) -> Vec<String> {
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
