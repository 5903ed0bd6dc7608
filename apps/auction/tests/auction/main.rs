//! The application as its users meet it: real processes, real databases, sockets in between.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::allow_attributes,
    reason = "tests say what they skip, and a failure is a panic"
)]

mod browser;
mod external;
mod faults;
mod figures;
mod http;
mod input;
mod interface;
mod privacy;
mod process;
mod sales;
mod services;
mod uploads;

use std::ffi::OsString;
use std::io::Read;

/// Not a test of its own: the process in which the others run the application, ended when its standard input is.
#[test]
#[ignore = "a child process of the other tests"]
fn application() {
    let Some(arguments) = std::env::var_os("AUCTION_ARGUMENTS") else { return };
    let arguments: Vec<OsString> = arguments.to_str().unwrap().split('\u{1f}').map(OsString::from).collect();
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(9);
    });
    println!();
    let code = baremark_auction::run(&arguments, &mut std::io::stdout(), &mut std::io::stderr());
    std::process::exit(i32::from(code));
}
