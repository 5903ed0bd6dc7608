//! Descriptors and paths: numbers that belong to the runner are not there for the program, and `/proc/self/exe` is its own.

use crate::options::Line;
use crate::runner::calls::{Outcome, descriptor, limits, refuse, refuse_by_name};
use crate::runner::descriptors::DESCRIPTORS;
use crate::runner::lock::Lock;
use crate::runner::signals::{self, AGAIN};
use crate::runner::sys;
use crate::runner::thread::{Process, Thread};
use crate::runner::user;
use crate::shared::Refused;
use std::sync::atomic::Ordering;

const BAD: i32 = libc::EBADF;
/// The program's own path, ending in NUL.
static PROGRAM: Lock<Line<4096>> = Lock::new(Line::new());
/// Bytes of a folder's list that are looked through at once.
const LIST: usize = 16 << 10;
/// Where in an entry of a folder's list its length and its name lie.
const ENTRY_LENGTH: usize = 16;
const ENTRY_NAME: usize = 19;

/// Notes the program's path, from its open file.
pub(crate) fn start(program: i32) {
    let link = Line::<64>::of(format_args!("/proc/self/fd/{program}"));
    let mut path = [0u8; 4095];
    let arguments = [libc::AT_FDCWD as u64, link.address(), path.as_mut_ptr() as u64, path.len() as u64, 0, 0];
    // SAFETY: the kernel reads a string and writes as many bytes as the array has.
    let bytes = unsafe { sys::raw(libc::SYS_readlinkat, arguments) };
    let bytes = usize::try_from(bytes).unwrap_or(0);
    PROGRAM.with(|program| *program = Line::of_bytes(&path[..bytes]));
}

/// In the child of a fork, nobody holds the lock.
pub(crate) fn forget_holder() {
    PROGRAM.forget_holder();
}

/// The last part of a path: a process's name.
pub(crate) fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// A call that may name a descriptor or a path, and may give a descriptor.
pub(crate) fn forward(thread: &'static Thread, number: u64, mut arguments: [u64; 6]) -> Outcome {
    let call = number.cast_signed();
    if takes_descriptor(call) && DESCRIPTORS.is_own(arguments[0]) {
        return refuse(BAD);
    }
    let path = path_argument(call);
    if let Some(path) = path
        && is_own_program(thread.process(), arguments[path])
    {
        arguments[path] = program_address();
    }
    let result = signals::forward(thread, number, &arguments);
    if result >= 0
        && gives_descriptor(call, arguments[1])
        && limits::end_of_files().is_some_and(|end| result.cast_unsigned() >= end)
    {
        sys::close(descriptor(result.cast_unsigned()));
        return refuse(libc::EMFILE);
    }
    match result {
        AGAIN => Outcome::Repeats,
        result => Outcome::Returns(result),
    }
}

/// `close`.
pub(crate) fn close(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    if DESCRIPTORS.is_own(arguments[0]) {
        return refuse(BAD);
    }
    super::forward(thread, libc::SYS_close.cast_unsigned(), arguments)
}

/// `close_range`: all but the runner's.
pub(crate) fn close_range(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    let number = libc::SYS_close_range.cast_unsigned();
    let [first, last, flags, ..] = arguments.map(|value| value & u64::from(u32::MAX));
    let mut from = first;
    let mut own = DESCRIPTORS.own().map(|fd| u64::from(fd.unsigned_abs()));
    if first > last || !own.any(|fd| (first..=last).contains(&fd)) {
        return super::forward(thread, number, arguments);
    }
    for fd in DESCRIPTORS.own().map(|fd| u64::from(fd.unsigned_abs())).filter(|fd| (first..=last).contains(fd)) {
        if fd > from {
            let outcome = super::forward(thread, number, &[from, fd - 1, flags, 0, 0, 0]);
            if outcome != Outcome::Returns(0) {
                return outcome;
            }
        }
        from = fd + 1;
    }
    match from {
        _ if from > last => Outcome::Returns(0),
        _ => super::forward(thread, number, &[from, last, flags, 0, 0, 0]),
    }
}

