//! `baremark site --serve`: the same pages, made when they are requested, so that a browser follows runs that measure.
//!
//! It listens on loopback and answers only requests that name it so: a page of the web that has its name lead here gets nothing. What a
//! client can hold is bounded: connections in number and time, heads in size, pages in bytes ([`super::pages`]).

use super::pages::{Address, Answer, Page, Pages, READING};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record;
use crate::watch::say;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// How often a browser loads a page again that shows a run which measures.
const REFRESH: HeaderValue = HeaderValue::from_static("5");
/// How soon the end is seen that a signal requests.
const LOOK: Duration = Duration::from_millis(100);
/// How long to wait when a connection cannot be accepted: out of descriptors, most likely.
const PAUSE: Duration = Duration::from_millis(20);

/// What clients can hold.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Connections that are served, and such that get a 503 at the same time. Whoever is beyond both waits to be accepted.
    connections: usize,
    refused: usize,
    /// Time for a request's head, and for a connection from its beginning to its end: it has one request.
    head: Duration,
    whole: Duration,
}

const LIMITS: Limits =
    Limits { connections: 512, refused: 64, head: Duration::from_secs(10), whole: Duration::from_secs(60) };

/// A head has at most so many bytes and lines.
const HEAD_BYTES: usize = 16 << 10;
const HEAD_LINES: usize = 64;

/// The pages, and how many requests have come.
#[derive(Clone)]
struct Site {
    pages: Arc<tokio::sync::Mutex<Pages>>,
    requests: Arc<AtomicU64>,
}

impl Site {
    fn of(pages: Pages) -> Site {
        Site { pages: Arc::new(tokio::sync::Mutex::new(pages)), requests: Arc::default() }
    }

    /// The page, made on a thread that may wait, one at a time.
    async fn answer(&self, address: Address) -> Result<Answer, Refusal> {
        let request = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let mut pages = Arc::clone(&self.pages).lock_owned().await;
        let requests = Arc::clone(&self.requests);
        let answer = tokio::task::spawn_blocking(move || pages.answer(&address, request, &requests)).await;
        answer.unwrap_or_else(|why| Err(Refusal::failure(why)))
    }

    /// Reads all runs once, a little at a time, so that requests come in between.
    async fn read_on(self) {
        loop {
            let mut pages = Arc::clone(&self.pages).lock_owned().await;
            let left = tokio::task::spawn_blocking(move || pages.read_on(READING)).await;
            if !matches!(left, Ok(Ok(true))) {
                return;
            }
        }
    }
}

/// Serves until a signal ends it. Port 0 is one that is free.
///
/// # Errors
/// There is no store, or the port cannot be had.
pub fn run(context: Context, port: u16) -> Result<(String, Exit), Refusal> {
    record::open_existing(&context)?;
    let failed = |why: io::Error| Refusal::failure(format!("serving on port {port} of 127.0.0.1: {why}"));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).max_blocking_threads(2).enable_all().build().map_err(failed)?;
    runtime.block_on(serve(context, port)).map_err(failed)?;
    // A page that is being made is waited for no longer.
    runtime.shutdown_background();
    Ok((String::new(), Exit::Success))
}

async fn serve(context: Context, port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let address = listener.local_addr()?;
    let interrupt = Arc::clone(&context.interrupt);
    let site = Site::of(Pages::of(Box::new(context)));
    tokio::spawn(site.clone().read_on());
    let router = router(site, address);
    say(format_args!("Serving the store's runs at http://{address}/; Ctrl-C ends it"));
    let end = async move {
        while !interrupt.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
    };
    // A browser keeps its connection: an end does not wait for it.
    tokio::select! {
        () = accept(listener, router, LIMITS) => {}
        () = end => {}
    }
    Ok(())
}

/// Accepts connections for ever.
async fn accept(listener: TcpListener, router: Router, limits: Limits) {
    let [served, refused] = [limits.connections, limits.refused].map(|most| Arc::new(Semaphore::new(most)));
    let busy = Router::new().fallback(async || too_busy("as many connections as allowed are open"));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(why) => {
                say(format_args!("warning: accepting a connection: {why}"));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (place, router) = match Arc::clone(&served).try_acquire_owned() {
            Ok(place) => (Ok(place), router.clone()),
            Err(_) => (Arc::clone(&refused).acquire_owned().await, busy.clone()),
        };
        tokio::spawn(async move {
            connection(stream, router, limits).await;
            drop(place);
        });
    }
}

