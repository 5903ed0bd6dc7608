//! What the kernel does in the background.

use super::tree::Tree;
use baremark_model::machine::BackgroundFacts;

/// Orders from here on are what the kernel's parameter holds while nobody listens.
const NO_ORDER: u64 = 64;

pub fn facts(tree: &Tree) -> BackgroundFacts {
    let on = |path: &str| tree.number(path).map(|value| value > 0);
    let khugepaged = |name: &str| tree.number(&format!("sys/kernel/mm/transparent_hugepage/khugepaged/{name}"));
    let order = tree.number("sys/module/page_reporting/parameters/page_reporting_order");
    BackgroundFacts {
        // 1 merges, 0 has stopped, 2 takes apart what was merged.
        ksm: tree.number("sys/kernel/mm/ksm/run").map(|run| run == 1),
        khugepaged_sleep_ms: khugepaged("scan_sleep_millisecs"),
        khugepaged_pages: khugepaged("pages_to_scan"),
        kdamonds: kdamonds(tree),
        page_reporting_order: order.filter(|&order| order < NO_ORDER),
        numa_balancing: on("proc/sys/kernel/numa_balancing"),
        nmi_watchdog: on("proc/sys/kernel/nmi_watchdog"),
        soft_watchdog: on("proc/sys/kernel/soft_watchdog"),
    }
}

/// The threads named kdamond; `None` where no process can be seen at all.
fn kdamonds(tree: &Tree) -> Option<u64> {
    let names: Vec<String> = tree
        .numbered("proc", "")
        .into_iter()
        .filter_map(|process| tree.text(&format!("proc/{process}/comm")))
        .collect();
    let found = names.iter().filter(|name| name.starts_with("kdamond")).count() as u64;
    (!names.is_empty()).then_some(found)
}
