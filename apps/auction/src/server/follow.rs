//! Following a live auction: long poll and server-sent events over the same channel.

use super::App;
use super::extract::{Asked, PathId};
use super::hub::{Channel, News, Pushed};
use super::refusal::Refusal;
use super::session::{self, Caller};
use crate::nouns::EventType;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// A comment is sent after this long without an event, and the token is looked at again.
const HEARTBEAT: Duration = Duration::from_secs(15);
const LONGEST_WAIT_MS: u64 = 60_000;

#[derive(Deserialize)]
pub(crate) struct NextAsked {
    after: Option<i64>,
    wait_ms: Option<u64>,
}

fn place(app: &App) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(&app.waiters).try_acquire_owned().map_err(|_full| Refusal::busy("waiters"))
}

/// Waits until the channel is beyond `after`; none when the time is over or the server leaves.
async fn wait(app: &App, channel: &Channel, after: i64, until: Instant) -> Option<News> {
    let mut reached = channel.listen();
    let mut leaving = app.leaving.subscribe();
    loop {
        reached.borrow_and_update();
        if let Some(news) = channel.news(after) {
            return Some(news);
        }
        if *leaving.borrow_and_update() {
            return None;
        }
        tokio::select! {
            changed = reached.changed() => changed.ok()?,
            changed = leaving.changed() => changed.ok()?,
            () = tokio::time::sleep_until(until) => return None,
        }
    }
}

pub(crate) async fn next(
    State(app): State<Arc<App>>,
    _caller: Caller,
    PathId(auction): PathId,
    Asked(asked): Asked<NextAsked>,
) -> Result<Response, Refusal> {
    let wait_ms = asked.wait_ms.unwrap_or(30_000);
    if wait_ms > LONGEST_WAIT_MS {
        return Err(Refusal::malformed("wait_ms: 0 to 60000"));
    }
    if asked.after.is_some_and(|after| !(0..1 << 53).contains(&after)) {
        return Err(Refusal::malformed("after: an order"));
    }
    let channel = app.hub.channel(&*app.database, auction).await?.ok_or_else(Refusal::not_found)?;
    let _place = place(&app)?;
    let after = asked.after.unwrap_or_else(|| channel.order());
    let until = Instant::now() + Duration::from_millis(wait_ms);
    let Some(news) = wait(&app, &channel, after, until).await else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let mut body = String::with_capacity(256 * (news.events.len() + 1));
    let head = format!("{{\"auction_id\":{auction},\"order\":{},\"resync\":{},\"events\":[", news.order, news.resync);
    body.push_str(&head);
    for (index, event) in news.events.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(&event.json);
    }
    body.push(']');
    if news.resync {
        let current = channel.current(&*app.database).await?;
        // A current is text and numbers: it cannot fail to be written.
        let _ = write!(body, ",\"current\":{}", serde_json::to_string(&current).unwrap_or_default());
    }
    body.push('}');
    channel.delivered(&news);
    Ok(([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], body).into_response())
}

struct Stream {
    app: Arc<App>,
    channel: Arc<Channel>,
    headers: HeaderMap,
    after: i64,
    first: Option<String>,
    _place: OwnedSemaphorePermit,
}

pub(crate) async fn events(
    State(app): State<Arc<App>>,
    _caller: Caller,
    PathId(auction): PathId,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let channel = app.hub.channel(&*app.database, auction).await?.ok_or_else(Refusal::not_found)?;
    let place = place(&app)?;
    let current = channel.current(&*app.database).await?;
    let last = headers.get("last-event-id");
    let last = last.map(|value| value.to_str().ok().and_then(|text| text.parse::<i64>().ok()));
    let after = match last {
        None => current.order,
        Some(Some(last)) if last >= 0 => last.min(current.order),
        Some(_) => return Err(Refusal::malformed("Last-Event-ID: an order")),
    };
    // Whoever comes back gets what it missed first; the state follows those events.
    let first = message("current", current.order, &serde_json::to_string(&current).unwrap_or_default());
    let stream = Stream { app, channel, headers, after, first: last.is_none().then_some(first), _place: place };
    let body = Body::from_stream(futures_util::stream::unfold(stream, Stream::next));
    // A proxy that buffers would hold bids back.
    let heads = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((heads, [("x-accel-buffering", "no")], body).into_response())
}

fn message(kind: &str, order: i64, json: &str) -> String {
    format!("event: {kind}\nid: {order}\ndata: {json}\n\n")
}

impl Stream {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(first.into()), self));
        }
        let Some(news) = wait(&self.app, &self.channel, self.after, Instant::now() + HEARTBEAT).await else {
            let over = *self.app.leaving.borrow() || session::caller(&self.app, &self.headers).await.is_err();
            return (!over).then(|| (Ok(Bytes::from_static(b": still here\n\n")), self));
        };
        let mut text: String = news
            .events
            .iter()
            .map(|Pushed { order, kind, json }| message(EventType::name(*kind), *order, json))
            .collect();
        self.after = news.order;
        if news.resync {
            let current = self.channel.current(&*self.app.database).await.ok()?;
            self.after = self.after.max(current.order);
            text.push_str(&message("current", current.order, &serde_json::to_string(&current).unwrap_or_default()));
        }
        self.channel.delivered(&news);
        Some((Ok(text.into()), self))
    }
}
