//! The process's own files in `/proc`: they show and change the program, and nothing of the runner.
//!
//! - `exe` is the program's file, not the runner's.
//! - `fd/N`, `fdinfo/N` of a descriptor of the runner's do not exist.
//! - `maps`, `smaps`, `numa_maps` list the program's mappings. They are copied when they are opened, without the runner's lines: a program that
//!   reads the list in order to look at all of its memory finds nothing that it cannot read.
//! - `mem` ends where the runner lies, as natively it ends where nothing is mapped.
//!
//! Sums stay those of the whole process: `stat`, `statm`, `status`, `smaps_rollup`; `task` also lists KVM's thread.

use crate::options::Line;
use crate::runner::arena::ARENA;
use crate::runner::descriptors::DESCRIPTORS;
use crate::runner::sys::{self, Errno, descriptor};
use crate::runner::thread::Process;
use crate::runner::user;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a path that are looked at: the longest in question has 40.
const PATH: usize = 64;
/// Bytes of a list of mappings that are read at once, more than a line has.
const LIST: usize = 12 << 10;
/// Parts of a transfer that are read at once.
const PARTS: usize = 32;

/// Whether the program has opened a process's memory as a file since it began, so that transfers must be looked at.
static HAS_MEMORY_FILE: AtomicBool = AtomicBool::new(false);

/// What of the process a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// The program's file.
    Program,
    /// One of the runner's descriptors.
    RunnersDescriptor,
    /// A list of mappings.
    Mappings,
    /// The memory of a process.
    Memory,
}

/// What the text at `path`, relative to `folder`, names.
pub(crate) fn named(process: &Process, folder: u64, path: u64) -> Option<Named> {
    let mut bytes = [0u8; PATH];
    let read = user::read_some(process, path, &mut bytes);
    let end = bytes[..read].iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let last = text.rsplit('/').next()?;
    kind_of(last)?;
    let whole = match text.starts_with('/') {
        true => Line::<{ 3 * PATH }>::of(text),
        false => Line::of(format_args!("{}/{text}", folder_path(folder).as_str())),
    };
    let own = process.pid.load(Ordering::Relaxed);
    if is_of_process(whole.as_str(), own) { kind_of(last) } else { None }
}

/// What a file of a process is by its last part; a number is a descriptor.
fn kind_of(name: &str) -> Option<Named> {
    match name {
        "exe" => Some(Named::Program),
        "maps" | "smaps" | "numa_maps" => Some(Named::Mappings),
        "mem" => Some(Named::Memory),
        digits => digits.parse().ok().filter(|fd| DESCRIPTORS.is_own(*fd)).map(|_| Named::RunnersDescriptor),
    }
}

/// Whether an absolute path names a file of the process with this number, or of one of its threads; or a descriptor.
fn is_of_process(path: &str, own: u32) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let is_own = |part: &str| part == "self" || part == "thread-self" || part.parse() == Ok(own);
    let mut rest = match (parts.next(), parts.next()) {
        (Some("proc"), Some(who)) if is_own(who) => parts.clone(),
        (Some("dev"), Some("fd")) => return parts.clone().count() == 1,
        _ => return false,
    };
    if rest.clone().next() == Some("task") {
        rest.nth(1);
    }
    match rest.next() {
        Some("fd" | "fdinfo") => rest.count() == 1,
        Some(name) => rest.next().is_none() && name.parse::<u64>().is_err(),
        None => false,
    }
}

/// Where an open folder, or the current one, lies.
fn folder_path(folder: u64) -> Line<{ 2 * PATH }> {
    match descriptor(folder) {
        libc::AT_FDCWD => link(c"/proc/self/cwd".as_ptr() as u64),
        fd => link(Line::<PATH>::of(format_args!("/proc/self/fd/{fd}")).address()),
    }
}

