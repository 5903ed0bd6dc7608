//! Stamped blocks: what was written can be distinguished from what should have been, and what went wrong has a name.
//!
//! Every 512-byte sector carries a checksum, the seed of its run, the offset of its block and the block's sequence number; its
//! payload follows from these. A ledger holds for each block the last sequence number issued and the last acknowledged, so that
//! a block that is intact but old is found too. A ledger kept in a file survives `kill -9` of the writer.
//!
//! A write torn so late that all that differs is one bit cannot be distinguished from a flipped bit.

use crate::io::calls;
use crate::writable::Writable;
use baremark_stats::Rng;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that have a stamp of their own.
pub const SECTOR: usize = 512;
const MAGIC: u32 = 0x6b6c_6d62;
const HEAD: usize = 32;

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit differs from what was written.
    BitFlip {
        /// The byte in the block.
        byte: usize,
        /// The bit in it.
        bit: u32,
    },
    /// It holds the data of an earlier write than the last one acknowledged: a write was lost.
    Stale {
        /// The sequence number found.
        found: u32,
        /// The one acknowledged.
        acknowledged: u32,
    },
    /// It holds the data of another block.
    Misdirected {
        /// The offset for which they were written.
        belongs_at: u64,
    },
    /// A part is of one write and the rest of another.
    Torn {
        /// The sequence number at the block's start.
        start: u32,
        /// The one at its end.
        end: u32,
    },
    /// It holds data of another run or from no stamped write.
    Foreign,
    /// It holds a later write than was ever issued.
    NeverWritten {
        /// The sequence number found.
        found: u32,
    },
    /// Its content fits no write, in this many sectors.
    Corrupt {
        /// Sectors whose checksum is wrong.
        sectors: usize,
    },
    /// The device returned an error.
    Unreadable {
        /// Its number (errno).
        error: i32,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::BitFlip { byte, bit } => write!(f, "bit flip in byte {byte}, bit {bit}"),
            Damage::Stale { found, acknowledged } => {
                write!(f, "stale: holds write {found}, write {acknowledged} was acknowledged")
            }
            Damage::Misdirected { belongs_at } => {
                write!(f, "misdirected write: holds the block of offset {belongs_at}")
            }
            Damage::Torn { start, end } => write!(f, "torn write: starts with write {start}, ends with write {end}"),
            Damage::Foreign => write!(f, "holds data that this run did not write"),
            Damage::NeverWritten { found } => write!(f, "holds write {found}, which was never issued"),
            Damage::Corrupt { sectors } => write!(f, "corrupt in {sectors} sectors"),
            Damage::Unreadable { error } => {
                write!(f, "unreadable: {}", io::Error::from_raw_os_error(*error))
            }
        }
    }
}

/// A damaged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its offset in bytes.
    pub offset: u64,
    /// What is wrong.
    pub damage: Damage,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block at offset {}: {}", self.offset, self.damage)
    }
}

/// Fills a block, a multiple of [`SECTOR`], with write number `sequence` of the block at `offset`.
pub fn stamp(block: &mut [u8], seed: u64, offset: u64, sequence: u32) {
    for (index, sector) in block.chunks_exact_mut(SECTOR).enumerate() {
        stamp_sector(sector, seed, offset, sequence, index);
    }
}

