//! A program from its image: its memory, where it was, and its descriptors, by their numbers.
//!
//! It happens in a runner's first milliseconds, before its program's first instruction, while memory can be allocated. The runner itself
//! must lie where the one before it lay, which it does without randomization of addresses; a range that is taken already is an error.

use crate::image::{self, Description, Descriptor, Head, Target, Timer, Watched};
use crate::runner::checkpoint;
use crate::runner::descriptors::DESCRIPTORS;
use crate::runner::sockets;
use crate::runner::sys::{self, Errno, Mapping};
use crate::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const FIXED: i32 = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
/// Flags of a descriptor that are set again; access is by what it leads to.
const KEPT_FLAGS: i32 = libc::O_NONBLOCK;
/// Connections that wait to be accepted.
const BACKLOG: u64 = 4096;

/// An image that is being restored.
pub(crate) struct Restored {
    file: File,
    head: Head,
    /// The record of the runner before this one.
    pub(crate) before: Box<Snapshot>,
}

impl Restored {
    /// Reads what comes before the pages. The descriptor is closed when this is dropped.
    pub(crate) fn read(fd: i32) -> io::Result<Self> {
        // SAFETY: whoever has started this runner has given it the descriptor, which nobody else here knows.
        let file = unsafe { File::from_raw_fd(fd) };
        let head = image::read(&file)?;
        let before = checkpoint::of_bytes(&head.snapshot);
        if !before.is_valid() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the image has no record of a program"));
        }
        let vdso = checkpoint::vdso();
        if head.description.vdso != vdso {
            let why = format!("the kernel's code lies at {vdso:#x} instead of {:#x}", head.description.vdso);
            return Err(io::Error::other(why));
        }
        Ok(Restored { file, head, before })
    }

    fn description(&self) -> &Description {
        &self.head.description
    }

    /// The ranges of the program's memory.
    pub(crate) fn spans(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        self.description().mappings.iter().map(|mapping| mapping.start..mapping.end)
    }

    /// Maps the program's memory and fills it.
    pub(crate) fn map(&self) -> io::Result<()> {
        for mapping in &self.description().mappings {
            map_one(mapping).map_err(|why| named(format_args!("memory at {:#x}", mapping.start), why))?;
        }
        let mut at = self.head.pages_at;
        for (start, end) in &self.head.ranges {
            self.fill(*start, *end, at).map_err(|why| named(format_args!("pages at {start:#x}"), why))?;
            at += end - start;
        }
        for mapping in self.description().mappings.iter().filter(|mapping| mapping.protection != WRITABLE) {
            // SAFETY: memory that was mapped above for the program, which does not run yet.
            unsafe { sys::protect(mapping.start, mapping.end - mapping.start, mapping.protection) }.map_err(error)?;
        }
        Ok(())
    }

    fn fill(&self, mut start: u64, end: u64, mut at: u64) -> Result<(), Errno> {
        while start < end {
            let arguments = [self.file.as_raw_fd() as u64, start, end - start, at, 0, 0];
            // SAFETY: the kernel writes into memory that was mapped above, or fails where none is.
            let read = sys::checked(unsafe { sys::raw(libc::SYS_pread64, arguments) })?;
            if read == 0 {
                return Err(Errno(libc::EIO));
            }
            (start, at) = (start + read, at + read);
        }
        Ok(())
    }

    /// Opens the program's descriptors.
    pub(crate) fn open(&self) -> io::Result<()> {
        let mut kept = BTreeMap::new();
        for (id, fd) in &self.description().inherited {
            kept.insert(*id, DESCRIPTORS.take(*fd).map_err(error)?);
        }
        let pipes = self.pipes().map_err(error)?;
        for number in (0..3).filter(|number| self.description().descriptors.iter().all(|one| one.number != *number)) {
            sys::close(number);
        }
        for descriptor in &self.description().descriptors {
            let opened = match &descriptor.target {
                Target::File { path, offset } => open_file(path, *offset),
                Target::Bound { address, listens } => bound(address, *listens),
                Target::Fresh => socket(),
                Target::Channel(id) => kept.get(id).copied().ok_or(Errno(libc::EBADF)),
                Target::Pipe { id, writes } => {
                    let ends = pipes.get(id).ok_or(Errno(libc::EBADF));
                    ends.map(|ends| ends[usize::from(*writes)])
                }
                Target::Set(_) => made(libc::SYS_epoll_create1, [libc::EPOLL_CLOEXEC as u64, 0]),
                Target::Counter { count, is_semaphore } => counter(*count, *is_semaphore),
                Target::Timer(timer) => start_timer(timer),
            };
            let lent = matches!(descriptor.target, Target::Channel(_) | Target::Pipe { .. });
            let placed = opened.and_then(|fd| place(fd, descriptor, lent));
            placed.map_err(|why| named(format_args!("descriptor {}", descriptor.number), why))?;
        }
        kept.into_values().chain(pipes.into_values().flatten()).for_each(|fd| DESCRIPTORS.close(fd));
        self.watch()
    }

    /// Fills the sets of descriptors, when all of these have their numbers.
    fn watch(&self) -> io::Result<()> {
        for descriptor in &self.description().descriptors {
            let Target::Set(watched) = &descriptor.target else { continue };
            let all = watched.iter().try_for_each(|one| watch(descriptor.number, one));
            all.map_err(|why| named(format_args!("set of descriptors {}", descriptor.number), why))?;
        }
        Ok(())
    }

    /// Both ends of each pipe, with its contents.
    fn pipes(&self) -> Result<BTreeMap<u64, [i32; 2]>, Errno> {
        let mut pipes = BTreeMap::new();
        for (id, contents) in &self.description().pipes {
            let mut ends = [0; 2];
            // SAFETY: the kernel writes two descriptors.
            sys::checked(unsafe {
                sys::raw(libc::SYS_pipe2, [ends.as_mut_ptr() as u64, libc::O_CLOEXEC as u64, 0, 0, 0, 0])
            })?;
            sys::write(ends[1], contents);
            pipes.insert(*id, [DESCRIPTORS.take(ends[0])?, DESCRIPTORS.take(ends[1])?]);
        }
        Ok(pipes)
    }
}

