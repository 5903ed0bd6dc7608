//! The figure of a search for the largest load that keeps its limits: latency against load, with the limit, the answer and its bracket, and how
//! each level was judged.

use crate::axis::{Axis, Figure, HEIGHT, LEFT, MARGIN, WIDTH};
use crate::number::{fixed, three_digits};
use crate::svg::{Anchor, Svg};
use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::document::Document;
use baremark_model::maximum::{self, KneeRow, Said};
use baremark_model::order;
use baremark_model::qos::{Bound, Limit};
use baremark_model::units::Nanos;
use serde::Deserialize;
use serde_json::Value;

const TOP: f64 = 30.0;
/// Searches of one run that are drawn.
const MOST: usize = 8;

/// A latency of a level by its name.
type Percentile = (&'static str, fn(&KneeRow) -> Option<u64>);

/// Percentiles of a level, the upper first.
const PERCENTILES: [Percentile; 3] = [("p99", |row| row.p99_ns), ("p95", |row| row.p95_ns), ("p50", |row| row.p50_ns)];

/// What names its format.
#[derive(Deserialize)]
struct Formatted<'v> {
    #[serde(borrow)]
    format: &'v str,
}

/// Whether a value in a detail is the document of a search.
pub(crate) fn is_search(value: &Value) -> bool {
    Formatted::deserialize(value).is_ok_and(|of| of.format == maximum::FORMAT)
}

/// The figures of all searches that a document's details hold.
pub(crate) fn figures(document: &Document) -> Vec<Figure> {
    let factors = Factors::of(&document.run);
    let mut found: Vec<(String, maximum::Document)> = Vec::new();
    for detail in &document.details {
        let mut searches = Vec::new();
        collect(&detail.document, &mut searches);
        let name = factors.name(&detail.treatment);
        found.extend(searches.into_iter().map(|search| (name.clone(), search)));
    }
    found.iter().take(MOST).zip(1..).filter_map(|((name, search), number)| draw(name, search, number)).collect()
}

/// Every search in a value, as deep as it may be.
fn collect(value: &Value, found: &mut Vec<maximum::Document>) {
    match value {
        _ if is_search(value) => found.extend(maximum::Document::deserialize(value).ok()),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, found)),
        Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

