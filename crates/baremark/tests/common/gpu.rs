//! The shipped study `gpu`.

use std::fs;
use std::path::Path;

/// The shipped study with little work: one member that draws and one that trains.
pub fn small() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/gpu.toml");
    let changes = [
        ("gpu_memory = 24            # scaled = 8 unless cpus >= 8", "gpu_memory = 2"),
        ("profile = [8, 4, 2, 1]", "profile = 2"),
        ("profile = 8 ", "profile = 2 "),
        ("frames = 20", "frames = 2"),
        ("detail = 4 ", "detail = 1 "),
        ("digits = 2048", "digits = 384"),
        ("least_blocks = 4", "least_blocks = 4\nmost_blocks = 4"),
    ];
    changes.iter().fold(fs::read_to_string(path).unwrap(), |text, (from, to)| {
        assert!(text.contains(from), "the study has no {from}");
        text.replacen(from, to, 1)
    })
}
