//! Other people's programs in the guest: what they print and how they end must be as natively. What is not installed is a printed skip.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as expected")]
#![allow(dead_code, clippy::allow_attributes, reason = "each suite uses a part of what they share")]

#[path = "../guest/both.rs"]
mod both;
#[path = "../guest/cases.rs"]
mod cases;
mod conformance;
#[path = "../guest/load.rs"]
mod load;
#[path = "../guest/support.rs"]
mod support;
#[path = "../guest/table.rs"]
mod table;

use both::difference;
use cases::FEW;
use support::{has_cpus, has_kvm};

/// Programs of the table that make many calls, start others, or have threads.
const PROGRAMS: [&str; 6] = ["sh", "bash", "ls", "python", "grep", "tar"];

#[test]
fn a_dozen_programs_print_and_end_as_natively() {
    if has_kvm() {
        let different: Vec<String> = FEW.iter().filter_map(|case| difference(case, false)).collect();
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}

#[test]
fn programs_print_and_end_as_natively_with_a_polling_thread() {
    if has_cpus() {
        let cases = FEW.iter().filter(|case| PROGRAMS.contains(&case.name));
        let different: Vec<String> = cases.filter_map(|case| difference(case, true)).collect();
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}
