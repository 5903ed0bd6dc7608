//! What one user's answer reports is found again in what others hear.

use crate::server::{Then, answer, load, ms, run, serve};
use baremark_load::load::{Drive, Load};
use baremark_load::scenario::file;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

#[test]
fn the_delay_from_one_users_answer_to_what_others_hear_is_measured_on_one_clock() {
    // A bid is heard of 60 ms after it was answered.
    let heard = Arc::new((Mutex::new(Vec::<u64>::new()), Condvar::new()));
    let board = Arc::clone(&heard);
    let next = Mutex::new(0);
    let server = serve(move |request, stream| {
        let (list, changed) = &*board;
        if request.line == "POST /bid" {
            let id = {
                let mut next = next.lock().unwrap();
                *next += 1;
                *next
            };
            let board = Arc::clone(&board);
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(60));
                board.0.lock().unwrap().push(id);
                board.1.notify_all();
            });
            return answer(stream, 201, "", &format!("{{\"bid_id\": {id}}}"));
        }
        if let Some(after) = request.line.strip_prefix("GET /next?after=").and_then(|text| text.parse::<usize>().ok()) {
            let list = list.lock().unwrap();
            let (list, _) =
                changed.wait_timeout_while(list, Duration::from_millis(200), |list| list.len() <= after).unwrap();
            let events: Vec<String> = list[after..].iter().map(|id| format!("{{\"bid_id\": {id}}}")).collect();
            let body = format!("{{\"order\": {}, \"events\": [{}]}}", list.len(), events.join(", "));
            return answer(stream, 200, "", &body);
        }
        if request.line == "GET /" { answer(stream, 200, "", "") } else { Then::Close }
    });
    let text = r#"
        [scenario]
        cycle = "100 ms"
        start = "home"
        [variables]
        order = "0"
        [operations.home]
        next = "bid"
        begin = "listen"
        [[operations.home.requests]]
        get = "/"
        [operations.bid]
        next = "bid"
        [[operations.bid.requests]]
        post = "/bid"
        tells = "bid_id"
        [operations.next-bid]
        [[operations.next-bid.requests]]
        get = "/next?after={order}"
        extract = [{ into = "order", json = "order" }]
        delay = { json = "events[*].bid_id", since = "told", limit = "500 ms" }
        [follows.listen]
        operations = "next-bid"
    "#;
    let base = format!("http://{}", server.address);
    let scenario =
        file::parse("bids.toml", text.as_bytes(), Some(&base), ".".as_ref()).unwrap_or_else(|why| panic!("{why}"));
    let drive = Drive::Users { profile: "4".parse().unwrap() };
    let mut load = Load { scenario, ..load(server.address, drive, 2000) };
    load.connections = 20;
    load.threads = 2;
    load.timeout = ms(3000);
    let document = run(load);
    assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
    let row = |name: &str| document.operations.iter().find(|row| row.name == name).unwrap();
    let (bids, delay) = (row("bid").succeeded, row("next-bid").delay.as_ref().unwrap());
    assert!(bids > 20, "{bids} bids");
    // Four users hear of every bid but the last ones.
    assert!(delay.samples > 3 * (bids - 10) && delay.samples <= 4 * bids + 4, "{} of {bids} bids", delay.samples);
    assert!(delay.p50_ns.unwrap() >= 60_000_000, "never before it happened: {delay:?}");
    assert!(delay.p50_ns.unwrap() < 400_000_000, "{delay:?}");
    // What each second shows are answers that users wait for, not how long those who listen wait for something to hear.
    let shown: u64 = document.series.iter().filter_map(|second| second.latency.as_ref()).map(|all| all.samples).sum();
    assert!(shown > 0 && shown <= row("home").succeeded + bids, "{shown} latencies of {bids} bids");
}
