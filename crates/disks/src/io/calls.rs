//! Space, CPU time, and reserving the blocks of a file.
#![expect(unsafe_code, reason = "system calls that the standard library does not have")]

use baremark_sys::calls::checked;
use baremark_sys::file_system::drop_cache_of;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

/// Bytes that an unprivileged writer can still put on the file system that holds `file`.
///
/// # Errors
/// What `fstatvfs(3)` gives.
pub(crate) fn free_bytes(file: &File) -> io::Result<u64> {
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open and `found` has room for one statvfs.
    checked(unsafe { libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) })?;
    // SAFETY: filled by the call, which succeeded.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Reserves the blocks of a file of `bytes`, so that a full disk shows now.
///
/// # Errors
/// What `posix_fallocate(3)` gives, such as no space.
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
    // SAFETY: takes a descriptor, which is open, and numbers.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// User and system CPU time of this process in ns, all its threads and the kernel's io_uring workers included.
pub(crate) fn process_cpu_ns() -> u64 {
    let mut found = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `found` has room for one rusage.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, found.as_mut_ptr()) };
    // SAFETY: zeroed, which is a valid rusage, then filled.
    let found = unsafe { found.assume_init() };
    let ns = |time: libc::timeval| {
        let (seconds, micros) = (time.tv_sec.cast_unsigned(), time.tv_usec.cast_unsigned());
        seconds * 1_000_000_000 + micros * 1000
    };
    ns(found.ru_utime) + ns(found.ru_stime)
}

/// The size of a block device in bytes.
///
/// # Errors
/// What `ioctl(2)` gives.
pub(crate) fn device_bytes(file: &File) -> io::Result<u64> {
    /// `BLKGETSIZE64`: `_IOR(0x12, 114, size_t)`.
    const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
    let mut bytes = 0_u64;
    // SAFETY: the descriptor is open, and the request writes one u64.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64 as _, &raw mut bytes) };
    if rc == 0 { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}

/// Bytes that are asked about at once.
const PIECE: usize = 1 << 30;

/// Writes to the disk what the page cache holds of the first `bytes` of a file or device, and drops it. Returns the bytes that stay in memory:
/// of a file system that has no disk, or pages that another program has mapped.
///
/// # Errors
/// What [`drop_cache_of`], `mmap(2)` or `mincore(2)` give.
pub(crate) fn drop_cached(file: &File, bytes: u64) -> io::Result<u64> {
    drop_cache_of(file)?;
    let mut cached = 0;
    for from in (0..bytes).step_by(PIECE) {
        cached += cached_bytes(file, from, (PIECE as u64).min(bytes - from))?;
    }
    Ok(cached)
}

fn cached_bytes(file: &File, from: u64, length: u64) -> io::Result<u64> {
    let bytes = usize::try_from(length).unwrap_or(usize::MAX);
    let offset = libc::off_t::try_from(from).unwrap_or(libc::off_t::MAX);
    // SAFETY: a new mapping at an address that the kernel chooses; nothing reads through it.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), offset)
    };
    if at == libc::MAP_FAILED {
        let why = io::Error::last_os_error();
        // What cannot be mapped has no page cache.
        return if why.raw_os_error() == Some(libc::ENODEV) { Ok(0) } else { Err(why) };
    }
    // SAFETY: asks for a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let mut pages = vec![0_u8; bytes.div_ceil(page)];
    // SAFETY: the range is mapped, and `pages` has a byte for each of its pages.
    let asked = checked(unsafe { libc::mincore(at, bytes, pages.as_mut_ptr()) });
    // SAFETY: the mapping made above, of which nothing is held.
    unsafe { libc::munmap(at, bytes) };
    asked?;
    let resident = pages.iter().filter(|page| **page & 1 == 1).count();
    Ok(((resident * page) as u64).min(length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;
    use std::os::unix::fs::FileExt;

    /// A file in memory has no disk from which it could be read back.
    #[test]
    fn what_stays_in_memory_is_counted() {
        // SAFETY: a name that ends with a zero byte, and no flags.
        let fd = unsafe { libc::memfd_create(c"target".as_ptr(), 0) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: just made, and owned by nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(8 << 20).expect("room");
        file.write_all_at(&vec![1; 3 << 20], 1 << 20).expect("written");
        assert_eq!(drop_cached(&file, 8 << 20).expect("asked"), 3 << 20);
        assert_eq!(drop_cached(&file, 2 << 20).expect("asked"), 1 << 20);
    }
}
