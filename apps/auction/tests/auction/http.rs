//! A plain HTTP client: one connection a request, or one kept open to misbehave on.

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Everything that polls gives up after this.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until `condition` holds; panics with `what` when it never does.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Its head in lower case.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap().trim(), 16).unwrap();
        let from = end + 2;
        if size == 0 || from + size > rest.len() {
            break;
        }
        whole.extend_from_slice(&rest[from..from + size]);
        rest = rest.get(from + size + 2..).unwrap_or_default();
    }
    whole
}

pub fn connect(address: &str) -> std::io::Result<TcpStream> {
    connect_from("127.0.0.1", address)
}

/// From one of the addresses of loopback, all of 127.0.0.0/8.
fn connect_from(source: &str, address: &str) -> std::io::Result<TcpStream> {
    let at = |text: &str| SocketAddr::from_str(text).map_err(std::io::Error::other);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&at(&format!("{source}:0"))?.into())?;
    socket.connect(&at(address)?.into())?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The peer's answer: until its length is reached or the connection is closed.
pub fn read_answer(mut stream: TcpStream) -> std::io::Result<Answer> {
    let broken = || std::io::Error::other("the answer broke off");
    let mut all = Vec::new();
    let mut piece = [0; 16 << 10];
    let mut read = |all: &mut Vec<u8>| -> std::io::Result<bool> {
        let count = loop {
            match stream.read(&mut piece) {
                // A process that was stopped and goes on.
                Err(why) if why.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        all.extend_from_slice(&piece[..count]);
        Ok(count > 0)
    };
    let end = loop {
        if let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if !read(&mut all)? {
            return Err(broken());
        }
    };
    let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
    let status: u16 = head.split(' ').nth(1).and_then(|text| text.parse().ok()).ok_or_else(broken)?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let whole = if status == 204 || status == 304 { Some(0) } else { length };
    while whole.is_none_or(|length| all.len() < end + 4 + length) {
        if !read(&mut all)? {
            break;
        }
    }
    let rest = &all[end + 4..];
    if whole.is_some_and(|length| rest.len() < length) {
        return Err(broken());
    }
    let body = if head.contains("transfer-encoding: chunked") { unchunk(rest) } else { rest.to_vec() };
    Ok(Answer { status, head, body })
}

/// One request with these further head lines.
pub fn send(address: &str, method: &str, path: &str, heads: &[String], body: &[u8]) -> std::io::Result<Answer> {
    send_on(connect(address)?, address, (method, path), heads, body)
}

fn send_on(
    mut stream: TcpStream,
    address: &str,
    (method, path): (&str, &str),
    heads: &[String],
    body: &[u8],
) -> std::io::Result<Answer> {
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    heads.iter().for_each(|line| head.push_str(&format!("{line}\r\n")));
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    // A server that has seen enough may answer before it has read everything.
    let _ = stream.write_all(body);
    read_answer(stream)
}

/// Somebody who is logged in.
#[derive(Clone, Debug)]
pub struct User {
    pub token: String,
    pub account: i64,
}

impl User {
    pub fn log_in(address: &str, number: u32, password: &str) -> User {
        let asked = serde_json::json!({ "username": format!("user{number}"), "password": password });
        let answer = post(address, "/api/login", &asked);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        let answer = answer.json();
        User { token: answer["token"].as_str().unwrap().to_owned(), account: answer["account_id"].as_i64().unwrap() }
    }

    pub fn head(&self) -> String {
        format!("authorization: Bearer {}", self.token)
    }

    pub fn ask(&self, address: &str, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<Answer> {
        let mut heads = vec![self.head()];
        let mut bytes = Vec::new();
        if let Some(body) = body {
            heads.push("content-type: application/json".to_owned());
            bytes = body.to_string().into_bytes();
        }
        send(address, method, path, &heads, &bytes)
    }

    pub fn get(&self, address: &str, path: &str) -> Answer {
        self.ask(address, "GET", path, None).unwrap()
    }

    pub fn post(&self, address: &str, path: &str, body: &Value) -> Answer {
        self.ask(address, "POST", path, Some(body)).unwrap()
    }

    /// Joins an auction.
    pub fn join(&self, address: &str, auction: i64) -> Answer {
        self.ask(address, "POST", &format!("/api/auctions/{auction}/attendance"), None).unwrap()
    }

    /// What is up: item and the least bid. Waits while there is none.
    pub fn current(&self, address: &str, auction: i64) -> (i64, i64) {
        until("an item that is up", || {
            let current = self.get(address, &format!("/api/auctions/{auction}/current")).json();
            assert_eq!(current["item"].is_null(), current["minimum_cents"].is_null(), "{current}");
            Some((current["item"]["item_id"].as_i64()?, current["minimum_cents"].as_i64()?))
        })
    }

    pub fn bid(&self, address: &str, auction: i64, item: i64, amount: i64) -> std::io::Result<Answer> {
        let body = serde_json::json!({ "item_id": item, "amount_cents": amount });
        self.ask(address, "POST", &format!("/api/auctions/{auction}/bids"), Some(&body))
    }

    /// The ids of all bids of this account on auctions that are live, with auction and order.
    pub fn live_bids(&self, address: &str, live: i64) -> Vec<(i64, (i64, i64))> {
        let mut found = Vec::new();
        for page in 0.. {
            let bids = self.get(address, &format!("/api/bids?size=50&page={page}")).json();
            let bids = bids["bids"].as_array().unwrap().clone();
            let numbers =
                bids.iter().map(|bid| ["bid_id", "auction_id", "order"].map(|field| bid[field].as_i64().unwrap()));
            found.extend(
                numbers.filter(|&[_, auction, _]| auction <= live).map(|[id, auction, order]| (id, (auction, order))),
            );
            if bids.len() < 50 {
                return found;
            }
        }
        found
    }
}

/// A request with a JSON body by nobody.
pub fn post(address: &str, path: &str, body: &Value) -> Answer {
    let heads = ["content-type: application/json".to_owned()];
    send(address, "POST", path, &heads, body.to_string().as_bytes()).unwrap()
}

/// A log-in from one of the addresses of loopback.
pub fn log_in_from(source: &str, address: &str, name: &str, password: &str) -> Answer {
    let body = json!({ "username": name, "password": password }).to_string();
    let heads = ["content-type: application/json".to_owned()];
    let stream = connect_from(source, address).unwrap();
    send_on(stream, address, ("POST", "/api/login"), &heads, body.as_bytes()).unwrap()
}
