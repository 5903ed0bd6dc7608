//! A static schedule: which part of the work is whose.

/// Where the share of rank `rank` of `ranks` begins among `items`; the first ranks take one more where it does not
/// divide. The share of `rank` ends where that of `rank + 1` begins. Ranks that the team does not have share nothing.
pub fn share(items: usize, rank: usize, ranks: usize) -> usize {
    let rank = rank.min(ranks);
    items / ranks * rank + rank.min(items % ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_apart_and_cover_everything() {
        for (items, ranks) in [(0, 1), (7, 3), (8, 8), (3, 8), (1000, 7)] {
            let ends: Vec<usize> = (0..=ranks).map(|rank| share(items, rank, ranks)).collect();
            assert!(ends.is_sorted() && ends[0] == 0 && ends[ranks] == items, "{items} {ranks}: {ends:?}");
            assert_eq!(share(items, ranks + 3, ranks), items);
        }
    }
}
