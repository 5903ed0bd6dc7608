//! Space, CPU time, and reserving the blocks of a file.
#![expect(unsafe_code, reason = "system calls that the standard library does not have")]

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
    let rc = unsafe { libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
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
