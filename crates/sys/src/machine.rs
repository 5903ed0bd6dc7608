//! What the machine says of itself, read from `/proc` and `/sys`.
//!
//! Every reader takes the root of a file tree, so that it can be run on the recorded tree of another machine. A file that
//! is missing or odd makes its fact `None`: describing a machine never fails a measurement.

mod background;
mod cpu;
mod memory;
mod recorded;
pub(crate) mod tree;
mod virtualization;

use crate::clock::{self, Calibration};
use baremark_model::machine::{FrequencyFacts, KernelFacts, MachineFacts};
use std::path::Path;
use std::time::Duration;
use tree::Tree;

pub use recorded::{Recorded, is_recorded, root, unpack};

/// The facts of this machine, with those that only the processor itself can tell. Takes 50 ms, in which the time-stamp
/// counter's rate is calibrated, less what has passed since one was begun ahead. Where plans are for a recorded machine, what its files tell.
#[must_use]
pub fn this() -> MachineFacts {
    let mut facts = at_once();
    if !is_recorded() {
        let calibrated = Calibration::ahead().and_then(|calibration| calibration.end(Duration::from_millis(50)));
        facts.clock = calibrated.ok().map(|(_, clock)| clock);
    }
    facts
}

/// The same without the time-stamp counter's rate: what tells this machine from another is known at once.
#[must_use]
pub fn at_once() -> MachineFacts {
    let mut facts = read(root());
    if !is_recorded() {
        facts.virtualization.hypervisor_vendor = clock::hypervisor_vendor();
    }
    facts
}

/// The facts that the files under `root` tell, which is `/` for this machine.
#[must_use]
pub fn read(root: &Path) -> MachineFacts {
    let tree = Tree::new(root);
    MachineFacts {
        hostname: tree.text("proc/sys/kernel/hostname"),
        cpu: cpu::facts(&tree),
        caches: cpu::caches(&tree),
        memory: memory::facts(&tree),
        kernel: kernel(&tree),
        frequency: frequency(&tree),
        virtualization: virtualization::facts(&tree),
        clock: None,
        background: background::facts(&tree),
        load_average: load_average(&tree),
    }
}

/// The size of all last-level caches together, in bytes; `None` where the files under `root` do not tell.
#[must_use]
pub fn last_level_caches(root: &Path) -> Option<u64> {
    let caches = cpu::caches(&Tree::new(root));
    let last = caches.iter().max_by_key(|cache| cache.level)?;
    last.size_bytes.checked_mul(last.instances.unwrap_or(1))
}

fn kernel(tree: &Tree) -> KernelFacts {
    let vulnerabilities = "sys/devices/system/cpu/vulnerabilities";
    let distribution = tree.text("etc/os-release").and_then(|text| {
        let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(name.trim_matches('"').to_owned())
    });
    KernelFacts {
        release: tree.text("proc/sys/kernel/osrelease"),
        version: tree.text("proc/sys/kernel/version"),
        command_line: tree.text("proc/cmdline"),
        clocksource: tree.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        mitigations: tree.texts(vulnerabilities),
        distribution,
    }
}

