//! System calls of the runner itself, without libc.
//!
//! The threads of a program are made by `clone` and share the first thread's thread-local storage, so nothing that runs on
//! them may use libc's `errno`, its locks or its allocator. Results are the kernel's: negative error numbers.

use std::arch::asm;
use std::ffi::CStr;
use std::sync::atomic::AtomicU32;

/// A negative error number from the kernel, as a positive one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    /// The value that a system call returns for it.
    pub(crate) fn result(self) -> i64 {
        -i64::from(self.0)
    }
}

/// What a call returned, as a result.
pub(crate) fn checked(result: i64) -> Result<u64, Errno> {
    match i32::try_from(result) {
        Ok(error @ -4095..0) => Err(Errno(-error)),
        _ => Ok(result.cast_unsigned()),
    }
}

/// One system call by the kernel's convention.
///
/// # Safety
/// The caller answers for what the call does to this process.
pub(crate) unsafe fn raw(number: i64, [a, b, c, d, e, f]: [u64; 6]) -> i64 {
    let result;
    // SAFETY: the caller's promise; the registers are those of the convention, and RCX and R11 are lost.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// A descriptor as a register's value.
fn register(fd: i32) -> u64 {
    i64::from(fd).cast_unsigned()
}

/// A descriptor number in a register: the kernel looks at 32 bits.
pub(crate) fn descriptor(value: u64) -> i32 {
    (value as u32).cast_signed()
}

/// A result that is a descriptor or another small number.
fn small(result: u64) -> i32 {
    i32::try_from(result).unwrap_or(i32::MAX)
}

/// `ioctl` with a number as its argument.
pub(crate) fn ioctl(fd: i32, request: u64, argument: u64) -> Result<i32, Errno> {
    // SAFETY: used for KVM's requests on our own descriptors that take numbers, which touch no memory of ours.
    checked(unsafe { raw(libc::SYS_ioctl, [register(fd), request, argument, 0, 0, 0]) }).map(small)
}

/// `ioctl` that reads or writes `argument`.
///
/// # Safety
/// `T` is what `request` is defined for, with everything that it refers to.
pub(crate) unsafe fn ioctl_with<T>(fd: i32, request: u64, argument: *mut T) -> Result<i32, Errno> {
    let address = argument.expose_provenance() as u64;
    // SAFETY: the caller's promise.
    checked(unsafe { raw(libc::SYS_ioctl, [register(fd), request, address, 0, 0, 0]) }).map(small)
}

/// `openat` relative to the current directory.
pub(crate) fn open(path: &CStr, flags: i32) -> Result<i32, Errno> {
    open_at(libc::AT_FDCWD, path.as_ptr() as u64, flags)
}

/// `openat` of a path anywhere in memory: the kernel checks the address.
pub(crate) fn open_at(folder: i32, path: u64, flags: i32) -> Result<i32, Errno> {
    // SAFETY: the kernel reads a string and makes a descriptor.
    checked(unsafe { raw(libc::SYS_openat, [register(folder), path, register(flags), 0, 0, 0]) }).map(small)
}

/// `close`.
pub(crate) fn close(fd: i32) {
    // SAFETY: used for descriptors of our own, each once.
    unsafe { raw(libc::SYS_close, [register(fd), 0, 0, 0, 0, 0]) };
}

/// `fcntl` with a number as its argument.
pub(crate) fn fcntl(fd: i32, command: i32, argument: i32) -> Result<i32, Errno> {
    // SAFETY: used for commands on descriptors, which touch no memory.
    checked(unsafe { raw(libc::SYS_fcntl, [register(fd), register(command), register(argument), 0, 0, 0]) }).map(small)
}

/// `pread64` into `bytes`.
pub(crate) fn read_at(fd: i32, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let arguments = [register(fd), bytes.as_mut_ptr() as u64, bytes.len() as u64, offset, 0, 0];
    // SAFETY: the kernel writes at most as many bytes as the slice has.
    checked(unsafe { raw(libc::SYS_pread64, arguments) }).map(|read| usize::try_from(read).unwrap_or(0))
}

/// `write`, for messages; what cannot be written is lost.
pub(crate) fn write(fd: i32, bytes: &[u8]) {
    // SAFETY: the kernel reads the slice.
    unsafe { raw(libc::SYS_write, [register(fd), bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0]) };
}

/// Protection and sharing of a mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) protection: i32,
    pub(crate) flags: i32,
    pub(crate) fd: i32,
    pub(crate) offset: u64,
}

