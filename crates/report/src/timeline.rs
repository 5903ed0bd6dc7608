//! What treatments measured over the time of their phases, as figures: how many operations of each latency there were in each stretch of time, and
//! rates. Stretches of trials that do not count, or that have a flag, are shaded.

use crate::answer::labelled;
use crate::axis::{Axis, Figure, MARGIN, Shows, WIDTH};
use crate::mark::{Mark, shades_in_words};
use crate::number::{fixed, three_digits};
use crate::part::Part;
use crate::svg::{Anchor, Svg};
use crate::text::clean;
use crate::words::Quantity;
use baremark_model::document::Document;
use baremark_model::percentile::Percentile;
use baremark_model::timeline::{BinnedLatencies, Stretch, TimelineRow, bounds};
use std::collections::BTreeSet;

const LEFT: f64 = 62.0;
const TOP: f64 = 24.0;
const HEIGHT: f64 = 150.0;
/// Fewer stretches are no course.
const FEWEST: usize = 3;
/// Figures of a part; a study can have very many treatments.
const MOST: usize = 40;
/// Shades of a heat map.
const SHADES: u8 = 5;
/// The operations of which latencies are that are those of all together.
const ALL: &str = "all";
/// The percentile that is drawn over the latencies of all operations.
const DRAWN: f64 = 0.99;
/// How the key of a count of failures begins.
const FAILED: &str = "failed";

/// The figures of a part, those of latencies first.
pub(crate) fn figures(part: &Part<'_>) -> Vec<Figure> {
    let rows = || part.document.timelines.iter().filter(|row| row.stretches.len() >= FEWEST);
    let named = |row: &TimelineRow, of: &dyn Fn(&Stretch) -> Vec<String>| -> BTreeSet<String> {
        row.stretches.iter().flat_map(of).collect()
    };
    let latencies = rows().flat_map(|row| {
        let names = named(row, &|of| of.latencies.iter().map(|one| one.name.clone()).collect());
        names.into_iter().map(move |name| (row, name))
    });
    let rates = rows().flat_map(|row| {
        let metrics = named(row, &|of| of.samples.iter().map(|one| one.metric.clone()).collect());
        metrics.into_iter().filter(|metric| is_rate(metric)).map(move |metric| (row, metric))
    });
    let mut number = 0;
    let mut name = || {
        number += 1;
        part.name.map_or_else(|| format!("timeline-{number}"), |of| format!("{of}-timeline-{number}"))
    };
    let mut all: Vec<Figure> = Vec::new();
    for (row, of) in latencies.take(MOST) {
        all.extend(heat_map(part, row, &of, name()));
    }
    let left = MOST - all.len();
    for (row, metric) in rates.take(left) {
        all.extend(rate(part, row, &metric, name()));
    }
    all
}

fn is_rate(metric: &str) -> bool {
    metric.ends_with("_per_s") || metric.ends_with("iops")
}

/// Whether the trials that a stretch is of count.
fn mark(document: &Document, row: &TimelineRow, stretch: &Stretch) -> Mark {
    let [first, last] = stretch.blocks;
    let of = document.trials.iter().filter(|trial| (first..=last).contains(&trial.block));
    let own = of.filter(|trial| trial.arms.iter().any(|arm| arm.treatment == row.treatment));
    own.map(Mark::of).max().unwrap_or(Mark::Counts)
}

