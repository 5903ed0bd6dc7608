//! The memory that the runner of a protected program shares with whoever makes checkpoints of it.
//!
//! The maker of checkpoints sets `stop` and signals the threads. Each writes its registers into its slot and stands until `stop` is 0
//! again. While all stand, the bytes of this record and the program's pages and descriptors are one consistent image of the program.
//! Everything is an atomic number: writers are threads of two processes.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// "snapshot" in the file's first bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"snapshot");
/// The most threads of a protected program.
pub(crate) const THREADS: usize = 64;
/// Ranges of the runner's own memory.
const OWNED: usize = 288;
/// Refused calls of different kinds that are kept until they are read.
const REFUSALS: usize = 64;
const PATH: usize = 4096;
const SIGNALS: usize = 65;
/// Words of the extended state: 4096 bytes.
pub(crate) const EXTENDED_WORDS: usize = 512;

/// Why a call of a protected program is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Reason {
    Call,
    OpenForWriting,
    NoRegularFile,
    SharedMapping,
    Process,
    OtherProcess,
    Socket,
    Address,
    SocketOption,
    Message,
    Duplicate,
    FutexOwner,
    Mask,
    Threads,
    Control,
    Packets,
}

const REASONS: [(Reason, &str); 16] = [
    (Reason::Call, "a secondary cannot continue its effect"),
    (Reason::OpenForWriting, "files can be opened for reading alone"),
    (Reason::NoRegularFile, "the file is not a regular one"),
    (Reason::SharedMapping, "memory cannot be shared with files or processes"),
    (Reason::Process, "the program must stay one process"),
    (Reason::OtherProcess, "signals to other processes cannot be repeated"),
    (Reason::Socket, "sockets must be listening TCP sockets"),
    (Reason::Address, "the address must be IPv4 or IPv6 with a port other than 0"),
    (Reason::SocketOption, "this socket option would be lost"),
    (Reason::Message, "messages with addresses or control data cannot be repeated"),
    (Reason::Duplicate, "copies of a descriptor would not share its offset or state any more"),
    (Reason::FutexOwner, "numbers of threads in priority-inheriting locks would change"),
    (Reason::Mask, "a signal mask for the time of a call would be lost"),
    (Reason::Threads, "a protected program has at most 64 threads"),
    (Reason::Control, "this request would be lost"),
    (Reason::Packets, "boundaries of packets in a pipe would be lost"),
];

impl Reason {
    /// In words.
    pub(crate) fn text(number: u32) -> &'static str {
        REASONS.iter().find(|(reason, _)| *reason as u32 == number).map_or("unknown", |(_, text)| text)
    }
}

/// A thread.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Slot {
    /// 1 while a thread has it.
    pub(crate) used: AtomicU32,
    /// The request to stand for which its thread stands, a number of [`Snapshot::stop`]; 0 while it runs.
    pub(crate) standing: AtomicU32,
    /// The kernel's number of the thread; 0 before it has one.
    pub(crate) host_id: AtomicU32,
    /// Its number as the program knows it, which survives a failover.
    pub(crate) id: AtomicU32,
    pub(crate) registers: [AtomicU64; 18],
    pub(crate) fs: AtomicU64,
    pub(crate) gs: AtomicU64,
    pub(crate) mask: AtomicU64,
    pub(crate) signal_stack: [AtomicU64; 3],
    /// Where a 0 is written, and who waits there is woken, when the thread ends.
    pub(crate) clear_id: AtomicU64,
    /// The list of robust locks, and its length.
    pub(crate) robust: [AtomicU64; 2],
    /// Of a call with a time limit that was interrupted: where it is made, and when it ends, in nanoseconds.
    pub(crate) deadline: [AtomicU64; 2],
    pub(crate) extended: [AtomicU64; EXTENDED_WORDS],
}

/// The record.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Snapshot {
    magic: AtomicU64,
    /// The number of the request by which threads shall stand, one for each checkpoint; 0 while they may run.
    pub(crate) stop: AtomicU32,
    /// Changes whenever a thread stands or is gone.
    pub(crate) standing: AtomicU32,
    /// How many live.
    pub(crate) living: AtomicU32,
    /// The signal that makes a thread look at `stop`.
    pub(crate) signal: AtomicU32,
    /// By which the names of this runner's sockets begin.
    pub(crate) owner: AtomicU32,
    /// The runner's userfaultfd, plus one.
    pub(crate) faults: AtomicU32,
    /// The lowest descriptor of the runner's own.
    pub(crate) first_own: AtomicU32,
    owned_count: AtomicU32,
    owned: [[AtomicU64; 2]; OWNED],
    refused: AtomicU32,
    refusals: [AtomicU64; REFUSALS],
    /// The process's number as the program knows it, and the last one of a thread.
    pub(crate) pid: AtomicU32,
    pub(crate) last_id: AtomicU32,
    pub(crate) program_break: [AtomicU64; 2],
    path_bytes: AtomicU32,
    path: [AtomicU8; PATH],
    pub(crate) ignored: AtomicU64,
    pub(crate) actions: [[AtomicU64; 4]; SIGNALS],
    pub(crate) slots: [Slot; THREADS],
}

