//! What strangers write, thrown at the readers of it: bodies for fuzzers, and a series of cases for the soak.
#![forbid(unsafe_code)]

pub mod bodies;
pub mod files;
pub mod mutate;
pub mod series;
#[path = "../../crates/model/tests/model/specimen.rs"]
pub mod specimen;
pub mod targets;
pub mod traces;
