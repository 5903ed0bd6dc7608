//! The rows of a new shop, made in parallel: the same for a seed, however many connections load it.

use super::draw::{Draw, LINES, Product};
use super::schema::{CATEGORIES, LOW_MARK, RATINGS, REVIEWS, SCHEMA, Size, TABLES, trigger};
use crate::database::{Cell, Connection, Failure};
use crate::draws::Draws;
use crate::loading::{Batch, Loader, int, text};

/// Rows of customers, orders or products that one connection makes at once.
const CHUNK: i64 = 2000;
/// Of so many customers one is a member.
const MEMBERS_EACH: i64 = 10;
/// When the shop's loaded orders begin, in ms of 1970, and how long they lasted.
const BEGIN_MS: i64 = 1_735_689_600_000;
const YEAR_MS: i64 = 365 * 24 * 3600 * 1000;

/// A part of the rows that one connection makes.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Categories, and the numbers of rows.
    Head,
    /// Customers from this one on, so many.
    Customers(i64, i64),
    /// Products with stock, reviews and ratings.
    Products(i64, i64),
    /// Orders with lines and history.
    Orders(i64, i64),
}

fn parts(size: Size) -> Vec<Part> {
    let chunks = |all: i64, part: fn(i64, i64) -> Part| {
        let starts = (0..all.div_euclid(CHUNK) + 1).map(move |chunk| chunk * CHUNK);
        starts.filter(move |start| *start < all).map(move |start| part(start + 1, CHUNK.min(all - start)))
    };
    let rows = chunks(size.customers, Part::Customers).chain(chunks(size.products, Part::Products));
    [Part::Head].into_iter().chain(rows).chain(chunks(size.orders(), Part::Orders)).collect()
}

/// Rows of all tables; those of order lines, five of an order, on average, and without the few products that are listed for
/// reorder.
#[must_use]
pub fn rows(size: Size) -> u64 {
    let members = size.customers / MEMBERS_EACH;
    // An order has as many rows of history as lines.
    let orders = size.orders() * (1 + 2 * LINES);
    let products = 2 * size.products + size.reviews() + size.ratings();
    (1 + CATEGORIES + size.customers + members + products + orders).unsigned_abs()
}

/// Makes the tables, fills them, and makes the trigger.
///
/// # Errors
/// As [`Loader::load`].
pub fn populate(loader: &Loader<'_>, size: Size, seed: u64) -> Result<(), Failure> {
    let parts = parts(size);
    loader.load(&SCHEMA, (&parts, rows(size)), &|connection, part| fill(connection, size, *part, seed))?;
    loader.database.connect()?.script(trigger(loader.database.dialect()))
}

fn fill(connection: &mut dyn Connection, size: Size, part: Part, seed: u64) -> Result<(), Failure> {
    let draw = |kind: u64, first: i64| Draw::stream(size, seed, kind << 56 | first.unsigned_abs());
    match part {
        Part::Head => head(connection, size),
        Part::Customers(first, count) => customers(connection, &mut draw(1, first), first, count),
        Part::Products(first, count) => {
            let of = |number| Product::of(size, seed, number);
            products(connection, &of, first, count)?;
            reviews(connection, &mut draw(2, first), first, count)
        }
        Part::Orders(first, count) => {
            let price = |number| Product::of(size, seed, number).price;
            orders(connection, &mut draw(3, first), &price, first, count)
        }
    }
}

fn head(connection: &mut dyn Connection, size: Size) -> Result<(), Failure> {
    let mut batch = Batch::new(connection, &TABLES, "opening")?;
    batch.row([size.customers, size.orders(), size.reviews(), size.ratings()].map(int))?;
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "categories")?;
    for category in 1..=CATEGORIES {
        batch.row([int(category), text(format!("category {category}"))])?;
    }
    batch.flush()
}

/// The row of a customer.
#[must_use]
pub fn customer(draw: &mut Draw, number: i64, is_member: bool) -> [Cell; 20] {
    let (first, last, city) = (draw.word(2), draw.word(3), draw.word(4));
    let (street, state, zip) = (draw.text(15, 25), draw.word(1), draw.uniform(10_000, 99_999));
    let (email, phone, card) = (format!("{last}@{city}.com"), draw.digits(10), draw.digits(16));
    let expires = format!("{}/{:02}", draw.uniform(2026, 2031), draw.uniform(1, 12));
    let gender = if draw.chance(50) { "F" } else { "M" };
    [
        int(number),
        text(first),
        text(last),
        text(street),
        text(city),
        text(state),
        int(zip),
        text("US"),
        int(1),
        text(email),
        text(phone),
        int(draw.uniform(1, 5)),
        text(card),
        text(expires),
        text(username(number)),
        text(password(number)),
        int(draw.uniform(18, 90)),
        int(draw.uniform(20, 200) * 1000),
        text(gender),
        int(i64::from(is_member)),
    ]
}

