//! A database under single-row statements: its cost of nested and of shadow paging, from what was counted of its server.
//!
//! Which addresses a server touches is not known, so that they are not simulated one by one. Known is the table, of which a
//! statement touches rows at random, and counted are CPU time, page faults, and switches between page tables. How many accesses of
//! a statement leave the TLBs' reach is a prior, as wide as nothing being known of it.

use crate::page::Page;
use crate::predict::Question;
use crate::range::Range;
use crate::scheme::Scheme;
use crate::stream::{Chase, Stream, StreamError};

/// Accesses of a statement to lines that no other statement has touched lately: levels of an index, a row, its visibility, a lock,
/// the log, buffers of two sockets; and as many of the code and the data of a process that was switched to.
const ACCESSES: Range = Range { low: 10.0, high: 500.0 };

/// What was counted of a server natively, for each statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statements {
    /// Bytes of the table.
    pub table: u64,
    /// CPU time of all processes for each, in ns.
    pub cpu_ns: Range,
    /// Page faults for each, which change a page table.
    pub faults: f64,
    /// Context switches and TLB shootdowns for each: loads of another page table, and flushes.
    pub switches: f64,
}

impl Statements {
    /// The addresses: random lines of the table, each waiting for the one before as a descent through an index does.
    ///
    /// # Errors
    /// When the table is smaller than a page.
    pub fn stream(&self) -> Result<Box<dyn Stream>, StreamError> {
        Ok(Box::new(Chase::new(self.table)?))
    }

    /// Native, nested and shadow paging with pages of this size in the server and beneath it.
    #[must_use]
    pub fn schemes(page: Page) -> [Scheme; 3] {
        let (guest_page, host_backing) = (page, page);
        [
            Scheme::Native { page },
            Scheme::Nested { guest_page, host_backing },
            Scheme::Shadow { guest_page, host_backing },
        ]
    }

    /// The question with what was counted.
    #[must_use]
    pub fn asked<'q>(&self, question: Question<'q>) -> Question<'q> {
        let (work_ns, faults, switches) = (self.cpu_ns, self.faults, self.switches);
        Question { work_ns, faults, switches, accesses: ACCESSES, ..question }
    }
}
