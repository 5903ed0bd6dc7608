//! What a machine lacks, where it can be taken away.

use crate::common::bench::{Bench, SMALL, root, text};
use crate::common::outcome::{counts, rows, sound};
use serde_json::Value;
use std::process::Command;

#[test]
fn without_kvm_the_rest_runs_and_the_reason_is_told() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    let study = SMALL.replace("[\"native\", \"null\"]", "[\"native\", \"microvm\"]");
    let path = bench.write("small.toml", study);
    let script = "mount --bind /dev/null /dev/kvm && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_baremark"), "--json", "--store"])
        .arg(bench.store())
        .args(["run", "--quick"])
        .arg(&path)
        .output()
        .unwrap();
    let said = text(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    sound(&document);
    let absent = &document["absent"][0];
    assert_eq!(absent["treatment"]["environment"], "microvm");
    assert!(absent["reason"].as_str().unwrap().contains("KVM"), "{absent}");
    let native = |rows: &[Value]| rows.iter().all(|row| row["treatment"]["environment"] == "native");
    assert!(native(rows(&document, "estimates")), "{document:#}");
    let measured = rows(&document, "trials").iter().any(counts);
    assert_eq!((output.status.success(), measured), (measured, !rows(&document, "estimates").is_empty()), "{said}");
}