fn frequency(tree: &Tree) -> FrequencyFacts {
    let policy = |name: &str| format!("sys/devices/system/cpu/cpu0/cpufreq/{name}");
    let in_hz = |name: &str| tree.number(&policy(name))?.checked_mul(1000);
    // intel_pstate says when turbo is off, the other drivers when boost is on.
    let no_turbo = tree.number("sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| off == 0);
    let boost = || tree.number("sys/devices/system/cpu/cpufreq/boost").map(|on| on == 1);
    FrequencyFacts {
        driver: tree.text(&policy("scaling_driver")),
        governor: tree.text(&policy("scaling_governor")),
        turbo: no_turbo.or_else(boost),
        min_hz: in_hz("scaling_min_freq"),
        max_hz: in_hz("scaling_max_freq"),
    }
}

fn load_average(tree: &Tree) -> Option<[f64; 3]> {
    let text = tree.text("proc/loadavg")?;
    let mut numbers = text.split_ascii_whitespace().map_while(|word| word.parse::<f64>().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

#[cfg(test)]
mod tests {
    use super::tree::unpacked;
    use super::*;
    use baremark_model::machine::Isa;

    #[test]
    fn a_recorded_guest_is_described() {
        let dir = unpacked(include_str!("machine/recorded/epyc-guest.txt"));
        let facts = read(dir.path());
        assert_eq!(facts.cpu.model_name.as_deref(), Some("AMD EPYC"));
        assert_eq!((facts.cpu.family, facts.cpu.model, facts.cpu.stepping), (Some(25), Some(17), Some(1)));
        assert_eq!((facts.cpu.logical_cpus, facts.cpu.cores, facts.cpu.sockets), (Some(2), Some(2), Some(1)));
        assert_eq!((facts.cpu.smt, facts.cpu.isa), (Some(false), Some(Isa::Avx512)));
        let caches: Vec<_> =
            facts.caches.iter().map(|c| (c.level, c.kind.as_str(), c.size_bytes, c.instances)).collect();
        let expected = [
            (1, "Data", 32 << 10, Some(2)),
            (1, "Instruction", 32 << 10, Some(2)),
            (2, "Unified", 1 << 20, Some(2)),
            (3, "Unified", 32 << 20, Some(1)),
        ];
        assert_eq!(caches, expected);
        assert_eq!(facts.memory.total_bytes, Some(24_684_084 << 10));
        assert_eq!(facts.memory.thp_enabled.as_deref(), Some("madvise"));
        assert_eq!(facts.virtualization.hypervisor, Some(true));
        assert_eq!(facts.virtualization.kvm_modules["kvm"]["tdp_mmu"], "N");
        assert_eq!(facts.virtualization.kvm_modules["kvm_pvm"]["pvm_native"], "Y");
        assert_eq!(facts.virtualization.container_hints, ["/.dockerenv exists"]);
        assert_eq!(facts.kernel.mitigations["spec_store_bypass"], "Vulnerable");
        assert_eq!(facts.kernel.clocksource.as_deref(), Some("tsc"));
        assert_eq!((facts.frequency.driver, facts.frequency.turbo), (None, None));
        assert_eq!(facts.load_average, Some([0.07, 0.13, 0.08]));
        let background = &facts.background;
        assert_eq!(
            (background.ksm, background.kdamonds, background.page_reporting_order),
            (Some(false), Some(1), Some(9))
        );
        assert_eq!((background.khugepaged_sleep_ms, background.khugepaged_pages), (Some(10_000), Some(4096)));
        let watchdogs = (background.numa_balancing, background.nmi_watchdog, background.soft_watchdog);
        assert_eq!(watchdogs, (Some(false), Some(false), Some(true)));
    }

    #[test]
    fn a_machine_of_two_sockets_is_described() {
        let dir = unpacked(include_str!("machine/recorded/two-sockets.txt"));
        let facts = read(dir.path());
        assert_eq!((facts.cpu.logical_cpus, facts.cpu.cores, facts.cpu.sockets), (Some(4), Some(2), Some(2)));
        assert_eq!((facts.cpu.smt, facts.cpu.isa), (Some(true), Some(Isa::Avx2)));
        assert_eq!(facts.virtualization.hypervisor, Some(false));
        assert_eq!(facts.virtualization.kvm_modules["kvm_intel"]["ept"], "Y");
        let nodes: Vec<_> =
            facts.memory.nodes.iter().map(|n| (n.node, n.cpus.as_str(), n.distances.as_slice())).collect();
        assert_eq!(nodes, [(0, "0,2", [10, 21].as_slice()), (1, "1,3", [21, 10].as_slice())]);
        assert_eq!(facts.memory.nodes[1].total_bytes, Some(24_000_000 << 10));
        let pool = facts.memory.hugetlb[0];
        assert_eq!((pool.page_bytes, pool.pages, pool.free_pages), (2 << 20, 512, 500));
        assert_eq!(facts.frequency.governor.as_deref(), Some("performance"));
        assert_eq!((facts.frequency.turbo, facts.frequency.max_hz), (Some(false), Some(2_930_000_000)));
        assert_eq!(facts.virtualization.product.as_deref(), Some("HP ProLiant DL380 G6"));
        let last = facts.caches.iter().max_by_key(|cache| cache.level);
        assert_eq!(last.map(|cache| cache.size_bytes), Some(8 << 20));
    }

    #[test]
    fn of_an_empty_tree_nothing_is_known() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(read(dir.path()), MachineFacts::default());
    }

    #[test]
    fn this_machine_is_known_well_enough() {
        let facts = this();
        assert!(facts.cpu.logical_cpus.is_some_and(|cpus| cpus > 0));
        assert!(facts.memory.total_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(facts.kernel.release.is_some() && facts.clock.is_some());
        assert_eq!(facts.fingerprint(), this().fingerprint());
    }
}
