//! A server at which one user's bid is heard of by others 60 ms after it was answered, and users who bid there.

use crate::server::{Server, Then, answer, load, serve};
use baremark_load::load::{Drive, Load};
use baremark_load::scenario::file;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Bids that can be heard of, and how many of them each user has heard of.
#[derive(Default)]
pub(crate) struct Board {
    bids: Mutex<Vec<usize>>,
    changed: Condvar,
    heard: Mutex<BTreeMap<String, usize>>,
}

impl Board {
    /// How many bids each of so many users has heard of, at least.
    pub(crate) fn heard_by(&self, users: usize) -> usize {
        let heard = self.heard.lock().unwrap();
        if heard.len() < users { 0 } else { heard.values().copied().min().unwrap_or(0) }
    }

    pub(crate) fn server(self: &Arc<Board>) -> Server {
        let (board, next) = (Arc::clone(self), Mutex::new(0));
        serve(move |request, stream| {
            if request.line == "POST /bid" {
                let id: usize = {
                    let mut next = next.lock().unwrap();
                    *next += 1;
                    *next
                };
                let then = answer(stream, 201, "", &format!("{{\"bid_id\": {id}}}"));
                let board = Arc::clone(&board);
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(60));
                    board.bids.lock().unwrap().push(id);
                    board.changed.notify_all();
                });
                return then;
            }
            if let Some((user, after)) =
                request.line.strip_prefix("GET /next?user=").and_then(|text| text.split_once("&after="))
            {
                let after = after.parse().unwrap();
                board.heard.lock().unwrap().insert(user.to_owned(), after);
                let list = board.bids.lock().unwrap();
                let shortly = Duration::from_millis(200);
                let (list, _) = board.changed.wait_timeout_while(list, shortly, |list| list.len() <= after).unwrap();
                let events: Vec<String> = list[after..].iter().map(|id| format!("{{\"bid_id\": {id}}}")).collect();
                let body = format!("{{\"order\": {}, \"events\": [{}]}}", list.len(), events.join(", "));
                return answer(stream, 200, "", &body);
            }
            if request.line == "GET /" { answer(stream, 200, "", "") } else { Then::Close }
        })
    }
}

/// Four users who bid and listen.
pub(crate) fn bidders(server: &Server, lasting_ms: u64) -> Load {
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
        get = "/next?user={user}&after={order}"
        extract = [{ into = "order", json = "order" }]
        delay = { json = "events[*].bid_id", since = "told", limit = "500 ms" }
        [follows.listen]
        operations = "next-bid"
    "#;
    let base = format!("http://{}", server.address);
    let scenario =
        file::parse("bids.toml", text.as_bytes(), Some(&base), ".".as_ref()).unwrap_or_else(|why| panic!("{why}"));
    let drive = Drive::Users { profile: "4".parse().unwrap() };
    let mut load = Load { scenario, ..load(server.address, drive, lasting_ms) };
    load.connections = 20;
    load.threads = 2;
    load
}