/// `dup2`, `dup3`: natively there would be no such number, or it would be free.
pub(crate) fn duplicate_to(thread: &'static Thread, number: u64, arguments: &[u64; 6]) -> Outcome {
    let [from, to, ..] = *arguments;
    if DESCRIPTORS.is_own(from) || limits::end_of_files().is_some_and(|end| to & u64::from(u32::MAX) >= end) {
        return refuse(BAD);
    }
    if DESCRIPTORS.is_own(to) {
        return refuse_by_name(Refused::OccupiedDescriptor, to, BAD);
    }
    super::forward(thread, number, arguments)
}

/// `readlink`, `readlinkat`: the program's own path for `/proc/self/exe`.
pub(crate) fn read_link(thread: &'static Thread, number: u64, arguments: &[u64; 6]) -> Outcome {
    let [path, to, bytes] = match number.cast_signed() {
        libc::SYS_readlink => [arguments[0], arguments[1], arguments[2]],
        _ => [arguments[1], arguments[2], arguments[3]],
    };
    let process = thread.process();
    if !is_own_program(process, path) {
        return super::forward(thread, number, arguments);
    }
    let room = usize::try_from(bytes.cast_signed()).unwrap_or(0);
    if room == 0 {
        return refuse(libc::EINVAL);
    }
    let program = PROGRAM.with(|program| *program);
    let text = &program.as_bytes()[..program.as_bytes().len().min(room)];
    user::write_bytes(process, to, text).map(|()| text.len() as u64).into()
}

/// `getdents64`: a list of this process's descriptors comes without the runner's.
pub(crate) fn list(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    let number = libc::SYS_getdents64.cast_unsigned();
    let [fd, to, bytes, ..] = *arguments;
    if DESCRIPTORS.is_own(fd) {
        return refuse(BAD);
    }
    if !is_list_of_descriptors(fd) {
        return super::forward(thread, number, arguments);
    }
    loop {
        let outcome = super::forward(thread, number, &[fd, to, bytes.min(LIST as u64), 0, 0, 0]);
        let Outcome::Returns(read @ 1..) = outcome else { return outcome };
        match without_own(thread.process(), to, usize::try_from(read).unwrap_or(0)) {
            // Nothing but the runner's: the next part decides.
            Outcome::Returns(0) => {}
            outcome => return outcome,
        }
    }
}

/// Takes entries out of a list in the program's memory whose names are numbers of the runner's.
fn without_own(process: &Process, at: u64, bytes: usize) -> Outcome {
    let mut list = [0u8; LIST];
    let list = &mut list[..bytes.min(LIST)];
    if let Err(error) = user::read_bytes(process, at, list) {
        return Outcome::Returns(error.result());
    }
    let (mut from, mut to) = (0, 0);
    while from + ENTRY_NAME < list.len() {
        let length = usize::from(u16::from_ne_bytes([list[from + ENTRY_LENGTH], list[from + ENTRY_LENGTH + 1]]));
        let end = (from + length.max(ENTRY_NAME + 1)).min(list.len());
        if !is_own_name(&list[from + ENTRY_NAME..end]) {
            list.copy_within(from..end, to);
            to += end - from;
        }
        from = end;
    }
    user::write_bytes(process, at, &list[..to]).map(|()| to as u64).into()
}

fn is_own_name(name: &[u8]) -> bool {
    let digits = name.split(|byte| *byte == 0).next().unwrap_or(name);
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).is_some_and(|fd| DESCRIPTORS.is_own(fd))
}

