//! Memory as it stands: `/proc/meminfo`.

use crate::source::{Root, Source, row};
use baremark_model::observer::{Absence, Observer, Readings};
use baremark_model::quantity::Quantity;

const LINES: [(&str, &str); 12] = [
    ("MemTotal", "memory.total"),
    ("MemFree", "memory.free"),
    ("MemAvailable", "memory.available"),
    ("Cached", "memory.cached"),
    ("Dirty", "memory.dirty"),
    ("AnonPages", "memory.anonymous"),
    ("AnonHugePages", "memory.anonymous_huge"),
    ("PageTables", "memory.page_tables"),
    ("SecPageTables", "memory.secondary_page_tables"),
    ("SwapFree", "memory.swap_free"),
    ("HugePages_Total", "memory.huge_pages"),
    ("HugePages_Free", "memory.huge_pages_free"),
];

pub(crate) struct Memory {
    root: Root,
    meminfo: Source,
    lines: [(&'static str, &'static Quantity); 12],
}

impl Memory {
    pub(crate) fn new(root: Root) -> Self {
        let lines = LINES.map(|(name, key)| (name, row(key)));
        Memory { root, meminfo: Source::new("memory", "proc/meminfo"), lines }
    }
}

impl Observer for Memory {
    fn start(&mut self) -> Result<(), Absence> {
        self.meminfo.open(&self.root)
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let before = into.values.len();
        for line in self.meminfo.read()?.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let Some((_, quantity)) = self.lines.iter().find(|(line, _)| *line == name) else { continue };
            if let Some(Ok(count)) = value.split_ascii_whitespace().next().map(str::parse) {
                into.whole(quantity, count);
            }
        }
        if into.values.len() == before { Err(self.meminfo.unreadable()) } else { Ok(()) }
    }

    fn stop(&mut self) {
        self.meminfo.close();
    }
}
