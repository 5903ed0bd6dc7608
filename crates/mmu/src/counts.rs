//! What a simulation counts.

use std::ops::Sub;

/// Where a reference was answered: L1, L2, last-level cache, memory.
pub const PLACES: usize = 4;
/// The index of memory among the places.
pub const MEMORY: usize = PLACES - 1;

/// Counts of one simulation; the difference of two is what happened between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Addresses translated.
    pub translations: u64,
    /// Translations that the first-level TLB held.
    pub first_hits: u64,
    /// Translations that the second-level TLB held.
    pub second_hits: u64,
    /// Walks: translations that no TLB held.
    pub walks: u64,
    /// References to the walked table (the guest's under nested paging), by where they were answered.
    pub table: [u64; PLACES],
    /// References to the second table, by where they were answered; nested paging only.
    pub nested: [u64; PLACES],
    /// Guest-physical addresses translated during walks.
    pub nested_translations: u64,
    /// Of those, how many the nested TLB held.
    pub nested_hits: u64,
    /// References of the program itself, by where they were answered.
    pub data: [u64; PLACES],
}

impl Counts {
    /// References of walks, to both tables.
    #[must_use]
    pub fn walk_references(&self) -> u64 {
        self.table.iter().chain(&self.nested).sum()
    }

    /// `count` for each translation; 0 when nothing was translated.
    #[must_use]
    pub fn per_translation(&self, count: u64) -> f64 {
        if self.translations == 0 { 0.0 } else { count as f64 / self.translations as f64 }
    }
}

/// Kinds of sampled references that are told apart, since few lines of one may stand for many of another: data or entries of
/// the lowest level, and entries of the second one.
pub(crate) const SAMPLED: usize = 2;

/// References, some of which stand for others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Answers that count for themselves.
    alone: [u64; PLACES],
    /// References that are sampled, by kind.
    sampled: [u64; SAMPLED],
    /// Answers of those that were simulated, by kind.
    answered: [[u64; PLACES]; SAMPLED],
}

impl Tally {
    /// A reference that stands for itself.
    #[inline]
    pub(crate) fn count(&mut self, place: usize) {
        self.alone[place] += 1;
    }

    /// A reference of a sampled kind; `None` where it was not simulated.
    #[inline]
    pub(crate) fn sample(&mut self, kind: usize, place: Option<usize>) {
        self.sampled[kind] += 1;
        if let Some(place) = place {
            self.answered[kind][place] += 1;
        }
    }

    /// Whether at least a quarter of the expected number was simulated of every kind that is used at all often.
    pub(crate) fn is_fair(&self, thinning: u32) -> bool {
        let mut kinds = self.sampled.iter().zip(&self.answered);
        kinds.all(|(sampled, answered)| *sampled < 1024 || answered.iter().sum::<u64>() << (thinning + 2) >= *sampled)
    }

    /// By place, the sampled ones in proportion to the answers of those simulated. Their sum is exact.
    pub(crate) fn places(&self) -> [u64; PLACES] {
        let mut places = self.alone;
        for (sampled, answered) in self.sampled.iter().zip(&self.answered) {
            let simulated: u64 = answered.iter().sum();
            let mut left = *sampled;
            for place in (1..PLACES).rev() {
                // None simulated: so few lines are most likely in the nearest cache.
                let share = u128::from(*sampled) * u128::from(answered[place]) + u128::from(simulated) / 2;
                let share = share.checked_div(u128::from(simulated)).map_or(0, |share| (share as u64).min(left));
                places[place] += share;
                left -= share;
            }
            places[0] += left;
        }
        places
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        let places = |a: [u64; PLACES], b: [u64; PLACES]| std::array::from_fn(|place| a[place] - b[place]);
        Counts {
            translations: self.translations - earlier.translations,
            first_hits: self.first_hits - earlier.first_hits,
            second_hits: self.second_hits - earlier.second_hits,
            walks: self.walks - earlier.walks,
            table: places(self.table, earlier.table),
            nested: places(self.nested, earlier.nested),
            nested_translations: self.nested_translations - earlier.nested_translations,
            nested_hits: self.nested_hits - earlier.nested_hits,
            data: places(self.data, earlier.data),
        }
    }
}
