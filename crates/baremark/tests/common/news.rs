//! A server whose answers report what happened a known while ago, and a scenario of two operations for it.

use super::http::served;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// The age of what is reported.
pub const DELAY_NS: u128 = 30_000_000;

/// `look` three times as often as `hear`, which tells how late it hears.
pub const SCENARIO: &str = r#"
[scenario]
start = "look"
cycle = "200 ms"
[operations.look]
weight = 3
next = "either"
[[operations.look.requests]]
get = "/"
[operations.hear]
weight = 1
next = "either"
[[operations.hear.requests]]
get = "/news"
delay = { json = "at", unit = "ns", limit = "5 s" }
[choices]
either = [{ to = "look", weight = 3 }, { to = "hear", weight = 1 }]
"#;

pub fn news() -> SocketAddr {
    served(|| {
        || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            ("200 OK", format!("{{\"at\":{}}}", now.as_nanos() - DELAY_NS))
        }
    })
}
