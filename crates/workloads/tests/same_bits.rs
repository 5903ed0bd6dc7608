//! What is computed in a virtual machine is what is computed on threads: every workload, prepared once, runs in both.
//!
//! Needs /dev/kvm; where it cannot be opened, every check of the machine is a printed skip, unless
//! BAREMARK_REQUIRE_KVM is set.
#![expect(clippy::print_stderr, reason = "a check that cannot run says so")]

use baremark_microvm::{Config, Microvm, Unclean, check_clean};
use baremark_model::arm::ResolvedArm;
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Body, Executor, Verification, Workload, timed_region};
use baremark_model::team::Team;
use baremark_sys::affinity::allowed_cpus;
use baremark_sys::clock::ticks;
use baremark_sys::memory::Map;
use baremark_sys::thread_team::Crew;
use std::fs::File;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// No run takes so long on a machine with other work.
const LONG: Duration = Duration::from_secs(600);
static TURN: Mutex<()> = Mutex::new(());

/// One round on threads, one in the machine, one on threads, over one preparation.
fn run_in_both(workload: &dyn Workload, settings: &[(&str, &str)]) -> Option<String> {
    if let Err(why) = File::options().read(true).write(true).open("/dev/kvm") {
        assert!(std::env::var_os("BAREMARK_REQUIRE_KVM").is_none(), "/dev/kvm: {why}, and BAREMARK_REQUIRE_KVM is set");
        eprintln!("skipped: /dev/kvm: {why}");
        return None;
    }
    // One at a time: ranks spin, and two teams on the same CPUs would wait for each other's time slices.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let cpus = allowed_cpus().expect("affinity");
    let cpus = &cpus[..cpus.len().min(2)];
    let arm = arm(workload, cpus.len(), settings);
    let mut map = Map::new(&workload.spans(&arm).expect("spans"), PageSize::Large, 1).expect("memory");
    let mut vm = Microvm::start(&Config { watchdog: LONG, ..Config::new(cpus.to_vec()) }).expect("a machine");
    vm.touch_program().expect("touched");
    vm.touch(map.whole()).expect("touched");
    let mut crew = Crew::new(cpus).expect("threads");
    let mut prepared = workload.prepare(&arm, &map).expect("fits");
    on_threads(&mut crew, prepared.body());
    vm.run(prepared.body(), 1).expect("a warm run");
    let record = vm.run(prepared.body(), 2).expect("a run in the machine");
    match check_clean(&record, cpus.len(), 0.0) {
        // The host may move a page at any time: the lab measures again, and the result is the same.
        Ok(()) | Err(Unclean::HostFaults { .. }) => {}
        Err(why) => panic!("{why}"),
    }
    let samples = prepared.metrics(2, &record.times, baremark_model::seam::TickRate(1e9));
    assert!(!samples.is_empty(), "a run in the machine has its figures");
    on_threads(&mut crew, prepared.body());
    match prepared.verify() {
        Verification::Passed { detail } => Some(detail),
        Verification::Failed { detail } => panic!("{}: {detail}", workload.descriptor().kind),
    }
}

fn on_threads(crew: &mut Crew, body: &dyn Body) {
    let team = Team::new(crew.seats().len());
    crew.run(&|rank| {
        timed_region(body, rank, &team, 1, ticks);
    })
    .expect("no panic");
}

fn arm(workload: &dyn Workload, ranks: usize, settings: &[(&str, &str)]) -> ResolvedArm {
    let set = |arm: ResolvedArm, &(key, typed): &(&str, &str)| {
        let knob = workload.descriptor().parameter(key).expect("a parameter");
        arm.with(key, knob.read_text(typed).expect("in range"))
    };
    settings.iter().fold(ResolvedArm::native(ranks, PageSize::Large), set)
}

/// HPL compares the bits of all its solutions itself: those from threads are the first and the last.
#[test]
fn solutions_of_hpl_are_the_same_bits() {
    for isa in ["avx512", "avx2", "baseline"] {
        let workload = &baremark_workloads::hpl::Hpl;
        if (workload.descriptor().check)(&arm(workload, 1, &[("isa", isa)])).is_err() {
            eprintln!("skipped: no {isa} here");
            continue;
        }
        let Some(detail) = run_in_both(workload, &[("n", "300"), ("nb", "64"), ("isa", isa)]) else { return };
        assert!(detail.starts_with("5 solutions of n = 300, nb = 64 by "), "{detail}");
        assert!(detail.contains(", 0 of them in other bits than the first"), "{detail}");
    }
}

#[test]
fn arrays_of_stream_agree_and_are_timed_in_the_machine() {
    for variant in ["regular", "non-temporal"] {
        let settings = [("array", "1 MiB"), ("small", "true"), ("variant", variant)];
        let Some(detail) = run_in_both(&baremark_workloads::stream::Stream, &settings) else { return };
        assert!(detail.contains(" after 5 passes"), "{detail}");
    }
}

#[test]
fn products_tables_and_chases_agree() {
    let Some(detail) = run_in_both(&baremark_workloads::dgemm::Dgemm, &[("n", "300")]) else { return };
    assert!(detail.starts_with("5 products"), "{detail}");
    run_in_both(&baremark_workloads::pointer_chase::PointerChase, &[("working_set", "1 MiB")]);
    for variant in ["reference", "optimized"] {
        let settings = [("table", "4 MiB"), ("variant", variant)];
        run_in_both(&baremark_workloads::random_access::RandomAccess, &settings);
    }
    run_in_both(&baremark_workloads::fma::Fma, &[]);
}
