//! Memory made of the pages that were requested: the arena that a workload is handed.
//!
//! Anonymous and private, each span on a boundary of 2 MiB, zero, and touched before anybody measures: by one thread, or by
//! each of a team's ranks its own part, from its own CPU, so that the kernel's first-touch policy puts it there. It is
//! touched by chunks of 2 MiB in random order, so that where pages come to lie in physical memory is drawn anew with
//! every allocation instead of being one lucky run of neighbours. Small pages over contiguous frames are made by splitting large ones, which
//! keeps the frames; over scattered frames by touching page by page in random order. What cannot be had as asked is not an error here:
//! [`Map::backing`] and [`Map::lies`] say what was got, and whoever needs it checks.

mod frames;

pub use frames::mapped_pages;

use crate::calls::checked;
use crate::process;
use crate::smaps::{self, Backing, OtherPages, SmapsError, THP_ENABLED};
use baremark_model::arm::Frames;
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Arena, MemoryError};
use baremark_model::units::Bytes;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Spans of memory with page size and place under control, unmapped when dropped.
#[derive(Debug)]
pub struct Map {
    #[expect(dead_code, reason = "held for its drop, which unmaps")]
    reservation: Reservation,
    /// The memory that is readable and writable, inside the reservation.
    start: NonNull<u8>,
    bytes: usize,
    spans: Vec<Span>,
    taken: AtomicUsize,
    page: PageSize,
    frames: Frames,
    /// Of small pages over contiguous frames: whether all were large pages before these were split.
    were_large: OnceLock<Result<(), NotLarge>>,
}

