//! The figures of a report: searches, latencies and curves, and what each block gave over the course of the run. Ratios with their intervals
//! are drawn in the rows of the answer ([`crate::lane`]).
//!
//! Ratios are drawn on a logarithmic axis, on which half and twice are equally far from 1. Labels are above what they
//! name, so that a figure is as readable on a telephone as on a wide screen.

use crate::application;
pub use crate::axis::Figure;
use crate::axis::{Axis, LEFT, MARGIN, WIDTH};
use crate::crowd;
use crate::curve;
use crate::knee;
use crate::latency;
use crate::mark::Mark;
use crate::number::{fixed, percent, rounded, three_digits};
use crate::per_workload::{Part, parts};
use crate::roofline;
use crate::svg::{Anchor, Svg};
use crate::text::clean;
use crate::tile;
use crate::timeline;
use crate::treatment::Factors;
use crate::words::{Quantity, limits_of, ratio_of};
use baremark_model::document::{Document, RatioRow, TrialRow};
use baremark_model::plan::{Contrast, Treatment};

/// Ratios of a workload of which every block is drawn; a study can have thousands.
const MOST: usize = 40;

/// The figures of a document, in the order in which a report shows them.
#[must_use]
pub fn figures(document: &Document) -> Vec<Figure> {
    let courses = of_blocks(document);
    answers(document).into_iter().chain(courses).chain(timeline::figures(&parts(document)).0).collect()
}

/// The figures of what the run is for.
pub(crate) fn answers(document: &Document) -> Vec<Figure> {
    let parts = parts(document);
    let curves = parts.iter().flat_map(curve::curves);
    let latencies = parts.iter().flat_map(latency::figures);
    let searches = knee::figures(document).into_iter().chain(tile::figures(document));
    let answers = searches.chain(application::figures(document)).chain(latencies).chain(curves);
    answers.chain(roofline::figure(&parts)).collect()
}

/// What every block gave.
pub(crate) fn of_blocks(document: &Document) -> Vec<Figure> {
    parts(document).iter().flat_map(courses).collect()
}

/// `text` with the workload in front of it, where there are several.
fn of_part(part: &Part<'_>, text: &str) -> String {
    part.name.map_or_else(|| text.to_owned(), |name| format!("{}: {text}", clean(name)))
}

/// What a ratio compares: the treatment, and the other where it is not plain from it.
fn label(document: &Document, row: &RatioRow) -> String {
    let factors = Factors::of(&document.run);
    match row.contrast {
        Contrast::Factor | Contrast::PageSize | Contrast::Frames => {
            format!("{} : {}", factors.name(&row.treatment), factors.name(&row.relative_to))
        }
        Contrast::Environment | Contrast::SelfCheck => factors.name(&row.treatment),
    }
}

/// What every block gave for one ratio, or for one treatment where no ratio was requested.
struct Course {
    label: String,
    points: Vec<(u64, Option<f64>, Mark)>,
    limits: Option<[f64; 2]>,
    centre: Option<f64>,
    ratio: bool,
}

/// One figure for each ratio: its value in every block, in order.
fn courses(part: &Part<'_>) -> Vec<Figure> {
    let document = &*part.document;
    let of_metric = |row: &&RatioRow| row.metric == document.run.metric;
    let ratios = document.ratios.iter().filter(of_metric).map(|row| ratio_course(document, row));
    let mut courses: Vec<Course> = ratios.filter(|course| !course.points.is_empty()).take(MOST).collect();
    if courses.is_empty() {
        let rows = document.estimates.iter().filter(|row| row.metric == document.run.metric);
        courses = rows
            .map(|row| Course {
                label: Factors::of(&document.run).name(&row.treatment),
                points: points(
                    document,
                    |trial| median(document, trial, &row.treatment),
                    |trial| trial.arms.iter().any(|arm| arm.treatment == row.treatment),
                ),
                limits: row
                    .lo
                    .zip(row.hi)
                    .map(|(lo, hi)| [lo, hi])
                    .filter(|ends| ends.iter().all(|end| end.is_finite())),
                centre: Some(row.estimate).filter(|estimate| estimate.is_finite()),
                ratio: false,
            })
            .filter(|course| !course.points.is_empty())
            .take(MOST)
            .collect();
    }
    (1..).zip(&courses).filter_map(|(number, course)| draw(part, course, number)).collect()
}

fn ratio_course(document: &Document, row: &RatioRow) -> Course {
    let belongs = |trial: &TrialRow| match trial.arms.as_slice() {
        [below, above] => below.treatment == row.relative_to && above.treatment == row.treatment,
        _ => false,
    };
    let cell = document.trials.iter().find(|trial| belongs(trial)).map(|trial| trial.cell);
    let value = |trial: &TrialRow| {
        let [below, above] = trial.arms.as_slice() else { return None };
        let of = |arm: &baremark_model::document::TrialArm| {
            arm.medians.iter().find(|sample| sample.metric == row.metric).map(|sample| sample.value)
        };
        // What has no logarithm has no place.
        Some(of(above)? / of(below)?).filter(|ratio| *ratio > 0.0)
    };
    Course {
        label: label(document, row),
        points: points(document, value, |trial| Some(trial.cell) == cell),
        limits: limits_of(row).map(|(lo, hi)| [lo, hi]),
        centre: ratio_of(row),
        ratio: true,
    }
}

