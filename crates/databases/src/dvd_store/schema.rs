//! Tables, sizes, and the trigger that lists products for reorder.

use crate::database::Dialect;
use crate::loading::Schema;

/// Categories of products.
pub const CATEGORIES: i64 = 16;
/// Months of orders in a new database.
const MONTHS: i64 = 12;
/// Reviews of a product in a new database.
pub const REVIEWS: i64 = 2;
/// Ratings of a review in a new database.
pub const RATINGS: i64 = 2;
/// Units of a product that is not scarce: more than any run sells.
pub const AMPLE: i64 = 1_000_000;
/// Stock below which a product is listed for reorder.
pub const LOW_MARK: i64 = 10;
/// Bytes on disk with indexes of a customer, an order with its lines and history, and a product with its stock and reviews: more
/// than they take, so that a disk that is too small is refused. A test compares them with the file of `SQLite`.
const CUSTOMER_BYTES: u64 = 500;
const ORDER_BYTES: u64 = 900;
const PRODUCT_BYTES: u64 = 1600;

/// A size of the shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Its name, as DVD Store calls it: the nominal size of the data.
    pub word: &'static str,
    /// Customers.
    pub customers: i64,
    /// Orders of a month; there are twelve months of them.
    pub orders_per_month: i64,
    /// Products.
    pub products: i64,
}

/// All sizes.
pub const SIZES: [Size; 3] = [
    Size { word: "10 MB", customers: 20_000, orders_per_month: 1_000, products: 10_000 },
    Size { word: "1 GB", customers: 2_000_000, orders_per_month: 100_000, products: 100_000 },
    Size { word: "100 GB", customers: 200_000_000, orders_per_month: 10_000_000, products: 1_000_000 },
];
/// Their names.
pub const WORDS: &[&str] = &["10 MB", "1 GB", "100 GB"];

impl Size {
    /// The size of a name.
    #[must_use]
    pub fn of(word: &str) -> Option<Size> {
        SIZES.into_iter().find(|size| size.word == word)
    }

    /// Orders of a new database.
    #[must_use]
    pub fn orders(self) -> i64 {
        MONTHS * self.orders_per_month
    }

    /// Reviews of a new database.
    #[must_use]
    pub fn reviews(self) -> i64 {
        REVIEWS * self.products
    }

    /// Ratings of a new database.
    #[must_use]
    pub fn ratings(self) -> i64 {
        RATINGS * self.reviews()
    }

    /// Bytes on disk, about.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.customers.unsigned_abs() * CUSTOMER_BYTES
            + self.orders().unsigned_abs() * ORDER_BYTES
            + self.products.unsigned_abs() * PRODUCT_BYTES
    }
}

/// What makes all tables. `opening` has one row: how many rows a new database had.
pub const TABLES: [&str; 12] = [
    "create table opening (customers integer not null, orders integer not null, reviews integer not null, \
     ratings integer not null, primary key (customers)) {rows}",
    "create table categories (category integer not null, categoryname varchar(50) not null, \
     primary key (category)) {rows}",
    "create table customers (customerid integer not null, firstname varchar(50) not null, \
     lastname varchar(50) not null, address1 varchar(50) not null, city varchar(50) not null, \
     state varchar(50) not null, zip integer not null, country varchar(50) not null, region integer not null, \
     email varchar(50) not null, phone varchar(50) not null, creditcardtype integer not null, \
     creditcard varchar(50) not null, creditcardexpiration varchar(50) not null, username varchar(50) not null, \
     password varchar(50) not null, age integer not null, income integer not null, gender char(1) not null, \
     is_member integer not null, primary key (customerid)) {rows}",
    "create table membership (customerid integer not null, membershiptype integer not null, \
     expiredate bigint not null, primary key (customerid)) {rows}",
    "create table products (prod_id integer not null, category integer not null, title varchar(50) not null, \
     actor varchar(50) not null, price integer not null, special integer not null, \
     common_prod_id integer not null, primary key (prod_id)) {rows}",
    "create table inventory (prod_id integer not null, quan_in_stock integer not null, sales integer not null, \
     received integer not null, low_mark integer not null, primary key (prod_id)) {rows}",
    "create table reorder (prod_id integer not null, date_low bigint not null, quan_low integer not null, \
     primary key (prod_id)) {rows}",
    "create table reviews (review_id integer not null, prod_id integer not null, review_date bigint not null, \
     stars integer not null, customerid integer not null, review_summary varchar(50) not null, \
     review_text varchar(1000) not null, primary key (review_id)) {rows}",
    "create table reviews_helpfulness (rating_id integer not null, review_id integer not null, \
     customerid integer not null, helpfulness integer not null, primary key (rating_id)) {rows}",
    "create table orders (orderid integer not null, orderdate bigint not null, customerid integer not null, \
     netamount bigint not null, tax bigint not null, totalamount bigint not null, line_count integer not null, \
     primary key (orderid)) {rows}",
    "create table orderlines (orderid integer not null, orderlineid integer not null, prod_id integer not null, \
     quantity integer not null, orderdate bigint not null, primary key (orderid, orderlineid)) {rows}",
    "create table cust_hist (customerid integer not null, orderid integer not null, prod_id integer not null, \
     primary key (customerid, orderid, prod_id)) {rows}",
];

/// Indexes in addition to the primary keys.
const INDEXES: [&str; 6] = [
    "create unique index customers_by_username on customers (username)",
    "create index products_by_category on products (category, special)",
    "create index products_by_actor on products (actor)",
    "create index products_by_title on products (title)",
    "create index reviews_by_product on reviews (prod_id)",
    "create index ratings_by_review on reviews_helpfulness (review_id)",
];

/// Tables and indexes.
pub const SCHEMA: Schema = Schema { tables: &TABLES, indexes: &INDEXES };

/// The trigger that lists a product for reorder when its stock falls below its mark.
#[must_use]
pub fn trigger(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "create trigger restock after update on inventory \
             when new.quan_in_stock < new.low_mark and old.quan_in_stock >= old.low_mark begin \
             insert into reorder (prod_id, date_low, quan_low) \
             values (new.prod_id, 1000 * cast(strftime('%s', 'now') as integer), new.quan_in_stock); end;"
        }
        Dialect::Postgres => {
            "create function restock() returns trigger language plpgsql as $$ begin \
             insert into reorder (prod_id, date_low, quan_low) \
             values (new.prod_id, (1000 * extract(epoch from clock_timestamp()))::bigint, new.quan_in_stock); \
             return null; end $$; \
             create trigger restock after update on inventory for each row \
             when (new.quan_in_stock < new.low_mark and old.quan_in_stock >= old.low_mark) execute function restock()"
        }
        Dialect::Mariadb => {
            "create trigger restock after update on inventory for each row \
             insert into reorder (prod_id, date_low, quan_low) \
             select new.prod_id, cast(1000 * unix_timestamp(now(3)) as signed), new.quan_in_stock from dual \
             where new.quan_in_stock < new.low_mark and old.quan_in_stock >= old.low_mark"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_named_as_their_knob_has_them_and_grow_a_hundredfold() {
        assert_eq!(SIZES.map(|size| size.word), WORDS);
        assert_eq!(Size::of("1 GB"), Some(SIZES[1]));
        assert_eq!(SIZES.map(Size::orders), [12_000, 1_200_000, 120_000_000]);
        assert!(SIZES[2].bytes() > 100_000_000_000, "the largest must be refused by a disk of 100 GB");
    }
}
