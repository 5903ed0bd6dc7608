//! Curves: the headline's metric against a factor whose levels are numbers or sizes, one line for each combination of the
//! others. Latency over working sets and bandwidth over threads are read as curves, not as tables.

use crate::axis::{Axis, Figure, HEIGHT, LEFT, LINE, MARGIN, WIDTH, ascending, legend};
use crate::number::rounded;
use crate::per_workload::Part;
use crate::svg::{Anchor, Svg};
use crate::text::clean;
use crate::treatment::{Factors, join};
use crate::words::Quantity;
use baremark_model::document::{Document, EstimateRow};
use baremark_model::order;
use baremark_model::units::{Bytes, Nanos};

/// Levels from which on a table is a curve.
const FEWEST: usize = 3;
/// Lines that can be distinguished.
const MOST: usize = 6;

/// One line of a figure.
struct Series {
    label: String,
    points: Vec<Point>,
}

struct Point {
    x: f64,
    level: String,
    y: f64,
    limits: Option<[f64; 2]>,
}

/// A figure for each factor of a part over which a curve can be drawn.
pub(crate) fn curves(part: &Part<'_>) -> Vec<Figure> {
    let document = &*part.document;
    let keys = document.run.factors.iter().map(|(key, _)| key.as_str());
    keys.filter_map(|key| draw(part, key, &series(document, key))).collect()
}

/// The place of a level on an axis: a number, a size or a time; `None` for a word, and for nought, which a logarithm has not.
fn place(label: &str) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a place in a figure")]
    let of_unit = || {
        let bytes = label.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64);
        bytes.or_else(|| label.parse::<Nanos>().ok().map(|time| time.0 as f64))
    };
    label.parse::<f64>().ok().or_else(of_unit).filter(|place| place.is_finite() && *place > 0.0)
}

fn series(document: &Document, key: &str) -> Vec<Series> {
    let factors = Factors::of(&document.run);
    let mut all: Vec<Series> = Vec::new();
    let wanted =
        |row: &&EstimateRow| row.metric == document.run.metric && row.estimate.is_finite() && row.estimate > 0.0;
    for row in document.estimates.iter().filter(wanted) {
        let Some((level, x)) = row.treatment.get(key).and_then(|level| Some((level, place(level)?))) else { continue };
        let label = join(&factors.levels(&row.treatment, &[key]));
        let limits = row
            .lo
            .zip(row.hi)
            .map(|(lo, hi)| [lo, hi])
            .filter(|ends| ends.iter().all(|end| *end > 0.0 && end.is_finite()));
        let point = Point { x, level: clean(level), y: row.estimate, limits };
        match all.iter_mut().find(|series| series.label == label) {
            Some(series) => series.points.push(point),
            None => all.push(Series { label, points: vec![point] }),
        }
    }
    all.iter_mut().for_each(|series| order::by(&mut series.points, |a, b| a.x.total_cmp(&b.x)));
    all
}

fn draw(part: &Part<'_>, key: &str, all: &[Series]) -> Option<Figure> {
    if !all.iter().any(|series| series.points.len() >= FEWEST) {
        return None;
    }
    let shown = &all[..all.len().min(MOST)];
    let points = || shown.iter().flat_map(|series| &series.points);
    let values = || points().flat_map(|point| point.limits.unwrap_or([point.y; 2]));
    let (least, most) = values().fold((f64::INFINITY, 0.0_f64), |(low, high), y| (low.min(y), high.max(y)));
    let logarithmic = most / least > 8.0;
    let floor = if logarithmic { None } else { Some(0.0) };
    #[expect(clippy::cast_precision_loss, reason = "at most MOST")]
    let top = 10.0 + shown.len() as f64 * LINE;
    let across = Axis::over(points().map(|point| point.x), [LEFT + 14.0, WIDTH - MARGIN - 14.0], true)?;
    let up = Axis::over(values().chain(floor), [top + HEIGHT, top], logarithmic)?;
    let document = &*part.document;
    let quantity = Quantity::of(document, &document.run.metric);
    let factor = clean(key).replace('_', " ");
    let of = part.name.map_or_else(String::new, |name| format!("{}: ", clean(name)));
    let title = format!("{of}{} by {factor}", quantity.noun());
    let name = part.name.map_or_else(|| format!("curve-{key}"), |name| format!("{name}-curve-{key}"));
    let mut svg = Svg::new(&name, [WIDTH, top + HEIGHT + 38.0], &title, &in_words(shown));
    up.draw_upright(&mut svg);
    let levels = points().map(|point| (point.x, point.level.as_str()));
    across.draw_levels(&mut svg, top + HEIGHT, ascending(levels));
    svg.text("axis", [WIDTH - MARGIN, top + HEIGHT + 34.0], Anchor::End, &factor);
    for (number, series) in shown.iter().enumerate() {
        trace(&mut svg, series, &format!("curve c{number}"), &across, &up);
        let label = if series.label.is_empty() { quantity.noun() } else { &series.label };
        legend(&mut svg, number, label);
    }
    let more =
        if all.len() > shown.len() { format!(", the first {} of {}", shown.len(), all.len()) } else { String::new() };
    let scale = if logarithmic { "; both axes are logarithmic" } else { "; levels stand by their logarithm" };
    let caption = format!("{title}, with 95 % intervals{more}{scale}. {}.", quantity.caption());
    Some(Figure { caption, name, svg })
}

fn trace(svg: &mut Svg, series: &Series, class: &str, across: &Axis, up: &Axis) {
    let places: Vec<[f64; 2]> = series.points.iter().map(|point| [across.at(point.x), up.at(point.y)]).collect();
    svg.polyline(class, &places);
    for (point, at) in series.points.iter().zip(places) {
        if let Some([lo, hi]) = point.limits {
            svg.line(class, [at[0], up.at(lo)], [at[0], up.at(hi)]);
        }
        let value = rounded(point.y);
        svg.dot(class, at, 2.8, &format!("{}{}: {value}", prefix(&series.label), point.level));
    }
}

fn prefix(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!("{label}, ") }
}

/// The figure in words, for those who cannot see it.
fn in_words(shown: &[Series]) -> String {
    let say = |series: &Series| {
        let points = series.points.iter().map(|point| format!("{} {}", point.level, rounded(point.y)));
        format!("{}{}", prefix(&series.label), points.collect::<Vec<_>>().join(", "))
    };
    shown.iter().map(say).collect::<Vec<_>>().join("; ")
}
