//! The load of an application over time: the 99th percentile of its latency second by second, with the changes of the number of servers, the seconds
//! in which a tier stalled, and those in which operations failed.

use super::read::{AppLoad, AppSecond, ServerChange};
use crate::axis::{Axis, Figure, LEFT, MARGIN, WIDTH};
use crate::number::{fixed, percent, rounded};
use crate::svg::{Anchor, Svg};
use crate::text::clean;

const TOP: f64 = 30.0;
const HEIGHT: f64 = 150.0;
/// Fewer seconds are no course.
const FEWEST: usize = 3;
/// The share of a second for which a tier waits for a CPU, a disk or memory, from which on that is marked.
const STALLED: f64 = 0.1;
/// How the names of such shares end.
const STALL: &str = "_stall";

/// A second that has a percentile: its time in s and the percentile in ms.
struct DrawnSecond<'s> {
    at: f64,
    p99: f64,
    second: &'s AppSecond,
}

impl DrawnSecond<'_> {
    /// The tier that stalled longest in it, and for what share, where that is worth a mark.
    fn stall(&self) -> Option<(String, f64)> {
        let shares = self.second.waits.iter().filter(|(name, _)| name.ends_with(STALL));
        let shares = shares.filter_map(|(name, share)| Some((name, (*share)?)));
        let (name, share) = shares.max_by(|one, two| one.1.total_cmp(&two.1)).filter(|(_, share)| *share > STALLED)?;
        Some((clean(name.trim_end_matches(STALL)).replace('.', " "), share))
    }
}

/// The figure of one load; `None` of one that was too short.
pub(super) fn draw(name: &str, load: &AppLoad, number: usize) -> Option<Figure> {
    let shown: Vec<DrawnSecond<'_>> = load.series.iter().filter_map(second).collect();
    if shown.len() < FEWEST {
        return None;
    }
    let changes = load.elasticity.as_ref().map_or(&[][..], |elastic| elastic.adaptations.as_slice());
    let bottom = TOP + HEIGHT;
    let seconds = load.series.iter().filter_map(|of| of.at_s).filter(|at| at.is_finite());
    let times = seconds.chain(changes.iter().filter_map(|change| change.at_s)).chain([0.0]);
    let across = Axis::over(times, [LEFT, WIDTH - MARGIN], false)?;
    let up = Axis::over(shown.iter().map(|of| of.p99), [bottom, TOP], true)?;
    let title = format!("{name}: 99th percentile of latency by second");
    let mut svg = Svg::new(&format!("seconds-{number}"), [WIDTH, bottom + 38.0], &title, &in_words(&shown, changes));
    up.draw_upright(&mut svg);
    svg.text("axis", [LEFT - 6.0, 14.0], Anchor::End, "ms");
    svg.line("rule", [LEFT, bottom], [WIDTH - MARGIN, bottom]);
    for (value, text) in across.ticks(6.0) {
        svg.text("tick", [across.at(value), bottom + 17.0], Anchor::Middle, &text);
    }
    svg.text("axis", [f64::midpoint(LEFT, WIDTH), bottom + 34.0], Anchor::Middle, "seconds");
    for change in changes {
        let Some(at) = change.at_s else { continue };
        svg.line("one", [across.at(at), TOP], [across.at(at), bottom]);
        svg.text("tick", [across.at(at) + 3.0, TOP - 4.0], Anchor::Start, &in_short(change));
    }
    svg.polyline("curve c0", &shown.iter().map(|of| [across.at(of.at), up.at(of.p99)]).collect::<Vec<_>>());
    for of in &shown {
        let place = [across.at(of.at), up.at(of.p99)];
        let says = format!("{} s: {} ms", fixed(of.at, 0), rounded(of.p99));
        match (of.second.failed, of.stall()) {
            (1.., _) => svg.cross("void", place, 4.0, &format!("{says}, {} operations failed", of.second.failed)),
            (0, Some((what, share))) => {
                svg.dot("point flagged", place, 3.2, &format!("{says}, {what} stalled for {}", percent(share)));
            }
            (0, None) => svg.dot("point", place, 2.4, &says),
        }
    }
    // Where nothing was answered there is no latency: the failures are on the axis.
    for of in load.series.iter().filter(|of| of.failed > 0 && second(of).is_none()) {
        let Some(at) = of.at_s.filter(|at| at.is_finite()) else { continue };
        let says = format!("{} s: no latency, {} operations failed", fixed(at, 0), of.failed);
        svg.cross("void", [across.at(at), bottom], 4.0, &says);
    }
    let servers = if changes.is_empty() { "" } else { "; dashed: the number of servers changed" };
    let caption = format!(
        "{title}, ms; the longest of a second with fewer than 368 latencies. Hollow: a tier waited for a CPU, a disk or memory for more than {}; crosses: operations failed{servers}.",
        percent(STALLED)
    );
    Some(Figure { caption, name: format!("seconds-{number}"), svg })
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of at most an hour")]
fn second(second: &AppSecond) -> Option<DrawnSecond<'_>> {
    let (at, p99) = (second.at_s?, second.p99_ns? as f64 / 1e6);
    (at.is_finite() && p99 > 0.0).then_some(DrawnSecond { at, p99, second })
}

/// "app 1 to 2"
fn in_short(change: &ServerChange) -> String {
    format!("{} {} to {}", clean(&change.tier), change.from, change.to)
}

/// The figure in words, for those who cannot see it.
fn in_words(shown: &[DrawnSecond<'_>], changes: &[ServerChange]) -> String {
    let (least, most) =
        shown.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), of| (least.min(of.p99), most.max(of.p99)));
    let [least, most] = [least, most].map(rounded);
    let stalled = shown.iter().filter(|of| of.stall().is_some()).count();
    let changes: Vec<String> = changes.iter().map(in_short).collect();
    let changes = if changes.is_empty() { String::new() } else { format!("; servers: {}", changes.join(", ")) };
    format!("{} seconds from {least} to {most} ms, {stalled} with a stall{changes}", shown.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[test]
    fn stalls_failures_and_changes_of_servers_are_marked() {
        let second = |at: f64, ms: u64, failed: u64, stall: f64| json!({ "at_s": at, "p99_ns": ms * 1_000_000, "failed": failed, "waits": { "app.cpu_stall": stall, "app.disk": 5000.0 } });
        let load = json!({
            "series": [second(1.0, 20, 0, 0.0), second(2.0, 80, 0, 0.4), second(3.0, 90, 2, 0.0), { "at_s": 4.0, "failed": 7 }],
            "elasticity": { "adaptations": [{ "at_s": 2.5, "tier": "app", "from": 1, "to": 2 }] },
        });
        let load = AppLoad::deserialize(&load).expect("a load");
        let svg = draw("steady", &load, 1).expect("a figure").svg.inline();
        assert!(svg.contains("2 s: 80.0 ms, app cpu stalled for 40"), "{svg}");
        assert!(svg.contains("3 s: 90.0 ms, 2 operations failed") && svg.contains(">app 1 to 2</text>"), "{svg}");
        assert!(svg.contains("4 s: no latency, 7 operations failed"), "{svg}");
        assert_eq!((svg.matches("<circle").count(), svg.matches("class=\"void\"").count()), (2, 2), "{svg}");
        let short = AppLoad { series: load.series.into_iter().take(2).collect(), ..AppLoad::default() };
        assert!(draw("steady", &short, 1).is_none());
    }
}
