//! Stored passwords: their hash says what checking it costs, and what that took is reported apart from the rest.

use crate::http::{User, log_in_from, send};
use crate::process::{Server, Site, run};
use rusqlite::Connection;
use tempfile::TempDir;

/// A counter of a server.
fn counter(server: &Server, name: &str) -> f64 {
    let text = String::from_utf8(send(&server.address, "GET", "/metrics", &[], b"").unwrap().body).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name}: {text}"))
}

/// The default cost is for measuring a site and not passwords: accounts of a site that was loaded for production keep theirs.
#[test]
fn passwords_stored_at_another_cost_are_checked_and_their_cpu_time_is_told() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let site = Site::load(&format!("sqlite:{}", path("site.db")), folder.path(), 15);
    let (other, password) = (format!("sqlite:{}", path("other.db")), path("password"));
    let costly = ["load", "--database", &other, "--max-users", "15", "--history", "0", "--argon2", "19456,2"];
    let costly: Vec<String> =
        costly.iter().chain(&["--password-file", &password]).map(|&word| word.to_owned()).collect();
    let (code, _, err) = run(&costly);
    assert_eq!(code, 0, "{err}");
    let hash_of = |database: &str, name: &str| -> String {
        let database = Connection::open(path(database)).unwrap();
        let read = "SELECT password_hash FROM account WHERE username = ?";
        database.query_row(read, [name], |row| row.get(0)).unwrap()
    };
    let stored = hash_of("other.db", "user2");
    assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
    let change = "UPDATE account SET password_hash = ? WHERE username = 'user2'";
    assert_eq!(Connection::open(path("site.db")).unwrap().execute(change, [&stored]).unwrap(), 1);
    let server = site.serve("1h");
    let checking = || counter(&server, "auction_password_cpu_seconds_total");
    User::log_in(&server.address, 1, &site.password);
    let cheap = checking();
    User::log_in(&server.address, 2, &site.password);
    let both = checking();
    assert!(0.0 <= cheap && cheap < both, "{cheap} {both}");
    assert_eq!(log_in_from("127.0.0.1", &server.address, "user2", "another").status, 401);
    site.holds(&[&server]);
}
