//! What the workload `tile` reports alongside its metrics: score, throughput and limited metric of each member against the number of tiles.
//!
//! Details are read by their keys: one that is missing is left out, so that older and newer ones can be shown.

use crate::grid::{Cell, Grid, GridRow};
use crate::number::fixed;
use crate::section::Group;
use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::document::{DetailRow, Document};
use serde_json::Value;

/// How the format begins that is shown here.
const FORMAT: &str = "baremark-tile/";

/// The tiles of a document, by treatment.
pub(crate) fn groups(document: &Document) -> Vec<Group> {
    let factors = Factors::of(&document.run);
    let shown = document.details.iter().filter(|detail| detail.format.starts_with(FORMAT));
    shown.map(|detail| group(&factors.name(&detail.treatment), detail)).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn group(name: &str, detail: &DetailRow) -> Group {
    let (members, levels) = (list(&detail.document["members"]), list(&detail.document["levels"]));
    let whole = if name.is_empty() { String::new() } else { format!("{name}, ") };
    let of_member = |member: &Value| {
        let text = |key: &str| clean(member[key].as_str().unwrap_or("-"));
        format!("{}: {} with {}, {}.", text("name"), text("workload"), text("throughput"), text("limit"))
    };
    let absent = |member: &Value| {
        let text = |key: &str| clean(member[key].as_str().unwrap_or("-"));
        format!("{} is absent: {}.", text("name"), text("why"))
    };
    let broken = |level: &Value| {
        let reasons: Vec<String> = list(&level["broken"]).iter().filter_map(Value::as_str).map(clean).collect();
        (!reasons.is_empty()).then(|| format!("{} tiles have no score: {}.", level["tiles"], reasons.join("; ")))
    };
    let names: Vec<&str> = members.iter().filter_map(|member| member["name"].as_str()).collect();
    let grid = |caption: &str, key: &str| Grid {
        caption: caption.to_owned(),
        columns: ["score"].iter().chain(&names).map(|head| clean(head)).collect(),
        rows: levels.iter().map(|level| row(level, &names, key)).collect(),
        reasons: Vec::new(),
    };
    let grids = vec![
        grid("Throughput over that of one tile, or the reference", "normalized_throughput"),
        grid("Limited metric (latency) over that of one tile", "normalized_limited"),
    ];
    Group {
        head: format!("Tiles: {whole}block {}", detail.block + 1),
        lines: members
            .iter()
            .map(of_member)
            .chain(list(&detail.document["absent"]).iter().map(absent))
            .chain(levels.iter().filter_map(broken))
            .collect(),
        grids: if levels.is_empty() { Vec::new() } else { grids },
    }
}

fn row(level: &Value, names: &[&str], key: &str) -> GridRow {
    let cell = |value: Option<f64>| {
        value.map_or(Cell::Blank, |value| Cell::Measured { estimate: fixed(value, 3), ratio: None })
    };
    let of = |name: &&str| {
        let member = list(&level["members"]).iter().find(|member| member["name"] == **name);
        cell(member.and_then(|member| member[key].as_f64()))
    };
    let tiles = level["tiles"].as_u64().unwrap_or(0);
    GridRow {
        label: format!("{tiles} {}", if tiles == 1 { "tile" } else { "tiles" }),
        cells: std::iter::once(cell(level["score"].as_f64())).chain(names.iter().map(of)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::plan::Treatment;
    use serde_json::json;

    #[test]
    fn levels_are_rows_and_a_broken_one_has_a_reason_and_no_score() {
        let of = |tiles: u64, score: Option<f64>, broken: &[&str], ratio: f64| {
            json!({ "tiles": tiles, "score": score, "broken": broken,
                "members": [{ "name": "web", "normalized_throughput": 1.0, "normalized_limited": ratio }] })
        };
        let document = json!({
            "members": [{ "name": "web", "workload": "web-farm", "throughput": "requests_per_s", "limit": "latency_p95_ms < 100" }],
            "absent": [{ "name": "clone", "why": "no kernel for guests" }],
            "levels": [of(1, Some(1.0), &[], 1.0), of(2, None, &["web of tile 2: latency_p95_ms is 120, the limit 100"], 8.5)],
        });
        let group =
            group("", &DetailRow { treatment: Treatment::new(), block: 0, format: FORMAT.to_owned(), document });
        assert_eq!(group.head, "Tiles: block 1");
        assert_eq!(group.lines[0], "web: web-farm with requests_per_s, latency_p95_ms < 100.");
        assert_eq!(group.lines[1], "clone is absent: no kernel for guests.");
        assert_eq!(group.lines[2], "2 tiles have no score: web of tile 2: latency_p95_ms is 120, the limit 100.");
        let rows = &group.grids[1].rows;
        assert_eq!((rows[0].label.as_str(), rows[1].label.as_str()), ("1 tile", "2 tiles"));
        let shown =
            |cell: &Cell| if let Cell::Measured { estimate, .. } = cell { estimate.clone() } else { String::new() };
        assert_eq!(rows[1].cells.iter().map(shown).collect::<Vec<_>>(), ["", "8.500"]);
    }
}