/// Why memory whose frames shall be contiguous was not all large pages that could be split.
#[derive(Debug, thiserror::Error)]
pub enum NotLarge {
    /// What it is made of is not known.
    #[error(transparent)]
    Unknown(#[from] SmapsError),
    /// It is made of other pages.
    #[error(transparent)]
    Other(#[from] OtherPages),
    /// The kernel does not split them.
    #[error("large pages could not be split: {0}")]
    Split(#[source] io::Error),
}

/// Memory whose frames do not lie as requested.
#[derive(Debug, thiserror::Error)]
pub enum OtherFrames<'m> {
    /// There were no large pages to split.
    #[error("requested {mapped} over contiguous frames: {why}")]
    NotLarge {
        /// All of it.
        mapped: Bytes,
        /// Why.
        why: &'m NotLarge,
    },
    /// Some frames are scattered.
    #[error("requested {mapped} over contiguous frames, got {contiguous}")]
    Scattered {
        /// All of it.
        mapped: Bytes,
        /// What lies over contiguous frames.
        contiguous: Bytes,
    },
    /// Some frames are contiguous.
    #[error("requested {mapped} over scattered frames, got {contiguous} over contiguous ones")]
    Contiguous {
        /// All of it.
        mapped: Bytes,
        /// What lies over contiguous frames.
        contiguous: Bytes,
    },
}

/// Whose a span is.
pub use baremark_model::seam::Owner;

/// One span, as an offset into the map; its end is padded to the next boundary of 2 MiB.
#[derive(Clone, Copy, Debug)]
struct Span {
    offset: usize,
    words: usize,
}

// SAFETY: a map owns its mapping as a box owns its contents; the pointers in it are to that mapping alone.
unsafe impl Send for Map {}
// SAFETY: through a shared map only `take_words` gives access, and its counter gives each span to one caller.
unsafe impl Sync for Map {}

impl Map {
    /// Memory for `spans` (sizes in bytes; none gives an arena of nothing), made of pages of `page` where the kernel can, zeroed and touched in an order
    /// drawn from `seed`.
    ///
    /// # Errors
    /// When more is asked than can be had without swapping, or when the kernel refuses.
    pub fn new(spans: &[u64], page: PageSize, seed: u64) -> Result<Map, MemoryError> {
        let map = Map::reserve(spans, page, Frames::AsGiven)?;
        map.touch(std::slice::from_ref(&(0..map.bytes())), seed);
        map.settle();
        Ok(map)
    }

    /// The same, untouched, with frames that lie as said where pages are small: there is no page of it yet. Whoever gets it lets its ranks
    /// [`Map::touch`] their parts, and then has it [`Map::settle`].
    ///
    /// # Errors
    /// As [`Map::new`].
    pub fn reserve(spans: &[u64], page: PageSize, frames: Frames) -> Result<Map, MemoryError> {
        let (spans, bytes) = lay_out(spans)?;
        refuse_too_much(bytes)?;
        let reservation = Reservation::new(bytes + 2 * CHUNK).map_err(|e| failed(bytes, "mmap", &e))?;
        let start = reservation.open(bytes).map_err(|e| failed(bytes, "mprotect", &e))?;
        let (taken, were_large) = (AtomicUsize::new(0), OnceLock::new());
        let map = Map { reservation, start, bytes, spans, taken, page, frames, were_large };
        map.advise()?;
        // Nobody who is forked meanwhile shares the pages: each would be copied at the next store, while it is measured.
        map.madvise(0, bytes, libc::MADV_DONTFORK).map_err(|e| failed(bytes, "madvise(MADV_DONTFORK)", &e))?;
        Ok(map)
    }

    /// The parts of all spans that are rank `rank`'s among `ranks`, as ranges of bytes from the map's start, on boundaries
    /// of the pages that are touched; `owners` says of each span whose it is. All ranks' parts together are the whole map.
    #[must_use]
    pub fn parts(&self, owners: &[Owner], rank: usize, ranks: usize) -> Vec<Range<u64>> {
        let ends = self.spans.iter().skip(1).map(|span| span.offset).chain([self.bytes]);
        let mut parts = Vec::new();
        for (index, (span, end)) in self.spans.iter().zip(ends).enumerate() {
            let page = Bytes(self.first_made_of().bytes()).count();
            let share = |rank: usize| match owners.get(index).unwrap_or(&Owner::Shared) {
                Owner::Rank(owner) if rank > *owner => end,
                Owner::Rank(_) => span.offset,
                // In words as they are shared out, and up to the end of a page: a page is whose first word it holds.
                Owner::Shared if rank == ranks => end,
                Owner::Shared => (span.offset + 8 * (span.words * rank / ranks.max(1))).next_multiple_of(page).min(end),
            };
            let part = share(rank) as u64..share(rank + 1) as u64;
            if !part.is_empty() {
                parts.push(part);
            }
        }
        parts
    }

    /// Writes a zero to every 4 KiB of `parts`, chunk by chunk in an order drawn from `seed`: where a large page could not
    /// be had, its small ones come to memory just so. Chunks are of 2 MiB, and of a page where frames are to be scattered. Meant for memory
    /// that no span was taken of.
    pub fn touch(&self, parts: &[Range<u64>], seed: u64) {
        let scattered = self.frames == Frames::Scattered && self.page == PageSize::Small;
        let size = if scattered { SMALL } else { CHUNK };
        let chunks: Vec<Range<u64>> = parts.iter().flat_map(|part| chunks(part, size as u64)).collect();
        for index in shuffled(chunks.len(), seed) {
            let chunk = chunks[index].start.min(self.bytes())..chunks[index].end.min(self.bytes());
            chunk.step_by(SMALL).for_each(|offset| self.zero(Bytes(offset / 8 * 8).count()));
        }
    }

    /// Zeroes the word at `offset`, a multiple of 8 below the map's size.
    fn zero(&self, offset: usize) {
        debug_assert!(offset + 8 <= self.bytes && offset.is_multiple_of(8));
        // SAFETY: an aligned word of our own mapping (see above); volatile because the store has no effect but the page.
        unsafe { self.start.as_ptr().add(offset).cast::<u64>().write_volatile(0) };
    }

    /// After everything was touched: asks again for large pages where they were not given, and splits them where small pages over contiguous
    /// frames are asked for. What the kernel has not freed or moved in one pass it may have for the next.
    pub fn settle(&self) {
        let page = self.first_made_of();
        if page == PageSize::Small {
            return;
        }
        let has = || -> Result<(), NotLarge> { Ok(self.backing()?.is(page)?) };
        let mut made = has();
        for _ in 0..COLLAPSES {
            if made.is_ok() {
                break;
            }
            self.collapse();
            made = has();
        }
        if page != self.page {
            let split = made.and_then(|()| self.split().map_err(NotLarge::Split));
            self.were_large.get_or_init(|| split);
        }
    }

    /// Whether the frames lie as asked. `contiguous` is what [`Map::contiguous_bytes`] has just said; without it frames are looked up where any are asked for.
    ///
    /// # Errors
    /// What was asked and what was got instead.
    pub fn lies(&self, contiguous: Option<u64>) -> Result<(), OtherFrames<'_>> {
        let mapped = Bytes(self.bytes());
        if let Some(Err(why)) = self.were_large.get() {
            return Err(OtherFrames::NotLarge { mapped, why });
        }
        if self.frames == Frames::AsGiven {
            return Ok(());
        }
        let Some(contiguous) = contiguous.or_else(|| self.contiguous_bytes()) else { return Ok(()) };
        match self.frames {
            Frames::Contiguous if contiguous < mapped.0 => {
                Err(OtherFrames::Scattered { mapped, contiguous: Bytes(contiguous) })
            }
            Frames::Scattered if contiguous > 0 => {
                Err(OtherFrames::Contiguous { mapped, contiguous: Bytes(contiguous) })
            }
            _ => Ok(()),
        }
    }

    /// Bytes in ranges of 2 MiB whose frames lie one after the other; `None` where the kernel does not show frames to this user.
    #[must_use]
    pub fn contiguous_bytes(&self) -> Option<u64> {
        frames::contiguous_bytes(self.address(), self.bytes()).ok().flatten()
    }

    /// What the memory is really made of.
    ///
    /// # Errors
    /// When smaps cannot be read or understood.
    pub fn backing(&self) -> Result<Backing, SmapsError> {
        smaps::backing_of(self.address(), self.bytes as u64)
    }

    /// The same by this text of smaps.
    ///
    /// # Errors
    /// When it cannot be understood.
    pub fn backing_in(&self, text: &str) -> Result<Backing, SmapsError> {
        smaps::backing_in(text, self.address(), self.bytes as u64)
    }

    /// The page size that was requested.
    #[must_use]
    pub fn page(&self) -> PageSize {
        self.page
    }

    /// Where the memory starts, a multiple of 2 MiB.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// How much memory it is: all spans, each padded to a multiple of 2 MiB.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// All of it at once, while no span is in use: to walk every page before the spans are handed out.
    pub fn whole(&mut self) -> &mut [u64] {
        // SAFETY: `start` is the begin of `bytes` readable and writable bytes, aligned to 2 MiB, initialised (zero or
        // what spans left there), and `&mut self` proves that no span borrowed from `&self` lives.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    /// Takes all spans back, zeroed, as after [`Map::new`]; the pages stay where they are.
    pub fn reset(&mut self) {
        self.whole().fill(0);
        self.taken.store(0, Ordering::Relaxed);
    }

    /// The pages that memory is made of when it is touched.
    fn first_made_of(&self) -> PageSize {
        if self.frames == Frames::Contiguous { PageSize::Large } else { self.page }
    }

    /// Makes small pages of all large ones, over the same frames: the kernel splits the mapping of a large page of which a part is to have
    /// another protection, and joins none that may have no large pages.
    fn split(&self) -> io::Result<()> {
        self.madvise(0, self.bytes, libc::MADV_NOHUGEPAGE)?;
        for offset in (0..self.bytes).step_by(CHUNK) {
            for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
                // SAFETY: the page lies in our own mapping, which nobody uses yet, and is readable and writable again afterwards.
                checked(unsafe { libc::mprotect(self.start.as_ptr().add(offset).cast(), SMALL, protection) })?;
            }
            // The first store to a page whose protection was changed may be a page fault.
            self.zero(offset);
        }
        Ok(())
    }

    fn advise(&self) -> Result<(), MemoryError> {
        let page = self.first_made_of();
        let (advice, name) = match page {
            PageSize::Small => (libc::MADV_NOHUGEPAGE, "MADV_NOHUGEPAGE"),
            PageSize::Large => (libc::MADV_HUGEPAGE, "MADV_HUGEPAGE"),
        };
        match self.madvise(0, self.bytes, advice) {
            Ok(()) => Ok(()),
            // A kernel without transparent huge pages knows neither advice; small pages are then all there is.
            Err(error) if page == PageSize::Small && error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            Err(error) => Err(MemoryError {
                what: asked(self.bytes, page),
                why: format!("madvise({name}): {error}; {THP_ENABLED} must exist and say madvise or always"),
            }),
        }
    }

    fn madvise(&self, offset: usize, bytes: usize, advice: i32) -> io::Result<()> {
        debug_assert!(offset + bytes <= self.bytes);
        // SAFETY: the range lies in our own mapping (all callers pass parts of `0..self.bytes`), and the advices that are
        // given change its pages, never its contents.
        checked(unsafe { libc::madvise(self.start.as_ptr().add(offset).cast(), bytes, advice) }).map(drop)
    }

    /// Asks the kernel to make huge pages of those chunks where it gave small ones. A refusal of one is not an error, nor says it anything
    /// about the next: what is still missing is found by whoever verifies.
    fn collapse(&self) {
        for chunk in 0..self.bytes / CHUNK {
            let _ = self.madvise(chunk * CHUNK, CHUNK, MADV_COLLAPSE);
        }
    }
}

impl Arena for Map {
    fn take_words(&self, words: usize) -> Result<&mut [u64], MemoryError> {
        let index = self.taken.fetch_add(1, Ordering::Relaxed);
        let what = || format!("span {} of {words} words", index + 1);
        let Some(span) = self.spans.get(index) else {
            let why = format!("the arena has {} spans; declare every span that is taken", self.spans.len());
            return Err(MemoryError { what: what(), why });
        };
        if words > span.words {
            let why = format!("the arena made it with {} words; declare its full size", span.words);
            return Err(MemoryError { what: what(), why });
        }
        // SAFETY: `span` lies inside the mapping (`lay_out`), starts on 2 MiB, is zero since `touch` or `reset`, and the
        // counter gave this index to nobody else; the mapping lives as long as `self`, from which the slice is borrowed.
        Ok(unsafe { slice::from_raw_parts_mut(self.start.as_ptr().add(span.offset).cast(), words) })
    }
}

/// Address space, unmapped when dropped. It begins inaccessible; what is not opened stays so and fences the rest, which
/// keeps the kernel from merging the opened part with a neighbour and catches whoever runs over its end.
#[derive(Debug)]
struct Reservation {
    start: NonNull<u8>,
    bytes: usize,
}

impl Reservation {
    fn new(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice; no existing memory is touched.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast()).map(|start| Reservation { start, bytes }).ok_or_else(io::Error::last_os_error)
    }

