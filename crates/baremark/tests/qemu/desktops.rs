//! Shipped studies of programs in emulated guests.

use crate::common::installed::has;
use crate::common::qemu::fetched;
use crate::common::shrunk::{FEW_USERS, SMALL_HEAP, all_positive, document, shrunk};
use serde_json::Value;
use std::path::Path;

/// A shipped study with these changes in an emulated guest of one vCPU; `None` where there is none here.
fn in_a_guest(study: &str, memory: &str, changes: &[(&str, &str)]) -> Option<Value> {
    let kernel = fetched();
    if !kernel.join("vmlinuz").exists() {
        eprintln!("skipped: study {study}: no kernel for guests; run scripts/fetch-kernel");
        return None;
    }
    let guest = [("environment", "\"qemu\""), ("ranks", "1"), ("memory", memory)];
    let text = shrunk(study, &[changes, &guest].concat());
    let emulated = format!("[environments.qemu]\nkernel = {kernel:?}\naccel = \"tcg\"");
    Some(document(&text.replace("[environments.qemu]", &emulated)))
}

/// The mechanics of desktop users in a guest: emulated, it says nothing of costs.
#[test]
fn desktop_users_run_in_a_guest() {
    let Some(document) = in_a_guest("sessions", "\"512 MiB\"", &FEW_USERS) else { return };
    assert!(document["flags"].to_string().contains("ceiling reached: at least 2 users keep the limit"), "{document:#}");
}

/// The same of what takes an emulated processor minutes: a Java machine and a compiler, which are this machine's own.
#[test]
#[ignore = "soak: runs Java and builds Apache httpd on an emulated processor"]
fn java_and_a_compiler_run_in_guests() {
    if has("study jvm-warehouse", &["java", "javac"]) {
        let small = [&SMALL_HEAP[..], &[("heap_pages", "\"4k\"")]].concat();
        let Some(document) = in_a_guest("jvm-warehouse", "\"1 GiB\"", &small) else { return };
        all_positive(&document, &["transactions_per_s"]);
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sources");
    let Ok(tarball) = sources.join("apache2.tar.gz").canonicalize() else {
        println!("skipped: study compile-apache: no source; scripts/fetch-sources gets it");
        return;
    };
    let Some(document) = in_a_guest("compile-apache", "\"4 GiB\"", &[("tarball", &format!("{tarball:?}"))]) else {
        return;
    };
    all_positive(&document, &["wall_s", "cpu_s"]);
}
