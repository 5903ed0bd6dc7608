//! Networks as runs use them: connected, limited, switched and gone.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::allow_attributes,
    reason = "tests"
)]

mod connected;
mod kills;

use baremark_journal::Journal;
use std::path::Path;

fn journal(folder: &Path) -> Journal {
    Journal::open(folder.join("journal"), baremark_networks::kinds()).unwrap()
}

/// Whether networks can be made here; else the test is skipped and says so.
fn can() -> bool {
    match baremark_networks::Pair::new() {
        Ok(_) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}
