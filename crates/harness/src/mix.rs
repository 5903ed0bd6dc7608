//! Whether users did what they were meant to: the mix of operations, judged by what chance allows.
//!
//! Shares of all operations depend on how far a run has come and on how much is bid, so that no fixed list of them can be
//! right at small loads. What is exactly multinomial is each *draw*: whoever chooses among the six ways of `other` chooses by
//! fixed weights, whatever happened before. Their counts are compared with the weights by simultaneous intervals (Goodman
//! 1965); and operations that always follow each other must be about equally many.

use baremark_load::document::Document;
use baremark_stats::multinomial::{goodman, off_mix};
use serde::{Deserialize, Serialize};

/// Operations that only the draw leads to, with their weights.
const DRAWN: [(&str, f64); 6] = [
    ("auction-detail", 20.0),
    ("bid-history", 12.0),
    ("attendance-history", 12.0),
    ("purchase-history", 12.0),
    ("add-item", 12.0),
    ("logout", 12.0),
];
/// Pairs of which the second always follows the first.
const CHAINS: [(&str, &str); 4] =
    [("home", "login"), ("login", "profile"), ("auction-detail", "item-detail"), ("item-detail", "image")];
/// Confidence of the intervals, for all shares at once.
const CONFIDENCE: f64 = 0.999;

/// What the mix shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// Whether it is as meant.
    pub kept: bool,
    /// What is off, in words.
    pub off: Vec<String>,
    /// The drawn operations.
    pub shares: Vec<Share>,
}

/// One drawn operation's share of the draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The operation.
    pub operation: String,
    /// As meant.
    pub wanted: f64,
    /// As counted; absent without draws.
    pub found: Option<f64>,
    /// Its simultaneous interval.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
}

/// The mix of a window; `tolerance` is relative and beyond what chance allows. `in_flight` bounds how far ends of a chain may
/// be apart: what began before the window or ended after it.
#[must_use]
pub fn judge(document: &Document, tolerance: f64, in_flight: u64) -> Mix {
    let ended = |name: &str| {
        document.operations.iter().find(|row| row.name == name).map_or(0, |row| row.succeeded + row.failed)
    };
    let counts: Vec<u64> = DRAWN.iter().map(|(name, _)| ended(name)).collect();
    let sum: f64 = DRAWN.iter().map(|(_, weight)| weight).sum();
    let wanted: Vec<f64> = DRAWN.iter().map(|(_, weight)| weight / sum).collect();
    let mut off: Vec<String> = off_mix(&counts, &wanted, tolerance, CONFIDENCE)
        .into_iter()
        .map(|at| {
            format!(
                "{} {} of {} draws, expected {:.1} %",
                DRAWN[at].0,
                counts[at],
                counts.iter().sum::<u64>(),
                100.0 * wanted[at]
            )
        })
        .collect();
    for (first, second) in CHAINS {
        let (before, after) = (ended(first), ended(second));
        // Counts of what is on its way at either end are as many as users at most.
        if before.abs_diff(after) > in_flight.max(before / 5) {
            off.push(format!("{before} {first} but {after} {second}"));
        }
    }
    let intervals = goodman(&counts, CONFIDENCE).unwrap_or_default();
    let shares = DRAWN
        .iter()
        .enumerate()
        .map(|(at, (name, _))| Share {
            operation: (*name).to_owned(),
            wanted: wanted[at],
            found: intervals.get(at).map(|share| share.share),
            low: intervals.get(at).map(|share| share.lo),
            high: intervals.get(at).map(|share| share.hi),
        })
        .collect();
    Mix { kept: off.is_empty(), off, shares }
}
