//! What is computed in the machine is what is computed outside.

use crate::bodies::{Each, digest, fma_256, fma_512, scatter};
use crate::support::{one, ranks_on, turn, two, two_cpus};
use baremark_microvm::{Config, Microvm};
use baremark_model::arm::GuestTables;
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Executor, Fault};
use baremark_sys::clock::ticks;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn every_rank_runs_the_closure_inside_and_says_so() {
    let Some(_turn) = turn() else { return };
    let mut vm = two();
    let seen = [AtomicU64::new(0), AtomicU64::new(0)];
    let scale = 3;
    let body = Each(|rank: usize, _: &_, reps| {
        seen[rank].fetch_add(reps * scale + rank as u64, Ordering::Relaxed);
    });
    for _ in 0..3 {
        let record = vm.run(&body, 7).unwrap();
        assert_eq!(record.audit.ranks_inside, 2);
        assert_eq!(record.times.iter().map(|time| time.rank).collect::<Vec<_>>(), [0, 1]);
        assert!(record.times.iter().all(|time| time.start_ticks < time.end_ticks));
    }
    assert_eq!(seen.map(AtomicU64::into_inner), [63, 66]);
}

#[test]
fn ranks_meet_at_the_barrier() {
    let Some(_turn) = turn() else { return };
    let mut vm = two();
    let count = AtomicU64::new(0);
    let late = AtomicU64::new(0);
    let body = Each(|_, team: &baremark_model::team::Team, reps| {
        for round in 1..=reps {
            count.fetch_add(1, Ordering::SeqCst);
            team.barrier();
            late.fetch_add(u64::from(count.load(Ordering::SeqCst) != 2 * round), Ordering::SeqCst);
            team.barrier();
        }
    });
    vm.run(&body, 2000).unwrap();
    assert_eq!((count.into_inner(), late.into_inner()), (4000, 0));
}

#[test]
fn vector_arithmetic_is_bitwise_equal() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: asked in the line above.
        let native = unsafe { fma_512(1_000_000) };
        let inside = Mutex::new([0; 8]);
        // SAFETY: as above; the guest has the same processor.
        vm.run(&Each(|_, _: &_, _| *inside.lock().unwrap() = unsafe { fma_512(1_000_000) }), 1).unwrap();
        assert_eq!(inside.into_inner().unwrap(), native);
    }
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: asked in the line above.
        let native = unsafe { fma_256(1_000_000) };
        let inside = Mutex::new([0; 4]);
        // SAFETY: as above; the guest has the same processor.
        vm.run(&Each(|_, _: &_, _| *inside.lock().unwrap() = unsafe { fma_256(1_000_000) }), 1).unwrap();
        assert_eq!(inside.into_inner().unwrap(), native);
    }
}

#[test]
fn all_page_sizes_and_layouts_give_the_same_table() {
    let Some(_turn) = turn() else { return };
    let mut native = vec![0; 1 << 21];
    scatter(&mut native, 1 << 20, 5);
    for guest_page in [PageSize::Small, PageSize::Large] {
        for guest_tables in [GuestTables::Contiguous, GuestTables::Scattered] {
            let config = Config { guest_page, guest_tables, ..ranks_on(&two_cpus()[..1]) };
            let mut vm = Microvm::start(&config).unwrap();
            let mut table = vec![0; 1 << 21];
            vm.touch(&mut table).unwrap();
            let table = Mutex::new(table);
            let record = vm.run(&Each(|_, _: &_, _| scatter(&mut table.lock().unwrap(), 1 << 20, 5)), 1).unwrap();
            assert_eq!(table.into_inner().unwrap(), native, "{guest_page}, {guest_tables}");
            assert_eq!(record.audit.guest_page_faults, 0, "{guest_page}, {guest_tables}");
            assert_eq!(vm.facts().notes["guest_tables"], guest_tables.to_string());
        }
    }
}

#[test]
fn two_machines_live_in_one_process() {
    let Some(_turn) = turn() else { return };
    let (mut first, mut second) = (one(), two());
    let count = AtomicU64::new(0);
    let body = Each(|_, _: &_, reps| {
        count.fetch_add(reps, Ordering::Relaxed);
    });
    for _ in 0..5 {
        assert_eq!(first.run(&body, 1).unwrap().audit.ranks_inside, 1);
        assert_eq!(second.run(&body, 10).unwrap().audit.ranks_inside, 2);
    }
    drop(first);
    second.run(&body, 1).unwrap();
    assert_eq!(count.into_inner(), 5 + 100 + 2);
}

#[test]
fn the_guests_clock_is_the_hosts() {
    let Some(_turn) = turn() else { return };
    let mut vm = two();
    let offset = vm.facts().notes["tsc_offset"].clone();
    let is_written = offset == "approximate: KVM has no KVM_VCPU_TSC_OFFSET (Linux 5.16)";
    assert!(is_written || offset == "0", "{offset}");
    assert_eq!(vm.facts().notes["tsc_bracketed"], "yes");
    for _ in 0..20 {
        let before = ticks();
        let record = match vm.run(&Each(|_, _: &_, _| ()), 1) {
            // A counter that can only be written is behind by the time that this took. No run counts in which that is seen.
            Err(Fault::Executor { why, .. }) if is_written && why == "the guest's clock is not the host's" => continue,
            ran => ran.unwrap(),
        };
        let after = ticks();
        for time in record.times {
            assert!(before < time.start_ticks && time.end_ticks < after, "{before} {time:?} {after}");
        }
    }
}

/// Signals that were handled.
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// A thousand signals a second at every rank's thread.
pub fn storm(until: &AtomicBool, signal: i32) -> u64 {
    extern "C" fn count(_: i32) {
        HANDLED.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: the handler counts; a signal and its thread's number are plain numbers.
    unsafe { libc::signal(signal, count as *const () as libc::sighandler_t) };
    let mut sent = 0;
    while !until.load(Ordering::SeqCst) {
        for thread in crate::lifecycle::rank_threads() {
            // SAFETY: as above; a thread that is gone gives an error, which does not matter.
            sent += u64::from(unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) } == 0);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// The run lasts until its thread has handled so many signals, which it can only outside of the machine.
#[test]
fn a_storm_of_signals_changes_no_result() {
    const SIGNALS: u64 = 100;
    const UPDATES: u64 = 1 << 20;
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    let computed = Mutex::new((vec![0; 1 << 16], 0));
    let over = AtomicBool::new(false);
    let body = Each(|_, _: &_, _| {
        let (table, rounds) = &mut *computed.lock().unwrap();
        let first = HANDLED.load(Ordering::SeqCst);
        while HANDLED.load(Ordering::SeqCst) < first + SIGNALS {
            *rounds += 1;
            scatter(table, UPDATES, *rounds);
        }
    });
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| storm(&over, libc::SIGALRM));
        let record = vm.run(&body, 1);
        over.store(true, Ordering::SeqCst);
        let (audit, sent) = (record.unwrap().audit, sending.join().unwrap());
        assert!(sent >= SIGNALS && audit.extra_exits > 0, "{sent} sent, {audit:?}");
        assert_eq!((audit.ranks_inside, audit.forwarded_syscalls), (1, 0));
    });
    let (table, rounds) = computed.into_inner().unwrap();
    let mut native = vec![0; 1 << 16];
    (1..=rounds).for_each(|round| scatter(&mut native, UPDATES, round));
    assert_eq!(digest(&table), digest(&native), "{rounds} rounds");
}
