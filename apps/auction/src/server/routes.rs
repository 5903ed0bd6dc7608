//! Which handler serves what, each under the name of its operation in `openapi.yaml`, and what holds for all of them.

use super::extract::read;
use super::refusal::Refusal;
use super::{App, api, follow, operations, site};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::handler::Handler;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// What one operation was asked and how it was answered.
#[derive(Debug)]
pub(crate) struct Counter {
    pub name: &'static str,
    /// 1xx to 5xx.
    pub classes: [AtomicU64; 5],
    pub nanos: AtomicU64,
}

impl Counter {
    fn count(&self, status: StatusCode, begun: Instant) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.classes[class].fetch_add(1, Relaxed);
        self.nanos.fetch_add(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

async fn counted(State(counter): State<Arc<Counter>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let response = next.run(request).await;
    counter.count(response.status(), begun);
    response
}

/// Whether a request names its host as it must: an HTTP/1.1 request has one `Host`, and none has more or one that is no host (RFC 9112,
/// section 3.2). Whoever forwards requests may go by another one than we do.
fn names_its_host(version: Version, headers: &HeaderMap) -> bool {
    let is_host = |value: &HeaderValue| {
        let authority = Authority::try_from(value.as_bytes());
        value.is_empty() || authority.is_ok_and(|authority| !authority.as_str().contains('@'))
    };
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => is_host(host),
        (Some(_), Some(_)) => false,
    }
}

async fn of_one_host(request: Request, next: Next) -> Response {
    if names_its_host(request.version(), request.headers()) {
        return next.run(request).await;
    }
    // Where the next request of this connection begins may be in doubt too.
    let refusal = Refusal::malformed("an HTTP/1.1 request has one Host header, with a host");
    ([(header::CONNECTION, HeaderValue::from_static("close"))], refusal).into_response()
}

/// Refuses what a page of another site makes a browser send: where tokens are cookies it would act for whoever looks at that
/// page. Browsers say where a request comes from, by `Sec-Fetch-Site` or `Origin`; others say neither and are let in.
async fn of_own_pages(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if reads || is_own(request.headers()) {
        return next.run(request).await;
    }
    // Whoever is cut off while it sends would not see the refusal.
    let _ = read(request.into_body(), 0).await;
    Refusal::foreign_origin().into_response()
}

/// As `CrossOriginProtection` of Go's net/http decides it.
fn is_own(headers: &HeaderMap) -> bool {
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_ascii_lowercase();
    if let Some(site) = headers.get("sec-fetch-site").map(text) {
        return site == "same-origin" || site == "none";
    }
    let Some(origin) = headers.get(header::ORIGIN).map(text) else { return true };
    let (scheme, from) = origin.split_once("://").unwrap_or_default();
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let host = headers.get(header::HOST).map(text).unwrap_or_default();
    !from.is_empty() && from.trim_end_matches(usual) == host.trim_end_matches(usual)
}

/// No answer is to be taken for something else than it says it is.
async fn as_it_says(mut response: Response) -> Response {
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Routes under construction, with their counters.
struct Table {
    router: Router<Arc<App>>,
    counters: Vec<Arc<Counter>>,
}

impl Table {
    fn on<H, T>(mut self, method: MethodFilter, path: &str, name: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        let counter = Arc::new(Counter { name, classes: Default::default(), nanos: AtomicU64::new(0) });
        let route: MethodRouter<Arc<App>> =
            on(method, handler).layer(from_fn_with_state(Arc::clone(&counter), counted));
        self.router = self.router.route(path, route);
        self.counters.push(counter);
        self
    }
}

/// All routes and their counters.
pub(crate) fn table() -> (Router<Arc<App>>, Vec<Arc<Counter>>) {
    let (get, post) = (MethodFilter::GET, MethodFilter::POST);
    let table = Table { router: Router::new(), counters: Vec::new() }
        .on(get, "/", "home", site::home)
        .on(get, "/app.css", "style", site::style)
        .on(get, "/app.js", "script", site::script)
        .on(get, "/openapi.yaml", "interface", site::interface)
        .on(post, "/api/login", "login", api::login)
        .on(post, "/api/logout", "logout", api::logout)
        .on(get, "/api/profile", "profile", api::profile)
        .on(MethodFilter::PUT, "/api/profile", "updateProfile", api::change_profile)
        .on(get, "/api/bids", "bidHistory", api::bids)
        .on(get, "/api/attendances", "attendanceHistory", api::attendances)
        .on(get, "/api/purchases", "purchaseHistory", api::purchases)
        .on(get, "/api/auctions", "activeAuctions", api::auctions)
        .on(get, "/api/auctions/{auction}", "auction", api::auction)
        .on(get, "/api/auctions/{auction}/items", "auctionItems", api::auction_items)
        .on(post, "/api/auctions/{auction}/attendance", "join", api::join)
        .on(MethodFilter::DELETE, "/api/auctions/{auction}/attendance", "leave", api::leave)
        .on(get, "/api/auctions/{auction}/current", "current", api::current)
        .on(get, "/api/auctions/{auction}/next", "next", follow::next)
        .on(get, "/api/auctions/{auction}/events", "events", follow::events)
        .on(post, "/api/auctions/{auction}/bids", "placeBid", api::place_bid)
        .on(post, "/api/items", "addItem", api::add_item)
        .on(get, "/api/items/{item}", "item", api::item)
        .on(post, "/api/items/{item}/images", "addImage", api::add_image)
        .on(get, "/api/items/{item}/images/{number}/{size}", "image", api::image)
        .on(get, "/health", "health", operations::health)
        .on(get, "/ready", "ready", operations::ready)
        .on(get, "/metrics", "metrics", operations::metrics)
        .on(get, "/pushes", "pushes", operations::pushes)
        .on(post, "/drain", "drain", operations::drain)
        .on(post, "/internal/bid", "forwardedBid", api::forwarded_bid);
    let router = table
        .router
        .method_not_allowed_fallback(async || Refusal::method())
        .fallback(async || Refusal::not_found())
        .layer(DefaultBodyLimit::max(api::FORM_BYTES))
        .layer(from_fn(of_own_pages))
        .layer(from_fn(of_one_host))
        .layer(map_response(as_it_says));
    (router, table.counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_one_host() {
        let named = |version: Version, hosts: &[&str]| {
            let hosts = hosts.iter().map(|host| (header::HOST, host.parse().unwrap()));
            names_its_host(version, &hosts.collect())
        };
        for host in ["shop.example", "shop.example:8080", "127.0.0.1:80", "[::1]:8080", ""] {
            assert!(named(Version::HTTP_11, &[host]), "{host}");
        }
        for wrong in [&[][..], &["shop.example", "shop.example"], &["a", "b"], &["me@shop.example"], &["a b"], &["a/b"]]
        {
            assert!(!named(Version::HTTP_11, wrong), "{wrong:?}");
        }
        assert!(named(Version::HTTP_10, &[]), "a probe of a balancer");
        assert!(!named(Version::HTTP_10, &["a", "b"]));
    }

    #[test]
    fn only_pages_of_this_site_change_anything() {
        let own = |heads: &[(&'static str, &str)]| {
            is_own(&heads.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect())
        };
        let host = ("host", "shop.example:8080");
        assert!(own(&[host]), "no browser");
        assert!(own(&[host, ("origin", "http://Shop.example:8080")]));
        assert!(own(&[("host", "shop.example"), ("origin", "https://shop.example")]));
        assert!(own(&[("host", "shop.example:443"), ("origin", "https://shop.example")]));
        assert!(own(&[host, ("origin", "http://proxy.example"), ("sec-fetch-site", "same-origin")]));
        for foreign in ["http://shop.example", "http://shop.example:8081", "http://evil.example", "null", ""] {
            assert!(!own(&[host, ("origin", foreign)]), "{foreign}");
        }
        for site in ["cross-site", "same-site"] {
            assert!(!own(&[host, ("origin", "http://shop.example:8080"), ("sec-fetch-site", site)]), "{site}");
        }
    }
}
