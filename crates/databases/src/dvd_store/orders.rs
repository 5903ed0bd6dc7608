//! One order from login to purchase: which steps it has, and what was acknowledged.
//!
//! An order is one operation of the engine and several transactions of the database. When one of them has to be retried, the order
//! goes on from there: what is committed is not done again.

use super::draw::{Draw, Product};
use super::populate::customer;
use super::schema::{CATEGORIES, Size};
use super::steps::{self, Returned, Step};
use crate::conditions::{Account, mismatches};
use crate::database::{Class, Connection, Dialect, Done, Failure, Rows};
use crate::draws::Draws;
use crate::engine::Client;
use baremark_sys::clock;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use super::steps::STEPS;

/// The operation.
pub const NAMES: [&str; 1] = ["order"];
/// Of 100 orders: by new customers, of customers who become members or renew, with a review, with a rating.
const NEW_CUSTOMERS: i64 = 20;
const MEMBERSHIPS: i64 = 1;
const REVIEWS: i64 = 5;
const RATINGS: i64 = 10;

/// What was acknowledged to all clients of a phase.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// Purchases.
    pub orders: AtomicU64,
    /// New customers.
    pub customers: AtomicU64,
    /// Reviews that were written.
    pub reviews: AtomicU64,
    /// Ratings of reviews.
    pub ratings: AtomicU64,
    /// The same of unknown outcome, in this order.
    pub unknown: [AtomicU64; 4],
    /// Numbers of the acknowledged orders, where they are requested.
    pub numbers: Option<Mutex<Vec<i64>>>,
}

/// How clients reach the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over connections of their own.
    Database,
    /// As browsers of the web front, which has the connections.
    Front,
}

/// What a browser asks of the web front.
#[derive(Debug, Serialize, Deserialize)]
pub struct Asked<S> {
    /// Who asks.
    pub customer: i64,
    /// For what.
    pub step: S,
}

/// What all clients of a phase share.
#[derive(Clone)]
pub struct Rules {
    /// The size of the shop.
    pub size: Size,
    /// Seed of the data.
    pub data_seed: u64,
    /// Seed of the phase.
    pub seed: u64,
    /// Mean time that a client thinks after an order; exponential.
    pub think: Duration,
    /// Clients.
    pub clients: usize,
    /// How the database writes SQL.
    pub dialect: Dialect,
    /// How it is reached.
    pub way: Way,
    /// What was acknowledged.
    pub acknowledged: Arc<Acknowledged>,
}

/// A client of the shop.
pub struct Shopper {
    rules: Rules,
    draw: Draw,
    /// The next numbers that are this client's alone: of customers, orders, reviews and ratings.
    next: [i64; 4],
    customer: i64,
    steps: Vec<Step>,
    /// The step that is next, and when it was first begun.
    at: usize,
    begun: Option<u64>,
    took: Vec<(usize, u64)>,
    returned: Returned,
}

impl Shopper {
    /// Client `number`, counted from 0.
    #[must_use]
    pub fn new(rules: &Rules, number: usize) -> Shopper {
        let size = rules.size;
        let first = 1 + i64::try_from(number).unwrap_or(0);
        let next = [size.customers, size.orders(), size.reviews(), size.ratings()].map(|loaded| loaded + first);
        let draw = Draw::stream(size, rules.seed, first.unsigned_abs());
        let (steps, took, returned) = (Vec::new(), Vec::new(), Returned::default());
        Shopper { rules: rules.clone(), draw, next, customer: 1, steps, at: 0, begun: None, took, returned }
    }

    /// The next number of a kind; clients take turns, so that nobody else has it.
    fn number(&mut self, kind: usize) -> i64 {
        let number = self.next[kind];
        self.next[kind] += i64::try_from(self.rules.clients).unwrap_or(1);
        number
    }

    fn search(&mut self) -> Step {
        let product = self.draw.product();
        let known = Product::of(self.rules.size, self.rules.data_seed, product);
        match self.draw.uniform(1, 3) {
            1 => Step::Category(self.draw.uniform(1, CATEGORIES)),
            2 => Step::Actor(known.actor),
            _ => Step::Title(known.title.split(' ').next().unwrap_or_default().to_owned()),
        }
    }

    /// The registration of this customer.
    fn newcomer(&self) -> Step {
        let label = self.customer.unsigned_abs() | 1 << 40;
        let mut draw = Draw::stream(self.rules.size, self.rules.seed, label);
        Step::NewCustomer { row: customer(&mut draw, self.customer, false).to_vec() }
    }

