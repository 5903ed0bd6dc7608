//! What users do, as data: operations of requests, what is taken from answers, and what comes next.
//!
//! An application's users need no engine code: everything they do is here, read from a file (see [`mod@file`]) or made from a
//! URL. All names are numbers by now and everything that cannot work has been refused.

pub mod file;

use crate::hpack;
use crate::json::JsonPath;
use crate::template::{Escape, Template, Values};
use crate::url::Origin;
use baremark_model::units::Nanos;
use regex_lite::Regex;
use std::fmt::Write as _;
use std::sync::Arc;

/// A scenario that holds together.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is about, in one line.
    pub title: String,
    pub(crate) origins: Vec<Origin>,
    pub(crate) variables: Vec<String>,
    /// Values that each user has at first.
    pub(crate) initial: Vec<(usize, Template)>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) choices: Vec<Vec<Candidate>>,
    pub(crate) follows: Vec<Follow>,
    pub(crate) start: usize,
    pub(crate) cycle: Option<Cycle>,
    pub(crate) cookies: bool,
}

/// Time from an operation's intended start to that of the next: truncated normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cycle {
    /// Its mean.
    pub mean: Nanos,
    /// Its standard deviation as a share of the mean.
    pub deviation: f64,
    /// The most that it is off its mean, as a share of the mean.
    pub most: f64,
}

/// One thing that users do, measured as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) name: String,
    /// Share among the operations that an open loop starts; 0 means never.
    pub(crate) weight: f64,
    /// What it may take.
    pub(crate) limit: Option<Nanos>,
    pub(crate) requests: Vec<Request>,
    pub(crate) next: Next,
    pub(crate) on_failure: usize,
    /// Changes of the user's variables after success.
    pub(crate) changes: Vec<Change>,
    /// Parallel loops begun and ended after success.
    pub(crate) begin: Vec<usize>,
    pub(crate) end: Vec<usize>,
    /// Waited after its end instead of the cycle.
    pub(crate) think: Option<Nanos>,
}

/// What comes after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Operation(usize),
    Choice(usize),
}

/// One of the possibilities of a choice.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) to: Next,
    pub(crate) when: Vec<Condition>,
    /// Taken with this chance when its turn comes; those without stand for the draw by weight.
    pub(crate) chance: Option<f64>,
    pub(crate) weight: f64,
}

/// What must hold of a variable.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) variable: usize,
    pub(crate) test: Test,
}

#[derive(Clone, Debug)]
pub(crate) enum Test {
    Set,
    Unset,
    Is(Template),
    IsNot(Template),
    Below(f64),
    AtLeast(f64),
}

/// A change of a variable.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Set(usize, Template),
    Unset(usize),
    Add(usize, f64),
    /// The variable becomes `from` times a draw, rounded to so many decimals; unset where `from` is.
    Draw {
        variable: usize,
        from: usize,
        mean: f64,
        deviation: f64,
        limits: (f64, f64),
        decimals: usize,
    },
}

/// A loop that runs alongside its user: long polls and event streams.
#[derive(Clone, Debug)]
pub(crate) struct Follow {
    pub(crate) operations: Vec<usize>,
    /// Ends when these hold after a round.
    pub(crate) until: Vec<Condition>,
    /// Variables handed to the user after each operation, where they are set.
    pub(crate) tell: Vec<usize>,
    /// Waited after a round.
    pub(crate) pause: Nanos,
}

/// One request, ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) origin: usize,
    pub(crate) method: String,
    pub(crate) path: Template,
    pub(crate) headers: Vec<(String, Template)>,
    /// Pieces of the body; `None` sends none.
    pub(crate) body: Option<Vec<Piece>>,
    pub(crate) content_type: Option<String>,
    /// Statuses that count as success; empty means below 400.
    pub(crate) expect: Vec<u16>,
    pub(crate) extract: Vec<Extract>,
    pub(crate) events: Option<Stream>,
    /// The time at which what the answer tells happened.
    pub(crate) delay: Option<Delay>,
    /// Values of the answer that others are to hear of.
    pub(crate) tells: Option<JsonPath>,
    pub(crate) timeout: Option<Nanos>,
    /// Made for each value of this variable's list, at most so many.
    pub(crate) each: Option<(usize, usize)>,
    /// The whole request in HTTP/1.1 when it is the same for all.
    pub(crate) fixed: Option<Arc<[u8]>>,
    /// Its header block and body in HTTP/2, likewise.
    pub(crate) fixed_http2: Option<(Arc<hpack::Fixed>, Arc<[u8]>)>,
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(Template, Escape),
    Bytes(Arc<[u8]>),
}

