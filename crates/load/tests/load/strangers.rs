//! The fuzz bodies on stable Rust, for a few seconds: a fixed series of cases, made again from its printed seed.

#[path = "../../../../fuzz/src/mutate.rs"]
#[expect(dead_code, reason = "frames of the wire need more of it")]
mod mutate;

use baremark_load::strangers;
use std::fs;
use std::panic::catch_unwind;

const SEED: u64 = 20_260_101;

fn series(target: &str, cases: u64, body: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(!corpus.is_empty(), "no seeds for {target}");
    corpus.iter().for_each(|seed| body(seed));
    for case in 0..cases {
        let data = mutate::case(&corpus, SEED, case);
        assert!(catch_unwind(|| body(&data)).is_ok(), "seed {SEED}, case {case}: {}", data.escape_ascii());
    }
}

#[test]
fn answers_of_any_bytes() {
    series("http1", 40_000, strangers::http1);
}

#[test]
fn frames_of_any_bytes() {
    series("http2", 20_000, strangers::http2);
}

#[test]
fn scenarios_of_any_bytes() {
    series("scenario", 4_000, strangers::scenario);
}
