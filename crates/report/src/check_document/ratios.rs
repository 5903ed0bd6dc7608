//! A ratio does not contradict the values in its two cells.
//!
//! The quotients of what the cells' intervals hold reach from `lo / hi` to `hi / lo`. A ratio is not a quotient of cells: it is of pairs of
//! phases in the same blocks, where a cell is of every trial of its treatment, also next to other treatments and in blocks that have no
//! pair. Both estimate one quantity, so that each may miss the other by what its own interval allows: the ratio's interval must meet the
//! quotients. Two intervals of 95 % of one quantity that have nothing in common are as rare as one in 200 when they are independent, and
//! here they share most trials. A percentile's cell is of all trials' samples together, which a slow trial moves, and its ratio is of the
//! trials' own percentiles: these are two quantities.

use super::violation::{Found, place};
use baremark_model::document::{Document, EstimateRow, RatioRow};
use baremark_model::plan::{Contrast, Treatment};

pub(super) fn check(document: &Document, found: &mut Found) {
    for row in &document.ratios {
        let at = || place(document, "ratio", &row.metric, &row.treatment);
        let positive = [row.ratio, row.lo, row.hi].iter().flatten().all(|value| *value > 0.0);
        found.unless(positive, at, || format!("{:?} in {:?} to {:?}", row.ratio, row.lo, row.hi), "a ratio is above 0");
        if row.contrast != Contrast::SelfCheck {
            meets(document, row, &at, found);
        }
    }
}

fn meets(document: &Document, row: &RatioRow, at: &dyn Fn() -> String, found: &mut Found) {
    let cell = |of: &Treatment| {
        let is = |cell: &&EstimateRow| cell.metric == row.metric && cell.treatment == *of && cell.samples.is_none();
        document.estimates.iter().find(is)
    };
    let (Some(above), Some(below)) = (cell(&row.treatment), cell(&row.relative_to)) else { return };
    let limits = |cell: &EstimateRow| cell.lo.zip(cell.hi).filter(|(lo, _)| *lo > 0.0);
    let (Some((a, b)), Some((c, d)), Some((lo, hi))) = (limits(above), limits(below), row.lo.zip(row.hi)) else {
        return;
    };
    let (least, most) = (a / d, b / c);
    let what = || format!("{lo} to {hi}, and the cells' quotients are {least} to {most}");
    found.unless(lo <= most && least <= hi, at, what, "a ratio's interval meets the quotients of its cells' intervals");
}
