//! How far apart pages are used again: what of a trace can be shared, since no address is in it.
//!
//! The *distance* of an access is how many other pages were used since its page was used last (Mattson et al. 1970): a
//! fully associative LRU TLB of n entries misses exactly the accesses of distance n and more. Distances are counted in
//! bins that double, first uses apart, so a TLB of a power of two is told exactly. From a histogram a stream can be made
//! again that has the same distances in expectation; where pages lie is lost, and with it the locality of page-table
//! entries in caches, so walks come out dearer than they were.

use crate::random::Random;
use crate::stream::Stream;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// Bin 0 is distance 0, bin b is from 2^(b - 1) to 2^b - 1.
const BINS: usize = 40;
const HEAD: &str = "baremark page distances 1";

/// Distances of one stream, in 4 KiB pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    bins: [u64; BINS],
    first: u64,
}

/// A text that is not a histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: '{text}' is not a line of a page-distance histogram; the first is '{HEAD}', others are 'BIN COUNT' or 'first COUNT'"
)]
pub struct NoHistogram {
    /// The line, from 1.
    pub line: usize,
    /// What is there.
    pub text: String,
}

impl Histogram {
    /// Of addresses. Exact; memory and time grow with n and n log n.
    #[must_use]
    pub fn of(addresses: &[u64]) -> Self {
        let mut histogram = Histogram { bins: [0; BINS], first: 0 };
        let mut last: HashMap<u64, usize> = HashMap::new();
        let mut marks = Marks(vec![0; addresses.len() + 1]);
        for (now, address) in addresses.iter().enumerate() {
            match last.insert(address >> 12, now) {
                None => histogram.first += 1,
                Some(before) => {
                    let distance = marks.below(now) - marks.below(before + 1);
                    marks.add(before, -1);
                    histogram.bins[bin(distance as u64)] += 1;
                }
            }
            marks.add(now, 1);
        }
        histogram
    }

    /// Accesses in all.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.first + self.bins.iter().sum::<u64>()
    }

    /// The share of accesses that a fully associative LRU TLB of 2^`power` entries misses; `None` of an empty histogram.
    #[must_use]
    pub fn misses(&self, power: usize) -> Option<f64> {
        let far: u64 = self.bins.iter().skip(power + 1).sum();
        (self.accesses() > 0).then(|| (self.first + far) as f64 / self.accesses() as f64)
    }

    /// A stream with these distances.
    #[must_use]
    pub fn stream(&self, seed: u64) -> Distances {
        Distances { histogram: self.clone(), pages: vec![0], random: Random::new(seed) }
    }
}

fn bin(distance: u64) -> usize {
    (64 - distance.leading_zeros() as usize).min(BINS - 1)
}

/// How many marks lie below a place: a Fenwick tree.
struct Marks(Vec<i32>);

impl Marks {
    fn add(&mut self, place: usize, mark: i32) {
        let mut at = place + 1;
        while let Some(node) = self.0.get_mut(at) {
            *node += mark;
            at += at & at.wrapping_neg();
        }
    }

    fn below(&self, place: usize) -> i32 {
        let (mut at, mut sum) = (place, 0);
        while at > 0 {
            sum += self.0.get(at).copied().unwrap_or(0);
            at &= at - 1;
        }
        sum
    }
}

/// A stream made from a histogram: pages in the order of their last use, the latest at the end.
#[derive(Clone, Debug)]
pub struct Distances {
    histogram: Histogram,
    pages: Vec<u32>,
    random: Random,
}

/// To this depth the order of use is exact; deeper it is kept only roughly, which costs a constant time.
const EXACT: usize = 4096;

impl Distances {
    fn page(&mut self) -> u32 {
        let mut left = self.random.below(self.histogram.accesses());
        for (bin, count) in self.histogram.bins.iter().enumerate() {
            if left < *count {
                let (least, width): (u64, u64) = if bin == 0 { (0, 1) } else { (1 << (bin - 1), 1 << (bin - 1)) };
                let distance = least + self.random.below(width);
                return self.again(distance as usize);
            }
            left -= count;
        }
        self.fresh()
    }

    fn again(&mut self, distance: usize) -> u32 {
        let Some(at) = (self.pages.len() - 1).checked_sub(distance) else { return self.fresh() };
        let page = self.pages[at];
        let exact = (self.pages.len() - 1).saturating_sub(EXACT);
        if at < exact {
            self.pages[at] = self.pages[exact];
        }
        let from = at.max(exact);
        self.pages.copy_within(from + 1.., from);
        if let Some(last) = self.pages.last_mut() {
            *last = page;
        }
        page
    }

    /// A page not used before, while there are any left that the histogram had; then the longest unused.
    fn fresh(&mut self) -> u32 {
        if (self.pages.len() as u64) < self.histogram.first {
            self.pages.push(self.pages.len() as u32);
            return self.pages.len() as u32 - 1;
        }
        let longest = self.pages.len() - 1;
        self.again(longest)
    }
}

impl Stream for Distances {
    fn fill(&mut self, block: &mut [u64]) {
        for address in block {
            let page = u64::from(self.page());
            *address = 0x7f00_0000_0000 + (page << 12) + (self.random.below(64) << 6);
        }
    }

    fn footprint(&self) -> u64 {
        self.histogram.first * 4096
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\nfirst {}", self.first)?;
        self.bins
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .try_for_each(|(bin, count)| writeln!(f, "{bin} {count}"))
    }
}

impl FromStr for Histogram {
    type Err = NoHistogram;

    fn from_str(text: &str) -> Result<Self, NoHistogram> {
        let mut histogram = Histogram { bins: [0; BINS], first: 0 };
        let refuse = |line: usize, text: &str| NoHistogram { line, text: text.chars().take(60).collect() };
        let mut lines = text.lines().zip(1..);
        match lines.next() {
            Some((HEAD, _)) => {}
            other => return Err(refuse(1, other.map_or("", |(text, _)| text))),
        }
        for (text, line) in lines {
            let read = text.split_once(' ').and_then(|(bin, count)| Some((bin, count.parse::<u64>().ok()?)));
            // Counts that cannot be added up are not counts.
            let Some((bin, count)) = read.filter(|(_, count)| *count < 1 << 56) else { return Err(refuse(line, text)) };
            let place = match bin {
                "first" => Some(&mut histogram.first),
                bin => bin.parse::<usize>().ok().and_then(|bin| histogram.bins.get_mut(bin)),
            };
            *place.ok_or_else(|| refuse(line, text))? = count;
        }
        if histogram.first == 0 { Err(refuse(text.lines().count(), "the end, without 'first'")) } else { Ok(histogram) }
    }
}
