//! Parts of the tests' own program, natively and in the guest.

use crate::support::{PROBE, command, has_kvm, inside, natively, same};
use baremark_guest_program::UnsupportedKind;
use baremark_model::page_size::PageSize;

#[test]
fn faults_are_told_to_handlers_as_natively() {
    if has_kvm() {
        let report = same(PROBE, &["faults"]);
        assert!(report.counters.native_steps > 0 && report.counters.signals >= 10, "{report:?}");
    }
}

#[test]
fn signals_come_as_natively() {
    if has_kvm() {
        let report = same(PROBE, &["signals"]);
        assert!(report.counters.signals >= 15, "{report:?}");
    }
}

#[test]
fn processes_begin_and_end_as_natively() {
    if has_kvm() {
        let report = same(PROBE, &["processes"]);
        let counters = report.counters;
        assert!(counters.forks >= 8 && counters.vforks >= 5 && counters.execs >= 8, "{counters:?}");
        assert!(counters.images > counters.forks + counters.vforks, "{counters:?}");
    }
}

#[test]
fn accidents_act_for_the_program_and_hit_nothing_else() {
    if has_kvm() {
        same(PROBE, &["accidents"]);
    }
}

#[test]
fn files_in_proc_show_and_change_the_program_and_not_the_runner() {
    if has_kvm() {
        same(PROBE, &["own-files"]);
    }
}

#[test]
fn threads_work_as_natively() {
    if has_kvm() {
        let report = same(PROBE, &["threads", "40"]);
        assert_eq!(report.counters.threads, 40 + 50 + 4);
    }
}

#[test]
fn threads_that_wait_in_the_host_need_no_virtual_processor() {
    if !has_kvm() {
        return;
    }
    let expected = natively(PROBE, &["sleepers", "1100"]);
    let mut few = command(PROBE, &["sleepers", "1100"]);
    few.most_vcpus(3);
    let (found, report) = inside(few);
    assert_eq!(found, expected, "{report:?}");
    assert!(report.counters.vcpus <= 3 && report.counters.vcpu_switches >= 1000, "{report:?}");
}

#[test]
fn threads_that_compute_take_turns() {
    if !has_kvm() {
        return;
    }
    let mut few = command(PROBE, &["spinners", "5"]);
    few.most_vcpus(2);
    let (found, report) = inside(few);
    assert_eq!(found.stdout, "5 computed\n", "{report:?}");
    assert!(report.counters.vcpu_switches >= 3, "{report:?}");
}

/// A sequence of random calls, which must come to its end in both ways.
fn random(seed: &str, count: &str) {
    same(PROBE, &["random", seed, count]);
    let last = natively(PROBE, &["random", seed, count]).stdout;
    assert!(last.lines().last().is_some_and(|line| line.starts_with(&format!("{count} "))), "{seed}: {last}");
}

#[test]
fn random_calls_give_the_same_trace() {
    if has_kvm() {
        for seed in ["1", "2"] {
            random(seed, "5000");
        }
    }
}

#[test]
fn small_pages_change_nothing_but_the_number_of_faults() {
    if !has_kvm() {
        return;
    }
    let mut small = command(PROBE, &["threads", "3"]);
    small.guest_page(PageSize::Small);
    let (found, report) = inside(small);
    assert_eq!(found, natively(PROBE, &["threads", "3"]), "{report:?}");
    let large = inside(command(PROBE, &["threads", "3"])).1;
    assert!(report.counters.guest_faults > large.counters.guest_faults, "{report:?} {large:?}");
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    if !has_kvm() {
        return;
    }
    let (found, report) = inside(command(PROBE, &["unsupported"]));
    assert_eq!(found.stdout, "clone -38\nptrace -1\nseccomp -22\nprctl -22\nuring -38\nioctl -25\n");
    let kinds: Vec<UnsupportedKind> = report.counters.unsupported.iter().map(|one| one.kind).collect();
    let expected = [
        UnsupportedKind::MemorySharingProcess,
        UnsupportedKind::Ptrace,
        UnsupportedKind::Seccomp,
        UnsupportedKind::ThreadControl,
        UnsupportedKind::UnlistedCall,
        UnsupportedKind::UnlistedControl,
    ];
    assert_eq!(kinds, expected);
}

#[test]
#[ignore = "a million calls: `make soak`"]
fn soak_random_calls() {
    if has_kvm() {
        for seed in 100..200 {
            random(&seed.to_string(), "10000");
        }
    }
}
