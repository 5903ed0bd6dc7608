//! What to do next about comparisons that are open.

use crate::answer::headline_of;
use crate::number::{self, count, duration};
use crate::per_workload::Part;
use crate::provenance::blocks;
use crate::text::clean;
use baremark_model::codes::Origin;
use baremark_model::document::{Document, Outcome, RatioRow};
use std::collections::BTreeMap;

/// What would decide the comparisons that are open: blocks, the time that they take, and the command.
pub(crate) fn next_step(document: &Document, parts: &[Part<'_>]) -> Option<String> {
    /// A run that takes longer is no next step.
    const LONGEST_NS: u64 = 24 * 3_600_000_000_000;
    const MINUTE_NS: u64 = 60_000_000_000;
    let all = || parts.iter().flat_map(headline_of);
    // What has not one block after several gets none by waiting.
    let begun = |row: &RatioRow| row.blocks > 0 || blocks(document) == 0;
    let is_open = |row: &&RatioRow| matches!(row.outcome, Outcome::NoLarger | Outcome::NotEnough) && begun(row);
    let more: Vec<u64> = all().filter(is_open).filter_map(|row| row.more_blocks).collect();
    let (have, each) = (blocks(document).max(1), block_of(document));
    if each == 0 {
        return None;
    }
    let most = more.iter().copied().filter(|blocks| each.saturating_mul(have + blocks) <= LONGEST_NS).max()?;
    let settled: Vec<&RatioRow> =
        all().filter(is_open).filter(|row| row.more_blocks.is_some_and(|blocks| blocks <= most)).collect();
    let of = all().count();
    let it = if of == 1 { "it".to_owned() } else { format!("{} of {of}", settled.len()) };
    // What has no interval yet gets one, whatever it says.
    let verb = match settled.iter().all(|row| row.outcome == Outcome::NotEnough) {
        true => "give an interval to",
        false => "decide",
    };
    let amount = format!("about {} ({}) would {verb} {it}", count(most, "more block"), duration(each * most));
    let (run, id) = (&document.run, clean(&document.run.id));
    // What has ended as precise as it was to be goes on for a smaller precision alone.
    let reached =
        document.looks.last().and_then(|look| look.half_width).filter(|width| *width <= run.design.precision.0);
    let precision = reached.map_or_else(String::new, |width| {
        let wanted = width * (have as f64 / (have + most) as f64).sqrt();
        format!(" --precision {}%", below(100.0 * wanted))
    });
    let minutes = (each * most).div_ceil(MINUTE_NS);
    let command = match (&run.ended, Origin::of(&run.file)) {
        (_, Origin::Load | Origin::Import(_)) => return None,
        (None, _) => format!(": baremark resume {id}"),
        // Its sizes are small, whatever its intervals are: it is not extended.
        (Some(_), _) if run.mode.quick => {
            return Some("run it without --quick, which has full sizes and more blocks".to_owned());
        }
        (Some(_), _) => format!(": baremark resume {id} --budget +{minutes}min{precision}"),
    };
    Some(format!("{amount}{command}"))
}

fn block_of(document: &Document) -> u64 {
    block_ns(document.trials.iter().map(|trial| (trial.block, trial.cell, trial.elapsed_ns)))
}

/// How long a block takes, in nanoseconds: a trial of each cell. The first of a cell, which looks for its repetitions and may start a place that is kept, stands for others
/// only where there are none. Of trials block, cell and nanoseconds are given.
#[must_use]
pub fn block_ns(trials: impl IntoIterator<Item = (u64, usize, u64)>) -> u64 {
    // Of each cell, those of the first block and those of others: how many, and their nanoseconds.
    let mut cells = BTreeMap::<usize, [(u64, u64); 2]>::new();
    for (block, cell, elapsed_ns) in trials {
        let (count, ns) = &mut cells.entry(cell).or_default()[usize::from(block > 0)];
        (*count, *ns) = (*count + 1, ns.saturating_add(elapsed_ns));
    }
    let mean = |(count, ns): (u64, u64)| ns.checked_div(count);
    let of_cell = |[first, later]: [(u64, u64); 2]| mean(later).or(mean(first)).unwrap_or(0);
    cells.into_values().map(of_cell).fold(0, u64::saturating_add)
}

/// A percentage with two digits that is not above this one.
fn below(percent: f64) -> String {
    let digits = 10_f64.powf(1.0 - percent.log10().floor());
    number::trimmed((percent * digits).floor() / digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of 6 s and five blocks of one of its two comparisons was said to take 10 s for each further block.
    #[test]
    fn a_block_takes_what_a_trial_of_each_cell_takes_after_the_first() {
        let seconds = |trials: &[(u64, usize, u64)]| {
            block_ns(trials.iter().map(|&(block, cell, s)| (block, cell, s * 1_000_000_000))) / 1_000_000_000
        };
        assert_eq!((seconds(&[]), seconds(&[(0, 0, 2), (0, 1, 4)])), (0, 6));
        assert_eq!(seconds(&[(0, 0, 2), (0, 1, 4), (1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 0, 1)]), 5);
        assert_eq!(seconds(&[(0, 0, 9), (0, 1, 9), (1, 0, 1), (1, 1, 2), (2, 0, 3), (2, 1, 2)]), 4);
    }

    /// 1.96 % was written as 2.0 %, which a run with 1.99 % had.
    #[test]
    fn a_precision_is_rounded_down() {
        let of = [1.958, 0.5401, 12.99, 0.0123].map(super::below);
        assert_eq!(of, ["1.9", "0.54", "12", "0.012"]);
    }
}
