//! Latency by percentile, of every workload whose metrics are percentiles: a table, and a figure of each distribution on an axis on which
//! every nine takes the same room, one line for each treatment with its interval, and the value of each trial as a dot.

use crate::answer::labelled;
use crate::axis::{Axis, Figure, HEIGHT, LEFT, LINE, MARGIN, WIDTH, legend};
use crate::crowd;
use crate::grid::{Cell, Grid, GridRow, estimated};
use crate::number::rounded;
use crate::per_workload::Part;
use crate::svg::{Anchor, Svg};
use crate::text::clean;
use baremark_model::command::RUN_TIMES_OF;
use baremark_model::document::{Document, EstimateRow};
use baremark_model::event::TrialStatus;
use baremark_model::order;
use baremark_model::percentile::Percentile;
use baremark_model::plan::Treatment;
use std::borrow::Cow;

/// Lines that can be distinguished; more are in further figures.
const MOST: usize = 4;
/// Percentiles from which on they are a distribution.
const FEWEST: usize = 2;
/// Units of what is a latency.
const TIMES: [&str; 4] = ["ns", "us", "ms", "s"];
/// Words that name a time themselves.
const NOUNS: [&str; 8] = ["latency", "time", "response", "lag", "delay", "wait", "pause", "jitter"];
/// The heading of distributions of several kinds.
pub(crate) const LATENCIES: &str = "Latency";
/// The title of a distribution of latencies without a name of its own.
const LATENCY: &str = "latency";
/// The title of the distribution of a program's run times.
const RUN_TIME: &str = "run time";
/// How far apart the dots of neighbouring lines are.
const ASIDE: f64 = 9.0;

/// What is known of all samples together in addition to percentiles: its name, and its value next to a percentile.
type Moment = (&'static str, fn(&EstimateRow) -> Option<f64>);

const MOMENTS: &[Moment] = &[("mean", |row| row.mean), ("sd", |row| row.sd)];

/// One percentile of a treatment.
struct Point<'d> {
    share: f64,
    row: &'d EstimateRow,
}

/// A distribution of a treatment: its percentiles, ascending.
struct LatencyLine<'d> {
    treatment: &'d Treatment,
    label: String,
    points: Vec<Point<'d>>,
}

/// A distribution: what its metrics have in common, and its lines.
struct Distribution<'d> {
    of: String,
    unit: &'d str,
    lines: Vec<LatencyLine<'d>>,
}

/// The distributions of a document with at least two percentiles, in the order of its metrics.
fn distributions<'d>(part: &'d Part<'d>) -> Vec<Distribution<'d>> {
    let document: &Document = &part.document;
    let mut all: Vec<Distribution<'_>> = Vec::new();
    let is_time = |row: &&EstimateRow| TIMES.contains(&row.unit.as_str()) && row.estimate.is_finite();
    for row in document.estimates.iter().filter(is_time) {
        let Some(Percentile { of, share }) = Percentile::of_key(&row.metric) else { continue };
        let at = all.iter().position(|known| known.of == of).unwrap_or_else(|| {
            all.push(Distribution { of, unit: &row.unit, lines: Vec::new() });
            all.len() - 1
        });
        let lines = &mut all[at].lines;
        let point = Point { share, row };
        match lines.iter_mut().find(|line| line.treatment == &row.treatment) {
            Some(line) => line.points.push(point),
            None => lines.push(LatencyLine {
                treatment: &row.treatment,
                label: labelled(part, &row.treatment),
                points: vec![point],
            }),
        }
    }
    for line in all.iter_mut().flat_map(|of| &mut of.lines) {
        order::by(&mut line.points, |one, two| one.share.total_cmp(&two.share));
    }
    // A treatment with a single percentile keeps it where others have more: it is shown nowhere else.
    all.retain(|of| of.lines.iter().any(|line| line.points.len() >= FEWEST));
    all
}

