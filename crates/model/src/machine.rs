//! What a machine is, as a record keeps it: enough for a stranger to judge a number and to find a like machine.
//!
//! Facts are what the machine says of itself. What it does not say is `None` or an empty list, never zero. Keys carry
//! their units. Two records are of the same machine when [`MachineFacts::fingerprint`] agrees; everything else that
//! differs between them is a confounder to be named.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that is recorded about a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MachineFacts {
    /// Its network name; distinguishes machines of one make for people, and is not a part of the fingerprint.
    pub hostname: Option<String>,
    /// The processors.
    pub cpu: CpuFacts,
    /// The caches that CPU 0 sees, from the nearest on.
    pub caches: Vec<CacheFacts>,
    /// The memory and its pages.
    pub memory: MemoryFacts,
    /// The operating system.
    pub kernel: KernelFacts,
    /// What governs the processor's frequency.
    pub frequency: FrequencyFacts,
    /// Where it stands: on metal, in a virtual machine, in a container; and what it can host.
    pub virtualization: VirtualizationFacts,
    /// The time-stamp counter; `None` when it was not looked at.
    pub clock: Option<ClockFacts>,
    /// What the kernel does in the background that takes time from a measurement, or moves its memory.
    pub background: BackgroundFacts,
    /// The load averages over 1, 5 and 15 minutes when the facts were read.
    pub load_average: Option<[f64; 3]>,
}

/// The processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CpuFacts {
    /// The name by which it is sold.
    pub model_name: Option<String>,
    /// CPUID's vendor, such as `GenuineIntel`.
    pub vendor: Option<String>,
    /// CPUID's family.
    pub family: Option<u64>,
    /// CPUID's model.
    pub model: Option<u64>,
    /// CPUID's stepping.
    pub stepping: Option<u64>,
    /// The microcode's revision, as the kernel prints it.
    pub microcode: Option<String>,
    /// CPUs that the kernel schedules on.
    pub logical_cpus: Option<u64>,
    /// Physical cores among them.
    pub cores: Option<u64>,
    /// Packages among them.
    pub sockets: Option<u64>,
    /// Whether two threads share a core.
    pub smt: Option<bool>,
    /// The widest instruction set for which there are measured loops.
    pub isa: Option<Isa>,
    /// All flags, as the kernel lists them.
    pub flags: Vec<String>,
}

/// The instruction sets among which measured loops choose at run time, from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Isa {
    /// What every x86-64 processor has: SSE2.
    Baseline,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512: F, DQ, CD, BW and VL.
    Avx512,
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CacheFacts {
    /// 1, 2, 3.
    pub level: u64,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its line.
    pub line_bytes: Option<u64>,
    /// How many lines an address may lie in.
    pub ways: Option<u64>,
    /// The CPUs that share it, as the kernel lists them.
    pub shared_cpus: Option<String>,
    /// How many of it the machine has.
    pub instances: Option<u64>,
}

/// The memory and its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MemoryFacts {
    /// All that the kernel manages.
    pub total_bytes: Option<u64>,
    /// What could be had without swapping when the facts were read.
    pub available_bytes: Option<u64>,
    /// Swap space.
    pub swap_bytes: Option<u64>,
    /// The NUMA nodes.
    pub nodes: Vec<NodeFacts>,
    /// Transparent huge pages: the chosen word of `enabled`.
    pub thp_enabled: Option<String>,
    /// Transparent huge pages: the chosen word of `defrag`.
    pub thp_defrag: Option<String>,
    /// Huge pages reserved by hugetlb, by page size.
    pub hugetlb: Vec<PoolFacts>,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeFacts {
    /// Its number.
    pub node: u64,
    /// Its CPUs, as the kernel lists them; empty for a node of memory alone.
    pub cpus: String,
    /// Its memory.
    pub total_bytes: Option<u64>,
    /// Its distances to all nodes, 10 to itself.
    pub distances: Vec<u64>,
}

/// One pool of reserved huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PoolFacts {
    /// The size of its pages.
    pub page_bytes: u64,
    /// How many are reserved.
    pub pages: u64,
    /// How many of those nobody has.
    pub free_pages: u64,
}

/// The operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct KernelFacts {
    /// Such as `6.18.44`.
    pub release: Option<String>,
    /// Build number, preemption and date, as the kernel prints them.
    pub version: Option<String>,
    /// Its command line.
    pub command_line: Option<String>,
    /// The clock source in use.
    pub clocksource: Option<String>,
    /// What it does about each of the processor's vulnerabilities, by the kernel's names.
    pub mitigations: BTreeMap<String, String>,
    /// The distribution's own name for itself.
    pub distribution: Option<String>,
}

/// What governs the processor's frequency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FrequencyFacts {
    /// The driver; `None` where the kernel governs nothing, as in most virtual machines.
    pub driver: Option<String>,
    /// The governor of CPU 0.
    pub governor: Option<String>,
    /// Whether frequencies above the nominal one are allowed.
    pub turbo: Option<bool>,
    /// The lowest and the highest frequency that the policy allows.
    pub min_hz: Option<u64>,
    /// See `min_hz`.
    pub max_hz: Option<u64>,
}

/// What the kernel does in addition to what it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BackgroundFacts {
    /// Whether KSM merges equal pages.
    pub ksm: Option<bool>,
    /// How long khugepaged sleeps between two scans for pages to make huge, in milliseconds.
    pub khugepaged_sleep_ms: Option<u64>,
    /// How many pages khugepaged looks at in one scan.
    pub khugepaged_pages: Option<u64>,
    /// Threads of DAMON, which samples who accesses which page; `None` where processes cannot be listed.
    pub kdamonds: Option<u64>,
    /// The order of the free blocks that are reported to the hypervisor, which may take them away; `None` where none are.
    pub page_reporting_order: Option<u64>,
    /// Whether pages are moved to the NUMA node that uses them.
    pub numa_balancing: Option<bool>,
    /// Whether a counter of cycles interrupts every CPU to find it locked up.
    pub nmi_watchdog: Option<bool>,
    /// Whether a timer on every CPU does so.
    pub soft_watchdog: Option<bool>,
}

