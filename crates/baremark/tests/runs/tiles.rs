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
    assert!((document["levels"][0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-9, "applications alone: {document:#}");
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("migrate is absent: "), "{report}");
}
