//! Which system calls the polling thread carries out for the program's threads, and how.
//!
//! A call is carried out here only if it has the same effect whichever thread of the process makes it, and waits for nobody: numbers of the
//! process and its user, clocks that are not a thread's, files and folders of local file systems. Everything else is left to the program's
//! own thread, which also finds what needs a closer look there: the runner's descriptors, `/proc`, terminals, pipes, sockets.
//!
//! A call that is refused after it was tried has had no effect: a write at the limit of a file's size (EFBIG, with a signal to the thread
//! that calls) is made again by the thread to which the signal belongs.

use crate::runner::descriptors::DESCRIPTORS;
use crate::runner::mailbox::Calls;
use crate::runner::signatures;
use crate::runner::sys;
use crate::runner::thread::Process;
use crate::runner::user;
use std::mem::MaybeUninit;

/// The most bytes of one transfer: a longer one keeps others waiting, and an exit does not matter to it.
const MOST_BYTES: u64 = 256 << 10;
/// The most parts of one transfer.
const MOST_PARTS: u64 = 16;
/// Bytes of a path that are looked at; a longer one is left alone.
const PATH: usize = 256;
/// `/proc` has a folder that depends on the thread.
const OF_THREAD: &[u8] = b"thread-self";

/// Flags with which a missing file is reported as missing, and an existing one is opened here.
const PLAIN: u64 = (libc::O_ACCMODE | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_DIRECTORY) as u64;
const OPENING: u64 = PLAIN | (libc::O_APPEND | libc::O_TRUNC) as u64 | LARGE_FILE;
/// `O_LARGEFILE`, which libc has as 0.
const LARGE_FILE: u64 = 0o100_000;

/// Local file systems: their files answer without waiting for another process or machine.
const LOCAL: [u64; 9] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0xf2f5_2010, // F2FS
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // EROFS
];

/// Calls about the process, without an effect.
const OF_PROCESS: [i64; 13] = [
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpgrp,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_getcwd,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_fstat,
    libc::SYS_lseek,
];
const CLOCKS: [i64; 2] = [libc::SYS_clock_gettime, libc::SYS_clock_getres];
/// Transfers between memory and one file.
const TRANSFERS: [i64; 8] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_preadv,
    libc::SYS_pwritev,
];
/// Other calls whose first argument is a descriptor.
const OF_DESCRIPTORS: [i64; 4] = [libc::SYS_close, libc::SYS_fcntl, libc::SYS_ioctl, libc::SYS_getdents64];
/// Calls that look a path up: in their first argument, or in their second one.
const OF_PATHS: [i64; 9] = [
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
];
const OPENS: [i64; 2] = [libc::SYS_open, libc::SYS_openat];

/// What a descriptor or a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A regular file of a local file system.
    File,
    /// A folder of one.
    Folder,
    /// Anything else.
    Other,
}

/// The calls that are answered here, as bits by number.
pub(crate) const fn list() -> Calls {
    let lists: [&[i64]; 6] = [&OF_PROCESS, &CLOCKS, &TRANSFERS, &OF_DESCRIPTORS, &OF_PATHS, &OPENS];
    let mut words: Calls = [0; size_of::<Calls>() / 8];
    let (mut of, mut at) = (0, 0);
    while of < lists.len() {
        if at == lists[of].len() {
            (of, at) = (of + 1, 0);
            continue;
        }
        let number = lists[of][at] as usize;
        words[number / 64] |= 1 << (number % 64);
        at += 1;
    }
    words
}

/// Whether a call may be answered here.
pub(crate) fn is_listed(number: u64) -> bool {
    const LIST: Calls = list();
    LIST.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 != 0)
}

