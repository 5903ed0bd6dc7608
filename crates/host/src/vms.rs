//! Whether a virtual machine runs on this host.

use std::fs;

/// The processes that hold a KVM virtual machine, this one apart, each as its number.
#[must_use]
pub fn running() -> Vec<u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(|pid| *pid != own && holds_machine(*pid)).collect()
}

fn holds_machine(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|to| to.as_os_str() == "anon_inode:kvm-vm")
}