/// The name with which a customer logs in.
#[must_use]
pub fn username(number: i64) -> String {
    format!("user{number}")
}

/// The customer's password: of no secret, so known to every client.
#[must_use]
pub fn password(number: i64) -> String {
    format!("password{number}")
}

fn customers(connection: &mut dyn Connection, draw: &mut Draw, first: i64, count: i64) -> Result<(), Failure> {
    let is_member = |number: i64| number % MEMBERS_EACH == 0;
    let mut batch = Batch::new(connection, &TABLES, "customers")?;
    for number in first..first + count {
        batch.row(customer(draw, number, is_member(number)))?;
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "membership")?;
    for number in (first..first + count).filter(|number| is_member(*number)) {
        batch.row([int(number), int(draw.uniform(1, 3)), int(BEGIN_MS + YEAR_MS)])?;
    }
    batch.flush()
}

fn products(
    connection: &mut dyn Connection,
    of: &dyn Fn(i64) -> Product,
    first: i64,
    count: i64,
) -> Result<(), Failure> {
    let mut batch = Batch::new(connection, &TABLES, "products")?;
    for number in first..first + count {
        let Product { category, title, actor, price, special, common, .. } = of(number);
        batch.row([int(number), int(category), text(title), text(actor), int(price), int(special), int(common)])?;
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "inventory")?;
    for number in first..first + count {
        let stock = of(number).stock;
        batch.row([number, stock, 0, stock, LOW_MARK].map(int))?;
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "reorder")?;
    for number in (first..first + count).filter(|number| of(*number).stock < LOW_MARK) {
        batch.row([number, BEGIN_MS, of(number).stock].map(int))?;
    }
    batch.flush()
}

fn reviews(connection: &mut dyn Connection, draw: &mut Draw, first: i64, count: i64) -> Result<(), Failure> {
    let numbers = || (first - 1) * REVIEWS + 1..=(first + count - 1) * REVIEWS;
    let mut batch = Batch::new(connection, &TABLES, "reviews")?;
    for review in numbers() {
        let (product, date) = ((review - 1) / REVIEWS + 1, BEGIN_MS + draw.uniform(0, YEAR_MS));
        let (stars, customer) = (draw.uniform(1, 5), draw.customer());
        let row = [review, product, date, stars, customer].map(int);
        batch.row(row.into_iter().chain([text(draw.text(10, 40)), text(draw.text(60, 300))]))?;
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "reviews_helpfulness")?;
    for review in numbers() {
        for rating in 1..=RATINGS {
            let number = (review - 1) * RATINGS + rating;
            batch.row([number, review, draw.customer(), draw.uniform(1, 10)].map(int))?;
        }
    }
    batch.flush()
}

/// Tax on an amount of cents: 8.25 %, rounded down.
#[must_use]
pub fn tax(net: i64) -> i64 {
    net * 825 / 10_000
}

fn orders(
    connection: &mut dyn Connection,
    draw: &mut Draw,
    price: &dyn Fn(i64) -> i64,
    first: i64,
    count: i64,
) -> Result<(), Failure> {
    let all: Vec<_> = (first..first + count)
        .map(|order| (order, BEGIN_MS + draw.uniform(0, YEAR_MS), draw.customer(), draw.cart()))
        .collect();
    let mut batch = Batch::new(connection, &TABLES, "orders")?;
    for (order, date, customer, cart) in &all {
        let net: i64 = cart.iter().map(|line| price(line.product) * line.quantity).sum();
        let lines = i64::try_from(cart.len()).unwrap_or(i64::MAX);
        batch.row([*order, *date, *customer, net, tax(net), net + tax(net), lines].map(int))?;
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "orderlines")?;
    for (order, date, _, cart) in &all {
        for (number, line) in (1_i64..).zip(cart) {
            batch.row([*order, number, line.product, line.quantity, *date].map(int))?;
        }
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "cust_hist")?;
    for (order, _, customer, cart) in &all {
        for line in cart {
            batch.row([*customer, *order, line.product].map(int))?;
        }
    }
    batch.flush()
}

#[cfg(test)]
mod tests {
    use super::super::schema::SIZES;
    use super::*;

    #[test]
    fn parts_are_all_rows_once() {
        let size = Size { customers: 4001, orders_per_month: 500, products: 2000, ..SIZES[0] };
        let (mut customers, mut products, mut orders) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts(size) {
            match part {
                Part::Head => {}
                Part::Customers(first, count) => customers.extend(first..first + count),
                Part::Products(first, count) => products.extend(first..first + count),
                Part::Orders(first, count) => orders.extend(first..first + count),
            }
        }
        assert!(customers.into_iter().eq(1..=4001) && products.into_iter().eq(1..=2000));
        assert!(orders.into_iter().eq(1..=6000));
    }
}
