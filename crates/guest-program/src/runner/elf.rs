//! Puts a program's file where the kernel would: into this very address space.
//!
//! Layout of ELF-64 (System V ABI, chapters 4 and 5), and where Linux places what has no address of its own
//! (fs/binfmt_elf.c): a position-independent program in the lower two thirds, its interpreter among the mappings.

use crate::runner::backing;
use crate::runner::sys::{self, Errno, Mapping};
use baremark_microvm::layout::{BLOCK, USER_END};
use std::ops::Range;

const HEADER: usize = 64;
const ENTRY_BYTES: usize = 56;
const PAGE: u64 = 4096;
const TYPE_EXECUTABLE: u16 = 2;
const TYPE_DYNAMIC: u16 = 3;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_PHDR: u32 = 6;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;
/// Where Linux begins to place programs that have no address of their own.
const DYNAMIC_BASE: u64 = 0x5555_5555_4000;
/// Tries to find a free place, one block further each time.
const TRIES: u64 = 64;
/// The most program headers, as in the kernel: 64 KiB of them.
const MOST_HEADERS: usize = 65_536 / ENTRY_BYTES;

const NO_EXEC: Errno = Errno(libc::ENOEXEC);

/// What role a file plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The program; `random` decides where it goes.
    Program { random: u64 },
    /// Its interpreter.
    Interpreter,
}

/// A file in memory.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// What was added to the file's own addresses.
    pub(crate) bias: u64,
    /// Where it lies.
    pub(crate) range: Range<u64>,
    /// Its first instruction.
    pub(crate) entry: u64,
    /// Where its program headers lie, and how many there are.
    pub(crate) headers: u64,
    pub(crate) header_count: u64,
    /// The path of its interpreter, ending in NUL.
    pub(crate) interpreter: Option<Vec<u8>>,
    /// Whether it requests a stack whose content can be executed.
    pub(crate) executable_stack: bool,
    /// Whether it lies among the mappings, where its break would have no room.
    pub(crate) is_among_mappings: bool,
}

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    in_file: u64,
    in_memory: u64,
    align: u64,
}

/// A file's headers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Headers {
    kind: u16,
    entry: u64,
    offset: u64,
    segments: Vec<Segment>,
}

/// Maps `file`. Where that fails half-way the process must end, as the kernel would end it.
pub(crate) fn load(file: i32, role: Role) -> Result<Object, Errno> {
    let headers = read_headers(file)?;
    let loaded = || headers.segments.iter().filter(|segment| segment.kind == PT_LOAD);
    let (low, high) = (headers.low()?, headers.high()?);
    let align = loaded().map(|segment| segment.align).filter(|align| align.is_power_of_two()).max().unwrap_or(PAGE);
    let start = reserve(&headers, role, high - low, low, align.max(PAGE))?;
    let bias = start.wrapping_sub(low);
    for segment in loaded() {
        map_segment(file, segment, bias)?;
    }
    Ok(Object {
        bias,
        range: start..start + (high - low),
        entry: headers.entry.wrapping_add(bias),
        headers: headers.own_address().wrapping_add(bias),
        header_count: headers.segments.len() as u64,
        interpreter: interpreter(file, &headers)?,
        executable_stack: headers.wants_executable_stack(),
        is_among_mappings: headers.kind == TYPE_DYNAMIC && !headers.has_interpreter(),
    })
}

