//! Which pages of a process the copy has, so that changed pages are counted apart by what their write costs.
//!
//! A page that an earlier checkpoint had is protected against writes: its next write is a fault. The first write of another page is the fault
//! that the program has without protection, too.

use baremark_sys::dirty_pages::PAGE;

/// The pages of one process that checkpoints had, as ranges of addresses in order and without overlaps.
#[derive(Debug, Default)]
pub struct Copied(Vec<(u64, u64)>);

impl Copied {
    /// Forgets what is not in these ranges, which are in order.
    pub fn keep(&mut self, mapped: &[(u64, u64)]) {
        self.0 = overlaps(&self.0, mapped);
    }

    /// How many pages these are.
    pub fn pages(&self) -> u64 {
        bytes_of(&self.0) / PAGE
    }

    /// Adds the pages of a checkpoint, ranges in order; how many of them no earlier one had.
    pub fn add(&mut self, pages: &[(u64, u64)]) -> u64 {
        let new = bytes_of(pages) - bytes_of(&overlaps(pages, &self.0));
        if new > 0 {
            self.0 = joined(&self.0, pages);
        }
        new / PAGE
    }
}

fn bytes_of(ranges: &[(u64, u64)]) -> u64 {
    ranges.iter().map(|(start, end)| end - start).sum()
}

/// What is in both lists.
fn overlaps(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut both = Vec::new();
    while let (Some(&&(start, end)), Some(&&(from, to))) = (one.peek(), other.peek()) {
        if start.max(from) < end.min(to) {
            both.push((start.max(from), end.min(to)));
        }
        if end < to {
            one.next();
        } else {
            other.next();
        }
    }
    both
}

/// What is in one of the lists, as few ranges.
fn joined(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all = [one, other].concat();
    all.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(all.len());
    for (start, end) in all {
        match joined.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => joined.push((start, end)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_two_lists_are_cut_and_joined() {
        let ranges = [(2, 4), (4, 6), (9, 10)];
        assert_eq!(overlaps(&ranges, &[(1, 3), (5, 12)]), [(2, 3), (5, 6), (9, 10)]);
        assert_eq!(overlaps(&ranges, &[(6, 9)]), []);
        assert_eq!(overlaps(&[], &ranges), []);
        assert_eq!(joined(&ranges, &[(1, 3), (5, 8)]), [(1, 8), (9, 10)]);
        assert_eq!(joined(&[], &ranges), [(2, 6), (9, 10)]);
    }

    #[test]
    fn pages_are_new_until_a_checkpoint_has_them_and_again_after_their_mapping_is_gone() {
        let pages =
            |ranges: &[(u64, u64)]| ranges.iter().map(|(start, end)| (start * PAGE, end * PAGE)).collect::<Vec<_>>();
        let mut copied = Copied::default();
        assert_eq!(copied.add(&pages(&[(10, 14)])), 4);
        assert_eq!(copied.add(&pages(&[(10, 11), (12, 16)])), 2);
        assert_eq!((copied.add(&pages(&[(10, 16)])), copied.pages()), (0, 6));
        copied.keep(&pages(&[(13, 15), (15, 30)]));
        assert_eq!((copied.add(&pages(&[(10, 16)])), copied.pages()), (3, 6));
    }
}
