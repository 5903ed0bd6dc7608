//! The kernel's virtual machine for small programs, by `bpf(2)`: maps, programs, and programs attached to raw tracepoints.
//!
//! Everything is owned by file descriptors and nothing is pinned: when the process ends, however it ends, the kernel detaches and frees
//! all of it. This module does not look into programs; the kernel's verifier judges them.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const PROG_NEXT_ID: libc::c_int = 11;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const ENABLE_STATS: libc::c_int = 32;

const KIND_HASH: u32 = 1;
const KIND_ARRAY: u32 = 2;
const KIND_RAW_TRACEPOINT: u32 = 17;
/// Longest name of a map or program, without its zero.
const NAME: usize = 15;
/// Enough for the verifier's account of a program that it refuses; a longer account keeps its end.
const LOG_BYTES: usize = 1 << 20;
/// The helpers that read the kernel's memory and clock are for programs under a licence that the GPL takes in.
const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";

/// `union bpf_attr` of `BPF_MAP_CREATE`, up to the name.
#[repr(C)]
#[derive(Default)]
struct MapAttributes {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; NAME + 1],
}

/// `union bpf_attr` of the commands on elements.
#[repr(C)]
#[derive(Default)]
struct ElementAttributes {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `union bpf_attr` of `BPF_PROG_LOAD`, up to the name.
#[repr(C)]
#[derive(Default)]
struct ProgramAttributes {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME + 1],
}

/// `union bpf_attr` of `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
#[derive(Default)]
struct TracepointAttributes {
    name: u64,
    program_fd: u32,
    _pad: u32,
}

/// `union bpf_attr` of `BPF_PROG_GET_NEXT_ID`, and of `BPF_ENABLE_STATS`, whose first word is which.
#[repr(C)]
#[derive(Default)]
struct NumberAttributes {
    start: u32,
    next: u32,
    flags: u32,
}

/// Makes the call with `attributes`.
///
/// # Safety
/// Every address in `attributes` points to memory that is as long as the command reads or writes and lives through the call.
unsafe fn call<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the attributes have the size that is passed; the caller answers for the addresses in them.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(libc::c_int::try_from(rc).unwrap_or(-1)) }
}

/// Takes a descriptor that the kernel has just made.
fn own(fd: libc::c_int) -> OwnedFd {
    // SAFETY: `call` has just returned it as a new descriptor, and nobody else knows its number.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn address<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<u8>() as u64
}

fn number(fd: &OwnedFd) -> u32 {
    u32::try_from(fd.as_raw_fd()).unwrap_or(u32::MAX)
}

fn short(name: &str) -> [u8; NAME + 1] {
    let mut bytes = [0; NAME + 1];
    for (to, from) in bytes.iter_mut().zip(name.bytes().take(NAME)) {
        *to = from;
    }
    bytes
}

fn wrong_length() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a key or value is not as long as its map's")
}

/// A map: memory that programs and this process share by key.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

impl Map {
    /// A hash table whose memory is taken at once, so that a program never waits for any.
    ///
    /// # Errors
    /// What `bpf(2)` gives: `PermissionDenied` without `CAP_BPF`, `Unsupported` where the kernel has no BPF.
    pub fn hash(name: &str, key_bytes: usize, value_bytes: usize, entries: u32) -> io::Result<Self> {
        Map::create(KIND_HASH, name, key_bytes, value_bytes, entries)
    }

    /// An array, zero at first. Its keys are indices of four bytes.
    ///
    /// # Errors
    /// As [`Map::hash`].
    pub fn array(name: &str, value_bytes: usize, entries: u32) -> io::Result<Self> {
        Map::create(KIND_ARRAY, name, 4, value_bytes, entries)
    }

    fn create(kind: u32, name: &str, key_bytes: usize, value_bytes: usize, max_entries: u32) -> io::Result<Self> {
        let size = |bytes: usize| u32::try_from(bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why));
        let (key_size, value_size) = (size(key_bytes)?, size(value_bytes)?);
        let mut attributes =
            MapAttributes { kind, key_size, value_size, max_entries, name: short(name), ..MapAttributes::default() };
        // SAFETY: there are no addresses in the attributes.
        let fd = unsafe { call(MAP_CREATE, &mut attributes) }?;
        Ok(Map { fd: own(fd), key_bytes, value_bytes })
    }

    /// The descriptor's number, which a program's code names; the map must live until the program is loaded.
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// What `bpf(2)` gives, and `InvalidInput` for a key or value of another length than the map's.
    pub fn update(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if key.len() != self.key_bytes || value.len() != self.value_bytes {
            return Err(wrong_length());
        }
        let mut attributes = self.element(address(key), address(value));
        // SAFETY: key and value have the map's lengths, by the check above, and are only read.
        unsafe { call(MAP_UPDATE, &mut attributes) }.map(drop)
    }

    /// Reads the value of `key` into `value`; `false` where there is none.
    ///
    /// # Errors
    /// As [`Map::update`].
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        if key.len() != self.key_bytes || value.len() != self.value_bytes {
            return Err(wrong_length());
        }
        let mut attributes = self.element(address(key), value.as_mut_ptr() as u64);
        // SAFETY: key and value have the map's lengths, by the check above; the value is borrowed mutably.
        found(unsafe { call(MAP_LOOKUP, &mut attributes) })
    }

    /// All keys, in the map's order. Keys that come while they are read may be missing.
    ///
    /// # Errors
    /// What `bpf(2)` gives.
    pub fn keys(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut next = vec![0; self.key_bytes];
            let last = keys.last().map_or(0, |key| address(key.as_slice()));
            let mut attributes = self.element(last, next.as_mut_ptr() as u64);
            // SAFETY: the last key is null or of the map's length, and the next is a buffer of that length of our own.
            if !found(unsafe { call(MAP_NEXT_KEY, &mut attributes) })? {
                return Ok(keys);
            }
            keys.push(next);
        }
    }

    fn element(&self, key: u64, value: u64) -> ElementAttributes {
        ElementAttributes { map_fd: number(&self.fd), key, value, ..ElementAttributes::default() }
    }
}