    /// Makes `bytes` on a boundary of 2 MiB accessible, with a fence before and after.
    fn open(&self, bytes: usize) -> io::Result<NonNull<u8>> {
        // Past the first page, then up to the boundary: the first page of the reservation is always fence.
        let offset = SMALL + (self.start.as_ptr() as usize + SMALL).wrapping_neg() % CHUNK;
        debug_assert!(offset + bytes < self.bytes);
        // SAFETY: `offset + bytes` is inside the reservation, which is 2 * CHUNK larger than `bytes`.
        let start = unsafe { self.start.add(offset) };
        // SAFETY: the range is ours and nobody uses it yet.
        let rc = unsafe { libc::mprotect(start.as_ptr().cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) };
        if rc == 0 { Ok(start) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: start and size are those of our own mapping, and whoever borrowed from it is gone. A failure would
        // leak address space and nothing else.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Places the spans one after the other, each on a boundary of 2 MiB, and gives the size of all.
fn lay_out(sizes: &[u64]) -> Result<(Vec<Span>, usize), MemoryError> {
    let mut offset = 0_usize;
    let mut spans = Vec::with_capacity(sizes.len());
    for &size in sizes {
        let bytes = usize::try_from(size).ok().and_then(|size| size.checked_next_multiple_of(CHUNK));
        let end = bytes.and_then(|bytes| offset.checked_add(bytes)).filter(|&end| end < ADDRESSABLE);
        let Some(end) = end.filter(|_| size > 0) else {
            let why = format!("a span must have from 1 byte to {}", Bytes(ADDRESSABLE as u64));
            return Err(MemoryError { what: format!("a span of {}", Bytes(size)), why });
        };
        spans.push(Span { offset, words: (end - offset) / 8 });
        offset = end;
    }
    Ok((spans, offset))
}

fn refuse_too_much(bytes: usize) -> Result<(), MemoryError> {
    let what = || Bytes(bytes as u64).to_string();
    let known = process::usable_memory_bytes();
    let (available, limit) = known.map_err(|e| MemoryError { what: what(), why: e.to_string() })?;
    if bytes as u64 <= limit {
        return Ok(());
    }
    let why = format!(
        "{} MiB are available, of which {} MiB can be used; request less or free memory",
        available >> 20,
        limit >> 20
    );
    Err(MemoryError { what: what(), why })
}

/// A range cut at the multiples of `size`.
fn chunks(part: &Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { start, end } = *part;
    (start / size..end.div_ceil(size)).map(move |chunk| {
        let first = chunk * size;
        first.max(start)..(first + size).min(end)
    })
}

/// The numbers below `count` in random order: Fisher and Yates with SplitMix64, whose modulo bias of `count` / 2^64 is
/// of no matter here.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = seed;
    for last in (1..count).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        #[expect(clippy::cast_possible_truncation, reason = "64-bit targets only")]
        order.swap(last, (z ^ (z >> 31)) as usize % (last + 1));
    }
    order
}

fn asked(bytes: usize, page: PageSize) -> String {
    format!("{} in pages of {page}", Bytes(bytes as u64))
}

fn failed(bytes: usize, call: &str, error: &io::Error) -> MemoryError {
    let what = Bytes(bytes as u64).to_string();
    MemoryError { what, why: format!("{call}: {error}; request less, or raise ulimit -v and vm.overcommit_memory") }
}

/// The unit in which memory is laid out and touched: a huge page.
const CHUNK: usize = 2 << 20;
/// The smallest page.
const SMALL: usize = 4096;
/// What user space can address on x86-64.
const ADDRESSABLE: usize = 1 << 47;
/// Linux 6.1, `madvise(2)`; not yet in the C library's headers of older systems.
const MADV_COLLAPSE: i32 = 25;
/// How often all chunks are asked for large pages.
const COLLAPSES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::faults_of_this_thread;