    fn drawn(&mut self) -> Vec<Step> {
        let is_new = self.draw.chance(NEW_CUSTOMERS);
        self.customer = if is_new { self.number(0) } else { self.draw.customer() };
        let mut steps = vec![if is_new { self.newcomer() } else { Step::Login }];
        if self.draw.chance(MEMBERSHIPS) {
            steps.push(Step::Membership { kind: self.draw.uniform(1, 3) });
        }
        for _ in 0..self.draw.searches() {
            steps.push(self.search());
        }
        for _ in 0..self.draw.searches() {
            steps.push(Step::ReadReviews { product: self.draw.product() });
        }
        if self.draw.chance(REVIEWS) {
            let (number, product, stars) = (self.number(2), self.draw.product(), self.draw.uniform(1, 5));
            let (summary, text) = (self.draw.text(10, 40), self.draw.text(60, 300));
            steps.push(Step::WriteReview { number, product, stars, summary, text });
        }
        if self.draw.chance(RATINGS) {
            let (number, review, helpfulness) = (self.number(3), self.draw.review(), self.draw.uniform(1, 10));
            steps.push(Step::RateReview { number, review, helpfulness });
        }
        steps.push(Step::Purchase { number: self.number(1), lines: self.draw.cart() });
        steps
    }

    fn step(&mut self, db: &mut dyn Connection) -> Result<Done, Failure> {
        let (customer, step) = (self.customer, &self.steps[self.at]);
        let done = match self.rules.way {
            Way::Database => step.perform(customer, db, &mut self.returned)?,
            Way::Front => asked(db, customer, step)?,
        };
        let acknowledged = &self.rules.acknowledged;
        let counter = match step {
            Step::Purchase { number, .. } if done == Done::Committed => {
                if let Some(numbers) = &acknowledged.numbers {
                    numbers.lock().unwrap_or_else(PoisonError::into_inner).push(*number);
                }
                &acknowledged.orders
            }
            Step::NewCustomer { .. } => &acknowledged.customers,
            Step::WriteReview { .. } => &acknowledged.reviews,
            Step::RateReview { .. } => &acknowledged.ratings,
            _ => return Ok(done),
        };
        count(counter);
        Ok(done)
    }
}

