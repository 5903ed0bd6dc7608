//! Exact counts of a clean region: the host's kernel adds to them when it moves a page or interrupts a rank.

use crate::bodies::{Each, scatter};
use crate::memory::fresh_words;
use crate::support::{one, turn, two};
use baremark_microvm::Touch;
use baremark_model::seam::Executor;
use std::sync::Mutex;

#[test]
fn a_clean_region_counts_nothing() {
    let Some(_turn) = turn() else { return };
    let mut vm = two();
    let mut tables = [vec![0; 1 << 18], vec![0; 1 << 18]];
    for table in &mut tables {
        vm.touch(table).unwrap();
    }
    let tables = tables.map(Mutex::new);
    let body = Each(|rank: usize, _: &_, reps| scatter(&mut tables[rank].lock().unwrap(), reps, rank as u64));
    vm.run(&body, 1000).unwrap();
    let audit = vm.run(&body, 1 << 20).unwrap().audit;
    assert_eq!(
        (audit.ranks_inside, audit.forwarded_syscalls, audit.guest_page_faults, audit.extra_exits),
        (2, 0, 0, 0)
    );
    for counter in ["pf_taken", "pf_fixed", "pf_guest", "signal_exits", "mmio_exits"] {
        if let Some(growth) = audit.counters.get(counter) {
            assert_eq!(*growth, 0, "{counter}");
        }
    }
}

#[test]
fn a_pre_touch_makes_the_faults_before_the_run() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    let memory = fresh_words(1 << 19);
    let touched = vm.touch(memory).unwrap().audit;
    let audit = vm.run(&Touch::new(memory), 1).unwrap().audit;
    assert_eq!((audit.guest_page_faults, audit.extra_exits), (0, 0));
    if let (Some(before), Some(after)) = (touched.counters.get("pf_taken"), audit.counters.get("pf_taken")) {
        // A page that the host's kernel moves meanwhile is faulted in again.
        assert!(*before > 100 && *after < 10, "{before} {after}");
    }
}

/// Of the program's file, and read by nobody else: 64 pages.
static RARELY_READ: [u8; 64 << 12] = [1; 64 << 12];

#[test]
fn what_a_program_rarely_uses_of_itself_is_there_before_the_run() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    // The process has used it, and the machine has not.
    let used: u64 = std::hint::black_box(&RARELY_READ).iter().step_by(4096).map(|&byte| u64::from(byte)).sum();
    assert_eq!(used, 64);
    vm.touch_program().unwrap();
    let sum = Mutex::new(0);
    let body = Each(|_, _: &_, reps| {
        // The warm-up leaves the table alone.
        let table = std::hint::black_box(&RARELY_READ);
        *sum.lock().unwrap() =
            if reps == 1 { 0 } else { table.iter().step_by(4096).map(|&byte| u64::from(byte)).sum() };
    });
    vm.run(&body, 1).unwrap();
    let audit = vm.run(&body, 2).unwrap().audit;
    assert_eq!(*sum.lock().unwrap(), 64);
    if let Some(faults) = audit.counters.get("pf_taken") {
        // A page that the host's kernel moves meanwhile is faulted in again.
        assert!(*faults < 3, "{faults}");
    }
}
