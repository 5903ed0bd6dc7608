//! Bids for auctions that another server owns are handed to it, server to server.

use super::App;
use super::auctioneer::{Asked, BidCommand};
use super::keeper::Owner;
use super::refusal::Refusal;
use crate::nouns::Event;
use crate::store::sales;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The header by which servers of one database know each other.
pub(crate) const SECRET: &str = "x-auction-cluster";

/// How long a bid waits for an owner while one dies and another takes over.
const PATIENCE: Duration = Duration::from_secs(15);

/// Connections to other servers.
pub(crate) struct Peers(Client<HttpConnector, Full<Bytes>>);

impl Peers {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(1)));
        Peers(Client::builder(TokioExecutor::new()).pool_idle_timeout(Duration::from_secs(30)).build(connector))
    }

    async fn bid(&self, address: &str, secret: &str, asked: &Asked) -> Result<(StatusCode, Bytes), NoAnswer> {
        let lost = |why: &dyn std::fmt::Display| NoAnswer { why: why.to_string(), handed_over: true };
        let body = serde_json::to_vec(asked).map_err(|why| lost(&why))?;
        let request = hyper::Request::post(format!("http://{address}/internal/bid"))
            .header(header::CONTENT_TYPE, "application/json")
            .header(SECRET, secret)
            .body(Full::new(Bytes::from(body)))
            .map_err(|why| lost(&why))?;
        let answer = async {
            let response = self.0.request(request).await;
            let response = response.map_err(|why| NoAnswer { handed_over: !why.is_connect(), why: why.to_string() })?;
            let status = response.status();
            let body = response.into_body().collect().await.map_err(|why| lost(&why))?;
            Ok((status, body.to_bytes()))
        };
        tokio::time::timeout(Duration::from_secs(6), answer).await.map_err(|why| lost(&why))?
    }
}

/// Why a server did not answer, and whether the bid may have come to it.
struct NoAnswer {
    why: String,
    handed_over: bool,
}

/// A bid at this server's own auctioneer.
pub(crate) async fn bid_here(app: &App, asked: Asked) -> Result<Event, Refusal> {
    let Owner::Here(bids) = app.keeper.owner(asked.auction) else { return Err(Refusal::not_owner()) };
    let (reply, answer) = oneshot::channel();
    bids.send(BidCommand { asked, reply }).await.map_err(|_ended| Refusal::not_owner())?;
    answer.await.map_err(|_ended| Refusal::not_owner())?
}

/// A bid, wherever its auction's owner is. While there is none it waits for one.
pub(crate) async fn bid(app: &Arc<App>, asked: Asked) -> Response {
    let until = Instant::now() + PATIENCE;
    // A bid was handed over and no answer came: it may be stored.
    let mut unsure = false;
    loop {
        let answer = match app.keeper.owner(asked.auction) {
            Owner::Here(_) => match bid_here(app, asked).await {
                Ok(event) => Some((StatusCode::CREATED, Bytes::from(serde_json::to_vec(&event).unwrap_or_default()))),
                Err(refusal) if refusal.is_not_owner() => None,
                Err(refusal) if unsure => return settle(app, asked, refusal.into_response()).await,
                Err(refusal) => return refusal.into_response(),
            },
            Owner::There(address) => match app.peers.bid(&address, &app.meta.cluster_secret, &asked).await {
                Ok((StatusCode::MISDIRECTED_REQUEST, _)) => None,
                Ok((status, body)) if unsure && status != StatusCode::CREATED => {
                    return settle(app, asked, answered(status, body)).await;
                }
                Ok(answer) => Some(answer),
                Err(NoAnswer { why, handed_over }) => {
                    super::log::line(&format!("server {address}: {why}"));
                    unsure |= handed_over;
                    None
                }
            },
            Owner::Nobody => None,
        };
        if let Some((status, body)) = answer {
            return answered(status, body);
        }
        if Instant::now() > until {
            if unsure {
                return settle(app, asked, Refusal::unanswered().into_response()).await;
            }
            return Refusal::unavailable("this auction's owner cannot be reached").into_response();
        }
        app.keeper.look.notify_one();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn answered(status: StatusCode, body: Bytes) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// What became of a bid that was handed over: if it was stored it counts, else what was said when it was handed over again.
async fn settle(app: &App, asked: Asked, second: Response) -> Response {
    match sales::find_bid(&*app.database, asked.auction, asked.item, asked.account, asked.amount).await {
        Ok(Some(event)) => (StatusCode::CREATED, axum::Json(event)).into_response(),
        Ok(None) => second,
        Err(why) => {
            super::log::line(&format!("database: {why}"));
            Refusal::unanswered().into_response()
        }
    }
}
