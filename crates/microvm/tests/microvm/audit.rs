//! What is counted in a region: nothing in a clean one, and what happened in one that is not.

use crate::bodies::{Each, digest, scatter};
use crate::memory::{fresh, fresh_words};
use crate::support::{one, turn, two};
use baremark_microvm::{Touch, Unclean, check_clean};
use baremark_model::seam::{Body, Executor};
use std::ptr;
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
    let record = vm.run(&body, 1 << 20).unwrap();
    // What the host does with a page meanwhile is a fault on its level, and counted as that.
    assert!(matches!(check_clean(&record, 2, 0.0), Ok(()) | Err(Unclean::HostFaults { .. })), "{record:?}");
    let audit = record.audit;
    assert_eq!((audit.ranks_inside, audit.forwarded_syscalls, audit.guest_page_faults), (2, 0, 0));
    if let Some(exits) = audit.counters.get("mmio_exits") {
        assert_eq!(*exits, 0, "there is no device");
    }
    for (rank, table) in tables.into_iter().enumerate() {
        let mut native = vec![0; 1 << 18];
        for reps in [1000, 1 << 20] {
            scatter(&mut native, reps, rank as u64);
        }
        assert_eq!(digest(&table.into_inner().unwrap()), digest(&native), "rank {rank}");
    }
}

#[test]
fn a_system_call_is_carried_out_and_counted() {
    let Some(_turn) = turn() else { return };
    let mut vm = two();
    let body = Each(|_, _: &_, reps| {
        for _ in 0..reps {
            // SAFETY: asks for a number.
            assert_eq!(unsafe { libc::syscall(libc::SYS_getpid) }, i64::from(std::process::id()));
        }
    });
    let record = vm.run(&body, 3).unwrap();
    assert!(matches!(check_clean(&record, 2, 0.0), Err(Unclean::SystemCalls { count: 6.. })), "{record:?}");
    let audit = record.audit;
    assert!(audit.extra_exits >= audit.forwarded_syscalls);
}

#[test]
fn fresh_memory_is_counted_and_touched_memory_is_not() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    let memory = fresh_words(1 << 17);
    memory[3] = 17;
    let touch = Touch::new(memory);
    assert!(vm.run(&touch, 1).unwrap().audit.guest_page_faults > 0);
    assert_eq!(vm.run(&touch, 1).unwrap().audit.guest_page_faults, 0);
    assert_eq!(touch.work(1).operations, 257);
    assert_eq!(memory[3], 17);
}

#[test]
fn a_pre_touch_makes_the_faults_before_the_run() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    let memory = fresh_words(1 << 19);
    let touched = vm.touch(memory).unwrap().audit;
    assert_eq!(touched.guest_page_faults, 0, "tables are filled from outside");
    assert_eq!(vm.run(&Touch::new(memory), 1).unwrap().audit.guest_page_faults, 0);
}

/// Of the program's file, and read by nobody else: 64 pages.
static RARELY_READ: [u8; 64 << 12] = [1; 64 << 12];

#[test]
fn what_a_program_rarely_uses_of_itself_is_there_before_the_run() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
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
    assert_eq!((*sum.lock().unwrap(), audit.guest_page_faults), (64, 0));
}

#[test]
fn refused_calls_give_an_error_and_no_harm() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    let results = Mutex::new((0, 0));
    let body = Each(|_, _: &_, _| {
        // SAFETY: both are refused by the forwarding, which is what is tested.
        *results.lock().unwrap() = unsafe { (libc::syscall(libc::SYS_fork), libc::syscall(libc::SYS_exit_group, 1)) };
    });
    let audit = vm.run(&body, 1).unwrap().audit;
    assert_eq!(*results.lock().unwrap(), (-1, -1));
    assert_eq!(audit.forwarded_syscalls, 2);
}

#[test]
fn errno_belongs_to_the_guest() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    let errors = Mutex::new((0, 0));
    let body = Each(|_, _: &_, _| {
        // SAFETY: a call that fails, and reading errno.
        let own = unsafe { (libc::close(-1), *libc::__errno_location()).1 };
        // SAFETY: an address of this process that the guest has not seen yet, in a mapping never given back.
        let between = unsafe { (ptr::read_volatile(fresh(4096)), *libc::__errno_location()).1 };
        *errors.lock().unwrap() = (own, between);
    });
    vm.run(&body, 1).unwrap();
    assert_eq!(*errors.lock().unwrap(), (libc::EBADF, libc::EBADF));
}

#[test]
fn absolute_counters_have_kvms_own_names() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    let before = vm.counters();
    if before.is_empty() {
        assert!(vm.facts().notes["kvm_statistics"].starts_with("absent"));
        return;
    }
    vm.run(&Each(|_, _: &_, _| ()), 1).unwrap();
    assert!(vm.counters()["exits"] > before["exits"]);
    assert!(before.contains_key("pages_4k") && !before.contains_key("halt_wait_hist"), "{before:?}");
}