/// The metrics of a document that its table of latencies has.
pub(crate) fn metrics(document: &Document) -> Vec<String> {
    let part = Part { name: None, document: Cow::Borrowed(document) };
    let all = distributions(&part);
    let points = all.iter().flat_map(|of| &of.lines).flat_map(|line| &line.points);
    points.map(|point| point.row.metric.clone()).collect()
}

/// `read latency`, of the metrics `read_p50_us` and so on.
fn title(distribution: &Distribution<'_>) -> String {
    let unit = format!("_{}", distribution.unit);
    let name = clean(distribution.of.strip_suffix(&unit).unwrap_or(&distribution.of)).replace('_', " ");
    if name.split(' ').any(|word| NOUNS.contains(&word)) { name } else { format!("{name} latency") }
}

/// The percentile's name: `p99.9`, `min`, `max`.
fn name(share: f64) -> String {
    match share {
        ..=0.0 => "min".to_owned(),
        1.0.. => "max".to_owned(),
        _ => format!("p{}", crate::number::trimmed(100.0 * share)),
    }
}

/// Whether a distribution is that of a program's run times.
fn is_of_runs(distribution: &Distribution<'_>) -> bool {
    distribution.of == RUN_TIMES_OF
}

/// What the distributions of a part are of: run times where they are of nothing else.
fn noun(all: &[Distribution<'_>]) -> &'static str {
    let run_times = !all.is_empty() && all.iter().all(is_of_runs);
    if run_times { RUN_TIME } else { LATENCY }
}

/// What the percentiles of a part are of, as a heading.
pub(crate) fn label(part: &Part<'_>) -> &'static str {
    if noun(&distributions(part)) == RUN_TIME { "Run times" } else { LATENCIES }
}

/// The same as a label of the first screen, which has eight columns for each.
pub(crate) fn short_label(part: &Part<'_>) -> &'static str {
    if noun(&distributions(part)) == RUN_TIME { "Runs" } else { LATENCIES }
}

/// The percentiles in a line, where they are of few treatments: `read: p50 0.45, p99 5.8, p99.9 9.3 ms`.
pub(crate) fn line(part: &Part<'_>) -> Option<String> {
    /// Distributions and treatments that a line can hold.
    const FEW: usize = 2;
    let all = distributions(part);
    let lines: usize = all.iter().map(|of| of.lines.len()).max()?;
    if all.len() > FEW || lines > FEW {
        return None;
    }
    let say = |of: &Distribution<'_>, line: &LatencyLine<'_>| {
        let most = line.points.iter().map(|point| point.row.estimate).fold(0.0, f64::max);
        let (per, unit) = scale(of.unit, most);
        let points =
            line.points.iter().map(|point| format!("{} {}", name(point.share), rounded(point.row.estimate / per)));
        let title = title(of);
        let whole = [
            Some(&line.label).filter(|_| lines > 1),
            Some(&title).filter(|title| !is_of_runs(of) && *title != LATENCY),
        ];
        let whole = whole.into_iter().flatten().map(|name| format!("{name}: ")).collect::<String>();
        format!("{whole}{} {unit}", points.collect::<Vec<_>>().join(", "))
    };
    let each: Vec<String> = all.iter().flat_map(|of| of.lines.iter().map(move |line| say(of, line))).collect();
    Some(format!("{}.", each.join("; ")))
}

/// One table of all distributions of a part: a row for each and each treatment, a column for each percentile.
pub(crate) fn table(part: &Part<'_>) -> Option<Grid> {
    let all = distributions(part);
    let mut shares: Vec<f64> =
        all.iter().flat_map(|of| &of.lines).flat_map(|line| &line.points).map(|point| point.share).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup_by(|one, two| (*one - *two).abs() < 1e-9);
    let cell = |line: &LatencyLine<'_>, share: f64, per: f64| {
        let found = line.points.iter().find(|point| (point.share - share).abs() < 1e-9);
        found.map_or(Cell::Blank, |point| Cell::Measured { estimate: estimated(point.row, per), ratio: None })
    };
    // Of run times alone: latencies have more percentiles, and are too skewed for a standard deviation.
    let has_moments = |line: &LatencyLine<'_>| line.points.iter().any(|point| point.row.mean.is_some());
    let moments =
        if noun(&all) == RUN_TIME && all.iter().flat_map(|of| &of.lines).any(has_moments) { MOMENTS } else { &[] };
    let own_moments = |line: &LatencyLine<'_>, per: f64| -> Vec<Cell> {
        let row = line.points.first().map(|point| point.row);
        let value = |(_, of): &Moment| row.and_then(of).map_or(Cell::Blank, |value| value_alone(value / per));
        moments.iter().map(value).collect()
    };
    let rows = all.iter().flat_map(|of| of.lines.iter().map(move |line| (of, line)));
    let mut grid_rows: Vec<GridRow> = Vec::new();
    for (of, line) in rows {
        let (per, unit) = scale_of_table(of);
        let label = format!("{} ({}), {}", title(of), clean(unit), line.label);
        let own = line.points.iter().any(|point| trials_differ(point.row));
        let medians = own.then(|| GridRow {
            label: format!("{label}: median of the trials"),
            cells: shares
                .iter()
                .map(|share| median_cell(line, *share, per))
                .chain(moments.iter().map(|_| Cell::Blank))
                .collect(),
        });
        let cells = shares.iter().map(|share| cell(line, *share, per)).chain(own_moments(line, per));
        grid_rows.push(GridRow { label, cells: cells.collect() });
        grid_rows.extend(medians);
    }
    let rows = grid_rows;
    let of = part.name.map(|name| format!("{}: ", clean(name))).unwrap_or_default();
    let columns = shares.iter().map(|share| name(*share)).chain(moments.iter().map(|(name, _)| (*name).to_owned()));
    let columns = columns.collect();
    (!rows.is_empty()).then(|| Grid {
        caption: format!("{of}{} by percentile{} (value ± 95 % interval)", noun(&all), rests_on(&all)),
        columns,
        rows,
        reasons: Vec::new(),
    })
}

/// Whether the trials' own percentiles are about another value than that of all samples: the interval leaves their median out.
fn trials_differ(row: &EstimateRow) -> bool {
    let limits = row.samples.and(row.lo.zip(row.hi));
    limits.zip(row.median).is_some_and(|((lo, hi), median)| !(lo..=hi).contains(&median))
}

fn median_cell(line: &LatencyLine<'_>, share: f64, per: f64) -> Cell {
    let found = line.points.iter().find(|point| (point.share - share).abs() < 1e-9);
    let median = found.and_then(|point| point.row.median);
    median.map_or(Cell::Blank, |median| value_alone(median / per))
}

/// A value without an interval.
fn value_alone(value: f64) -> Cell {
    Cell::Measured { estimate: rounded(value), ratio: None }
}

/// What percentiles of several trials are of, for a caption.
fn rests_on(all: &[Distribution<'_>]) -> String {
    let several = |of: &Distribution<'_>, merged: bool| {
        let mut points = of.lines.iter().flat_map(|line| &line.points);
        points.any(|point| point.row.n > 1 && point.row.samples.is_some() == merged)
    };
    let merged = all.iter().any(|of| several(of, true));
    let means: Vec<String> = all.iter().filter(|of| several(of, false)).map(title).collect();
    match (merged, means.is_empty()) {
        (true, true) => " of all trials' samples".to_owned(),
        (true, false) => format!(" of all trials' samples, of {} means of the trials' own", means.join(" and ")),
        (false, false) => ", means of the trials' own: no distributions are stored".to_owned(),
        (false, true) => String::new(),
    }
}

/// The figures of a part.
pub(crate) fn figures(part: &Part<'_>) -> Vec<Figure> {
    let mut all = distributions(part);
    // A maximum is at no place of the axis, and neither is zero.
    let has_place = |point: &Point<'_>| point.share < 1.0 && point.row.estimate > 0.0;
    let drawn = |line: &LatencyLine<'_>| line.points.iter().filter(|point| has_place(point)).count() >= FEWEST;
    for of in &mut all {
        of.lines.retain(drawn);
        of.lines.iter_mut().for_each(|line| line.points.retain(|point| point.row.estimate > 0.0));
    }
    let each = all.iter().flat_map(|of| {
        let several = of.lines.len().div_ceil(MOST);
        of.lines.chunks(MOST).enumerate().map(move |(number, lines)| (of, lines, number, several))
    });
    each.filter_map(|(of, lines, number, several)| draw(part, of, lines, (number, several))).collect()
}

/// The place of a percentile: 1 for p90, 2 for p99; the median is at 0.3.
fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

fn draw(
    part: &Part<'_>,
    of: &Distribution<'_>,
    lines: &[LatencyLine<'_>],
    (number, several): (usize, usize),
) -> Option<Figure> {
    let document: &Document = &part.document;
    let points = || lines.iter().flat_map(|line| &line.points).filter(|point| point.share < 1.0);
    let limits = |row: &EstimateRow| row.lo.zip(row.hi).filter(|(lo, hi)| *lo > 0.0 && hi.is_finite());
    let values = points().flat_map(|point| {
        let limits = limits(point.row).map_or([point.row.estimate; 2], |(lo, hi)| [lo, hi]);
        trials(document, &point.row.treatment, &point.row.metric).into_iter().chain(limits)
    });
    let values: Vec<f64> = values.collect();
    let (per, unit) = scale(of.unit, values.iter().copied().fold(0.0, f64::max));
    let values = values.into_iter().map(|value| value / per);
    #[expect(clippy::cast_precision_loss, reason = "at most MOST")]
    let top = 10.0 + lines.len() as f64 * LINE;
    let bottom = top + HEIGHT;
    let across = Axis::over(points().map(|point| nines(point.share)), [LEFT + 14.0, WIDTH - MARGIN - 14.0], false)?;
    let up = Axis::over(values, [bottom, top], true)?;
    let title = title(of);
    let whole = part.name.map(|name| format!("{}: ", clean(name))).unwrap_or_default();
    let id = format!("latency-{}{}-{number}", part.name.map(|name| format!("{name}-")).unwrap_or_default(), of.of);
    let mut svg =
        Svg::new(&id, [WIDTH, bottom + 38.0], &format!("{whole}{title} by percentile"), &in_words(lines, of.unit));
    up.draw_upright(&mut svg);
    svg.text("axis", [LEFT - 6.0, 16.0], Anchor::End, unit);
    let mut shares: Vec<f64> = points().map(|point| point.share).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    svg.line("rule", [LEFT, bottom], [WIDTH - MARGIN, bottom]);
    for share in shares {
        let x = across.at(nines(share));
        svg.line("rule", [x, bottom], [x, bottom + 4.0]);
        svg.text("tick", [x, bottom + 17.0], Anchor::Middle, &name(share));
    }
    svg.text(
        "axis",
        [f64::midpoint(LEFT, WIDTH), bottom + 34.0],
        Anchor::Middle,
        "percentile (each nine takes the same room)",
    );
    for (at, line) in lines.iter().enumerate() {
        let class = format!("curve c{at}");
        #[expect(clippy::cast_precision_loss, reason = "at most MOST")]
        let aside = (at as f64 - (lines.len() - 1) as f64 / 2.0) * ASIDE;
        let shown: Vec<(&Point<'_>, [f64; 2])> = line
            .points
            .iter()
            .filter(|point| point.share < 1.0)
            .map(|point| (point, [across.at(nines(point.share)) + aside, up.at(point.row.estimate / per)]))
            .collect();
        svg.polyline(&class, &shown.iter().map(|(_, place)| *place).collect::<Vec<_>>());
        for (point, place) in shown {
            let own = trials(document, line.treatment, &point.row.metric);
            for value in own.iter().filter(|_| own.len() <= crowd::MANY) {
                svg.dot(
                    "trial",
                    [place[0] + ASIDE / 2.0, up.at(value / per)],
                    1.6,
                    &format!("{} {unit} in one trial", rounded(value / per)),
                );
            }
            if let Some((lo, hi)) = limits(point.row) {
                svg.line(&class, [place[0], up.at(lo / per)], [place[0], up.at(hi / per)]);
            }
            let says = format!("{}, {}: {} {unit}", line.label, name(point.share), estimated(point.row, per));
            svg.dot(&class, place, 3.0, &says);
        }
        legend(&mut svg, at, &line.label);
    }
    let more = if several > 1 { format!(" ({} of {several})", number + 1) } else { String::new() };
    let caption =
        format!("{whole}{title} by percentile, {unit}{more}. Bars: 95 % intervals; hollow: trials. Lower is better.");
    Some(Figure { caption, name: id, svg })
}

/// The unit in which the longest of these times has one digit to four before the point, and how many of their own it is.
fn scale(unit: &str, most: f64) -> (f64, &str) {
    let at = TIMES.iter().position(|known| *known == unit).unwrap_or(0);
    if at > 0 && most > 0.0 && most < 1.0 {
        let shorter = (0..at).rev().zip(1..).map(|(at, steps)| (1000_f64.powi(-steps), TIMES[at]));
        let fits = |(per, _): &(f64, &str)| most / per >= 1.0;
        return shorter.clone().find(fits).or_else(|| shorter.last()).unwrap_or((1.0, TIMES[at]));
    }
    let longer = (at..TIMES.len()).zip(0..).map(|(at, steps)| (1000_f64.powi(steps), TIMES[at]));
    let fits = |(per, _): &(f64, &str)| most / per < 1e4;
    longer.clone().find(fits).or_else(|| longer.last()).unwrap_or((1.0, TIMES[at]))
}

/// The unit of a distribution in the table, which is that of its metrics unless each of its values is below one of it.
fn scale_of_table<'d>(of: &Distribution<'d>) -> (f64, &'d str) {
    let points = of.lines.iter().flat_map(|line| &line.points);
    let most = points.map(|point| point.row.estimate).fold(0.0, f64::max);
    if most < 1.0 { scale(of.unit, most) } else { (1.0, of.unit) }
}

/// The values of a metric in each trial that counts.
fn trials(document: &Document, treatment: &Treatment, metric: &str) -> Vec<f64> {
    let counting = document.trials.iter().filter(|trial| trial.status == TrialStatus::Ok);
    let arms = counting.flat_map(|trial| &trial.arms).filter(|arm| arm.treatment == *treatment);
    let samples = arms.flat_map(|arm| &arm.medians).filter(|sample| sample.metric == metric);
    samples.map(|sample| sample.value).filter(|value| value.is_finite() && *value > 0.0).collect()
}

/// The figure in words, for those who cannot see it.
fn in_words(lines: &[LatencyLine<'_>], unit: &str) -> String {
    let say = |line: &LatencyLine<'_>| {
        let points =
            line.points.iter().map(|point| format!("{} {} {unit}", name(point.share), estimated(point.row, 1.0)));
        format!("{}: {}", line.label, points.collect::<Vec<_>>().join(", "))
    };
    lines.iter().map(say).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::scale;

    #[test]
    fn times_are_in_the_unit_in_which_they_are_short() {
        let shown = |unit, most: f64| {
            let (per, shorter) = scale(unit, most);
            (crate::number::rounded(most / per), shorter)
        };
        assert_eq!(shown("s", 0.000_565), ("565".to_owned(), "us"));
        assert_eq!(shown("s", 0.0182), ("18.2".to_owned(), "ms"));
        assert_eq!(shown("us", 18_000.0), ("18.0".to_owned(), "ms"));
        // There is no shorter unit than the nanosecond.
        for (unit, ns) in [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)] {
            assert_eq!(shown(unit, 0.5 / ns), ("0.500".to_owned(), "ns"));
            assert_eq!(scale(unit, 0.0), (1.0, unit), "nothing was measured");
        }
    }
}
