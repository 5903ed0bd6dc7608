//! The rows of a new database (rule 4.3.3), made in parallel: the same for a seed, however many connections load it.

use super::draw::{Constants, Draw, last_name};
use super::schema::{CUSTOMERS, DISTRICTS, FIRST_UNDELIVERED, ITEMS, SCHEMA, TABLES};
use crate::database::{Cell, Connection, Failure};
use crate::draws::Draws;
use crate::loading::{Batch, Loader, int, now_ms, text};

/// A part of the rows that one connection makes.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Items from this one on, so many.
    Items(i64, i64),
    /// The warehouse's own row and those of its districts.
    Warehouse(i64),
    /// Stock of a warehouse from this item on, so many.
    Stock(i64, i64, i64),
    /// Customers of a district and their history.
    Customers(i64, i64),
    /// Orders of a district with their lines.
    Orders(i64, i64),
}

fn parts(warehouses: i64) -> Vec<Part> {
    let tenth = ITEMS / 10;
    let mut parts: Vec<Part> = (0..10).map(|tenths| Part::Items(tenths * tenth + 1, tenth)).collect();
    for w in 1..=warehouses {
        parts.push(Part::Warehouse(w));
        parts.extend((0..10).map(|tenths| Part::Stock(w, tenths * tenth + 1, tenth)));
        parts.extend((1..=DISTRICTS).map(|d| Part::Customers(w, d)));
        parts.extend((1..=DISTRICTS).map(|d| Part::Orders(w, d)));
    }
    parts
}

/// Rows of all tables; those of order lines, five to fifteen of an order, on average.
#[must_use]
pub fn rows(warehouses: i64) -> u64 {
    let undelivered = CUSTOMERS - FIRST_UNDELIVERED + 1;
    // Customers, their history, orders and ten lines of each.
    let district = 1 + 13 * CUSTOMERS + undelivered;
    (ITEMS + warehouses * (1 + ITEMS + DISTRICTS * district)).unsigned_abs()
}

/// Makes the tables and fills them.
///
/// # Errors
/// As [`Loader::load`].
pub fn populate(loader: &Loader<'_>, warehouses: i64, seed: u64) -> Result<(), Failure> {
    let parts = parts(warehouses);
    loader.load(&SCHEMA, (&parts, rows(warehouses)), &|connection, part| fill(connection, *part, seed))
}

fn fill(connection: &mut dyn Connection, part: Part, seed: u64) -> Result<(), Failure> {
    let constants = Constants::of_load(seed);
    let draw = |kind: u64, w: i64, other: i64| {
        Draw::stream(seed, kind << 56 | w.unsigned_abs() << 24 | other.unsigned_abs(), constants)
    };
    match part {
        Part::Items(first, count) => items(connection, &mut draw(1, 0, first), first, count),
        Part::Warehouse(w) => warehouse(connection, &mut draw(2, w, 0), w),
        Part::Stock(w, first, count) => stock(connection, &mut draw(3, w, first), w, first, count),
        Part::Customers(w, d) => customers(connection, &mut draw(4, w, d), w, d),
        Part::Orders(w, d) => orders(connection, &mut draw(5, w, d), w, d),
    }
}

fn items(connection: &mut dyn Connection, draw: &mut Draw, first: i64, count: i64) -> Result<(), Failure> {
    let mut batch = Batch::new(connection, &TABLES, "item")?;
    for i in first..first + count {
        let (image, name, price) = (draw.uniform(1, 10_000), draw.text(14, 24), draw.uniform(100, 10_000));
        batch.row([int(i), int(image), text(name), int(price), text(draw.data())])?;
    }
    batch.flush()
}

/// Street, street, city, state and zip code.
fn address(draw: &mut Draw) -> [Cell; 5] {
    [draw.text(10, 20), draw.text(10, 20), draw.text(10, 20), draw.text(2, 2), draw.zip()].map(Cell::Text)
}

