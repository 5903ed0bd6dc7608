//! JSON of a stranger: read as it stands, or refused for a key that is there twice, or for the memory that it would take.
#![expect(clippy::print_stdout, reason = "an example's output")]

use std::collections::BTreeMap;

fn main() {
    let most_bytes = 1 << 20;
    let large = format!("{{\"a\":[{}0]}}", "0,".repeat(200_000));
    for text in ["{\"a\":[1],\"b\":[2]}", "{\"a\":[1],\"a\":[2]}", large.as_str()] {
        match baremark_json::read::<BTreeMap<String, Vec<u64>>>(text.as_bytes(), most_bytes) {
            Ok(map) => println!("{map:?}"),
            Err(why) => println!("refused: {why}"),
        }
    }
}
