//! What breaks beneath and around the application.

use crate::http::{User, until};
use crate::process::{Server, Site, run};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tempfile::TempDir;

fn site(folder: &TempDir) -> Site {
    Site::load(&format!("sqlite:{}/site.db", folder.path().display()), folder.path(), 30)
}

/// Not in the middle of a transaction, which would hold SQLite's one lock for as long as it is stalled.
fn stall(server: &Server, folder: &Path) {
    until("a moment between transactions", || {
        server.signal("STOP");
        let file = folder.join("site.db");
        let free = rusqlite::Connection::open(file).unwrap().execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok();
        if !free {
            server.signal("CONT");
        }
        free.then_some(())
    });
}

/// It was answered with 503, by which nothing is stored, and the owner might have stored it already, or later.
#[test]
fn a_bid_that_its_auctions_owner_does_not_answer_may_be_stored() {
    let folder = TempDir::new().unwrap();
    let mut site = site(&folder);
    // Nobody takes the auctions over within the 18 s after which the bid is given up.
    site.set_lease("60s");
    let owner = site.serve("1h");
    until("everything owned", || (owner.ready()["owned_auctions"] == 2).then_some(()));
    // It takes the last of them at most, once that is given back.
    let other = site.serve("1h");
    let user = User::log_in(&other.address, 1, &site.password);
    assert_eq!(user.join(&other.address, 1).status, 200);
    let (item, least) = user.current(&other.address, 1);
    stall(&owner, folder.path());
    let answer = user.bid(&other.address, 1, item, least).unwrap();
    owner.signal("CONT");
    assert_eq!((answer.status, answer.code().as_str()), (504, "outcome_unknown"));
    site.holds(&[&owner, &other]);
}

#[test]
fn a_stalled_owner_sells_nothing_any_more() {
    let folder = TempDir::new().unwrap();
    let mut site = site(&folder);
    site.set_lease("1s");
    let stalled = site.serve("700ms");
    until("everything owned", || (stalled.ready()["owned_auctions"] == 2).then_some(()));
    stall(&stalled, folder.path());
    let other = site.serve("700ms");
    until("everything taken over", || (other.ready()["owned_auctions"] == 2).then_some(()));
    let user = User::log_in(&other.address, 1, &site.password);
    user.join(&other.address, 1);
    until("a bid at the new owner", || {
        let (item, least) = user.current(&other.address, 1);
        (user.bid(&other.address, 1, item, least).unwrap().status == 201).then_some(())
    });
    // It wakes with expired deadlines and would sell what is not its own.
    stalled.signal("CONT");
    until("one owner for each", || {
        let owned = |server: &Server| server.ready()["owned_auctions"].as_i64();
        (owned(&stalled)? + owned(&other)? == 2 && owned(&stalled)? == 1).then_some(())
    });
    site.holds(&[&stalled, &other]);
}

/// A transaction that was given up on and stored all the same is later than what the owner has read since. It had lost the auction then, renewed its lease
/// with every beat, and nobody sold anything there any more.
#[test]
fn an_owner_that_meets_a_late_change_of_its_own_takes_the_auction_up_again() {
    let folder = TempDir::new().unwrap();
    let site = site(&folder);
    let server = site.serve("400ms");
    until("everything owned", || (server.ready()["owned_auctions"] == 2).then_some(()));
    let database = rusqlite::Connection::open(folder.path().join("site.db")).unwrap();
    let fence =
        || database.query_row("SELECT fence FROM auction WHERE id = 1", [], |row| row.get::<_, i64>(0)).unwrap();
    let before = fence();
    database.busy_timeout(crate::http::PATIENCE).unwrap();
    database.execute("UPDATE auction SET last_order = last_order + 1 WHERE id = 1", []).unwrap();
    until("the auction taken up again", || (fence() > before && server.ready()["owned_auctions"] == 2).then_some(()));
    let user = User::log_in(&server.address, 1, &site.password);
    user.join(&server.address, 1);
    until("a bid", || {
        let (item, least) = user.current(&server.address, 1);
        (user.bid(&server.address, 1, item, least).unwrap().status == 201).then_some(())
    });
    site.holds(&[&server]);
}