/// One connection with one request, which is over in time.
async fn connection(stream: TcpStream, router: Router, limits: Limits) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).keep_alive(false);
    http.max_buf_size(HEAD_BYTES).max_headers(HEAD_LINES);
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that breaks off or stalls concerns nobody else.
    let _ = tokio::time::timeout(limits.whole, served).await;
}

fn router(site: Site, address: SocketAddr) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/{page}", get(page))
        .with_state(site)
        .layer(from_fn_with_state(address, for_us))
}

/// Answers only where the request names this address, once (RFC 9112, section 3.2).
async fn for_us(State(address): State<SocketAddr>, request: Request, next: Next) -> Response {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return (StatusCode::BAD_REQUEST, "a request has one Host header\n").into_response();
    };
    // Of a request to a proxy the target is in the first line.
    let target = request.uri().authority().map(|target| target.as_str());
    if host.to_str().is_ok_and(|host| is_ours(host, address)) && target.is_none_or(|target| is_ours(target, address)) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "this is served at its own address only\n").into_response()
}

/// Whether a host with its port is this address.
fn is_ours(host: &str, address: SocketAddr) -> bool {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
    let is_name = name == address.ip().to_string() || name.eq_ignore_ascii_case("localhost");
    is_name && port == address.port().to_string()
}

async fn index(site: State<Site>) -> Response {
    page(site, Path(String::new())).await
}

async fn page(State(site): State<Site>, Path(name): Path<String>) -> Response {
    match Address::of(&name) {
        Some(address) => response(site.answer(address).await),
        None => response(Ok(Answer::Missing)),
    }
}

/// A page that is sent: its bytes are those that others are sent.
struct Shared(Arc<Page>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.text.as_bytes()
    }
}

