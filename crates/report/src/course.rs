//! What was observed over the time of the run, as figures: one quantity each, one line for each place.

use crate::around::label;
use crate::axis::{Axis, Figure, MARGIN, Shows, WIDTH};
use crate::number::{fixed, three_digits};
use crate::svg::{Anchor, Svg};
use crate::text::{clean, cut};
use baremark_model::document::Document;
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
const LEFT: f64 = 62.0;
const TOP: f64 = 28.0;

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
    let figure = |(quantity, instance): (&str, &str)| {
        let lines: Vec<&ObservedSeries> = match instance {
            "" => observed.series.iter().filter(whole).filter(|series| series.quantity == quantity).collect(),
            _ => observed.series.iter().filter(|s| s.quantity == quantity && s.instance == instance).collect(),
        };
        let happened = lines.iter().any(|line| line.points.iter().any(|[_, value]| *value != 0.0));
        if happened { draw(quantity, &lines) } else { None }
    };
    keys.into_iter().filter_map(figure).take(MOST_FIGURES).collect()
}

fn draw(quantity: &str, lines: &[&ObservedSeries]) -> Option<Figure> {
    let lines = &lines[..lines.len().min(MOST_LINES)];
    let first = lines.first()?;
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = Axis::over(points().map(|[at, _]| *at), [LEFT, WIDTH - MARGIN], false)?;
    let up = Axis::over(points().map(|[_, value]| *value).chain([0.0]), [TOP + HEIGHT, TOP], false)?;
    let caption = label(quantity, &first.instance, &first.unit);
    let name = format!("around-{}{}", word(quantity), word(&first.instance));
    let mut svg = Svg::new(&name, [WIDTH, TOP + HEIGHT + 36.0], &caption, &in_words(lines));
    for (value, text) in up.ticks(4.0) {
        svg.line("rule", [LEFT, up.at(value)], [WIDTH - MARGIN, up.at(value)]);
        svg.text("tick", [LEFT - 6.0, up.at(value) + 4.0], Anchor::End, &text);
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
    Some(Figure { caption, name, shows: Shows::Activity, svg })
}

/// Where nothing was observed for far longer than a point lasts, a line has a gap.
fn parts(points: &[[f64; 2]]) -> Vec<&[[f64; 2]]> {
    let mut steps: Vec<f64> = points.windows(2).map(|pair| pair[1][0] - pair[0][0]).collect();
    steps.sort_by(f64::total_cmp);
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(0.0);
    points.chunk_by(|a, b| b[0] - a[0] <= 5.0 * usual.max(0.1)).collect()
}

/// Letters and digits alone, for the name of a file.
fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn in_words(lines: &[&ObservedSeries]) -> String {
    let say = |line: &&ObservedSeries| {
        let values = line.points.iter().map(|[_, value]| *value);
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(v), m.max(v)));
        let [least, most] = [least, most].map(|value| fixed(value, three_digits(value)));
        format!("{}: {} points from {least} to {most} {}", clean(&line.place), line.points.len(), clean(&line.unit))
    };
    lines.iter().map(say).collect::<Vec<_>>().join("; ")
}
