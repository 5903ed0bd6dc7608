//! Independent random loads: the most that memory gives to one core at random addresses.
//!
//! Addresses come from a counter that is hashed, so that none depends on what was loaded and as many are under way as the
//! core can follow. It is the limit alongside which random updates are held, and no workload: nothing is written or verified.

/// Loads `count` random words of `table` and gives their sum by exclusive or, so that none can be left out. The table's size
/// must be a power of two; of another only the words below the next smaller one are loaded.
#[must_use]
#[inline(never)]
pub fn independent(table: &[u64], count: u64) -> u64 {
    let Some(bits) = table.len().checked_ilog2() else { return 0 };
    let table = &table[..1 << bits];
    let mask = table.len() - 1;
    let mut sum = [0_u64; 8];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..count / 8 {
        for sum in &mut sum {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let hash = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *sum ^= table[(hash >> 20) as usize & mask];
        }
    }
    sum.into_iter().fold(0, |all, sum| all ^ sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_counts_and_only_words_of_the_table_are_loaded() {
        assert_eq!(independent(&[7; 64], 8 * 4), 0, "32 times the same word");
        assert_eq!(independent(&[7; 64], 8), 0);
        assert_eq!(independent(&[], 64), 0);
        let table: Vec<u64> = (0..1000).collect();
        let seen = independent(&table, 8_000);
        assert!(seen < 512, "words below the next smaller power of two: {seen}");
        assert_ne!(independent(&table, 8), independent(&table, 800), "the addresses differ");
    }
}
