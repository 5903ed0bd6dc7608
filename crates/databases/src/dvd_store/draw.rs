//! Products as a function of their number, and random customers, products and carts.
//!
//! A product's texts follow from the data's seed and its number alone, so that a client can search for an actor or a title that
//! the shop has without asking it first.

use super::schema::{AMPLE, CATEGORIES, LOW_MARK, Size};
use crate::draws::Draws;
use baremark_stats::Rng;
use serde::{Deserialize, Serialize};

/// Parts of words in names and titles.
const SYLLABLES: [&str; 16] =
    ["BA", "CE", "DI", "FO", "GU", "HA", "JE", "KI", "LO", "MU", "NA", "PE", "RI", "SO", "TU", "VA"];
/// Each product whose number this divides is popular.
const POPULAR_EACH: i64 = 100;
/// How much likelier a popular product is than another.
const POPULAR_WEIGHT: i64 = 10;
/// One product of so many is sold out from the start: about 2 % of orders have one of them.
const SOLD_OUT_EACH: i64 = 225;
const SOLD_OUT: i64 = 7;
/// One product of so many comes below its mark within a run.
const SCARCE_EACH: i64 = 500;
const SCARCE: i64 = 8;
/// The mean of searches and of reviews that are read, and of lines: 1 to 2n - 1, uniform.
const SEARCHES: i64 = 3;
pub(crate) const LINES: i64 = 5;
/// Label of the products' streams.
const PRODUCTS: u64 = 1 << 40;

/// A stream of draws for a shop of a size.
#[derive(Clone, Debug)]
pub struct Draw {
    rng: Rng,
    size: Size,
}

impl Draws for Draw {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

/// A line of a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Line {
    /// The product.
    pub product: i64,
    /// Units.
    pub quantity: i64,
}

/// What does not change of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// Its category, from 1.
    pub category: i64,
    /// Two words.
    pub title: String,
    /// First and last name.
    pub actor: String,
    /// In cents.
    pub price: i64,
    /// Whether it is on offer: 0 or 1.
    pub special: i64,
    /// The product that is often bought with it.
    pub common: i64,
    /// Units at first.
    pub stock: i64,
}

impl Product {
    /// Product `number` of a shop whose data has this seed.
    #[must_use]
    pub fn of(size: Size, seed: u64, number: i64) -> Product {
        let mut draw = Draw::stream(size, seed, PRODUCTS | number.unsigned_abs());
        let title = format!("{} {}", draw.word(3), draw.word(3));
        let actor = format!("{} {}", draw.word(2), draw.word(2));
        let (category, price) = (draw.uniform(1, CATEGORIES), draw.uniform(999, 2999));
        let (special, common) = (i64::from(draw.chance(20)), draw.uniform(1, size.products));
        let stock = match number {
            number if number % SOLD_OUT_EACH == SOLD_OUT => 0,
            number if number % SCARCE_EACH == SCARCE => LOW_MARK + draw.uniform(0, 20),
            _ => AMPLE,
        };
        Product { category, title, actor, price, special, common, stock }
    }
}

impl Draw {
    /// A stream of draws; equal (seed, label) give equal sequences.
    #[must_use]
    pub fn stream(size: Size, seed: u64, label: u64) -> Draw {
        Draw { rng: Rng::stream(seed, label), size }
    }

    /// A word of so many syllables.
    pub fn word(&mut self, syllables: usize) -> String {
        (0..syllables).map(|_| SYLLABLES[usize::try_from(self.rng.below(16)).unwrap_or(0)]).collect()
    }

    /// A customer of the new database.
    pub fn customer(&mut self) -> i64 {
        self.uniform(1, self.size.customers)
    }

    /// A review of the new database.
    pub fn review(&mut self) -> i64 {
        self.uniform(1, self.size.reviews())
    }

    /// A product; popular ones are ten times as likely as others.
    pub fn product(&mut self) -> i64 {
        let popular = self.size.products / POPULAR_EACH;
        let others = self.size.products - popular;
        let at = self.uniform(0, popular * POPULAR_WEIGHT + others - 1);
        if at < popular * POPULAR_WEIGHT {
            return POPULAR_EACH * (1 + at / POPULAR_WEIGHT);
        }
        // The others by rank: between two popular ones lie as many as divide them.
        let rank = at - popular * POPULAR_WEIGHT;
        rank + 1 + rank / (POPULAR_EACH - 1)
    }

    /// How many searches an order makes: 1 to 5, mean 3.
    pub fn searches(&mut self) -> i64 {
        self.uniform(1, 2 * SEARCHES - 1)
    }

    /// Different products by ascending number, 1 to 9, mean 5 but for products that were drawn twice.
    pub fn cart(&mut self) -> Vec<Line> {
        let count = self.uniform(1, 2 * LINES - 1);
        let mut lines: Vec<Line> =
            (0..count).map(|_| Line { product: self.product(), quantity: self.uniform(1, 3) }).collect();
        lines.sort();
        lines.dedup_by_key(|line| line.product);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::SIZES;
    use super::*;

    #[test]
    fn popular_products_are_ten_times_as_likely_and_every_product_can_be_drawn() {
        let size = Size { products: 1000, ..SIZES[0] };
        let mut draw = Draw::stream(size, 3, 1);
        let mut counts = vec![0_u32; 1001];
        let draws = 400_000;
        for _ in 0..draws {
            counts[usize::try_from(draw.product()).expect("positive")] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|count| *count > 0));
        let popular: u32 = counts.iter().skip(100).step_by(100).sum();
        let share = f64::from(popular) / f64::from(draws);
        let expected = 100.0 / (100.0 + 990.0);
        let error = (expected * (1.0 - expected) / f64::from(draws)).sqrt();
        assert!((share - expected).abs() < 5.0 * error, "{share} for {expected}");
    }

    #[test]
    fn carts_have_five_lines_on_average_and_two_percent_ask_for_what_is_sold_out() {
        let mut draw = Draw::stream(SIZES[0], 3, 1);
        let (carts, mut lines, mut failing) = (40_000, 0.0, 0.0);
        for _ in 0..carts {
            let cart = draw.cart();
            assert!((1..=9).contains(&cart.len()));
            assert!(cart.windows(2).all(|pair| pair[0].product < pair[1].product));
            lines += cart.len() as f64;
            failing += f64::from(cart.iter().any(|line| Product::of(SIZES[0], 1, line.product).stock == 0));
        }
        assert!((lines / f64::from(carts) - 5.0).abs() < 0.1, "{lines}");
        let share = failing / f64::from(carts);
        assert!((share - 0.02).abs() < 0.004, "{share}");
    }

    #[test]
    fn a_product_follows_from_its_number_alone() {
        let (one, again) = (Product::of(SIZES[0], 1, 42), Product::of(SIZES[0], 1, 42));
        assert_eq!(one, again);
        assert_ne!(one.title, Product::of(SIZES[0], 1, 43).title);
        assert!((1..=CATEGORIES).contains(&one.category));
    }
}
