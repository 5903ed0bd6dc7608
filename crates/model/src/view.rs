//! What is shown of observations: rates, shares and means made of the values that observers read.
//!
//! One row defines a view, its unit and its formula over the values of one window. A formula that lacks a value, or would
//! divide by nothing, gives none: absence is never 0.

use crate::observation::Values;
use crate::quantity::{self, Growth, join, split};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

/// The values of one window: of the machine, or of one instance.
#[derive(Clone, Copy, Debug)]
pub struct Window<'v> {
    values: &'v Values,
    instance: &'v str,
    seconds: f64,
}

impl Window<'_> {
    fn get(&self, quantity: &str) -> Option<f64> {
        if self.instance.is_empty() {
            return self.values.get(quantity).copied();
        }
        self.values.get(&join(quantity, self.instance)).copied()
    }

    /// An instance's value that was left out because nothing happened in it is 0 where the machine's was read.
    fn or_idle(&self, quantity: &str) -> Option<f64> {
        self.get(quantity).or_else(|| self.values.get(quantity).map(|_| 0.0))
    }

    fn rate(&self, quantity: &str) -> Option<f64> {
        over(self.or_idle(quantity)?, self.seconds)
    }

    fn sum(&self, quantities: &[&str]) -> Option<f64> {
        quantities.iter().map(|quantity| self.or_idle(quantity)).sum()
    }
}

