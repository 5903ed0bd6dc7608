//! Memory by NUMA nodes, in a guest that has several of them whatever this machine has.

use crate::bench::Bench;
use crate::guests::usable_study;
use crate::trials::{self, accounted};
use serde_json::Value;

const WORK: &str = "[workload]\nkind = \"random-access\"\ntable = \"16 MiB\"";
const FACTORS: &str =
    "environment = \"qemu\"\nmemory = [\"local\", \"remote\", \"interleave\"]\nranks = 2\npage = \"4k\"";
const GUEST: &str = "vcpus = 2\nmemory = \"512 MiB\"\nguest_numa = \"exposed\"\nguest_nodes = 2\nfresh = \"run\"\nstart_limit = \"2 min\"";
const DESIGN: &str = "least_blocks = 2\nmost_blocks = 2\nphase = \"50 ms\"\nquads = 1";

/// Where the pages of a trial lay: those near their ranks, and those of each node, of all.
fn lay(trial: &Value) -> (f64, [f64; 2]) {
    let placed = &trial["arms"][0]["placed"];
    let nodes = placed["pages_by_node"].as_array().unwrap();
    assert_eq!(nodes.iter().map(|of| of["node"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1], "{trial:#}");
    let pages = [0, 1].map(|node: usize| nodes[node]["pages"].as_f64().unwrap());
    let all = pages[0] + pages[1];
    assert!(all > 0.0);
    (placed["pages_local"].as_f64().unwrap() / all, pages.map(|pages| pages / all))
}

/// A rate of the guest's own counts while an arm of one policy ran.
fn rate(document: &Value, policy: &str, quantity: &str) -> f64 {
    let all = document["observed"]["rows"].as_array().unwrap().iter();
    let mut own = all.filter(|row| {
        row["treatment"]["memory"] == policy
            && row["place"] == "qemu"
            && row["quantity"] == quantity
            && row["instance"] == ""
    });
    own.next().unwrap_or_else(|| panic!("{policy}, {quantity}: {document:#}"))["value"].as_f64().unwrap()
}

#[test]
fn memory_comes_to_lie_on_the_nodes_that_are_asked_for() {
    let bench = Bench::new();
    let Some(study) = usable_study(&bench, WORK, FACTORS, GUEST, DESIGN) else { return };
    let document = bench.json(&["run", &study, "--json"]);
    let all = trials::of(&document, "qemu");
    assert!(accounted(&all, 6) > 0, "{document:#}");
    for trial in all.into_iter().filter(|trial| trial["status"] == "ok") {
        let (near, nodes) = lay(trial);
        let expected = match trial["arms"][0]["treatment"]["memory"].as_str().unwrap() {
            "local" => 1.0,
            "remote" => 0.0,
            _ => 0.5,
        };
        assert!((near - expected).abs() < 0.01, "{trial:#}");
        // Each of two ranks has half of the table.
        assert!(nodes.iter().all(|share| (share - 0.5).abs() < 0.01), "{trial:#}");
    }
    // The guest's kernel counts the same: what was allocated by a task of the node itself, of another one, in turn.
    let of = |policy: &str| {
        ["numa.local_node", "numa.other_node", "numa.interleave_hit"].map(|key| rate(&document, policy, key))
    };
    let ([near, far, still], [by, beside, _], [_, _, turns]) = (of("local"), of("remote"), of("interleave"));
    // Rates of an emulated guest are as high as this machine lets it run: they are held against each other.
    assert!(near > 10.0 * far && beside > 10.0 * by, "{near} {far}, {by} {beside}");
    assert!(turns > 10.0 * still && turns > 0.0, "{turns} in turn, {still} where none is asked to be");
}
