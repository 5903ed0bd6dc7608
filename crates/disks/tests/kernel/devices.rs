//! Small layouts, and what is left of them.

use baremark_disks::layout::{Arrangement, LEAST_DEVICE, Layout, missing};
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub static NEVER: AtomicBool = AtomicBool::new(false);

/// Two LUNs that take little of six devices.
pub fn small(layout: Layout) -> Arrangement {
    Arrangement { layout, luns: 2, devices: 6, device_bytes: LEAST_DEVICE, allocated: 0.02, span: u64::MAX }
}

/// Where direct I/O is possible, which it is not everywhere that temporary files are.
pub fn folder() -> TempDir {
    TempDir::new_in("/var/tmp").unwrap()
}

/// Loop devices over files of a folder.
pub fn devices_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let blocks = fs::read_dir("/sys/block").unwrap().flatten();
    let backing = blocks.filter_map(|block| fs::read_to_string(block.path().join("loop/backing_file")).ok());
    backing.filter(|backing| backing.starts_with(folder)).collect()
}

/// The kernel lets go of devices soon after their last user, whose queues it closes by itself.
pub fn wait_until_gone(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !devices_of(folder).is_empty() {
        assert!(Instant::now() < deadline, "devices are left: {:?}", devices_of(folder));
        std::thread::yield_now();
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

pub fn can_be_made(layout: Layout) -> bool {
    let why = missing(layout);
    if let Some(why) = &why {
        println!("skipped: layout {layout:?}: {why}");
    }
    why.is_none()
}
