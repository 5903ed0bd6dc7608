//! The hypervisor's leaf entries are those that a treatment is named after.

use crate::host::Buffer;
use crate::support::{ranks_on, turn, two_cpus};
use baremark_microvm::{Config, Microvm, expected_leaves, mmu_virtualization};
use baremark_model::page_size::PageSize;
use baremark_model::seam::Executor;

const BYTES: usize = 32 << 20;

#[test]
fn leaves_are_as_expected_for_every_pair_of_pages() {
    let Some(_turn) = turn() else { return };
    let mode = mmu_virtualization().mode;
    for host in [PageSize::Small, PageSize::Large] {
        for guest_page in [PageSize::Small, PageSize::Large] {
            let mut buffer = Buffer::new(BYTES, host);
            let asked = if host == PageSize::Large { BYTES as u64 } else { 0 };
            if buffer.huge() != asked {
                continue;
            }
            let mut vm = Microvm::start(&Config { guest_page, ..ranks_on(&two_cpus()) }).unwrap();
            let before = vm.counters();
            let growth = vm.touch(buffer.words()).unwrap().audit.counters;
            let Some(expected) = expected_leaves(&mode, guest_page, host, BYTES as u64) else { return };
            if let Some(leaves) = growth.get(expected.counter) {
                assert!(*leaves >= expected.at_least, "guest {guest_page}, host {host}: {leaves} < {expected:?}");
                assert!(vm.counters()[expected.counter] >= before[expected.counter] + expected.at_least);
            }
            let other = if expected.counter == "pages_4k" { "pages_2m" } else { "pages_4k" };
            assert!(growth.get(other).is_none_or(|leaves| *leaves < 64), "guest {guest_page}, host {host}: {growth:?}");
        }
    }
}