/// What a link in `/proc` points to; nothing where it is long or none.
fn link(path: u64) -> Line<{ 2 * PATH }> {
    let mut text = [0u8; 2 * PATH];
    let arguments = [libc::AT_FDCWD as u64, path, text.as_mut_ptr() as u64, text.len() as u64, 0, 0];
    // SAFETY: the kernel reads a string of ours and writes as many bytes as the array has.
    let bytes = usize::try_from(unsafe { sys::raw(libc::SYS_readlinkat, arguments) }).unwrap_or(0);
    Line::of_bytes(if bytes < text.len() { &text[..bytes] } else { &[] })
}

/// What the program has just opened as `what`: a list of mappings is replaced, at the same number, by a copy without the runner's.
pub(crate) fn settle(what: Named, fd: i32) -> Result<(), Errno> {
    match what {
        Named::Memory => HAS_MEMORY_FILE.store(true, Ordering::Relaxed),
        Named::Mappings => {
            let closes = sys::fcntl(fd, libc::F_GETFD, 0)? & libc::FD_CLOEXEC != 0;
            let copy = own_mappings(fd)?;
            let flags = if closes { libc::O_CLOEXEC } else { 0 };
            // SAFETY: both descriptors were just made; the program does not know the number yet.
            let result = unsafe { sys::raw(libc::SYS_dup3, [copy as u64, fd as u64, flags as u64, 0, 0, 0]) };
            sys::close(copy);
            sys::checked(result)?;
        }
        Named::Program | Named::RunnersDescriptor => {}
    }
    Ok(())
}

/// The list of mappings that `fd` gives, as a file that can be read alone, without those of the runner.
fn own_mappings(fd: i32) -> Result<i32, Errno> {
    let flags = u64::from(libc::MFD_CLOEXEC);
    // SAFETY: the kernel reads a name of ours.
    let made = unsafe { sys::raw(libc::SYS_memfd_create, [c"mappings".as_ptr() as u64, flags, 0, 0, 0, 0]) };
    let to = descriptor(sys::checked(made)?);
    let path = Line::<PATH>::of(format_args!("/proc/self/fd/{to}"));
    let copied = copy_list(|bytes| read(fd, bytes), |line| sys::write(to, line))
        .and_then(|()| sys::open_at(libc::AT_FDCWD, path.address(), libc::O_RDONLY | libc::O_CLOEXEC));
    sys::close(to);
    copied
}

fn read(fd: i32, bytes: &mut [u8]) -> Result<usize, Errno> {
    let arguments = [fd as u64, bytes.as_mut_ptr() as u64, bytes.len() as u64, 0, 0, 0];
    // SAFETY: the kernel writes at most as many bytes as the slice has.
    sys::checked(unsafe { sys::raw(libc::SYS_read, arguments) }).map(|read| usize::try_from(read).unwrap_or(0))
}

/// Copies lines, but those about mappings of the runner.
fn copy_list(
    mut read: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
    mut write: impl FnMut(&[u8]),
) -> Result<(), Errno> {
    let mut buffer = [0u8; LIST];
    let (mut used, mut is_kept) = (0, true);
    loop {
        let read = read(&mut buffer[used..])?;
        used += read;
        let text = &buffer[..used];
        // At the end, or where a line fills everything, there is no more to wait for.
        let whole = if read == 0 { used } else { line_end(text).unwrap_or(if used == LIST { used } else { 0 }) };
        let (mut from, mut to) = (0, 0);
        while from < whole {
            let end = buffer[from..whole].iter().position(|byte| *byte == b'\n').map_or(whole, |at| from + at + 1);
            if let Some(range) = mapping(&buffer[from..end]) {
                is_kept = ARENA.overlap(&range).is_none();
            }
            if is_kept {
                buffer.copy_within(from..end, to);
                to += end - from;
            }
            from = end;
        }
        write(&buffer[..to]);
        buffer.copy_within(whole..used, 0);
        used -= whole;
        if read == 0 {
            return Ok(());
        }
    }
}

