//! Streams of addresses: the kernels' own generators, endless and in blocks.
//!
//! A stream also says what the model must know in addition to addresses: whether an access needs the last one's value
//! (a chase does, an update of RandomAccess does not). Addresses begin at a fixed place high in the user's half.

use crate::random::Random;

/// Where the first buffer of a synthetic stream begins: where Linux maps large buffers.
const BASE: u64 = 0x7f00_0000_0000;
/// RandomAccess runs so many streams in turn (HPCC 1.4.1 and 1.5).
const STREAMS: usize = 128;

/// Whether accesses wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependence {
    /// Addresses are known early: misses and walks overlap as far as the processor can.
    Independent,
    /// Each address is the value that the last access loaded: nothing overlaps.
    Dependent,
}

/// A source of addresses.
pub trait Stream {
    /// Fills `block` with the next addresses.
    fn fill(&mut self, block: &mut [u64]);

    /// Leaves out the next addresses.
    fn skip(&mut self, accesses: usize) {
        let mut block = [0; 1024];
        let mut left = accesses;
        while left > 0 {
            let now = left.min(block.len());
            let Some(part) = block.get_mut(..now) else { return };
            self.fill(part);
            left -= now;
        }
    }

    /// Whether accesses wait for one another.
    fn dependence(&self) -> Dependence {
        Dependence::Independent
    }

    /// Whether each address is drawn independently of those before: a few of them then tell what translating all of them
    /// does ([`Setup::repeats`](crate::scheme::Setup::repeats)).
    fn is_independent(&self) -> bool {
        false
    }

    /// Bytes that the program touches, so far as known: the span of data that a guest's memory must hold.
    fn footprint(&self) -> u64;
}

/// Sizes that a stream cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A table that is not a power of two.
    #[error("a table of {0} bytes; RandomAccess needs a power of two, from 1 KiB to 2^44")]
    Table(u64),
    /// A buffer that holds nothing.
    #[error("a buffer of {0} bytes; take at least 4096 and at most 2^44")]
    Buffer(u64),
}

/// RandomAccess of the HPC Challenge: x -> 2x mod (x^64 + x^2 + x + 1), 128 streams in turn.
#[derive(Clone, Debug)]
pub struct RandomAccess {
    registers: [u64; STREAMS],
    next: usize,
    bytes: u64,
}

impl RandomAccess {
    /// Updates of a table of `bytes`. The streams begin at states spread by a fixed seed instead of 4 words/128 steps apart:
    /// the register's states are uniform either way.
    ///
    /// # Errors
    /// When `bytes` is not a power of two from 1 KiB on.
    pub fn new(bytes: u64) -> Result<Self, StreamError> {
        if !bytes.is_power_of_two() || !(1 << 10..=1 << 44).contains(&bytes) {
            return Err(StreamError::Table(bytes));
        }
        let mut random = Random::new(128);
        Ok(RandomAccess { registers: std::array::from_fn(|_| random.bits() | 1), next: 0, bytes })
    }
}

impl Stream for RandomAccess {
    fn fill(&mut self, block: &mut [u64]) {
        for address in block {
            let register = &mut self.registers[self.next];
            *register = (*register << 1) ^ ((*register >> 63) * 7);
            *address = BASE + ((*register << 3) & (self.bytes - 1));
            self.next = (self.next + 1) % STREAMS;
        }
    }

    /// 128 registers take turns, and a register's next index is its last one shifted, which is as far away as any.
    fn is_independent(&self) -> bool {
        true
    }

    fn footprint(&self) -> u64 {
        self.bytes
    }
}

/// Triad, `a[i] = b[i] + s c[i]`: three buffers one after another, 8 bytes an access, for ever again.
#[derive(Clone, Debug)]
pub struct Triad {
    bytes: u64,
    at: u64,
    buffer: u64,
}

impl Triad {
    /// Triad over three buffers of `bytes` each.
    ///
    /// # Errors
    /// When a buffer is smaller than a page.
    pub fn new(bytes: u64) -> Result<Self, StreamError> {
        Ok(Triad { bytes: buffer(bytes)?, at: 0, buffer: 0 })
    }
}

