//! The steps of an order as transactions: run by a client of the database itself, or by the web front for a browser.

use super::draw::Line;
use super::populate::{password, tax, username};
use crate::database::{Access, Answers, Cell, Connection, Dialect, Done, Failure, Param, Rows};
use crate::loading::now_ms;
use crate::statements::statements;
use serde::{Deserialize, Serialize};

/// The names of all steps, which are the pages of the web front.
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
/// How long a membership lasts, in ms.
const YEAR_MS: i64 = 365 * 24 * 3600 * 1000;

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

/// All statements in a dialect, as [`Step::perform`] expects them to be prepared.
#[must_use]
pub fn prepared(dialect: Dialect) -> Vec<String> {
    STATEMENTS.iter().map(|sql| dialect.sql(sql)).collect()
}

/// A step of an order with its inputs, which stay the same when it is retried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// The customer's number by name and password, and what was bought before.
    Login,
    /// A registration.
    NewCustomer {
        /// The row of the customer.
        row: Vec<Cell>,
    },
    /// A first membership, or another year of it.
    Membership {
        /// The type, 1 to 3.
        kind: i64,
    },
    /// Special offers of a category.
    Category(i64),
    /// Products with this actor.
    Actor(String),
    /// Products whose title begins with this word.
    Title(String),
    /// The reviews of a product.
    ReadReviews {
        /// The product.
        product: i64,
    },
    /// A review.
    WriteReview {
        /// Its number.
        number: i64,
        /// The product.
        product: i64,
        /// 1 to 5.
        stars: i64,
        /// In a line.
        summary: String,
        /// In full.
        text: String,
    },
    /// How helpful a review was.
    RateReview {
        /// The rating's number.
        number: i64,
        /// The review.
        review: i64,
        /// 1 to 10.
        helpfulness: i64,
    },
    /// The order itself.
    Purchase {
        /// Its number.
        number: i64,
        /// What is bought.
        lines: Vec<Line>,
    },
}

/// What the statements of a step returned; reused, it allocates little.
#[derive(Debug, Default)]
pub struct Returned {
    /// The rows of the last statement; none after a purchase.
    pub rows: Rows,
    answers: Answers,
}

impl Step {
    /// Its index among [`STEPS`].
    #[must_use]
    pub fn index(&self) -> usize {
        match self {
            Step::Login => 0,
            Step::NewCustomer { .. } => 1,
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

    /// Whether it changes the database.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(self, Step::Login | Step::Category(_) | Step::Actor(_) | Step::Title(_) | Step::ReadReviews { .. })
    }

    /// Runs it for a customer, from its begin to its commit, on a connection with the statements of [`prepared`].
    ///
    /// # Errors
    /// What the database says; the caller rolls back.
    pub fn perform(&self, customer: i64, db: &mut dyn Connection, returned: &mut Returned) -> Result<Done, Failure> {
        let Returned { rows, answers } = returned;
        match self {
            Step::Login => login(db, customer, rows)?,
            Step::NewCustomer { row } => register(db, customer, row, rows)?,
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
            }
            Step::RateReview { number, review, helpfulness } => {
                let params = [*number, *review, customer, *helpfulness].map(Param::Int);
                alone(db, Statement::RATING_INSERT, &params, rows)?;
            }
            Step::Purchase { number, lines } => {
                rows.reset(0);
                return purchase(db, [*number, customer], lines, answers);
            }
        }
        Ok(Done::Committed)
    }
}

/// Searches are for what the shop has.
fn found(rows: u64, what: &str, word: &str) -> Result<(), Failure> {
    if rows > 0 { Ok(()) } else { Err(Failure::other(format!("no product of the {what} {word} is found"))) }
}

fn login(db: &mut dyn Connection, customer: i64, rows: &mut Rows) -> Result<(), Failure> {
    let (name, password) = (username(customer), password(customer));
    run(db, Statement::CUSTOMER_LOGIN, &[name.as_str().into(), password.as_str().into()], rows)?;
    if rows.int(0, 0)? != customer {
        return Err(Failure::other(format!("{name} is not customer {customer}")));
    }
    run(db, Statement::CUSTOMER_HISTORY, &[customer.into()], rows).map(drop)
}

fn register(db: &mut dyn Connection, number: i64, row: &[Cell], rows: &mut Rows) -> Result<(), Failure> {
    db.begin(Access::Write)?;
    let name = username(number);
    run(db, Statement::NAME_TAKEN, &[name.as_str().into()], rows)?;
    if rows.int(0, 0)? > 0 {
        return Err(Failure::other(format!("the name {name} is taken")));
    }
    let params: Vec<Param<'_>> = row.iter().map(Cell::param).collect();
    run(db, Statement::CUSTOMER_INSERT, &params, rows)?;
    db.commit()
}

/// The customer's row is written first, which keeps others out.
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
    [order, customer]: [i64; 2],
    lines: &[Line],
    answers: &mut Answers,
) -> Result<Done, Failure> {
    let (now, mut net) = (now_ms(), 0);
    db.begin(Access::Write)?;
    for Line { product, quantity } in lines.iter().copied() {
        let mut batch = answers.batch();
        let price = batch.add(Statement::PRODUCT_PRICE as usize, &[product.into()]);
        let taking = [quantity, quantity, product, quantity].map(Param::Int);
        let taken = batch.add(Statement::STOCK_TAKE as usize, &taking);
        answers.execute(db, batch)?;
        net += answers.rows(price).int(0, 0)? * quantity;
        if answers.count(taken) == 0 {
            db.rollback()?;
            return Ok(Done::RolledBack);
        }
    }
    let line_count = i64::try_from(lines.len()).unwrap_or(i64::MAX);
    let row = [order, now, customer, net, tax(net), net + tax(net), line_count].map(Param::Int);
    let mut batch = answers.batch();
    batch.add(Statement::ORDER_INSERT as usize, &row);
    for (number, line) in (1_i64..).zip(lines) {
        let row = [order, number, line.product, line.quantity, now].map(Param::Int);
        batch.add(Statement::LINE_INSERT as usize, &row);
        batch.add(Statement::HISTORY_INSERT as usize, &[customer, order, line.product].map(Param::Int));
    }
    answers.execute(db, batch)?;
    db.commit()?;
    Ok(Done::Committed)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// How often a statement is in a list of what was executed.
    pub fn times(ran: &[usize], name: &str) -> usize {
        let of = match name {
            "login" => Statement::CUSTOMER_LOGIN,
            _ => Statement::ORDER_INSERT,
        };
        ran.iter().filter(|ran| **ran == of as usize).count()
    }

    #[test]
    fn only_searches_and_logins_leave_the_database_as_it_is() {
        let writing = [
            Step::NewCustomer { row: Vec::new() },
            Step::Membership { kind: 1 },
            Step::RateReview { number: 1, review: 1, helpfulness: 1 },
            Step::Purchase { number: 1, lines: Vec::new() },
        ];
        assert!(writing.iter().all(Step::writes));
        assert!(!Step::Login.writes() && !Step::ReadReviews { product: 1 }.writes());
    }
}
