//! One order from login to purchase: its steps, and what was acknowledged.
//!
//! An order is one operation of the engine and several transactions of the database. When one of them has to be retried, the order
//! goes on from there: what is committed is not done again.

use super::draw::{Draw, Line, Product};
use super::populate::{customer, password, tax, username};
use super::schema::{CATEGORIES, Size};
use crate::conditions::{Account, mismatches};
use crate::database::{Access, Connection, Dialect, Failure, Param, Rows};
use crate::draws::Draws;
use crate::engine::{Client, Done};
use crate::loading::now_ms;
use crate::statements::statements;
use baremark_sys::clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The operation.
pub const NAMES: [&str; 1] = ["order"];
/// Its steps.
pub const STEPS: [&str; 10] = [
    "login",
    "new-customer",
    "membership",
    "browse-category",
    "browse-actor",
    "browse-title",
    "read-reviews",
    "write-review",
    "rate-review",
    "purchase",
];
/// Of 100 orders: by new customers, of customers who become members or renew, with a review, with a rating.
const NEW_CUSTOMERS: i64 = 20;
const MEMBERSHIPS: i64 = 1;
const REVIEWS: i64 = 5;
const RATINGS: i64 = 10;
/// How long a membership lasts, in ms.
const YEAR_MS: i64 = 365 * 24 * 3600 * 1000;

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

statements! {
    CUSTOMER_LOGIN = "select customerid from customers where username = ? and password = ?";
    CUSTOMER_HISTORY = "select p.title, p.actor, q.title from cust_hist h join products p on p.prod_id = h.prod_id join products q on q.prod_id = p.common_prod_id where h.customerid = ? order by h.orderid desc limit 10";
    NAME_TAKEN = "select count(*) from customers where username = ?";
    CUSTOMER_INSERT = "insert into customers (customerid, firstname, lastname, address1, city, state, zip, country, region, email, phone, creditcardtype, creditcard, creditcardexpiration, username, password, age, income, gender, is_member) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    MEMBER_FIRST = "update customers set is_member = 1 where customerid = ? and is_member = 0";
    MEMBER_INSERT = "insert into membership (membershiptype, expiredate, customerid) values (?, ?, ?)";
    MEMBER_RENEW = "update membership set membershiptype = ?, expiredate = ? where customerid = ?";
    BY_CATEGORY = "select prod_id, title, actor, price, common_prod_id from products where category = ? and special = 1 limit 5";
    BY_ACTOR = "select prod_id, title, actor, price, common_prod_id from products where actor = ? limit 5";
    BY_TITLE = "select prod_id, title, actor, price, common_prod_id from products where title >= ? and title < ? order by title limit 5";
    REVIEWS_OF = "select r.review_id, r.stars, r.review_summary, r.review_text, coalesce(sum(h.helpfulness), 0) as total from reviews r left join reviews_helpfulness h on h.review_id = r.review_id where r.prod_id = ? group by r.review_id, r.stars, r.review_summary, r.review_text order by total desc, r.review_id limit 10";
    REVIEW_INSERT = "insert into reviews (review_id, prod_id, review_date, stars, customerid, review_summary, review_text) values (?, ?, ?, ?, ?, ?, ?)";
    RATING_INSERT = "insert into reviews_helpfulness (rating_id, review_id, customerid, helpfulness) values (?, ?, ?, ?)";
    PRODUCT_PRICE = "select price from products where prod_id = ?";
    STOCK_TAKE = "update inventory set quan_in_stock = quan_in_stock - ?, sales = sales + ? where prod_id = ? and quan_in_stock >= ?";
    ORDER_INSERT = "insert into orders (orderid, orderdate, customerid, netamount, tax, totalamount, line_count) values (?, ?, ?, ?, ?, ?, ?)";
    LINE_INSERT = "insert into orderlines (orderid, orderlineid, prod_id, quantity, orderdate) values (?, ?, ?, ?, ?)";
    HISTORY_INSERT = "insert into cust_hist (customerid, orderid, prod_id) values (?, ?, ?)";
}

/// A step of an order with its inputs.
#[derive(Clone, Debug)]
enum Step {
    Login,
    NewCustomer,
    Membership { kind: i64 },
    Category(i64),
    Actor(String),
    Title(String),
    ReadReviews { product: i64 },
    WriteReview { number: i64, product: i64, stars: i64, summary: String, text: String },
    RateReview { number: i64, review: i64, helpfulness: i64 },
    Purchase { number: i64, lines: Vec<Line> },
}

