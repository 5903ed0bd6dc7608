//! Sales: bids cross servers, pushes carry their ids, money adds up, whatever dies.

use crate::http::{Answer, User, send, until};
use crate::process::{Server, Site};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

fn is(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", String::from_utf8_lossy(&answer.body));
}

/// Everything that one user can do, on two servers of one site.
fn one_user(site: &Site) {
    let (a, b) = (site.serve("2s"), site.serve("2s"));
    let (at, other) = (a.address.as_str(), b.address.as_str());
    let user = User::log_in(at, 7, &site.password);
    let rival = User::log_in(other, 8, &site.password);

    let profile = user.get(other, "/api/profile").json();
    assert_eq!((profile["account_id"].as_i64(), profile["held_cents"].as_i64()), (Some(user.account), Some(0)));
    let change = json!({ "first_name": "Zoë", "last_name": "O'Hara; DROP TABLE bid", "email": "z@o.example" });
    let changed = user.ask(at, "PUT", "/api/profile", Some(&change)).unwrap().json();
    assert_eq!(changed["last_name"], change["last_name"]);

    let page = user.get(at, "/api/auctions").json();
    assert_eq!(
        page["auctions"].as_array().unwrap().len(),
        usize::try_from(page["total"].as_i64().unwrap().min(5)).unwrap()
    );
    let auction = page["auctions"][0]["auction_id"].as_i64().unwrap();
    let items =
        user.get(at, &format!("/api/auctions/{auction}/items?size=50")).json()["items"].as_array().unwrap().clone();
    assert!((10..=20).contains(&items.len()), "{} items", items.len());
    assert!(!user.get(at, "/api/purchases").json()["purchases"].as_array().unwrap().is_empty());
    assert!(!user.get(at, "/api/attendances").json()["attendances"].as_array().unwrap().is_empty());

    until("a bid of who does not attend", || {
        let (item, least) = user.current(at, auction);
        let answer = user.bid(at, auction, item, least).unwrap();
        // It may have closed meanwhile.
        (answer.status != 410).then(|| is(&answer, 403, "not_attending"))
    });
    assert_eq!(user.join(at, auction).status, 200);
    assert_eq!(user.join(other, auction).status, 200);
    assert_eq!(rival.join(other, auction).status, 200);
    a_bid_is_pushed(&user, &rival, (at, other), auction);
    let (item, least) = user.current(at, auction);
    is(&user.bid(at, 999_999, item, least).unwrap(), 404, "not_found");

    let sold = until("an item that was sold", || {
        let item = user.get(at, &format!("/api/items/{item}")).json();
        (item["state"] == "sold" || item["state"] == "returned").then_some(item)
    });
    assert!(sold["high_cents"].is_null() == (sold["state"] == "returned"));
    is(&user.bid(at, auction, item, least).unwrap(), 410, "item_closed");
    offers_and_images(&user, &rival, at, other);
    assert_eq!(user.ask(at, "DELETE", &format!("/api/auctions/{auction}/attendance"), None).unwrap().status, 204);
    assert_eq!(user.ask(at, "POST", "/api/logout", None).unwrap().status, 204);
    is(&user.get(at, "/api/profile"), 401, "unknown_token");
    until("a logout that has reached the other server", || {
        (user.get(other, "/api/profile").status == 401).then_some(())
    });
    site.holds(&[&a, &b]);
    assert_eq!((a.end(), b.end()), (0, 0));
}

