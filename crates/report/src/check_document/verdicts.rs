//! A verdict is what its interval shows.

use super::violation::{Found, ROUNDING, place};
use baremark_model::distinct::distinct;
use baremark_model::document::{Document, Outcome, RatioRow, Size};
use baremark_model::metric::Better;

pub(super) fn check(document: &Document, found: &mut Found) {
    let delta = document.run.design.delta.0;
    for row in &document.ratios {
        let at = || place(document, "ratio", &row.metric, &row.treatment);
        let of = document.estimates.iter().find(|estimate| estimate.metric == row.metric);
        let better = of.map_or(Better::Higher, |estimate| estimate.better);
        let shown = || format!("{:?} at {:?} to {:?}", row.outcome, row.lo, row.hi);
        let holds = possible(row, delta, better).contains(&row.outcome);
        found.unless(holds, at, shown, "a verdict is what its interval shows");
        let sizes: &[Size] = match row.outcome {
            Outcome::Equivalent => &[Size::Equivalent],
            Outcome::NoLarger => &[Size::Inconclusive],
            Outcome::NotEnough | Outcome::Emulated => &[Size::Unknown],
            _ => &[Size::Percent, Size::Factor],
        };
        let sized = || format!("{:?} and {:?}, '{}'", row.outcome, row.size, row.words);
        found.unless(sizes.contains(&row.size) && says(row), at, sized, "words and size are those of the verdict");
        let known = row.blocks > 0 || row.ratio.is_none();
        found.unless(known, at, || format!("{:?} from no block", row.ratio), "a ratio comes from blocks");
    }
}

/// Whether the words claim no direction that the outcome leaves open.
fn says(row: &RatioRow) -> bool {
    let claims = ["slower by", "faster by", "lower by", "higher by", " times as "];
    let open = matches!(row.outcome, Outcome::NoLarger | Outcome::NotEnough | Outcome::Emulated | Outcome::Equivalent);
    !(open && claims.iter().any(|words| row.words.contains(words)))
}

/// The outcomes that an interval may have: one, or two where an end lies on an edge but for rounding.
fn possible(row: &RatioRow, delta: f64, better: Better) -> Vec<Outcome> {
    let Some((lo, hi)) = row.lo.zip(row.hi) else {
        return vec![if row.emulated { Outcome::Emulated } else { Outcome::NotEnough }];
    };
    if row.emulated {
        return vec![Outcome::Emulated];
    }
    let roundings =
        [(0.0, 0.0), (ROUNDING, ROUNDING), (-ROUNDING, -ROUNDING), (ROUNDING, -ROUNDING), (-ROUNDING, ROUNDING)];
    let outcome = |(down, up): (f64, f64)| outcome_of((lo * (1.0 + down), hi * (1.0 + up)), delta, better);
    distinct(roundings.map(outcome))
}

fn outcome_of((lo, hi): (f64, f64), delta: f64, better: Better) -> Outcome {
    let (below, above) = (1.0 / (1.0 + delta), 1.0 + delta);
    let up = better == Better::Higher;
    match () {
        () if lo >= below && hi <= above => Outcome::Equivalent,
        () if lo > above => {
            if up {
                Outcome::FasterByMore
            } else {
                Outcome::SlowerByMore
            }
        }
        () if hi < below => {
            if up {
                Outcome::SlowerByMore
            } else {
                Outcome::FasterByMore
            }
        }
        () if lo > 1.0 => {
            if up {
                Outcome::Faster
            } else {
                Outcome::Slower
            }
        }
        () if hi < 1.0 => {
            if up {
                Outcome::Slower
            } else {
                Outcome::Faster
            }
        }
        () => Outcome::NoLarger,
    }
}
