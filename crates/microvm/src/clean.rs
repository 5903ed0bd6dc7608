//! Whether a region was measured cleanly: every rank inside, no system call, no page fault on either level.
//!
//! Code that leaves the machine in the middle measures the leaving. The counts are ours where we saw the exit, and
//! KVM's own where KVM handled it without us: a first touch on the second level of translation, or a page that the host
//! moved, split or collapsed meanwhile, shows only there. Signals and interrupts do not make a region unclean; they are
//! in the audit as `extra_exits` and `irq_exits`.

use baremark_model::seam::RunRecord;

/// Why a region's times do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclean {
    /// Fewer tokens than ranks came from inside.
    #[error("{inside} of {ranks} ranks proved to be inside the machine: this is native work under a virtual label")]
    Outside {
        /// Ranks whose tokens came.
        inside: usize,
        /// All ranks.
        ranks: usize,
    },
    /// The body called the operating system.
    #[error("{count} system calls had to be forwarded: allocate, lock and print before the region, not in it")]
    SystemCalls {
        /// How many.
        count: u64,
    },
    /// The body touched what the guest's tables did not have.
    #[error("{count} guest page faults: touch every buffer in this machine first, or run the body once untimed")]
    GuestFaults {
        /// How many.
        count: u64,
    },
    /// KVM had to make or repair entries of the tables that the processor walks.
    #[error(
        "{count} page faults handled by KVM: touch every buffer in this machine first, and keep the host from moving its \
         pages (compaction, khugepaged, NUMA balancing)"
    )]
    HostFaults {
        /// How many (`pf_fixed`).
        count: u64,
    },
}

/// Asserts that a run on `ranks` ranks was clean; where KVM has no statistics, as far as our own counts tell.
///
/// # Errors
/// The first reason for which it was not.
pub fn check_clean(record: &RunRecord, ranks: usize) -> Result<(), Unclean> {
    let audit = &record.audit;
    if audit.ranks_inside != ranks {
        return Err(Unclean::Outside { inside: audit.ranks_inside, ranks });
    }
    match (audit.forwarded_syscalls, audit.guest_page_faults, audit.counters.get("pf_fixed").copied().unwrap_or(0)) {
        (0, 0, 0) => Ok(()),
        (0, 0, count) => Err(Unclean::HostFaults { count }),
        (0, count, _) => Err(Unclean::GuestFaults { count }),
        (count, _, _) => Err(Unclean::SystemCalls { count }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::seam::Audit;

    fn check(audit: Audit) -> Result<(), Unclean> {
        check_clean(&RunRecord { times: Vec::new(), audit }, 2)
    }

    #[test]
    fn the_worst_reason_comes_first() {
        let mut audit = Audit { ranks_inside: 2, ..Audit::default() };
        assert_eq!(check(audit.clone()), Ok(()));
        audit.extra_exits = 5;
        assert_eq!(check(audit.clone()), Ok(()), "signals alone are not reason");
        audit.counters.insert("pf_fixed".into(), 3);
        assert_eq!(check(audit.clone()), Err(Unclean::HostFaults { count: 3 }));
        audit.guest_page_faults = 2;
        assert_eq!(check(audit.clone()), Err(Unclean::GuestFaults { count: 2 }));
        audit.forwarded_syscalls = 1;
        assert_eq!(check(audit.clone()), Err(Unclean::SystemCalls { count: 1 }));
        audit.ranks_inside = 1;
        let outside = check(audit).expect_err("a rank is missing");
        assert!(outside.to_string().starts_with("1 of 2 ranks proved to be inside"), "{outside}");
    }
}
