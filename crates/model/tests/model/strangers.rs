//! Any bytes at all, for the fuzz bodies of studies and frames; mutated seeds are in `baremark/tests/strangers`.

#[path = "../../../../fuzz/src/bodies.rs"]
mod bodies;

use proptest::prelude::*;
use std::fs;

#[test]
fn the_seeds_are_right_themselves() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/study");
    for entry in fs::read_dir(folder).expect("a corpus") {
        let seed = fs::read(entry.expect("an entry").path()).expect("a seed");
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
