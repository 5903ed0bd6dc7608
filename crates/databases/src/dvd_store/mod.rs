//! DVD store: an online shop, after the publicly described schema, sizes and order cycle of Dell's DVD Store 3.
//!
//! The program is written anew from those facts and shares no code with it; its figures are not comparable with those of DVD Store.
//! What differs: keys come from the driver instead of the database; the lines of an order are taken by ascending product, so that
//! purchases do not deadlock with each other; every statement is prepared and nothing runs as a stored procedure; searches for
//! actors and titles use an index instead of a full-text search; amounts are whole cents and dates whole milliseconds.

pub mod browser;
pub mod conditions;
pub mod draw;
pub mod front;
pub mod orders;
pub mod populate;
pub mod schema;
pub mod steps;
pub mod workload;
