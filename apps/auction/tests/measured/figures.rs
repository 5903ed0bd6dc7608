//! Figures, not tests: what an operation costs the app server, how fast a site is loaded and drawn, what an idle server holds.
//! Counted in processor time of the server alone, so that who asks, and the database, may share its processors.

use crate::http::{User, send};
use crate::process::{Server, Site, run};
use crate::services;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CLIENTS: u32 = 16;

/// A connection that is kept.
struct Kept {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Kept {
    fn open(address: &str, user: &User) -> Kept {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Kept { stream: BufReader::new(stream), head: format!("host: {address}\r\n{}\r\n", user.head()) }
    }

    /// One request; its status and body.
    fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let text =
            format!("{method} {path} HTTP/1.1\r\n{}{kind}content-length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
        let (mut line, mut status, mut length) = (String::new(), 0, 0);
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            if status == 0 {
                status = line.split(' ').nth(1).unwrap().parse().unwrap();
            }
            if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        (status, body)
    }
}

/// An operation: its share of the mix in hundredths of a percent, and its requests (number of the turn, account).
struct Operation {
    name: &'static str,
    share: u64,
    act: fn(&mut Kept, &Aim) -> u64,
}

impl Operation {
    /// Operations of the model that a turn is: whoever has logged out logs in again.
    fn counts(&self) -> u64 {
        if self.name == LOGINS { 2 } else { 1 }
    }

