//! Tests that judge live measurements: how often each one holds.

use crate::cargo::{self, Tier};
use crate::outcome::{State, of_the_test};
use crate::record;
use crate::run::{self, Manner, chosen};
use std::process::ExitCode;

/// So many rounds without `--rounds`.
pub const ROUNDS: u32 = 3;

/// Of so many rounds as hold at least, where the test prints no line `bound: SHARE`.
const BOUND: f64 = 0.9;

/// Runs them, round after round, and prints a table of rates. Fails where one holds less often than its bound. `recorded` writes what was tried
/// into docs/measured.md.
pub fn measured(filters: &[String], rounds: u32, recorded: bool) -> Result<ExitCode, String> {
    let tests = chosen(cargo::tests(Tier::Measured, None)?, filters)?;
    let mut held = vec![(0, 0, BOUND); tests.len()];
    let mut figures = vec![Vec::new(); tests.len()];
    for round in 1..=rounds {
        println!("round {round} of {rounds}, {} tests", tests.len());
        let outcomes = run::run(&tests, Manner::of(Tier::Measured), |_, _, _| ())?;
        for ((outcome, (held, tried, bound)), figures) in outcomes.iter().zip(&mut held).zip(&mut figures) {
            *bound = bound_of(&outcome.output).unwrap_or(*bound);
            figures.extend(figure(&outcome.output));
            match outcome.state {
                State::Skipped => println!("skipped: {}: {}", outcome.test.full(), outcome.reasons().join("; ")),
                State::Passed => (*held, *tried) = (*held + 1, *tried + 1),
                State::Failed => {
                    *tried += 1;
                    println!("\n{} does not hold:\n{}\n", outcome.test.full(), of_the_test(&outcome.output));
                }
            }
        }
    }
    println!("\n| measured | holds in | bound | |\n|---|---|---|---|");
    let mut good = true;
    let mut rows = Vec::new();
    for ((test, (held, tried, bound)), figures) in tests.iter().zip(held).zip(figures) {
        let verdict = verdict(held, tried, bound);
        good &= verdict != "short";
        println!("| {} | {held} of {tried} | {bound} | {verdict} |", test.full());
        if tried > 0 {
            rows.push(record::Measured { test: test.name.clone(), held, tried, bound, figures });
        }
    }
    if recorded {
        record::measured(&rows)?;
    }
    Ok(run::exit_code(good))
}

/// What a test says that it has measured: its last line `measured: FIGURE`.
fn figure(output: &str) -> Option<String> {
    output.lines().rev().find_map(|line| line.strip_prefix("measured: ")).map(|figure| figure.trim().to_owned())
}

fn bound_of(output: &str) -> Option<f64> {
    output.lines().find_map(|line| line.strip_prefix("bound: ")?.trim().parse().ok())
}

/// Whether so many of so many are enough.
fn verdict(held: u32, tried: u32, bound: f64) -> &'static str {
    if tried == 0 {
        "not tried"
    } else if f64::from(held) >= (bound * f64::from(tried)).floor().max(1.0) {
        "ok"
    } else {
        "short"
    }
}

#[cfg(test)]
mod tests {
    use super::{bound_of, figure, verdict};

    #[test]
    fn a_rate_is_judged_by_its_bound() {
        assert_eq!(verdict(18, 20, 0.9), "ok");
        assert_eq!(verdict(17, 20, 0.9), "short");
        assert_eq!(verdict(2, 3, 0.9), "ok", "one of three may fail: 2.7 of 3");
        assert_eq!(verdict(1, 3, 0.9), "short");
        assert_eq!((verdict(0, 1, 0.9), verdict(1, 1, 0.9)), ("short", "ok"), "one that never holds is none");
        assert_eq!(verdict(0, 0, 0.9), "not tried");
        assert_eq!(bound_of("a\nbound: 0.5\n"), Some(0.5));
        assert_eq!(bound_of("bound: much\n"), None);
        assert_eq!(figure("measured: 1\nmeasured: 2 %\nok\n").as_deref(), Some("2 %"));
        assert_eq!(figure("nothing\n"), None);
    }
}
