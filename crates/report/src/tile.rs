//! What the workload `tile` reports alongside its metrics: score, throughput and limited metric of each member against the number of tiles.
//!
//! What a version does not have is left out, so that older and newer ones can be shown.

use crate::axis::Figure;
use crate::chart::{Chart, Point};
use crate::grid::{Cell, Grid, GridRow};
use crate::number::{count, fixed};
use crate::section::Group;
use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::document::Document;
use serde::Deserialize;

/// How the format begins that is shown here.
const FORMAT: &str = "baremark-tile/";

/// What the workload writes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Detail {
    members: Vec<TileMember>,
    absent: Vec<Absent>,
    levels: Vec<TileLevel>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TileMember {
    name: String,
    workload: String,
    throughput: String,
    /// `latency_p95_ms < 100`
    limit: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Absent {
    name: String,
    why: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TileLevel {
    tiles: u64,
    score: Option<f64>,
    broken: Vec<String>,
    members: Vec<AtLevel>,
}

/// A member at a level.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AtLevel {
    name: String,
    normalized_throughput: Option<f64>,
    normalized_limited: Option<f64>,
    /// The limited metric.
    limited: Option<f64>,
}

impl TileMember {
    /// The limit's number.
    fn below(&self) -> Option<f64> {
        self.limit.rsplit('<').next()?.trim().parse().ok().filter(|limit| *limit > 0.0)
    }
}

impl TileLevel {
    fn of(&self, member: &TileMember) -> Option<&AtLevel> {
        self.members.iter().find(|of| of.name == member.name)
    }
}

/// The tiles of a document, by treatment.
fn details(document: &Document) -> impl Iterator<Item = (String, u64, Detail)> {
    let factors = Factors::of(&document.run);
    let shown = document.details.iter().filter(|detail| detail.format.starts_with(FORMAT));
    shown.filter_map(move |row| {
        Some((factors.name(&row.treatment), row.block, Detail::deserialize(&row.document).ok()?))
    })
}

/// The most tiles that kept every limit, and what more exceeded, a sentence for each treatment.
pub(crate) fn found(document: &Document) -> Vec<String> {
    let of = |(name, _, detail): (String, u64, Detail)| {
        let most = detail.levels.iter().filter(|level| level.broken.is_empty()).max_by_key(|level| level.tiles)?;
        let score = most.score.map(|score| format!(" (score {})", fixed(score, 2))).unwrap_or_default();
        let beyond = detail.levels.iter().filter(|level| level.tiles > most.tiles && !level.broken.is_empty());
        let beyond = beyond.min_by_key(|level| level.tiles).and_then(|level| Some((level, level.broken.first()?)));
        let beyond =
            beyond.map(|(level, why)| format!("; at {} tiles {}", level.tiles, clean(why))).unwrap_or_default();
        Some(format!("{name}: {} kept every limit{score}{beyond}.", count(most.tiles, "tile")))
    };
    details(document).filter_map(of).collect()
}

/// The tiles of a document as tables.
pub(crate) fn groups(document: &Document) -> Vec<Group> {
    details(document).map(|(name, block, detail)| group(&name, block, &detail)).collect()
}

/// The limited metric of each member as a share of its limit, against the number of tiles.
pub(crate) fn figures(document: &Document) -> Vec<Figure> {
    details(document).enumerate().filter_map(|(number, (name, _, detail))| draw(&name, &detail, number + 1)).collect()
}

fn draw(name: &str, detail: &Detail, number: usize) -> Option<Figure> {
    let lines: Vec<(String, Vec<Point>)> = detail
        .members
        .iter()
        .filter_map(|member| {
            let below = member.below()?;
            let point = |level: &TileLevel| {
                let share = 100.0 * level.of(member)?.limited? / below;
                #[expect(clippy::cast_precision_loss, reason = "a number of tiles")]
                let at = level.tiles as f64;
                (share > 0.0).then(|| (level.tiles.to_string(), at, share))
            };
            Some((
                format!("{} ({})", clean(&member.name), clean(&member.limit)),
                detail.levels.iter().filter_map(point).collect(),
            ))
        })
        .collect();
    let whole = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let title = format!("{whole}limited metric of each member, in % of its limit");
    let chart =
        Chart { id: format!("tile-{number}"), title, factor: "tiles", unit: "%", bound: Some((100.0, "limit")), lines };
    chart.draw()
}

fn group(name: &str, block: u64, detail: &Detail) -> Group {
    let whole = if name.is_empty() { String::new() } else { format!("{name}, ") };
    let of_member = |member: &TileMember| {
        let [name, workload, throughput, limit] =
            [&member.name, &member.workload, &member.throughput, &member.limit].map(|text| clean(text));
        format!("{name}: {workload} with {throughput}, {limit}.")
    };
    let absent = |member: &Absent| format!("{} is absent: {}.", clean(&member.name), clean(&member.why));
    let broken = |level: &TileLevel| {
        let reasons: Vec<String> = level.broken.iter().map(|why| clean(why)).collect();
        (!reasons.is_empty()).then(|| format!("{} tiles have no score: {}.", level.tiles, reasons.join("; ")))
    };
    let grid = |caption: &str, value: fn(&AtLevel) -> Option<f64>| Grid {
        caption: caption.to_owned(),
        columns: std::iter::once("score".to_owned()).chain(detail.members.iter().map(|of| clean(&of.name))).collect(),
        rows: detail.levels.iter().map(|level| row(level, &detail.members, value)).collect(),
        reasons: Vec::new(),
    };
    let grids = vec![
        grid("Throughput over that of one tile, or the reference", |of| of.normalized_throughput),
        grid("Limited metric (latency) over that of one tile", |of| of.normalized_limited),
    ];
    let members = detail.members.iter().map(of_member);
    Group {
        head: format!("Tiles: {whole}block {}", block + 1),
        lines: members.chain(detail.absent.iter().map(absent)).chain(detail.levels.iter().filter_map(broken)).collect(),
        grids: if detail.levels.is_empty() { Vec::new() } else { grids },
    }
}

fn row(level: &TileLevel, members: &[TileMember], value: fn(&AtLevel) -> Option<f64>) -> GridRow {
    let cell = |value: Option<f64>| {
        value.map_or(Cell::Blank, |value| Cell::Measured { estimate: fixed(value, 3), ratio: None })
    };
    let of = |member: &TileMember| cell(level.of(member).and_then(value));
    GridRow {
        label: count(level.tiles, "tile"),
        cells: std::iter::once(cell(level.score)).chain(members.iter().map(of)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn levels_are_rows_and_a_broken_one_has_a_reason_and_no_score() {
        let of = |tiles: u64, score: Option<f64>, broken: &[&str], ratio: f64| {
            json!({ "tiles": tiles, "score": score, "broken": broken,
                "members": [{ "name": "web", "normalized_throughput": 1.0, "normalized_limited": ratio, "limited": 15.0 * ratio }] })
        };
        let document = json!({
            "members": [{ "name": "web", "workload": "web-farm", "throughput": "requests_per_s", "limit": "latency_p95_ms < 100" }],
            "absent": [{ "name": "clone", "why": "no kernel for guests" }],
            "levels": [of(1, Some(1.0), &[], 1.0), of(2, None, &["web of tile 2: latency_p95_ms is 120, the limit 100"], 8.5)],
        });
        let detail = Detail::deserialize(&document).expect("a detail");
        let group = group("", 0, &detail);
        assert_eq!(group.head, "Tiles: block 1");
        assert_eq!(group.lines[0], "web: web-farm with requests_per_s, latency_p95_ms < 100.");
        assert_eq!(group.lines[1], "clone is absent: no kernel for guests.");
        assert_eq!(group.lines[2], "2 tiles have no score: web of tile 2: latency_p95_ms is 120, the limit 100.");
        let rows = &group.grids[1].rows;
        assert_eq!((rows[0].label.as_str(), rows[1].label.as_str()), ("1 tile", "2 tiles"));
        let shown =
            |cell: &Cell| if let Cell::Measured { estimate, .. } = cell { estimate.clone() } else { String::new() };
        assert_eq!(rows[1].cells.iter().map(shown).collect::<Vec<_>>(), ["", "8.500"]);
        let figure = draw("native", &detail, 1).expect("a figure");
        let svg = figure.svg.inline();
        assert!(svg.contains("2: 128\u{a0}%") && svg.contains("<line class=\"bound\""), "{svg}");
    }
}
