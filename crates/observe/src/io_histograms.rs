//! Single I/Os of block devices, by programs in the kernel (`baremark_trace`): time in the queue and at the device, and percentiles.
//!
//! Not read unless a study requests it: it attaches programs to the kernel's events. `baremark histograms` shows whole histograms.

use crate::source::{Root, row};
use baremark_model::observer::{Absence, Observer, Price, Readings};
use baremark_model::quantity::Quantity;
use baremark_trace::disk::{Direction, DiskTrace, Ios};
use baremark_trace::diskstats::{self, Devices};
use std::collections::BTreeMap;

/// What is read of one direction.
struct Rows {
    direction: Direction,
    count: &'static Quantity,
    queue_time: &'static Quantity,
    device_time: &'static Quantity,
    p50: &'static Quantity,
    p99: &'static Quantity,
}

pub(crate) struct IoHistograms {
    root: Root,
    rows: [Rows; 2],
    trace: Option<DiskTrace>,
    names: Devices,
    /// Whole devices that keep requests, so that one without any I/O reads 0.
    devices: Vec<(u32, u32)>,
    last: BTreeMap<((u32, u32), Direction), Ios>,
}

const NAME: &str = "io-histograms";

impl IoHistograms {
    pub(crate) fn new(root: Root) -> Self {
        let reads = Rows {
            direction: Direction::Read,
            count: row("io.reads"),
            queue_time: row("io.read_queue_time"),
            device_time: row("io.read_device_time"),
            p50: row("io.read_p50"),
            p99: row("io.read_p99"),
        };
        let writes = Rows {
            direction: Direction::Write,
            count: row("io.writes"),
            queue_time: row("io.write_queue_time"),
            device_time: row("io.write_device_time"),
            p50: row("io.write_p50"),
            p99: row("io.write_p99"),
        };
        IoHistograms {
            root,
            rows: [reads, writes],
            trace: None,
            names: Devices::new(),
            devices: Vec::new(),
            last: BTreeMap::new(),
        }
    }

    /// The device's name; its numbers where it has none.
    fn name(&mut self, number: (u32, u32)) -> String {
        if !self.names.contains_key(&number) {
            self.names = diskstats::read().unwrap_or_default();
        }
        self.names.get(&number).map_or_else(|| format!("{}:{}", number.0, number.1), |device| device.name.clone())
    }
}

/// Devices whose I/Os come to another device's.
fn lies_on_others(name: &str) -> bool {
    ["loop", "zram", "ram"].iter().any(|kind| name.starts_with(kind))
}

impl Observer for IoHistograms {
    fn price(&self) -> Price {
        Price::High
    }

    fn start(&mut self) -> Result<(), Absence> {
        self.stop();
        if !self.root.is_this_machine() {
            return Err(Absence::new(NAME, "a recording has no I/Os to trace"));
        }
        let without = "the observer disk has counts and mean times from /proc/diskstats";
        let trace = DiskTrace::start().map_err(|why| Absence::new(NAME, format!("not available: {why}; {without}")))?;
        self.trace = Some(trace);
        self.names = diskstats::read().unwrap_or_default();
        let keeps_requests = |name: &str| self.root.path(&format!("sys/block/{}/mq", name.replace('/', "!"))).exists();
        let whole = self.names.iter().filter(|(_, device)| keeps_requests(&device.name));
        self.devices = whole.map(|(number, _)| *number).collect();
        Ok(())
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let Some(trace) = &self.trace else {
            return Err(Absence::new(NAME, "it was read before it was started"));
        };
        let mut now = trace.snapshot().map_err(|why| Absence::new(NAME, why.to_string()))?.by_device();
        for key in self.devices.iter().flat_map(|device| [Direction::Read, Direction::Write].map(|way| (*device, way)))
        {
            now.entry(key).or_default();
        }
        for (key @ (number, direction), ios) in &now {
            let name = self.name(*number);
            let since = self.last.get(key).map_or_else(|| ios.clone(), |before| ios.since(before));
            let Some(rows) = self.rows.iter().find(|rows| rows.direction == *direction) else { continue };
            let counts = [(rows.count, ios.count), (rows.queue_time, ios.queue_ns), (rows.device_time, ios.device_ns)];
            for (quantity, count) in counts {
                match lies_on_others(&name) {
                    true => into.beside(quantity, &name, count),
                    false => into.part(quantity, &name, count),
                }
            }
            for (quantity, share) in [(rows.p50, 0.5), (rows.p99, 0.99)] {
                if let Some(latency) = since.total.percentile(share) {
                    into.beside(quantity, &name, latency);
                }
            }
        }
        self.last = now;
        Ok(())
    }

    fn stop(&mut self) {
        self.trace = None;
        self.last.clear();
    }
}
