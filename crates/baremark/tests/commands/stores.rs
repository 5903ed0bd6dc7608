//! Stores that cannot be written: a clear error, and nothing is measured.

use crate::common::bench::{Bench, SMALL, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn run_refused(bench: &Bench) -> String {
    bench.write("small.toml", SMALL);
    let output = bench.run(&["run", "small.toml"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn a_store_that_is_something_else_is_refused_and_left_alone() {
    for foreign in [&b"this is no database, and long enough to be read as a header by anybody who tries to"[..], b"x"] {
        let bench = Bench::new();
        fs::create_dir(bench.path("store")).unwrap();
        fs::write(bench.store(), foreign).unwrap();
        let message = run_refused(&bench);
        assert!(message.contains("baremark.db"), "{message}");
        assert_eq!(fs::read(bench.store()).unwrap(), foreign, "a foreign file is not written to");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let bench = Bench::new();
    fs::create_dir(bench.path("store")).unwrap();
    fs::set_permissions(bench.path("store"), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(bench.path("store/probe"), "").is_ok() {
        eprintln!("skipped: permissions do not bind this user");
        return;
    }
    let message = run_refused(&bench);
    assert!(message.contains("store"), "{message}");
}

#[test]
fn a_store_under_a_file_is_refused() {
    let bench = Bench::new();
    bench.write("store", "a file where the folder should be");
    let message = run_refused(&bench);
    assert!(message.contains("store"), "{message}");
}