/// A quotient, where there is something to divide by.
fn over(value: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| value / by)
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct View {
    /// The key.
    pub key: &'static str,
    /// What it is, in words that stand before a value.
    pub label: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// Whether it is among the few that a short report shows.
    pub short: bool,
    /// The quantity whose instances have the view, too; empty where only the machine has it.
    pub of: &'static str,
    formula: fn(&Window<'_>) -> Option<f64>,
}

const STATES: &[&str] =
    &["cpu.user", "cpu.nice", "cpu.system", "cpu.irq", "cpu.softirq", "cpu.idle", "cpu.iowait", "cpu.steal"];
const BUSY: &[&str] = &["cpu.user", "cpu.nice", "cpu.system", "cpu.irq", "cpu.softirq"];

/// The share of the CPUs' time in these states. The kernel rounds each of its counts to ticks, so that over some ticks more can have passed in guests
/// than in user mode, of which that is a part.
fn of_cpu(window: &Window<'_>, states: &[&str]) -> Option<f64> {
    Some((100.0 * over(window.sum(states)?, window.sum(STATES)?)?).min(100.0))
}

fn mega(window: &Window<'_>, quantity: &str) -> Option<f64> {
    Some(window.rate(quantity)? / 1e6)
}

/// Milliseconds of one operation.
fn latency(window: &Window<'_>, time: &[&str], operations: &[&str]) -> Option<f64> {
    Some(1e3 * over(window.sum(time)?, window.sum(operations)?)?)
}

fn share_of_time(window: &Window<'_>, quantity: &str) -> Option<f64> {
    Some(100.0 * window.rate(quantity)?)
}

const fn view(
    key: &'static str,
    label: &'static str,
    unit: &'static str,
    of: &'static str,
    formula: fn(&Window<'_>) -> Option<f64>,
) -> View {
    View { key, label, unit, short: false, of, formula }
}

const fn short(view: View) -> View {
    View { short: true, ..view }
}

const READS: &str = "disk.reads";
const RECEIVED: &str = "net.receive_packets";

/// All views, in the order in which a report shows them.
pub const VIEWS: &[View] = &[
    short(view("cpu.utilization", "CPU utilization", "%", "cpu.idle", |w| of_cpu(w, BUSY))),
    view("cpu.user_share", "in user mode", "%", "cpu.idle", |w| of_cpu(w, &["cpu.user", "cpu.nice"])),
    view("cpu.system_share", "in the kernel", "%", "cpu.idle", |w| of_cpu(w, &["cpu.system"])),
    view("cpu.interrupt_share", "in interrupts", "%", "cpu.idle", |w| of_cpu(w, &["cpu.irq", "cpu.softirq"])),
    view("cpu.iowait_share", "idle, waiting for disks", "%", "cpu.idle", |w| of_cpu(w, &["cpu.iowait"])),
    short(view("cpu.steal_share", "steal", "%", "cpu.idle", |w| of_cpu(w, &["cpu.steal"]))),
    view("cpu.guest_share", "in guests", "%", "cpu.idle", |w| of_cpu(w, &["cpu.guest", "cpu.guest_nice"])),
    view("cpu.busy", "CPUs at work", "CPUs", "", |w| over(w.sum(BUSY)?, w.seconds)),
    view("cpu.online", "CPUs online", "CPUs", "", |w| w.get("cpu.online")),
    short(view("lost.share", "stalls", "%", "", |w| Some(100.0 * over(w.get("lost.time")?, w.get("lost.looked")?)?))),
    // These are worked out from a trial's own record: no observer reads them.
    short(view("phases.queued", "ready to run, CPU taken by others", "%", "", |_| None)),
    short(view("phases.others", "CPU used by others in phases", "%", "", |_| None)),
    short(view("phases.beyond_agent", "CPU used by others, kernel and lab in phases", "%", "", |_| None)),
    view("phases.stolen", "CPU taken by the hypervisor below in phases", "%", "", |_| None),
    short(view("kernel.interrupts", "interrupts", "1/s", "", |w| w.rate("kernel.interrupts"))),
    short(view("kernel.context_switches", "context switches", "1/s", "", |w| w.rate("kernel.context_switches"))),
    view("kernel.softirqs", "soft interrupts", "1/s", "", |w| w.rate("kernel.softirqs")),
    view("kernel.forks", "processes created", "1/s", "", |w| w.rate("kernel.forks")),
    short(view("kernel.load1", "load average (1 min)", "", "", |w| w.get("kernel.load1"))),
    view("kernel.running", "tasks that run or could", "tasks", "", |w| w.get("kernel.running")),
    view("tlb.shootdowns", "TLB shootdowns", "1/s", "", |w| w.rate("tlb.shootdowns")),
    short(view("disk.iops", "disk IOPS", "1/s", READS, |w| over(w.sum(&[READS, "disk.writes"])?, w.seconds))),
    view("disk.read_iops", "disk reads", "1/s", READS, |w| w.rate(READS)),
    view("disk.write_iops", "disk writes", "1/s", READS, |w| w.rate("disk.writes")),
    short(view("disk.mb_per_s", "disk", "MB/s", READS, |w| {
        Some(over(w.sum(&["disk.read_bytes", "disk.write_bytes"])?, w.seconds)? / 1e6)
    })),
    view("disk.read_mb_per_s", "disk, read", "MB/s", READS, |w| mega(w, "disk.read_bytes")),
    view("disk.write_mb_per_s", "disk, written", "MB/s", READS, |w| mega(w, "disk.write_bytes")),
    view("disk.read_latency", "latency of a read", "ms", READS, |w| latency(w, &["disk.read_time"], &[READS])),
    view("disk.write_latency", "latency of a write", "ms", READS, |w| {
        latency(w, &["disk.write_time"], &["disk.writes"])
    }),
    view("disk.latency", "latency of a disk request", "ms", READS, |w| {
        latency(w, &["disk.read_time", "disk.write_time"], &[READS, "disk.writes"])
    }),
    view("disk.busy_share", "disk busy", "%", READS, |w| {
        (!w.instance.is_empty()).then(|| share_of_time(w, "disk.busy"))?
    }),
    short(view("net.receive_packets", "packets received", "1/s", RECEIVED, |w| w.rate(RECEIVED))),
    short(view("net.transmit_packets", "packets sent", "1/s", RECEIVED, |w| w.rate("net.transmit_packets"))),
    short(view("net.receive_mb_per_s", "network, received", "MB/s", RECEIVED, |w| mega(w, "net.receive_bytes"))),
    short(view("net.transmit_mb_per_s", "network, sent", "MB/s", RECEIVED, |w| mega(w, "net.transmit_bytes"))),
    view("net.receive_packet_bytes", "mean packet received", "B", RECEIVED, |w| {
        over(w.or_idle("net.receive_bytes")?, w.or_idle(RECEIVED)?)
    }),
    view("net.transmit_packet_bytes", "mean packet sent", "B", RECEIVED, |w| {
        over(w.or_idle("net.transmit_bytes")?, w.or_idle("net.transmit_packets")?)
    }),
    view("net.errors", "packets lost or wrong", "1/s", RECEIVED, |w| {
        let kinds = ["net.receive_errors", "net.receive_drops", "net.transmit_errors", "net.transmit_drops"];
        over(w.sum(&kinds)?, w.seconds)
    }),
    view("memory.available", "memory available", "MB", "", |w| Some(w.get("memory.available")? / 1e6)),
    view("memory.used", "memory in use", "MB", "", |w| {
        Some((w.get("memory.total")? - w.get("memory.available")?) / 1e6)
    }),
    view("memory.anonymous_huge", "in transparent huge pages", "MB", "", |w| {
        Some(w.get("memory.anonymous_huge")? / 1e6)
    }),
    view("memory.page_tables", "in page tables", "MB", "", |w| Some(w.get("memory.page_tables")? / 1e6)),
    short(view("vm.faults", "page faults", "1/s", "", |w| w.rate("vm.pgfault"))),
    view("vm.major_faults", "page faults from disk", "1/s", "", |w| w.rate("vm.pgmajfault")),
    view("vm.huge_faults", "page faults that got a huge page", "1/s", "", |w| w.rate("vm.thp_fault_alloc")),
    view("vm.swapped", "pages swapped", "1/s", "", |w| over(w.sum(&["vm.pswpin", "vm.pswpout"])?, w.seconds)),
    // The kernel does not count which faults were on evicted pages: of those from disk the share that such pages are of all that were read.
    view("vm.refaults", "page faults on evicted pages", "1/s", "", |w| {
        let again = w.sum(&["vm.workingset_refault_anon", "vm.workingset_refault_file"])?;
        let read = w.get("vm.pgpgin")? / 4096.0;
        Some(w.rate("vm.pgmajfault")? * again / read.max(again).max(1.0))
    }),
    view("vm.numa_migrated", "pages moved to another node", "1/s", "", |w| w.rate("vm.numa_pages_migrated")),
    view("numa.local_share", "pages allocated on their CPU's node", "%", "numa.local_node", |w| {
        Some(100.0 * over(w.or_idle("numa.local_node")?, w.sum(&["numa.local_node", "numa.other_node"])?)?)
    }),
    view("sockets.in_transit_share", "data on its way to a peer", "%", "", |w| share_of_time(w, "sockets.in_transit")),
    view("pressure.cpu", "some task waited for a CPU", "%", "", |w| share_of_time(w, "pressure.cpu_some")),
    view("pressure.io", "some task waited for a disk", "%", "", |w| share_of_time(w, "pressure.io_some")),
    view("pressure.memory", "some task waited for memory", "%", "", |w| share_of_time(w, "pressure.memory_some")),
    view("counters.ipc", "instructions per cycle", "", "", |w| {
        over(w.get("counters.instructions")?, w.get("counters.cycles")?)
    }),
    view("counters.dtlb_per_1000", "data TLB misses per 1000 instructions", "", "", |w| {
        Some(1e3 * over(w.get("counters.dtlb_load_misses")?, w.get("counters.instructions")?)?)
    }),
    view("counters.walk_share", "cycles with a page walk at work", "%", "", |w| {
        Some(100.0 * over(w.get("counters.walk_cycles")?, w.get("counters.cycles")?)?)
    }),
    view("kvm.exits", "exits of virtual machines", "1/s", "", |w| over(*w.values.get("kvm.event:exits")?, w.seconds)),
];

/// The view of that key.
#[must_use]
pub fn find(key: &str) -> Option<&'static View> {
    static BY_KEY: LazyLock<HashMap<&str, &View>> =
        LazyLock::new(|| VIEWS.iter().map(|view| (view.key, view)).collect());
    BY_KEY.get(key).copied()
}

/// One view of the whole machine over a window of `seconds`; `None` where a value is missing or the view is none.
#[must_use]
pub fn of_machine(key: &str, values: &Values, seconds: f64) -> Option<f64> {
    (find(key)?.formula)(&Window { values, instance: "", seconds }).filter(|value| value.is_finite())
}

/// One view of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The view's key.
    pub key: String,
    /// The instance; empty for the machine.
    pub instance: String,
    /// The value.
    pub value: f64,
}