impl Stream for Triad {
    fn fill(&mut self, block: &mut [u64]) {
        for address in block {
            *address = BASE + self.buffer * self.bytes + self.at;
            self.buffer += 1;
            if self.buffer == 3 {
                self.buffer = 0;
                self.at = (self.at + 8) % self.bytes;
            }
        }
    }

    fn footprint(&self) -> u64 {
        3 * self.bytes
    }
}

/// A pointer chase through every line of a buffer in random order: each load waits for the last.
#[derive(Clone, Debug)]
pub struct Chase {
    bytes: u64,
    random: Random,
}

impl Chase {
    /// A chase through `bytes`.
    ///
    /// # Errors
    /// When the buffer is smaller than a page.
    pub fn new(bytes: u64) -> Result<Self, StreamError> {
        Ok(Chase { bytes: buffer(bytes)?, random: Random::new(bytes) })
    }
}

impl Stream for Chase {
    /// Lines are drawn anew instead of following one cycle: a cycle of many lines is indistinguishable, and needs memory.
    fn fill(&mut self, block: &mut [u64]) {
        for address in block {
            *address = BASE + (self.random.below(self.bytes / 64) << 6);
        }
    }

    fn dependence(&self) -> Dependence {
        Dependence::Dependent
    }

    fn is_independent(&self) -> bool {
        true
    }

    fn footprint(&self) -> u64 {
        self.bytes
    }
}

/// The trailing update of a blocked LU factorization, C -= A B with packed A and B, as far as translation sees it: columns
/// of C, `leading` bytes apart, are read and written in pieces of `rows` elements; the packed blocks stay in the TLBs.
///
/// After Goto & van de Geijn, "Anatomy of high-performance matrix multiplication" (TOMS 2008).
#[derive(Clone, Debug)]
pub struct BlockedUpdate {
    leading: u64,
    columns: u64,
    piece: u64,
    column: u64,
    row: u64,
}

impl BlockedUpdate {
    /// A square matrix of `order` doubles in columns, updated in pieces of `rows` rows. One access per cache line of C.
    ///
    /// # Errors
    /// When the matrix is smaller than a page or has fewer rows than a piece.
    pub fn new(order: u64, rows: u64) -> Result<Self, StreamError> {
        let leading = order * 8;
        buffer(leading * order)?;
        if rows == 0 || rows > order {
            return Err(StreamError::Buffer(rows * 8));
        }
        Ok(BlockedUpdate { leading, columns: order, piece: rows * 8, column: 0, row: 0 })
    }

    /// Floating-point operations for each access when the blocks are `depth` deep: a line holds 8 elements of C.
    #[must_use]
    pub fn flops_per_access(depth: u64) -> f64 {
        (8 * 2 * depth) as f64
    }
}

impl Stream for BlockedUpdate {
    fn fill(&mut self, block: &mut [u64]) {
        for address in block {
            let base = self.row / self.piece * self.piece;
            *address = BASE + self.column * self.leading + self.row;
            self.row += 64;
            if self.row >= (base + self.piece).min(self.leading) {
                self.column += 1;
                self.row = base;
                if self.column == self.columns {
                    self.column = 0;
                    self.row = if base + self.piece >= self.leading { 0 } else { base + self.piece };
                }
            }
        }
    }

    fn footprint(&self) -> u64 {
        self.leading * self.columns
    }
}

/// First touches: one access to each small page of a buffer in order, as a program meets fresh memory.
#[derive(Clone, Debug)]
pub struct Touch {
    bytes: u64,
    at: u64,
}

impl Touch {
    /// Touches of `bytes`, for ever again.
    ///
    /// # Errors
    /// When the buffer is smaller than a page.
    pub fn new(bytes: u64) -> Result<Self, StreamError> {
        Ok(Touch { bytes: buffer(bytes)?, at: 0 })
    }
}

impl Stream for Touch {
    fn fill(&mut self, block: &mut [u64]) {
        for address in block {
            *address = BASE + self.at;
            self.at = (self.at + 4096) % self.bytes;
        }
    }

    fn footprint(&self) -> u64 {
        self.bytes
    }
}

fn buffer(bytes: u64) -> Result<u64, StreamError> {
    if (4096..=1 << 44).contains(&bytes) { Ok(bytes & !63) } else { Err(StreamError::Buffer(bytes)) }
}
