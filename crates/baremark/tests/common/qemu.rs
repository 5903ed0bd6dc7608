//! Guests in QEMU, emulated whatever the machine has.

use super::bench::children;
use baremark_environments::qemu::{Accel, Settings};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where scripts/fetch-kernel puts it.
pub fn fetched() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernel")
}

pub fn emulated() -> Settings {
    Settings { accel: Accel::Tcg, boot_limit: Duration::from_secs(120), ..Settings::of_fetched(&fetched()) }
}

/// The emulators that this process has started, in words.
pub fn left() -> Vec<String> {
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let all = children(std::process::id());
    all.iter().filter(|pid| name(pid).starts_with("qemu")).map(|pid| format!("process {pid}")).collect()
}

/// The emulator that this process has started.
pub fn guest() -> Option<u32> {
    left().first()?.strip_prefix("process ")?.parse().ok()
}
