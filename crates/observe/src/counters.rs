//! Hardware counters of all CPUs: cycles, instructions, misses of the TLBs, page walks.
//!
//! They are not read unless a study asks for them: counters are few, and whoever else uses them takes turns with us.

use crate::source::{Root, row};
use baremark_model::observer::{Absence, Observer, Readings};
use baremark_model::quantity::Quantity;
use baremark_sys::perf::{Counter, Event};
use std::fs;
use std::io;

const EVENTS: [(Event, &str); 6] = [
    (Event::Cycles, "counters.cycles"),
    (Event::Instructions, "counters.instructions"),
    (Event::DtlbLoadMisses, "counters.dtlb_load_misses"),
    (Event::ItlbMisses, "counters.itlb_misses"),
    (Event::LlcMisses, "counters.llc_misses"),
    (Event::WalkCycles, "counters.walk_cycles"),
];

pub(crate) struct Counters {
    root: Root,
    counters: Vec<(&'static Quantity, Vec<Counter>)>,
    lacks: Vec<Absence>,
}

impl Counters {
    pub(crate) fn new(root: Root) -> Self {
        Counters { root, counters: Vec::new(), lacks: Vec::new() }
    }

    fn reason(&self, why: &io::Error) -> String {
        match why.raw_os_error() {
            // ENOENT, ENODEV, EOPNOTSUPP
            Some(2 | 19 | 95) => {
                "the processor shows no such counter here, as in a virtual machine without a virtual PMU".to_owned()
            }
            // EPERM, EACCES
            Some(1 | 13) => {
                let level = fs::read_to_string(self.root.path("proc/sys/kernel/perf_event_paranoid"));
                let level = level.map_or_else(|_| "?".to_owned(), |text| text.trim().to_owned());
                format!("kernel.perf_event_paranoid = {level} forbids it; run as root, or set it to 0 or less")
            }
            // EMFILE
            Some(24) => "too many files are open: every counter of every CPU is one; raise ulimit -n".to_owned(),
            _ => why.to_string(),
        }
    }
}

/// The CPUs in a list such as `0-3,8`; none where it is no such list.
fn cpus(list: &str) -> Option<Vec<usize>> {
    const MOST: usize = 1 << 16;
    let mut all = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

impl Observer for Counters {
    fn start(&mut self) -> Result<(), Absence> {
        self.stop();
        if !self.root.is_this_machine() {
            return Err(Absence::new("counters", "a recording has no counters to read"));
        }
        let online = fs::read_to_string(self.root.path("sys/devices/system/cpu/online")).unwrap_or_default();
        let Some(cpus) = cpus(&online) else {
            return Err(Absence::new("counters", "/sys/devices/system/cpu/online does not list the CPUs"));
        };
        for (event, key) in EVENTS {
            match cpus.iter().map(|&cpu| Counter::start(event, cpu)).collect::<io::Result<Vec<_>>>() {
                Ok(counters) => self.counters.push((row(key), counters)),
                Err(why) => self.lacks.push(Absence::new(key, self.reason(&why))),
            }
        }
        match (self.counters.is_empty(), self.lacks.first()) {
            (true, Some(first)) => Err(Absence::new("counters", first.reason.clone())),
            _ => Ok(()),
        }
    }

    fn lacks(&self) -> Vec<Absence> {
        self.lacks.clone()
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        if self.counters.is_empty() {
            return Err(Absence::new("counters", "they were read before they were started"));
        }
        for (quantity, counters) in &mut self.counters {
            let mut sum = Some(0_u64);
            for counter in counters {
                let count =
                    counter.read().map_err(|why| Absence::new("counters", format!("{}: {why}", quantity.key)))?;
                sum = sum.zip(count).map(|(sum, count)| sum.saturating_add(count));
            }
            // Before every CPU's counter has had its turn there is no sum.
            if let Some(sum) = sum {
                into.whole(quantity, sum);
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.counters.clear();
        self.lacks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_and_odd_ones_refused() {
        assert_eq!(cpus("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(cpus("5"), Some(vec![5]));
        for odd in ["", "3-1", "0-99999999999", "a", "0-"] {
            assert_eq!(cpus(odd), None, "{odd}");
        }
    }
}
