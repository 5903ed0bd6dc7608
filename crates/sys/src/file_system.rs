//! The file system that a folder is on: free space, and whether it is in memory; and the page cache of a file.

use crate::calls::checked;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What `statfs(2)` says of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Bytes that an ordinary user may still write.
    pub free_bytes: u64,
    /// It is tmpfs or ramfs: nothing there is ever on a disk.
    pub in_memory: bool,
}

const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;

impl FileSystem {
    /// Of an existing file or folder.
    ///
    /// # Errors
    /// What statfs(2) gives.
    pub fn of(path: &Path) -> io::Result<FileSystem> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut stat = std::mem::MaybeUninit::<libc::statfs>::zeroed();
        // SAFETY: the path ends in zero and both live through the call.
        checked(unsafe { libc::statfs(path.as_ptr(), stat.as_mut_ptr()) })?;
        // SAFETY: zeros are a valid statfs, and the call has filled it.
        let stat = unsafe { stat.assume_init() };
        let block = u64::try_from(stat.f_bsize).unwrap_or(0);
        Ok(FileSystem {
            free_bytes: stat.f_bavail.saturating_mul(block),
            in_memory: [TMPFS, RAMFS].contains(&stat.f_type),
        })
    }
}

/// Writes to its disk what is new on the file system that a file or folder is on.
///
/// # Errors
/// What opening it or `syncfs(2)` gives.
pub fn sync(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: takes the descriptor of `file`, which lives through the call; touches no memory.
    checked(unsafe { libc::syncfs(file.as_raw_fd()) }).map(drop)
}

/// Writes what is new in a file to its disk and drops its pages from the page cache, but those that are mapped by a process or locked.
///
/// # Errors
/// What opening it, `fsync(2)` or `posix_fadvise(2)` gives.
pub fn drop_cache(path: &Path) -> io::Result<()> {
    drop_cache_of(&File::open(path)?)
}

/// The same of an open file or block device.
///
/// # Errors
/// What `fsync(2)` or `posix_fadvise(2)` gives.
pub fn drop_cache_of(file: &File) -> io::Result<()> {
    file.sync_all()?;
    // SAFETY: takes numbers and the descriptor of `file`, which lives through the call; touches no memory.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That its pages are gone then is seen in tests/kernel: what is in the page cache is the kernel's own business.
    #[test]
    fn a_file_whose_cache_is_dropped_keeps_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; 1 << 20]).expect("it is written");
        drop_cache(&path).expect("it is dropped");
        assert!(std::fs::read(&path).expect("it is there") == vec![1; 1 << 20]);
        assert_eq!(drop_cache(&folder.path().join("other")).expect_err("no such file").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn proc_has_no_room_and_a_missing_folder_is_an_error() {
        let proc = FileSystem::of(Path::new("/proc")).expect("it is mounted");
        assert_eq!(proc, FileSystem { free_bytes: 0, in_memory: false });
        assert!(FileSystem::of(&std::env::temp_dir()).expect("it is there").free_bytes > 0);
        assert!(FileSystem::of(Path::new("/nowhere/at/all")).is_err());
    }
}
