//! How many servers a farm carries, and to which score tiles run. Needs root.

use crate::common::bench::{Bench, root, text};
use crate::common::consolidation::{estimate, farm_levels, ran, records, tiles, tiles_with_a_shop};
use std::path::PathBuf;

#[test]
fn a_web_farm_finds_levels_of_both_limits() {
    if !root() {
        return;
    }
    let levels = farm_levels(&Bench::new());
    for limit in ["cpu", "latency"] {
        assert!(levels.iter().any(|level| level["limit"] == limit), "{limit}: {levels:#?}");
    }
    assert!(levels.iter().any(|level| level["verdict"] != "insufficient"), "{levels:#?}");
}

#[test]
fn one_and_two_tiles_run_to_a_score() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("tile.toml", tiles("latency_p95_ms < 10000"));
    let (result, output) = ran(&bench, "tile.toml");
    let said = text(&output.stderr);
    let bound = result["flags"].to_string().contains("ceiling reached: at least 2 tiles with a score of ");
    assert!(bound && estimate(&result, "tiles").is_none(), "{result:#}\n{said}");
    // Of one tile it is 1 by definition, and two cannot do more than twice as much at a fixed load, but for chance.
    assert!((estimate(&result, "score_of_one").unwrap() - 1.0).abs() < 1e-9, "{result:#}");
    let levels = &result["details"][0]["document"]["levels"];
    assert!(levels[1]["score"].as_f64().is_some_and(|score| score > 0.2 && score < 3.0), "{result:#}");
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("Throughput over that of one tile") && report.contains("2 tiles"), "{report}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}

#[test]
fn the_dvd_store_takes_orders_in_each_of_two_tiles() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("tile.toml", tiles_with_a_shop(&bench, "10000"));
    let (result, output) = ran(&bench, "tile.toml");
    let said = text(&output.stderr);
    let levels = result["details"][0]["document"]["levels"].as_array().unwrap_or_else(|| panic!("{result:#}\n{said}"));
    let two = levels.iter().find(|level| level["tiles"] == 2).unwrap_or_else(|| panic!("{levels:#?}"));
    let shops = two["runs"].as_array().unwrap().iter().filter(|run| run["member"] == "shop");
    let orders: Vec<f64> = shops.map(|run| run["throughput"].as_f64().unwrap()).collect();
    assert!(orders.len() == 2 && orders.iter().all(|orders| *orders > 100.0), "{orders:?}: {two:#}");
}