/// The figure of one search; `None` where it knows of fewer than two levels.
pub(crate) fn draw(name: &str, search: &maximum::Document, number: usize) -> Option<Figure> {
    let rows: Vec<&KneeRow> =
        search.knee.iter().filter(|row| PERCENTILES.iter().any(|(_, of)| of(row).is_some())).collect();
    if rows.len() < 2 {
        return None;
    }
    let bottom = TOP + HEIGHT;
    let answer = search.maximum;
    let bracket = answer.and_then(|maximum| maximum.low.zip(maximum.high));
    let levels = rows.iter().map(|row| row.level).chain(answer.map(|maximum| maximum.level));
    let levels = levels.chain(bracket.into_iter().flat_map(|(low, high)| [low, high])).filter(|level| *level > 0.0);
    let spread: Vec<f64> = levels.collect();
    let (least, most) =
        spread.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(*one), high.max(*one)));
    let across = Axis::over(spread.iter().copied(), [LEFT + 8.0, WIDTH - MARGIN - 8.0], most / least > 8.0)?;
    let bound = bound(search);
    let shown = PERCENTILES.iter().flat_map(|(_, of)| rows.iter().filter_map(|row| of(row)).map(ms));
    let up = Axis::over(shown.chain(bound.iter().map(|(_, at)| *at)), [bottom, TOP], true)?;
    let factor = clean(&search.factor);
    let id = format!("knee-{number}");
    let title = format!("{name}: latency by {factor}");
    let mut svg = Svg::new(&id, [WIDTH, bottom + 38.0], &title, &in_words(&rows, search));
    if let Some((low, high)) = bracket {
        svg.rect("limits", [across.at(low), TOP], [across.at(high) - across.at(low), HEIGHT]);
    }
    up.draw_upright(&mut svg);
    svg.text("axis", [LEFT - 6.0, TOP - 8.0], Anchor::End, "ms");
    across.draw_levels(&mut svg, bottom, across.ticks(5.0).iter().map(|(value, text)| (*value, text.as_str())));
    svg.text("axis", [f64::midpoint(LEFT, WIDTH), bottom + 34.0], Anchor::Middle, &factor);
    if let Some((words, at)) = &bound {
        up.draw_bound(&mut svg, *at, words);
    }
    if let Some(maximum) = answer {
        svg.line("one", [across.at(maximum.level), TOP], [across.at(maximum.level), bottom]);
    }
    let mut legend = LEFT;
    for (number, (name, of)) in PERCENTILES.iter().enumerate() {
        let class = format!("curve c{number}");
        let points: Vec<(&KneeRow, [f64; 2])> =
            rows.iter().filter_map(|row| Some((*row, [across.at(row.level), up.at(ms(of(row)?))]))).collect();
        if points.is_empty() {
            continue;
        }
        svg.polyline(&class, &points.iter().map(|(_, place)| *place).collect::<Vec<_>>());
        for (row, place) in points {
            let says = format!("{} {factor}, {name}: {} ms, {}", level(row.level), fixed(ms(of(row)?), 2), judged(row));
            match row.verdict.as_str() {
                FAILED => svg.cross("void", place, 4.0, &says),
                _ => svg.dot(&class, place, 3.0, &says),
            }
        }
        svg.line(&class, [legend, 10.0], [legend + 22.0, 10.0]);
        svg.text("label", [legend + 27.0, 14.0], Anchor::Start, name);
        legend += 66.0;
    }
    let limits = match search.qos.limits.as_slice() {
        [only] => format!(", limit {}", clean(&only.to_string())),
        _ => String::new(),
    };
    let mut caption = format!("{title}, from the intended start{limits}. Crosses: levels that exceeded a limit");
    if let Some(maximum) = answer {
        caption += &format!("; dashed: the estimate of this search, {} {factor}", level(maximum.level));
    }
    if bracket.is_some() {
        caption += "; shaded: its interval";
    }
    Some(Figure { caption: caption + ".", name: id, svg })
}

/// The verdict of a level at which a limit was exceeded.
const FAILED: &str = "fail";

/// How a window is judged, as `baremark load` says of a limit.
#[must_use]
pub fn said(said: Said) -> &'static str {
    match said {
        Said::Pass => "met",
        Said::Fail => "exceeded",
        Said::Insufficient => "too few samples",
    }
}

/// Windows of which a level's verdict needs that many, however many operations are in each (`baremark_stats::search::judge_limits`).
const FEWEST_WINDOWS: usize = 3;

/// How a level was judged, in the words of a limit.
#[must_use]
pub fn judged(row: &KneeRow) -> &str {
    match row.verdict.as_str() {
        "pass" => said(Said::Pass),
        "fail" => said(Said::Fail),
        "insufficient" if row.windows < FEWEST_WINDOWS => "too few windows",
        "insufficient" => said(Said::Insufficient),
        other => other,
    }
}

/// The line of the limits of latency: what is drawn is the latency of all operations together, and of limits for single operations the strictest
/// stands for them.
fn bound(search: &maximum::Document) -> Option<(String, f64)> {
    let within = |limit: &Limit| match limit.bound {
        Bound::Latency { within: Nanos(ns), .. } => {
            Some((limit.operation.is_some(), ms(ns), clean(&limit.to_string())))
        }
        _ => None,
    };
    let mut all: Vec<(bool, f64, String)> = search.qos.limits.iter().filter_map(within).collect();
    order::by(&mut all, |one, two| one.0.cmp(&two.0).then(one.1.total_cmp(&two.1)));
    let (of_one, at, words) = all.first()?;
    let strictest = if *of_one && all.len() > 1 { "strictest " } else { "" };
    Some((format!("{strictest}limit {words}"), *at))
}

#[expect(clippy::cast_precision_loss, reason = "a place in a figure")]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn level(value: f64) -> String {
    fixed(value, three_digits(value).max(0))
}