impl Mapping {
    /// Private memory of no file.
    pub(crate) const fn anonymous(protection: i32, flags: i32) -> Self {
        Mapping { protection, flags: flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, fd: -1, offset: 0 }
    }
}

/// `mmap`.
///
/// # Safety
/// With `MAP_FIXED` the caller answers for what was there.
pub(crate) unsafe fn map(at: u64, bytes: u64, mapping: Mapping) -> Result<u64, Errno> {
    let Mapping { protection, flags, fd, offset } = mapping;
    // SAFETY: the caller's promise.
    checked(unsafe { raw(libc::SYS_mmap, [at, bytes, register(protection), register(flags), register(fd), offset]) })
}

/// `munmap`.
///
/// # Safety
/// Nothing may refer to the range any more.
pub(crate) unsafe fn unmap(at: u64, bytes: u64) {
    // SAFETY: the caller's promise.
    unsafe { raw(libc::SYS_munmap, [at, bytes, 0, 0, 0, 0]) };
}

/// `mprotect`.
///
/// # Safety
/// The caller answers for whoever uses the range.
pub(crate) unsafe fn protect(at: u64, bytes: u64, protection: i32) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    checked(unsafe { raw(libc::SYS_mprotect, [at, bytes, register(protection), 0, 0, 0]) }).map(drop)
}

/// `madvise` by an advice that changes no content.
pub(crate) fn advise(at: u64, bytes: u64, advice: i32) -> Result<(), Errno> {
    // SAFETY: used with MADV_DONTFORK, MADV_NOHUGEPAGE, MADV_HUGEPAGE and MADV_POPULATE_WRITE, which leave content alone.
    checked(unsafe { raw(libc::SYS_madvise, [at, bytes, register(advice), 0, 0, 0]) }).map(drop)
}

/// Whether the page at `address` is mapped.
pub(crate) fn is_mapped(address: u64) -> bool {
    let mut present = 0u8;
    let arguments = [address & !4095, 1, (&raw mut present) as u64, 0, 0, 0];
    // SAFETY: mincore writes one byte, which is ours.
    unsafe { raw(libc::SYS_mincore, arguments) != -i64::from(libc::ENOMEM) }
}

/// How a signal mask is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MaskChange {
    /// These are blocked too.
    Block,
    /// These and no others are blocked.
    Set,
}

/// A signal's bit in a mask.
#[inline]
pub(crate) fn bit(signal: u32) -> u64 {
    1u64.checked_shl(signal.wrapping_sub(1)).unwrap_or(0)
}

/// All signals.
pub(crate) const ALL_SIGNALS: u64 = u64::MAX;

/// `rt_sigprocmask`; gives the mask before.
pub(crate) fn mask_signals(change: MaskChange, mask: u64) -> u64 {
    let how = match change {
        MaskChange::Block => libc::SIG_BLOCK,
        MaskChange::Set => libc::SIG_SETMASK,
    };
    let mut before = 0u64;
    let arguments = [register(how), (&raw const mask) as u64, (&raw mut before) as u64, 8, 0, 0];
    // SAFETY: both masks are ours and 8 bytes long.
    unsafe { raw(libc::SYS_rt_sigprocmask, arguments) };
    before
}

/// A signal's action as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) handler: u64,
    pub(crate) flags: u64,
    pub(crate) restorer: u64,
    pub(crate) mask: u64,
}

