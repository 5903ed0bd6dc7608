//! Refusals: an error, its exit code, and no result.

use crate::common::bench::{Bench, text};

/// The program's error for these arguments; it must refuse with `code` and print no result.
pub fn refused(bench: &Bench, arguments: &[&str], code: i32) -> String {
    let output = bench.run(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed {}", text(&output.stdout));
    message
}
