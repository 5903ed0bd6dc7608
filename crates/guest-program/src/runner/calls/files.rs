//! Descriptors and paths: the program has none of the runner's numbers for new descriptors, and finds its own files in `/proc` (`own`). That no call
//! acts on one of the runner's is decided before, by `signatures`.

use crate::options::Line;
use crate::runner::calls::limits;
use crate::runner::calls::outcome::{self, Outcome, refuse, refuse_by_name};
use crate::runner::calls::own::{self, Named};
use crate::runner::descriptors::DESCRIPTORS;
use crate::runner::handler::AGAIN;
use crate::runner::lock::Lock;
use crate::runner::signals;
use crate::runner::sys::{self, descriptor};
use crate::runner::thread::{Process, Thread};
use crate::runner::user;
use crate::shared::UnsupportedKind;

const BAD: i32 = libc::EBADF;
const AT_CURRENT: u64 = libc::AT_FDCWD as u64;
/// The program's own path, ending in NUL.
static PROGRAM: Lock<Line<4096>> = Lock::new(Line::new());
/// Bytes of a folder's list that are looked through at once.
const LIST: usize = 16 << 10;
/// Where in an entry of a folder's list its length lies, and its name: by `getdents64` and by `getdents`.
const ENTRY_LENGTH: usize = 16;
const ENTRY_NAME: usize = 19;
const OLD_ENTRY_NAME: usize = 18;

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

/// Notes the path of a program that is continued.
pub(crate) fn restore(path: &[u8]) {
    PROGRAM.with(|program| *program = Line::of_bytes(path));
}

/// The program's path.
pub(crate) fn program_path() -> Line<4096> {
    PROGRAM.with(|program| *program)
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
    let (call, process) = (number.cast_signed(), thread.process());
    let path = path_argument(call);
    let named = path.and_then(|at| own::named(process, folder_argument(&arguments, at), arguments[at]));
    match (named, path) {
        (Some(Named::RunnersDescriptor), _) => return refuse(libc::ENOENT),
        (Some(Named::Program), Some(at)) if follows(call, &arguments) => {
            arguments[at] = program_address();
        }
        _ => {}
    }
    match own::bytes_before_runner(process, call, &arguments) {
        None => {}
        Some(bytes @ 1..) if !is_vectored(call) => arguments[2] = bytes,
        Some(_) => return refuse(libc::EIO),
    }
    let result = signals::forward(thread, number, &arguments);
    if result >= 0 && gives_descriptor(call, arguments[1]) {
        let fd = descriptor(result.cast_unsigned());
        if limits::end_of_files(process).is_some_and(|end| result.cast_unsigned() >= end) {
            sys::close(fd);
            return refuse(libc::EMFILE);
        }
        // Where the size of its files is limited, a copy of a list could end the program: there it has the kernel's.
        let is_left = named == Some(Named::Mappings) && limits::has_file_size();
        if let Some(named) = named.filter(|_| is_open(call) && !is_left)
            && let Err(error) = own::settle(named, fd)
        {
            sys::close(fd);
            return refuse(error.0);
        }
    }
    match result {
        AGAIN => Outcome::Repeats,
        result => Outcome::Returns(result),
    }
}

/// `close_range`: all but the runner's.
pub(crate) fn close_range(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    let number = libc::SYS_close_range.cast_unsigned();
    let [first, last, flags, ..] = arguments.map(|value| value & u64::from(u32::MAX));
    let mut from = first;
    let mut own = DESCRIPTORS.own().map(|fd| u64::from(fd.unsigned_abs()));
    if first > last || !own.any(|fd| (first..=last).contains(&fd)) {
        return outcome::forward(thread, number, arguments);
    }
    for fd in DESCRIPTORS.own().map(|fd| u64::from(fd.unsigned_abs())).filter(|fd| (first..=last).contains(fd)) {
        if fd > from {
            let outcome = outcome::forward(thread, number, &[from, fd - 1, flags, 0, 0, 0]);
            if outcome != Outcome::Returns(0) {
                return outcome;
            }
        }
        from = fd + 1;
    }
    match from {
        _ if from > last => Outcome::Returns(0),
        _ => outcome::forward(thread, number, &[from, last, flags, 0, 0, 0]),
    }
}

/// `dup2`, `dup3`: natively there would be no such number, or it would be free.
pub(crate) fn duplicate_to(thread: &'static Thread, number: u64, arguments: &[u64; 6]) -> Outcome {
    let [_, to, ..] = *arguments;
    if limits::end_of_files(thread.process()).is_some_and(|end| to & u64::from(u32::MAX) >= end) {
        return refuse(BAD);
    }
    if DESCRIPTORS.is_own(to) {
        return refuse_by_name(UnsupportedKind::OccupiedDescriptor, to, BAD);
    }
    outcome::forward(thread, number, arguments)
}