    /// How many operations of the mix are these, in hundredths of a percent.
    fn weight(&self) -> u64 {
        self.share * self.counts()
    }
}

/// What an operation is about.
struct Aim {
    turn: u64,
    live: u64,
    user: u32,
}

impl Aim {
    fn auction(&self) -> u64 {
        self.turn % self.live + 1
    }
}

fn get(kept: &mut Kept, path: &str) -> Vec<u8> {
    let (status, body) = kept.ask("GET", path, "");
    assert!(status < 300, "{path}: {status} {}", String::from_utf8_lossy(&body));
    body
}

fn thumbnails(kept: &mut Kept, aim: &Aim, count: u64) -> u64 {
    (0..count).for_each(|at| drop(get(kept, &format!("/api/items/{}/images/0/thumbnail", (aim.turn + at) % 100 + 1))));
    count
}

fn bid(kept: &mut Kept, aim: &Aim) -> u64 {
    let auction = aim.auction();
    let current: serde_json::Value =
        serde_json::from_slice(&get(kept, &format!("/api/auctions/{auction}/current"))).unwrap();
    let Some(item) = current["item"]["item_id"].as_i64() else { return 1 };
    let body = format!("{{\"item_id\":{item},\"amount_cents\":{}}}", current["minimum_cents"]);
    let (status, answer) = kept.ask("POST", &format!("/api/auctions/{auction}/bids"), &body);
    if status == 403 {
        assert_eq!(kept.ask("POST", &format!("/api/auctions/{auction}/attendance"), "").0, 200);
        return 3;
    }
    assert!([201, 402, 409, 410].contains(&status), "{status} {}", String::from_utf8_lossy(&answer));
    2
}

/// The name of the turn in which a user logs out and in.
const LOGINS: &str = "logout, login";

/// The mix of the model.
const MIX: [Operation; 13] = [
    Operation {
        name: "home page",
        share: 235,
        act: |kept, _| {
            get(kept, "/");
            1
        },
    },
    Operation {
        name: "active auctions",
        share: 1095,
        act: |kept, aim| {
            get(kept, &format!("/api/auctions?page={}", aim.turn % 3));
            1
        },
    },
    Operation {
        name: "auction detail",
        share: 390,
        act: |kept, aim| {
            get(kept, &format!("/api/auctions/{}", aim.auction()));
            get(kept, &format!("/api/auctions/{}/items", aim.auction()));
            2 + thumbnails(kept, aim, 5)
        },
    },
    Operation {
        name: "user profile",
        share: 235,
        act: |kept, _| {
            get(kept, "/api/profile");
            1
        },
    },
    Operation {
        name: "join auction",
        share: 469,
        act: |kept, aim| {
            assert_eq!(kept.ask("POST", &format!("/api/auctions/{}/attendance", aim.auction()), "").0, 200);
            1 + thumbnails(kept, aim, 1)
        },
    },
    Operation {
        name: "current item",
        share: 523,
        act: |kept, aim| {
            get(kept, &format!("/api/auctions/{}/current", aim.auction()));
            1 + thumbnails(kept, aim, 1)
        },
    },
    Operation {
        name: "next bid",
        share: 4643,
        act: |kept, aim| {
            // The newest event again: the work of one that is pushed, without the wait for it.
            get(kept, &format!("/api/auctions/{}/next?after=0&wait_ms=0", aim.auction()));
            1
        },
    },
    Operation { name: "place bid", share: 220, act: bid },
    Operation {
        name: "histories",
        share: 705,
        act: |kept, aim| {
            get(kept, ["/api/bids", "/api/attendances", "/api/purchases"][usize::try_from(aim.turn % 3).unwrap()]);
            1
        },
    },
    Operation {
        name: "item detail",
        share: 391,
        act: |kept, aim| {
            get(kept, &format!("/api/items/{}", aim.turn % 100 + 1));
            get(kept, &format!("/api/items/{}/images/0/preview", aim.turn % 100 + 1));
            2
        },
    },
    Operation {
        name: "image",
        share: 391,
        act: |kept, aim| {
            get(kept, &format!("/api/items/{}/images/0/full", aim.turn % 100 + 1));
            1
        },
    },
    Operation {
        name: "add item",
        share: 235,
        act: |kept, _| {
            let body = r#"{"name":"Lamp","description":"Lights.","manufacturer":"Me","condition":"used","starting_cents":500}"#;
            assert_eq!(kept.ask("POST", "/api/items", body).0, 201);
            1
        },
    },
    Operation {
        name: LOGINS,
        share: 235,
        act: |kept, _| {
            kept.ask("POST", "/api/logout", "");
            1
        },
    },
];

fn metric(server: &Server, name: &str) -> f64 {
    let text = send(&server.address, "GET", "/metrics", &[], b"").unwrap().body;
    let text = String::from_utf8(text).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
}

/// What a while of operations has come to.
struct Driven {
    /// Operations per second of the server's processor time.
    operations: f64,
    /// Requests of an operation.
    requests: f64,
    /// Round trips to the database of an operation.
    trips: f64,
    /// The share of that time that checking passwords took.
    passwords: f64,
}

/// Processor time of checking passwords.
const PASSWORDS: &str = "auction_password_cpu_seconds_total";
const TRIPS: &str = "auction_database_round_trips_total";

/// Runs operations for a while on all clients.
fn drive(server: &Server, site: &Site, seconds: f64, pick: impl Fn(u64) -> usize + Sync) -> Driven {
    let (operations, requests, turns) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(0));
    let users: Vec<User> = (1..=CLIENTS).map(|number| User::log_in(&server.address, number, &site.password)).collect();
    let live = server.ready()["live_auctions"].as_u64().unwrap();
    let (before, trips) = (metric(server, "process_cpu_seconds_total"), metric(server, TRIPS));
    let checked = metric(server, PASSWORDS);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    std::thread::scope(|scope| {
        for (client, user) in users.iter().enumerate() {
            let (operations, requests, turns, pick) = (&operations, &requests, &turns, &pick);
            scope.spawn(move || {
                let mut kept = Kept::open(&server.address, user);
                while Instant::now() < end {
                    let turn = u64::try_from(turns.fetch_add(1, SeqCst)).unwrap();
                    let aim = Aim { turn, live, user: u32::try_from(client).unwrap() + 1 };
                    let operation = &MIX[pick(turn)];
                    requests.fetch_add((operation.act)(&mut kept, &aim), SeqCst);
                    operations.fetch_add(operation.counts(), SeqCst);
                    if operation.name == LOGINS {
                        kept = Kept::open(&server.address, &User::log_in(&server.address, aim.user, &site.password));
                        requests.fetch_add(1, SeqCst);
                    }
                }
            });
        }
    });
    let used = metric(server, "process_cpu_seconds_total") - before;
    let (operations, requests) = (operations.into_inner() as f64, requests.into_inner() as f64);
    Driven {
        operations: operations / used,
        requests: requests / operations,
        trips: (metric(server, TRIPS) - trips) / operations,
        passwords: (metric(server, PASSWORDS) - checked) / used,
    }
}

/// Which operation a turn is: shares of the mix, without `skip`, in an order that looks random and repeats.
fn mixed(turn: u64, skip: &[&str]) -> usize {
    let sum: u64 = MIX.iter().filter(|it| !skip.contains(&it.name)).map(|it| it.share).sum();
    let mut at = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    at %= sum;
    for (index, operation) in MIX.iter().enumerate().filter(|(_, it)| !skip.contains(&it.name)) {
        if at < operation.share {
            return index;
        }
        at -= operation.share;
    }
    0
}

fn load(url: &str, folder: &TempDir, max_users: &str, images: &str) -> serde_json::Value {
    let password = folder.path().join("password");
    let words = ["load", "--database", url, "--max-users", max_users, "--images", images, "--threads", "1"];
    let mut arguments: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    arguments.extend(["--password-file".to_owned(), password.to_str().unwrap().to_owned()]);
    let (code, loaded, err) = run(&arguments);
    assert_eq!(code, 0, "{err}");
    loaded
}