fn stamp_sector(sector: &mut [u8], seed: u64, offset: u64, sequence: u32, index: usize) {
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    sector[4..8].copy_from_slice(&MAGIC.to_le_bytes());
    sector[8..16].copy_from_slice(&seed.to_le_bytes());
    sector[16..24].copy_from_slice(&offset.to_le_bytes());
    sector[24..28].copy_from_slice(&sequence.to_le_bytes());
    sector[28..32].copy_from_slice(&index.to_le_bytes());
    let mut random = Rng::stream(seed ^ offset.rotate_left(32), u64::from(sequence) << 32 | u64::from(index));
    for word in sector[HEAD..].chunks_exact_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    let sum = crc32fast::hash(&sector[4..]);
    sector[..4].copy_from_slice(&sum.to_le_bytes());
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn intact(sector: &[u8]) -> bool {
    word32(sector, 4) == MAGIC && word32(sector, 0) == crc32fast::hash(&sector[4..])
}

/// The sequence number of the intact block at `offset`, of which writes up to `issued` were begun and those up to
/// `acknowledged` completed.
///
/// # Errors
/// What is wrong with it.
pub fn check(block: &[u8], seed: u64, offset: u64, acknowledged: u32, issued: u32) -> Result<u32, Damage> {
    let sectors: Vec<&[u8]> = block.chunks_exact(SECTOR).collect();
    let good: Vec<&&[u8]> = sectors.iter().filter(|sector| intact(sector)).collect();
    if let Some(stray) = good.iter().find(|sector| word64(sector, 8) != seed || word64(sector, 16) != offset) {
        let same_run = word64(stray, 8) == seed;
        return Err(if same_run { Damage::Misdirected { belongs_at: word64(stray, 16) } } else { Damage::Foreign });
    }
    let sequences: Vec<u32> = good.iter().map(|sector| word32(sector, 24)).collect();
    if good.len() < sectors.len() {
        return Err(broken(&sectors, seed, offset, &sequences, (acknowledged, issued)));
    }
    match (sequences.first(), sequences.last()) {
        (Some(&start), Some(&end)) if sequences.iter().any(|sequence| *sequence != start) => {
            Err(Damage::Torn { start, end })
        }
        (Some(&found), _) if found < acknowledged => Err(Damage::Stale { found, acknowledged }),
        (Some(&found), _) if found > issued => Err(Damage::NeverWritten { found }),
        (Some(&found), _) => Ok(found),
        _ => Err(Damage::Corrupt { sectors: 0 }),
    }
}

/// Names what is wrong with a block of which some sectors' checksums are.
fn broken(sectors: &[&[u8]], seed: u64, offset: u64, sequences: &[u32], known: (u32, u32)) -> Damage {
    let bad: Vec<usize> = (0..sectors.len()).filter(|&index| !intact(sectors[index])).collect();
    if let [index] = bad[..] {
        if let Some((byte, bit)) = flipped(sectors[index]) {
            return Damage::BitFlip { byte: index * SECTOR + byte, bit };
        }
        let mut candidates: Vec<u32> = sequences.to_vec();
        candidates.extend([known.0.saturating_sub(1), known.0, known.1.saturating_sub(1), known.1]);
        candidates.sort_unstable();
        candidates.dedup();
        if let Some((start, end)) = cut(sectors[index], seed, offset, index, &candidates) {
            let start = if index > 0 { word32(sectors[0], 24) } else { start };
            let end = if index + 1 < sectors.len() { word32(sectors[sectors.len() - 1], 24) } else { end };
            return Damage::Torn { start, end };
        }
    }
    if bad.len() == sectors.len() && sectors.iter().all(|sector| word32(sector, 4) != MAGIC) {
        return Damage::Foreign;
    }
    Damage::Corrupt { sectors: bad.len() }
}

/// The bit whose flip makes the sector intact again.
fn flipped(sector: &[u8]) -> Option<(usize, u32)> {
    let mut copy = sector.to_vec();
    for byte in 0..copy.len() {
        for bit in 0..8 {
            copy[byte] ^= 1 << bit;
            if intact(&copy) {
                return Some((byte, bit));
            }
            copy[byte] ^= 1 << bit;
        }
    }
    None
}

/// The two writes of which a sector holds the beginning and the end.
fn cut(sector: &[u8], seed: u64, offset: u64, index: usize, candidates: &[u32]) -> Option<(u32, u32)> {
    let whole = |sequence: u32| {
        let mut expected = vec![0; SECTOR];
        stamp_sector(&mut expected, seed, offset, sequence, index);
        expected
    };
    let expected: Vec<(u32, Vec<u8>)> = candidates.iter().map(|&sequence| (sequence, whole(sequence))).collect();
    for (start, first) in &expected {
        let same = sector.iter().zip(first).take_while(|(one, other)| one == other).count();
        let rest = expected.iter().find(|(end, last)| end != start && sector[same..] == last[same..]);
        if let Some((end, _)) = rest {
            return Some((*start, *end));
        }
    }
    None
}

/// All blocks of a target, read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBack {
    /// Those that are damaged, in order.
    pub faults: Vec<Fault>,
    /// Bytes that were in this system's page cache all the same, because nothing could drop them from it: what their disk has, if they have one, was not
    /// seen. Caches below, such as those of a host or of ZFS, are not known.
    pub cached_bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    issued: u32,
    acknowledged: u32,
    in_use: bool,
}