fn read_headers(file: i32) -> Result<Headers, Errno> {
    let mut header = [0u8; HEADER];
    if sys::read_at(file, &mut header, 0)? != HEADER {
        return Err(NO_EXEC);
    }
    let count = usize::from(u16::from_le_bytes([header[56], header[57]]));
    let entry_bytes = usize::from(u16::from_le_bytes([header[54], header[55]]));
    if entry_bytes != ENTRY_BYTES || count == 0 || count > MOST_HEADERS {
        return Err(NO_EXEC);
    }
    let offset = word(&header, 32);
    let mut table = vec![0u8; count * ENTRY_BYTES];
    if sys::read_at(file, &mut table, offset)? != table.len() {
        return Err(NO_EXEC);
    }
    let kind = u16::from_le_bytes([header[16], header[17]]);
    if kind != TYPE_EXECUTABLE && kind != TYPE_DYNAMIC {
        return Err(NO_EXEC);
    }
    let segments = table.chunks_exact(ENTRY_BYTES).map(Segment::read).collect();
    Ok(Headers { kind, entry: word(&header, 24), offset, segments })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl Segment {
    fn read(bytes: &[u8]) -> Self {
        let first = word(bytes, 0);
        Segment {
            kind: first as u32,
            flags: (first >> 32) as u32,
            offset: word(bytes, 8),
            address: word(bytes, 16),
            in_file: word(bytes, 32),
            in_memory: word(bytes, 40),
            align: word(bytes, 48),
        }
    }

    fn protection(&self) -> i32 {
        let right = |flag, right| if self.flags & flag != 0 { right } else { 0 };
        right(PF_R, libc::PROT_READ) | right(PF_W, libc::PROT_WRITE) | right(PF_X, libc::PROT_EXEC)
    }
}

impl Headers {
    fn loaded(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == PT_LOAD)
    }

    fn low(&self) -> Result<u64, Errno> {
        self.loaded().map(|segment| segment.address & !(PAGE - 1)).min().ok_or(NO_EXEC)
    }

    fn high(&self) -> Result<u64, Errno> {
        let end = |segment: &Segment| segment.address.checked_add(segment.in_memory.max(segment.in_file));
        let ends: Option<Vec<u64>> = self.loaded().map(end).collect();
        let high = ends.and_then(|ends| ends.into_iter().max()).filter(|end| *end < USER_END).ok_or(NO_EXEC)?;
        Ok(high.next_multiple_of(PAGE))
    }

    /// Where the program headers are in memory, by the file's own addresses.
    fn own_address(&self) -> u64 {
        let named = self.segments.iter().find(|segment| segment.kind == PT_PHDR).map(|segment| segment.address);
        let inside = |segment: &&Segment| {
            (segment.offset..segment.offset.saturating_add(segment.in_file)).contains(&self.offset)
        };
        let carried = || self.loaded().find(inside).map(|segment| segment.address + self.offset - segment.offset);
        named.or_else(carried).unwrap_or(0)
    }

    fn has_interpreter(&self) -> bool {
        self.segments.iter().any(|segment| segment.kind == PT_INTERP)
    }

    /// Without a word about its stack, a program of old gets one that can be executed.
    fn wants_executable_stack(&self) -> bool {
        let stack = self.segments.iter().find(|segment| segment.kind == PT_GNU_STACK);
        stack.is_none_or(|stack| stack.flags & PF_X != 0)
    }
}

/// The first of `bytes` free addresses for a file whose own begin at `low`.
fn reserve(headers: &Headers, role: Role, bytes: u64, low: u64, align: u64) -> Result<u64, Errno> {
    match (headers.kind, role) {
        (TYPE_EXECUTABLE, _) => reserve_at(low, bytes),
        (_, Role::Program { random }) if headers.has_interpreter() => {
            let first = dynamic_base(random) & !(align - 1);
            let free = (0..TRIES).find_map(|number| reserve_at(first + number * BLOCK, bytes).ok());
            free.ok_or(Errno(libc::ENOMEM))
        }
        _ => {
            let mapping = Mapping::anonymous(libc::PROT_NONE, libc::MAP_NORESERVE);
            // SAFETY: new memory where the kernel has room.
            let from = unsafe { sys::map(0, bytes + align, mapping) }?;
            let start = from.next_multiple_of(align);
            // SAFETY: both ends of the memory made above.
            unsafe {
                sys::unmap(from, start - from);
                sys::unmap(start + bytes, align - (start - from));
            }
            Ok(start)
        }
    }
}

/// Where a position-independent program goes: as natively, but in the lower half of a block of the guest's memory, so that
/// its break mostly shares the block.
pub(crate) fn dynamic_base(random: u64) -> u64 {
    let offset = (random & 0x0fff_ffff) * PAGE;
    if random == 0 { DYNAMIC_BASE } else { (DYNAMIC_BASE + offset) & !(BLOCK / 2) }
}

fn reserve_at(at: u64, bytes: u64) -> Result<u64, Errno> {
    let mapping = Mapping::anonymous(libc::PROT_NONE, libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE);
    // SAFETY: only memory that nobody has is taken.
    let start = unsafe { sys::map(at, bytes, mapping) }?;
    if start == at { Ok(start) } else { Err(Errno(libc::EEXIST)) }
}

