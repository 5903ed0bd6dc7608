//! Cloud Hypervisor's API: HTTP/1.1 with JSON over its local socket, one request after the other on one connection.
//!
//! Every wait ends at a deadline or with the lab's interrupt, and no answer is longer than [`LONGEST`].

use crate::interruptible::GLANCE;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where all endpoints are.
const ROOT: &str = "/api/v1";
/// The longest head or body of an answer, in bytes: the description of a guest has some 10 KB.
const LONGEST: u64 = 4 << 20;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// It was refused; `said` has the causes, the outermost first.
    #[error("Cloud Hypervisor refused {what} with status {status}: {said}")]
    Refused { what: String, status: u16, said: String },
    /// It was not answered in time.
    #[error("Cloud Hypervisor did not answer {what} within {seconds} s")]
    Silent { what: String, seconds: u64 },
    /// The connection broke, or what came is no answer.
    #[error("Cloud Hypervisor's answer to {what}: {source}")]
    Broken { what: String, source: io::Error },
    /// The lab was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Until when answers are waited for, and what ends the wait early.
#[derive(Clone, Copy)]
pub struct Until<'u> {
    /// The deadline.
    pub deadline: Instant,
    /// How long that was when the wait was asked for.
    limit: Duration,
    /// The lab's interrupt.
    pub interrupt: &'u AtomicBool,
}

impl<'u> Until<'u> {
    /// From now on for `limit`.
    pub fn within(limit: Duration, interrupt: &'u AtomicBool) -> Self {
        Until { deadline: Instant::now() + limit, limit, interrupt }
    }
}

/// A connection to the API.
pub struct Api(UnixStream);

impl Api {
    /// Over this connection.
    ///
    /// # Errors
    /// What setting its time limits gives.
    pub fn over(socket: UnixStream) -> io::Result<Self> {
        socket.set_read_timeout(Some(GLANCE))?;
        socket.set_write_timeout(Some(GLANCE))?;
        Ok(Api(socket))
    }

    /// Reads something.
    ///
    /// # Errors
    /// Why it was not answered.
    pub fn get(&self, what: &str, until: Until<'_>) -> Result<Value, ApiError> {
        let body = self.exchange(&request("GET", what, None), what, until)?;
        serde_json::from_slice(&body).map_err(|why| ApiError::Broken { what: what.to_owned(), source: why.into() })
    }

    /// Has something done.
    ///
    /// # Errors
    /// Why it was not done.
    pub fn put(&self, what: &str, body: Option<&Value>, until: Until<'_>) -> Result<(), ApiError> {
        self.exchange(&request("PUT", what, body), what, until).map(drop)
    }

    fn exchange(&self, request: &[u8], what: &str, until: Until<'_>) -> Result<Vec<u8>, ApiError> {
        let mut patient = Patient { socket: &self.0, until };
        let what = || what.to_owned();
        let answered = patient.write_all(request).and_then(|()| answer(&mut BufReader::new(patient)));
        match answered {
            Ok((200..=299, body)) => Ok(body),
            Ok((status, body)) => Err(ApiError::Refused { what: what(), status, said: causes(&body) }),
            Err(_) if until.interrupt.load(Ordering::Relaxed) => Err(ApiError::Interrupted),
            Err(why) if why.kind() == io::ErrorKind::TimedOut => {
                Err(ApiError::Silent { what: what(), seconds: until.limit.as_secs() })
            }
            Err(source) => Err(ApiError::Broken { what: what(), source }),
        }
    }
}

/// A request as it is sent.
fn request(method: &str, what: &str, body: Option<&Value>) -> Vec<u8> {
    let head = format!("{method} {ROOT}/{what} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n");
    match body {
        None => format!("{head}\r\n").into_bytes(),
        Some(body) => {
            let body = body.to_string();
            format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        }
    }
}

