//! What was observed over the time of the run, as figures: one quantity each, one line for each place.

use crate::activity::label;
use crate::axis::{Axis, Figure, LEFT, MARGIN, WIDTH};
use crate::mark::{Mark, shades_in_words};
use crate::number::rounded;
use crate::svg::{Anchor, Svg};
use crate::text::{clean, cut};
use baremark_model::document::{Document, TrialRow};
use baremark_model::observation::ObservedSeries;

/// What is drawn, in this order, where anything of it happened.
const DRAWN: &[&str] = &[
    "cpu.utilization",
    "cpu.steal_share",
    "kernel.interrupts",
    "kernel.context_switches",
    "tlb.shootdowns",
    "disk.iops",
    "disk.mb_per_s",
    "disk.latency",
    "net.receive_packets",
    "net.transmit_packets",
    "net.receive_mb_per_s",
    "net.transmit_mb_per_s",
    "vm.faults",
    "memory.used",
    "pressure.cpu",
    "kvm.exits",
];
/// Lines that one figure distinguishes.
const MOST_LINES: usize = 4;
const MOST_FIGURES: usize = 40;
const HEIGHT: f64 = 130.0;
const TOP: f64 = 28.0;
/// Height of the bar that marks stalls.
const BAR: f64 = 4.0;

/// The figures of a document; none where nothing was observed for longer than a moment.
pub(crate) fn figures(document: &Document) -> Vec<Figure> {
    let Some(observed) = &document.observed else { return Vec::new() };
    let whole = |series: &&ObservedSeries| series.instance.is_empty() && series.points.len() > 1;
    let imported = observed
        .series
        .iter()
        .filter(|series| !DRAWN.contains(&series.quantity.as_str()) && series.quantity.starts_with("esxtop."));
    let mut keys: Vec<(&str, &str)> = DRAWN.iter().map(|key| (*key, "")).collect();
    keys.extend(
        imported
            .filter(|series| series.points.len() > 1)
            .map(|series| (series.quantity.as_str(), series.instance.as_str())),
    );
    keys.dedup();
    let around = Around::of(document);
    let figure = |(quantity, instance): (&str, &str)| {
        let lines: Vec<&ObservedSeries> = match instance {
            "" => observed.series.iter().filter(whole).filter(|series| series.quantity == quantity).collect(),
            _ => observed.series.iter().filter(|s| s.quantity == quantity && s.instance == instance).collect(),
        };
        let happened = lines.iter().any(|line| line.points.iter().any(|[_, value]| *value != 0.0));
        if happened { draw(quantity, &lines, &around) } else { None }
    };
    keys.into_iter().filter_map(figure).take(MOST_FIGURES).collect()
}

/// What is marked in every figure.
struct Around {
    /// Of trials that have a flag, and of those that do not count: from, to, in seconds since the run began, in order.
    trials: Vec<(Mark, Vec<[f64; 2]>)>,
    /// Times in which work stalled, likewise.
    stalls: Vec<[f64; 2]>,
}

/// Shares of time, in %, for which the hypervisor kept a CPU or some task waited for one, a disk or memory.
const STALLS: [&str; 4] = ["cpu.steal_share", "pressure.cpu", "pressure.io", "pressure.memory"];
/// From which on that is marked, in %.
const STALLED: f64 = 10.0;
/// Times are kept to this, in s: what is nearer touches.
const MOMENT: f64 = 1e-3;

impl Around {
    fn of(document: &Document) -> Around {
        let marked = |trial: &TrialRow| Some((trial.observed_s?, Mark::of(trial)));
        let trials = [Mark::Flagged, Mark::Void].map(|mark| {
            let of_mark = document.trials.iter().filter_map(marked).filter(|(_, of)| *of == mark);
            (mark, joined(of_mark.map(|(span, _)| span), MOMENT))
        });
        let series = document.observed.iter().flat_map(|observed| &observed.series);
        let waits = series.filter(|of| of.instance.is_empty() && STALLS.contains(&of.quantity.as_str()));
        let stalls = waits.flat_map(|of| {
            let usual = usual_step(&of.points);
            let stalled = of.points.iter().filter(|[_, value]| *value > STALLED);
            // A point is of the time before it.
            stalled.map(move |[at, _]| [(at - usual).max(0.0), *at])
        });
        Around { trials: trials.into(), stalls: joined(stalls, MOMENT) }
    }
}

/// Spans of time in order, in seconds; those that overlap, or have less than `gap` between them, as one.
fn joined(spans: impl Iterator<Item = [f64; 2]>, gap: f64) -> Vec<[f64; 2]> {
    let mut spans: Vec<[f64; 2]> = spans.collect();
    baremark_model::order::by(&mut spans, |one, two| one[0].total_cmp(&two[0]));
    let mut all: Vec<[f64; 2]> = Vec::new();
    for [from, to] in spans {
        match all.last_mut() {
            Some(last) if from <= last[1] + gap => last[1] = last[1].max(to),
            _ => all.push([from, to]),
        }
    }
    all
}

