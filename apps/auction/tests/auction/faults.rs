//! What breaks beneath and around the application.

use crate::http::{User, until};
use crate::process::{Site, run};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tempfile::TempDir;

fn site(folder: &TempDir) -> Site {
    Site::load(&format!("sqlite:{}/site.db", folder.path().display()), folder.path(), 30)
}

#[test]
fn a_stalled_owner_sells_nothing_any_more() {
    let folder = TempDir::new().unwrap();
    let mut site = site(&folder);
    site.set_lease("1s");
    let stalled = site.serve("700ms");
    until("everything owned", || (stalled.ready()["owned_auctions"] == 2).then_some(()));
    // Not in the middle of a transaction, which would hold SQLite's one lock for as long as it is stalled.
    let file = folder.path().join("site.db");
    until("a moment between transactions", || {
        stalled.signal("STOP");
        let free = rusqlite::Connection::open(&file).unwrap().execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok();
        if !free {
            stalled.signal("CONT");
        }
        free.then_some(())
    });
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
        let owned = |server: &crate::process::Server| server.ready()["owned_auctions"].as_i64();
        (owned(&stalled)? + owned(&other)? == 2 && owned(&stalled)? == 1).then_some(())
    });
    site.holds(&[&stalled, &other]);
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