impl Step {
    /// Its index among [`STEPS`].
    fn index(&self) -> usize {
        match self {
            Step::Login => 0,
            Step::NewCustomer => 1,
            Step::Membership { .. } => 2,
            Step::Category(_) => 3,
            Step::Actor(_) => 4,
            Step::Title(_) => 5,
            Step::ReadReviews { .. } => 6,
            Step::WriteReview { .. } => 7,
            Step::RateReview { .. } => 8,
            Step::Purchase { .. } => 9,
        }
    }
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
    rows: Rows,
}

impl Shopper {
    /// Client `number`, counted from 0.
    #[must_use]
    pub fn new(rules: &Rules, number: usize) -> Shopper {
        let size = rules.size;
        let first = 1 + i64::try_from(number).unwrap_or(0);
        let next = [size.customers, size.orders(), size.reviews(), size.ratings()].map(|loaded| loaded + first);
        let draw = Draw::stream(size, rules.seed, first.unsigned_abs());
        let (steps, took, rows) = (Vec::new(), Vec::new(), Rows::default());
        Shopper { rules: rules.clone(), draw, next, customer: 1, steps, at: 0, begun: None, took, rows }
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

    fn drawn(&mut self) -> Vec<Step> {
        let is_new = self.draw.chance(NEW_CUSTOMERS);
        self.customer = if is_new { self.number(0) } else { self.draw.customer() };
        let mut steps = vec![if is_new { Step::NewCustomer } else { Step::Login }];
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
        let (customer, rows) = (self.customer, &mut self.rows);
        match &self.steps[self.at] {
            Step::Login => login(db, customer, rows)?,
            Step::NewCustomer => {
                // The same row when it is retried.
                let mut draw = Draw::stream(self.rules.size, self.rules.seed, customer.unsigned_abs() | 1 << 40);
                register(db, customer, &mut draw, rows)?;
                count(&self.rules.acknowledged.customers);
            }
            Step::Membership { kind } => join(db, customer, *kind, rows)?,
            Step::Category(category) => {
                run(db, Statement::BY_CATEGORY, &[(*category).into()], rows)?;
            }
            Step::Actor(actor) => found(run(db, Statement::BY_ACTOR, &[actor.as_str().into()], rows)?, "actor", actor)?,
            Step::Title(word) => {
                let (from, below) = (format!("{word} "), format!("{word}!"));
                let params = [from.as_str().into(), below.as_str().into()];
                found(run(db, Statement::BY_TITLE, &params, rows)?, "title", word)?;
            }
            Step::ReadReviews { product } => {
                run(db, Statement::REVIEWS_OF, &[(*product).into()], rows)?;
            }
            Step::WriteReview { number, product, stars, summary, text } => {
                let numbers = [*number, *product, now_ms(), *stars, customer].map(Param::Int);
                let [number, product, date, stars, customer] = numbers;
                let params = [number, product, date, stars, customer, summary.as_str().into(), text.as_str().into()];
                alone(db, Statement::REVIEW_INSERT, &params, rows)?;
                count(&self.rules.acknowledged.reviews);
            }
            Step::RateReview { number, review, helpfulness } => {
                let params = [*number, *review, customer, *helpfulness].map(Param::Int);
                alone(db, Statement::RATING_INSERT, &params, rows)?;
                count(&self.rules.acknowledged.ratings);
            }
            Step::Purchase { number, lines } => {
                if purchase(db, *number, customer, lines, rows)? == Done::RolledBack {
                    return Ok(Done::RolledBack);
                }
                count(&self.rules.acknowledged.orders);
                if let Some(numbers) = &self.rules.acknowledged.numbers {
                    numbers.lock().unwrap_or_else(PoisonError::into_inner).push(*number);
                }
            }
        }
        Ok(Done::Committed)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Searches are for what the shop has.
fn found(rows: u64, what: &str, word: &str) -> Result<(), Failure> {
    if rows > 0 { Ok(()) } else { Err(Failure::other(format!("no product of the {what} {word} is found"))) }
}

/// The customer's number by name and password, and what was bought before.
fn login(db: &mut dyn Connection, customer: i64, rows: &mut Rows) -> Result<(), Failure> {
    let (name, password) = (username(customer), password(customer));
    run(db, Statement::CUSTOMER_LOGIN, &[name.as_str().into(), password.as_str().into()], rows)?;
    if rows.int(0, 0)? != customer {
        return Err(Failure::other(format!("{name} is not customer {customer}")));
    }
    run(db, Statement::CUSTOMER_HISTORY, &[customer.into()], rows).map(drop)
}

fn register(db: &mut dyn Connection, number: i64, draw: &mut Draw, rows: &mut Rows) -> Result<(), Failure> {
    db.begin(Access::Write)?;
    let name = username(number);
    run(db, Statement::NAME_TAKEN, &[name.as_str().into()], rows)?;
    if rows.int(0, 0)? > 0 {
        return Err(Failure::other(format!("the name {name} is taken")));
    }
    let row = customer(draw, number, false);
    let params: Vec<Param<'_>> = row.iter().map(crate::database::Cell::param).collect();
    run(db, Statement::CUSTOMER_INSERT, &params, rows)?;
    db.commit()
}

/// A first membership, or another year of it. The customer's row is written first, which keeps others out.
fn join(db: &mut dyn Connection, customer: i64, kind: i64, rows: &mut Rows) -> Result<(), Failure> {
    db.begin(Access::Write)?;
    let is_first = run(db, Statement::MEMBER_FIRST, &[customer.into()], rows)? == 1;
    let membership = [kind, now_ms() + YEAR_MS, customer].map(Param::Int);
    let statement = if is_first { Statement::MEMBER_INSERT } else { Statement::MEMBER_RENEW };
    if run(db, statement, &membership, rows)? != 1 {
        return Err(Failure::other(format!("the membership of customer {customer} is missing")));
    }
    db.commit()
}

/// A statement that is a transaction of its own.
fn alone(db: &mut dyn Connection, statement: Statement, params: &[Param<'_>], rows: &mut Rows) -> Result<(), Failure> {
    db.begin(Access::Write)?;
    run(db, statement, params, rows)?;
    db.commit()
}

/// Takes the stock of all lines and inserts the order; too little stock of any rolls all of it back.
fn purchase(
    db: &mut dyn Connection,
    order: i64,
    customer: i64,
    lines: &[Line],
    rows: &mut Rows,
) -> Result<Done, Failure> {
    let (now, mut net) = (now_ms(), 0);
    db.begin(Access::Write)?;
    for Line { product, quantity } in lines.iter().copied() {
        run(db, Statement::PRODUCT_PRICE, &[product.into()], rows)?;
        net += rows.int(0, 0)? * quantity;
        if run(db, Statement::STOCK_TAKE, &[quantity, quantity, product, quantity].map(Param::Int), rows)? == 0 {
            db.rollback()?;
            return Ok(Done::RolledBack);
        }
    }
    let line_count = i64::try_from(lines.len()).unwrap_or(i64::MAX);
    let row = [order, now, customer, net, tax(net), net + tax(net), line_count].map(Param::Int);
    run(db, Statement::ORDER_INSERT, &row, rows)?;
    for (number, line) in (1_i64..).zip(lines) {
        run(db, Statement::LINE_INSERT, &[order, number, line.product, line.quantity, now].map(Param::Int), rows)?;
        run(db, Statement::HISTORY_INSERT, &[customer, order, line.product].map(Param::Int), rows)?;
    }
    db.commit()?;
    Ok(Done::Committed)
}

impl Client for Shopper {
    fn statements(&self) -> Vec<String> {
        STATEMENTS.iter().map(|sql| self.rules.dialect.sql(sql)).collect()
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
            Some(Step::NewCustomer) => 1,
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
    use super::super::schema::SIZES;
    use super::*;

    fn shopper(number: usize) -> Shopper {
        let (think, acknowledged) = (Duration::ZERO, Arc::default());
        let size = SIZES[0];
        let rules = Rules { size, data_seed: 1, seed: 7, think, clients: 2, dialect: Dialect::Sqlite, acknowledged };
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
            rows.cells.push(crate::database::Cell::Int(number));
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
            Err(Failure::new(crate::database::Class::Deadlock, "scripted"))
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

        fn insert(&mut self, _: &str, _: usize, _: &[crate::database::Cell]) -> Result<(), Failure> {
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
        let times = |statement: Statement| db.ran.iter().filter(|ran| **ran == statement as usize).count();
        assert_eq!((times(Statement::CUSTOMER_LOGIN), times(Statement::ORDER_INSERT)), (1, 3));
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
