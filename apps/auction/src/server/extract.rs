//! What handlers take from a request, with this application's own refusals.

use super::App;
use super::refusal::Refusal;
use super::session::{self, Caller};
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// A JSON body has this many bytes at most.
const JSON_BYTES: usize = 64 << 10;
/// So much beyond a limit is still read and dropped: a peer that is cut off while it sends would not see the refusal.
const UNREAD_BYTES: usize = 8 << 20;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
/// The largest id that there can be: every JSON reader keeps it whole.
const LARGEST: i64 = (1 << 53) - 1;

/// A JSON body.
pub(crate) struct Json<T>(pub T);

/// Parameters of the query.
pub(crate) struct Asked<T>(pub T);

/// One id in the path.
pub(crate) struct PathId(pub i64);

/// The other end of a request's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub IpAddr);

/// The address that a request comes from: its connection's, or what a balancer of ours says of it.
pub(crate) struct Client(pub IpAddr);

/// The client's address: the last one of `X-Forwarded-For` that is not a balancer of ours, where a balancer of ours has sent the request.
/// What is before it in that header was written by strangers.
fn client(peer: IpAddr, headers: &HeaderMap, proxies: &[IpAddr]) -> IpAddr {
    let ours = |address: &IpAddr| proxies.contains(&address.to_canonical());
    if !ours(&peer) {
        return peer;
    }
    let lines: Vec<&str> =
        headers.get_all("x-forwarded-for").iter().map(|line| line.to_str().unwrap_or_default()).collect();
    let mut named = lines.iter().rev().flat_map(|line| line.rsplit(',')).map(|address| address.trim().parse());
    named.find_map(|address| address.map_or(Some(peer), |address| (!ours(&address)).then_some(address))).unwrap_or(peer)
}

/// Whether the content type is `wanted`, parameters apart.
pub(crate) fn is_type(headers: &HeaderMap, wanted: &str) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(wanted))
}

/// A body of at most `limit` bytes, arrived in time.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let collect = async {
        let mut body = body;
        let mut whole = BytesMut::new();
        let mut seen = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|why| Refusal::malformed(format!("the body broke off: {why}")))?;
            if let Ok(data) = frame.into_data() {
                seen += data.len();
                if seen <= limit {
                    whole.extend_from_slice(&data);
                } else if seen > limit + UNREAD_BYTES {
                    break;
                }
            }
        }
        if seen > limit { Err(Refusal::too_large(limit)) } else { Ok(whole.freeze()) }
    };
    tokio::time::timeout(BODY_TIME, collect).await.unwrap_or_else(|_late| Err(Refusal::too_slow()))
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, Refusal> {
        if !is_type(request.headers(), "application/json") {
            return Err(Refusal::media_type("application/json"));
        }
        let body = read(request.into_body(), JSON_BYTES).await?;
        serde_json::from_slice(&body).map(Json).map_err(|why| Refusal::malformed(why.to_string()))
    }
}

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<App>) -> Result<Self, Refusal> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(asked)| Asked(asked)).map_err(|why| Refusal::malformed(why.body_text()))
    }
}

impl FromRequestParts<Arc<App>> for PathId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<App>) -> Result<Self, Refusal> {
        let Ok(Path(text)) = Path::<String>::from_request_parts(parts, state).await else {
            return Err(Refusal::not_found());
        };
        path_id(&text).map(PathId)
    }
}

/// An id of a path; whatever else stands there is no page.
pub(crate) fn path_id(text: &str) -> Result<i64, Refusal> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = if plain { text.parse().ok() } else { None };
    id.filter(|id| (1..=LARGEST).contains(id)).ok_or_else(Refusal::not_found)
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        session::caller(app, &parts.headers).await
    }
}

impl FromRequestParts<Arc<App>> for Client {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let peer = parts.extensions.get().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(peer)| *peer);
        Ok(Client(client(peer, &parts.headers, &app.proxies)))
    }
}

#[cfg(test)]
mod tests {
    use super::client;
    use axum::http::HeaderMap;

    #[test]
    fn only_a_balancer_of_ours_names_the_client() {
        let address = |text: &str| text.parse().unwrap();
        let proxies = [address("10.0.0.1"), address("10.0.0.2")];
        let from = |peer: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            client(address(peer), &headers, &proxies)
        };
        assert_eq!(from("192.0.2.7", &["198.51.100.1"]), address("192.0.2.7"), "a stranger's claim");
        assert_eq!(
            from("10.0.0.1", &["198.51.100.1, 192.0.2.7"]),
            address("192.0.2.7"),
            "what is first, a stranger wrote"
        );
        assert_eq!(from("::ffff:10.0.0.1", &["198.51.100.1", "192.0.2.7 , 10.0.0.2"]), address("192.0.2.7"));
        assert_eq!(from("10.0.0.1", &["198.51.100.1, unknown"]), address("10.0.0.1"));
        assert_eq!(from("10.0.0.1", &[]), address("10.0.0.1"));
    }
}
