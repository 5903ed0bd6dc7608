//! Interrupts by source, over all CPUs: `/proc/interrupts` and `/proc/softirqs`.
//!
//! A source is named by its line's number and its handlers, or by the kernel's three letters. When a CPU goes, its column
//! goes with all it had counted: such a step back counts as no growth and is noted.

use crate::source::{Root, Source, row};
use baremark_model::observer::{Absence, Observer, Price, Readings};
use baremark_model::quantity::Quantity;

pub(crate) struct Interrupts {
    root: Root,
    hard: Source,
    soft: Source,
    source: &'static Quantity,
    kind: &'static Quantity,
    shootdowns: &'static Quantity,
}

impl Interrupts {
    pub(crate) fn new(root: Root) -> Self {
        Interrupts {
            root,
            hard: Source::new("interrupts", "proc/interrupts"),
            soft: Source::new("interrupts", "proc/softirqs"),
            source: row("interrupts.source"),
            kind: row("softirqs.kind"),
            shootdowns: row("tlb.shootdowns"),
        }
    }
}

/// One line of a table of counts: its name, the counts of its columns, and what stands behind them.
struct Line<'t> {
    name: &'t str,
    counts: Vec<u64>,
    rest: &'t str,
}

impl Line<'_> {
    fn sum(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// The words of the heading that name CPUs.
fn columns(text: &str) -> impl Iterator<Item = &str> {
    let heading = text.lines().next().unwrap_or_default();
    heading.split_ascii_whitespace().filter_map(|word| word.strip_prefix("CPU"))
}

/// The lines below the heading that names the CPUs; none where there is no such heading.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let columns = columns(text).count();
    text.lines().skip(1).take_while(move |_| columns > 0).filter_map(move |line| {
        let (name, mut rest) = line.split_once(':')?;
        let mut counts = Vec::new();
        while counts.len() < columns {
            rest = rest.trim_start();
            let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
            let Ok(count) = rest[..end].parse::<u64>() else { break };
            counts.push(count);
            rest = &rest[end..];
        }
        let name = name.trim();
        (!counts.is_empty() && !name.is_empty()).then(|| Line { name, counts, rest: rest.trim() })
    })
}

/// Why `/proc/interrupts` does not say how many TLB shootdowns there were.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoShootdowns {
    /// It has no CPUs.
    #[error("/proc/interrupts is empty or hidden here")]
    Empty,
    /// It has no row of them.
    #[error("/proc/interrupts has no row TLB: this kernel does not count them")]
    NoRow,
    /// It has no column of a CPU: its number.
    #[error("/proc/interrupts has no column of CPU {0}")]
    NoColumn(usize),
}

/// TLB shootdowns that these CPUs have received since the start of the system, of all CPUs where none is named: the row `TLB`
/// of `/proc/interrupts`.
///
/// # Errors
/// Why the text does not have them.
pub fn shootdowns(text: &str, cpus: &[usize]) -> Result<u64, NoShootdowns> {
    let numbers: Vec<usize> = columns(text).filter_map(|number| number.parse().ok()).collect();
    if numbers.is_empty() {
        return Err(NoShootdowns::Empty);
    }
    let line = lines(text).find(|line| line.name == "TLB");
    let line = line.ok_or(NoShootdowns::NoRow)?;
    let of = |cpu: &usize| {
        let count = numbers.iter().position(|number| number == cpu).and_then(|column| line.counts.get(column));
        count.copied().ok_or(NoShootdowns::NoColumn(*cpu))
    };
    if cpus.is_empty() { Ok(line.sum()) } else { cpus.iter().map(of).sum() }
}

/// The handlers of a numbered line: what stands behind the word that says how it is triggered, else its last word.
fn handlers(rest: &str) -> String {
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let trigger = words
        .iter()
        .rposition(|word| ["edge", "level", "fasteoi"].iter().any(|way| word.to_ascii_lowercase().ends_with(way)));
    let from = trigger.map_or(words.len().saturating_sub(1), |at| at + 1);
    words[from.min(words.len())..].join(" ")
}

impl Observer for Interrupts {
    fn price(&self) -> Price {
        Price::High
    }

    fn start(&mut self) -> Result<(), Absence> {
        self.hard.open(&self.root)?;
        self.soft.open(&self.root)
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let before = into.values.len();
        for line in lines(&self.hard.read()?) {
            let sum = line.sum();
            if line.name == "TLB" {
                into.whole(self.shootdowns, sum);
            }
            match line.name.bytes().all(|byte| byte.is_ascii_digit()) {
                true => into.beside(self.source, format!("{} {}", line.name, handlers(line.rest)).trim_end(), sum),
                false => into.beside(self.source, line.name, sum),
            }
        }
        if into.values.len() == before {
            return Err(self.hard.unreadable());
        }
        for line in lines(&self.soft.read()?) {
            into.beside(self.kind, line.name, line.sum());
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.hard.close();
        self.soft.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_stand_behind_the_trigger_in_every_kernels_words() {
        assert_eq!(handlers("IR-IO-APIC-fasteoi   ehci_hcd:usb1, mmc0"), "ehci_hcd:usb1, mmc0");
        assert_eq!(handlers("PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0"), "virtio1-req.0");
        assert_eq!(handlers("GICv3  27 Level     arch_timer"), "arch_timer");
        assert_eq!(handlers("something new"), "new");
        assert_eq!(handlers("IO-APIC 9-edge"), "");
        assert_eq!(handlers(""), "");
    }

    #[test]
    fn a_line_ends_with_its_columns_whatever_its_name_begins_with() {
        let text = "    CPU0 CPU1\n 7: 1 2 3 4-edge x\nERR: 5\nMIS:\nodd line\n: 1 2\n";
        let found: Vec<(&str, u64, &str)> = lines(text).map(|line| (line.name, line.sum(), line.rest)).collect();
        assert_eq!(found, [("7", 3, "3 4-edge x"), ("ERR", 5, "")]);
        assert_eq!(lines("no heading\n1: 2 3\n").count(), 0);
    }

    #[test]
    fn shootdowns_are_those_of_the_named_cpus() {
        let text = "       CPU0  CPU2  CPU3\nLOC:  1 2 3  Local timer interrupts\nTLB:  10 20 30  TLB shootdowns\n";
        assert_eq!([&[][..], &[0], &[3, 2]].map(|cpus| shootdowns(text, cpus)), [Ok(60), Ok(10), Ok(50)]);
        assert_eq!(shootdowns(text, &[1]), Err(NoShootdowns::NoColumn(1)));
        let without = shootdowns("  CPU0\nLOC: 1\n", &[0]).expect_err("no row");
        assert_eq!(without, NoShootdowns::NoRow);
        assert_eq!(shootdowns("", &[]), Err(NoShootdowns::Empty));
    }
}
