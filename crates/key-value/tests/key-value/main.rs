//! The load against played servers over loopback: what they reply, and what they should not.
#![allow(clippy::unwrap_used, reason = "tests")]

mod load;
mod played;
mod settings;