/// An empty figure of a treatment over its time: the drawing, and the axis of seconds.
fn frame(document: &Document, row: &TimelineRow, svg: &mut Svg, up: (&Axis, &str)) -> Option<Axis> {
    let ends = row.stretches.iter().map(|of| of.at_s + of.seconds).chain([0.0]);
    let across = Axis::over(ends, [LEFT, WIDTH - MARGIN], false)?;
    let bottom = TOP + HEIGHT;
    for stretch in &row.stretches {
        let Some((class, _)) = mark(document, row, stretch).shade() else { continue };
        let [from, to] = [stretch.at_s, stretch.at_s + stretch.seconds].map(|at| across.at(at));
        svg.rect(class, [from, TOP], [to - from, HEIGHT]);
    }
    let (up, unit) = up;
    for (value, text) in up.ticks(4.0) {
        svg.line("rule", [LEFT, up.at(value)], [WIDTH - MARGIN, up.at(value)]);
        svg.text("tick", [LEFT - 6.0, up.at(value) + 4.0], Anchor::End, &text);
    }
    svg.text("axis", [LEFT - 6.0, 12.0], Anchor::End, unit);
    for (value, text) in across.ticks(6.0).into_iter().filter(|(value, _)| *value >= 0.0) {
        svg.line("rule", [across.at(value), bottom], [across.at(value), bottom + 4.0]);
        svg.text("tick", [across.at(value), bottom + 17.0], Anchor::Middle, &text);
    }
    let below = [f64::midpoint(LEFT, WIDTH), bottom + 34.0];
    svg.text("axis", below, Anchor::Middle, "seconds of measured time, trial after trial");
    Some(across)
}

fn marks<'d>(document: &'d Document, row: &'d TimelineRow) -> impl Iterator<Item = Mark> + 'd {
    row.stretches.iter().map(move |stretch| mark(document, row, stretch))
}

/// Latencies over time: darker where more operations took so long.
fn heat_map(part: &Part<'_>, row: &TimelineRow, of: &str, name: String) -> Option<Figure> {
    let document = &*part.document;
    let latencies = |stretch: &Stretch| -> Vec<[u64; 2]> {
        let found = stretch.latencies.iter().find(|latencies: &&BinnedLatencies| latencies.name == of);
        found.map(|found| found.bins.clone()).unwrap_or_default()
    };
    let columns: Vec<(&Stretch, Vec<[u64; 2]>)> =
        row.stretches.iter().map(|of| (of, latencies(of))).filter(|(_, bins)| !bins.is_empty()).collect();
    if columns.len() < FEWEST {
        return None;
    }
    let cells = || columns.iter().flat_map(|(_, bins)| bins);
    let ends = |bin: u64| bounds(usize::try_from(bin).unwrap_or(usize::MAX));
    let (shortest, longest) = (cells().map(|[bin, _]| *bin).min()?, cells().map(|[bin, _]| *bin).max()?);
    let (unit, per) = if ends(longest)[1] < 1e7 { ("us", 1e3) } else { ("ms", 1e6) };
    let up = Axis::over([ends(shortest)[0] / per, ends(longest)[1] / per].into_iter(), [TOP + HEIGHT, TOP], true)?;
    let most = cells().map(|[_, count]| *count).max()?;
    let operations = if of == ALL { "operations".to_owned() } else { clean(of) };
    let title = format!("{}: latency of {operations} over time", labelled(part, &row.treatment));
    let total: u64 = cells().fold(0, |sum, [_, count]| sum.saturating_add(*count));
    let [from, to] = [ends(shortest)[0], ends(longest)[1]].map(|ns| number_of(ns / per));
    let says = format!("{} stretches of time with {total} latencies from {from} to {to} {unit}", columns.len());
    let mut svg = Svg::new(&name, [WIDTH, TOP + HEIGHT + 38.0], &title, &says);
    let across = frame(document, row, &mut svg, (&up, unit))?;
    for (stretch, bins) in &columns {
        let [begin, end] = [stretch.at_s, stretch.at_s + stretch.seconds];
        for [bin, count] in bins {
            let [low, high] = ends(*bin).map(|ns| ns / per);
            let says = format!(
                "{} to {} s: {count} of {} to {} {unit}",
                number_of(begin),
                number_of(end),
                number_of(low),
                number_of(high)
            );
            let (corner, size) = (
                [across.at(begin), up.at(high)],
                [across.at(end) - across.at(begin), (up.at(low) - up.at(high)).max(1.0)],
            );
            svg.cell(&format!("heat h{}", shade(*count, most)), corner, size, &says);
        }
    }
    let line = if of == ALL { overlay(row, per, &across, &up, &mut svg) } else { "" };
    let shades = shades_in_words(marks(document, row));
    let caption = format!("{title}, {unit}: the darker, the more took so long (logarithmic){line}{shades}");
    Some(Figure { caption, name, shows: Shows::Blocks, svg })
}

