//! A target over a fixed series of cases: seeds of its corpus with a few changes, each made again from its number alone.

use crate::mutate;
use std::fs;
use std::path::Path;

/// The seeds of a target below `folder`, in the order of their names so that a case is the same everywhere.
///
/// # Panics
/// When there are none.
#[must_use]
pub fn corpus(folder: &str, target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(Path::new(folder).join(target)).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().filter_map(|path| fs::read(path).ok()).collect();
    assert!(!seeds.is_empty(), "no seeds for {target}");
    seeds
}

/// Case `case` of the series `seed`.
#[must_use]
pub fn case(target: &str, corpus: &[Vec<u8>], seed: u64, case: u64) -> Vec<u8> {
    let mut data = mutate::case(corpus, seed, case);
    if target == "frame" && case.is_multiple_of(2) {
        mutate::mend_length(&mut data);
    }
    data
}

/// Says which case it was when the body panics.
struct Witness<'d> {
    seed: u64,
    case: u64,
    data: &'d [u8],
}

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, case {}: {}", self.seed, self.case, self.data.escape_ascii());
        }
    }
}

/// Runs a target's body over its seeds and so many cases.
///
/// # Panics
/// Where the body does, after the case was printed.
pub fn run(folder: &str, target: &str, cases: u64, body: fn(&[u8])) {
    const SEED: u64 = 20_260_101;
    println!("{target}: {cases} cases, seed {SEED}");
    let corpus = corpus(folder, target);
    corpus.iter().for_each(|seed| body(seed));
    for number in 0..cases {
        let data = case(target, &corpus, SEED, number);
        let _witness = Witness { seed: SEED, case: number, data: &data };
        body(&data);
    }
}
