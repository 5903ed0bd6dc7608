//! Which handler serves what, each under the name of its operation in `openapi.yaml`.

use super::refusal::Refusal;
use super::{App, api, follow, operations, site};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
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
        .layer(DefaultBodyLimit::max(api::FORM_BYTES));
    (router, table.counters)
}
