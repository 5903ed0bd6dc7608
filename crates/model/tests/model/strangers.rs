//! Any bytes at all, for the fuzz bodies of studies and frames; mutated seeds are in `baremark/tests/strangers`.

#[path = "../../../../fuzz/src/bodies.rs"]
mod bodies;

use baremark_model::wire::{FromAgent, Message, ToAgent, WireError, read_frame};
use proptest::prelude::*;
use std::fs;
use std::io::Cursor;

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

/// Seeds of frames that are messages no more would have the lengths of frames tried alone.
#[test]
fn the_seeds_of_frames_are_messages() {
    fn all<T: Message>(bytes: &[u8]) -> Result<(), WireError> {
        let mut stream = Cursor::new(bytes);
        loop {
            match read_frame::<T>(&mut stream) {
                Ok(_) => {}
                Err(WireError::Closed) => return Ok(()),
                Err(why) => return Err(why),
            }
        }
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/frame");
    let seeds: Vec<Vec<u8>> = fs::read_dir(folder)
        .expect("a corpus")
        .map(|entry| fs::read(entry.expect("an entry").path()).expect("a seed"))
        .collect();
    assert!(!seeds.is_empty());
    for seed in seeds {
        let read = [all::<ToAgent>(&seed), all::<FromAgent>(&seed)];
        assert!(!seed.is_empty() && read.iter().any(Result::is_ok), "{read:?}\n{}", String::from_utf8_lossy(&seed));
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
