//! What of a file the kernel keeps in memory.

use baremark_sys::file_system::{FileSystem, drop_cache};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The pages of a file in the page cache, by cachestat(2) of Linux 6.5; `None` where that is missing.
fn cached(path: &Path) -> Option<u64> {
    const SYS_CACHESTAT: libc::c_long = 451;
    let file = File::open(path).unwrap();
    let (range, mut counts) = ([0_u64; 2], [0_u64; 5]);
    // SAFETY: both arrays have the layout of cachestat's structures and live through the call.
    let done = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0_u32) };
    (done == 0).then_some(counts[0])
}

#[test]
fn the_cache_of_a_file_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    if FileSystem::of(&path).unwrap().in_memory {
        return println!("skipped: TMPDIR is in memory");
    }
    match cached(&path) {
        None => println!("skipped: this kernel has no cachestat(2)"),
        // Layers of file systems count where they keep the pages, which is not here.
        Some(before) if before < 256 => println!("skipped: {before} of 256 pages of the file are counted here"),
        Some(_) => {
            drop_cache(&path).unwrap();
            assert_eq!(cached(&path), Some(0));
        }
    }
}