/// Maps one segment: its pages of the file, and zeros behind them.
fn map_segment(file: i32, segment: &Segment, bias: u64) -> Result<(), Errno> {
    let start = segment.address.wrapping_add(bias);
    let first = start & !(PAGE - 1);
    let (file_end, end) = (start + segment.in_file, (start + segment.in_memory).next_multiple_of(PAGE));
    let protection = segment.protection();
    if segment.in_file > 0 {
        let offset = segment.offset.checked_sub(start - first).ok_or(NO_EXEC)?;
        let mapping = Mapping { protection, flags: libc::MAP_PRIVATE | libc::MAP_FIXED, fd: file, offset };
        // SAFETY: inside what was reserved for this file.
        unsafe { sys::map(first, file_end - first, mapping) }?;
    }
    let zeros = if segment.in_file > 0 { file_end.next_multiple_of(PAGE) } else { first };
    if segment.in_memory > segment.in_file && file_end < zeros && segment.flags & PF_W != 0 {
        let bytes = usize::try_from(zeros - file_end).unwrap_or(0);
        // SAFETY: the rest of the last page, which was mapped above and is writable.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(file_end as usize).write_bytes(0, bytes) };
    }
    if end > zeros {
        // SAFETY: inside what was reserved for this file.
        unsafe { sys::map(zeros, end - zeros, Mapping::anonymous(protection, libc::MAP_FIXED)) }?;
        backing::mapped(&(zeros..end));
    }
    Ok(())
}

/// The path of the interpreter, ending in NUL.
fn interpreter(file: i32, headers: &Headers) -> Result<Option<Vec<u8>>, Errno> {
    let Some(segment) = headers.segments.iter().find(|segment| segment.kind == PT_INTERP) else { return Ok(None) };
    let bytes = usize::try_from(segment.in_file).ok().filter(|bytes| (2..=4096).contains(bytes)).ok_or(NO_EXEC)?;
    let mut path = vec![0; bytes];
    if sys::read_at(file, &mut path, segment.offset)? != bytes || path.last() != Some(&0) {
        return Err(NO_EXEC);
    }
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    #[test]
    fn the_headers_of_this_very_program_are_read() {
        let own = File::open("/proc/self/exe").expect("this program");
        let headers = read_headers(own.as_raw_fd()).expect("headers");
        assert!(headers.low().expect("loaded") < headers.high().expect("loaded"));
        assert!(headers.own_address() >= 64);
        assert!(!headers.wants_executable_stack());
        assert_eq!(interpreter(own.as_raw_fd(), &headers), Ok(None), "it is linked statically");
    }

    #[test]
    fn torn_files_are_refused() {
        let own = std::fs::read("/proc/self/exe").expect("this program");
        for cut in [0, 10, 63, 64, 100] {
            assert_eq!(read_headers(file_of(&own[..cut]).as_raw_fd()), Err(NO_EXEC), "{cut} bytes");
        }
        let mut strange = own[..4096].to_vec();
        strange[54] = 55;
        assert_eq!(read_headers(file_of(&strange).as_raw_fd()), Err(NO_EXEC));
    }

    #[test]
    fn a_segment_beyond_the_address_space_is_refused() {
        let far = Segment {
            kind: PT_LOAD,
            flags: 0,
            offset: 0,
            address: u64::MAX - 10,
            in_file: 0,
            in_memory: 100,
            align: 1,
        };
        let headers = |segments| Headers { kind: TYPE_DYNAMIC, entry: 0, offset: 64, segments };
        assert_eq!(headers(vec![far]).high(), Err(NO_EXEC));
        assert_eq!(headers(vec![]).low(), Err(NO_EXEC));
    }

    #[test]
    fn programs_go_to_the_lower_half_of_a_block() {
        assert_eq!(dynamic_base(0), DYNAMIC_BASE);
        for random in [1, 0x1234_5678_9abc, u64::MAX] {
            let base = dynamic_base(random);
            assert!(base & (BLOCK - 1) < BLOCK / 2 && base.is_multiple_of(PAGE), "{base:#x}");
            assert!((0x5555_0000_0000..0x5656_0000_0000).contains(&base), "{base:#x}");
        }
    }
}
