//! Allocations by node: `/sys/devices/system/node/node*/numastat`, in the kernel's own words.

use crate::source::{Root, Source, row};
use baremark_model::observer::{Absence, Observer, Price, Readings};
use baremark_model::quantity::Quantity;

const FOLDER: &str = "sys/devices/system/node";
const LINES: [(&str, &str); 6] = [
    ("numa_hit", "numa.numa_hit"),
    ("numa_miss", "numa.numa_miss"),
    ("numa_foreign", "numa.numa_foreign"),
    ("interleave_hit", "numa.interleave_hit"),
    ("local_node", "numa.local_node"),
    ("other_node", "numa.other_node"),
];

pub(crate) struct Numa {
    root: Root,
    nodes: Vec<(String, Source)>,
    lines: [(&'static str, &'static Quantity); 6],
}

impl Numa {
    pub(crate) fn new(root: Root) -> Self {
        Numa { root, nodes: Vec::new(), lines: LINES.map(|(name, key)| (name, row(key))) }
    }
}

impl Observer for Numa {
    fn price(&self) -> Price {
        Price::High
    }

    fn start(&mut self) -> Result<(), Absence> {
        self.nodes.clear();
        for name in self.root.names(FOLDER) {
            let number = name.strip_prefix("node").filter(|number| !number.is_empty());
            let Some(number) = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())) else {
                continue;
            };
            let mut source = Source::new("numa", format!("{FOLDER}/{name}/numastat"));
            // A node that went while we looked is not there.
            if source.open(&self.root).is_ok() {
                self.nodes.push((number.to_owned(), source));
            }
        }
        match self.nodes.is_empty() {
            true => Err(Absence::new("numa", format!("/{FOLDER} names no node; the kernel was built without NUMA"))),
            false => Ok(()),
        }
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let lines = &self.lines;
        let mut read = |node: &str, text: &str| {
            for line in text.lines() {
                let mut words = line.split_ascii_whitespace();
                let Some((_, quantity)) = words.next().and_then(|name| lines.iter().find(|(line, _)| *line == name))
                else {
                    continue;
                };
                if let Some(Ok(count)) = words.next().map(str::parse) {
                    into.part(quantity, node, count);
                }
            }
        };
        // A node that was taken out can be read no more; the others go on.
        self.nodes.retain_mut(|(node, source)| match source.read() {
            Ok(text) => {
                read(node, &text);
                true
            }
            Err(_) => false,
        });
        if self.nodes.is_empty() { Err(Absence::new("numa", "no node can be read any more")) } else { Ok(()) }
    }

    fn stop(&mut self) {
        self.nodes.clear();
    }
}