/// Bytes of the file.
pub(crate) const BYTES: usize = size_of::<Snapshot>();

impl Snapshot {
    /// Makes a file of zeros into an empty record, whose sockets have names of this owner.
    pub(crate) fn begin(&self, owner: u32) {
        self.owner.store(owner, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Whether this is a record.
    pub(crate) fn is_valid(&self) -> bool {
        self.magic.load(Ordering::Acquire) == MAGIC
    }

    /// Whether all threads stand for the request that is made. One that still stands for the request before has not gone on since: it may be one that nobody
    /// lets run any more.
    pub(crate) fn all_stand(&self) -> bool {
        let asked = self.stop.load(Ordering::SeqCst);
        let standing = self.threads().filter(|slot| slot.standing.load(Ordering::SeqCst) == asked).count();
        asked != 0 && standing != 0 && standing == self.living.load(Ordering::SeqCst) as usize
    }

    /// Threads that live.
    pub(crate) fn threads(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.used.load(Ordering::Acquire) != 0)
    }

    /// Sets what belongs to the runner.
    pub(crate) fn own(&self, ranges: impl Iterator<Item = std::ops::Range<u64>>) {
        let mut count = 0;
        for ([start, end], range) in self.owned.iter().zip(ranges) {
            start.store(range.start, Ordering::Relaxed);
            end.store(range.end, Ordering::Relaxed);
            count += 1;
        }
        self.owned_count.store(count, Ordering::Release);
    }

    /// What belongs to the runner.
    pub(crate) fn owned(&self) -> Vec<(u64, u64)> {
        let count = (self.owned_count.load(Ordering::Acquire) as usize).min(OWNED);
        let range = |[start, end]: &[AtomicU64; 2]| (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed));
        self.owned[..count].iter().map(range).collect()
    }

    /// Notes a refused call; those of a kind that is noted already are not kept.
    pub(crate) fn refuse(&self, number: u64, reason: Reason) {
        let entry = (reason as u64 + 1) << 32 | number & u64::from(u32::MAX);
        for place in &self.refusals {
            match place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.refused.fetch_add(1, Ordering::AcqRel);
                    return;
                }
                Err(known) if known == entry => return,
                Err(_) => {}
            }
        }
    }

    /// Refused calls from the `from`-th on: their numbers and reasons.
    pub(crate) fn refusals(&self, from: usize) -> Vec<(u32, u32)> {
        let count = (self.refused.load(Ordering::Acquire) as usize).min(REFUSALS);
        let entry = |place: &AtomicU64| {
            let [a, b, c, d, e, f, g, h] = place.load(Ordering::Acquire).to_le_bytes();
            (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]).saturating_sub(1))
        };
        self.refusals[from.min(count)..count].iter().map(entry).collect()
    }

    /// Sets the program's path.
    pub(crate) fn set_path(&self, path: &[u8]) {
        let length = path.len().min(PATH);
        self.path.iter().zip(path).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
        self.path_bytes.store(u32::try_from(length).unwrap_or(0), Ordering::Relaxed);
    }

    /// The program's path.
    pub(crate) fn path(&self) -> Vec<u8> {
        let length = (self.path_bytes.load(Ordering::Relaxed) as usize).min(PATH);
        self.path[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect()
    }

    /// Bytes of the record up to its last thread.
    pub(crate) fn used_bytes(&self) -> usize {
        let used =
            self.slots.iter().rposition(|slot| slot.used.load(Ordering::Acquire) != 0).map_or(0, |last| last + 1);
        BYTES - (THREADS - used) * size_of::<Slot>()
    }
}

/// Copies numbers.
pub(crate) fn store<const N: usize>(to: &[AtomicU64; N], from: [u64; N]) {
    to.iter().zip(from).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
}

/// Reads numbers.
pub(crate) fn load<const N: usize>(from: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|at| from[at].load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_a_kind_is_kept_once_and_in_order() {
        let snapshot = crate::record::zeroed::<Snapshot>();
        snapshot.begin(7);
        assert!(snapshot.is_valid() && !snapshot.all_stand());
        snapshot.refuse(2, Reason::OpenForWriting);
        snapshot.refuse(41, Reason::Socket);
        snapshot.refuse(2, Reason::OpenForWriting);
        assert_eq!(snapshot.refusals(0), [(2, Reason::OpenForWriting as u32), (41, Reason::Socket as u32)]);
        assert_eq!(snapshot.refusals(1).len(), 1);
        assert!(snapshot.refusals(9).is_empty());
        assert!(Reason::text(Reason::Socket as u32).contains("listening TCP"));
    }

    #[test]
    fn a_record_is_as_long_as_its_last_thread_needs() {
        let snapshot = crate::record::zeroed::<Snapshot>();
        assert_eq!(snapshot.used_bytes(), BYTES - THREADS * size_of::<Slot>());
        snapshot.slots[2].used.store(1, Ordering::Relaxed);
        assert_eq!(snapshot.used_bytes(), BYTES - (THREADS - 3) * size_of::<Slot>());
        assert!(snapshot.used_bytes().is_multiple_of(64));
    }
}
