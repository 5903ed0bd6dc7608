//! What the disks of the machine that runs the agent did in the measured time, from its `/proc/diskstats`.
//!
//! In a guest these are the guest's disks. A container without a kernel of its own shows those of its machine, with whatever else
//! used them: the observer's rule which devices count applies (no partition, nothing that lies on another device).

use baremark_model::observer::{Observer, Readings};
use baremark_model::quantity::Growth;
use baremark_observe::{LIST, Root, observer};
use baremark_sys::clock;
use std::collections::BTreeMap;

/// The counters at several moments.
pub(crate) struct DiskCounters {
    observer: Option<Box<dyn Observer>>,
    marks: Vec<(u64, Readings)>,
}

/// What grew between two moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DiskUse {
    /// The time between them, in s.
    pub seconds: f64,
    /// Reads that ended.
    pub reads: f64,
    /// Writes that ended.
    pub writes: f64,
    /// Time that these reads took, summed, in s.
    pub read_seconds: f64,
    /// Time that these writes took, summed, in s.
    pub write_seconds: f64,
}

impl DiskCounters {
    /// Those of this machine; nothing is counted where they cannot be read.
    pub(crate) fn open() -> DiskCounters {
        DiskCounters::below(&Root::default())
    }

    fn below(root: &Root) -> DiskCounters {
        let mut found = observer(LIST, "disk", root).ok();
        if found.as_mut().is_some_and(|observer| observer.start().is_err()) {
            found = None;
        }
        DiskCounters { observer: found, marks: Vec::new() }
    }

    /// Reads the counters.
    pub(crate) fn mark(&mut self) {
        let Some(observer) = &mut self.observer else { return };
        let mut readings = Readings::default();
        if observer.read(&mut readings).is_ok() {
            self.marks.push((clock::monotonic_ns(), readings));
        }
    }

    /// What grew between the first and the last mark; `None` where no disk was seen at both.
    pub(crate) fn used(&self) -> Option<DiskUse> {
        let ((begin, before), (end, after)) = (self.marks.first()?, self.marks.last()?);
        if end <= begin {
            return None;
        }
        let key = |reading: &baremark_model::observer::Reading| (reading.quantity.key, reading.instance.clone());
        let parts = |readings: &Readings| -> BTreeMap<(&'static str, String), (u64, Growth, f64)> {
            let parts = readings.values.iter().filter(|reading| reading.part);
            parts.map(|part| (key(part), (part.count, part.quantity.growth, part.quantity.scale))).collect()
        };
        let (before, after) = (parts(before), parts(after));
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for ((quantity, instance), (count, growth, scale)) in &after {
            let Some((first, ..)) = before.get(&(*quantity, instance.clone())) else { continue };
            let grown = match growth {
                Growth::Counter32 => count.wrapping_sub(*first) & u64::from(u32::MAX),
                _ => count.saturating_sub(*first),
            };
            *sums.entry(*quantity).or_default() += grown as f64 * scale;
        }
        Some(DiskUse {
            seconds: (end - begin) as f64 / 1e9,
            reads: *sums.get("disk.reads")?,
            writes: *sums.get("disk.writes")?,
            read_seconds: *sums.get("disk.read_time")?,
            write_seconds: *sums.get("disk.write_time")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn write(root: &Path, vda: &str) {
        fs::create_dir_all(root.join("proc")).expect("a folder");
        let partition = "254 1 vda1 900 0 900 900 900 0 900 900 0 900 900";
        fs::write(root.join("proc/diskstats"), format!("254 0 vda {vda}\n{partition}\n")).expect("a file");
    }

    #[test]
    fn what_a_disk_did_between_two_marks_is_counted_once_and_across_a_wrap() {
        let root = tempfile::tempdir().expect("a folder");
        write(root.path(), "10 0 80 4294967290 20 0 160 100 0 50 60");
        let mut counters = DiskCounters::below(&Root::recorded(root.path()));
        counters.mark();
        assert_eq!(counters.used(), None);
        write(root.path(), "14 0 96 14 28 0 224 140 0 70 100");
        counters.mark();
        let used = counters.used().expect("two marks");
        assert_eq!((used.reads, used.writes), (4.0, 8.0));
        assert!((used.read_seconds - 0.020).abs() < 1e-9 && (used.write_seconds - 0.040).abs() < 1e-9, "{used:?}");
        assert!(used.seconds > 0.0);
    }

    #[test]
    fn a_machine_without_counters_has_no_use() {
        let root = tempfile::tempdir().expect("a folder");
        let mut counters = DiskCounters::below(&Root::recorded(root.path()));
        counters.mark();
        counters.mark();
        assert_eq!(counters.used(), None);
    }
}