/// `readlink`, `readlinkat`: the program's own path for `/proc/self/exe`.
pub(crate) fn read_link(thread: &'static Thread, number: u64, arguments: &[u64; 6]) -> Outcome {
    let [path, to, bytes] = match number.cast_signed() {
        libc::SYS_readlink => [arguments[0], arguments[1], arguments[2]],
        _ => [arguments[1], arguments[2], arguments[3]],
    };
    let process = thread.process();
    let folder = if number.cast_signed() == libc::SYS_readlink { AT_CURRENT } else { arguments[0] };
    match own::named(process, folder, path) {
        Some(Named::Program) => {}
        Some(Named::RunnersDescriptor) => return refuse(libc::ENOENT),
        _ => return outcome::forward(thread, number, arguments),
    }
    let room = usize::try_from(bytes.cast_signed()).unwrap_or(0);
    if room == 0 {
        return refuse(libc::EINVAL);
    }
    let program = program_path();
    let text = &program.as_bytes()[..program.as_bytes().len().min(room)];
    user::write_bytes(process, to, text).map(|()| text.len() as u64).into()
}

/// `getdents64`, `getdents`: a list of this process's descriptors comes without the runner's.
pub(crate) fn list(thread: &'static Thread, number: u64, arguments: &[u64; 6]) -> Outcome {
    let [fd, to, bytes, ..] = *arguments;
    if !is_list_of_descriptors(fd) {
        return outcome::forward(thread, number, arguments);
    }
    let name = if number.cast_signed() == libc::SYS_getdents64 { ENTRY_NAME } else { OLD_ENTRY_NAME };
    loop {
        let outcome = outcome::forward(thread, number, &[fd, to, bytes.min(LIST as u64), 0, 0, 0]);
        let Outcome::Returns(read @ 1..) = outcome else { return outcome };
        match without_own(thread.process(), to, usize::try_from(read).unwrap_or(0), name) {
            // Nothing but the runner's: the next part decides.
            Outcome::Returns(0) => {}
            outcome => return outcome,
        }
    }
}

/// Takes entries out of a list in the program's memory whose names, which lie at `name` in each, are numbers of the runner's.
fn without_own(process: &Process, at: u64, bytes: usize, name: usize) -> Outcome {
    let mut list = [0u8; LIST];
    let list = &mut list[..bytes.min(LIST)];
    if let Err(error) = user::read_bytes(process, at, list) {
        return Outcome::Returns(error.result());
    }
    let (mut from, mut to) = (0, 0);
    while from + name < list.len() {
        let length = usize::from(u16::from_ne_bytes([list[from + ENTRY_LENGTH], list[from + ENTRY_LENGTH + 1]]));
        let end = (from + length.max(name + 1)).min(list.len());
        if !is_own_name(&list[from + name..end]) {
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

/// The path through `/proc/self` where the text at `path` names a file of the process with this number there.
pub(crate) fn of_own_folder(process: &Process, id: u32, path: u64) -> Option<Line<80>> {
    let mut bytes = [0u8; 64];
    let read = user::read_some(process, path, &mut bytes);
    let end = bytes[..read].iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let rest = text.strip_prefix("/proc/")?.strip_prefix(Line::<16>::of(id).as_str())?.strip_prefix('/')?;
    Some(Line::of(format_args!("/proc/self/{rest}")))
}

/// The address of the program's path, which stays as it is until the program is replaced.
pub(crate) fn program_address() -> u64 {
    PROGRAM.with(|program| program.address())
}

/// Which argument of a call is a path.
fn path_argument(call: i64) -> Option<usize> {
    match call {
        libc::SYS_open
        | libc::SYS_creat
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_access
        | libc::SYS_chmod
        | libc::SYS_chown
        | libc::SYS_truncate
        | libc::SYS_statfs => Some(0),
        libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_fchmodat
        | libc::SYS_fchownat => Some(1),
        _ => None,
    }
}

/// What a path in argument `at` is relative to.
fn folder_argument(arguments: &[u64; 6], at: usize) -> u64 {
    if at == 0 { AT_CURRENT } else { arguments[0] }
}

/// Whether a call follows the link that its path names.
fn follows(call: i64, arguments: &[u64; 6]) -> bool {
    const NO_FOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;
    match call {
        libc::SYS_lstat => false,
        libc::SYS_newfstatat => arguments[3] & NO_FOLLOW == 0,
        libc::SYS_statx => arguments[2] & NO_FOLLOW == 0,
        _ => true,
    }
}

fn is_open(call: i64) -> bool {
    matches!(call, libc::SYS_open | libc::SYS_creat | libc::SYS_openat | libc::SYS_openat2)
}

fn is_vectored(call: i64) -> bool {
    !matches!(call, libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64)
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
    use std::sync::atomic::Ordering;

    #[test]
    fn files_of_the_process_in_proc_are_found_by_the_number_that_the_program_knows() {
        let process = Process::new();
        process.pid.store(std::process::id(), Ordering::Relaxed);
        let own = |path: &str| {
            let line = Line::<80>::of(path);
            of_own_folder(&process, 4321, line.address()).map(|line| line.as_str().to_owned())
        };
        assert_eq!(own("/proc/4321/stat").as_deref(), Some("/proc/self/stat"));
        assert_eq!(own("/proc/4321/task/4321/stat").as_deref(), Some("/proc/self/task/4321/stat"));
        for other in ["/proc/43210/stat", "/proc/432/stat", "/proc/self/stat", "/proc/4321", "/etc/passwd", ""] {
            assert_eq!(own(other), None, "{other}");
        }
    }

    #[test]
    fn a_process_is_named_after_the_last_part_of_its_path() {
        assert_eq!(name_of(b"/usr/bin/cat"), b"cat");
        assert_eq!(name_of(b"cat"), b"cat");
    }
}
