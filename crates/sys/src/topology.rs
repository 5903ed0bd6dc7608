//! Which CPUs this process may use, and to which core, node and socket each belongs.
//!
//! Read from below a root, as everything else that is known of a machine, so that larger machines than the one at hand can
//! be tested from records. CPUs that are offline have no core; numbers of CPUs, sockets and nodes may have gaps; a node may
//! have CPUs and no memory, or memory and no CPUs.

use crate::affinity::allowed_cpus;
use crate::machine::{self, tree::Tree};
use baremark_model::placement::{Cpu, Topology};
use std::io;
use std::path::Path;

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

/// The topology of this machine, as far as this process may use it.
///
/// # Errors
/// When the CPUs that may be used cannot be requested.
pub fn this() -> io::Result<Topology> {
    Ok(read(machine::root(), &usable_cpus()?))
}

/// The CPUs that this process may use, ascending; of a recorded machine those that its `status` allows, else all that are online.
///
/// # Errors
/// What `sched_getaffinity(2)` gives; `InvalidData` where a recorded machine names no CPU.
pub fn usable_cpus() -> io::Result<Vec<usize>> {
    if !machine::is_recorded() {
        return allowed_cpus();
    }
    let cpus = recorded_cpus(&Tree::new(machine::root()));
    if cpus.is_empty() {
        let none = "the recorded machine names no CPU; it needs sys/devices/system/cpu/online";
        return Err(io::Error::new(io::ErrorKind::InvalidData, none));
    }
    Ok(cpus)
}