fn warehouse(connection: &mut dyn Connection, draw: &mut Draw, w: i64) -> Result<(), Failure> {
    let mut batch = Batch::new(connection, &TABLES, "warehouse")?;
    let head = [int(w), text(draw.text(6, 10))];
    batch.row(head.into_iter().chain(address(draw)).chain([int(draw.uniform(0, 2000)), int(30_000_000)]))?;
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "district")?;
    for d in 1..=DISTRICTS {
        let head = [int(w), int(d), text(draw.text(6, 10))];
        let tail = [int(draw.uniform(0, 2000)), int(3_000_000), int(CUSTOMERS + 1)];
        batch.row(head.into_iter().chain(address(draw)).chain(tail))?;
    }
    batch.flush()
}

fn stock(connection: &mut dyn Connection, draw: &mut Draw, w: i64, first: i64, count: i64) -> Result<(), Failure> {
    let mut batch = Batch::new(connection, &TABLES, "stock")?;
    for i in first..first + count {
        let head = [int(w), int(i), int(draw.uniform(10, 100))];
        let infos: Vec<Cell> = (0..DISTRICTS).map(|_| text(draw.text(24, 24))).collect();
        batch.row(head.into_iter().chain(infos).chain([int(0), int(0), int(0), text(draw.data())]))?;
    }
    batch.flush()
}

fn customers(connection: &mut dyn Connection, draw: &mut Draw, w: i64, d: i64) -> Result<(), Failure> {
    let now = now_ms();
    let mut batch = Batch::new(connection, &TABLES, "customer")?;
    for c in 1..=CUSTOMERS {
        let last = if c <= 1000 { last_name(c - 1) } else { draw.last_name() };
        let head = [int(w), int(d), int(c), text(draw.text(8, 16)), text("OE"), text(last)];
        let credit = if draw.chance(10) { "BC" } else { "GC" };
        let phone = draw.digits(16);
        let middle = address(draw).into_iter().chain([text(phone), int(now), text(credit), int(5_000_000)]);
        let tail = [int(draw.uniform(0, 5000)), int(-1000), int(1000), int(1), int(0), text(draw.text(300, 500))];
        batch.row(head.into_iter().chain(middle).chain(tail))?;
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "history")?;
    for c in 1..=CUSTOMERS {
        batch.row([int(c), int(d), int(w), int(d), int(w), int(now), int(1000), text(draw.text(12, 24))])?;
    }
    batch.flush()
}

fn orders(connection: &mut dyn Connection, draw: &mut Draw, w: i64, d: i64) -> Result<(), Failure> {
    let now = now_ms();
    let mut customers: Vec<i64> = (1..=CUSTOMERS).collect();
    draw.shuffle(&mut customers);
    let counts: Vec<i64> = (0..CUSTOMERS).map(|_| draw.uniform(5, 15)).collect();
    let rows = || (1_i64..).zip(customers.iter().zip(&counts));
    let mut batch = Batch::new(connection, &TABLES, "orders")?;
    for (o, (c, lines)) in rows() {
        let carrier = if o < FIRST_UNDELIVERED { int(draw.uniform(1, 10)) } else { Cell::Null };
        batch.row([int(w), int(d), int(o), int(*c), int(now), carrier, int(*lines), int(1)])?;
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "new_order")?;
    for o in FIRST_UNDELIVERED..=CUSTOMERS {
        batch.row([int(w), int(d), int(o)])?;
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "order_line")?;
    for (o, (_, lines)) in rows() {
        for number in 1..=*lines {
            let item = draw.uniform(1, ITEMS);
            let (delivered, amount) =
                if o < FIRST_UNDELIVERED { (int(now), 0) } else { (Cell::Null, draw.uniform(1, 999_999)) };
            let info = text(draw.text(24, 24));
            batch.row([
                int(w),
                int(d),
                int(o),
                int(number),
                int(item),
                int(w),
                delivered,
                int(5),
                int(amount),
                info,
            ])?;
        }
    }
    batch.flush()
}