fn response(answer: Result<Answer, Refusal>) -> Response {
    let mut response = match answer {
        Ok(Answer::Page(page)) => {
            let (live, media) = (page.live, HeaderValue::from_static(page.media));
            let mut response = Response::new(Body::from(Bytes::from_owner(Shared(page))));
            response.headers_mut().insert(header::CONTENT_TYPE, media);
            if live {
                response.headers_mut().insert(header::REFRESH, REFRESH);
            }
            response
        }
        Ok(Answer::Missing) => (StatusCode::NOT_FOUND, "the store has no such run\n").into_response(),
        Ok(Answer::Busy) => too_busy("as many pages as allowed are being sent"),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{}\n", why.message)).into_response(),
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn too_busy(why: &str) -> Response {
    let soon = [(header::RETRY_AFTER, HeaderValue::from_static("1"))];
    (StatusCode::SERVICE_UNAVAILABLE, soon, format!("busy: {why}; try again in a second\n")).into_response()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::pages::tests::{Played, run};
    use super::*;
    use baremark_store::RunState;
    use std::sync::atomic::Ordering::SeqCst;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// What hangs is ended after this.
    const PATIENCE: Duration = Duration::from_secs(120);
    const OPEN: Limits = Limits { head: PATIENCE, whole: PATIENCE, ..LIMITS };

    /// Runs a test with a server of these runs and limits.
    fn with_server<F: Future<Output = ()>>(played: &Played, limits: Limits, test: impl FnOnce(SocketAddr) -> F) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let router = router(Site::of(played.pages()), address);
            tokio::spawn(accept(listener, router, limits));
            tokio::time::timeout(PATIENCE, test(address)).await.expect("an answer");
        });
    }

    async fn connect(address: SocketAddr) -> TcpStream {
        TcpStream::connect(address).await.unwrap()
    }

    /// Sends, and reads until the end.
    async fn ask(mut stream: TcpStream, text: &str) -> String {
        // A server that has seen enough may close before it has read everything.
        let _ = stream.write_all(text.as_bytes()).await;
        read(stream).await
    }

    async fn read(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    fn get(path: &str, address: SocketAddr) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")
    }

    fn status(answer: &str) -> &str {
        answer.split(' ').nth(1).unwrap_or("none")
    }

    /// All are connected before the first asks.
    #[test]
    fn five_hundred_at_once_are_answered_from_one_page() {
        let played = Played::with(30);
        with_server(&played, OPEN, |address| async move {
            let mut streams = Vec::new();
            for _ in 0..500 {
                streams.push(connect(address).await);
            }
            let asked =
                streams.into_iter().map(|stream| tokio::spawn(async move { ask(stream, &get("/", address)).await }));
            for answer in asked.collect::<Vec<_>>() {
                let answer = answer.await.unwrap();
                assert_eq!(status(&answer), "200", "{answer:.300}");
                assert!(answer.contains("30 runs"), "{answer:.300}");
            }
        });
        assert_eq!(played.read.load(SeqCst), 30, "each run is read once");
    }

    #[test]
    fn who_is_too_many_gets_a_503_and_the_others_are_served() {
        let played = Played::with(1);
        with_server(&played, Limits { connections: 2, refused: 1, ..OPEN }, |address| async move {
            let (idle, other) = (connect(address).await, connect(address).await);
            for _ in 0..3 {
                let answer = ask(connect(address).await, &get("/", address)).await;
                assert_eq!(status(&answer), "503", "{answer}");
                assert!(answer.contains("retry-after: 1") && answer.contains("busy: as many connections"), "{answer}");
            }
            assert_eq!(status(&ask(other, &get("/", address)).await), "200");
            drop(idle);
        });
    }

    /// A head that never ends, and a page that is never read: the one place is free again each time.
    #[test]
    fn a_slow_client_does_not_keep_its_place() {
        let played = Played { bytes: 64 << 20, ..Played::with(1) };
        let (head, whole) = (Duration::from_millis(50), Duration::from_secs(2));
        with_server(&played, Limits { connections: 1, refused: 1, head, whole }, |address| async move {
            let mut slow = connect(address).await;
            slow.write_all(b"GET / HT").await.unwrap();
            // Ended by the server; with a status or without.
            assert!(["408", "none"].contains(&status(&read(slow).await)));
            let report = format!("/{}.html", run(0, RunState::Finished).id);
            let unread = loop {
                let mut unread = connect(address).await;
                unread.write_all(get(&report, address).as_bytes()).await.unwrap();
                let mut begin = [0; 12];
                if unread.read_exact(&mut begin).await.is_ok() && begin == *b"HTTP/1.1 200" {
                    break unread;
                }
            };
            // Until it is given up there is a 503 for others.
            while status(&ask(connect(address).await, &get("/", address)).await) != "200" {
                tokio::time::sleep(PAUSE).await;
            }
            drop(unread);
        });
    }

    #[test]
    fn heads_are_limited_and_name_this_server_once() {
        with_server(&Played::with(1), OPEN, |address| async move {
            let port = address.port();
            let request = |hosts: &str, more: &str| format!("GET / HTTP/1.1\r\n{hosts}{more}\r\n");
            let host = format!("Host: {address}\r\n");
            for (text, expected) in [
                (request(&host, ""), "200"),
                (request(&format!("Host: LOCALHOST:{port}\r\n"), ""), "200"),
                (request("", ""), "400"),
                (request(&host, &host), "400"),
                (request(&host, "Host: attacker.example\r\n"), "400"),
                (request("Host: attacker.example\r\n", ""), "403"),
                (request("Host: 127.0.0.1\r\n", ""), "403"),
                (request(&format!("Host: 127.0.0.1.attacker.example:{port}\r\n"), ""), "403"),
                (format!("GET http://attacker.example/ HTTP/1.1\r\n{host}\r\n"), "403"),
                (request(&host, &format!("X: {}\r\n", "x".repeat(HEAD_BYTES))), "431"),
                (request(&host, &"X: y\r\n".repeat(HEAD_LINES)), "431"),
                (format!("POST / HTTP/1.1\r\n{host}Content-Length: 0\r\n\r\n"), "405"),
            ] {
                let answer = ask(connect(address).await, &text).await;
                assert_eq!(status(&answer), expected, "{text:.200}: {answer:.300}");
                let closes = answer.contains("connection: close");
                assert!(closes || expected != "200", "one request a connection: {answer:.300}");
            }
        });
    }
}