/// How long a stream of events is listened to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) most: u64,
    pub(crate) lasting: Option<Nanos>,
}

/// A value taken from an answer.
#[derive(Clone, Debug)]
pub(crate) struct Extract {
    pub(crate) variable: usize,
    pub(crate) source: Source,
    pub(crate) pick: Pick,
    /// Without a value the variable is unset instead of the operation failing.
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Json(JsonPath),
    Regex(Regex),
    Header(String),
}

/// Which of several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    First,
    Last,
    Random,
    /// A list, one value on each line.
    All,
    /// How many there are.
    Count,
}

/// A delay that an answer shows.
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    pub(crate) path: JsonPath,
    pub(crate) since: Since,
    pub(crate) limit: Option<Nanos>,
}

/// What a delay counts from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    /// The time in the answer, in units of so many nanoseconds since 1970.
    Clock(f64),
    /// The sending of the request whose answer told of the same value.
    Told,
}

impl Scenario {
    /// One operation of one GET, again and again.
    ///
    /// # Errors
    /// When the URL cannot be read.
    pub fn of_url(url: &str) -> Result<Scenario, crate::url::UrlError> {
        let (origin, path) = crate::url::parse(url)?;
        let mut request = Request::new(0, "GET", Template::plain(&path));
        request.fix(&origin, &[]);
        let operation = Operation {
            name: "request".to_owned(),
            weight: 1.0,
            limit: None,
            requests: vec![request],
            next: Next::Operation(0),
            on_failure: 0,
            changes: Vec::new(),
            begin: Vec::new(),
            end: Vec::new(),
            think: None,
        };
        Ok(Scenario {
            title: url.to_owned(),
            origins: vec![origin],
            variables: Vec::new(),
            initial: Vec::new(),
            operations: vec![operation],
            choices: Vec::new(),
            follows: Vec::new(),
            start: 0,
            cycle: None,
            cookies: false,
        })
    }

    /// Adds a header to every request.
    pub fn add_header(&mut self, name: &str, value: &str) {
        for request in self.operations.iter_mut().flat_map(|operation| &mut operation.requests) {
            request.headers.push((name.to_owned(), Template::plain(value)));
            request.fix(&self.origins[request.origin], &[]);
        }
    }

    /// The operations' names, in order.
    #[must_use]
    pub fn operation_names(&self) -> Vec<String> {
        self.operations.iter().map(|operation| operation.name.clone()).collect()
    }

    /// The cycle that its users keep, when it says one.
    #[must_use]
    pub fn cycle(&self) -> Option<Cycle> {
        self.cycle
    }

    /// Sets the cycle, whatever the file says.
    pub fn set_cycle(&mut self, cycle: Option<Cycle>) {
        self.cycle = cycle;
    }
}

impl Request {
    pub(crate) fn new(origin: usize, method: &str, path: Template) -> Request {
        Request {
            origin,
            method: method.to_owned(),
            path,
            headers: Vec::new(),
            body: None,
            content_type: None,
            expect: Vec::new(),
            extract: Vec::new(),
            events: None,
            delay: None,
            tells: None,
            timeout: None,
            each: None,
            fixed: None,
            fixed_http2: None,
        }
    }

    /// Writes it down once when nothing in it varies.
    pub(crate) fn fix(&mut self, origin: &Origin, cookies: &[Cookie]) {
        let fixed_body = self.body.as_deref().unwrap_or_default().iter().all(|piece| match piece {
            Piece::Text(template, _) => template.is_fixed(),
            Piece::Bytes(_) => true,
        });
        self.fixed = None;
        self.fixed_http2 = None;
        if self.path.is_fixed() && fixed_body && self.headers.iter().all(|(_, value)| value.is_fixed()) {
            let (mut out, mut body) = (Vec::new(), Vec::new());
            let values = Values { variables: &[], user: 0, serial: 0, random: 0, each: "" };
            if self.write_http1(origin, &values, cookies, (&mut out, &mut body)) {
                self.fixed = Some(out.into());
            }
            let (mut block, mut body) = (Vec::new(), Vec::new());
            if self.write_http2(origin, &values, cookies, (&mut block, &mut body)) {
                self.fixed_http2 = Some((Arc::new(hpack::Fixed::new(block)), body.into()));
            }
        }
    }