/// The figure in words, for those who cannot see it.
fn in_words(rows: &[&KneeRow], search: &maximum::Document) -> String {
    let say = |row: &&KneeRow| {
        let times = PERCENTILES.iter().filter_map(|(name, of)| Some(format!("{name} {} ms", fixed(ms(of(row)?), 2))));
        format!(
            "{} {}: {}, {}",
            level(row.level),
            clean(&search.factor),
            times.collect::<Vec<_>>().join(", "),
            judged(row)
        )
    };
    rows.iter().map(say).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::maximum::{Basis, Ended, Maximum, Plan};
    use std::collections::BTreeMap;

    fn row(level: f64, verdict: &str, p99_ms: u64) -> KneeRow {
        KneeRow {
            level,
            windows: 4,
            verdict: verdict.to_owned(),
            achieved_per_s: level,
            failed_share: 0.0,
            p50_ns: Some(p99_ms * 100_000),
            p95_ns: None,
            p99_ns: Some(p99_ms * 1_000_000),
            utilization: BTreeMap::new(),
            generator_cpu_share: None,
        }
    }

    fn search(knee: Vec<KneeRow>) -> maximum::Document {
        let maximum = Maximum {
            level: 150.0,
            low: Some(100.0),
            high: Some(200.0),
            confidence: 0.95,
            basis: Basis::Bracket,
            isotonic_level: None,
        };
        maximum::Document {
            format: maximum::FORMAT.to_owned(),
            title: "t".to_owned(),
            factor: "users".to_owned(),
            qos: serde_json::from_value(serde_json::json!({ "limits": ["login:p99<20ms", "p99<50ms", "failures<1%"] }))
                .expect("limits"),
            plan: Plan::between(1.0, 1000.0),
            ended: Ended::Found,
            maximum: Some(maximum),
            shown_level: None,
            at_answer: None,
            limited_by: Vec::new(),
            generator_was_the_limit: false,
            hysteresis: None,
            knee,
            trials: Vec::new(),
        }
    }

    #[test]
    fn a_search_is_found_in_any_detail_and_drawn_with_limit_answer_and_bracket() {
        let knee = vec![row(100.0, "pass", 20), row(200.0, "fail", 80)];
        let detail = serde_json::json!({ "searches": [{ "limit": "p99", "search": search(knee) }] });
        let mut found = Vec::new();
        collect(&detail, &mut found);
        let [only] = found.as_slice() else { panic!("{found:?}") };
        let figure = draw("rate 25", only, 1).expect("a figure");
        let svg = figure.svg.inline();
        assert!(svg.contains(">limit p99&lt;50 ms</text>"), "the limit of all operations: {svg}");
        assert_eq!((svg.matches("class=\"void\"").count(), svg.matches("class=\"one\"").count()), (2, 1), "{svg}");
        assert!(
            figure.caption.contains("the estimate of this search, 150 users; shaded: its interval"),
            "{}",
            figure.caption
        );
        assert!(svg.contains("100 users: p99 20.00 ms, p50 2.00 ms, met"), "{svg}");
    }

    #[test]
    fn one_level_is_no_figure() {
        assert!(draw("", &search(vec![row(100.0, "pass", 20)]), 1).is_none());
    }

    /// A window of 10^5 requests had "too few samples".
    #[test]
    fn a_level_of_two_windows_lacks_windows_and_not_samples() {
        let level_of = |windows: usize, verdict: &str| KneeRow {
            level: 50_000.0,
            windows,
            verdict: verdict.to_owned(),
            achieved_per_s: 50_000.0,
            failed_share: 0.0,
            p50_ns: None,
            p95_ns: None,
            p99_ns: None,
            utilization: BTreeMap::new(),
            generator_cpu_share: None,
        };
        assert_eq!(judged(&level_of(2, "insufficient")), "too few windows");
        assert_eq!(judged(&level_of(3, "insufficient")), "too few samples");
        assert_eq!(judged(&level_of(1, "fail")), "exceeded");
    }
}
