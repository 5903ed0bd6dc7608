//! Wall time is for stamps: the system's clock is read in one module of each program, and whoever stamps is named here with what it stamps.
//!
//! A duration that is made of two stamps moves with every step of the clock. Whoever needs one reads `baremark_sys::clock` or an `Instant`.

use crate::source;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// How the system's clock is read.
const READINGS: [&str; 5] = ["SystemTime::now", "UNIX_EPOCH.elapsed", "CLOCK_REALTIME", "gettimeofday", "libc::time("];
/// How wall time is had from the one module that reads it.
const STAMPS: [&str; 2] = ["unix_time_ns", "SystemClock"];

/// Files that read it, and why.
const READERS: [(&str, &str); 2] = [
    ("crates/sys/src/wall.rs", "the module of this program"),
    ("apps/auction/src/duration.rs", "the module of the auction, which shares no code with the rest"),
];
/// System calls that programs in the guest make are named and answered here.
const CALLS: &str = "crates/guest-program/src/";
/// Files that stamp, and what.
const STAMPERS: [(&str, &str); 7] = [
    ("crates/sys/src/wall.rs", "its definition"),
    ("crates/baremark/src/record.rs", "runs and trials, when they began and ended"),
    ("crates/baremark/src/commands/import.rs", "files that do not say when they were made"),
    ("crates/baremark/src/commands/verify/signer.rs", "nothing: it compares when a key is valid with now"),
    ("crates/databases/src/loading.rs", "rows with dates, as an application writes them"),
    ("crates/lab/src/host_observer.rs", "observations, when they began"),
    ("crates/load/src/worker.rs", "nothing: it reads how old servers' stamps are, steps taken out"),
];

/// Every source of the programs, from the repository's root.
fn sources() -> Vec<(String, PathBuf)> {
    let root = source::root();
    let folders = source::crates().into_iter().map(|(_, folder)| folder).chain([root.join("apps/auction/src")]);
    let paths = folders.flat_map(|folder| source::files(&folder));
    paths.map(|path| (path.strip_prefix(&root).unwrap().display().to_string(), path)).collect()
}

/// Whether a line of code, not of comment, has one of these words.
fn has(text: &str, words: &[&str]) -> bool {
    let code = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    code.into_iter().any(|line| words.iter().any(|word| line.contains(word)))
}

fn with(words: &[&str]) -> BTreeSet<String> {
    let found = sources().into_iter().filter(|(_, path)| has(&fs::read_to_string(path).unwrap(), words));
    found.map(|(name, _)| name).collect()
}

fn named(files: &[(&str, &str)]) -> BTreeSet<String> {
    files.iter().map(|(file, _)| (*file).to_owned()).collect()
}

#[test]
fn the_wall_clock_is_read_in_one_module_of_each_program() {
    let mut found = with(&READINGS);
    found.retain(|file| !file.starts_with(CALLS));
    assert_eq!(found, named(&READERS), "left: found; use baremark_sys::clock for a duration");
}

#[test]
fn wall_time_is_for_stamps() {
    assert_eq!(with(&STAMPS), named(&STAMPERS), "left: found; use baremark_sys::clock for a duration");
}

#[test]
fn a_reading_is_found_in_code_and_not_in_a_comment() {
    assert!(has("fn f() {\n    let now = SystemTime::now();\n}\n", &READINGS));
    assert!(has("clock_gettime(libc::CLOCK_REALTIME, &mut now)", &READINGS));
    assert!(!has("/// Not `SystemTime::now`.\nlet time: Option<SystemTime> = None;\n", &READINGS));
}