/// Behind the last line's end.
fn line_end(text: &[u8]) -> Option<usize> {
    text.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1)
}

/// The range at the start of a line, where one begins it, or the place where it starts.
fn mapping(line: &[u8]) -> Option<Range<u64>> {
    let word = line.split(|byte| *byte == b' ').next()?;
    let is_number = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte) || *byte == b'-';
    if !word.iter().all(is_number) {
        return None;
    }
    let (start, end) = std::str::from_utf8(word).ok().map(|word| word.split_once('-').unwrap_or((word, "")))?;
    let start = u64::from_str_radix(start, 16).ok()?;
    Some(start..u64::from_str_radix(end, 16).unwrap_or(start + 1))
}

/// How much of a transfer between memory and a file the program may have, where that file is a process's memory: `None` where it is none or
/// the runner is far, else the bytes before the runner.
pub(crate) fn bytes_before_runner(process: &Process, call: i64, arguments: &[u64; 6]) -> Option<u64> {
    let [fd, at, count, offset, ..] = *arguments;
    let (bytes, offset) = match call {
        libc::SYS_read | libc::SYS_write => (Some(count), None),
        libc::SYS_pread64 | libc::SYS_pwrite64 => (Some(count), Some(offset)),
        libc::SYS_readv | libc::SYS_writev => (None, None),
        libc::SYS_preadv | libc::SYS_pwritev => (None, Some(offset)),
        libc::SYS_preadv2 | libc::SYS_pwritev2 => (None, Some(offset).filter(|offset| *offset != u64::MAX)),
        _ => return None,
    };
    if !HAS_MEMORY_FILE.load(Ordering::Relaxed) || !is_memory(fd) {
        return None;
    }
    let start = offset.unwrap_or_else(|| position(fd));
    let bytes = bytes.unwrap_or_else(|| sum_of_parts(process, at, count));
    let own = ARENA.overlap(&(start..start.saturating_add(bytes)))?;
    Some(own.start.saturating_sub(start))
}

/// Whether an open file is the memory of a process.
fn is_memory(fd: u64) -> bool {
    let path = folder_path(fd);
    path.as_str().starts_with("/proc/") && path.as_str().ends_with("/mem")
}

fn position(fd: u64) -> u64 {
    // SAFETY: asks without moving anything.
    unsafe { sys::raw(libc::SYS_lseek, [fd, 0, libc::SEEK_CUR as u64, 0, 0, 0]) }.cast_unsigned()
}

/// Bytes of all parts of a transfer; those that cannot be read are the kernel's business.
fn sum_of_parts(process: &Process, at: u64, count: u64) -> u64 {
    let mut bytes = 0u64;
    for_each_part(process, at, count, |_, length| bytes = bytes.saturating_add(length));
    bytes
}

/// Whether a copy between this process and itself, by `process_vm_readv` or `process_vm_writev`, would reach the runner.
pub(crate) fn copy_hits_runner(process: &Process, arguments: &[u64; 6]) -> bool {
    let [pid, _, _, remote, count, _] = *arguments;
    let mut hits = false;
    if pid == u64::from(process.pid.load(Ordering::Relaxed)) {
        for_each_part(process, remote, count, |start, length| {
            hits |= ARENA.overlap(&(start..start.saturating_add(length))).is_some();
        });
    }
    hits
}