/// A bid at one server comes to an attendee at the other with the same id and order, and the rules of bids hold at both.
fn a_bid_is_pushed(user: &User, rival: &User, (at, other): (&str, &str), auction: i64) {
    until("a bid before the item closed", || {
        let current = rival.get(other, &format!("/api/auctions/{auction}/current")).json();
        let after = current["order"].as_i64().unwrap();
        let (item, least) = user.current(at, auction);
        let answer = user.bid(at, auction, item, least).unwrap();
        if answer.status == 410 {
            return None;
        }
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        let accepted = answer.json();
        let mut seen = after;
        let pushed = until("the push", || {
            let news = rival.get(other, &format!("/api/auctions/{auction}/next?after={seen}&wait_ms=5000")).json();
            let events = news["events"].as_array()?.clone();
            seen = news["order"].as_i64()?;
            events.into_iter().find(|event| event["bid_id"] == accepted["bid_id"] && event["type"] == "bid")
        });
        // Servers without a bus read the bid from the database: it is the same event.
        for field in ["order", "item_id", "account_id", "amount_cents", "minimum_cents", "accepted_ns"] {
            assert_eq!(pushed[field], accepted[field], "{field}");
        }
        assert!(accepted["accepted_ns"].as_i64().unwrap() > 0);
        for (server, who, amount, expected) in [
            (other, user, least * 2, "already_high_bidder"),
            (other, rival, least, "too_low"),
            (at, rival, 99_999_999_999, "insufficient_credit"),
        ] {
            let answer = who.bid(server, auction, item, amount).unwrap();
            if answer.status == 410 {
                return None;
            }
            assert_eq!(answer.code(), expected, "{}", String::from_utf8_lossy(&answer.body));
        }
        let mine = user.get(other, "/api/bids?size=1").json();
        assert_eq!(mine["bids"][0]["bid_id"], accepted["bid_id"]);
        Some(())
    });
}

fn offers_and_images(user: &User, rival: &User, at: &str, other: &str) {
    let offer = json!({ "name": "Lamp", "description": "Lights.", "manufacturer": "Me", "condition": "used", "starting_cents": 500 });
    let stored = user.post(at, "/api/items", &offer);
    assert_eq!(stored.status, 201);
    let item = stored.json()["item_id"].as_i64().unwrap();
    assert_eq!(rival.get(other, &format!("/api/items/{item}")).json()["name"], "Lamp");
    let jpeg = send(at, "GET", "/api/items/1/images/0/full", &[], b"").unwrap();
    assert!(jpeg.status == 200 && jpeg.body.starts_with(&[0xff, 0xd8]) && jpeg.body.len() > 500_000);
    let path = format!("/api/items/{item}/images");
    is(&upload(rival, at, &path, &jpeg.body), 403, "not_yours");
    let added = upload(user, at, &path, &jpeg.body);
    assert_eq!((added.status, added.json()["number"].as_i64()), (201, Some(0)));
    for size in ["thumbnail", "preview", "full"] {
        let image = send(at, "GET", &format!("{path}/0/{size}"), &[], b"").unwrap();
        assert!(image.status == 200 && image.body.starts_with(&[0xff, 0xd8]), "{size}");
    }
    is(&upload(user, at, &path, b"no picture"), 422, "invalid");
}

/// A form with one JPEG.
pub fn upload(user: &User, at: &str, path: &str, jpeg: &[u8]) -> Answer {
    let heads = [user.head(), "content-type: multipart/form-data; boundary=cut".to_owned()];
    let mut form = b"--cut\r\ncontent-disposition: form-data; name=\"image\"; filename=\"a.jpg\"\r\ncontent-type: image/jpeg\r\n\r\n".to_vec();
    form.extend_from_slice(jpeg);
    form.extend_from_slice(b"\r\n--cut--\r\n");
    send(at, "POST", path, &heads, &form).unwrap()
}

/// Events of an auction that a server remembers, and lists at most.
const REMEMBERED: usize = 64;

/// Bidders that go on bidding at whatever servers there are, and attendees that write down what they are pushed.
pub struct Crowd<'a> {
    servers: RwLock<Vec<String>>,
    pub users: Vec<User>,
    live: i64,
    /// Each bid with its auction and order.
    accepted: Mutex<HashMap<i64, (i64, i64)>>,
    pushed: Mutex<HashSet<i64>>,
    /// Orders of an auction that the server had forgotten when it was asked: their bids are in the history.
    forgotten: Mutex<Vec<(i64, Range<i64>)>>,
    refused: AtomicUsize,
    /// Nobody bids any more.
    over: AtomicBool,
    /// All accepted bids are known.
    settled: AtomicBool,
    site: &'a Site,
}

