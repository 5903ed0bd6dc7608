//! The stack with which a program begins: its arguments, its environment, and what the kernel tells every program.
//!
//! Layout as fs/binfmt_elf.c and the System V ABI (AMD64 supplement, 3.4.1) have it, texts included: programs that show a
//! title of their own rely on arguments and environment lying behind each other.

use crate::runner::elf::Object;
use crate::runner::machine::MACHINE;
use crate::runner::sys::{self, Errno, Mapping};
use std::ops::Range;
use std::ptr;

const PAGE: u64 = 4096;
/// What Linux keeps free below a stack.
const GUARD: u64 = 1 << 20;
/// Stacks are as long as the limit allows, but within this range; the upper end represents "unlimited".
const BYTES: Range<u64> = 256 << 10..256 << 20;
const AT_NULL: u64 = libc::AT_NULL;
/// Where restartable sequences are registered, which the guest does not have.
const AT_RSEQ: [u64; 2] = [27, 28];
const HWCAP2_FSGSBASE: u64 = 2;
const PLATFORM: &[u8] = b"x86_64\0";

/// What a program begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning<'a> {
    /// Arguments and environment, each text ending in NUL.
    pub(crate) arguments: &'a [&'a [u8]],
    pub(crate) environment: &'a [&'a [u8]],
    /// The path by which it was executed, ending in NUL.
    pub(crate) path: &'a [u8],
    /// What the kernel has told the runner: pairs of kind and value.
    pub(crate) told: &'a [(u64, u64)],
    pub(crate) random: [u8; 16],
    pub(crate) program: &'a Object,
    pub(crate) interpreter: Option<&'a Object>,
}

/// A stack that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    /// All of its memory.
    pub(crate) range: Range<u64>,
    /// Where the stack pointer begins.
    pub(crate) pointer: u64,
    /// Where the texts of arguments and environment lie, and the pairs.
    pub(crate) arguments: Range<u64>,
    pub(crate) environment: Range<u64>,
    pub(crate) told: Range<u64>,
}

/// Maps a stack of up to `limit` bytes and fills it.
pub(crate) fn build(beginning: &Beginning<'_>, limit: u64, executable: bool) -> Result<Stack, Errno> {
    let bytes = limit.clamp(BYTES.start, BYTES.end).next_multiple_of(PAGE);
    let texts = beginning.texts_bytes();
    if texts > bytes / 2 {
        return Err(Errno(libc::E2BIG));
    }
    let reserved = Mapping::anonymous(libc::PROT_NONE, libc::MAP_NORESERVE | libc::MAP_STACK);
    let protection = libc::PROT_READ | libc::PROT_WRITE | if executable { libc::PROT_EXEC } else { 0 };
    // SAFETY: new memory where the kernel has room, and the part of it above the guard.
    let range = unsafe {
        let from = sys::map(0, bytes + GUARD, reserved)?;
        sys::protect(from + GUARD, bytes, protection)?;
        from + GUARD..from + GUARD + bytes
    };
    let mut writer = Writer { at: range.end - 8, low: range.start };
    let path = writer.push(beginning.path);
    let (environment, environment_texts) = writer.push_all(beginning.environment);
    let (arguments, argument_texts) = writer.push_all(beginning.arguments);
    writer.at &= !15;
    let platform = writer.push(PLATFORM);
    let random = writer.push(&beginning.random);
    let told = beginning.told(path, platform, random);
    let words = [arguments.len() as u64].into_iter().chain(arguments).chain([0]).chain(environment).chain([0]);
    let words: Vec<u64> = words.chain(told.iter().flat_map(|(kind, value)| [*kind, *value])).collect();
    let pointer = (writer.at - words.len() as u64 * 8) & !15;
    writer.put_words(pointer, &words);
    let end = pointer + words.len() as u64 * 8;
    let told = end - told.len() as u64 * 16..end;
    Ok(Stack { range, pointer, arguments: argument_texts, environment: environment_texts, told })
}

impl Beginning<'_> {
    fn texts_bytes(&self) -> u64 {
        let texts = self.arguments.iter().chain(self.environment).chain([&self.path]);
        texts.map(|text| text.len() as u64 + 8).sum()
    }

    /// What the program is told: as the runner was, but for what is its own.
    fn told(&self, path: u64, platform: u64, random: u64) -> Vec<(u64, u64)> {
        let own = |kind: u64, value: u64| match kind {
            libc::AT_PHDR => self.program.headers,
            libc::AT_PHNUM => self.program.header_count,
            libc::AT_BASE => self.interpreter.map_or(0, |interpreter| interpreter.bias),
            libc::AT_ENTRY => self.program.entry,
            libc::AT_EXECFN => path,
            libc::AT_PLATFORM => platform,
            libc::AT_RANDOM => random,
            libc::AT_HWCAP2 if !MACHINE.has_fsgsbase() => value & !HWCAP2_FSGSBASE,
            _ => value,
        };
        let kept = self.told.iter().filter(|(kind, _)| !AT_RSEQ.contains(kind) && *kind != AT_NULL);
        kept.map(|(kind, value)| (*kind, own(*kind, *value))).chain([(AT_NULL, 0)]).collect()
    }
}

