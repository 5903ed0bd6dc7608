//! Sorting where speed does not matter: one algorithm for all types. The standard library's has 5 kB of code for each type and each order, which was a thirtieth of
//! the program.

use std::cmp::Ordering;

/// Sorts by what `compare` says of two items; those that are equal stay in their order.
pub fn by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut sources: Vec<usize> = (0..items.len()).collect();
    sort(&mut sources, &|one, two| compare(&items[one], &items[two]));
    for place in 0..sources.len() {
        // What belongs here is exchanged for what is here, and that for what belongs where it came from, until the circle is closed.
        let mut hole = place;
        while sources[hole] != place {
            let source = std::mem::replace(&mut sources[hole], hole);
            items.swap(hole, source);
            hole = source;
        }
        sources[hole] = hole;
    }
}

/// Sorts by a key of each item; those with equal keys stay in their order.
pub fn by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    by(items, |one, two| key(one).cmp(&key(two)));
}

#[inline(never)]
fn sort(places: &mut [usize], compare: &dyn Fn(usize, usize) -> Ordering) {
    places.sort_by(|&one, &two| compare(one, two));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_are_in_the_order_of_the_standard_library(items in proptest::collection::vec((0_u8..8, any::<u16>()), 0..200)) {
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            let mut found = items.clone();
            by_key(&mut found, |(key, _)| *key);
            prop_assert_eq!(&found, &expected, "stable");
            expected.sort_by(|one, two| two.cmp(one));
            by(&mut found, |one, two| two.cmp(one));
            prop_assert_eq!(found, expected);
        }
    }
}
