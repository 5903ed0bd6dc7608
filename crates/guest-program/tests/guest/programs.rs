//! Programs that every system has: what they print and how they end must be as natively.

use crate::both::{difference, in_the_guest, natively};
use crate::cases::{BASIC, Case};
use crate::support::has_kvm;
use std::time::Duration;

/// A program that sleeps for longer than its limit.
const SLEEPING: Case = Case {
    name: "sleep",
    program: "sh",
    arguments: &["-c", "sleep 600 & sleep 600"],
    varies: &[],
    needs: &[],
    before: "",
    pages: &[],
};

#[test]
fn a_run_that_takes_longer_than_its_limit_is_ended_and_named() {
    let limit = Duration::from_secs(1);
    let why = natively(&SLEEPING, limit).unwrap_err();
    assert_eq!(why, "natively no end within 1 s");
    if has_kvm() {
        let why = in_the_guest(&SLEEPING, limit).unwrap_err();
        assert!(why.starts_with("in the guest: the program did not end within 1 s and was killed; "), "{why}");
    }
}

#[test]
fn programs_of_every_system_print_and_end_as_natively() {
    if has_kvm() {
        let different: Vec<String> = BASIC.iter().filter_map(|case| difference(case, false)).collect();
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}
