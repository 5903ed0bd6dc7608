//! The memory that all processes of a program share with whoever started it: counters, what was refused, and where each
//! thread stands.
//!
//! A process that is killed reports nothing any more, so counters live in a file of memory (`memfd`) and are counted there
//! as things happen. Every process has a page of its own, which it adds to the totals and gives back when it ends by
//! itself; the page of one that was killed stays and is added by the reader. Everything is an atomic number: writers are
//! threads of several processes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// "baremark" in the file's first bytes, by which a runner knows what it was given.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"baremark");
/// The layout's version.
pub(crate) const VERSION: u32 = 2;
/// Pages of processes: the most that are alive or were killed. Those beyond share the last one.
pub(crate) const PAGES: usize = 4096;
/// System calls with a counter of their own; higher numbers do not exist today.
pub(crate) const CALL_NUMBERS: usize = 512;
/// Threads of a process whose place is known.
pub(crate) const PLACES: usize = 32;
/// Bytes of the text of an error.
const TEXT: usize = 512;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Count {
    /// Program images begun: the first, and one for each fork, vfork and exec.
    Images,
    /// Those of them from whose vCPU a system call came.
    ImagesInGuest,
    /// System calls that left the guest.
    Calls,
    /// Returns from the guest, for whatever reason.
    Exits,
    /// Page faults of the guest that were answered with another block of memory.
    GuestFaults,
    /// Other exceptions in the guest.
    Exceptions,
    /// Accesses that the host's memory map refused.
    HostFaults,
    /// Instructions that were executed natively, once, to learn which signal they cause.
    NativeSteps,
    /// Returns because of a signal to the thread.
    Interruptions,
    /// Signals given to handlers of the program.
    Signals,
    /// Threads begun in addition to each process's first.
    Threads,
    /// Processes by fork.
    Forks,
    /// Processes by vfork or posix_spawn.
    Vforks,
    /// Programs that replaced others.
    Execs,
    /// Virtual processors made.
    Vcpus,
    /// Times that a virtual processor was given to another thread while its own could have gone on.
    VcpuSwitches,
    /// System calls that a polling thread answered, without an exit.
    ExitlessCalls,
    /// System calls that were left to a polling thread, and then left the guest.
    ExitlessFallbacks,
    /// Polling threads begun.
    PollingThreads,
    /// Nanoseconds of processor time of polling threads.
    PollingNs,
    /// The most KiB of anonymous memory found in each process that ended, where the page size of the host's backing was chosen.
    AnonymousKib,
    /// KiB of that in large pages.
    LargeKib,
    /// KiB of memory that was given to each process that ended when it was mapped, where that was chosen.
    PrefaultedKib,
    /// Nanoseconds from the beginning of each image to its first entry into the guest.
    StartNs,
}

/// How many counters there are.
pub(crate) const COUNTS: usize = Count::StartNs as usize + 1;

/// What programs cannot do inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(usize)]
pub enum UnsupportedKind {
    /// A process that shares memory with its parent other than by vfork, such as LeakSanitizer's.
    MemorySharingProcess,
    /// Tracing of other processes: debuggers.
    Ptrace,
    /// A program that is not 64-bit x86.
    ForeignProgram,
    /// A program whose file gives it other rights.
    SetuidProgram,
    /// A program that may be executed and not read.
    UnreadableProgram,
    /// A filter of system calls.
    Seccomp,
    /// A 32-bit system call, `int 0x80`.
    LegacyCall,
    /// A fixed mapping at an address where the runner lies.
    OccupiedAddress,
    /// A descriptor number that the runner uses.
    OccupiedDescriptor,
    /// Dispatch of system calls to user space, traps on the time-stamp counter, or other bounds of the process's memory (`PR_SET_MM`).
    ThreadControl,
    /// A system call that is not in the runner's table, such as `io_uring_setup`.
    UnlistedCall,
    /// A request of `ioctl` that is not in the runner's table.
    UnlistedControl,
}

impl fmt::Display for UnsupportedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnsupportedKind::MemorySharingProcess => "a process that shares its parent's memory (clone with CLONE_VM)",
            UnsupportedKind::Ptrace => "tracing of processes (ptrace)",
            UnsupportedKind::ForeignProgram => "a program that is not 64-bit x86",
            UnsupportedKind::SetuidProgram => "a set-user-ID, set-group-ID or capability program",
            UnsupportedKind::UnreadableProgram => "a program that may be executed and not read",
            UnsupportedKind::Seccomp => "a filter of system calls (seccomp)",
            UnsupportedKind::LegacyCall => "a 32-bit system call (int 0x80)",
            UnsupportedKind::OccupiedAddress => "a fixed mapping where the runner lies",
            UnsupportedKind::OccupiedDescriptor => "a descriptor number that the runner uses",
            UnsupportedKind::ThreadControl => {
                "dispatch of system calls to user space, or a trapping time-stamp counter"
            }
            UnsupportedKind::UnlistedCall => "a system call that does not exist inside (the detail is its number)",
            UnsupportedKind::UnlistedControl => {
                "a request of ioctl that does not exist inside (the detail is its number)"
            }
        })
    }
}