    /// Appends the body; `false` when a variable has no value.
    pub(crate) fn write_body(&self, values: &Values<'_>, out: &mut Vec<u8>) -> bool {
        self.body.as_deref().unwrap_or_default().iter().all(|piece| match piece {
            Piece::Text(template, escape) => template.render(values, *escape, out),
            Piece::Bytes(bytes) => {
                out.extend_from_slice(bytes);
                true
            }
        })
    }

    /// Appends the request as HTTP/1.1 writes it; `false` when a variable has no value. `body` is scratch.
    pub(crate) fn write_http1(
        &self,
        origin: &Origin,
        values: &Values<'_>,
        cookies: &[Cookie],
        (out, body): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> bool {
        body.clear();
        if !self.write_body(values, body) {
            return false;
        }
        out.extend(self.method.bytes());
        out.push(b' ');
        if !self.path.render(values, Escape::Path, out) {
            return false;
        }
        let mut head = format!(" HTTP/1.1\r\nHost: {}\r\nUser-Agent: baremark\r\n", origin.authority());
        if self.body.is_some() {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        if let Some(content_type) = &self.content_type {
            let _ = write!(head, "Content-Type: {content_type}\r\n");
        }
        out.extend(head.bytes());
        for (name, value) in &self.headers {
            out.extend(name.bytes());
            out.extend(b": ");
            if !value.render(values, Escape::Header, out) {
                return false;
            }
            out.extend(b"\r\n");
        }
        if !cookies.is_empty() {
            out.extend(b"Cookie: ");
            write_cookies(cookies, out);
            out.extend(b"\r\n");
        }
        out.extend(b"\r\n");
        out.extend_from_slice(body);
        true
    }

    /// The request as HTTP/2 has it, a header block and a body; `false` when a variable has no value.
    pub(crate) fn write_http2(
        &self,
        origin: &Origin,
        values: &Values<'_>,
        cookies: &[Cookie],
        (block, body): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> bool {
        block.clear();
        body.clear();
        let mut text = Vec::new();
        if !self.write_body(values, body) || !self.path.render(values, Escape::Path, &mut text) {
            return false;
        }
        let scheme: &[u8] = if origin.secure { b"https" } else { b"http" };
        hpack::encode(b":method", self.method.as_bytes(), block);
        hpack::encode(b":scheme", scheme, block);
        hpack::encode(b":path", &text, block);
        hpack::encode(b":authority", origin.authority().as_bytes(), block);
        hpack::encode(b"user-agent", b"baremark", block);
        if self.body.is_some() {
            hpack::encode(b"content-length", body.len().to_string().as_bytes(), block);
        }
        if let Some(content_type) = &self.content_type {
            hpack::encode(b"content-type", content_type.as_bytes(), block);
        }
        for (name, value) in &self.headers {
            // What is about the connection is not said in HTTP/2 (RFC 9113, 8.2.2).
            let hop = ["connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
            if hop.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                continue;
            }
            text.clear();
            if !value.render(values, Escape::Header, &mut text) {
                return false;
            }
            hpack::encode(name.as_bytes(), &text, block);
        }
        if !cookies.is_empty() {
            text.clear();
            write_cookies(cookies, &mut text);
            hpack::encode(b"cookie", &text, block);
        }
        true
    }

    /// Whether a status is success.
    #[inline]
    pub(crate) fn expects(&self, status: u16) -> bool {
        if self.expect.is_empty() { status < 400 } else { self.expect.contains(&status) }
    }
}

/// A cookie that a user holds. It goes back to the origin that set it, whatever its path and age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cookie {
    pub(crate) origin: usize,
    pub(crate) name: Box<str>,
    pub(crate) value: Box<str>,
}

pub(crate) fn write_cookies(cookies: &[Cookie], out: &mut Vec<u8>) {
    for (index, cookie) in cookies.iter().enumerate() {
        if index > 0 {
            out.extend(b"; ");
        }
        out.extend(cookie.name.bytes());
        out.push(b'=');
        out.extend(cookie.value.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_becomes_one_fixed_request() {
        let scenario = Scenario::of_url("http://127.0.0.1:8080/x?y").expect("a URL");
        let request = &scenario.operations[0].requests[0];
        let text = String::from_utf8_lossy(request.fixed.as_deref().expect("fixed")).into_owned();
        assert_eq!(text, "GET /x?y HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: baremark\r\n\r\n");
    }
}
