//! The fuzz bodies on stable Rust, for a few seconds: a fixed series of cases, made again from its printed seed.

#[path = "../../../../fuzz/src/bodies.rs"]
mod bodies;
#[path = "../../../../fuzz/src/mutate.rs"]
mod mutate;

use proptest::prelude::*;
use std::fs;

const SEED: u64 = 20_260_101;

/// Says which case it was when the body panics.
struct Witness<'d> {
    case: u64,
    data: &'d [u8],
}

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {SEED}, case {}: {}", self.case, self.data.escape_ascii());
        }
    }
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("a corpus").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no seeds for {target}");
    paths.iter().map(|path| fs::read(path).expect("a seed")).collect()
}

fn series(target: &str, cases: u64, body: fn(&[u8])) {
    println!("{target}: {cases} cases, seed {SEED}");
    let corpus = corpus(target);
    for seed in &corpus {
        body(seed);
    }
    for case in 0..cases {
        let mut data = mutate::case(&corpus, SEED, case);
        if target == "frame" && case % 2 == 0 {
            mutate::mend_length(&mut data);
        }
        let _witness = Witness { case, data: &data };
        body(&data);
    }
}

#[test]
fn studies_that_are_nearly_right() {
    series("study", 20_000, bodies::study);
}

#[test]
fn frames_that_are_nearly_right() {
    series("frame", 20_000, bodies::frame);
}

#[test]
fn the_seeds_are_right_themselves() {
    for seed in corpus("study") {
        let text = String::from_utf8_lossy(&seed).into_owned();
        let parsed = baremark_model::study::parse("seed.toml", &seed, crate::specimen::WORKLOADS);
        assert!(parsed.is_ok(), "{text}\n{}", parsed.expect_err("refused"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_any_kind(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        bodies::study(&data);
        bodies::frame(&data);
    }

    #[test]
    fn text_of_any_kind(text in "\\PC{0,200}") {
        bodies::study(text.as_bytes());
    }
}
