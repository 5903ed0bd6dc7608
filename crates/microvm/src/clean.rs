//! Whether a region was measured cleanly: every rank inside, no system call, no page fault on either level.
//!
//! Code that leaves the machine in the middle measures the leaving. The counts are ours where we saw the exit, and
//! KVM's own where KVM handled it without us: a first touch on the second level of translation, or a page that the host
//! moved, split or collapsed meanwhile, shows only there. Of these as many are let pass as cannot have cost a thousandth of the region's time:
//! a host moves a page now and then, and a long region would never be clean. Signals and interrupts do not make a region unclean; they are
//! in the audit as `extra_exits` and `irq_exits`.

use baremark_model::seam::RunRecord;

/// What KVM takes to handle a page fault at most, in seconds: with shadow paging inside another virtual machine, where an exit takes longest.
const FAULT_S: f64 = 200e-6;
/// The share of a region's time that page faults which KVM handled may have cost.
const NEGLIGIBLE: f64 = 0.001;

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
    #[error(
        "{count} page faults in the microVM while it was timed: touch every buffer in it first, or run the body once untimed"
    )]
    GuestFaults {
        /// How many.
        count: u64,
    },
    /// KVM had to make or repair entries of the tables that the processor walks.
    #[error(
        "KVM handled {count} page faults of the microVM while it was timed: keep the host from moving its pages \
         (compaction, khugepaged, NUMA balancing), such as by transparent_hugepage=madvise"
    )]
    HostFaults {
        /// How many (`pf_fixed`).
        count: u64,
    },
}

/// Asserts that a run on `ranks` ranks, which were in the region for so many seconds together, was clean; where KVM has no statistics, as far as our
/// own counts tell.
///
/// # Errors
/// The first reason for which it was not.
pub fn check_clean(record: &RunRecord, ranks: usize, seconds: f64) -> Result<(), Unclean> {
    let audit = &record.audit;
    if audit.ranks_inside != ranks {
        return Err(Unclean::Outside { inside: audit.ranks_inside, ranks });
    }
    let handled = audit.counters.get("pf_fixed").copied().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "few faults")]
    let matters = handled as f64 * FAULT_S > NEGLIGIBLE * seconds;
    match (audit.forwarded_syscalls, audit.guest_page_faults, if matters { handled } else { 0 }) {
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
        check_clean(&RunRecord { times: Vec::new(), audit }, 2, 0.01)
    }

    /// Two faults in a phase of 428 ms of two ranks are less than a thousandth of it, in one of 5 ms they are not.
    #[test]
    fn page_faults_that_cannot_have_cost_anything_are_let_pass() {
        let with = |count: u64, seconds: f64| {
            let audit =
                Audit { ranks_inside: 2, counters: [("pf_fixed".to_owned(), count)].into(), ..Audit::default() };
            check_clean(&RunRecord { times: Vec::new(), audit }, 2, seconds)
        };
        assert_eq!(with(2, 2.0 * 0.428), Ok(()));
        assert_eq!(with(5, 2.0 * 0.428), Err(Unclean::HostFaults { count: 5 }));
        assert_eq!(with(1, 2.0 * 0.005), Err(Unclean::HostFaults { count: 1 }));
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