impl<'a> Crowd<'a> {
    pub fn new(site: &'a Site, servers: &[&Server], users: u32, live: i64) -> Self {
        let addresses: Vec<String> = servers.iter().map(|server| server.address.clone()).collect();
        let users: Vec<User> = (1..=users).map(|number| User::log_in(&addresses[0], number, &site.password)).collect();
        users
            .iter()
            .for_each(|user| (1..=live).for_each(|auction| assert_eq!(user.join(&addresses[0], auction).status, 200)));
        Crowd {
            servers: RwLock::new(addresses),
            users,
            live,
            accepted: Mutex::default(),
            pushed: Mutex::default(),
            forgotten: Mutex::default(),
            refused: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            site,
        }
    }

    fn bid(&self, number: usize) {
        let mut turn = number;
        while !self.over.load(SeqCst) {
            turn += 1;
            let address = {
                let servers = self.servers.read().unwrap();
                servers[turn % servers.len()].clone()
            };
            let (user, auction) = (&self.users[number], i64::try_from(turn).unwrap() % self.live + 1);
            // A dead server or database is what these tests are about: go on.
            let Ok(current) = user.ask(&address, "GET", &format!("/api/auctions/{auction}/current"), None) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            let current = current.json();
            let (Some(item), Some(least)) = (current["item"]["item_id"].as_i64(), current["minimum_cents"].as_i64())
            else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            match user.bid(&address, auction, item, least) {
                Ok(answer) if answer.status == 201 => {
                    let [id, order] = ["bid_id", "order"].map(|field| answer.json()[field].as_i64().unwrap());
                    let before = self.accepted.lock().unwrap().insert(id, (auction, order));
                    assert_eq!(before, None, "bid {id} was accepted twice");
                }
                _ => drop(self.refused.fetch_add(1, SeqCst)),
            }
        }
    }

    /// Attends at one server by long poll until the order of the last bid that was accepted.
    fn attend(&self, address: &str, auction: i64, from: i64) {
        let mut after = from;
        while !self.settled.load(SeqCst) {
            after = self.poll(address, auction, after);
        }
        let of_auction = |&(of, order): &(i64, i64)| (of == auction).then_some(order);
        let last = self.accepted.lock().unwrap().values().filter_map(of_auction).max();
        until("the last accepted bid at an attendee", || {
            after = self.poll(address, auction, after);
            last.is_none_or(|last| after >= last).then_some(())
        });
    }

    /// Writes down what happened after an order; returns the order that is reached.
    fn poll(&self, address: &str, auction: i64, after: i64) -> i64 {
        let path = format!("/api/auctions/{auction}/next?after={after}&wait_ms=500");
        let answer = self.users[0].ask(address, "GET", &path, None);
        let Some(news) = answer.ok().filter(|answer| answer.status == 200).map(|answer| answer.json()) else {
            return after;
        };
        let events = news["events"].as_array().unwrap();
        let bids = events.iter().filter(|event| event["type"] == "bid");
        self.pushed.lock().unwrap().extend(bids.map(|event| event["bid_id"].as_i64().unwrap()));
        // All that it had to read again is listed, unless it remembers no more.
        if news["resync"] == true && events.len() == REMEMBERED {
            let oldest = events[0]["order"].as_i64().unwrap();
            self.forgotten.lock().unwrap().push((auction, after + 1..oldest));
        }
        news["order"].as_i64().unwrap()
    }

    /// Waits until so many more bids are accepted.
    pub fn more(&self, count: usize) {
        let goal = self.accepted.lock().unwrap().len() + count;
        until("bids that are accepted", || (self.accepted.lock().unwrap().len() >= goal).then_some(()));
    }

