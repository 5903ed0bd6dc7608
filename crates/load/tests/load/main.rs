//! The engine against small servers of every kind of conduct, all on 127.0.0.1, bounded in count and time.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bids;
mod ends;
mod faults;
mod http2;
mod loops;
mod propagation;
mod rate_control;
mod secure;
mod server;
mod shop;
mod users;
