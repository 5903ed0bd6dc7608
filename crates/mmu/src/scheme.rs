//! What is simulated: how addresses are translated, and how pages and tables lie in memory.

use crate::page::Page;
use crate::tables::Placement;
use std::fmt;

/// How an address becomes a physical one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// One table, the operating system's own.
    Native {
        /// The page size of the process.
        page: Page,
    },
    /// Two tables, both walked by the processor (EPT, NPT).
    Nested {
        /// The page size of the guest's process.
        guest_page: Page,
        /// What the guest's memory is made of.
        host_backing: Page,
    },
    /// One table that the hypervisor keeps merged; its leaves are the smaller of both pages.
    Shadow {
        /// The page size of the guest's process.
        guest_page: Page,
        /// What the guest's memory is made of.
        host_backing: Page,
    },
}

impl Scheme {
    /// The page whose translations the TLBs hold: under virtualization the smaller of both.
    ///
    /// Intel's manual allows a processor to hold the guest's page whole only where the second table maps it whole
    /// (SDM volume 3, "Information that may be cached"); a guest's small page never makes a large translation.
    #[must_use]
    pub fn translation(self) -> Page {
        match self {
            Scheme::Native { page } => page,
            Scheme::Nested { guest_page, host_backing } | Scheme::Shadow { guest_page, host_backing } => {
                guest_page.min(host_backing)
            }
        }
    }

    /// The page size that the program sees.
    #[must_use]
    pub fn application_page(self) -> Page {
        match self {
            Scheme::Native { page } => page,
            Scheme::Nested { guest_page, .. } | Scheme::Shadow { guest_page, .. } => guest_page,
        }
    }

    /// References of a walk that no cache shortens: n for one table; (n + 1)(m + 1) - 1 for two, since each of the n
    /// guest entries and the data needs m more, of the second table.
    #[must_use]
    pub fn cold_references(self, levels: usize) -> usize {
        let walked = |page: Page| levels + 1 - page.level();
        match self {
            Scheme::Native { page } => walked(page),
            Scheme::Shadow { .. } => walked(self.translation()),
            Scheme::Nested { guest_page, host_backing } => (walked(guest_page) + 1) * (walked(host_backing) + 1) - 1,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::Native { page } => write!(f, "native {page}"),
            Scheme::Nested { guest_page, host_backing } => {
                write!(f, "nested, guest {guest_page} on host {host_backing}")
            }
            Scheme::Shadow { guest_page, host_backing } => {
                write!(f, "shadow, guest {guest_page} on host {host_backing}")
            }
        }
    }
}

/// A scheme and where everything lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How addresses are translated.
    pub scheme: Scheme,
    /// Levels of every table, 4 or 5.
    pub levels: usize,
    /// Where the program's pages lie in the memory below them; guest-physical memory in a virtual machine.
    pub data: Placement,
    /// Where the tables lie that map the program: its system's, or the hypervisor's shadow of them.
    pub tables: Placement,
    /// Where the second table lies.
    pub host_tables: Placement,
    /// Whether the program's own references fill the caches, against which table entries must compete.
    pub data_in_caches: bool,
    /// Of the lines that hold data or entries of the two lowest levels, one in 2^`thinning` is simulated, in as many fewer
    /// sets of every data cache, and represents the others; 0 simulates all.
    pub thinning: u32,
    /// So many groups of addresses take the decisions that one group's translations took in TLBs and paging-structure caches; 0
    /// lets every translation decide. Only for streams whose addresses are independent of each other.
    pub repeats: u32,
}

impl Setup {
    /// Four levels, everything in order, data in the caches.
    #[must_use]
    pub fn new(scheme: Scheme) -> Self {
        let placement = Placement::Contiguous;
        Setup {
            scheme,
            levels: 4,
            data: placement,
            tables: placement,
            host_tables: placement,
            data_in_caches: true,
            thinning: 0,
            repeats: 0,
        }
    }
}
