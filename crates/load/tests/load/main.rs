//! The engine against small servers of every kind of conduct, all on 127.0.0.1, bounded in count and time.
#![expect(clippy::unwrap_used, reason = "tests")]

mod dial;
mod faults;
mod loops;
mod secure;
mod server;
mod told;
mod users;
