//! Order-entry: a wholesaler with warehouses, districts and customers, after the public rules of TPC-C revision 5.11.
//!
//! It is derived from TPC-C, no TPC-C: its results are not comparable with published ones, and its figures have other names.
//! What differs from the rules: deliveries are done at once instead of queued; the lines of an order are taken in the
//! order of their stock rows, so that new-orders do not deadlock with each other; without pacing the warehouse is drawn anew
//! for each transaction; amounts are whole cents, rates ten-thousandths, and dates whole milliseconds.

pub mod conditions;
pub mod draw;
pub mod populate;
pub mod schema;
pub mod transactions;
pub mod workload;
