//! A tile of which this machine lacks a member.

use crate::common::bench::{Bench, text};
use crate::common::consolidation::{ran, tile_with_guests};
use std::path::Path;

#[test]
fn members_that_this_machine_has_no_kernel_for_are_absent() {
    let bench = Bench::new();
    bench.write("tile.toml", tile_with_guests(Path::new("/nowhere/kernel"), &[("migrate", "down_ms < 1000")]));
    let (result, output) = ran(&bench, "tile.toml");
    let said = text(&output.stderr);
    let document = &result["details"][0]["document"];
    assert_eq!(document["absent"][0]["name"], "migrate", "{result:#}\n{said}");
    assert!(document["absent"][0]["why"].as_str().is_some_and(|why| why.contains("; ")), "{document:#}");
    // A disk that stands still for the whole measured time breaks the limit of a tile, which has no score.
    let levels = document["levels"].as_array().unwrap();
    assert!(!levels.is_empty(), "{document:#}");
    for level in levels {
        let score = level["score"].as_f64();
        let is_broken = level["broken"].as_array().is_some_and(|why| !why.is_empty());
        assert_eq!(score.is_none(), is_broken, "{document:#}");
        assert!(score.is_none_or(|score| (score - 1.0).abs() < 1e-9), "applications alone: {document:#}");
    }
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("migrate is absent: "), "{report}");
}
