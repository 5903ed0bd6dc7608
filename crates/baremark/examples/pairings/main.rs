//! `make bench`: what baremark reaches compared with named peers, one line a pairing.
//!
//!     make bench                                    # all pairings; says how long it will take
//!     make bench-quick                              # small sizes and few rounds: a look
//!     make bench ONLY="hpl stream-reference"        # some of them
//!     target/x86_64-unknown-linux-gnu/release/examples/pairings --list
//!
//! Both sides of a pairing run by turns in one session, the order changing from round to round; the ratio is the mean of the
//! rounds' log ratios, or their median where some lie far off, with its 95 % interval. A line ends in `ok` when the interval's lower limit is at least the goal less 2 %,
//! in `SHORT` when its upper limit is below the goal, else in `undecided`; a pairing without a goal says `no goal`. Other work on the machine widens the interval; it
//! is not an excuse for a line. Peers are built by scripts/bench-peers into a folder that is given as $BAREMARK_PEERS.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints what it measures")]

mod author;
mod ours;
mod pairings;
mod peers;
mod reached;
mod verdict;

use baremark_stats::location::SMALLEST;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a pairing works with.
struct Bench {
    /// Rounds of each pairing.
    rounds: u64,
    /// Small sizes.
    quick: bool,
    /// The peers' folder; `None` where nobody has built them.
    peers: Option<peers::Peers>,
}

/// Rounds of each pairing.
const ROUNDS: u64 = 12;
/// The same of `--quick`: the fewest that have an interval.
const QUICK_ROUNDS: u64 = SMALLEST as u64;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, names): (Vec<String>, Vec<String>) = arguments.into_iter().partition(|word| word.starts_with("--"));
    if flags.iter().any(|flag| flag == "--list") {
        pairings::ALL.iter().for_each(|pairing| println!("{:24} {}", pairing.name, pairing.help));
        return ExitCode::SUCCESS;
    }
    let quick = flags.iter().any(|flag| flag == "--quick");
    if let Some(unknown) = names.iter().find(|name| !pairings::ALL.iter().any(|pairing| pairing.name == **name)) {
        eprintln!("there is no pairing '{unknown}'; --list names them");
        return ExitCode::from(2);
    }
    let chosen =
        pairings::ALL.iter().filter(|pairing| names.is_empty() || names.iter().any(|name| name == pairing.name));
    let chosen: Vec<_> = chosen.collect();
    let bench = Bench { rounds: if quick { QUICK_ROUNDS } else { ROUNDS }, quick, peers: peers::Peers::find() };
    let expected: Duration = chosen.iter().map(|pairing| pairing.lasts(quick)).sum();
    println!("{} pairings, about {} min on a quiet machine", chosen.len(), expected.as_secs().div_ceil(60));
    let begun = Instant::now();
    let mut failed = 0;
    for pairing in chosen {
        let began = Instant::now();
        match (pairing.run)(&bench) {
            Ok(line) => println!("{:24} {line} ({} s)", pairing.name, began.elapsed().as_secs()),
            Err(why) => {
                failed += 1;
                println!("{:24} could not be run: {why}", pairing.name);
            }
        }
    }
    println!("lasted {} s", begun.elapsed().as_secs());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
