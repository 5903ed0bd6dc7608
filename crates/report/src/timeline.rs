//! What treatments measured over the time of their phases, as figures: how many operations of each latency there were in each stretch of time, and
//! rates. Stretches of trials that do not count, or that have a flag, are shaded.

use crate::answer::labelled;
use crate::axis::{Axis, Figure, LEFT, MARGIN, WIDTH};
use crate::crowd;
use crate::mark::{Mark, shades_in_words};
use crate::number::{fixed, rounded};
use crate::per_workload::Part;
use crate::svg::{Anchor, Svg};
use crate::text::clean;
use crate::words::Quantity;
use baremark_model::percentile::Percentile;
use baremark_model::timeline::{Stretch, TimelineRow, bounds};
use std::collections::BTreeMap;

const TOP: f64 = 24.0;
const HEIGHT: f64 = 150.0;
/// Fewer stretches are no course.
const FEWEST: usize = 3;
/// Figures of a document; a study can have very many treatments.
const MOST: usize = 12;
/// Shades of a heat map.
const SHADES: u8 = 5;
/// The operations of which latencies are that are those of all together.
const ALL: &str = "all";
/// The percentile that is drawn over the latencies of all operations.
const DRAWN: f64 = 0.99;
/// How the key of a count of failures begins.
const FAILED: &str = "failed";

/// What a treatment has a figure of.
enum Of<'d> {
    /// The latencies of a kind of operation.
    Latencies(&'d str),
    /// A rate, by its metric.
    Rate(&'d str),
}

/// The figures of a document, those of latencies first, and how many more there are than are drawn.
pub(crate) fn figures(parts: &[Part<'_>]) -> (Vec<Figure>, usize) {
    let rows = || parts.iter().flat_map(|part| part.document.timelines.iter().map(move |row| (part, row)));
    let latencies = rows().flat_map(|(part, row)| heat_maps(row).into_iter().map(move |of| (part, row, of)));
    let rates = rows().flat_map(|(part, row)| rates(row).into_iter().map(move |of| (part, row, of)));
    let (mut all, mut more) = (Vec::new(), 0);
    for (part, row, of) in latencies.chain(rates) {
        if all.len() >= MOST {
            more += 1;
            continue;
        }
        let number = all.len() + 1;
        let name = part.name.map_or_else(|| format!("timeline-{number}"), |of| format!("{of}-timeline-{number}"));
        all.extend(match of {
            Of::Latencies(of) => heat_map(part, row, of, name),
            Of::Rate(metric) => rate(part, row, metric, name),
        });
    }
    (all, more)
}

/// The kinds of operations of which enough stretches have latencies.
fn heat_maps(row: &TimelineRow) -> Vec<Of<'_>> {
    let mut columns: BTreeMap<&str, usize> = BTreeMap::new();
    let latencies = row.stretches.iter().flat_map(|of| &of.latencies);
    for of in latencies.filter(|of| !of.bins.is_empty()) {
        *columns.entry(&of.name).or_default() += 1;
    }
    columns.into_iter().filter(|(_, columns)| *columns >= FEWEST).map(|(name, _)| Of::Latencies(name)).collect()
}

/// The rates of which enough stretches have a value, and any is not 0.
fn rates(row: &TimelineRow) -> Vec<Of<'_>> {
    let mut values: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    let samples = row.stretches.iter().flat_map(|of| &of.samples);
    for of in samples.filter(|of| is_rate(&of.metric) && of.value.is_finite()) {
        let (count, is_any) = values.entry(&of.metric).or_default();
        (*count, *is_any) = (*count + 1, *is_any || of.value != 0.0);
    }
    let drawn = values.into_iter().filter(|(_, (count, is_any))| *count >= FEWEST && *is_any);
    drawn.map(|(metric, _)| Of::Rate(metric)).collect()
}

fn is_rate(metric: &str) -> bool {
    metric.ends_with("_per_s") || metric.ends_with("iops")
}

/// Whether the trials that a stretch is of count.
fn mark(stretch: &Stretch) -> Mark {
    match stretch {
        Stretch { discarded: true, .. } => Mark::Void,
        Stretch { flagged: true, .. } => Mark::Flagged,
        _ => Mark::Counts,
    }
}

/// An empty figure of a treatment over its time: the drawing, and the axis of seconds.
fn frame(row: &TimelineRow, svg: &mut Svg, up: (&Axis, &str)) -> Option<Axis> {
    let ends = row.stretches.iter().map(|of| of.at_s + of.seconds).chain([0.0]);
    let across = Axis::over(ends, [LEFT, WIDTH - MARGIN], false)?;
    let bottom = TOP + HEIGHT;
    for stretch in &row.stretches {
        let Some((class, _)) = mark(stretch).shade() else { continue };
        let [from, to] = [stretch.at_s, stretch.at_s + stretch.seconds].map(|at| across.at(at));
        svg.rect(class, [from, TOP], [to - from, HEIGHT]);
    }
    let (up, unit) = up;
    up.draw_upright(svg);
    svg.text("axis", [LEFT - 6.0, 12.0], Anchor::End, unit);
    for (value, text) in across.ticks(6.0).into_iter().filter(|(value, _)| *value >= 0.0) {
        svg.line("rule", [across.at(value), bottom], [across.at(value), bottom + 4.0]);
        svg.text("tick", [across.at(value), bottom + 17.0], Anchor::Middle, &text);
    }
    let below = [f64::midpoint(LEFT, WIDTH), bottom + 34.0];
    svg.text("axis", below, Anchor::Middle, "seconds of measured time, trial after trial");
    Some(across)
}

