//! A server in a guest.

use crate::common::before_work::{apart, one, starts_and_answers};
use crate::common::qemu;
use crate::common::tiers::have;
use std::path::PathBuf;

/// The kernel of guests, where QEMU can boot one.
fn guest_kernel() -> Option<PathBuf> {
    let kernel = qemu::fetched().join("vmlinuz");
    if !have(&["qemu-system-x86_64"]) {
        return None;
    }
    if !kernel.exists() {
        eprintln!("skipped: no kernel for guests; run scripts/fetch-kernel");
        return None;
    }
    Some(kernel)
}

#[test]
fn a_server_in_a_guest_boots_answers_itself_and_is_weighed_with_what_qemu_takes() {
    let Some(kernel) = guest_kernel() else { return };
    let guest = format!("server_environment = \"qemu\"\naccel = \"tcg\"\nkernel = \"{}\"\n", kernel.display());
    if let Some(document) = apart("start-up", &guest) {
        starts_and_answers(&document);
        assert!(document["flags"].to_string().contains("emulated (TCG)"), "{}", document["flags"]);
    }
    let density = format!("{guest}max = 1\nload = \"light\"\nlimit = \"1 min\"\n");
    let Some(document) = apart("density", &density) else { return };
    let [memory, overhead] = ["memory_mib", "overhead_mib"].map(|metric| one(&document, metric));
    assert!(20.0 < overhead && overhead + 20.0 < memory && memory < 600.0, "{overhead} of {memory} MiB");
    assert!(one(&document, "latency_p99_ms") > 0.0);
}
