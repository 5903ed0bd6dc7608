//! Tests of the statistics: against tables made with scipy, by property, and by simulating whole studies.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::allow_attributes,
    reason = "tests"
)]

#[path = "stats/against_scipy.rs"]
mod against_scipy;
#[path = "stats/coverage.rs"]
mod coverage;
#[path = "stats/estimate.rs"]
mod estimate;
#[path = "stats/forecast.rs"]
mod forecast;
#[path = "stats/gates.rs"]
mod gates;
#[path = "stats/judging.rs"]
mod judging;
#[path = "stats/parts.rs"]
mod parts;
#[path = "stats/runs.rs"]
mod runs;
#[path = "stats/search.rs"]
mod search;
#[path = "stats/simulated.rs"]
mod simulated;
#[path = "stats/spend.rs"]
mod spend;