/// Whether `fd` is the folder of this process's descriptors.
fn is_list_of_descriptors(fd: u64) -> bool {
    let link = Line::<64>::of(format_args!("/proc/self/fd/{}", descriptor(fd)));
    let mut path = [0u8; 64];
    let arguments = [libc::AT_FDCWD as u64, link.address(), path.as_mut_ptr() as u64, path.len() as u64, 0, 0];
    // SAFETY: the kernel reads a string and writes as many bytes as the array has.
    let bytes = usize::try_from(unsafe { sys::raw(libc::SYS_readlinkat, arguments) }).unwrap_or(0);
    let path = &path[..bytes];
    path.starts_with(b"/proc/") && (path.ends_with(b"/fd") || path.ends_with(b"/fdinfo"))
}

/// Whether the text at `path` names this process's program through `/proc`.
pub(crate) fn is_own_program(process: &Process, path: u64) -> bool {
    let mut bytes = [0u8; 40];
    let read = user::read_some(process, path, &mut bytes);
    let text = bytes[..read].split(|byte| *byte == 0).next().unwrap_or_default();
    let Some(middle) = text.strip_prefix(b"/proc/").and_then(|rest| rest.strip_suffix(b"/exe")) else { return false };
    let own = process.pid.load(Ordering::Relaxed);
    middle == b"self" || middle == b"thread-self" || middle == Line::<16>::of(own).as_bytes()
}

/// The address of the program's path, which stays as it is until the program is replaced.
pub(crate) fn program_address() -> u64 {
    PROGRAM.with(|program| program.address())
}

/// Calls whose first argument is a descriptor and that would act on the runner's.
fn takes_descriptor(call: i64) -> bool {
    matches!(
        call,
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_fstat
            | libc::SYS_lseek
            | libc::SYS_ioctl
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_dup
            | libc::SYS_fcntl
            | libc::SYS_flock
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_ftruncate
            | libc::SYS_fchdir
            | libc::SYS_fchmod
            | libc::SYS_fchown
            | libc::SYS_fstatfs
            | libc::SYS_fadvise64
            | libc::SYS_sendfile
            | libc::SYS_getsockopt
            | libc::SYS_getsockname
    )
}

/// Which argument of a call is a path that follows links.
fn path_argument(call: i64) -> Option<usize> {
    match call {
        libc::SYS_open | libc::SYS_stat | libc::SYS_access | libc::SYS_chmod | libc::SYS_statfs => Some(0),
        libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2 => Some(1),
        _ => None,
    }
}

/// Calls that give a new descriptor; `command` is the second argument.
fn gives_descriptor(call: i64, command: u64) -> bool {
    const DUPLICATE: u64 = libc::F_DUPFD as u64;
    const DUPLICATE_CLOSING: u64 = libc::F_DUPFD_CLOEXEC as u64;
    match call {
        libc::SYS_fcntl => matches!(command, DUPLICATE | DUPLICATE_CLOSING),
        libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_creat
        | libc::SYS_dup
        | libc::SYS_socket
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_epoll_create
        | libc::SYS_epoll_create1
        | libc::SYS_eventfd
        | libc::SYS_eventfd2
        | libc::SYS_signalfd
        | libc::SYS_signalfd4
        | libc::SYS_timerfd_create
        | libc::SYS_inotify_init
        | libc::SYS_inotify_init1
        | libc::SYS_memfd_create
        | libc::SYS_pidfd_open
        | libc::SYS_userfaultfd
        | libc::SYS_perf_event_open
        | libc::SYS_io_uring_setup => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_program_is_recognised_by_its_path() {
        let process = Process::new();
        process.pid.store(std::process::id(), Ordering::Relaxed);
        let is_own = |path: &str| is_own_program(&process, Line::<64>::of(path).address());
        assert!(is_own("/proc/self/exe") && is_own(&format!("/proc/{}/exe", std::process::id())));
        assert!(!is_own("/proc/self/exec") && !is_own("/proc/1/exe") && !is_own("/etc/passwd") && !is_own(""));
        assert!(!is_own_program(&process, 8));
    }

    #[test]
    fn a_process_is_named_after_the_last_part_of_its_path() {
        assert_eq!(name_of(b"/usr/bin/cat"), b"cat");
        assert_eq!(name_of(b"cat"), b"cat");
    }
}