#[test]
fn a_server_leaves_without_a_failed_request() {
    let folder = TempDir::new().unwrap();
    let site = site(&folder);
    let (stays, leaves) = (site.serve("1h"), site.serve("1h"));
    until("auctions that both own", || (leaves.ready()["owned_auctions"] == 1).then_some(()));
    let users: Vec<User> = (1..=4).map(|number| User::log_in(&stays.address, number, &site.password)).collect();
    users.iter().for_each(|user| (1..=2).for_each(|auction| drop(user.join(&stays.address, auction))));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, user) in users.iter().enumerate() {
            let (over, at) = (&over, stays.address.as_str());
            scope.spawn(move || {
                while !over.load(SeqCst) {
                    let auction = i64::try_from(number).unwrap() % 2 + 1;
                    let (item, least) = user.current(at, auction);
                    let answer = user.bid(at, auction, item, least * 2).unwrap();
                    assert!([201, 402, 409].contains(&answer.status), "{}", String::from_utf8_lossy(&answer.body));
                }
            });
        }
        let code = leaves.end();
        over.store(true, SeqCst);
        assert_eq!(code, 0);
    });
    until("everything handed over", || (stays.ready()["owned_auctions"] == 2).then_some(()));
    site.holds(&[&stays]);
}

#[test]
fn the_administrator_drains_and_nobody_else() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "let me\n").unwrap();
    let site = site(&folder);
    let mut server = site.serve_with(&["--admin-token-file", file.to_str().unwrap()]);
    for heads in [vec![], vec!["authorization: Bearer let him".to_owned()]] {
        let answer = crate::http::send(&server.address, "POST", "/drain", &heads, b"").unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (403, "admin_token"));
    }
    let heads = ["authorization: Bearer let me".to_owned()];
    assert_eq!(crate::http::send(&server.address, "POST", "/drain", &heads, b"").unwrap().status, 202);
    let status = until("the end", || server.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}

#[test]
fn the_check_finds_what_was_done_to_the_data() {
    let folder = TempDir::new().unwrap();
    let site = site(&folder);
    site.holds(&[]);
    let file = folder.path().join("site.db");
    let sql = [
        ("DELETE FROM bid WHERE id = (SELECT high_bid FROM item WHERE state = 'sold' LIMIT 1)", "highest accepted bid"),
        ("UPDATE account SET credit_cents = credit_cents + 1 WHERE id = 3", "credit is what was loaded"),
        ("UPDATE account SET held_cents = 5 WHERE id = 4", "what is held"),
        ("DELETE FROM purchase WHERE item_id = (SELECT MIN(item_id) FROM purchase)", "one purchase"),
    ];
    for (damage, expected) in sql {
        let copy = folder.path().join("damaged.db");
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", copy.display()));
            let _ = std::fs::copy(format!("{}{end}", file.display()), format!("{}{end}", copy.display()));
        }
        rusqlite::Connection::open(&copy).unwrap().execute(damage, []).unwrap();
        let (code, found, err) =
            run(&["check".to_owned(), "--database".to_owned(), format!("sqlite:{}", copy.display())]);
        assert_eq!(code, 4, "{damage}: {found} {err}");
        assert!(err.contains(expected), "{damage}: {err}");
        assert_eq!(found["holds"], json!(false));
    }
}

/// A server that is stopped accepts connections and answers none: the check waited for it without end.
#[test]
fn the_check_gives_up_a_server_that_does_not_answer() {
    let folder = TempDir::new().unwrap();
    let site = site(&folder);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let words = ["check", "--database", &site.database, "--server", &address];
    let (code, _, err) = run(&words.map(str::to_owned));
    assert!(![0, 4].contains(&code) && err.contains(&format!("server {address}: ")), "{code}: {err}");
}