/// A figure next to its goal.
fn judged(what: &str, found: f64, unit: &str, (goal, kept): (String, bool)) {
    println!("{what}: {found:.0} {unit} (goal {goal}) {}", if kept { "ok" } else { "SHORT" });
}

fn at_least(goal: f64, found: f64) -> (String, bool) {
    (format!("at least {goal:.0}"), found >= goal)
}

fn at_most(goal: f64, found: f64) -> (String, bool) {
    (format!("at most {goal:.0}"), found <= goal)
}

/// What each operation takes of the mix: its share of the turns, and of the processor time.
fn limits(alone: &[Driven]) {
    let of_mix = |at: usize| MIX[at].weight() as f64 / MIX.iter().map(Operation::weight).sum::<u64>() as f64;
    let cost = |at: usize| 1e6 / alone[at].operations;
    let whole: f64 = (0..MIX.len()).map(|at| of_mix(at) * cost(at)).sum();
    let mut order: Vec<usize> = (0..MIX.len()).collect();
    order.sort_by(|left, right| (of_mix(*right) * cost(*right)).total_cmp(&(of_mix(*left) * cost(*left))));
    println!("what limits it, by the processor time of each operation alone, and its round trips to the database:");
    for at in order {
        let (share, of_time) = (100.0 * of_mix(at), 100.0 * of_mix(at) * cost(at) / whole);
        println!(
            "{:>16} {:>7.0} us x {share:>5.2} % of the mix = {of_time:>5.1} % of the time; {:.2} round trips",
            MIX[at].name,
            cost(at),
            alone[at].trips
        );
    }
    println!("together {whole:.0} us an operation, which is {:.0} operations a processor second", 1e6 / whole);
}

/// The figures of a mix.
fn mix(what: &str, driven: &Driven) {
    judged(what, driven.operations, "operations a processor second", at_least(5000.0, driven.operations));
    println!("  an operation: {:.2} requests, {:.2} round trips to the database", driven.requests, driven.trips);
}

#[test]
#[ignore = "figures, for a quiet machine"]
fn figures() {
    let Some(postgres) = services::postgres() else { return println!("skipped: no PostgreSQL") };
    let folder = TempDir::new().unwrap();
    let wanted = std::env::var("AUCTION_MAX_USERS").unwrap_or_else(|_| "3000".to_owned());
    let seconds: f64 = std::env::var("AUCTION_SECONDS").map_or(10.0, |text| text.parse().unwrap());
    let files = format!("files:{}/images", folder.path().display());
    let small = load(&format!("sqlite:{}/small.db", folder.path().display()), &folder, "30", &files);
    let drawn = small["images"].as_f64().unwrap() / (small["images_ms"].as_f64().unwrap() / 1e3);
    judged("images into files, one thread", drawn, "a second", at_least(200.0, drawn));
    let begin = Instant::now();
    let loaded = load(&postgres.url, &folder, &wanted, "memory");
    let took = begin.elapsed().as_secs_f64();
    println!("loaded into PostgreSQL: {loaded}");
    // The goal is for 3,000; fewer are a trial of the bench.
    let goal = 180.0 * wanted.parse::<f64>().unwrap() / 3000.0;
    judged(&format!("loading for {wanted} users into PostgreSQL"), took, "s", at_most(goal, took));
    let site = Site::loaded(&postgres.url, folder.path());
    let server = site.serve_with(&["--open", "1h"]);
    let idle = metric(&server, "process_resident_memory_bytes") / 1e6;
    judged("idle server", idle, "MB resident", at_most(64.0, idle));
    // The first image of a size draws what all others copy.
    for size in ["thumbnail", "preview", "full"] {
        assert_eq!(
            send(&server.address, "GET", &format!("/api/items/1/images/0/{size}"), &[], b"").unwrap().status,
            200
        );
    }
    let alone: Vec<Driven> = (0..MIX.len()).map(|index| drive(&server, &site, seconds / 5.0, |_| index)).collect();
    limits(&alone);
    let whole = drive(&server, &site, seconds, |turn| mixed(turn, &[]));
    mix("the mix", &whole);
    let passwords = 100.0 * whole.passwords;
    judged("  of its processor time for checking passwords", passwords, "%", at_most(20.0, passwords));
    mix("without logins", &drive(&server, &site, seconds, |turn| mixed(turn, &[LOGINS])));
    println!("loaded server: {:.1} MB resident", metric(&server, "process_resident_memory_bytes") / 1e6);
    println!("check: {}", site.holds(&[&server]));
}
