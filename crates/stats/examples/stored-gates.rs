//! How often `check --confirm` fails where nothing has changed, and how often it finds a loss, on the noise of stored runs.
//!
//!     cargo run --release --locked -p baremark-stats --example stored-gates -- FILE
//!
//! FILE has a line for each run of one program, in the order in which they were made: the values of its blocks, in any unit, of which less is better.
//! `scripts/soak-check` writes such files. Each gate has six or twelve runs of a baseline, three that are checked and three that would confirm an alarm, all
//! of the same runs: drawn at random, or in the order in which they were made, where whatever lasts longer than a run is on one side. A loss is that much
//! more of every value that is checked. Ends with 1 where more than 1 in 1,000 gates of drawn runs fail, or fewer than 80 % find a loss of 2 %.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_stats::Rng;
use baremark_stats::estimate::sd;
use baremark_stats::gate::Confirmed;
use baremark_stats::runs::{FEWEST, Run};
use std::process::ExitCode;

const GATES: usize = 100_000;
const BASELINES: [usize; 2] = [6, 12];
const MOST_FALSE: f64 = 0.001;
const LOSS: f64 = 0.02;
const LEAST_FOUND: f64 = 0.8;

/// The shares of gates that alarm and fail without a loss, and of those that find one.
struct Shares {
    alarm: f64,
    fail: f64,
    found: f64,
}

impl Shares {
    /// Of gates of so many runs of the baseline: each has that many runs, and twice as many as a side has at least.
    fn of(gates: impl Iterator<Item = Vec<Run>>, baseline: usize) -> Self {
        let (mut gates_had, mut alarms, mut failed, mut found) = (0.0, 0.0, 0.0, 0.0);
        for runs in gates {
            let (base, others) = runs.split_at(baseline);
            let of = |loss: f64| {
                let slower: Vec<Run> =
                    others.iter().map(|run| Run { centre: run.centre + loss.ln_1p(), ..*run }).collect();
                Confirmed::of(base, &slower[..FEWEST], &slower[FEWEST..])
            };
            let (equal, lost) = (of(0.0), of(LOSS));
            gates_had += 1.0;
            alarms += f64::from(u8::from(equal.alarm));
            failed += f64::from(u8::from(equal.fails));
            found += f64::from(u8::from(lost.fails));
        }
        Shares { alarm: alarms / gates_had, fail: failed / gates_had, found: found / gates_had }
    }
}

fn main() -> Result<ExitCode, String> {
    let path = std::env::args().nth(1).ok_or("file of runs: missing; name one that scripts/soak-check wrote")?;
    let text = std::fs::read_to_string(&path).map_err(|why| format!("{path}: {why}"))?;
    let run = |line: &str| {
        let blocks: Option<Vec<f64>> =
            line.split_whitespace().map(|value| Some(value.parse::<f64>().ok()?.ln())).collect();
        blocks
            .and_then(|blocks| Run::of(&blocks))
            .ok_or_else(|| format!("{path}: '{line}'; want the values of a run's blocks"))
    };
    let runs = text.lines().map(run).collect::<Result<Vec<_>, _>>()?;
    let most = BASELINES.into_iter().max().unwrap_or_default() + 2 * FEWEST;
    if runs.len() < 2 * most {
        return Err(format!("{path}: {} runs; want {} at least", runs.len(), 2 * most));
    }
    let centres: Vec<f64> = runs.iter().map(|run| run.centre).collect();
    let spread = sd(&centres).ok_or_else(|| format!("{path}: values without a spread"))?;
    println!("{path}: {} runs, standard deviation between runs {:.2} %", runs.len(), 100.0 * spread);
    println!("baseline  gates                alarm    fail     a loss of {:.0} % fails", 100.0 * LOSS);
    let mut short = false;
    for baseline in BASELINES {
        let each = baseline + 2 * FEWEST;
        let mut rng = Rng::stream(41, baseline as u64);
        let drawn = (0..GATES).map(|_| {
            let mut all = runs.clone();
            rng.shuffle(&mut all);
            all.truncate(each);
            all
        });
        let drawn = Shares::of(drawn, baseline);
        let in_order = Shares::of(runs.windows(each).map(<[Run]>::to_vec), baseline);
        // Of a share of so many gates, three standard errors.
        let error = 3.0 * (MOST_FALSE / GATES as f64).sqrt();
        let good = drawn.fail <= MOST_FALSE + error && drawn.found >= LEAST_FOUND;
        short |= !good;
        for (how, gates, of, verdict) in [
            ("drawn", GATES, drawn, if good { "  ok" } else { "  SHORT" }),
            ("in order", runs.len() - each + 1, in_order, ""),
        ] {
            let [alarm, fail, found] = [of.alarm, of.fail, of.found].map(|share| 100.0 * share);
            println!("{baseline:>8}  {gates:>6} {how:<10} {alarm:>7.2} %  {fail:>6.3} %  {found:>6.1} %{verdict}");
        }
    }
    Ok(if short { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
