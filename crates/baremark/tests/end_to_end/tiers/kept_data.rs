//! Loaded data that are kept: reused when they fit, refused when they do not.

use super::{document, have, ran, sound};
use crate::bench::{Bench, text};

fn reused(more: &[&str]) {
    let bench = Bench::new();
    // A database runs as somebody else, who must get to the run's own folder, not to the kept data.
    let data = format!("topology.data=keep:{}", bench.path("kept").display());
    let few = ["load.users=10", "load.warm=1 s", "load.duration=1 s", "limits.mix=900 %"];
    let set = [&[data.as_str()][..], more, &few].concat();
    for _ in 0..2 {
        // Invariants hold: the second run has the rows of the first load, and none of its bids.
        let result = document(&ran(&bench, &set, &[]));
        let row = sound(&result);
        // The home page is for everybody; the rest is for those who are logged in.
        let inside = row["load"]["operations"].as_array().unwrap().iter().filter(|one| one["name"] != "home");
        let done: u64 = inside.map(|one| one["succeeded"].as_u64().unwrap()).sum();
        assert!(done > 0, "users log in with the password of the kept accounts: {}", row["load"]["failures"]);
    }
    let folder = std::fs::read_dir(bench.path("kept")).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join("data").is_dir() && folder.join("list.json").is_file(), "{}", folder.display());
    let refused = |set: &[&str], phrase: &str| {
        let output = ran(&bench, set, &[]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(phrase), "{:?}: {said}", output.status);
    };
    refused(&[&["topology.seed=2"], &set[..]].concat(), "it holds other data (seed is '1', not '2')");
    // Damage is seen before anybody is served.
    let file = largest(&folder.join("data"));
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    refused(&set, "is not as it was loaded; remove it to load anew");
}

fn largest(folder: &std::path::Path) -> std::path::PathBuf {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.map(|path| if path.is_dir() { largest(&path) } else { path });
    files.filter(|path| path.is_file()).max_by_key(|path| path.metadata().unwrap().len()).unwrap_or_default()
}

#[test]
fn loaded_data_of_sqlite_are_kept_verified_and_reused() {
    reused(&[]);
}

#[test]
fn loaded_data_of_postgres_are_kept_verified_and_reused() {
    if have(&["postgres"]) {
        reused(&["database.service=postgres"]);
    }
}
