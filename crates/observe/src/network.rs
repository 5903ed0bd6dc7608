//! Network interfaces: `/proc/net/dev` of the network namespace in which the observer runs.
//!
//! The machine's values are sums over interfaces with a device behind them; where none has one, as in a container, over
//! all but the loopback. Bridges, bonds, VLANs and taps have values of their own: their packets pass a device as well.

use crate::source::{Root, Source, numbers, row};
use baremark_model::observer::{Absence, Observer, Readings};
use baremark_model::quantity::Quantity;
use std::collections::BTreeMap;

/// Columns of `/proc/net/dev` that are kept.
const COLUMNS: [(usize, &str); 8] = [
    (0, "net.receive_bytes"),
    (1, "net.receive_packets"),
    (2, "net.receive_errors"),
    (3, "net.receive_drops"),
    (8, "net.transmit_bytes"),
    (9, "net.transmit_packets"),
    (10, "net.transmit_errors"),
    (11, "net.transmit_drops"),
];

pub(crate) struct Network {
    root: Root,
    dev: Source,
    columns: [(usize, &'static Quantity); 8],
    physical: BTreeMap<String, bool>,
}

impl Network {
    pub(crate) fn new(root: Root) -> Self {
        let columns = COLUMNS.map(|(column, key)| (column, row(key)));
        Network { root, dev: Source::new("network", "proc/net/dev"), columns, physical: BTreeMap::new() }
    }
}

/// The lines that are whole: name and columns. A name may have a colon in it, and old kernels put no space behind the last.
fn interfaces(text: &str) -> Vec<(&str, Vec<u64>)> {
    let interface = |line: &'_ str| -> Option<(usize, usize, Vec<u64>)> {
        let colon = line.rfind(':')?;
        let name = line[..colon].trim();
        let start = line.find(name)?;
        let columns = numbers(line[colon + 1..].split_ascii_whitespace());
        (!name.is_empty() && columns.len() >= 12).then_some((start, start + name.len(), columns))
    };
    text.lines().filter_map(|line| interface(line).map(|(from, to, columns)| (&line[from..to], columns))).collect()
}

impl Observer for Network {
    fn start(&mut self) -> Result<(), Absence> {
        self.physical.clear();
        self.dev.open(&self.root)
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let text = self.dev.read()?;
        let interfaces = interfaces(&text);
        if interfaces.is_empty() && !text.contains('|') {
            return Err(self.dev.unreadable());
        }
        for (name, _) in &interfaces {
            if !self.physical.contains_key(*name) {
                let there = self.root.path(&format!("sys/class/net/{name}/device")).exists();
                self.physical.insert((*name).to_owned(), there);
            }
        }
        self.physical.retain(|name, _| interfaces.iter().any(|(interface, _)| interface == name));
        let any = self.physical.values().any(|physical| *physical);
        for (name, counts) in &interfaces {
            let part = if any { self.physical.get(*name) == Some(&true) } else { *name != "lo" };
            for (column, quantity) in self.columns {
                let Some(&count) = counts.get(column) else { continue };
                if part { into.part(quantity, name, count) } else { into.beside(quantity, name, count) }
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.dev.close();
    }
}