/// Writes from the top of a stack downwards.
struct Writer {
    at: u64,
    low: u64,
}

impl Writer {
    fn push(&mut self, bytes: &[u8]) -> u64 {
        self.at -= bytes.len() as u64;
        self.put(self.at, bytes);
        self.at
    }

    /// Texts behind each other, the first one lowest. Gives where each is, and all of them.
    fn push_all(&mut self, texts: &[&[u8]]) -> (Vec<u64>, Range<u64>) {
        let end = self.at;
        let mut addresses: Vec<u64> = texts.iter().rev().map(|text| self.push(text)).collect();
        addresses.reverse();
        (addresses, self.at..end)
    }

    fn put_words(&mut self, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.put(at, &bytes);
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        assert!(at >= self.low, "`build` has refused texts that do not fit");
        let place = ptr::with_exposed_provenance_mut::<u8>(at as usize);
        // SAFETY: inside the stack's memory by the line above, which was mapped writable and is nobody else's yet; callers
        // write below the end of the stack.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(at: u64) -> u64 {
        // SAFETY: callers pass addresses inside a stack that was just built.
        unsafe { ptr::with_exposed_provenance::<u64>(at as usize).read() }
    }

    fn text(at: u64) -> String {
        // SAFETY: as above; texts end in NUL.
        let text = unsafe { std::ffi::CStr::from_ptr(ptr::with_exposed_provenance(at as usize)) };
        text.to_string_lossy().into_owned()
    }

    #[test]
    fn a_program_finds_its_arguments_environment_and_what_it_is_told() {
        let program = Object {
            bias: 0,
            range: 0..1,
            entry: 77,
            headers: 88,
            header_count: 9,
            interpreter: None,
            executable_stack: false,
            is_among_mappings: false,
        };
        let beginning = Beginning {
            arguments: &[b"prog\0", b"one\0"],
            environment: &[b"A=1\0", b"B=2\0"],
            path: b"/bin/prog\0",
            told: &[(libc::AT_PAGESZ, 4096), (libc::AT_ENTRY, 1), (libc::AT_RANDOM, 2), (27, 5), (libc::AT_EXECFN, 3)],
            random: [7; 16],
            program: &program,
            interpreter: None,
        };
        let stack = build(&beginning, 0, false).expect("memory");
        assert_eq!((stack.pointer % 16, stack.range.end - stack.range.start), (0, BYTES.start));
        let at = |index: u64| word(stack.pointer + index * 8);
        assert_eq!((at(0), text(at(1)), text(at(2)), at(3)), (2, "prog".into(), "one".into(), 0));
        assert_eq!((text(at(4)), text(at(5)), at(6)), ("A=1".into(), "B=2".into(), 0));
        let pairs: Vec<(u64, u64)> = (0..5).map(|pair| (at(7 + 2 * pair), at(8 + 2 * pair))).collect();
        assert_eq!(pairs[..2], [(libc::AT_PAGESZ, 4096), (libc::AT_ENTRY, 77)]);
        assert_eq!((pairs[2].0, word(pairs[2].1)), (libc::AT_RANDOM, 0x0707_0707_0707_0707));
        assert_eq!((pairs[3].0, text(pairs[3].1)), (libc::AT_EXECFN, "/bin/prog".into()));
        assert_eq!(pairs[4], (AT_NULL, 0));
        assert_eq!(stack.arguments.end, stack.environment.start, "texts lie behind each other");
        assert_eq!(stack.told.start, stack.pointer + 7 * 8);
        // SAFETY: the memory of a stack that nobody uses.
        unsafe { sys::unmap(stack.range.start - GUARD, stack.range.end - stack.range.start + GUARD) };
    }

    #[test]
    fn more_texts_than_half_a_stack_are_refused() {
        let long = vec![b'x'; 200 << 10];
        let program = Object {
            bias: 0,
            range: 0..1,
            entry: 0,
            headers: 0,
            header_count: 0,
            interpreter: None,
            executable_stack: false,
            is_among_mappings: false,
        };
        let beginning = Beginning {
            arguments: &[&long],
            environment: &[],
            path: b"\0",
            told: &[],
            random: [0; 16],
            program: &program,
            interpreter: None,
        };
        assert_eq!(build(&beginning, 0, false), Err(Errno(libc::E2BIG)));
    }
}
