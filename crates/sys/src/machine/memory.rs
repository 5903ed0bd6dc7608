//! Memory, NUMA nodes and huge pages.

use super::tree::Tree;
use crate::process::kib_field;
use baremark_model::machine::{MemoryFacts, NodeFacts, PoolFacts};

const NODES: &str = "sys/devices/system/node";
const THP: &str = "sys/kernel/mm/transparent_hugepage";
const POOLS: &str = "sys/kernel/mm/hugepages";

pub fn facts(tree: &Tree) -> MemoryFacts {
    let meminfo = tree.text("proc/meminfo").unwrap_or_default();
    MemoryFacts {
        total_bytes: kib_field(&meminfo, "MemTotal"),
        available_bytes: kib_field(&meminfo, "MemAvailable"),
        swap_bytes: kib_field(&meminfo, "SwapTotal"),
        nodes: tree.numbered(NODES, "node").into_iter().map(|node| self::node(tree, node)).collect(),
        thp_enabled: tree.chosen(&format!("{THP}/enabled")),
        thp_defrag: tree.chosen(&format!("{THP}/defrag")),
        hugetlb: tree.names(POOLS).iter().filter_map(|name| pool(tree, name)).collect(),
    }
}

fn node(tree: &Tree, node: u64) -> NodeFacts {
    let file = |name: &str| tree.text(&format!("{NODES}/node{node}/{name}"));
    let total = file("meminfo").and_then(|text| {
        // "Node 0 MemTotal:       24684084 kB"
        kib_field(&text.replace(&format!("Node {node} "), ""), "MemTotal")
    });
    let distances = file("distance").unwrap_or_default();
    NodeFacts {
        node,
        cpus: file("cpulist").unwrap_or_default(),
        total_bytes: total,
        distances: distances.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect(),
    }
}

/// A pool by the name of its directory, such as `hugepages-2048kB`.
fn pool(tree: &Tree, name: &str) -> Option<PoolFacts> {
    let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    Some(PoolFacts {
        page_bytes: kib.checked_mul(1024)?,
        pages: tree.number(&format!("{POOLS}/{name}/nr_hugepages"))?,
        free_pages: tree.number(&format!("{POOLS}/{name}/free_hugepages"))?,
    })
}
