//! What depends on the host's memory and on the load of this machine, and figures for people.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as expected")]
#![allow(dead_code, clippy::allow_attributes, reason = "each suite uses a part of what they share")]

mod figures;
#[path = "../guest/support.rs"]
mod support;

use baremark_guest_program::Costs;
use baremark_model::page_size::PageSize;
use support::{PROBE, command, has_cpus, has_kvm, inside, polled, skip};

#[test]
fn the_host_backs_memory_by_large_pages_where_that_was_chosen() {
    if !has_kvm() {
        return;
    }
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if enabled.is_empty() || enabled.contains("[never]") {
        return skip("this kernel gives no transparent huge pages");
    }
    let backed = |page: PageSize| {
        let mut copy = command("dd", &["if=/dev/zero", "of=/dev/null", "bs=64M", "count=1", "status=none"]);
        copy.host_backing(page);
        let (found, report) = inside(copy);
        assert_eq!(found.status, "Some(0) None", "{found:?}");
        (report.counters.anonymous_kib >> 10, report.counters.large_kib >> 10)
    };
    let (all, large) = backed(PageSize::Small);
    // The runner's own memory may have some.
    assert!(all >= 64 && large <= 8, "{large} of {all} MiB");
    let (all, large) = backed(PageSize::Large);
    assert!(all >= 64 && large >= 32, "{large} of {all} MiB");
}

#[test]
fn a_forwarded_call_costs_more_than_a_native_one() {
    if has_kvm() {
        let costs = Costs::measure().unwrap();
        assert!(costs.call.ns > costs.native_call.ns && costs.exit.ns > 0.0, "{costs:?}");
        let (_, report) = inside(command(PROBE, &["random", "5", "2000"]));
        let explained = costs.explain(&report.counters);
        assert!(explained.low_seconds > 0.0, "{explained:?}");
    }
}

#[test]
fn calls_that_a_polling_thread_refuses_come_back() {
    if has_cpus() {
        let (_, report) = inside(polled(PROBE, &["polling-signals"]));
        assert!(report.counters.exitless_fallbacks > 0, "{:?}", report.counters);
    }
}

#[test]
fn calls_of_several_threads_are_answered_without_exits() {
    if has_cpus() {
        for threads in ["1", "3"] {
            let (_, report) = inside(polled(PROBE, &["polling", "30000", threads]));
            let counters = report.counters;
            assert!(counters.exitless_calls > 0 && counters.polling_cpu_ns > 0, "{counters:?}");
        }
    }
}