/// Sets the host's action for `signal`.
///
/// # Safety
/// The handler is the default, "ignore", or a function of the runner that may run at any moment.
pub(crate) unsafe fn set_action(signal: u32, action: &Action) -> Result<(), Errno> {
    let address = std::ptr::from_ref(action) as u64;
    // SAFETY: the kernel reads an action; what it does is the caller's promise.
    checked(unsafe { raw(libc::SYS_rt_sigaction, [signal.into(), address, 0, 8, 0, 0]) }).map(drop)
}

/// The host's action for `signal`.
pub(crate) fn action_of(signal: u32) -> Action {
    let mut action = Action::default();
    // SAFETY: the kernel writes an action.
    unsafe { raw(libc::SYS_rt_sigaction, [signal.into(), 0, (&raw mut action) as u64, 8, 0, 0]) };
    action
}

/// Sends `signal` to one thread of this process.
pub(crate) fn send_to_thread(thread: u32, signal: u32) -> Result<(), Errno> {
    let arguments = [process_id().into(), thread.into(), signal.into(), 0, 0, 0];
    // SAFETY: sending a signal touches no memory.
    checked(unsafe { raw(libc::SYS_tgkill, arguments) }).map(drop)
}

/// `getpid`.
pub(crate) fn process_id() -> u32 {
    // SAFETY: takes nothing.
    small(unsafe { raw(libc::SYS_getpid, [0; 6]) }.cast_unsigned()).cast_unsigned()
}

/// `gettid`.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: takes nothing.
    small(unsafe { raw(libc::SYS_gettid, [0; 6]) }.cast_unsigned()).cast_unsigned()
}

/// Ends all threads of this process.
pub(crate) fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: nothing of this process continues.
        unsafe { raw(libc::SYS_exit_group, [register(status), 0, 0, 0, 0, 0]) };
    }
}

/// Sleeps until `word` is no longer `value` and somebody wakes us, or for `limit_ms`.
pub(crate) fn wait_while(word: &AtomicU32, value: u32, limit_ms: Option<u64>) {
    let time = limit_ms.map(|ms| [ms / 1000, ms % 1000 * 1_000_000]);
    let time = time.as_ref().map_or(0, |time| time.as_ptr() as u64);
    let arguments = [word.as_ptr() as u64, register(libc::FUTEX_WAIT), value.into(), time, 0, 0];
    // SAFETY: the word lives through the call; it is compared and nothing is written.
    unsafe { raw(libc::SYS_futex, arguments) };
}

/// Wakes up to `count` threads that wait on `word`, in whatever process maps it.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    let arguments = [word.as_ptr() as u64, register(libc::FUTEX_WAKE), count.into(), 0, 0, 0];
    // SAFETY: only the word's address is used.
    unsafe { raw(libc::SYS_futex, arguments) };
}

/// CLOCK_MONOTONIC in nanoseconds, by a system call: the vDSO belongs to the program.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = [0u64; 2];
    let arguments = [register(libc::CLOCK_MONOTONIC), time.as_mut_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: the kernel writes two words.
    unsafe { raw(libc::SYS_clock_gettime, arguments) };
    time[0] * 1_000_000_000 + time[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_the_last_4095_values() {
        assert_eq!(checked(-1), Err(Errno(1)));
        assert_eq!(checked(-4095), Err(Errno(4095)));
        assert_eq!(checked(-4096), Ok((-4096i64).cast_unsigned()));
        assert_eq!(checked(7), Ok(7));
    }

    #[test]
    fn bits_are_those_of_the_kernels_masks() {
        assert_eq!((bit(1), bit(9), bit(64)), (1, 1 << 8, 1 << 63));
        assert_eq!((bit(0), bit(65)), (0, 0));
    }

    #[test]
    fn mapped_pages_are_told_from_others() {
        let here = 0u64;
        assert!(is_mapped((&raw const here) as u64));
        assert!(!is_mapped(0x1000));
        assert_eq!(open(c"/nonexistent", libc::O_RDONLY), Err(Errno(libc::ENOENT)));
    }
}
