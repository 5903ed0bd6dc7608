//! Faults, huge pages, migration and reclaim: `/proc/vmstat`. A counter that a kernel does not have is absent, not 0.

use crate::source::{Root, Source, row};
use baremark_model::observer::{Absence, Observer, Readings};
use baremark_model::quantity::{QUANTITIES, Quantity};

/// The kernel counts these for each zone; their sum is what is requested.
const BY_ZONE: &str = "allocstall";

pub(crate) struct Paging {
    root: Root,
    vmstat: Source,
    rows: Vec<(&'static str, &'static Quantity)>,
    stalls: &'static Quantity,
}

impl Paging {
    pub(crate) fn new(root: Root) -> Self {
        let rows = QUANTITIES.iter().filter_map(|row| Some((row.key.strip_prefix("vm.")?, row)));
        let stalls = row("vm.allocstall");
        Paging { root, vmstat: Source::new("paging", "proc/vmstat"), rows: rows.collect(), stalls }
    }
}

impl Observer for Paging {
    fn start(&mut self) -> Result<(), Absence> {
        self.vmstat.open(&self.root)
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let before = into.values.len();
        let mut stalls: Option<u64> = None;
        for line in self.vmstat.read()?.lines() {
            let Some((name, count)) = line.split_once(' ') else { continue };
            let Ok(count) = count.trim().parse::<u64>() else { continue };
            if name.strip_prefix(BY_ZONE).is_some_and(|zone| zone.is_empty() || zone.starts_with('_')) {
                stalls = Some(stalls.unwrap_or(0).saturating_add(count));
            } else if let Some((_, quantity)) = self.rows.iter().find(|(row, _)| *row == name) {
                into.whole(quantity, count);
            }
        }
        if let Some(stalls) = stalls {
            into.whole(self.stalls, stalls);
        }
        if into.values.len() == before { Err(self.vmstat.unreadable()) } else { Ok(()) }
    }

    fn stop(&mut self) {
        self.vmstat.close();
    }
}
