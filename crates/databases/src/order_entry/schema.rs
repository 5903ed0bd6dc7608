//! The nine tables and their cardinalities.

use crate::loading::Schema;

/// Items, whatever the number of warehouses.
pub const ITEMS: i64 = 100_000;
/// Districts of a warehouse.
pub const DISTRICTS: i64 = 10;
/// Customers of a district, and its orders at first.
pub const CUSTOMERS: i64 = 3000;
/// The first order of a district that is not delivered at first.
pub const FIRST_UNDELIVERED: i64 = 2101;
/// Bytes of a warehouse on disk, about: the largest of the three databases, measured by the test of the loader.
pub const WAREHOUSE_BYTES: u64 = 130 << 20;
/// Bytes of the items.
pub const ITEM_BYTES: u64 = 14 << 20;

/// What makes all tables.
pub const TABLES: [&str; 9] = [
    "create table warehouse (w_id integer not null, w_name varchar(10) not null, w_street_1 varchar(20) not null, \
     w_street_2 varchar(20) not null, w_city varchar(20) not null, w_state char(2) not null, w_zip char(9) not null, \
     w_tax integer not null, w_ytd bigint not null, primary key (w_id)) {rows}",
    "create table district (d_w_id integer not null, d_id integer not null, d_name varchar(10) not null, \
     d_street_1 varchar(20) not null, d_street_2 varchar(20) not null, d_city varchar(20) not null, \
     d_state char(2) not null, d_zip char(9) not null, d_tax integer not null, d_ytd bigint not null, \
     d_next_o_id integer not null, primary key (d_w_id, d_id)) {rows}",
    "create table customer (c_w_id integer not null, c_d_id integer not null, c_id integer not null, \
     c_first varchar(16) not null, c_middle char(2) not null, c_last varchar(16) not null, \
     c_street_1 varchar(20) not null, c_street_2 varchar(20) not null, c_city varchar(20) not null, \
     c_state char(2) not null, c_zip char(9) not null, c_phone char(16) not null, c_since bigint not null, \
     c_credit char(2) not null, c_credit_lim bigint not null, c_discount integer not null, c_balance bigint not null, \
     c_ytd_payment bigint not null, c_payment_cnt integer not null, c_delivery_cnt integer not null, \
     c_data varchar(500) not null, primary key (c_w_id, c_d_id, c_id)) {rows}",
    // Without a key, so that SQLite keeps it by row number.
    "create table history (h_c_id integer not null, h_c_d_id integer not null, h_c_w_id integer not null, \
     h_d_id integer not null, h_w_id integer not null, h_date bigint not null, h_amount bigint not null, \
     h_data varchar(24) not null)",
    "create table orders (o_w_id integer not null, o_d_id integer not null, o_id integer not null, \
     o_c_id integer not null, o_entry_d bigint not null, o_carrier_id integer, o_ol_cnt integer not null, \
     o_all_local integer not null, primary key (o_w_id, o_d_id, o_id)) {rows}",
    "create table new_order (no_w_id integer not null, no_d_id integer not null, no_o_id integer not null, \
     primary key (no_w_id, no_d_id, no_o_id)) {rows}",
    "create table order_line (ol_w_id integer not null, ol_d_id integer not null, ol_o_id integer not null, \
     ol_number integer not null, ol_i_id integer not null, ol_supply_w_id integer not null, ol_delivery_d bigint, \
     ol_quantity integer not null, ol_amount bigint not null, ol_dist_info char(24) not null, \
     primary key (ol_w_id, ol_d_id, ol_o_id, ol_number)) {rows}",
    "create table item (i_id integer not null, i_im_id integer not null, i_name varchar(24) not null, \
     i_price bigint not null, i_data varchar(50) not null, primary key (i_id)) {rows}",
    "create table stock (s_w_id integer not null, s_i_id integer not null, s_quantity integer not null, \
     s_dist_01 char(24) not null, s_dist_02 char(24) not null, s_dist_03 char(24) not null, \
     s_dist_04 char(24) not null, s_dist_05 char(24) not null, s_dist_06 char(24) not null, \
     s_dist_07 char(24) not null, s_dist_08 char(24) not null, s_dist_09 char(24) not null, \
     s_dist_10 char(24) not null, s_ytd bigint not null, s_order_cnt integer not null, \
     s_remote_cnt integer not null, s_data varchar(50) not null, primary key (s_w_id, s_i_id)) {rows}",
];

/// Indexes in addition to the primary keys: customers by last name, and the last order of a customer. Made once the rows are there.
pub const INDEXES: [&str; 2] = [
    "create index customer_by_name on customer (c_w_id, c_d_id, c_last, c_first)",
    "create index orders_by_customer on orders (o_w_id, o_d_id, o_c_id, o_id)",
];

/// Tables and indexes.
pub const SCHEMA: Schema = Schema { tables: &TABLES, indexes: &INDEXES };

/// Bytes on disk of a database of so many warehouses, about.
#[must_use]
pub fn bytes(warehouses: u64) -> u64 {
    ITEM_BYTES + warehouses * WAREHOUSE_BYTES
}
