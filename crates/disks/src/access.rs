//! Which block an I/O reads or writes: sequential, uniform or Zipf, with a mix of sizes, reads and writes.

use crate::io::ring::Action;
use baremark_stats::Rng;
use baremark_stats::zipf::{Zipf, scatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The order of offsets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Ascending, from the start again at the end; each job has its own part of the target.
    Sequential,
    /// Uniform over the target, with replacement.
    Random,
    /// Zipf over the target with this exponent above 0; popular blocks are scattered over it.
    Zipf(f64),
}

/// One size of a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockShare {
    /// Bytes of an I/O.
    pub bytes: u64,
    /// Its weight among the others.
    pub weight: f64,
}

/// What is accessed.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// The order.
    pub pattern: Pattern,
    /// Sizes; at least one.
    pub blocks: Vec<BlockShare>,
    /// Offsets are multiples of this; `None` for multiples of the I/O's own size.
    pub align: Option<u64>,
    /// Share of reads, 0 to 1.
    pub read_share: f64,
}

impl Mix {
    /// The largest I/O in bytes.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes).max().unwrap_or(0)
    }
}

/// Draws one job's accesses.
pub(crate) struct Access {
    mix: Mix,
    /// First byte and length.
    region: (u64, u64),
    /// Bytes of the region handed out so far, shared by the lanes of a job.
    cursor: Arc<AtomicU64>,
    rng: Rng,
    zipf: Option<Zipf>,
    total_weight: f64,
}

impl Access {
    /// Of a target of `size` bytes for job `job` of `jobs`.
    pub(crate) fn new(mix: &Mix, size: u64, (job, jobs): (u64, u64), cursor: Arc<AtomicU64>, rng: Rng) -> Access {
        let unit = mix.largest().max(1);
        let region = match mix.pattern {
            Pattern::Sequential => {
                let units = (size / unit / jobs.max(1)).max(1);
                (job * units * unit % size.max(1), units * unit)
            }
            Pattern::Random | Pattern::Zipf(_) => (0, size),
        };
        let zipf = match mix.pattern {
            Pattern::Zipf(exponent) => Some(Zipf::new((size / mix.align.unwrap_or(unit)).max(1), exponent)),
            Pattern::Random | Pattern::Sequential => None,
        };
        let total_weight = mix.blocks.iter().map(|block| block.weight).sum();
        Access { mix: mix.clone(), region, cursor, rng, zipf, total_weight }
    }

    /// The next one: what, offset, bytes.
    pub(crate) fn draw(&mut self) -> (Action, u64, u64) {
        let bytes = self.size();
        let read = match self.mix.read_share {
            share if share >= 1.0 => true,
            share if share <= 0.0 => false,
            share => self.rng.uniform() < share,
        };
        let action = if read { Action::Read } else { Action::Write };
        (action, self.offset(bytes), bytes)
    }

    fn size(&mut self) -> u64 {
        let [one] = self.mix.blocks[..] else {
            let mut left = self.rng.uniform() * self.total_weight;
            let found = self.mix.blocks.iter().find(|block| {
                left -= block.weight;
                left < 0.0
            });
            return found.or(self.mix.blocks.last()).map_or(0, |block| block.bytes);
        };
        one.bytes
    }

    fn offset(&mut self, bytes: u64) -> u64 {
        let (start, length) = self.region;
        let align = self.mix.align.unwrap_or(bytes).max(1);
        let places = (length.saturating_sub(bytes) / align) + 1;
        match (self.mix.pattern, &self.zipf) {
            (Pattern::Sequential, _) => {
                let step = bytes.next_multiple_of(align);
                let at = self.cursor.fetch_add(step, Ordering::Relaxed) % length.max(1);
                start + if at + bytes > length { 0 } else { at / align * align }
            }
            (_, Some(zipf)) => start + scatter(zipf.draw(&mut self.rng), places) * align,
            _ => start + self.rng.below(places) * align,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(pattern: Pattern, blocks: &[(u64, f64)], align: Option<u64>, job: (u64, u64)) -> Access {
        let blocks = blocks.iter().map(|&(bytes, weight)| BlockShare { bytes, weight }).collect();
        let mix = Mix { pattern, blocks, align, read_share: 0.7 };
        Access::new(&mix, 1 << 20, job, Arc::default(), Rng::stream(7, 1))
    }

    #[test]
    fn accesses_stay_inside_and_aligned_in_every_pattern() {
        for pattern in [Pattern::Sequential, Pattern::Random, Pattern::Zipf(1.2), Pattern::Zipf(1.0)] {
            for align in [None, Some(512), Some(8192)] {
                let mut access = access(pattern, &[(4096, 3.0), (65_536, 1.0)], align, (1, 3));
                let mut sizes = [0; 2];
                for _ in 0..20_000 {
                    let (_, offset, bytes) = access.draw();
                    assert!(offset + bytes <= 1 << 20, "{pattern:?} {offset} {bytes}");
                    assert_eq!(offset % align.unwrap_or(512), 0);
                    sizes[usize::from(bytes > 4096)] += 1;
                }
                let share = f64::from(sizes[0]) / 20_000.0;
                assert!((share - 0.75).abs() < 0.02, "{share}");
            }
        }
    }

    #[test]
    fn reads_have_their_share_and_sequential_jobs_their_own_parts() {
        let mut mixed = access(Pattern::Random, &[(4096, 1.0)], None, (0, 1));
        let reads = (0..20_000).filter(|_| mixed.draw().0 == Action::Read).count();
        assert!((13_600..14_400).contains(&reads), "{reads}");
        let offsets = |job| {
            let mut access = access(Pattern::Sequential, &[(4096, 1.0)], None, (job, 4));
            (0..65).map(|_| access.draw().1 / 4096).collect::<Vec<_>>()
        };
        let expected: Vec<u64> = (0..64).chain([0]).collect();
        assert_eq!(offsets(0), expected);
        assert_eq!(offsets(3), expected.iter().map(|at| at + 192).collect::<Vec<_>>());
    }
}