/// The status and the body of an answer.
fn answer(from: &mut impl BufRead) -> io::Result<(u16, Vec<u8>)> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut head = from.take(LONGEST);
    let mut line = || {
        let mut text = String::new();
        match head.read_line(&mut text)? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            _ => Ok(text.trim_end().to_owned()),
        }
    };
    let status = line()?;
    let code = status.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let code = code.ok_or_else(|| invalid("no status line of HTTP"))?;
    let mut length = 0;
    loop {
        let header = line()?;
        if header.is_empty() {
            break;
        }
        let Some((name, value)) = header.split_once(':') else { return Err(invalid("no header of HTTP")) };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    if length > LONGEST {
        return Err(invalid("longer than it may be"));
    }
    let mut body = Vec::new();
    let read = from.take(length).read_to_end(&mut body)?;
    if read as u64 == length { Ok((code, body)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// What a refusal says: a list of causes, of earlier versions one text.
fn causes(body: &[u8]) -> String {
    match serde_json::from_slice::<Vec<String>>(body) {
        Ok(causes) => causes.join(": "),
        Err(_) if body.is_empty() => "no reason is given".to_owned(),
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    }
}

/// A socket whose time limits are short, read and written until a deadline.
struct Patient<'u> {
    socket: &'u UnixStream,
    until: Until<'u>,
}

impl Patient<'_> {
    fn again(&self, mut once: impl FnMut(&UnixStream) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match once(self.socket) {
                Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    let interrupted = self.until.interrupt.load(Ordering::Relaxed);
                    if interrupted || Instant::now() >= self.until.deadline {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                done => return done,
            }
        }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.again(|mut socket| socket.read(bytes))
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.again(|mut socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::thread;

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn soon(seconds: u64) -> Until<'static> {
        Until::within(Duration::from_secs(seconds), &NEVER)
    }

    /// An API that reads one request of so many bytes and answers with this.
    fn answering(length: usize, answer: &'static [u8]) -> (Api, thread::JoinHandle<(Vec<u8>, UnixStream)>) {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let played = thread::spawn(move || {
            let mut request = vec![0; length];
            theirs.read_exact(&mut request).expect("a request");
            theirs.write_all(answer).expect("the answer is taken");
            (request, theirs)
        });
        (Api::over(ours).expect("limits"), played)
    }

    #[test]
    fn a_request_is_http_with_json_and_its_answer_is_read() {
        let body = json!({ "size": 1 });
        let expected = "PUT /api/v1/vm.create HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\
                        Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"size\":1}";
        let (api, played) = answering(expected.len(), b"HTTP/1.1 204 \r\nServer: Cloud Hypervisor API\r\n\r\n");
        api.put("vm.create", Some(&body), soon(60)).expect("it is done");
        assert_eq!(String::from_utf8(played.join().expect("no panic").0).expect("text"), expected);
        let expected = "GET /api/v1/vm.info HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n";
        let (api, played) =
            answering(expected.len(), b"HTTP/1.1 200 \r\ncontent-length: 19\r\n\r\n{\"state\":\"Running\"}");
        assert_eq!(api.get("vm.info", soon(60)).expect("it is read"), json!({ "state": "Running" }));
        assert_eq!(String::from_utf8(played.join().expect("no panic").0).expect("text"), expected);
    }

    #[test]
    fn a_refusal_says_its_causes_in_either_form() {
        for (answer, said) in [
            (
                &b"HTTP/1.1 500 \r\nContent-Length: 26\r\n\r\n[\"not booted\",\"no memory\"]"[..],
                "not booted: no memory",
            ),
            (b"HTTP/1.1 500 \r\nContent-Length: 10\r\n\r\nnot booted", "not booted"),
            (b"HTTP/1.1 500 \r\n\r\n", "no reason is given"),
        ] {
            let (api, played) = answering(request("PUT", "vm.boot", None).len(), answer);
            let why = api.put("vm.boot", None, soon(60)).expect_err("refused").to_string();
            assert_eq!(why, format!("Cloud Hypervisor refused vm.boot with status 500: {said}"));
            drop(played.join());
        }
    }

    #[test]
    fn what_is_no_answer_or_too_long_or_torn_is_an_error() {
        for (answer, said) in [
            (&b"SSH-2.0-OpenSSH\r\n"[..], "no status line of HTTP"),
            (b"HTTP/1.1 200 OK\r\nnothing\r\n\r\n", "no header of HTTP"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "longer than it may be"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "unexpected end of file"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", "EOF while parsing"),
        ] {
            let (api, played) = answering(request("GET", "vm.info", None).len(), answer);
            // Its end is closed once the answer is written.
            drop(thread::spawn(move || drop(played.join())));
            let why = api.get("vm.info", soon(60)).expect_err("no answer").to_string();
            assert!(why.starts_with("Cloud Hypervisor's answer to vm.info: ") && why.contains(said), "{why}");
        }
    }

    #[test]
    fn one_that_is_silent_is_waited_for_until_the_deadline_or_the_interrupt() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let api = Api::over(ours).expect("limits");
        // The limit is said, not how long it took.
        let over = Until { deadline: Instant::now(), ..soon(7) };
        let why = api.put("vm.boot", None, over).expect_err("silence").to_string();
        assert_eq!(why, "Cloud Hypervisor did not answer vm.boot within 7 s");
        let interrupt = AtomicBool::new(true);
        let until = Until { interrupt: &interrupt, ..soon(3600) };
        assert!(matches!(api.put("vm.boot", None, until), Err(ApiError::Interrupted)));
    }
}
