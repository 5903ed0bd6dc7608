//! Processors and caches.

use super::tree::Tree;
use baremark_model::machine::{CacheFacts, CpuFacts, Isa};
use std::collections::BTreeSet;

const CPUS: &str = "sys/devices/system/cpu";

pub fn facts(tree: &Tree) -> CpuFacts {
    let cpuinfo = tree.text("proc/cpuinfo").unwrap_or_default();
    let text = |name: &str| field(&cpuinfo, name).map(str::to_owned);
    let number = |name: &str| field(&cpuinfo, name)?.parse().ok();
    let flags: Vec<String> = field(&cpuinfo, "flags").into_iter().flat_map(words).collect();
    let processors = cpuinfo.lines().filter(|line| line.starts_with("processor")).count() as u64;
    let topology = topology(tree);
    CpuFacts {
        model_name: text("model name"),
        vendor: text("vendor_id"),
        family: number("cpu family"),
        model: number("model"),
        stepping: number("stepping"),
        microcode: text("microcode"),
        logical_cpus: (processors > 0).then_some(processors),
        cores: topology.as_ref().map(|t| t.cores),
        sockets: topology.as_ref().map(|t| t.sockets),
        smt: topology.as_ref().map(|t| t.threads > t.cores),
        isa: (!flags.is_empty()).then(|| isa(&flags)),
        flags,
    }
}

/// The first line `name : value` of cpuinfo, whose names are padded with tabs.
fn field<'t>(cpuinfo: &'t str, name: &str) -> Option<&'t str> {
    let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(key, value)| (key.trim(), value.trim()))
        .find(|&(key, value)| key == name && !value.is_empty())
        .map(|p| p.1)
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_ascii_whitespace().map(str::to_owned)
}

fn isa(flags: &[String]) -> Isa {
    let has = |names: &[&str]| names.iter().all(|name| flags.iter().any(|flag| flag == name));
    match () {
        () if has(&["avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl"]) => Isa::Avx512,
        () if has(&["avx2", "fma"]) => Isa::Avx2,
        () => Isa::Baseline,
    }
}

struct Topology {
    threads: u64,
    cores: u64,
    sockets: u64,
}

/// Counts the online CPUs' distinct cores and packages; `None` when the kernel does not say.
fn topology(tree: &Tree) -> Option<Topology> {
    let mut cores = BTreeSet::new();
    let mut sockets = BTreeSet::new();
    let mut threads = 0;
    for cpu in tree.numbered(CPUS, "cpu") {
        let of_cpu = |name: &str| tree.text(&format!("{CPUS}/cpu{cpu}/topology/{name}"));
        // A core's number is unique in its package only; its list of CPUs is unique in the machine.
        if let (Some(package), Some(siblings)) = (of_cpu("physical_package_id"), of_cpu("thread_siblings_list")) {
            cores.insert(siblings);
            sockets.insert(package);
            threads += 1;
        }
    }
    (threads > 0).then_some(Topology { threads, cores: cores.len() as u64, sockets: sockets.len() as u64 })
}

/// The caches of CPU 0, in the kernel's order, which begins at the core.
pub fn caches(tree: &Tree) -> Vec<CacheFacts> {
    let indices = tree.numbered(&format!("{CPUS}/cpu0/cache"), "index");
    indices.into_iter().filter_map(|index| cache(tree, index)).collect()
}

fn cache(tree: &Tree, index: u64) -> Option<CacheFacts> {
    let file = |cpu: u64, name: &str| format!("{CPUS}/cpu{cpu}/cache/index{index}/{name}");
    let shared: BTreeSet<String> =
        tree.numbered(CPUS, "cpu").into_iter().filter_map(|cpu| tree.text(&file(cpu, "shared_cpu_list"))).collect();
    Some(CacheFacts {
        level: tree.number(&file(0, "level"))?,
        kind: tree.text(&file(0, "type"))?,
        size_bytes: size_bytes(&tree.text(&file(0, "size"))?)?,
        line_bytes: tree.number(&file(0, "coherency_line_size")),
        ways: tree.number(&file(0, "ways_of_associativity")),
        shared_cpus: tree.text(&file(0, "shared_cpu_list")),
        instances: (!shared.is_empty()).then_some(shared.len() as u64),
    })
}

/// "32K" as the kernel writes it for caches; `M` is not used by any, but would be clear.
fn size_bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