    #[test]
    fn spans_are_apart_aligned_zero_and_given_once() {
        let map = Map::new(&[3 << 20, 8], PageSize::Small, 7).expect("8 MiB");
        assert_eq!(map.bytes(), 6 << 20);
        let first = map.take_words((3 << 20) / 8).expect("the first span");
        let second = map.take_words(1).expect("the second span");
        assert_eq!((first.as_ptr() as usize % CHUNK, second.as_ptr() as usize % CHUNK), (0, 0));
        assert!(first.iter().chain(second.iter()).all(|&word| word == 0));
        first.fill(u64::MAX);
        assert_eq!(second[0], 0);
        let error = map.take_words(1).expect_err("no third span");
        assert_eq!(error.to_string(), "span 3 of 1 words: the arena has 2 spans; declare every span that is taken");
    }

    #[test]
    fn a_map_of_no_spans_gives_none() {
        let map = Map::new(&[], PageSize::Large, 7).expect("nothing");
        assert_eq!(map.backing().expect("nothing to look up").is(PageSize::Large), Ok(()));
        assert!(map.take_words(1).is_err());
    }

    #[test]
    fn a_span_larger_than_declared_is_refused() {
        let map = Map::new(&[8], PageSize::Small, 7).expect("2 MiB");
        assert!(map.take_words(CHUNK / 8 + 1).is_err());
    }

