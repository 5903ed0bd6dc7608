//! The set-associative store against a model that is slow and obvious.

use crate::references::lru;
use baremark_mmu::random::Random;
use baremark_mmu::sets::{Geometry, Replacement, Sets};
use proptest::prelude::*;

/// Least recently used, by a list for each set.
fn obvious_hits(entries: u32, ways: u32, keys: &[u32]) -> Vec<bool> {
    let sets = entries / ways;
    let mut lists = vec![Vec::new(); sets as usize];
    keys.iter()
        .map(|key| {
            let list: &mut Vec<u32> = &mut lists[(key % sets) as usize];
            let found = list.iter().position(|there| there == key);
            if let Some(at) = found {
                list.remove(at);
            }
            list.insert(0, *key);
            list.truncate(ways as usize);
            found.is_some()
        })
        .collect()
}

/// Bits of recent use, by a list of places for each set.
fn obvious_plru_hits(entries: u32, ways: u32, keys: &[u32]) -> Vec<bool> {
    let sets = entries / ways;
    let mut places = vec![vec![(None, false); ways as usize]; sets as usize];
    keys.iter()
        .map(|key| {
            let set = &mut places[(key % sets) as usize];
            let found = set.iter().position(|(there, _)| *there == Some(*key));
            let at = found.or(set.iter().position(|(_, recent)| !recent)).unwrap_or(0);
            set[at] = (Some(*key), true);
            if set.iter().all(|(_, recent)| *recent) {
                set.iter_mut().for_each(|(_, recent)| *recent = false);
                set[at].1 = ways > 1;
            }
            found.is_some()
        })
        .collect()
}

fn hits(geometry: Geometry, keys: &[u32]) -> Vec<bool> {
    let mut sets = Sets::new(geometry).unwrap();
    keys.iter().map(|key| sets.touch(*key)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn least_recently_used_is_exact(
        (sets, ways) in (0_u32..4, prop::sample::select(vec![1_u32, 2, 3, 4, 5, 8, 12, 16, 20, 64, 72])),
        keys in prop::collection::vec(0_u32..160, 1..400),
    ) {
        let entries = (1 << sets) * ways;
        prop_assert_eq!(hits(lru(entries, ways), &keys), obvious_hits(entries, ways, &keys));
    }

    #[test]
    fn bits_of_recent_use_choose_the_victim(
        (sets, ways) in (0_u32..4, prop::sample::select(vec![1_u32, 2, 3, 4, 5, 8, 12, 16, 20, 63, 64])),
        keys in prop::collection::vec(0_u32..160, 1..400),
    ) {
        let geometry = Geometry { entries: (1 << sets) * ways, ways, replacement: Replacement::Plru };
        prop_assert_eq!(hits(geometry, &keys), obvious_plru_hits(geometry.entries, ways, &keys));
    }

    #[test]
    fn every_policy_keeps_what_fits_and_the_last_key(
        replacement in prop::sample::select(vec![Replacement::Lru, Replacement::Plru, Replacement::Random]),
        ways in prop::sample::select(vec![1_u32, 2, 4, 8, 11, 12, 16, 64]),
        keys in prop::collection::vec(0_u32..1000, 1..200),
    ) {
        let mut sets = Sets::new(Geometry { entries: ways, ways, replacement }).unwrap();
        for key in keys {
            sets.touch(key);
            prop_assert!(sets.touch(key), "the key just used is there");
        }
    }

    #[test]
    fn sets_whose_number_is_no_power_of_two_hold_their_keys(sets in 1_u32..40, key in 0_u32..u32::MAX) {
        let mut store = Sets::new(lru(sets * 4, 4)).unwrap();
        prop_assert!(!store.touch(key));
        prop_assert!(store.touch(key));
    }
}

#[test]
fn one_large_set_stays_exact_for_long() {
    let mut random = Random::new(5);
    for ways in [5, 8, 24, 32, 64, 72, 128] {
        // Some keys come often, others hardly ever; all of them, or few, fit.
        for span in [ways - 1, ways + 1, 4 * ways, 100 * ways] {
            let mut key = || (random.below(1 + random.clone().below(u64::from(span))) as u32).wrapping_mul(0x0101);
            let keys: Vec<u32> = (0..20_000).map(|_| key()).collect();
            assert_eq!(hits(lru(ways, ways), &keys), obvious_hits(ways, ways, &keys), "{ways} ways, {span} keys");
        }
    }
}

#[test]
fn pseudo_lru_and_random_keep_a_full_set_until_a_stranger_comes() {
    for replacement in [Replacement::Plru, Replacement::Lru] {
        let geometry = Geometry { entries: 16, ways: 16, replacement };
        let rounds: Vec<u32> = (0..16).chain(0..16).collect();
        let again = hits(geometry, &rounds);
        assert!(again[16..].iter().all(|hit| *hit), "{replacement} lost one of 16");
    }
    // Cyclic use of one key more than there are ways: LRU never hits, random often does.
    let cycle: Vec<u32> = (0..1700).map(|turn| turn % 17).collect();
    let share = |replacement| {
        let geometry = Geometry { entries: 16, ways: 16, replacement };
        hits(geometry, &cycle).iter().filter(|hit| **hit).count()
    };
    assert_eq!(share(Replacement::Lru), 0);
    assert!(share(Replacement::Random) > 800, "{}", share(Replacement::Random));
}

#[test]
fn impossible_shapes_are_refused() {
    for (entries, ways) in [(0, 1), (4, 0), (10, 4), (256, 129), (4, 8), (1 << 27, 4)] {
        assert!(Sets::new(lru(entries, ways)).is_err(), "{entries} by {ways}");
    }
    assert!(Sets::new(Geometry { replacement: Replacement::Plru, ..lru(65, 65) }).is_err());
}
