//! What a simulation counts.

use std::ops::{Add, Sub};

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

/// References of one kind, all of which or a sample were looked up in the caches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// All of them.
    pub(crate) made: u64,
    /// Answers of those that were looked up.
    pub(crate) answered: [u64; PLACES],
}

impl Tally {
    /// Whether at least a quarter of the expected number was looked up, of a kind that is used at all often.
    pub(crate) fn is_fair(&self, thinning: u32) -> bool {
        self.made < 1024 || self.answered.iter().sum::<u64>() << (thinning + 2) >= self.made
    }

    /// By place, in proportion to the answers. Their sum is exact.
    pub(crate) fn places(&self) -> [u64; PLACES] {
        let looked_up: u64 = self.answered.iter().sum();
        let mut places = [0; PLACES];
        let mut left = self.made;
        for place in (1..PLACES).rev() {
            // None looked up: so few lines are most likely in the nearest cache.
            let share = u128::from(self.made) * u128::from(self.answered[place]) + u128::from(looked_up) / 2;
            let share = share.checked_div(u128::from(looked_up)).map_or(0, |share| (share as u64).min(left));
            places[place] = share;
            left -= share;
        }
        places[0] = left;
        places
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        let places = |a: [u64; PLACES], b: [u64; PLACES]| std::array::from_fn(|place| a[place] + b[place]);
        Counts {
            translations: self.translations + other.translations,
            first_hits: self.first_hits + other.first_hits,
            second_hits: self.second_hits + other.second_hits,
            walks: self.walks + other.walks,
            table: places(self.table, other.table),
            nested: places(self.nested, other.nested),
            nested_translations: self.nested_translations + other.nested_translations,
            nested_hits: self.nested_hits + other.nested_hits,
            data: places(self.data, other.data),
        }
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
