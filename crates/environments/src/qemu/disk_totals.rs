//! What QEMU counts of a guest's disks: histograms that are set anew, totals that only grow.

use super::hardware::device_id;
use super::qmp::Qmp;
use super::settings::Disks;
use baremark_model::disk_latency::{DiskLatency, boundaries_ns};
use std::io;

/// The disks of a guest and their totals when they were last asked for.
#[derive(Default)]
pub struct DiskTotals {
    /// Name and QEMU's device of each.
    devices: Vec<(String, String)>,
    before: Vec<DiskLatency>,
}

impl DiskTotals {
    /// Of these disks.
    pub fn of(disks: &Disks) -> DiskTotals {
        let device = |place: usize| (format!("disk{place}"), device_id(place));
        DiskTotals { devices: (0..disks.paths.len()).map(device).collect(), before: Vec::new() }
    }

    /// Counts from now on; whether there are disks.
    pub fn count(&mut self, qmp: &mut Qmp) -> io::Result<bool> {
        if self.devices.is_empty() {
            return Ok(false);
        }
        self.clear(qmp)?;
        self.before = qmp.block_stats(&self.devices)?;
        Ok(true)
    }

    /// What was counted since then, and counts anew.
    pub fn counted(&mut self, qmp: &mut Qmp) -> io::Result<Vec<DiskLatency>> {
        let now = qmp.block_stats(&self.devices)?;
        self.clear(qmp)?;
        let before = std::mem::replace(&mut self.before, now.clone());
        let grown = |mut one: DiskLatency| {
            let same = |of: &&DiskLatency| (&of.disk, of.operation) == (&one.disk, one.operation);
            if let Some(of) = before.iter().find(same) {
                let (operations, total_ns) = (of.operations, of.total_ns);
                one.operations = one.operations.saturating_sub(operations);
                one.total_ns = one.total_ns.saturating_sub(total_ns);
            }
            one
        };
        Ok(now.into_iter().map(grown).collect())
    }

    /// Setting boundaries empties the bins.
    fn clear(&self, qmp: &mut Qmp) -> io::Result<()> {
        let boundaries = boundaries_ns();
        self.devices.iter().try_for_each(|(_, device)| qmp.count_latencies(device, &boundaries))
    }
}