fn error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}

fn named(what: std::fmt::Arguments<'_>, errno: Errno) -> io::Error {
    io::Error::other(format!("{what}: {}", error(errno)))
}

fn map_one(mapping: &image::Mapping) -> Result<(), Errno> {
    let (fd, offset, flags) = match &mapping.file {
        None => (-1, 0, FIXED | libc::MAP_ANONYMOUS),
        Some((path, offset)) => (open_path(path)?, *offset, FIXED),
    };
    let how = Mapping { protection: WRITABLE, flags, fd, offset };
    // SAFETY: only memory that nobody has is taken.
    let mapped = unsafe { sys::map(mapping.start, mapping.end - mapping.start, how) };
    if fd >= 0 {
        sys::close(fd);
    }
    mapped.map(drop)
}

fn open_path(path: &str) -> Result<i32, Errno> {
    let path = CString::new(path).map_err(|_zero_inside| Errno(libc::ENOENT))?;
    sys::open(&path, libc::O_RDONLY | libc::O_CLOEXEC)
}

fn open_file(path: &str, offset: u64) -> Result<i32, Errno> {
    let fd = open_path(path)?;
    let arguments = [fd as u64, offset, libc::SEEK_SET as u64, 0, 0, 0];
    // SAFETY: takes numbers. Devices have no offset, which is none to them.
    unsafe { sys::raw(libc::SYS_lseek, arguments) };
    Ok(fd)
}

fn socket() -> Result<i32, Errno> {
    made(libc::SYS_socket, [libc::AF_UNIX as u64, (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u64])
}

/// A new descriptor of the kernel's; the arguments are numbers.
fn made(call: i64, [a, b]: [u64; 2]) -> Result<i32, Errno> {
    // SAFETY: used for calls that take numbers, and make a descriptor or fail.
    let fd = sys::checked(unsafe { sys::raw(call, [a, b, 0, 0, 0, 0]) })?;
    i32::try_from(fd).map_err(|_large| Errno(libc::EMFILE))
}

fn counter(count: u64, is_semaphore: bool) -> Result<i32, Errno> {
    let semaphore = if is_semaphore { libc::EFD_SEMAPHORE } else { 0 };
    let fd = made(libc::SYS_eventfd2, [0, (libc::EFD_CLOEXEC | semaphore) as u64])?;
    if count > 0 {
        sys::write(fd, &count.to_ne_bytes());
    }
    Ok(fd)
}

fn start_timer(timer: &Timer) -> Result<i32, Errno> {
    const SECOND: u64 = 1_000_000_000;
    let fd = made(libc::SYS_timerfd_create, [timer.clock as u64, libc::TFD_CLOEXEC as u64])?;
    let left = timer.left_at(sys::monotonic_ns());
    let times = [timer.every_ns / SECOND, timer.every_ns % SECOND, left / SECOND, left % SECOND];
    // SAFETY: the kernel reads the four words.
    sys::checked(unsafe { sys::raw(libc::SYS_timerfd_settime, [fd as u64, 0, times.as_ptr() as u64, 0, 0, 0]) })?;
    Ok(fd)
}

fn watch(set: i32, watched: &Watched) -> Result<(), Errno> {
    let event = libc::epoll_event { events: watched.events, u64: watched.data };
    let number = i64::from(watched.number).cast_unsigned();
    let arguments = [set as u64, libc::EPOLL_CTL_ADD as u64, number, (&raw const event) as u64, 0, 0];
    // SAFETY: the kernel reads the event.
    sys::checked(unsafe { sys::raw(libc::SYS_epoll_ctl, arguments) }).map(drop)
}

fn bound(address: &str, listens: bool) -> Result<i32, Errno> {
    let fd = socket()?;
    sockets::bind_to(fd as u64, &checkpoint::socket_name('l', 0, address))?;
    if listens {
        // SAFETY: takes numbers.
        sys::checked(unsafe { sys::raw(libc::SYS_listen, [fd as u64, BACKLOG, 0, 0, 0, 0]) })?;
    }
    Ok(fd)
}

/// Puts an open file at a descriptor's number; one that is lent stays open where it was, too.
fn place(fd: i32, descriptor: &Descriptor, lent: bool) -> Result<(), Errno> {
    let from = if lent { fd } else { DESCRIPTORS.take(fd)? };
    let closing = if descriptor.close_on_exec { libc::O_CLOEXEC as u64 } else { 0 };
    let number = i64::from(descriptor.number).cast_unsigned();
    // SAFETY: replaces what is at a number of the program's, which does not run yet.
    sys::checked(unsafe { sys::raw(libc::SYS_dup3, [from as u64, number, closing, 0, 0, 0]) })?;
    if descriptor.flags & KEPT_FLAGS != 0 {
        sys::fcntl(descriptor.number, libc::F_SETFL, descriptor.flags & KEPT_FLAGS)?;
    }
    if !lent {
        DESCRIPTORS.close(from);
    }
    Ok(())
}