fn recorded_cpus(tree: &Tree) -> Vec<usize> {
    let status = tree.text("proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(listed);
    let cpuinfo = || {
        let text = tree.text("proc/cpuinfo").unwrap_or_default();
        let numbers = text.lines().filter_map(|line| line.strip_prefix("processor")?.split_once(':'));
        numbers.filter_map(|(_, number)| number.trim().parse().ok()).collect()
    };
    let online = tree.text(&format!("{CPUS}/online")).map(|text| listed(&text)).unwrap_or_else(cpuinfo);
    match allowed {
        Some(allowed) => online.into_iter().filter(|cpu| allowed.contains(cpu)).collect(),
        None => online,
    }
}

/// The topology below `root`, of the CPUs `allowed` as far as they are online. Where the kernel reports nothing of a CPU, it
/// is taken as a core of the first socket and node.
#[must_use]
pub fn read(root: &Path, allowed: &[usize]) -> Topology {
    let tree = Tree::new(root);
    let nodes: Vec<usize> = tree.numbered(NODES, "node").into_iter().map(index).collect();
    let members: Vec<(usize, Vec<usize>)> = nodes.iter().map(|&node| (node, cpus_of_node(&tree, node))).collect();
    let online = tree.text(&format!("{CPUS}/online")).map(|text| listed(&text));
    let is_online = |cpu: usize| match (&online, tree.number(&format!("{CPUS}/cpu{cpu}/online"))) {
        (_, Some(on)) => on == 1,
        (Some(online), None) => online.contains(&cpu),
        (None, None) => true,
    };
    let cpus = allowed.iter().copied().filter(|&cpu| is_online(cpu)).map(|cpu| {
        let node = members.iter().find(|(_, cpus)| cpus.contains(&cpu)).map_or(0, |(node, _)| *node);
        let siblings = siblings(&tree, cpu).into_iter().filter(|sibling| allowed.contains(sibling));
        let socket = tree.number(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id")).map_or(0, index);
        Cpu { cpu, socket, node, core: siblings.min().unwrap_or(cpu) }
    });
    Topology { cpus: cpus.collect(), memory_nodes: memory_nodes(&tree, &nodes) }
}

/// The nodes with memory that this process may use; one, number 0, where the kernel reports none.
fn memory_nodes(tree: &Tree, nodes: &[usize]) -> Vec<usize> {
    let status = tree.text("proc/self/status").unwrap_or_default();
    let may_use =
        status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:")).map(|text| listed(text.trim()));
    let has_memory = |node: usize| {
        let meminfo = tree.text(&format!("{NODES}/node{node}/meminfo")).unwrap_or_default();
        let total = meminfo.lines().find(|line| line.contains("MemTotal:"));
        let kib = total.and_then(|line| line.split_ascii_whitespace().rev().nth(1)?.parse::<u64>().ok());
        kib.is_some_and(|kib| kib > 0)
    };
    let usable = |node: &usize| has_memory(*node) && may_use.as_ref().is_none_or(|may_use| may_use.contains(node));
    let found: Vec<usize> = nodes.iter().copied().filter(usable).collect();
    if nodes.is_empty() { vec![0] } else { found }
}

fn cpus_of_node(tree: &Tree, node: usize) -> Vec<usize> {
    let list = tree.text(&format!("{NODES}/node{node}/cpulist")).map(|text| listed(&text));
    list.or_else(|| tree.text(&format!("{NODES}/node{node}/cpumap")).map(|text| masked(&text))).unwrap_or_default()
}

fn siblings(tree: &Tree, cpu: usize) -> Vec<usize> {
    let file = |name: &str| tree.text(&format!("{CPUS}/cpu{cpu}/topology/{name}"));
    let list = file("thread_siblings_list").map(|text| listed(&text));
    list.or_else(|| file("thread_siblings").map(|text| masked(&text))).unwrap_or_else(|| vec![cpu])
}

/// The numbers of a list such as `0-3,8,10-11`; what is none is left out.
fn listed(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        (last < MOST).then_some(first..=last)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// The numbers of a mask such as `00000000,00000101`, groups of 32 bits with the highest first.
fn masked(text: &str) -> Vec<usize> {
    let groups = text.split(',').rev().map(|group| u32::from_str_radix(group.trim(), 16).unwrap_or(0));
    groups
        .enumerate()
        .flat_map(|(group, bits)| (0..32).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| 32 * group + bit))
        .collect()
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Numbers beyond this are not CPU's and no node's.
const MOST: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tree::unpacked;
    use baremark_model::placement::{MemoryPolicy, Placement};
    use std::fmt::Write;

    fn recorded(text: &str, allowed: &str) -> Topology {
        let dir = unpacked(text);
        read(dir.path(), &listed(allowed))
    }

    /// Written in the form of the kernel's files, not recorded: every CPU of `sockets` x `nodes` x `cores` x `threads`, the
    /// first threads of all cores before the second ones, as Linux numbers them.
    fn regular(sockets: usize, nodes: usize, cores: usize, threads: usize) -> Topology {
        let all = sockets * nodes * cores;
        let mut text = format!("\n== {CPUS}/online\n0-{}\n", all * threads - 1);
        for core in 0..all {
            let siblings: Vec<String> = (0..threads).map(|thread| (core + thread * all).to_string()).collect();
            for sibling in &siblings {
                let file = format!("{CPUS}/cpu{sibling}/topology");
                let _ = writeln!(text, "== {file}/physical_package_id\n{}", core / (nodes * cores));
                let _ = writeln!(text, "== {file}/thread_siblings_list\n{}", siblings.join(","));
            }
        }
        for node in 0..sockets * nodes {
            let of_thread = |thread: usize| {
                let first = node * cores + thread * all;
                format!("{first}-{}", first + cores - 1)
            };
            let cpus: Vec<String> = (0..threads).map(of_thread).collect();
            let _ = writeln!(text, "== {NODES}/node{node}/cpulist\n{}", cpus.join(","));
            let _ = writeln!(text, "== {NODES}/node{node}/meminfo\nNode {node} MemTotal:  33554432 kB");
        }
        recorded(&text, &format!("0-{}", all * threads - 1))
    }

    fn place(machine: &Topology, placement: Placement, ranks: usize) -> Vec<usize> {
        machine.place(placement, ranks, 1).expect("possible there")
    }

    fn nodes(machine: &Topology, cpus: &[usize]) -> Vec<usize> {
        cpus.iter().map(|&cpu| machine.node_of(cpu).expect("a CPU")).collect()
    }

    #[test]
    fn on_two_sockets_of_four_cores_with_two_threads_the_levels_differ() {
        let nehalem = regular(2, 1, 4, 2);
        assert_eq!(place(&nehalem, Placement::Numbered, 4), [0, 1, 2, 3]);
        assert_eq!(place(&nehalem, Placement::Compact, 4), [0, 8, 1, 9], "both threads of two cores");
        assert_eq!(place(&nehalem, Placement::Spread, 4), [0, 4, 1, 5], "sockets in turn");
        assert_eq!(place(&nehalem, Placement::Spread, 16)[8..10], [8, 12], "second threads last");
        assert_eq!(place(&nehalem, Placement::OneSocket, 8), [0, 8, 1, 9, 2, 10, 3, 11]);
        assert_eq!(place(&nehalem, Placement::SmtOff, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
        let refused = |placement, ranks| nehalem.place(placement, ranks, 1).expect_err("too many").to_string();
        assert_eq!(refused(Placement::OneSocket, 9), "9 ranks need a CPU each, and one-socket leaves 8");
        assert_eq!(refused(Placement::SmtOff, 16), "16 ranks need a CPU each, and smt-off leaves 8");
        assert_eq!(nehalem.nodes_for(MemoryPolicy::Remote, 0), Ok(vec![1]));
        assert_eq!(nehalem.nodes_for(MemoryPolicy::Interleave, 1), Ok(vec![0, 1]));
    }

    #[test]
    fn two_sockets_of_four_nodes_are_filled_node_by_node_or_in_turn() {
        let epyc = regular(2, 4, 8, 2);
        assert_eq!((epyc.cpus.len(), epyc.memory_nodes.len()), (128, 8));
        let spread = place(&epyc, Placement::Spread, 8);
        assert_eq!(nodes(&epyc, &spread), [0, 4, 1, 5, 2, 6, 3, 7], "sockets first, then nodes");
        let compact = place(&epyc, Placement::Compact, 17);
        assert_eq!(nodes(&epyc, &compact)[15..], [0, 1], "a node has 16 threads");
        assert_eq!(place(&epyc, Placement::OneSocket, 64).len(), 64);
        assert_eq!(epyc.nodes_for(MemoryPolicy::Remote, 7), Ok(vec![0]));
    }

    #[test]
    fn a_recorded_machine_of_several_nodes_a_socket() {
        let machine = recorded(include_str!("topology/recorded/four-sockets-eight-nodes.txt"), "0-63");
        assert_eq!((machine.cpus.len(), machine.memory_nodes.len()), (64, 8));
        let spread = place(&machine, Placement::Spread, 8);
        let mut seen = nodes(&machine, &spread);
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7], "one rank a node: {spread:?}");
        let compact = place(&machine, Placement::Compact, 8);
        assert_eq!(nodes(&machine, &compact), [nodes(&machine, &compact)[0]; 8]);
        assert_eq!(place(&machine, Placement::OneSocket, 16).len(), 16);
    }

    #[test]
    fn numbers_with_gaps_are_numbers() {
        let machine = recorded(include_str!("topology/recorded/sparse-nodes.txt"), "0-47");
        assert_eq!(machine.memory_nodes, [0, 1, 2, 33, 34, 45, 72, 73]);
        assert_eq!(machine.nodes_for(MemoryPolicy::Remote, 2), Ok(vec![33]), "the next that is there");
        assert_eq!(machine.nodes_for(MemoryPolicy::Remote, 73), Ok(vec![0]));
        let spread = place(&machine, Placement::Spread, 8);
        let mut seen = nodes(&machine, &spread);
        seen.sort_unstable();
        assert_eq!(seen, machine.memory_nodes);
    }

    #[test]
    fn offline_cpus_are_not_there() {
        let machine = recorded(include_str!("topology/recorded/offline-cpus.txt"), "0-23");
        let cpus: Vec<usize> = machine.cpus.iter().map(|cpu| cpu.cpu).collect();
        assert_eq!(cpus, (4..=20).collect::<Vec<_>>());
        assert_eq!(machine.memory_nodes, [1], "node 0 went with its CPUs");
        assert!(machine.place(Placement::Numbered, 18, 1).is_err());
    }

    #[test]
    fn a_control_group_narrows_cpus_and_nodes() {
        let machine = recorded(include_str!("topology/recorded/restricted.txt"), "0-6,12-15");
        let cpus: Vec<usize> = machine.cpus.iter().map(|cpu| cpu.cpu).collect();
        assert_eq!(cpus, [0, 1, 2, 3, 5, 6, 12, 13, 14, 15], "CPU 4 is offline");
        assert_eq!(machine.memory_nodes, [1, 2, 3, 4]);
        let node = machine.node_of(0).expect("allowed");
        let local = machine.nodes_for(MemoryPolicy::Local, node).expect_err("its memory is somebody else's");
        assert_eq!(local.to_string(), "node 0 has no memory that may be used");
        assert_eq!(machine.nodes_for(MemoryPolicy::Remote, node), Ok(vec![1]));
    }

    #[test]
    fn nodes_of_memory_alone_have_no_cpus() {
        let machine = recorded(include_str!("topology/recorded/memory-only-nodes.txt"), "0-15,88-103");
        assert_eq!(machine.cpus.len(), 32);
        assert_eq!(machine.memory_nodes, [0, 8, 250, 251, 252, 253, 254, 255]);
        let mut used: Vec<usize> = machine.cpus.iter().map(|cpu| cpu.node).collect();
        used.dedup();
        assert_eq!(used, [0, 8]);
    }

    #[test]
    fn an_old_kernels_masks_are_read() {
        let machine = recorded(include_str!("topology/recorded/masks-of-an-old-kernel.txt"), "0-15");
        let core = |cpu| machine.cpus.iter().find(|of| of.cpu == cpu).map(|of| of.core);
        assert_eq!((core(8), core(0), core(2)), (Some(0), Some(0), None), "threads of core 0; CPU 2 is offline");
        assert_eq!(masked("00000001,80000000"), [31, 32]);
    }

    #[test]
    fn of_an_empty_tree_every_cpu_is_a_core() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(read(dir.path(), &[3, 5]), Topology::flat(&[3, 5]));
    }

    #[test]
    fn this_machine_has_the_cpus_that_may_be_used() {
        let cpus: Vec<usize> = this().expect("affinity").cpus.iter().map(|cpu| cpu.cpu).collect();
        assert_eq!(cpus, allowed_cpus().expect("affinity"));
    }

    #[test]
    fn lists_are_read_and_nonsense_left_out() {
        assert_eq!(listed("0-2,8, 10-11"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(listed("x,,4-99999999999,3-1"), Vec::<usize>::new());
    }
}
