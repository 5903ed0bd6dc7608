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

/// One line of a table of counts: its name, the sum over its columns, and what stands behind them.
struct Line<'t> {
    name: &'t str,
    sum: u64,
    rest: &'t str,
}

/// The lines below the heading that names the CPUs; none where there is no such heading.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    let columns = heading.split_ascii_whitespace().filter(|word| word.starts_with("CPU")).count();
    lines.take_while(move |_| columns > 0).filter_map(move |line| {
        let (name, mut rest) = line.split_once(':')?;
        let (mut sum, mut found) = (0_u64, 0);
        while found < columns {
            rest = rest.trim_start();
            let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
            let Ok(count) = rest[..end].parse::<u64>() else { break };
            sum = sum.saturating_add(count);
            rest = &rest[end..];
            found += 1;
        }
        let name = name.trim();
        (found > 0 && !name.is_empty()).then(|| Line { name, sum, rest: rest.trim() })
    })
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
    fn name(&self) -> &'static str {
        "interrupts"
    }

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
            if line.name == "TLB" {
                into.whole(self.shootdowns, line.sum);
            }
            match line.name.bytes().all(|byte| byte.is_ascii_digit()) {
                true => into.beside(self.source, format!("{} {}", line.name, handlers(line.rest)).trim_end(), line.sum),
                false => into.beside(self.source, line.name, line.sum),
            }
        }
        if into.values.len() == before {
            return Err(self.hard.unreadable());
        }
        for line in lines(&self.soft.read()?) {
            into.beside(self.kind, line.name, line.sum);
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
        let found: Vec<(&str, u64, &str)> = lines(text).map(|line| (line.name, line.sum, line.rest)).collect();
        assert_eq!(found, [("7", 3, "3 4-edge x"), ("ERR", 5, "")]);
        assert_eq!(lines("no heading\n1: 2 3\n").count(), 0);
    }
}
