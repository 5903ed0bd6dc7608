//! Settings in TOML: typed values, or every mistake at once, each with its line and what would be right.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_model::config;
use baremark_model::problem::Problems;
use baremark_model::units::{Bytes, Nanos};

/// A size and a duration from two keys, both of which must be there.
fn settings(text: &str) -> Result<(Bytes, Nanos), Problems> {
    config::read("settings.toml", text, |reader, top| {
        reader.keys(top, &["table", "duration"], &[]);
        let (table, duration) = (reader.quantity(top, "table"), reader.quantity(top, "duration"));
        table.zip(duration)
    })
}

fn main() {
    for text in ["table = \"1 GiB\"\nduration = \"2 s\"", "tabel = \"1 GiB\"\nduration = \"2 GiB\""] {
        match settings(text) {
            Ok((table, duration)) => println!("{} bytes for {} s", table.0, duration.seconds()),
            Err(problems) => println!("{problems}"),
        }
    }
}
