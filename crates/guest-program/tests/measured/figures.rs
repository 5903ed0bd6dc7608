//! Figures for people: `cargo test -p baremark-guest-program --test measured -- --ignored --nocapture figures`.
#![expect(clippy::print_stdout, reason = "figures are printed")]

use crate::support::{command, has_kvm, inside};
use baremark_guest_program::Costs;

#[test]
#[ignore = "prints figures"]
fn figures_of_calls_and_starts() {
    if !has_kvm() {
        return;
    }
    println!("{:#?}", Costs::measure().unwrap());
    for _ in 0..5 {
        let (_, report) = inside(command("/bin/true", &[]));
        println!("first entry after {} us, {:?} in all", report.counters.first_start_ns / 1000, report.wall);
    }
}