    #[test]
    fn small_pages_are_small_and_in_memory() {
        let map = Map::new(&[8 << 20], PageSize::Small, 1).expect("8 MiB");
        assert_eq!(map.backing().expect("smaps").is(PageSize::Small), Ok(()));
    }

    #[test]
    fn no_page_is_copied_because_somebody_was_forked() {
        let map = Map::new(&[8 << 20], PageSize::Small, 1).expect("8 MiB");
        crate::children::fork_and_wait().expect("a child");
        let before = faults_of_this_thread().expect("rusage");
        map.take_words(1 << 20).expect("the span").fill(1);
        let faults = faults_of_this_thread().expect("rusage") - before;
        assert!(faults < 64, "{faults} faults on {} pages", (8 << 20) / SMALL);
    }

    /// A kernel that gives huge pages has none left where its memory is in pieces.
    #[test]
    fn large_pages_are_large_or_the_verdict_says_why() {
        let map = Map::new(&[16 << 20], PageSize::Large, 1).expect("16 MiB");
        let verdict = map.backing().expect("smaps").is(PageSize::Large);
        let given = std::fs::read_to_string(THP_ENABLED).is_ok_and(|text| !text.contains("[never]"));
        match verdict {
            Ok(()) => assert!(given, "a kernel that gives none"),
            Err(why) => {
                let why = why.to_string();
                assert!(why.starts_with("requested 16 MiB in pages of 2m, got ") && why.contains(THP_ENABLED), "{why}");
            }
        }
    }