fn found(outcome: io::Result<libc::c_int>) -> io::Result<bool> {
    match outcome {
        Ok(_) => Ok(true),
        Err(why) if why.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(why) => Err(why),
    }
}

/// A program that the kernel has refused.
#[derive(Debug, thiserror::Error)]
#[error("{error}{}", last_lines(.log))]
pub struct Refused {
    /// What `bpf(2)` gave.
    #[source]
    pub error: io::Error,
    /// The verifier's account, empty where it did not come to verifying.
    pub log: String,
}

/// The end of the verifier's account, which names the instruction and the reason.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("processed ")).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    if last.is_empty() { String::new() } else { format!(" (verifier: {})", last.join(" / ")) }
}

/// A program that the kernel has verified and compiled.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Loads a program for raw tracepoints from instructions of eight bytes each.
    ///
    /// # Errors
    /// Where the kernel refuses it, with the verifier's reason.
    pub fn load(name: &str, code: &[u64]) -> Result<Self, Refused> {
        let load = |log: &mut [u8]| {
            let mut attributes = ProgramAttributes {
                kind: KIND_RAW_TRACEPOINT,
                instructions: u32::try_from(code.len()).unwrap_or(u32::MAX),
                code: address(code),
                licence: LICENCE.as_ptr() as u64,
                name: short(name),
                ..ProgramAttributes::default()
            };
            if !log.is_empty() {
                attributes.log_level = 1;
                attributes.log_size = u32::try_from(log.len()).unwrap_or(0);
                attributes.log = log.as_mut_ptr() as u64;
            }
            // SAFETY: code, licence and log are as long as the attributes say and live through the call; the log is borrowed mutably.
            unsafe { call(PROG_LOAD, &mut attributes) }
        };
        match load(&mut []) {
            Ok(fd) => Ok(Program(own(fd))),
            // Without permission there is nothing to explain.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err(Refused { error, log: String::new() }),
            Err(error) => {
                let mut log = vec![0; LOG_BYTES];
                if let Ok(fd) = load(&mut log) {
                    return Ok(Program(own(fd)));
                }
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                Err(Refused { error, log: String::from_utf8_lossy(&log[..end]).into_owned() })
            }
        }
    }

    /// Attaches it to the raw tracepoint of that name, until the link is dropped.
    ///
    /// # Errors
    /// What `bpf(2)` gives: `NotFound` where this kernel has no such tracepoint.
    pub fn attach(&self, tracepoint: &str) -> io::Result<Link> {
        let name = CString::new(tracepoint).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let mut attributes = TracepointAttributes {
            name: name.as_ptr() as u64,
            program_fd: number(&self.0),
            ..TracepointAttributes::default()
        };
        // SAFETY: the name ends in zero and lives through the call.
        unsafe { call(RAW_TRACEPOINT_OPEN, &mut attributes) }.map(|fd| Link(own(fd)))
    }

    /// Nanoseconds that it ran and how often, while [`RunTimes`] were kept.
    ///
    /// # Errors
    /// Where `/proc` does not show it.
    pub fn run_time(&self) -> io::Result<(u64, u64)> {
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", self.0.as_raw_fd()))?;
        let of = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|rest| rest.trim().parse().ok()).ok_or(io::ErrorKind::NotFound)
        };
        Ok((of("run_time_ns:")?, of("run_cnt:")?))
    }
}

/// Has the kernel measure how long each program runs, all programs of the machine, which costs about 20 ns a run; ends when dropped.
#[derive(Debug)]
pub struct RunTimes(#[expect(dead_code, reason = "held for its end")] OwnedFd);

impl RunTimes {
    /// Begins.
    ///
    /// # Errors
    /// What `bpf(2)` gives.
    pub fn keep() -> io::Result<Self> {
        let mut attributes = NumberAttributes::default();
        // SAFETY: there are no addresses in the attributes.
        unsafe { call(ENABLE_STATS, &mut attributes) }.map(|fd| RunTimes(own(fd)))
    }
}

/// The numbers of all programs that the kernel has loaded, whoever has.
///
/// # Errors
/// What `bpf(2)` gives.
pub fn loaded_programs() -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut attributes = NumberAttributes::default();
    // SAFETY: there are no addresses in the attributes.
    while found(unsafe { call(PROG_NEXT_ID, &mut attributes) })? {
        numbers.push(attributes.next);
        attributes = NumberAttributes { start: attributes.next, ..NumberAttributes::default() };
    }
    Ok(numbers)
}

/// A program at a tracepoint; it is detached when this is dropped.
#[derive(Debug)]
pub struct Link(#[expect(dead_code, reason = "held for its end")] OwnedFd);
