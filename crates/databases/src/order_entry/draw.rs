//! Random values by the rules: non-uniform customers, items and names, texts, and the mix as a shuffled deck.

use crate::draws::{Draws, signed};
use baremark_stats::Rng;

/// Parts of last names (rule 4.3.2.3).
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// Draws by the rules.
#[derive(Clone, Debug)]
pub struct Draw {
    rng: Rng,
    constants: Constants,
}

/// The constants C of the non-uniform draws (rule 2.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// Of last names, A = 255.
    pub last: i64,
    /// Of customers, A = 1023.
    pub customer: i64,
    /// Of items, A = 8191.
    pub item: i64,
}

impl Constants {
    /// Those with which a database is loaded.
    #[must_use]
    pub fn of_load(seed: u64) -> Constants {
        let mut rng = Rng::stream(seed, 0xC0);
        let mut below = |n: u64| signed(rng.below(n));
        Constants { last: below(256), customer: below(1024), item: below(8192) }
    }

    /// Those of a run: the one of last names is 65 to 119 away from the load's, but neither 96 nor 112 (rule 2.1.6.1).
    #[must_use]
    pub fn of_run(load: Constants, seed: u64) -> Constants {
        let mut rng = Rng::stream(seed, 0xC1);
        loop {
            let last = signed(rng.below(256));
            let delta = (last - load.last).abs();
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                return Constants { last, customer: signed(rng.below(1024)), item: signed(rng.below(8192)) };
            }
        }
    }
}

impl Draws for Draw {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

impl Draw {
    /// A stream of draws; equal (seed, label) give equal sequences.
    #[must_use]
    pub fn stream(seed: u64, label: u64, constants: Constants) -> Draw {
        Draw { rng: Rng::stream(seed, label), constants }
    }

    /// NURand(A, x, y) of rule 2.1.6.
    fn non_uniform(&mut self, a: i64, constant: i64, low: i64, high: i64) -> i64 {
        let (one, two) = (self.uniform(0, a), self.uniform(low, high));
        ((one | two) + constant) % (high - low + 1) + low
    }

    /// A customer of a district.
    pub fn customer(&mut self) -> i64 {
        self.non_uniform(1023, self.constants.customer, 1, 3000)
    }

    /// An item.
    pub fn item(&mut self) -> i64 {
        self.non_uniform(8191, self.constants.item, 1, super::schema::ITEMS)
    }

    /// A last name among the thousand.
    pub fn last_name(&mut self) -> String {
        let number = self.non_uniform(255, self.constants.last, 0, 999);
        last_name(number)
    }

    /// A zip code: four digits and 11111.
    pub fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// Text of 26 to 50, with ORIGINAL somewhere in one of ten.
    pub fn data(&mut self) -> String {
        let mut text = self.text(26, 50);
        if self.chance(10) {
            let at = self.uniform(0, signed(text.len() as u64) - 8);
            let at = usize::try_from(at).unwrap_or(0);
            text.replace_range(at..at + 8, "ORIGINAL");
        }
        text
    }
}

/// The last name of a number from 0 to 999.
#[must_use]
pub fn last_name(number: i64) -> String {
    [number / 100, number / 10 % 10, number % 10]
        .iter()
        .map(|digit| SYLLABLES[usize::try_from(*digit).unwrap_or(0) % 10])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Constants = Constants { last: 123, customer: 259, item: 7911 };

    #[test]
    fn names_are_made_of_the_rules_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn the_constant_of_a_run_keeps_the_rules_distance() {
        for seed in 0..500 {
            let delta = (Constants::of_run(LOAD, seed).last - LOAD.last).abs();
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{delta}");
        }
    }

    /// The distribution that the formula has, computed over all pairs of its two uniform draws.
    #[test]
    fn non_uniform_draws_have_the_rules_distribution() {
        let mut expected = [0.0_f64; 1000];
        for one in 0..256_i64 {
            for two in 0..1000_i64 {
                expected[usize::try_from(((one | two) + LOAD.last) % 1000).expect("below 1000")] += 1.0 / 256_000.0;
            }
        }
        let mut draw = Draw::stream(7, 1, LOAD);
        let draws = 400_000;
        let mut found = [0.0_f64; 1000];
        for _ in 0..draws {
            found[usize::try_from(draw.non_uniform(255, LOAD.last, 0, 999)).expect("below 1000")] += 1.0;
        }
        let cells: Vec<f64> = expected
            .iter()
            .zip(found)
            .filter(|(e, _)| **e > 0.0)
            .map(|(e, n)| {
                let e = e * f64::from(draws);
                (n - e).powi(2) / e
            })
            .collect();
        let (statistic, freedom) = (cells.iter().sum::<f64>(), cells.len() as f64 - 1.0);
        // Wilson and Hilferty: a chi-squared beyond this has a probability below 1e-5.
        let limit = freedom * (1.0 - 2.0 / (9.0 * freedom) + 4.3 * (2.0 / (9.0 * freedom)).sqrt()).powi(3);
        assert!(statistic < limit, "chi-squared {statistic} of {freedom} degrees, limit {limit}");
    }

    #[test]
    fn values_stay_within_their_ranges() {
        let mut draw = Draw::stream(1, 1, LOAD);
        for _ in 0..10_000 {
            assert!((1..=3000).contains(&draw.customer()));
            assert!((1..=100_000).contains(&draw.item()));
            assert!((26..=50).contains(&draw.data().len()));
        }
    }
}
