//! The auction application: a real-time auction site of several tiers, made to be put under load.
//!
//! It is an application, not a part of baremark: it shares no type with the rest of the workspace, runs as its own process and
//! is reached by sockets alone. The binary links it through one function, [`run`], and knows what decides its data, [`DATA_SOURCES`]. Its interface is `openapi.yaml`.
//!
//! What it promises: a bid that was answered as accepted is stored and stays; nothing is sold twice; both hold when servers or
//! databases die at any moment (see `server::auctioneer` for how). `check` says after a run whether they did.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::allow_attributes, reason = "a failing test is a panic"))]

mod check;
mod command;
mod database;
mod duration;
mod external;
mod failure;
mod generate;
mod images;
mod load;
mod nouns;
mod password;
mod reset;
mod server;
mod store;
mod uploads;
mod workers;

use std::ffi::OsString;
use std::io::Write;

/// The texts of the schema and of the generator: data that was loaded by others is other data.
pub const DATA_SOURCES: &[&str] = &[
    include_str!("store/schema.rs"),
    include_str!("generate/picture.rs"),
    include_str!("generate/random.rs"),
    include_str!("generate/site.rs"),
    include_str!("generate/words.rs"),
    include_str!("load.rs"),
    include_str!("password.rs"),
];

/// How a command ended; the numbers are exit codes of `baremark`.
const DONE: u8 = 0;
const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
const VIOLATED: u8 = 4;

/// Runs `serve`, `load`, `check`, `reset`, `create` or `remove`, the first of `arguments`, and returns the exit code: 0 done, 1 failed, 2 bad input,
/// 4 the check found a violation.
///
/// Results go to `out` as lines of JSON, progress and errors to `err` as text. `serve` returns when the server has drained.
pub fn run(arguments: &[OsString], out: &mut (dyn Write + Send), err: &mut (dyn Write + Send)) -> u8 {
    match command::parse(arguments) {
        Ok(parsed) => match command::execute(parsed, out, err) {
            Ok(code) => code,
            Err(why) => {
                // Nobody is left to tell when standard error is closed.
                let _ = writeln!(err, "error: {why}");
                FAILED
            }
        },
        Err(refusal) if refusal.use_stderr() => {
            let _ = write!(err, "{refusal}");
            BAD_INPUT
        }
        Err(help) => {
            let _ = write!(out, "{help}");
            DONE
        }
    }
}