/// What was issued and what was acknowledged, for each block.
pub struct Ledger {
    seed: u64,
    block: usize,
    entries: Vec<Entry>,
    file: Option<File>,
    /// Its writer is gone. Rows wait for no disk: after a loss of power they may be older than blocks whose writes did wait.
    is_left: bool,
}

/// The first eight bytes of a ledger's file.
const LEDGER_MAGIC: u64 = 0x3172_6567_6465_6c62;
const LEDGER_HEAD: u64 = 32;

impl Ledger {
    /// Of a target of `size` bytes, a multiple of `block`; in memory alone.
    #[must_use]
    pub fn new(seed: u64, block: usize, size: u64) -> Ledger {
        let blocks = usize::try_from(size / block.max(1) as u64).unwrap_or(usize::MAX);
        Ledger { seed, block, entries: vec![Entry::default(); blocks], file: None, is_left: false }
    }

    /// The same in a new file, which another process can read whatever becomes of this one.
    ///
    /// # Errors
    /// When the file cannot be written, or another process holds it.
    pub fn create(path: &Path, seed: u64, block: usize, size: u64) -> io::Result<Ledger> {
        let file = Writable::file(path).map_err(io::Error::from)?.into_file();
        file.try_lock()?;
        let mut ledger = Ledger::new(seed, block, size);
        file.set_len(0)?;
        file.set_len(LEDGER_HEAD + 8 * ledger.entries.len() as u64)?;
        let head = [LEDGER_MAGIC, seed, block as u64, size];
        file.write_all_at(&head.map(u64::to_le_bytes).concat(), 0)?;
        // A loss of power may take rows from it, and not the ledger.
        file.sync_all()?;
        ledger.file = Some(file);
        Ok(ledger)
    }