/// The percentile of each stretch as a line, in units of `per` ns, and failures as crosses; what the caption says of them.
fn overlay(row: &TimelineRow, per: f64, across: &Axis, up: &Axis, svg: &mut Svg) -> &'static str {
    let middle = |of: &Stretch| across.at(of.at_s + of.seconds / 2.0);
    let percentile = |of: &Stretch| {
        of.samples.iter().find_map(|sample| {
            let percentile = Percentile::of_key(&sample.metric)?;
            let is_drawn = (percentile.share - DRAWN).abs() < 1e-9;
            is_drawn.then(|| Some(sample.value * percentile.unit_ns()? / per))?
        })
    };
    let line: Vec<[f64; 2]> =
        row.stretches.iter().filter_map(|of| Some([middle(of), up.at(percentile(of)?)])).collect();
    if line.len() > 1 {
        svg.polyline("curve c1", &line);
    }
    let mut has_failed = false;
    for of in &row.stretches {
        let failed: f64 = of.samples.iter().filter(|of| of.metric.starts_with(FAILED)).map(|of| of.value).sum();
        if failed > 0.0 {
            has_failed = true;
            let says = format!("{} s: {} failed operations", number_of(of.at_s), fixed(failed, 0));
            svg.cross("void", [middle(of), TOP + HEIGHT], 4.0, &says);
        }
    }
    match (line.len() > 1, has_failed) {
        (true, true) => "; dashed: the largest 99th percentile of a second; crosses: operations failed",
        (true, false) => "; dashed: the largest 99th percentile of a second",
        (false, true) => "; crosses: operations failed",
        (false, false) => "",
    }
}

/// By the logarithm, so that a single slow operation is seen next to very many.
fn shade(count: u64, most: u64) -> u8 {
    let share = (1.0 + count as f64).ln() / (1.0 + most as f64).ln().max(1e-9);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 5")]
    let shade = (share * f64::from(SHADES)).floor() as u8;
    shade.min(SHADES - 1)
}

/// A rate over time.
fn rate(part: &Part<'_>, row: &TimelineRow, metric: &str, name: String) -> Option<Figure> {
    let document = &*part.document;
    let value = |of: &Stretch| of.samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value);
    let values: Vec<(&Stretch, f64)> =
        row.stretches.iter().filter_map(|of| Some((of, value(of).filter(|value| value.is_finite())?))).collect();
    if values.len() < FEWEST || values.iter().all(|(_, value)| *value == 0.0) {
        return None;
    }
    let up = Axis::over(values.iter().map(|(_, value)| *value).chain([0.0]), [TOP + HEIGHT, TOP], false)?;
    let unit = Quantity::of(document, metric).unit;
    let unit = if unit.is_empty() { "1/s".to_owned() } else { unit };
    let title = format!("{}: {} over time", labelled(part, &row.treatment), clean(metric));
    let (least, most) = values.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), (_, v)| (l.min(*v), m.max(*v)));
    let says = format!("{} values from {} to {} {unit}", values.len(), number_of(least), number_of(most));
    let mut svg = Svg::new(&name, [WIDTH, TOP + HEIGHT + 38.0], &title, &says);
    let across = frame(document, row, &mut svg, (&up, &unit))?;
    let places = |(of, value): &(&Stretch, f64)| [across.at(of.at_s + of.seconds / 2.0), up.at(*value)];
    svg.polyline("curve c0", &values.iter().map(places).collect::<Vec<_>>());
    for of in &values {
        let (stretch, value) = *of;
        let says = format!("{} s: {} {unit}", number_of(stretch.at_s), number_of(value));
        match mark(document, row, stretch) {
            Mark::Counts => svg.dot("point", places(of), 2.2, &says),
            Mark::Flagged => svg.dot("point flagged", places(of), 2.8, &format!("{says}, flagged")),
            Mark::Void => svg.cross("void", places(of), 3.6, &format!("{says}, does not count")),
        }
    }
    let shades = shades_in_words(marks(document, row));
    Some(Figure { caption: format!("{title}, {unit}{shades}"), name, shows: Shows::Blocks, svg })
}

fn number_of(value: f64) -> String {
    fixed(value, three_digits(value))
}