    /// Small pages over contiguous and over scattered frames, where there are large pages and frames are shown.
    #[test]
    fn frames_lie_as_asked_or_the_verdict_says_why() {
        for frames in [Frames::Contiguous, Frames::Scattered] {
            let map = Map::reserve(&[8 << 20, 8], PageSize::Small, frames).expect("10 MiB");
            map.touch(&map.parts(&[Owner::Shared, Owner::Shared], 0, 2), 7);
            map.touch(&map.parts(&[Owner::Shared, Owner::Shared], 1, 2), 8);
            map.settle();
            let contiguous = map.contiguous_bytes();
            let verdict = map.lies(contiguous);
            let words = "requested 10 MiB over contiguous frames: ";
            match verdict {
                Ok(()) => {
                    assert_eq!(map.backing().expect("smaps").is(PageSize::Small), Ok(()));
                    let all = if frames == Frames::Contiguous { map.bytes() } else { 0 };
                    assert!(contiguous.is_none_or(|bytes| bytes == all), "{frames}: {contiguous:?}");
                }
                // Large pages to split are not to be had everywhere; nothing else may fail.
                Err(why) => {
                    let why = why.to_string();
                    assert!(why.starts_with(words) && why.contains("in pages of 2m"), "{why}");
                }
            }
            let word = map.take_words(CHUNK / 8).expect("the first span");
            let before = faults_of_this_thread().expect("rusage");
            word.fill(3);
            let faults = faults_of_this_thread().expect("rusage") - before;
            // The kernel may move pages, or sample who uses them.
            assert!(faults < 64, "{frames}: {faults} faults on {} pages that were touched", CHUNK / SMALL);
        }
    }