fn for_each_part(process: &Process, at: u64, count: u64, mut each: impl FnMut(u64, u64)) {
    let count = count.min(libc::UIO_MAXIOV as u64);
    for first in (0..count).step_by(PARTS) {
        let mut words = [0u8; PARTS * 16];
        let bytes = (count - first).min(PARTS as u64) * 16;
        let words = &mut words[..usize::try_from(bytes).unwrap_or(0)];
        if user::read_bytes(process, at.wrapping_add(first * 16), words).is_err() {
            return;
        }
        for part in words.chunks_exact(16) {
            let word = |at: usize| part[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
            each(word(0), word(8));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> Process {
        let process = Process::new();
        process.pid.store(std::process::id(), Ordering::Relaxed);
        process
    }

    fn of(path: &str) -> Option<Named> {
        named(&process(), libc::AT_FDCWD as u64, Line::<256>::of(path).address())
    }

    #[test]
    fn files_of_the_process_are_recognised_by_their_paths() {
        let id = std::process::id();
        for path in ["/proc/self/exe", "/proc/thread-self/exe", "/proc//self/./exe", &format!("/proc/{id}/exe")] {
            assert_eq!(of(path), Some(Named::Program), "{path}");
        }
        assert_eq!(of(&format!("/proc/self/task/{id}/maps")), Some(Named::Mappings));
        assert_eq!((of("/proc/self/smaps"), of("/proc/self/mem")), (Some(Named::Mappings), Some(Named::Memory)));
        let others = ["/proc/self/exec", "/proc/1/exe", "/etc/passwd", "", "/proc/self/fd/exe/x", "exe", "/proc/exe"];
        for path in others {
            assert_eq!(of(path), None, "{path}");
        }
        assert_eq!(named(&process(), libc::AT_FDCWD as u64, 8), None);
    }

    #[test]
    fn a_file_is_found_through_an_open_folder() {
        let folder = std::fs::File::open("/proc/self").expect("mounted");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&folder) as u64;
        let relative = |path: &str| named(&process(), fd, Line::<256>::of(path).address());
        assert_eq!((relative("exe"), relative("maps")), (Some(Named::Program), Some(Named::Mappings)));
        assert_eq!(relative("stat"), None);
    }

    #[test]
    fn lines_of_the_runner_are_left_out_with_what_follows_them() {
        ARENA.own(0x7_0000_0000..0x7_0010_0000);
        let text = "1000-2000 r--p 0 0:0 0\nSize: 4 kB\n700000000-700001000 rw-p 0 0:0 0 x\nSize: 4 kB\nVmFlags: rd\n\
                    7000ff000-700200000 rw-p\n800000000-800001000 r-xp 0 0:0 0 end\nSize: 8 kB\n";
        let kept = "1000-2000 r--p 0 0:0 0\nSize: 4 kB\n800000000-800001000 r-xp 0 0:0 0 end\nSize: 8 kB\n";
        for step in [1, 7, 4096] {
            let (mut from, mut copy) = (text.as_bytes(), Vec::new());
            let read = |bytes: &mut [u8]| {
                let count = step.min(from.len()).min(bytes.len());
                bytes[..count].copy_from_slice(&from[..count]);
                from = &from[count..];
                Ok(count)
            };
            copy_list(read, |line| copy.extend_from_slice(line)).expect("read");
            assert_eq!(String::from_utf8_lossy(&copy), kept, "{step} bytes at once");
        }
        assert_eq!(mapping(b"7f0000 default file=/x\n"), Some(0x7f_0000..0x7f_0001));
        assert_eq!((mapping(b"Size: 4 kB\n"), mapping(b"\n")), (None, None));
    }

    #[test]
    fn parts_of_a_transfer_are_added_up() {
        let parts: Vec<[u64; 2]> = (0..70).map(|part| [part << 12, part]).collect();
        assert_eq!(sum_of_parts(&process(), parts.as_ptr() as u64, 70), 69 * 35);
        assert_eq!(sum_of_parts(&process(), 8, 70), 0);
        let own = u64::from(std::process::id());
        ARENA.own(0x6_0000_0000..0x6_0000_1000);
        let hits = |at: u64, pid: u64| {
            let part = [at, 16u64];
            copy_hits_runner(&process(), &[pid, 0, 0, part.as_ptr() as u64, 1, 0])
        };
        assert!(hits(0x6_0000_0ff8, own) && !hits(0x6_0000_1000, own) && !hits(0x6_0000_0000, own + 1));
    }
}