fn draw(quantity: &str, lines: &[&ObservedSeries], around: &Around) -> Option<Figure> {
    let lines = &lines[..lines.len().min(MOST_LINES)];
    let first = lines.first()?;
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = Axis::over(points().map(|[at, _]| *at), [LEFT, WIDTH - MARGIN], false)?;
    let up = Axis::over(points().map(|[_, value]| *value).chain([0.0]), [TOP + HEIGHT, TOP], false)?;
    let what = label(quantity, &first.instance, &first.unit);
    let trials: Vec<(Mark, Vec<[f64; 2]>)> =
        around.trials.iter().map(|(mark, spans)| (*mark, within(&across, spans))).collect();
    let stalled = within(&across, &around.stalls);
    let shades = shades_in_words(trials.iter().filter(|(_, spans)| !spans.is_empty()).map(|(mark, _)| *mark));
    let stalls = match stalled.is_empty() {
        true => String::new(),
        false => format!(
            "; bar at the bottom: for more than {STALLED:.0} % of the time some task waited for a CPU, a disk or memory, or the hypervisor \
             kept a CPU, here or where an arm ran"
        ),
    };
    let caption = format!("{what}{shades}{stalls}");
    let name = format!("around-{}{}", word(quantity), word(&first.instance));
    let mut svg = Svg::new(&name, [WIDTH, TOP + HEIGHT + 36.0], &what, &in_words(lines));
    for (mark, spans) in &trials {
        let Some((class, _)) = mark.shade() else { continue };
        for [from, wide] in spans {
            svg.rect(class, [*from, TOP], [*wide, HEIGHT]);
        }
    }
    up.draw_upright(&mut svg);
    for [from, wide] in &stalled {
        svg.rect("stall", [*from, TOP + HEIGHT - BAR], [*wide, BAR]);
    }
    for (value, text) in across.ticks(6.0) {
        svg.line("rule", [across.at(value), TOP + HEIGHT], [across.at(value), TOP + HEIGHT + 4.0]);
        svg.text("tick", [across.at(value), TOP + HEIGHT + 17.0], Anchor::Middle, &text);
    }
    svg.text("axis", [f64::midpoint(LEFT, WIDTH), TOP + HEIGHT + 32.0], Anchor::Middle, "seconds");
    let mut legend = LEFT;
    for (number, line) in lines.iter().enumerate() {
        let class = format!("course course-{number}");
        for part in parts(&line.points) {
            let line: Vec<[f64; 2]> = part.iter().map(|[at, value]| [across.at(*at), up.at(*value)]).collect();
            svg.polyline(&class, &line);
        }
        svg.line(&class, [legend, TOP - 14.0], [legend + 18.0, TOP - 14.0]);
        let place = cut(&clean(&line.place), 18);
        svg.text("tick", [legend + 23.0, TOP - 10.0], Anchor::Start, &place);
        legend += 130.0;
    }
    Some(Figure { caption, name, svg })
}

/// Where spans of time are drawn: from where on, and how wide, at least one unit. Those outside of the axis are not; those between which no unit
/// fits are one, so that a figure has no more of them than units.
fn within(across: &Axis, spans: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let unit = (across.most - across.least) / (across.to - across.from);
    let inside = spans.iter().copied().filter(|[from, to]| *to >= across.least && *from <= across.most);
    let place = |[from, to]: [f64; 2]| [across.at(from), (across.at(to) - across.at(from)).max(1.0)];
    joined(inside, unit).into_iter().map(place).collect()
}

/// Where nothing was observed for far longer than a point lasts, a line has a gap.
fn parts(points: &[[f64; 2]]) -> Vec<&[[f64; 2]]> {
    let usual = usual_step(points);
    points.chunk_by(|a, b| b[0] - a[0] <= 5.0 * usual.max(0.1)).collect()
}

/// The median of the times between points.
fn usual_step(points: &[[f64; 2]]) -> f64 {
    let mut steps: Vec<f64> = points.windows(2).map(|pair| pair[1][0] - pair[0][0]).collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len() / 2).copied().unwrap_or(0.0)
}

/// Letters and digits alone, for the name of a file.
fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn in_words(lines: &[&ObservedSeries]) -> String {
    let say = |line: &&ObservedSeries| {
        let values = line.points.iter().map(|[_, value]| *value);
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(v), m.max(v)));
        let [least, most] = [least, most].map(rounded);
        format!("{}: {} points from {least} to {most} {}", clean(&line.place), line.points.len(), clean(&line.unit))
    };
    lines.iter().map(say).collect::<Vec<_>>().join("; ")
}
