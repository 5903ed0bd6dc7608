//! Privileged parts of the kernel: access control lists, eBPF, control groups, mounts, the page cache; and programs that are suspended.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::allow_attributes,
    unsafe_code,
    missing_docs,
    reason = "a test crate"
)]

mod acl;
mod bpf;
mod control_groups;
mod family;
mod mounts;
mod page_cache;
mod suspended;

/// Whether this is the superuser; else the test is skipped, which is printed.
fn is_root() -> bool {
    let root = baremark_sys::confine::is_root();
    if !root {
        println!("skipped: not the superuser");
    }
    root
}