/// Every kind of refusal.
pub(crate) const REFUSED: [UnsupportedKind; 12] = [
    UnsupportedKind::MemorySharingProcess,
    UnsupportedKind::Ptrace,
    UnsupportedKind::ForeignProgram,
    UnsupportedKind::SetuidProgram,
    UnsupportedKind::UnreadableProgram,
    UnsupportedKind::Seccomp,
    UnsupportedKind::LegacyCall,
    UnsupportedKind::OccupiedAddress,
    UnsupportedKind::OccupiedDescriptor,
    UnsupportedKind::ThreadControl,
    UnsupportedKind::UnlistedCall,
    UnsupportedKind::UnlistedControl,
];

/// Counters.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Tally {
    counts: [AtomicU64; COUNTS],
    calls: [AtomicU64; CALL_NUMBERS],
}

impl Tally {
    /// Adds `more` to a counter.
    pub(crate) fn add(&self, count: Count, more: u64) {
        self.counts[count as usize].fetch_add(more, Ordering::Relaxed);
    }

    /// Counts one system call.
    pub(crate) fn call(&self, number: u64) {
        self.add(Count::Calls, 1);
        if let Some(calls) = usize::try_from(number).ok().and_then(|number| self.calls.get(number)) {
            calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A counter's value.
    pub(crate) fn get(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    /// How many calls of `number` there were.
    pub(crate) fn calls_of(&self, number: usize) -> u64 {
        self.calls.get(number).map_or(0, |calls| calls.load(Ordering::Relaxed))
    }

    /// Moves everything into `totals`.
    fn move_into(&self, totals: &Tally) {
        for (from, to) in self.counts.iter().zip(&totals.counts).chain(self.calls.iter().zip(&totals.calls)) {
            match from.swap(0, Ordering::Relaxed) {
                0 => {}
                more => drop(to.fetch_add(more, Ordering::Relaxed)),
            }
        }
    }
}

/// What a thread was seen doing last.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Place {
    /// The thread's number; 0 is nobody.
    pub(crate) thread: AtomicU32,
    /// One of [`Doing`].
    pub(crate) doing: AtomicU32,
    /// The system call's number, or the exception's.
    pub(crate) number: AtomicU64,
    /// The guest's instruction pointer at its last exit.
    pub(crate) rip: AtomicU64,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Doing {
    /// It computes in the guest.
    Computing,
    /// The host carries out a system call for it.
    Calling,
    /// It waits for a virtual processor.
    Waiting,
}

/// One process.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Page {
    used: AtomicU32,
    /// The process.
    pub(crate) pid: AtomicU32,
    /// What it has counted and not yet added to the totals.
    pub(crate) tally: Tally,
    /// Where its threads stand.
    pub(crate) places: [Place; PLACES],
}

/// How far the record of an error is.
const UNWRITTEN: u32 = 0;
const WRITING: u32 = 1;
const WRITTEN: u32 = 2;

/// The file: the header, then a page for each process.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Shared {
    magic: AtomicU64,
    version: AtomicU32,
    /// Pages that were ever used.
    highest: AtomicU32,
    /// What processes that ended by themselves have counted.
    pub(crate) totals: Tally,
    /// How often each kind of thing was refused, and a detail of the first.
    refused: [AtomicU64; REFUSED.len()],
    details: [AtomicU64; REFUSED.len()],
    error: AtomicU32,
    /// The exit code that belongs to the error.
    error_code: AtomicU32,
    error_bytes: AtomicU32,
    /// Which ring SYSCALL enters plus one; 0 is unknown.
    pub(crate) route: AtomicU32,
    text: [AtomicU8; TEXT],
    /// Nanoseconds from the beginning of the first image to its first entry into the guest.
    pub(crate) first_start_ns: AtomicU64,
    pages: [Page; PAGES],
}

/// Bytes of the file. Pages that were never used take none.
pub(crate) const BYTES: usize = size_of::<Shared>();

impl Shared {
    /// Makes a file of zeros into an empty record.
    pub(crate) fn begin(&self) {
        self.version.store(VERSION, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Whether this is a record of this version.
    pub(crate) fn is_valid(&self) -> bool {
        self.magic.load(Ordering::Acquire) == MAGIC && self.version.load(Ordering::Relaxed) == VERSION
    }

    /// The page at `index`.
    pub(crate) fn page(&self, index: usize) -> &Page {
        &self.pages[index.min(PAGES - 1)]
    }

    /// A page for process `pid`, of those that are free or were never used; the last one is shared when all are taken.
    pub(crate) fn claim(&self, pid: u32) -> usize {
        let known = (self.highest.load(Ordering::Relaxed) as usize).min(PAGES - 1);
        let free = |page: &Page| page.used.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let index = (0..known).find(|index| free(&self.pages[*index])).unwrap_or_else(|| {
            let fresh = (self.highest.fetch_add(1, Ordering::Relaxed) as usize).min(PAGES - 1);
            self.pages[fresh].used.store(1, Ordering::Release);
            fresh
        });
        self.pages[index].pid.store(pid, Ordering::Relaxed);
        index
    }

    /// Adds a page's counters to the totals and gives it back.
    pub(crate) fn finish(&self, index: usize) {
        let page = self.page(index);
        page.tally.move_into(&self.totals);
        if index < PAGES - 1 {
            page.places.iter().for_each(|place| place.thread.store(0, Ordering::Relaxed));
            page.pid.store(0, Ordering::Relaxed);
            page.used.store(0, Ordering::Release);
        }
    }

    /// Pages of processes that live or were killed.
    pub(crate) fn used_pages(&self) -> impl Iterator<Item = &Page> {
        let highest = (self.highest.load(Ordering::Relaxed) as usize).min(PAGES);
        self.pages[..highest].iter().filter(|page| page.used.load(Ordering::Acquire) != 0)
    }

    /// Notes that something was refused; `detail` is kept of the first time.
    pub(crate) fn refuse(&self, what: UnsupportedKind, detail: u64) {
        let _ = self.details[what as usize].compare_exchange(0, detail, Ordering::Relaxed, Ordering::Relaxed);
        self.refused[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often something was refused, and the first time's detail.
    pub(crate) fn refusals(&self, what: UnsupportedKind) -> (u64, u64) {
        let at = what as usize;
        (self.refused[at].load(Ordering::Relaxed), self.details[at].load(Ordering::Relaxed))
    }

    /// Notes why the runner could not continue; the first reason stays.
    pub(crate) fn fail(&self, code: i32, text: &str) {
        if self.error.compare_exchange(UNWRITTEN, WRITING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        let bytes = text.as_bytes().iter().take(TEXT);
        self.text.iter().zip(bytes).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
        self.error_bytes.store(u32::try_from(text.len().min(TEXT)).unwrap_or(0), Ordering::Relaxed);
        self.error_code.store(code.cast_unsigned(), Ordering::Relaxed);
        self.error.store(WRITTEN, Ordering::Release);
    }

    /// Why a runner could not continue, and its exit code.
    pub(crate) fn failure(&self) -> Option<(i32, String)> {
        if self.error.load(Ordering::Acquire) != WRITTEN {
            return None;
        }
        let bytes = self.text.iter().take(self.error_bytes.load(Ordering::Relaxed) as usize);
        let text: Vec<u8> = bytes.map(|byte| byte.load(Ordering::Relaxed)).collect();
        let code = self.error_code.load(Ordering::Relaxed).cast_signed();
        Some((code, String::from_utf8_lossy(&text).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Box<Shared> {
        crate::record::zeroed()
    }

    #[test]
    fn what_a_process_counted_outlives_it_and_its_page_is_used_again() {
        let shared = empty();
        assert!(!shared.is_valid());
        shared.begin();
        assert!(shared.is_valid());
        let (first, second) = (shared.claim(10), shared.claim(11));
        assert_eq!((first, second), (0, 1));
        shared.page(first).tally.call(39);
        shared.page(first).tally.call(1 << 40);
        shared.page(second).tally.add(Count::Signals, 5);
        shared.finish(first);
        assert_eq!((shared.totals.get(Count::Calls), shared.totals.calls_of(39)), (2, 1));
        assert_eq!(shared.used_pages().map(|page| page.pid.load(Ordering::Relaxed)).collect::<Vec<_>>(), [11]);
        assert_eq!(shared.claim(12), 0, "the page that was given back");
        assert_eq!(shared.page(0).tally.get(Count::Calls), 0);
    }

    #[test]
    fn processes_beyond_the_last_page_share_it() {
        let shared = empty();
        let claimed: Vec<usize> = (0u32..).take(PAGES + 3).map(|pid| shared.claim(pid)).collect();
        assert_eq!(claimed.last(), Some(&(PAGES - 1)));
        shared.finish(PAGES - 1);
        assert_eq!(shared.used_pages().count(), PAGES, "the shared page stays");
    }

    #[test]
    fn the_first_failure_and_the_first_detail_stay() {
        let shared = empty();
        assert_eq!(shared.failure(), None);
        shared.fail(125, "no vCPU");
        shared.fail(126, "later");
        assert_eq!(shared.failure(), Some((125, "no vCPU".to_owned())));
        shared.refuse(UnsupportedKind::Ptrace, 16);
        shared.refuse(UnsupportedKind::Ptrace, 17);
        assert_eq!(shared.refusals(UnsupportedKind::Ptrace), (2, 16));
    }
}
