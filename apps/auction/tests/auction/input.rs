//! Wrong input, from the command line and over the network: a clear refusal, and the server goes on.

use crate::http::{User, connect, log_in_from, read_answer, send, until};
use crate::market::upload;
use crate::process::{Site, run};
use serde_json::json;
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn refused(arguments: &[&str]) -> (i32, String) {
    let (code, _, err) = run(&arguments.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
    (code, err)
}

#[test]
fn commands_say_what_is_wrong() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().display();
    let empty = format!("sqlite:{path}/empty.db");
    for (arguments, code, expected) in [
        (vec!["serve", "--database", empty.as_str()], 1, "auction load"),
        (vec!["serve", "--database", "oracle:x"], 1, "sqlite:FILE, postgres://"),
        (vec!["serve", "--database", "postgres://me:secret@127.0.0.1/x"], 1, "no password in --database"),
        (vec!["serve", "--database", "postgres://me@db.example/x"], 1, "numeric address"),
        (vec!["serve", "--database", empty.as_str(), "--open", "30"], 2, "500ms, 30s"),
        (vec!["serve", "--database", empty.as_str(), "--bus", "smoke"], 2, "redis://HOST:PORT"),
        (vec!["serve", "--database", empty.as_str(), "--bus", "postgres"], 1, "needs a PostgreSQL database"),
        (vec!["serve", "--database", empty.as_str(), "--images", "files:"], 2, "files:FOLDER"),
        (vec!["load", "--database", empty.as_str(), "--max-users", "0"], 2, "max-users"),
        (
            vec!["load", "--database", empty.as_str(), "--max-users", "5", "--password-file", "/nowhere/x"],
            1,
            "/nowhere/x",
        ),
        (vec!["check", "--database", "sqlite:/nowhere/x.db"], 1, "/nowhere/x.db"),
        (vec!["fly"], 2, "unrecognized subcommand"),
    ] {
        // Not the usual port, which somebody may have.
        let listen = ["--listen", "127.0.0.1:0"].iter().filter(|_| arguments[0] == "serve");
        let arguments: Vec<&str> = arguments.iter().chain(listen).copied().collect();
        let (found, err) = refused(&arguments);
        assert_eq!(found, code, "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
        assert!(!err.contains("secret@"), "a password was told: {err}");
    }
}

#[test]
fn a_taken_port_is_named() {
    let folder = TempDir::new().unwrap();
    let mut site = Site::load(&format!("sqlite:{}/site.db", folder.path().display()), folder.path(), 15);
    // Longer than it may be stopped: a reset would take it for dead.
    site.set_lease("600s");
    let server = site.serve_with(&["--open", "1h", "--last-call", "1h", "--head-time", "8s"]);
    let (code, err) = refused(&["serve", "--database", &site.database, "--listen", &server.address]);
    assert!(code == 1 && err.contains(&server.address), "{err}");
    let at = server.address.as_str();
    std::thread::scope(|scope| {
        // They are waited for, and are no user that the others are.
        scope.spawn(|| slow_clients_are_given_up(&site, at));
        requests_are_refused(&site, at);
        pages_of_other_sites_change_nothing(&site, at);
        answers_are_what_they_say(&site, at);
        passwords_cannot_be_guessed(&site, at);
        names_cannot_be_tried(&site, at);
        a_request_names_one_host(at);
    });
    let (code, err) = refused(&["reset", "--database", &site.database, "--wait", "1s"]);
    assert!(code == 1 && err.contains(&server.address), "a reset under a running server: {err}");
    site.holds(&[&server]);
}

fn requests_are_refused(site: &Site, at: &str) {
    let user = User::log_in(at, 1, &site.password);
    user.join(at, 1);
    let json = "content-type: application/json".to_owned();
    let mine = [user.head(), json.clone()];
    let large = format!("{{\"username\":\"{}\",\"password\":\"x\"}}", "a".repeat(100_000));
    for (method, path, body, status, code) in [
        ("POST", "/api/login", "{", 400, "malformed"),
        ("POST", "/api/login", "[]", 400, "malformed"),
        ("POST", "/api/login", r#"{"username":"user1"}"#, 400, "malformed"),
        ("POST", "/api/login", r#"{"username":"user1","password":"x","admin":true}"#, 400, "malformed"),
        ("POST", "/api/login", r#"{"username":"","password":"x"}"#, 422, "invalid"),
        ("POST", "/api/login", r#"{"username":"user1","password":"x"}"#, 401, "wrong_password"),
        ("POST", "/api/login", r#"{"username":"nobody","password":"x"}"#, 401, "wrong_password"),
        ("POST", "/api/login", large.as_str(), 413, "too_large"),
        ("POST", "/api/auctions/1/bids", r#"{"item_id":1,"amount_cents":-5}"#, 422, "invalid"),
        ("POST", "/api/auctions/1/bids", r#"{"item_id":1,"amount_cents":0}"#, 422, "invalid"),
        ("POST", "/api/auctions/1/bids", r#"{"item_id":1,"amount_cents":1.5}"#, 400, "malformed"),
        ("POST", "/api/auctions/1/bids", r#"{"item_id":1,"amount_cents":1e30}"#, 400, "malformed"),
        ("POST", "/api/auctions/1/bids", r#"{"item_id":1,"amount_cents":100000000001}"#, 422, "invalid"),
        ("POST", "/api/auctions/0/bids", r#"{"item_id":1,"amount_cents":1}"#, 404, "not_found"),
        ("PUT", "/api/profile", r#"{"first_name":"a","last_name":"b","email":"none"}"#, 422, "invalid"),
        (
            "POST",
            "/api/items",
            r#"{"name":"","description":"b","manufacturer":"c","condition":"new","starting_cents":1}"#,
            422,
            "invalid",
        ),
        ("GET", "/api/auctions?size=1000", "", 400, "malformed"),
        ("GET", "/api/auctions?page=x", "", 400, "malformed"),
        ("GET", "/api/auctions/1/next?wait_ms=99999999", "", 400, "malformed"),
        ("GET", "/api/items/x", "", 404, "not_found"),
        ("GET", "/api/items/99999999999999999999", "", 404, "not_found"),
        ("GET", "/api/items/1/images/0/huge", "", 404, "not_found"),
        ("GET", "/../../etc/passwd", "", 404, "not_found"),
        ("DELETE", "/api/profile", "", 405, "method"),
        ("POST", "/internal/bid", r#"{"auction":1,"item":1,"account":2,"amount":100000}"#, 404, "not_found"),
    ] {
        let answer = send(at, method, path, &mine, body.as_bytes()).unwrap();
        let found = (answer.status, answer.code());
        assert_eq!(
            found,
            (status, code.to_owned()),
            "{method} {path} {body}: {}",
            String::from_utf8_lossy(&answer.body)
        );
        assert!(answer.json()["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
    }
    let foreign = ["authorization: Bearer 00".to_owned(), json];
    assert_eq!(send(at, "GET", "/api/profile", &foreign, b"").unwrap().code(), "unknown_token");
    assert_eq!(
        send(at, "GET", "/api/profile", &["authorization: Basic eDp5".to_owned()], b"").unwrap().code(),
        "unknown_token"
    );
    assert_eq!(send(at, "POST", "/api/login", &[], b"{}").unwrap().code(), "media_type");
    let item = json!({ "name": "Lamp", "description": "Lights.", "manufacturer": "Me", "condition": "used", "starting_cents": 500 });
    let item = user.post(at, "/api/items", &item).json()["item_id"].as_i64().unwrap();
    let answer = upload(&user, at, &format!("/api/items/{item}/images"), &vec![0; 3 << 20]);
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"));
    let answer = upload(&user, at, &format!("/api/items/{item}/images"), &[0; 10]);
    assert_eq!(answer.status, 422);
}

/// Heads and bodies that never end, and readers that never read, end with their connection.
fn slow_clients_are_given_up(site: &Site, at: &str) {
    let user = User::log_in(at, 2, &site.password);
    let begun = Instant::now();
    let mut half = connect(at).unwrap();
    write!(
        half,
        "POST /api/items HTTP/1.1\r\nhost: x\r\n{}\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{{",
        user.head()
    )
    .unwrap();
    let mut head = connect(at).unwrap();
    write!(head, "GET / HTTP/1.1\r\nhos").unwrap();
    let answer = read_answer(half).unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (408, "too_slow"));
    let mut rest = Vec::new();
    head.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
    assert!(begun.elapsed() > Duration::from_secs(5), "given up too early");
    assert_eq!(user.get(at, "/api/profile").status, 200);
}

/// A browser sends its cookie with a form of any page on this host, which no body gives away.
fn pages_of_other_sites_change_nothing(site: &Site, at: &str) {
    let user = User::log_in(at, 3, &site.password);
    let cookie = format!("cookie: auction_token={}", user.token);
    for (method, path) in
        [("POST", "/api/auctions/1/attendance"), ("DELETE", "/api/auctions/1/attendance"), ("POST", "/api/logout")]
    {
        for origin in ["origin: http://127.0.0.1:1", "origin: null", "sec-fetch-site: same-site"] {
            let answer = send(at, method, path, &[cookie.clone(), origin.to_owned()], b"").unwrap();
            assert_eq!((answer.status, answer.code().as_str()), (403, "foreign_origin"), "{method} {path} {origin}");
        }
        let own = [cookie.clone(), format!("origin: http://{at}")];
        let answer = send(at, method, path, &own, b"").unwrap();
        assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.status);
    }
    assert_eq!(user.get(at, "/api/profile").code(), "unknown_token", "it was logged out by its own page alone");
}

fn answers_are_what_they_say(site: &Site, at: &str) {
    let user = User::log_in(at, 4, &site.password);
    for (path, kind) in [
        ("/", "text/html"),
        ("/api/items/1/images/0/thumbnail", "image/jpeg"),
        ("/api/profile", "application/json"),
        ("/api/items/x", "application/json"),
        ("/nowhere", "application/json"),
    ] {
        let head = user.get(at, path).head;
        assert!(head.contains(&format!("content-type: {kind}")), "{path}: {head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
    }
}

/// Guesses at an account from an address are limited, whether or not there is such an account. The right password from another address is
/// accepted all the same, and log-ins that succeed are never limited.
fn passwords_cannot_be_guessed(site: &Site, at: &str) {
    for (source, name) in [("127.0.0.6", "user6"), ("127.0.0.7", "nobody at all")] {
        let begun = Instant::now();
        let answers: Vec<_> = std::thread::scope(|scope| {
            let guesses: Vec<_> = (0..40).map(|_| scope.spawn(|| log_in_from(source, at, name, "a guess"))).collect();
            guesses.into_iter().map(|guess| guess.join().unwrap()).collect()
        });
        let count = |code: &str| answers.iter().filter(|answer| answer.code() == code).count();
        let (wrong, limited) = (count("wrong_password"), count("failed_logins"));
        // Those that were being checked when the tenth failed, and one for every five seconds, in which a failure is forgotten.
        let threads = std::thread::available_parallelism().unwrap().get();
        let forgotten = || usize::try_from(begun.elapsed().as_secs() / 5).unwrap();
        let most = 9 + threads + forgotten();
        assert!((10..=most).contains(&wrong) && wrong + limited == 40, "{name}: {wrong} and {limited}");
        let refused = log_in_from(source, at, name, &site.password);
        if refused.status == 429 {
            assert_eq!(refused.code(), "failed_logins", "{name}");
            assert!(refused.head.contains("retry-after: 5"), "{}", refused.head);
        } else {
            assert!(forgotten() > 0, "{name}: {} before a failure was forgotten", refused.status);
        }
    }
    let owner = log_in_from("127.0.0.8", at, "user6", &site.password);
    assert_eq!(owner.status, 200, "a stranger's guesses lock nobody out: {}", owner.code());
    std::thread::scope(|scope| {
        let logins: Vec<_> =
            (0..40).map(|_| scope.spawn(|| log_in_from("127.0.0.8", at, "user7", &site.password).status)).collect();
        logins.into_iter().for_each(|login| assert_eq!(login.join().unwrap(), 200));
    });
    until("one more login, once a failure is forgotten", || {
        (log_in_from("127.0.0.6", at, "user6", &site.password).status == 200).then_some(())
    });
}

/// One password is not tried on many names; who has logged in from that address before, or comes from another one, notices nothing.
fn names_cannot_be_tried(site: &Site, at: &str) {
    let log_in = |source: &str, name: &str, password: &str| log_in_from(source, at, name, password);
    assert_eq!(log_in("127.0.0.9", "user8", &site.password).status, 200);
    let begun = Instant::now();
    let answers: Vec<_> = (0..60).map(|name| log_in("127.0.0.9", &format!("name{name}"), "summer2026")).collect();
    let wrong = answers.iter().filter(|answer| answer.code() == "wrong_password").count();
    let limited = answers.iter().filter(|answer| answer.code() == "failed_logins").count();
    let most = 30 + usize::try_from(begun.elapsed().as_secs() / 5).unwrap();
    assert!((30..=most).contains(&wrong) && wrong + limited == 60, "{wrong} and {limited}");
    assert_eq!(log_in("127.0.0.9", "user8", &site.password).status, 200, "it has logged in from here before");
    assert_eq!(log_in("127.0.0.10", "user9", &site.password).status, 200, "another address");
}

/// Whoever reads two hosts, or none, may take another one for its own (RFC 9112, section 3.2).
fn a_request_names_one_host(at: &str) {
    for (version, hosts, status) in [
        ("1.1", "", "400"),
        ("1.1", "Host: shop.example\r\nHost: shop.example\r\n", "400"),
        ("1.1", "Host: me@shop.example\r\n", "400"),
        ("1.1", "Host: shop.example:8080\r\n", "200"),
        ("1.0", "Host: a\r\nHost: b\r\n", "400"),
        ("1.0", "", "200"),
    ] {
        let mut stream = connect(at).unwrap();
        write!(stream, "GET /health HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{version} {hosts:?}: {answer}");
    }
}