/// Carries out a call of `process`; `None` where its own thread must.
pub(crate) fn answer(process: &Process, number: u64, arguments: &[u64; 6]) -> Option<i64> {
    let call = number.cast_signed();
    let [a, b, c, d, ..] = *arguments;
    // What names a descriptor of the runner's is answered by the thread itself.
    if signatures::signature(call).is_none_or(|signature| signatures::names(&DESCRIPTORS, signature, arguments)) {
        return None;
    }
    let possible = match call {
        libc::SYS_fstat | libc::SYS_lseek => call == libc::SYS_fstat || c <= libc::SEEK_END as u64,
        _ if OF_PROCESS.contains(&call) => true,
        _ if CLOCKS.contains(&call) => is_common_clock(a),
        libc::SYS_readv | libc::SYS_writev | libc::SYS_preadv | libc::SYS_pwritev => {
            c <= MOST_PARTS && kind_of(a) == Kind::File
        }
        _ if TRANSFERS.contains(&call) => c <= MOST_BYTES && kind_of(a) == Kind::File,
        libc::SYS_close => kind_of(a) != Kind::Other,
        libc::SYS_getdents64 => kind_of(a) == Kind::Folder,
        libc::SYS_ioctl => b == libc::TCGETS && kind_of(a) == Kind::File,
        libc::SYS_fcntl => [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL].iter().any(|of| b == *of as u64),
        libc::SYS_open => return open(process, AT_CURRENT, a, [b, c]),
        libc::SYS_openat => return open(process, a, b, [c, d]),
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => is_plain_path(process, a),
        _ if OF_PATHS.contains(&call) => is_plain_path(process, b),
        _ => false,
    };
    if !possible {
        return None;
    }
    // SAFETY: the program makes this call, with its own memory and its own rights; what would touch the runner is left out above.
    let result = unsafe { sys::raw(call, *arguments) };
    match i32::try_from(-result) {
        Ok(libc::EFBIG) => {
            forget_signal(libc::SIGXFSZ);
            None
        }
        // Nothing here should wait; whatever does is the thread's own.
        Ok(libc::EINTR | libc::EAGAIN) => None,
        _ => Some(result),
    }
}

const AT_CURRENT: u64 = libc::AT_FDCWD as u64;