/// Asks the web front for a step. A connection that breaks leaves the outcome of a step that writes unknown; others are asked for again.
fn asked(front: &mut dyn Connection, customer: i64, step: &Step) -> Result<Done, Failure> {
    let body = serde_json::to_vec(&Asked { customer, step }).map_err(Failure::other)?;
    front.request(STEPS[step.index()], &body).map_err(|why| match why.class {
        Class::Ambiguous if !step.writes() => Failure::new(Class::Lost, why.what),
        _ => why,
    })
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Client for Shopper {
    fn statements(&self) -> Vec<String> {
        steps::prepared(self.rules.dialect)
    }

    fn draw(&mut self) -> usize {
        self.steps = self.drawn();
        (self.at, self.begun) = (0, None);
        self.took.clear();
        0
    }

    fn after(&mut self) -> Duration {
        if self.rules.think.is_zero() {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(self.draw.exponential(self.rules.think.as_secs_f64()))
    }

    fn run(&mut self, connection: &mut dyn Connection) -> Result<Done, Failure> {
        let mut done = Done::Committed;
        while self.at < self.steps.len() {
            let begun = *self.begun.get_or_insert_with(clock::monotonic_ns);
            done = self.step(connection)?;
            self.took.push((self.steps[self.at].index(), clock::monotonic_ns() - begun));
            (self.at, self.begun) = (self.at + 1, None);
        }
        Ok(done)
    }

    fn ambiguous(&mut self) {
        let kind = match self.steps.get(self.at) {
            Some(Step::Purchase { .. }) => 0,
            Some(Step::NewCustomer { .. }) => 1,
            Some(Step::WriteReview { .. }) => 2,
            Some(Step::RateReview { .. }) => 3,
            _ => return,
        };
        count(&self.rules.acknowledged.unknown[kind]);
    }

    fn steps(&self) -> &[(usize, u64)] {
        &self.took
    }
}

/// Compares what was acknowledged with what the database has beyond what it had at its opening; a mismatch in words.
///
/// # Errors
/// What the database says.
pub fn unaccounted(connection: &mut dyn Connection, acknowledged: &Acknowledged) -> Result<Option<String>, Failure> {
    let mut rows = Rows::default();
    let read = |counter: &AtomicU64| i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
    let kinds = [
        ("orders", "orders", &acknowledged.orders),
        ("customers", "customers", &acknowledged.customers),
        ("reviews", "reviews", &acknowledged.reviews),
        ("ratings", "reviews_helpfulness", &acknowledged.ratings),
    ];
    let mut accounts = Vec::new();
    for ((what, table, known), unknown) in kinds.into_iter().zip(&acknowledged.unknown) {
        connection.query(&format!("select (select count(*) from {table}) - {what} from opening"), &mut rows)?;
        accounts.push(Account { what, found: rows.int(0, 0)?, known: read(known), unknown: read(unknown) });
    }
    Ok(mismatches(&accounts))
}

#[cfg(test)]
mod tests {
    use super::super::draw::Line;
    use super::super::schema::SIZES;
    use super::super::steps::tests::times;
    use super::*;
    use crate::database::{Access, Cell, Param};

    fn shopper(number: usize) -> Shopper {
        let (think, acknowledged) = (Duration::ZERO, Arc::default());
        let size = SIZES[0];
        let (dialect, way) = (Dialect::Sqlite, Way::Database);
        let rules = Rules { size, data_seed: 1, seed: 7, think, clients: 2, dialect, way, acknowledged };
        Shopper::new(&rules, number)
    }

    #[test]
    fn shares_of_steps_are_the_shops() {
        let mut shopper = shopper(0);
        let orders = 20_000;
        let mut counts = [0.0; STEPS.len()];
        for _ in 0..orders {
            shopper.draw();
            assert!(matches!(shopper.steps.last(), Some(Step::Purchase { .. })));
            shopper.steps.iter().for_each(|step| counts[step.index()] += 1.0);
        }
        for (step, (found, expected)) in
            STEPS.iter().zip(counts.iter().zip([0.8, 0.2, 0.01, 1.0, 1.0, 1.0, 3.0, 0.05, 0.1, 1.0]))
        {
            let mean = found / f64::from(orders);
            // Five standard errors of a share, or of a mean of 1 to 5.
            let error = 5.0 * (2.0 * f64::max(expected * (1.0 - expected), expected / 2.0) / f64::from(orders)).sqrt();
            assert!((mean - expected).abs() < error, "{step}: {mean} for {expected}");
        }
    }

    #[test]
    fn no_two_clients_give_the_same_number() {
        let (mut one, mut two) = (shopper(0), shopper(1));
        let numbers = |shopper: &mut Shopper| -> Vec<i64> { (0..100).map(|_| shopper.number(1)).collect() };
        let (one, two) = (numbers(&mut one), numbers(&mut two));
        assert!(one.iter().all(|number| *number > SIZES[0].orders() && !two.contains(number)));
    }

    /// Answers as a shop in which everything is found; commits fail so many times more.
    struct Scripted {
        ran: Vec<usize>,
        deadlocks: usize,
    }

    impl Connection for Scripted {
        fn prepare(&mut self, _: &[String]) -> Result<(), Failure> {
            Ok(())
        }

        fn execute(&mut self, statement: usize, params: &[Param<'_>], rows: &mut Rows) -> Result<u64, Failure> {
            self.ran.push(statement);
            let number = match params.first() {
                Some(Param::Text(name)) => name.trim_start_matches("user").parse().unwrap_or(0),
                _ => 100,
            };
            rows.reset(1);
            rows.cells.push(Cell::Int(number));
            Ok(1)
        }

        fn begin(&mut self, _: Access) -> Result<(), Failure> {
            Ok(())
        }

        fn commit(&mut self) -> Result<(), Failure> {
            if self.deadlocks == 0 {
                return Ok(());
            }
            self.deadlocks -= 1;
            Err(Failure::new(Class::Deadlock, "scripted"))
        }

        fn rollback(&mut self) -> Result<(), Failure> {
            Ok(())
        }

        fn script(&mut self, _: &str) -> Result<(), Failure> {
            Ok(())
        }

        fn query(&mut self, _: &str, _: &mut Rows) -> Result<(), Failure> {
            Ok(())
        }

        fn insert(&mut self, _: &str, _: usize, _: &[Cell]) -> Result<(), Failure> {
            Ok(())
        }
    }

    #[test]
    fn an_order_that_is_retried_goes_on_from_the_step_that_failed() {
        let mut shopper = shopper(0);
        let mut db = Scripted { ran: Vec::new(), deadlocks: 2 };
        shopper.draw();
        shopper.steps = vec![Step::Login, Step::Purchase { number: 1, lines: vec![Line { product: 1, quantity: 2 }] }];
        for _ in 0..2 {
            assert!(shopper.run(&mut db).is_err());
        }
        assert_eq!(shopper.run(&mut db), Ok(Done::Committed));
        assert_eq!((times(&db.ran, "login"), times(&db.ran, "order")), (1, 3));
        let took: Vec<usize> = Client::steps(&shopper).iter().map(|(step, _)| *step).collect();
        assert_eq!(took, [0, 9]);
        assert_eq!(shopper.rules.acknowledged.orders.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn titles_are_searched_by_a_word_that_a_product_has() {
        let mut shopper = shopper(0);
        for _ in 0..200 {
            if let Step::Title(word) = shopper.search() {
                assert!(!word.is_empty() && !word.contains(' '));
            }
        }
    }
}
