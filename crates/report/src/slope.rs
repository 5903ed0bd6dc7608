//! The headline's metric against another metric that was measured in the same trials: the slope in words, the points in a table.

use crate::grid::{Cell, Grid, GridRow};
use crate::number::{count, estimate, rounded};
use crate::section::Group;
use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::document::{Document, EstimateRow, SlopeRow};

/// One group for each line.
pub(crate) fn groups(document: &Document) -> Vec<Group> {
    document.slopes.iter().map(|slope| group(document, slope)).collect()
}

fn group(document: &Document, slope: &SlopeRow) -> Group {
    let factors = Factors::of(&document.run);
    let rest: Vec<String> =
        factors.levels(&slope.treatment, &[]).iter().map(|(key, label)| format!("{key} = {label}")).collect();
    let of = if rest.is_empty() { String::new() } else { format!(", {}", clean(&rest.join(", "))) };
    Group {
        head: format!("{} against {}{of}", slope.metric, slope.against),
        lines: vec![sentence(slope)],
        grids: vec![points(document, slope)],
    }
}

fn sentence(slope: &SlopeRow) -> String {
    let by = format!("{} by {} of {}", slope.unit, slope.against_unit, slope.against);
    let (points, blocks) = (count(slope.points as u64, "point"), count(slope.blocks as u64, "block"));
    let known = match (slope.lo, slope.hi) {
        (Some(_), Some(_)) => format!("95 % interval over {blocks}, a line through {points} in each"),
        _ => format!("{blocks} of {points}, too few for an interval"),
    };
    let at_zero = rounded(slope.at_zero);
    format!(
        "Slope {} {by} ({known}); {at_zero} {} where {} is 0.",
        estimate(slope.slope, slope.lo, slope.hi),
        slope.unit,
        slope.against
    )
}

/// Both metrics of every treatment of the line, and of those that lack the other one.
fn points(document: &Document, slope: &SlopeRow) -> Grid {
    let columns = &document.run.columns;
    let belongs = |row: &&EstimateRow| {
        let shared = row.treatment.iter().filter(|(key, _)| *key != columns);
        row.metric == slope.metric && shared.eq(slope.treatment.iter())
    };
    let shown = |row: &EstimateRow| estimate(row.estimate, row.lo, row.hi);
    let row = |row: &EstimateRow| {
        let other = |other: &&EstimateRow| other.metric == slope.against && other.treatment == row.treatment;
        let other = document.estimates.iter().find(other).map(shown);
        let cells = [other, Some(shown(row))];
        let cell = |text: Option<String>| text.map_or(Cell::Blank, |estimate| Cell::Measured { estimate, ratio: None });
        let label = row.treatment.get(columns).map_or_else(String::new, |label| clean(label));
        GridRow { label, cells: cells.into_iter().map(cell).collect() }
    };
    Grid {
        caption: format!("{} by {columns}", slope.metric),
        columns: vec![
            format!("{}, {}", slope.against, slope.against_unit),
            format!("{}, {}", slope.metric, slope.unit),
        ],
        rows: document.estimates.iter().filter(belongs).map(row).collect(),
        reasons: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::plan::Treatment;

    #[test]
    fn a_slope_is_a_sentence_with_its_interval_or_says_that_it_has_none() {
        let mut slope = SlopeRow {
            metric: "step_us".to_owned(),
            unit: "us/step".to_owned(),
            against: "round_trip_us".to_owned(),
            against_unit: "us".to_owned(),
            treatment: Treatment::new(),
            points: 5,
            blocks: 6,
            slope: 3.214,
            lo: Some(3.114),
            hi: Some(3.314),
            at_zero: 812.3,
        };
        assert_eq!(
            sentence(&slope),
            "Slope 3.21 ± 0.10 us/step by us of round_trip_us (95 % interval over 6 blocks, a line through 5 points in each); \
             812 us/step where round_trip_us is 0."
        );
        (slope.lo, slope.hi, slope.blocks) = (None, None, 1);
        assert_eq!(
            sentence(&slope),
            "Slope 3.21 us/step by us of round_trip_us (1 block of 5 points, too few for an interval); 812 us/step where round_trip_us is 0."
        );
    }
}