/// Every view that the values of a window of `seconds` have: the machine's, then those of instances.
#[must_use]
pub fn views(values: &Values, seconds: f64) -> Vec<Seen> {
    let mut all = Vec::new();
    let instances = instances(values);
    for view in VIEWS {
        let mut see = |instance: &str| {
            let value = (view.formula)(&Window { values, instance, seconds }).filter(|value| value.is_finite());
            all.extend(value.map(|value| Seen { key: view.key.to_owned(), instance: instance.to_owned(), value }));
        };
        see("");
        if let Some(own) = instances.get(family(view.of)).filter(|_| !view.of.is_empty()) {
            own.iter().copied().for_each(&mut see);
        }
    }
    all
}

/// What an instance that the values of a window do not name is 0 of: views and rates of counters whose whole was read. A mean of what was done, and a level,
/// are not 0 where nothing was done.
#[must_use]
pub fn idle(values: &Values, seconds: f64) -> BTreeSet<&'static str> {
    // No instance has this name.
    let nothing = Window { values, instance: "\0", seconds };
    let is_nothing = |view: &&View| !view.of.is_empty() && (view.formula)(&nothing).is_some_and(|value| value == 0.0);
    let counters = values.keys().filter_map(|key| quantity::find(key)).filter(|row| row.growth != Growth::Level);
    VIEWS.iter().filter(is_nothing).map(|view| view.key).chain(counters.map(|row| row.key)).collect()
}

/// The instances in which anything of a family happened, by family.
fn instances(values: &Values) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (quantity, instance) in values.keys().map(|key| split(key)).filter(|(_, instance)| !instance.is_empty()) {
        all.entry(family(quantity)).or_default().insert(instance);
    }
    all
}