/// `open`, `openat`: of a file or folder that is there, or of nothing.
fn open(process: &Process, folder: u64, path: u64, [flags, mode]: [u64; 2]) -> Option<i64> {
    let text = &mut [0; PATH];
    let text = read_path(process, path, text)?;
    let is_simple = folder as u32 == AT_CURRENT as u32 || text.starts_with(b"/");
    if flags & !OPENING != 0 || !is_simple {
        return None;
    }
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel reads a text of the program's and writes the structure, which is plain numbers and was zeroed.
    let (found, status) = unsafe {
        let found = sys::raw(libc::SYS_newfstatat, [AT_CURRENT, path, status.as_mut_ptr() as u64, 0, 0, 0]);
        (found, status.assume_init())
    };
    if found == -i64::from(libc::ENOENT) && flags & !PLAIN & !LARGE_FILE == 0 {
        return Some(found);
    }
    let mut system = [0u64; SYSTEM_WORDS];
    // SAFETY: the kernel reads a text of the program's and writes the structure.
    let known = unsafe { sys::raw(libc::SYS_statfs, [path, system.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    let writes_folder = |kind: Kind| kind == Kind::Folder && flags & libc::O_ACCMODE as u64 != 0;
    let kind = kind(status.st_mode, system[0]);
    if found != 0 || known != 0 || kind == Kind::Other || writes_folder(kind) {
        return None;
    }
    // SAFETY: the program makes this call, of a file of its own.
    let fd = unsafe { sys::raw(libc::SYS_openat, [AT_CURRENT, path, flags, mode, 0, 0]) };
    if fd >= 0 && fd.cast_unsigned() >= DESCRIPTORS.end_of_program() {
        sys::close(fd as i32);
        return Some(-i64::from(libc::EMFILE));
    }
    Some(fd)
}

/// Whether the text at `path` is a path that means the same for each thread, and not one of the runner's.
fn is_plain_path(process: &Process, path: u64) -> bool {
    read_path(process, path, &mut [0; PATH]).is_some()
}

/// The text at `path`; `None` where it is none, is long, or leads into `/proc` or to descriptors.
fn read_path<'a>(process: &Process, path: u64, room: &'a mut [u8; PATH]) -> Option<&'a [u8]> {
    let read = user::read_some(process, path, room);
    let end = room[..read].iter().position(|byte| *byte == 0)?;
    let text = &room[..end];
    let is_special = text.starts_with(b"/proc")
        || text.starts_with(b"/dev/fd")
        || text.windows(OF_THREAD.len()).any(|part| part == OF_THREAD);
    (!is_special).then_some(text)
}

/// Clocks that do not measure a process or a thread.
fn is_common_clock(clock: u64) -> bool {
    let common = [
        libc::CLOCK_REALTIME,
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_MONOTONIC_RAW,
        libc::CLOCK_REALTIME_COARSE,
        libc::CLOCK_MONOTONIC_COARSE,
        libc::CLOCK_BOOTTIME,
        libc::CLOCK_TAI,
    ];
    common.iter().any(|of| clock == *of as u64)
}

/// Words of `struct statfs`, whose first is the file system's kind.
const SYSTEM_WORDS: usize = 15;

fn kind_of(fd: u64) -> Kind {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    let mut system = [0u64; SYSTEM_WORDS];
    // SAFETY: the kernel writes both structures, which are plain numbers.
    unsafe {
        if sys::raw(libc::SYS_fstat, [fd, status.as_mut_ptr() as u64, 0, 0, 0, 0]) != 0
            || sys::raw(libc::SYS_fstatfs, [fd, system.as_mut_ptr() as u64, 0, 0, 0, 0]) != 0
        {
            return Kind::Other;
        }
        kind(status.assume_init().st_mode, system[0])
    }
}

fn kind(mode: u32, system: u64) -> Kind {
    match mode & libc::S_IFMT {
        _ if !LOCAL.contains(&system) => Kind::Other,
        libc::S_IFREG => Kind::File,
        libc::S_IFDIR => Kind::Folder,
        _ => Kind::Other,
    }
}

/// Takes a signal away that was sent to the calling thread, which blocks it.
fn forget_signal(signal: i32) {
    let mask = 1u64 << (signal - 1);
    let no_time = [0u64; 2];
    let arguments = [(&raw const mask) as u64, 0, no_time.as_ptr() as u64, 8, 0, 0];
    // SAFETY: the kernel reads a mask and a time.
    unsafe { sys::raw(libc::SYS_rt_sigtimedwait, arguments) };
}

/// Whether a call changes what the polling thread has for itself, or what its processor time counts for: rights, limits and timers of
/// processor time, tables that threads of a process share unless they ask for their own. Afterwards it could not act for the others.
pub(crate) fn ends_polling(number: u64, arguments: &[u64; 6]) -> bool {
    const LANDLOCK_RESTRICT_SELF: i64 = 446;
    const FILES_AND_FOLDERS: u64 = (libc::CLONE_FILES | libc::CLONE_FS) as u64;
    const THREAD: u64 = libc::CLONE_THREAD as u64;
    let [a, b, c, ..] = *arguments;
    match number.cast_signed() {
        libc::SYS_unshare
        | libc::SYS_setns
        | libc::SYS_setuid
        | libc::SYS_setgid
        | libc::SYS_setreuid
        | libc::SYS_setregid
        | libc::SYS_setresuid
        | libc::SYS_setresgid
        | libc::SYS_setfsuid
        | libc::SYS_setfsgid
        | libc::SYS_setgroups
        | libc::SYS_capset
        | libc::SYS_keyctl
        | libc::SYS_set_mempolicy
        | LANDLOCK_RESTRICT_SELF => true,
        libc::SYS_personality => a as u32 != u32::MAX,
        libc::SYS_prctl => {
            let own = [
                libc::PR_SET_KEEPCAPS,
                libc::PR_CAPBSET_DROP,
                libc::PR_SET_SECUREBITS,
                libc::PR_SET_NO_NEW_PRIVS,
                libc::PR_CAP_AMBIENT,
                libc::PR_SET_TIMERSLACK,
            ];
            own.iter().any(|of| a == *of as u64)
        }
        libc::SYS_clone => a & THREAD != 0 && a & FILES_AND_FOLDERS != FILES_AND_FOLDERS,
        libc::SYS_setrlimit => a == u64::from(libc::RLIMIT_CPU),
        libc::SYS_prlimit64 => b == u64::from(libc::RLIMIT_CPU) && c != 0,
        libc::SYS_setitimer => a != libc::ITIMER_REAL as u64,
        libc::SYS_timer_create => !is_common_clock(a),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;
    use std::sync::atomic::Ordering;

    fn process() -> Process {
        let process = Process::new();
        process.pid.store(std::process::id(), Ordering::Relaxed);
        process
    }

    fn made(call: i64, arguments: &[u64]) -> Option<i64> {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        assert!(is_listed(call.cast_unsigned()), "{call} is answered nowhere");
        answer(&process(), call.cast_unsigned(), &all)
    }

    #[test]
    fn calls_about_threads_memory_and_waiting_are_not_listed() {
        let never = [
            libc::SYS_gettid,
            libc::SYS_futex,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigaction,
            libc::SYS_set_tid_address,
            libc::SYS_set_robust_list,
            libc::SYS_sched_yield,
            libc::SYS_sched_setaffinity,
            libc::SYS_clone,
            libc::SYS_execve,
            libc::SYS_exit,
            libc::SYS_exit_group,
            libc::SYS_mmap,
            libc::SYS_munmap,
            libc::SYS_mprotect,
            libc::SYS_brk,
            libc::SYS_poll,
            libc::SYS_nanosleep,
            libc::SYS_wait4,
            libc::SYS_kill,
            libc::SYS_dup2,
            libc::SYS_close_range,
            libc::SYS_prctl,
            libc::SYS_getrusage,
        ];
        let listed: Vec<i64> = never.into_iter().filter(|call| is_listed(call.cast_unsigned())).collect();
        assert_eq!(listed, [0; 0]);
        assert!(!is_listed(512) && !is_listed(u64::MAX));
    }

    #[test]
    fn files_are_read_and_written_and_pipes_are_left_alone() {
        let mut file = tempfile::tempfile().expect("a file");
        let fd = file.as_raw_fd() as u64;
        let text = b"twelve bytes";
        assert_eq!(made(libc::SYS_write, &[fd, text.as_ptr() as u64, 12]), Some(12));
        assert_eq!(made(libc::SYS_lseek, &[fd, 0, 0]), Some(0));
        let mut read = [0u8; 12];
        assert_eq!(made(libc::SYS_read, &[fd, read.as_mut_ptr() as u64, 12]), Some(12));
        assert_eq!(&read, text);
        assert_eq!(made(libc::SYS_pread64, &[fd, 8, 12, 0]), Some(-i64::from(libc::EFAULT)));
        assert_eq!(made(libc::SYS_read, &[fd, read.as_mut_ptr() as u64, MOST_BYTES + 1]), None, "it takes long");
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"x").expect("room");
        let pipe = reader.as_raw_fd() as u64;
        assert_eq!(made(libc::SYS_read, &[pipe, read.as_mut_ptr() as u64, 1]), None);
        assert_eq!(made(libc::SYS_close, &[pipe]), None);
        assert_eq!(made(libc::SYS_fstat, &[u64::MAX, 8]), Some(-i64::from(libc::EBADF)));
        file.rewind().expect("still open");
        let mut whole = Vec::new();
        file.read_to_end(&mut whole).expect("a file");
        assert_eq!(whole, text);
    }

    #[test]
    fn what_is_there_is_opened_and_proc_and_devices_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| format!("{}/{name}\0", folder.path().display());
        std::fs::write(folder.path().join("file"), "text").expect("written");
        let open = |path: &str, flags: i32| made(libc::SYS_open, &[path.as_ptr() as u64, flags as u64, 0]);
        DESCRIPTORS.set_end_of_program(u64::MAX);
        let fd = open(&path("file"), libc::O_RDONLY | libc::O_CLOEXEC).expect("opened here");
        assert!(fd > 2, "{fd}");
        assert_eq!(made(libc::SYS_close, &[fd as u64]), Some(0));
        assert_eq!(open(&path("none"), libc::O_RDONLY), Some(-i64::from(libc::ENOENT)));
        assert_eq!(open(&path("none"), libc::O_RDWR | libc::O_CREAT), None);
        for other in ["/proc/self/stat\0", "/dev/null\0", "/proc/thread-self/stat\0", "thread-self/stat\0"] {
            assert_eq!(open(other, libc::O_RDONLY), None, "{other}");
            assert_eq!(made(libc::SYS_access, &[other.as_ptr() as u64, 0]).is_none(), other != "/dev/null\0");
        }
        assert_eq!(made(libc::SYS_access, &[8, 0]), None, "a bad pointer is the thread's own");
    }

    #[test]
    fn clocks_of_processes_and_threads_are_left_alone() {
        let mut time = [0u64; 2];
        let mut ask = |clock: i32| made(libc::SYS_clock_gettime, &[clock as u64, time.as_mut_ptr() as u64]);
        assert_eq!(ask(libc::CLOCK_MONOTONIC), Some(0));
        assert_eq!((ask(libc::CLOCK_THREAD_CPUTIME_ID), ask(libc::CLOCK_PROCESS_CPUTIME_ID)), (None, None));
    }

    #[test]
    fn changes_of_rights_end_polling() {
        let ends = |call: i64, a: u64, b: u64| ends_polling(call.cast_unsigned(), &[a, b, 1, 0, 0, 0]);
        assert!(ends(libc::SYS_setuid, 0, 0) && ends(libc::SYS_unshare, 0, 0));
        assert!(ends(libc::SYS_setrlimit, libc::RLIMIT_CPU.into(), 0));
        assert!(!ends(libc::SYS_setrlimit, libc::RLIMIT_NOFILE.into(), 0));
        assert!(ends(libc::SYS_setitimer, libc::ITIMER_PROF as u64, 0));
        assert!(!ends(libc::SYS_setitimer, libc::ITIMER_REAL as u64, 0));
        assert!(ends(libc::SYS_clone, libc::CLONE_THREAD as u64, 0) && !ends(libc::SYS_fork, 0, 0));
    }
}
