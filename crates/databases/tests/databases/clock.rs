//! Steps of the wall clock under a load on SQLite, and where that clock is read.

use crate::steps::in_a_process;
use baremark_databases::kind::Kind;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn steps_of_the_wall_clock_under_load_change_dates_and_nothing_else_on_sqlite() {
    in_a_process(Kind::Sqlite);
}

/// A wall clock that is read elsewhere would escape the steps above.
#[test]
fn the_wall_clock_is_read_in_one_place() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut reading = Vec::new();
    collect(&sources, &mut reading);
    assert_eq!(reading, [sources.join("loading.rs")]);
}

/// Source files that read the wall clock.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, found);
        } else if ["SystemTime", "unix_time_ns"].iter().any(|word| fs::read_to_string(&path).unwrap().contains(word)) {
            found.push(path);
        }
    }
}
