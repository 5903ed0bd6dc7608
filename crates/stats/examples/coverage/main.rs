//! Prints the tables of docs/statistics.md: what the intervals cover under the stopping rule, and why the estimate was chosen.
//!
//! `cargo run --release --locked -p baremark-stats --example coverage -- [coverage | estimators | extensions] [STUDIES]`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::allow_attributes,
    reason = "an example that prints"
)]

mod estimators;
#[path = "../../tests/stats/simulated.rs"]
mod simulated;

use baremark_stats::interim::rate;
use simulated::{Noise, SIZES, Start, coverage, coverage_extended};
use std::process::ExitCode;

/// From strict to lax, as multiples of the half-width that is typical of the size.
const PRECISIONS: [f64; 4] = [0.8, 1.0, 1.3, 1.8];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let table = arguments.next_if(|word| word.parse::<u64>().is_err()).unwrap_or_else(|| "coverage".to_owned());
    let studies = arguments.next().and_then(|word| word.parse().ok()).unwrap_or(10_000);
    match table.as_str() {
        "coverage" => coverage_table(studies),
        "estimators" => estimators::table(studies),
        "extensions" => extensions_table(studies),
        other => {
            eprintln!("unknown table: {other}; write coverage, estimators or extensions");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn coverage_table(studies: u64) {
    for (start, title) in [
        (Start::AtFour, "Studies that begin with 4 blocks and end at the size at the latest"),
        (Start::AtSize, "Studies that begin with the size and end at twice the size at the latest"),
    ] {
        println!("\n{title}: coverage in %, lowest and highest of four precisions, {studies} studies each\n");
        println!("| noise | {} |", SIZES.map(|size| size.to_string()).join(" | "));
        println!("|---|{}", "---|".repeat(SIZES.len()));
        for noise in Noise::INDEPENDENT.into_iter().chain(Noise::SKEWED).chain(Noise::CORRELATED) {
            let cells = SIZES.map(|size| cell(noise, size, start, studies));
            println!("| {} | {} |", noise.name(), cells.join(" | "));
        }
    }
}

/// Of studies that somebody extends until they show a difference.
fn extensions_table(studies: u64) {
    const MOST: [usize; 5] = [0, 1, 2, 3, 5];
    println!("\nCoverage in %, {studies} studies of 10 blocks each\n");
    println!("| extensions at most | {} |", MOST.map(|most| most.to_string()).join(" | "));
    println!("|---|{}", "---|".repeat(MOST.len()));
    for (name, rate) in
        [("95 % each time", (|_| 0.05) as fn(usize) -> f64), ("a third of the error rate each time", rate)]
    {
        let of = |most| format!("{:.1}", 100.0 * coverage_extended(Noise::Normal, 10, most, rate, studies));
        println!("| {name} | {} |", MOST.map(of).join(" | "));
    }
}

fn cell(noise: Noise, size: u32, start: Start, studies: u64) -> String {
    let covered = PRECISIONS.map(|precision| 100.0 * coverage(noise, size, start, precision, studies).covered);
    let (lowest, highest) =
        (covered.iter().copied().fold(100.0, f64::min), covered.iter().copied().fold(0.0, f64::max));
    if highest - lowest < 0.05 { format!("{lowest:.1}") } else { format!("{lowest:.1}-{highest:.1}") }
}
