//! The database of a virtualization manager: inventory, events, tasks, alarms, and performance samples that are rolled up.
//!
//! The published study names neither its operations nor their times; the list of operations here is ours. What a roll-up must give is
//! computed a second time by this program ([`samples`]), from the numbers of period, entity and counter alone.

pub mod check;
pub mod inventory;
pub mod ledger;
pub mod operations;
pub mod populate;
pub mod samples;
pub mod schema;
pub mod workload;
