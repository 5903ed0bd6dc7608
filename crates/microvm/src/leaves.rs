//! Which leaf entries the hypervisor must have made for a buffer that was touched: the proof that a treatment got the
//! pages that it is named after.
//!
//! KVM counts the entries of the tables that the processor walks, by size (`pages_4k`, `pages_2m`). Under *nested* paging
//! these are the second table's, whose size follows the host's memory alone; the guest's own page size is the first
//! table's and always as built. Under *shadow* paging there is one table, and its leaf is the smaller of both pages: a
//! guest's small page cannot share a large entry, and a large one needs large memory beneath. Seen under PVM for all four
//! combinations, exact to the page, by `leaves_are_as_expected_for_every_pair_of_pages` and `figures_of_leaves` in this crate's tests;
//! under EPT and NPT it is from the kernel's source (`arch/x86/kvm/mmu/mmu.c`, `kvm_mmu_hugepage_adjust`) and was not
//! tried. KVM also makes small entries where a memslot, an alignment or a write-tracked page forbids large ones, and
//! `nx_huge_pages` splits large entries of memory that is *executed*, which a buffer is not.

use crate::mmu::MmuMode;
use baremark_model::page_size::PageSize;

/// A counter of KVM's and what it must at least have grown by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedLeaves {
    /// KVM's name of the counter.
    pub counter: &'static str,
    /// The least growth.
    pub at_least: u64,
}

/// What touching `bytes` of fresh memory, on a boundary of 2 MiB and wholly of `host_backing` pages, must have made.
/// `None` where nothing is known about the machine's MMU, so nothing can be demanded.
#[must_use]
pub fn expected_leaves(
    mode: &MmuMode,
    guest_page: PageSize,
    host_backing: PageSize,
    bytes: u64,
) -> Option<ExpectedLeaves> {
    let leaf = match mode {
        MmuMode::Nested(_) => host_backing,
        MmuMode::Shadow(_) => guest_page.min(host_backing),
        MmuMode::Unknown => return None,
    };
    let counter = match leaf {
        PageSize::Small => "pages_4k",
        PageSize::Large => "pages_2m",
    };
    Some(ExpectedLeaves { counter, at_least: bytes / leaf.bytes() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use PageSize::{Large, Small};

    #[test]
    fn nested_leaves_follow_the_host_and_shadow_leaves_the_smaller() {
        let counter = |mode, guest, host| expected_leaves(&mode, guest, host, 1 << 30).expect("a known mode").counter;
        for guest in [Small, Large] {
            assert_eq!(counter(MmuMode::Nested("EPT"), guest, Small), "pages_4k");
            assert_eq!(counter(MmuMode::Nested("NPT"), guest, Large), "pages_2m");
        }
        assert_eq!(counter(MmuMode::Shadow("PVM"), Small, Large), "pages_4k");
        assert_eq!(counter(MmuMode::Shadow("PVM"), Large, Small), "pages_4k");
        assert_eq!(counter(MmuMode::Shadow("EPT off"), Large, Large), "pages_2m");
        assert_eq!(expected_leaves(&MmuMode::Unknown, Large, Large, 1 << 30), None);
    }

    #[test]
    fn one_leaf_per_page() {
        let at_least = |host| expected_leaves(&MmuMode::Nested("EPT"), Large, host, 1 << 30).expect("known").at_least;
        assert_eq!((at_least(Small), at_least(Large)), (1 << 18, 512));
    }
}
