//! What the scheduler counts: context switches, interrupts of all sources, processes created, load.

use crate::source::{Root, Source, numbers, row};
use baremark_model::observer::{Absence, Observer, Readings};
use baremark_model::quantity::Quantity;

/// Lines of `/proc/stat` of which the first number counts.
const LINES: [(&str, &str); 6] = [
    ("ctxt", "kernel.context_switches"),
    ("intr", "kernel.interrupts"),
    ("softirq", "kernel.softirqs"),
    ("processes", "kernel.forks"),
    ("procs_running", "kernel.running"),
    ("procs_blocked", "kernel.blocked"),
];

pub(crate) struct Kernel {
    root: Root,
    stat: Source,
    load: Source,
    lines: [(&'static str, &'static Quantity); 6],
    loads: [&'static Quantity; 3],
}

impl Kernel {
    pub(crate) fn new(root: Root) -> Self {
        Kernel {
            root,
            stat: Source::new("kernel", "proc/stat"),
            load: Source::new("kernel", "proc/loadavg"),
            lines: LINES.map(|(line, key)| (line, row(key))),
            loads: ["kernel.load1", "kernel.load5", "kernel.load15"].map(row),
        }
    }
}

impl Observer for Kernel {
    fn start(&mut self) -> Result<(), Absence> {
        self.stat.open(&self.root)?;
        self.load.open(&self.root)
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let before = into.values.len();
        for line in self.stat.read()?.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(name) = words.next() else { continue };
            let Some((_, quantity)) = self.lines.iter().find(|(line, _)| *line == name) else { continue };
            if let [count] = numbers(words.take(1))[..] {
                into.whole(quantity, count);
            }
        }
        if into.values.len() == before {
            return Err(self.stat.unreadable());
        }
        for (quantity, load) in self.loads.iter().zip(self.load.read()?.split_ascii_whitespace()) {
            if let Some(load) = hundredths(load) {
                into.whole(quantity, load);
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.stat.close();
        self.load.close();
    }
}

/// A number with two decimals, as a whole number of hundredths.
pub(crate) fn hundredths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let part = if part.len() == 2 { part.parse::<u64>().ok()? } else { return None };
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_numbers_with_two_decimals() {
        assert_eq!(hundredths("231.07"), Some(23_107));
        assert_eq!(hundredths("0.00"), Some(0));
        for odd in ["", "1", "1.2", "1.234", "a.bc", "-1.00", "1.-1"] {
            assert_eq!(hundredths(odd), None, "{odd}");
        }
    }
}
