//! Studies of workloads on databases, whose data is in the bench's own folder.

use super::bench::{Bench, signal, tells_of_a_block, text};
use std::fs;
use std::io::{BufRead as _, BufReader};

pub fn study(bench: &Bench, workload: &str) -> String {
    format!(
        "[study]\ntitle = \"a database\"\n[workload]\n{workload}\nduration = \"300 ms\"\nwarm_up = \"50 ms\"\ndata = \"{}\"\n\
         [design]\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"10 min\"\n",
        bench.path("baremark-data").display()
    )
}

/// Names in the folder of data that are not loaded data.
pub fn left(bench: &Bench) -> Vec<String> {
    let names = fs::read_dir(bench.path("baremark-data")).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with("sqlite-")).collect()
}

/// Flips a bit in the middle of the embedded database that is kept.
pub fn damage(bench: &Bench) {
    let kept = fs::read_dir(bench.path("baremark-data")).unwrap().flatten().next().unwrap().path();
    let file = kept.join("data/database");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
}

/// Runs the study until it has said this, then interrupts it; all that it said.
pub fn until(bench: &Bench, word: &str) -> String {
    interrupted_at(bench, |line| line.contains(word))
}

/// Runs the study until so many of its blocks are stored, then interrupts it; all that it said. Of a block of which a trial failed that is not said.
pub fn until_stored(bench: &Bench, blocks: usize) -> String {
    let mut stored = 0;
    interrupted_at(bench, |line| {
        stored += usize::from(tells_of_a_block(line));
        stored == blocks
    })
}

/// Runs the study until a line is the one, then interrupts it; all that it said.
fn interrupted_at(bench: &Bench, mut is_it: impl FnMut(&str) -> bool) -> String {
    let mut lab = bench.spawn(&["run", "study.toml"]);
    let (mut said, mut found) = (String::new(), false);
    for line in BufReader::new(lab.stderr.take().unwrap()).lines().map_while(Result::ok) {
        // Once: a second interrupt would end the run at once.
        if !found && is_it(&line) {
            found = true;
            signal(lab.id(), libc::SIGINT);
        }
        said = said + &line + "\n";
    }
    assert_eq!(lab.wait().unwrap().code(), Some(130), "{said}");
    said
}

/// Runs the study until it has said this, then interrupts it.
pub fn is_said(bench: &Bench, study: &str, words: &str) -> bool {
    bench.write("study.toml", study);
    let mut lab = bench.spawn(&["run", "study.toml"]);
    let mut found = false;
    for line in BufReader::new(lab.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if !found && line.contains(words) {
            found = true;
            signal(lab.id(), libc::SIGINT);
        }
    }
    lab.wait().unwrap();
    found
}

/// A server runs as somebody else, who must get to the bench's folder.
pub fn let_others_through(bench: &Bench) {
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    fs::set_permissions(bench.folder.path(), open).unwrap();
}