    /// Lets all bid and attend while `happening` goes on; then everything must hold. The first server must stay.
    pub fn through(&self, servers: &[&str], happening: impl FnOnce(&Self)) -> Value {
        let stays = servers[0].to_owned();
        let orders: Vec<i64> = (1..=self.live)
            .map(|auction| {
                self.users[0].get(&stays, &format!("/api/auctions/{auction}/current")).json()["order"].as_i64().unwrap()
            })
            .collect();
        std::thread::scope(|scope| {
            let bidders: Vec<_> = (0..self.users.len()).map(|number| scope.spawn(move || self.bid(number))).collect();
            for (auction, &from) in (1..=self.live).zip(&orders) {
                let stays = stays.clone();
                scope.spawn(move || self.attend(&stays, auction, from));
            }
            happening(self);
            self.over.store(true, SeqCst);
            let bidders: Vec<_> = bidders.into_iter().map(|bidder| bidder.join()).collect();
            self.settled.store(true, SeqCst);
            bidders.into_iter().for_each(|bidder| bidder.unwrap());
        });
        let stored: HashMap<i64, (i64, i64)> =
            self.users.iter().flat_map(|user| user.live_bids(&stays, self.live)).collect();
        let accepted = self.accepted.lock().unwrap();
        let lost: Vec<_> = accepted.keys().filter(|id| !stored.contains_key(id)).collect();
        assert!(lost.is_empty(), "accepted and lost: {lost:?}");
        let pushed = self.pushed.lock().unwrap();
        let forgotten = self.forgotten.lock().unwrap();
        let is_in_history = |id: &i64| {
            let (auction, order) = stored[id];
            forgotten.iter().any(|(of, orders)| *of == auction && orders.contains(&order))
        };
        let missed: Vec<_> = accepted.keys().filter(|id| !pushed.contains(id) && !is_in_history(id)).collect();
        assert!(missed.is_empty(), "accepted and not pushed: {missed:?}");
        println!(
            "{} bids accepted, {} stored, {} pushed, {} refused",
            accepted.len(),
            stored.len(),
            pushed.len(),
            self.refused.load(SeqCst)
        );
        let (code, found) = self.site.check(&[]);
        assert_eq!(code, 0, "{found}");
        found
    }
}

/// Many bidders over two servers; one is killed while it owns auctions, and another takes its place.
fn a_server_is_killed(site: &Site) {
    let (stays, mut dies) = (site.serve("700ms"), site.serve("700ms"));
    until("auctions that both own", || {
        (stays.ready()["owned_auctions"] == 1 && dies.ready()["owned_auctions"] == 1).then_some(())
    });
    let crowd = Crowd::new(site, &[&stays, &dies], 6, 2);
    let mut third = None;
    let found = crowd.through(&[&stays.address], |crowd| {
        crowd.more(30);
        dies.kill();
        *crowd.servers.write().unwrap() = vec![stays.address.clone()];
        until("auctions taken over", || (stays.ready()["owned_auctions"] == 2).then_some(()));
        crowd.more(30);
        let newcomer = site.serve("700ms");
        crowd.servers.write().unwrap().push(newcomer.address.clone());
        until("a share for the newcomer", || (newcomer.ready()["owned_auctions"] == 1).then_some(()));
        crowd.more(30);
        third = Some(newcomer);
    });
    assert!(found["live_bids"].as_i64().unwrap() >= 90);
    let newcomer = third.unwrap();
    let found = site.holds(&[&stays, &newcomer]);
    assert!(found["pushed_bids"].as_i64().unwrap() >= 90);
    assert_eq!((stays.end(), newcomer.end()), (0, 0));
}

/// What a trial did is undone without loading again.
fn a_trial_is_undone(site: &Site) {
    let (code, reset, err) = crate::process::run(&["reset", "--database", &site.database].map(str::to_owned));
    assert_eq!(code, 0, "{err}");
    assert!(reset["bids_removed"].as_i64().unwrap() > 0);
    let found = site.holds(&[]);
    assert_eq!((found["live_bids"].as_i64(), found["live_sold"].as_i64()), (Some(0), Some(0)));
}

pub fn all(site: &mut Site) {
    site.set_lease("4s");
    one_user(site);
    site.set_lease("1s");
    a_server_is_killed(site);
    a_trial_is_undone(site);
}