fn median(document: &Document, trial: &TrialRow, treatment: &Treatment) -> Option<f64> {
    let arm = trial.arms.iter().find(|arm| arm.treatment == *treatment)?;
    arm.medians.iter().find(|sample| sample.metric == document.run.metric).map(|sample| sample.value)
}

fn points(
    document: &Document,
    value: impl Fn(&TrialRow) -> Option<f64>,
    belongs: impl Fn(&TrialRow) -> bool,
) -> Vec<(u64, Option<f64>, Mark)> {
    let trials = document.trials.iter().filter(|trial| belongs(trial));
    trials.map(|trial| (trial.block, value(trial).filter(|v| v.is_finite()), Mark::of(trial))).collect()
}

fn draw(part: &Part<'_>, course: &Course, number: usize) -> Option<Figure> {
    let document = &*part.document;
    const HEIGHT: f64 = 150.0;
    const TOP: f64 = 10.0;
    // A single dot is no course.
    if course.points.iter().filter(|(_, value, _)| value.is_some()).count() < 2 {
        return None;
    }
    let values = course.points.iter().filter_map(|(_, value, _)| *value);
    let shown = values.chain(course.limits.into_iter().flatten()).chain(course.centre);
    let up = Axis::over(shown, [TOP + HEIGHT, TOP], course.ratio)?;
    let last = course.points.iter().map(|(block, ..)| *block).max().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "counts of blocks are small")]
    let blocks = |block: u64| LEFT + 8.0 + (WIDTH - MARGIN - LEFT - 16.0) * block as f64 / (last.max(1)) as f64;
    let name = part.name.map_or_else(|| format!("course-{number}"), |of| format!("{of}-course-{number}"));
    let label = of_part(part, &course.label);
    let title = format!("{label}: block by block");
    let mut svg = Svg::new(&name, [WIDTH, TOP + HEIGHT + 36.0], &title, &course_in_words(course));
    if let Some([lo, hi]) = course.limits {
        svg.rect("limits", [LEFT, up.at(hi)], [WIDTH - MARGIN - LEFT, up.at(lo) - up.at(hi)]);
    }
    up.draw_upright(&mut svg);
    if course.ratio && (up.least..=up.most).contains(&0.0) {
        svg.line("one", [LEFT, up.at(1.0)], [WIDTH - MARGIN, up.at(1.0)]);
    }
    if let Some(centre) = course.centre {
        svg.line("estimate", [LEFT, up.at(centre)], [WIDTH - MARGIN, up.at(centre)]);
    }
    let many = course.points.len() > crowd::MANY;
    if many {
        let passed = course.points.iter().map(|&(block, value, mark)| crowd::Passed {
            block,
            value,
            counts: mark != Mark::Void,
        });
        crowd::course(&mut svg, passed, (last, [blocks(0), blocks(last)]), |value| up.at(value), TOP + HEIGHT);
    }
    for &(block, value, mark) in course.points.iter().filter(|_| !many) {
        let at = [blocks(block), value.map_or(TOP + HEIGHT, |value| up.at(value))];
        let says = value.map_or_else(|| "no value".to_owned(), |value| fixed(value, three_digits(value) + 1));
        let says = format!("block {}: {says}", block + 1);
        match mark {
            Mark::Counts => svg.dot("point", at, 2.8, &says),
            Mark::Flagged => svg.dot("point flagged", at, 3.2, &format!("{says}, flagged")),
            Mark::Void => svg.cross("void", at, 4.0, &format!("{says}, does not count")),
        }
    }
    svg.text("tick", [blocks(0), TOP + HEIGHT + 18.0], Anchor::Middle, "1");
    if last > 0 {
        // A long number ends with the axis.
        let (x, anchor) = if many { (WIDTH - MARGIN, Anchor::End) } else { (blocks(last), Anchor::Middle) };
        svg.text("tick", [x, TOP + HEIGHT + 18.0], anchor, &(last + 1).to_string());
    }
    svg.text("axis", [f64::midpoint(LEFT, WIDTH), TOP + HEIGHT + 32.0], Anchor::Middle, "block");
    let what = if course.ratio { "ratio".to_owned() } else { Quantity::of(document, &document.run.metric).unit };
    let blocks = if many { "over the blocks" } else { "in each block" };
    Some(Figure { caption: format!("{label}: {what} {blocks}"), name, svg })
}

fn course_in_words(course: &Course) -> String {
    let values: Vec<f64> = course.points.iter().filter_map(|(_, value, _)| *value).collect();
    let discarded = course.points.iter().filter(|(.., mark)| *mark == Mark::Void).count();
    let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), &v| (l.min(v), m.max(v)));
    if values.is_empty() {
        return format!("{} trials, none with a value", course.points.len());
    }
    let invalid = if discarded == 0 { String::new() } else { format!(", {discarded} not counting") };
    let spread = match least > 0.0 {
        true => format!("the largest value is {} above the smallest", percent(most / least - 1.0)),
        false => format!("values from {} to {}", rounded(least), rounded(most)),
    };
    format!("{} trials{invalid}; {spread}", course.points.len())
}