    /// What a writer that is gone has left; `None` where there is no such file.
    ///
    /// # Errors
    /// When it cannot be read, is not a ledger, or its writer still runs.
    pub fn open(path: &Path) -> io::Result<Option<Ledger>> {
        let Some(file) = Writable::existing(path).map_err(io::Error::from)?.map(Writable::into_file) else {
            return Ok(None);
        };
        file.try_lock()?;
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes)?;
        let head = [0, 8, 16, 24].map(|at| word64(&bytes, at));
        let rows = bytes.get(32..).unwrap_or_default();
        let block = usize::try_from(head[2]).unwrap_or(0);
        if head[0] != LEDGER_MAGIC || block == 0 || rows.len() as u64 != head[3] / head[2] * 8 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a ledger of baremark, or was cut short"));
        }
        let entry = |row: &[u8]| Entry { issued: word32(row, 0), acknowledged: word32(row, 4), in_use: false };
        let entries = rows.chunks_exact(8).map(entry).collect();
        Ok(Some(Ledger { seed: head[1], block, entries, file: Some(file), is_left: true }))
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// Writes acknowledged so far.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.acknowledged)).sum()
    }

    fn at(&mut self, offset: u64) -> Option<(usize, &mut Entry)> {
        let index = usize::try_from(offset / self.block as u64).ok()?;
        self.entries.get_mut(index).map(|entry| (index, entry))
    }

    /// Begins a write of the block at `offset`: its sequence number, or `None` while another I/O uses the block.
    ///
    /// # Errors
    /// When the ledger's file cannot be written.
    pub fn begin_write(&mut self, offset: u64) -> io::Result<Option<u32>> {
        let Some((index, entry)) = self.at(offset).filter(|(_, entry)| !entry.in_use) else { return Ok(None) };
        entry.in_use = true;
        entry.issued += 1;
        let sequence = entry.issued;
        self.put(index, 0, sequence)?;
        Ok(Some(sequence))
    }

    /// The write `sequence` of the block at `offset` was acknowledged.
    ///
    /// # Errors
    /// When the ledger's file cannot be written.
    pub fn end_write(&mut self, offset: u64, sequence: u32) -> io::Result<()> {
        let Some((index, entry)) = self.at(offset) else { return Ok(()) };
        entry.in_use = false;
        entry.acknowledged = sequence;
        self.put(index, 4, sequence)
    }

    /// Begins a read of the block at `offset`; `false` while another I/O uses the block.
    pub fn begin_read(&mut self, offset: u64) -> bool {
        let free = self.at(offset).filter(|(_, entry)| !entry.in_use);
        free.map(|(_, entry)| entry.in_use = true).is_some()
    }

    /// Ends a read of the block at `offset`, whose content is checked.
    pub fn end_read(&mut self, offset: u64, block: &[u8]) -> Option<Fault> {
        if let Some((_, entry)) = self.at(offset) {
            entry.in_use = false;
        }
        self.fault(offset, block)
    }

    fn fault(&mut self, offset: u64, block: &[u8]) -> Option<Fault> {
        let (seed, is_left) = (self.seed, self.is_left);
        let (_, entry) = self.at(offset)?;
        let found = check(block, seed, offset, entry.acknowledged, entry.issued);
        let is_damage = |damage: &Damage| !(is_left && matches!(damage, Damage::NeverWritten { .. }));
        found.err().filter(is_damage).map(|damage| Fault { offset, damage })
    }

    fn put(&self, index: usize, at: u64, value: u32) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.write_all_at(&value.to_le_bytes(), LEDGER_HEAD + 8 * index as u64 + at)
    }

    /// Stamps a block for the first write of a fill.
    pub(crate) fn fill(&mut self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        let seed = self.seed;
        if let Some(sequence) = self.begin_write(offset)? {
            stamp(block, seed, offset, sequence);
        }
        Ok(())
    }

    /// The seed in every stamp.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Reads every block of `file` back, past this system's page cache. A block whose last write was not acknowledged may hold that or the
    /// one before it; one whose first write was not, as of a fill that was killed, may hold anything.
    ///
    /// # Errors
    /// Never for an unreadable block, which is damaged; when cached data cannot be written, or a buffer cannot be used for the file at all.
    pub fn check_all(&mut self, file: &File) -> io::Result<ReadBack> {
        let cached_bytes = calls::drop_cached(file, (self.entries.len() * self.block) as u64)?;
        let mut buffers = crate::io::buffers::Buffers::new(1, self.block);
        let mut faults = Vec::new();
        for index in 0..self.entries.len() {
            let offset = (index * self.block) as u64;
            if self.entries[index].acknowledged == 0 {
                continue;
            }
            let block = &mut buffers.of_mut(0)[..self.block];
            match file.read_exact_at(block, offset) {
                Ok(()) => faults.extend(self.fault(offset, &buffers.of(0)[..self.block])),
                Err(why) if why.kind() == io::ErrorKind::InvalidInput => return Err(why),
                Err(why) => {
                    let damage = Damage::Unreadable { error: why.raw_os_error().unwrap_or(libc::EIO) };
                    faults.push(Fault { offset, damage });
                }
            }
        }
        Ok(ReadBack { faults, cached_bytes })
    }
}