/// Latencies over time: the stronger the colour, the more operations took so long.
fn heat_map<'d>(part: &Part<'_>, row: &'d TimelineRow, of: &str, name: String) -> Option<Figure> {
    let latencies = |stretch: &'d Stretch| -> Option<(&'d Stretch, &'d [[u64; 2]])> {
        let found = stretch.latencies.iter().find(|latencies| latencies.name == of)?;
        Some((stretch, found.bins.as_slice()))
    };
    let columns: Vec<(&Stretch, &[[u64; 2]])> =
        row.stretches.iter().filter_map(latencies).filter(|(_, bins)| !bins.is_empty()).collect();
    let cells = || columns.iter().flat_map(|(_, bins)| *bins);
    let ends = |bin: u64| bounds(usize::try_from(bin).unwrap_or(usize::MAX));
    let (shortest, longest) = (cells().map(|[bin, _]| *bin).min()?, cells().map(|[bin, _]| *bin).max()?);
    let (unit, per) = if ends(longest)[1] < 1e7 { ("us", 1e3) } else { ("ms", 1e6) };
    let up = Axis::over([ends(shortest)[0] / per, ends(longest)[1] / per].into_iter(), [TOP + HEIGHT, TOP], true)?;
    // Stretches are not of one length.
    let per_s = |stretch: &Stretch, count: u64| count as f64 / stretch.seconds.max(1e-9);
    let rates = columns.iter().flat_map(|(stretch, bins)| bins.iter().map(move |[_, count]| per_s(stretch, *count)));
    let most = rates.fold(0.0, f64::max);
    let operations = if of == ALL { "operations".to_owned() } else { clean(of) };
    let title = format!("{}: latency of {operations} over time", labelled(part, &row.treatment));
    let total: u64 = cells().fold(0, |sum, [_, count]| sum.saturating_add(*count));
    let [from, to] = [ends(shortest)[0], ends(longest)[1]].map(|ns| rounded(ns / per));
    let says = format!("{} stretches of time with {total} latencies from {from} to {to} {unit}", columns.len());
    let mut svg = Svg::new(&name, [WIDTH, TOP + HEIGHT + 38.0], &title, &says);
    let across = frame(row, &mut svg, (&up, unit))?;
    for (stretch, bins) in &columns {
        let [begin, end] = [stretch.at_s, stretch.at_s + stretch.seconds];
        let (count, [low, high]) =
            bins.iter().fold((0_u64, [f64::INFINITY, 0.0_f64]), |(sum, [low, high]), [bin, count]| {
                let [from, to] = ends(*bin).map(|ns| ns / per);
                (sum.saturating_add(*count), [low.min(from), high.max(to)])
            });
        let [begins, ends_at, low, high] = [begin, end, low, high].map(rounded);
        let says = format!("{begins} to {ends_at} s: {count} of {low} to {high} {unit}");
        svg.group(&says, |svg| {
            for [bin, count] in *bins {
                let [low, high] = ends(*bin).map(|ns| ns / per);
                let size = [across.at(end) - across.at(begin), (up.at(low) - up.at(high)).max(1.0)];
                let class = format!("heat h{}", shade(per_s(stretch, *count), most));
                svg.rect(&class, [across.at(begin), up.at(high)], size);
            }
        });
    }
    let line = if of == ALL { overlay(row, per, &across, &up, &mut svg) } else { "" };
    let shades = shades_in_words(row.stretches.iter().map(mark));
    let scale = "the stronger the colour, the more operations per second (logarithmic, scale of this figure)";
    let caption = format!("{title}, {unit}: {scale}{line}{shades}");
    Some(Figure { caption, name, svg })
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
            let says = format!("{} s: {} failed operations", rounded(of.at_s), fixed(failed, 0));
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
fn shade(count: f64, most: f64) -> u8 {
    let share = (1.0 + count).ln() / (1.0 + most).ln().max(1e-9);
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
    let up = Axis::over(values.iter().map(|(_, value)| *value).chain([0.0]), [TOP + HEIGHT, TOP], false)?;
    let unit = Quantity::of(document, metric).unit;
    let unit = if unit.is_empty() { "1/s".to_owned() } else { unit };
    let title = format!("{}: {} over time", labelled(part, &row.treatment), clean(metric));
    let (least, most) = values.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), (_, v)| (l.min(*v), m.max(*v)));
    let says = format!("{} values from {} to {} {unit}", values.len(), rounded(least), rounded(most));
    let mut svg = Svg::new(&name, [WIDTH, TOP + HEIGHT + 38.0], &title, &says);
    let across = frame(row, &mut svg, (&up, &unit))?;
    let places = |(of, value): &(&Stretch, f64)| [across.at(of.at_s + of.seconds / 2.0), up.at(*value)];
    svg.polyline("curve c0", &values.iter().map(places).collect::<Vec<_>>());
    for of in &values {
        let (stretch, value) = *of;
        let says = format!("{} s: {} {unit}", rounded(stretch.at_s), rounded(value));
        match mark(stretch) {
            Mark::Counts if values.len() > crowd::MANY => {}
            Mark::Counts => svg.dot("point", places(of), 2.2, &says),
            Mark::Flagged => svg.dot("point flagged", places(of), 2.8, &format!("{says}, flagged")),
            Mark::Void => svg.cross("void", places(of), 3.6, &format!("{says}, does not count")),
        }
    }
    let shades = shades_in_words(row.stretches.iter().map(mark));
    Some(Figure { caption: format!("{title}, {unit}{shades}"), name, svg })
}
