//! Single packets of network interfaces, by programs in the kernel (`baremark_trace`): sizes, packets of a poll, merges, and drops by
//! reason.
//!
//! Not read unless a study requests it: it attaches programs to the kernel's events. `baremark histograms --net` shows whole histograms.
//! An interface of another network namespace is named with that namespace's number. Nothing but drops is summed over the machine: a
//! packet passes several interfaces.

use crate::source::{Root, row};
use baremark_model::observer::{Absence, Observer, Price, Readings};
use baremark_model::quantity::Quantity;
use baremark_trace::net::{Interface, NetTrace, Packets, Snapshot};
use baremark_trace::netdev;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

/// A quantity with what it is of an interface's packets.
type Of<T> = (&'static Quantity, fn(&Packets) -> T);

/// What grows, and what is read of the packets since the last reading.
struct Rows {
    counters: [Of<u64>; 8],
    levels: [Of<Option<u64>>; 4],
    drops: &'static Quantity,
}

pub(crate) struct NetStats {
    root: Root,
    rows: Rows,
    trace: Option<NetTrace>,
    /// The network namespace of this process.
    own: u32,
    last: Snapshot,
}

const NAME: &str = "net-stats";

impl NetStats {
    pub(crate) fn new(root: Root) -> Self {
        let rows = Rows {
            counters: [
                (row("packet.received"), |packets| packets.received),
                (row("packet.received_bytes"), |packets| packets.received_bytes),
                (row("packet.merged"), |packets| packets.merged),
                (row("packet.sent"), |packets| packets.sent),
                (row("packet.sent_bytes"), |packets| packets.sent_bytes),
                (row("packet.refused"), |packets| packets.refused),
                (row("packet.polls"), |packets| packets.polls),
                (row("packet.full_polls"), |packets| packets.full_polls),
            ],
            levels: [
                (row("packet.received_size_p50"), |packets| packets.received_size.percentile(0.5)),
                (row("packet.sent_size_p50"), |packets| packets.sent_size.percentile(0.5)),
                (row("packet.per_poll_p50"), |packets| packets.poll.percentile(0.5)),
                (row("packet.per_poll_p99"), |packets| packets.poll.percentile(0.99)),
            ],
            drops: row("packet.drops"),
        };
        NetStats { root, rows, trace: None, own: 0, last: Snapshot::default() }
    }

    fn name(&self, interface: &Interface) -> String {
        match interface.namespace {
            namespace if namespace == self.own || namespace == 0 => interface.name.clone(),
            namespace => format!("{}@{namespace}", interface.name),
        }
    }

    /// What was counted, with a row of zeros for each interface of this namespace that has had no packet.
    fn snapshot(&self) -> Result<Snapshot, Absence> {
        let Some(trace) = &self.trace else {
            return Err(Absence::new(NAME, "it was read before it was started"));
        };
        let mut now = trace.snapshot().map_err(|why| Absence::new(NAME, why.to_string()))?;
        for name in netdev::read().unwrap_or_default().into_keys() {
            now.interfaces.entry(Interface { namespace: self.own, name }).or_default();
        }
        Ok(now)
    }
}

impl Observer for NetStats {
    fn price(&self) -> Price {
        Price::High
    }

    fn start(&mut self) -> Result<(), Absence> {
        self.stop();
        if !self.root.is_this_machine() {
            return Err(Absence::new(NAME, "a recording has no packets to trace"));
        }
        let without = "the observer network has counts from /proc/net/dev";
        let trace = NetTrace::start().map_err(|why| Absence::new(NAME, format!("not available: {why}; {without}")))?;
        self.trace = Some(trace);
        let namespace = std::fs::metadata("/proc/self/ns/net").map_or(0, |found| found.ino());
        self.own = u32::try_from(namespace).unwrap_or(0);
        Ok(())
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let now = self.snapshot()?;
        let none = Packets::default();
        let mut shown: BTreeMap<String, ()> = BTreeMap::new();
        for (interface, packets) in &now.interfaces {
            let name = self.name(interface);
            // The backlog's polls and an interface of that name would be one instance.
            if shown.insert(name.clone(), ()).is_some() {
                continue;
            }
            let since = packets.since(self.last.interfaces.get(interface).unwrap_or(&none));
            for (quantity, of) in self.rows.counters {
                into.beside(quantity, &name, of(packets));
            }
            for (quantity, of) in self.rows.levels {
                if let Some(value) = of(&since) {
                    into.beside(quantity, &name, value);
                }
            }
        }
        for (reason, count) in &now.drops {
            into.part(self.rows.drops, reason, *count);
        }
        self.last = now;
        Ok(())
    }

    fn stop(&mut self) {
        self.trace = None;
        self.last = Snapshot::default();
    }
}