    #[test]
    fn two_maps_of_one_kind_are_told_apart() {
        let maps = [1, 2].map(|seed| Map::new(&[2 << 20], PageSize::Small, seed).expect("2 MiB"));
        for map in &maps {
            assert_eq!(map.backing().expect("its own mapping").mapped_bytes, 2 << 20);
        }
    }

    #[test]
    fn every_page_is_one_ranks_part() {
        for page in [PageSize::Small, PageSize::Large] {
            let map = Map::reserve(&[9 << 20, 8, 3 << 20], page, Frames::AsGiven).expect("16 MiB");
            let owners = [Owner::Shared, Owner::Rank(2), Owner::Shared];
            let mut parts: Vec<(Range<u64>, usize)> =
                (0..3).flat_map(|rank| map.parts(&owners, rank, 3).into_iter().map(move |part| (part, rank))).collect();
            parts.sort_by_key(|(part, _)| part.start);
            let mut end = 0;
            for (part, _) in &parts {
                assert_eq!(
                    (part.start, part.start % page.bytes()),
                    (end, 0),
                    "no gap, no overlap, whole pages: {parts:?}"
                );
                end = part.end;
            }
            assert_eq!(end, map.bytes());
            let owner_of = |offset: u64| parts.iter().find(|(part, _)| part.contains(&offset)).map(|(_, rank)| *rank);
            assert_eq!((owner_of(0), owner_of(10 << 20)), (Some(0), Some(2)));
        }
    }

    #[test]
    fn a_rank_touches_its_own_part_and_no_other() {
        let map = Map::reserve(&[8 << 20], PageSize::Small, Frames::AsGiven).expect("8 MiB");
        assert_eq!(map.backing().expect("smaps").rss_bytes, 0, "nobody has touched it");
        map.touch(&map.parts(&[Owner::Shared], 1, 4), 7);
        assert_eq!(map.backing().expect("smaps").rss_bytes, 2 << 20);
        (0..4).filter(|&rank| rank != 1).for_each(|rank| map.touch(&map.parts(&[Owner::Shared], rank, 4), 7));
        assert_eq!(map.backing().expect("smaps").is(PageSize::Small), Ok(()));
    }

    #[test]
    fn a_page_is_mapped_when_it_was_touched() {
        let map = Map::reserve(&[2 << 20], PageSize::Small, Frames::AsGiven).expect("2 MiB");
        let mapped = || mapped_pages(map.address(), map.bytes()).expect("pagemap");
        assert!(mapped().is_empty());
        map.touch(std::slice::from_ref(&(0..SMALL as u64)), 1);
        assert_eq!(mapped(), [map.address()]);
    }

    #[test]
    fn a_reset_map_is_as_new() {
        let mut map = Map::new(&[8], PageSize::Small, 7).expect("2 MiB");
        map.take_words(1).expect("the span")[0] = 5;
        map.whole()[9] = 6;
        map.reset();
        assert!(map.whole().iter().all(|&word| word == 0));
        assert_eq!(map.take_words(1).expect("the span again")[0], 0);
    }

    #[test]
    fn too_much_and_nothing_are_refused_with_a_reason() {
        let error = Map::new(&[1 << 46], PageSize::Small, 7).expect_err("64 TiB");
        assert!(error.to_string().starts_with("64 TiB: ") && error.to_string().ends_with("free memory"), "{error}");
        assert!(Map::new(&[u64::MAX], PageSize::Small, 7).is_err());
        assert!(Map::new(&[0], PageSize::Small, 7).is_err());
    }

    #[test]
    fn the_order_is_a_permutation_drawn_from_the_seed() {
        let mut order = shuffled(1000, 42);
        assert_eq!(order, shuffled(1000, 42));
        assert_ne!(order, shuffled(1000, 43));
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1000));
        assert!(shuffled(0, 1).is_empty());
    }
}
