//! The process in which the tests run the application.

use std::ffi::OsString;
use std::io::Read;

/// Not a test of its own; it ends when its standard input does.
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
