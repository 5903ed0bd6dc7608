//! Users against a server that plays the application: what they make of answers that come at bad moments.

use baremark_harness::topology::resolve;
use baremark_harness::users;
use baremark_load::document::Document;
use baremark_load::load::Pin;
use baremark_load::rate_control::RateControl;
use baremark_model::units::Nanos;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

/// Whatever takes longer than this hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// What whoever waits for the next bid is answered.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// That the session is over.
    Over,
    /// A bid, and the next time that there was none.
    Now,
}

/// An application of one auction.
fn play(next: Next) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || drop(serve(stream, next)));
        }
    });
    address
}

fn serve(stream: TcpStream, next: Next) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    let mut bids = 0;
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut asked = vec![0; length];
        reader.read_exact(&mut asked)?;
        let path = first.split(' ').nth(1).unwrap();
        let (status, body) = match path {
            "/api/login" => (200, r#"{"token":"t","account_id":7}"#),
            "/api/logout" => (204, ""),
            // Now and then nothing is up for a moment, so that there is no least bid.
            "/api/auctions/3/current" if next == Next::Now && bids % 3 == 2 => {
                (200, r#"{"order":5,"minimum_cents":null,"state":"between","item":null}"#)
            }
            "/api/auctions/3/current" => {
                (200, r#"{"order":5,"minimum_cents":100,"state":"open","item":{"item_id":9,"image_item":9}}"#)
            }
            path if path.starts_with("/api/auctions/3/next") && next == Next::Over => {
                (401, r#"{"error":{"code":"unknown_token"}}"#)
            }
            path if path.starts_with("/api/auctions/3/next") => {
                thread::sleep(Duration::from_millis(10));
                bids += 1;
                match bids % 3 {
                    0 => (200, r#"{"order":6,"events":[]}"#),
                    1 => {
                        (200, r#"{"order":6,"events":[{"item_id":9,"type":"sold","account_id":8,"amount_cents":100}]}"#)
                    }
                    _ => (
                        200,
                        r#"{"order":6,"events":[{"item_id":9,"type":"bid","account_id":8,"minimum_cents":100,"accepted_ns":1}]}"#,
                    ),
                }
            }
            path if path.starts_with("/api/auctions?") => (200, r#"{"total":5,"auctions":[{"auction_id":3}]}"#),
            path if path.ends_with("/items") => (200, r#"{"items":[{"item_id":9,"image_item":9}]}"#),
            path if path.ends_with("/bids") && first.starts_with("POST") => {
                let bid: serde_json::Value = serde_json::from_slice(&asked).unwrap_or_default();
                let sensible = |field: &str| bid[field].as_i64().is_some_and(|number| number > 0);
                (if sensible("item_id") && sensible("amount_cents") { 409 } else { 422 }, "{}")
            }
            _ => (200, r#"{"image_item":9}"#),
        };
        let head = if status == 204 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        writer.write_all(format!("HTTP/1.1 {status} Said\r\n{head}\r\n{body}").as_bytes())?;
    }
}

/// What users did at such an application in a window, or in as many as it takes until all these operations have succeeded.
fn visited(next: Next, wanted: [&str; 2]) -> Vec<Document> {
    let topology = resolve("it.toml", "load.cycle = '20 ms'", &[]).unwrap_or_else(|why| panic!("{why}"));
    let order = users::order(&format!("http://{}", play(next)), "secret", &topology.load, 20, 1).unwrap();
    let mut load = order.load().unwrap();
    (load.timeout, load.pin) = (Nanos(60_000_000_000), Pin::Free);
    let mut dial = RateControl::start(load.clone()).unwrap();
    dial.set(20.0).unwrap();
    let (mut windows, deadline) = (Vec::new(), Instant::now() + LIMIT);
    while windows.is_empty() || wanted.iter().any(|name| windows.iter().all(|window| succeeded(window, name) == 0)) {
        assert!(Instant::now() < deadline, "not all of {wanted:?} have succeeded within {LIMIT:?}");
        let asked = dial.ask(Nanos(2_000_000_000), Nanos(60_000_000_000)).unwrap();
        let part = dial.collect(asked, &AtomicBool::new(false)).unwrap().unwrap();
        windows.push(Document::new(&load, &part));
    }
    windows
}

fn succeeded(document: &Document, name: &str) -> u64 {
    document.operations.iter().find(|row| row.name == name).unwrap().succeeded
}

fn nothing_failed(windows: &[Document]) {
    for document in windows {
        assert!(document.failures.is_empty(), "{:?} {:?}", document.failures, document.failure_examples);
    }
}

/// A logout reaches the server before its answer reaches the user, whose loops may ask in between: an answer like any other,
/// which ends them. It was counted as a failure of the operation after it, which had no order to go on from.
#[test]
fn loops_that_outlive_their_token_by_a_moment_fail_nothing() {
    nothing_failed(&visited(Next::Over, ["next-bid", "logout"]));
}

/// Between the choice to bid and the bid a user thinks, and hears of more: also that there is nothing to bid for. Whoever has
/// chosen bids for what was there, and comes too late. It was counted as a failure, for want of an item or of an amount.
#[test]
fn a_user_who_thinks_about_a_bid_does_not_forget_for_what() {
    nothing_failed(&visited(Next::Now, ["next-bid", "place-bid"]));
}