/// What precedes a quantity's dot.
fn family(quantity: &str) -> &str {
    quantity.split_once('.').map_or(quantity, |(family, _)| family)
}

/// Every value as a rate per second, or a level, that no view is made of alone: by the quantity's own key, with its unit.
#[must_use]
pub fn rates(values: &Values, seconds: f64) -> Vec<(Seen, String)> {
    let mut all = Vec::new();
    for (key, value) in values {
        let (quantity, instance) = split(key);
        let Some(row) = quantity::find(quantity) else { continue };
        let (value, unit) = match row.growth {
            Growth::Level => (*value, row.unit.to_owned()),
            _ if seconds > 0.0 => (value / seconds, per_second(row.unit)),
            _ => continue,
        };
        all.push((Seen { key: quantity.to_owned(), instance: instance.to_owned(), value }, unit));
    }
    all
}

/// A unit per second: seconds per second are a share.
#[must_use]
pub fn per_second(unit: &str) -> String {
    match unit {
        "" => "1/s".to_owned(),
        "s" => "s/s".to_owned(),
        other => format!("{other}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::QUANTITIES;

    fn value(values: &Values, seconds: f64, key: &str, instance: &str) -> Option<f64> {
        views(values, seconds)
            .into_iter()
            .find(|seen| seen.key == key && seen.instance == instance)
            .map(|seen| seen.value)
    }

    fn of(rows: &[(&str, f64)]) -> Values {
        rows.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
    }

    #[test]
    fn utilization_leaves_out_idle_time_and_what_was_stolen() {
        let states: Vec<(&str, f64)> = STATES.iter().map(|key| (*key, 0.0)).collect();
        let mut values = of(&states);
        values.extend(of(&[("cpu.user", 3.0), ("cpu.idle", 5.0), ("cpu.steal", 2.0)]));
        assert_eq!(value(&values, 5.0, "cpu.utilization", ""), Some(30.0));
        assert_eq!(value(&values, 5.0, "cpu.steal_share", ""), Some(20.0));
        values.remove("cpu.idle");
        assert_eq!(value(&values, 5.0, "cpu.utilization", ""), None, "a state that was not read is not 0");
    }

    /// All in guests: 14 ticks there and 13 in user mode, for each count is rounded by itself.
    #[test]
    fn a_share_is_at_most_the_whole() {
        let states: Vec<(&str, f64)> = STATES.iter().map(|key| (*key, 0.0)).collect();
        let mut values = of(&states);
        values.extend(of(&[("cpu.user", 0.13), ("cpu.guest", 0.14), ("cpu.guest_nice", 0.0)]));
        assert_eq!(value(&values, 0.07, "cpu.guest_share", ""), Some(100.0));
    }

    #[test]
    fn latency_is_of_what_was_done_and_nothing_done_has_none() {
        let rows =
            [("disk.reads", 10.0), ("disk.read_time", 0.02), ("disk.reads:vda", 10.0), ("disk.read_time:vda", 0.02)];
        let mut values = of(&rows);
        values.extend(of(&[("disk.writes", 0.0), ("disk.write_time", 0.0)]));
        assert_eq!(value(&values, 2.0, "disk.read_latency", "vda"), Some(2.0));
        assert_eq!(value(&values, 2.0, "disk.write_latency", ""), None);
        assert_eq!(
            value(&values, 2.0, "disk.iops", "vda"),
            Some(5.0),
            "its writes were omitted because there were none"
        );
    }

    #[test]
    fn an_instance_without_values_has_amounts_of_0_and_no_means() {
        let rows = ["disk.reads", "disk.writes", "disk.read_time", "disk.write_time", "disk.busy", "disk.in_flight"];
        let found = idle(&of(&rows.map(|key| (key, 10.0))), 2.0);
        let has = |key: &str| found.contains(key);
        assert!(has("disk.iops") && has("disk.busy_share") && has("disk.read_time"), "{found:?}");
        assert!(!has("disk.latency") && !has("disk.in_flight") && !has("disk.mb_per_s"), "{found:?}");
    }

    #[test]
    fn every_view_names_quantities_that_there_are() {
        let everything: Values = QUANTITIES.iter().map(|row| (row.key.to_owned(), 2.0)).collect();
        let mut everything = everything;
        everything.insert("kvm.event:exits".to_owned(), 2.0);
        let with_instance: Vec<String> = QUANTITIES.iter().map(|row| join(row.key, "x")).collect();
        everything.extend(with_instance.into_iter().map(|key| (key, 1.0)));
        let seen = views(&everything, 1.0);
        for view in VIEWS.iter().filter(|view| !view.key.starts_with("phases.")) {
            let instance = if view.key == "disk.busy_share" { "x" } else { "" };
            assert!(seen.iter().any(|s| s.key == view.key && s.instance == instance), "{}", view.key);
        }
    }
}
