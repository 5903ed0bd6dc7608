//! What a machine lacks of a layout, before anything is made.

use super::arrangement::Layout;
use super::file_system::found;
use super::mapped;
use baremark_sys::confine::is_root;
use std::fs;
use std::path::Path;

/// Why this machine cannot make a layout; `None` where nothing is known to be missing.
#[must_use]
pub fn missing(layout: Layout) -> Option<String> {
    if layout == Layout::File {
        return None;
    }
    if !is_root() {
        return Some("loop devices and mounts need the superuser; run it as root".to_owned());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("this machine has no loop devices (/dev/loop-control); load the module loop".to_owned());
    }
    if layout.is_mapped() {
        let modules = if layout == Layout::ThinPool { mapped::POOL } else { mapped::RAID };
        return mapped::missing(Path::new("/"), modules);
    }
    let format = layout.format()?;
    let (program, _, package) = format.maker();
    if found(program).is_none() {
        return Some(format!("{program} was not found; install it: apt-get install {package}"));
    }
    let kind = format.kind();
    let known = |text: String| text.lines().any(|line| line.split_whitespace().last() == Some(kind));
    let modules = |text: String| Path::new("/lib/modules").join(text.trim()).is_dir();
    let built_in = fs::read_to_string("/proc/filesystems").is_ok_and(known);
    // A kernel with modules may have it and not have loaded it yet.
    let loadable = fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(modules);
    (!built_in && !loadable).then(|| format!("this kernel has no {kind}; use a kernel that has it"))
}