/// Where the machine stands and what it can host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VirtualizationFacts {
    /// Whether the processor says that a hypervisor is under it: then nothing measured here is "of bare metal".
    pub hypervisor: Option<bool>,
    /// That hypervisor's signature, such as `KVMKVMKVM`.
    pub hypervisor_vendor: Option<String>,
    /// What the firmware calls the machine.
    pub product: Option<String>,
    /// What makes this look like a container, in words; empty when nothing does.
    pub container_hints: Vec<String>,
    /// Whether its processes are in a PID namespace of their own, as those of containers are; `None` where that was not looked at.
    pub own_processes: Option<bool>,
    /// The parameters of each KVM module that is loaded (`kvm`, `kvm_intel`, `kvm_amd`, `kvm_pvm`), by module.
    pub kvm_modules: BTreeMap<String, BTreeMap<String, String>>,
    /// Whether there is a /dev/kvm.
    pub kvm_device: bool,
}

/// The time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClockFacts {
    /// Its rate.
    pub tsc_hz: f64,
    /// Where the rate comes from.
    pub tsc_source: RateSource,
    /// The bound of the calibration's error, in parts per million.
    pub tsc_error_ppm: f64,
    /// Whether it ticks at one rate in all frequency and sleep states (`constant_tsc` and `nonstop_tsc`).
    pub tsc_invariant: Option<bool>,
}

/// Where a rate of the time-stamp counter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RateSource {
    /// The processor declares it (CPUID leaf 0x15).
    Processor,
    /// The hypervisor declares it (CPUID leaf 0x40000010).
    Hypervisor,
    /// It was compared with the kernel's raw clock.
    Calibration,
}

impl VirtualizationFacts {
    /// Whether this is a container: something looks like one, and its processes are not those of the whole machine. A file that a container's
    /// image has brought to a virtual machine alone makes none.
    #[must_use]
    pub fn is_container(&self) -> bool {
        self.own_processes == Some(true) && !self.container_hints.is_empty()
    }
}

impl MachineFacts {
    /// Sixteen hexadecimal digits that are equal for the same machine, whatever its kernel, settings and load, and differ
    /// for machines of another make or size. Machines of one make and size are not distinguished.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let cpu = &self.cpu;
        let mut parts = vec![
            format!("{:?}", (&cpu.vendor, cpu.family, cpu.model, cpu.stepping, &cpu.model_name)),
            format!("{:?}", (cpu.logical_cpus, cpu.cores, cpu.sockets)),
            format!("{:?}", (self.virtualization.hypervisor, &self.virtualization.hypervisor_vendor)),
            format!("{:?}", (self.memory.total_bytes.map(installed), self.memory.nodes.len())),
        ];
        parts.extend(self.caches.iter().map(|cache| format!("{:?}", (cache.level, &cache.kind, cache.size_bytes))));
        format!("{:016x}", fnv1a(parts.join("\n").as_bytes()))
    }
}

/// The memory's size without what firmware and kernel keep for themselves, which varies with the kernel: rounded up to
/// three binary digits, the steps in which memory is bought.
fn installed(total_bytes: u64) -> u64 {
    let step = 1_u64 << total_bytes.max(8).ilog2().saturating_sub(3);
    total_bytes.checked_next_multiple_of(step).unwrap_or(total_bytes)
}

/// FNV-1a, 64 bits: stable over builds and machines, which the standard library's hashers do not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> MachineFacts {
        let mut facts = MachineFacts::default();
        facts.cpu.vendor = Some("AuthenticAMD".to_owned());
        facts.cpu.logical_cpus = Some(2);
        facts.memory.total_bytes = Some(24_684_084 << 10);
        facts
    }

    #[test]
    fn the_fingerprint_survives_another_kernel_and_load() {
        let mut later = machine();
        later.kernel.release = Some("7.0".to_owned());
        later.load_average = Some([3.0, 2.0, 1.0]);
        later.memory.total_bytes = Some(24_500_000 << 10);
        later.memory.available_bytes = Some(5);
        assert_eq!(later.fingerprint(), machine().fingerprint());
        assert_eq!(machine().fingerprint(), "1fee69b2eacad3c1", "stored records hold it: it must not change");
    }

    #[test]
    fn the_fingerprint_sees_another_processor_and_another_size() {
        let mut other = machine();
        other.cpu.logical_cpus = Some(4);
        assert_ne!(other.fingerprint(), machine().fingerprint());
        let mut larger = machine();
        larger.memory.total_bytes = Some(32 << 30);
        assert_ne!(larger.fingerprint(), machine().fingerprint());
    }

    #[test]
    fn facts_survive_the_record_and_absence_stays_absence() {
        let text = serde_json::to_string(&machine()).expect("serialisable");
        assert_eq!(serde_json::from_str::<MachineFacts>(&text).expect("readable"), machine());
        let old: MachineFacts = serde_json::from_str("{}").expect("an older record");
        assert_eq!(old.memory.total_bytes, None);
    }

    #[test]
    fn sizes_round_up_to_what_is_bought() {
        assert_eq!(installed(24_684_084 << 10), 24 << 30);
        assert_eq!(installed(24 << 30), 24 << 30);
        assert_eq!(installed(0), 0);
    }
}
