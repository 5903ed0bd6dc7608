//! The handlers of accounts, auctions and items; what they answer is written in `openapi.yaml`.

use super::App;
use super::extract::{Asked, Client, Json, PathId, is_type, path_id, read};
use super::refusal::Refusal;
use super::session::{self, COOKIE, Caller};
use super::{auctioneer, peers};
use crate::duration::now_ms;
use crate::generate::picture::Size;
use crate::nouns::{Auction, Current, Item, NewItem, Profile, ProfileChange};
use crate::store::accounts::Page;
use crate::store::pictures::{self, NoNumber};
use crate::store::{accounts, browse};
use axum::extract::{FromRequest, Multipart, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

type Answer<T> = Result<T, Refusal>;
type Site = State<Arc<App>>;

/// An uploaded image has this many bytes at most; its form may have a little more.
const IMAGE_BYTES: usize = 2 << 20;
pub(crate) const FORM_BYTES: usize = IMAGE_BYTES + (16 << 10);
/// How long an upload may wait for its turn to be read.
const TURN_TIME: Duration = Duration::from_secs(10);
const LARGEST_BID: i64 = 100_000_000_000;

#[derive(Deserialize)]
pub(crate) struct PageAsked {
    page: Option<i64>,
    size: Option<i64>,
}

impl PageAsked {
    fn page(&self) -> Answer<Page> {
        let page = Page { page: self.page.unwrap_or(0), size: self.size.unwrap_or(5) };
        if !(0..=1_000_000).contains(&page.page) {
            return Err(Refusal::malformed("page: 0 to 1000000"));
        }
        if !(1..=50).contains(&page.size) {
            return Err(Refusal::malformed("size: 1 to 50"));
        }
        Ok(page)
    }
}

/// Text of 1 to `most` characters, none of them a control character.
fn text(field: &'static str, value: &str, most: usize) -> Answer<()> {
    let length = value.chars().count();
    if (1..=most).contains(&length) && !value.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Refusal::invalid(field, &format!("1 to {most} characters, no control characters")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginAsked {
    username: String,
    password: String,
}

pub(crate) async fn login(
    State(app): Site,
    Client(address): Client,
    Json(asked): Json<LoginAsked>,
) -> Answer<Response> {
    text("username", &asked.username, 80)?;
    if asked.password.is_empty() || asked.password.chars().count() > 128 {
        return Err(Refusal::invalid("password", "1 to 128 characters"));
    }
    let (token, account, expires_ms) = session::open(&app, address, &asked.username, asked.password).await?;
    let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
    let body = json!({ "token": token, "account_id": account, "username": asked.username, "expires_ms": expires_ms });
    let mut response = axum::Json(body).into_response();
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    Ok(response)
}

pub(crate) async fn logout(State(app): Site, caller: Caller) -> Answer<Response> {
    session::close(&app, caller).await?;
    let gone = HeaderValue::from_static("auction_token=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, gone)]).into_response())
}

pub(crate) async fn profile(State(app): Site, caller: Caller) -> Answer<axum::Json<Profile>> {
    let found = accounts::profile(&*app.database, caller.account).await?;
    found.map(axum::Json).ok_or_else(Refusal::unknown_token)
}

pub(crate) async fn change_profile(
    state: Site,
    caller: Caller,
    Json(change): Json<ProfileChange>,
) -> Answer<axum::Json<Profile>> {
    text("first_name", &change.first_name, 80)?;
    text("last_name", &change.last_name, 80)?;
    text("email", &change.email, 120)?;
    let around = change.email.split_once('@');
    if around.is_none_or(|(name, place)| name.is_empty() || place.is_empty() || place.contains('@')) {
        return Err(Refusal::invalid("email", "something, an @, something"));
    }
    accounts::change_profile(&*state.database, caller.account, change).await?;
    profile(state, caller).await
}

pub(crate) async fn bids(
    State(app): Site,
    caller: Caller,
    Asked(asked): Asked<PageAsked>,
) -> Answer<axum::Json<Value>> {
    let page = asked.page()?;
    let bids = accounts::bids(&*app.database, caller.account, page).await?;
    Ok(axum::Json(json!({ "page": page.page, "size": page.size, "bids": bids })))
}

pub(crate) async fn attendances(
    State(app): Site,
    caller: Caller,
    Asked(asked): Asked<PageAsked>,
) -> Answer<axum::Json<Value>> {
    let page = asked.page()?;
    let attendances = accounts::attendances(&*app.database, caller.account, page).await?;
    Ok(axum::Json(json!({ "page": page.page, "size": page.size, "attendances": attendances })))
}

pub(crate) async fn purchases(
    State(app): Site,
    caller: Caller,
    Asked(asked): Asked<PageAsked>,
) -> Answer<axum::Json<Value>> {
    let page = asked.page()?;
    let purchases = accounts::purchases(&*app.database, caller.account, page).await?;
    Ok(axum::Json(json!({ "page": page.page, "size": page.size, "purchases": purchases })))
}

pub(crate) async fn auctions(
    State(app): Site,
    _caller: Caller,
    Asked(asked): Asked<PageAsked>,
) -> Answer<axum::Json<Value>> {
    let page = asked.page()?;
    let all = app.live_auctions().await?;
    let skip = usize::try_from(page.page.saturating_mul(page.size)).unwrap_or(usize::MAX);
    let some: Vec<&Auction> = all.iter().skip(skip).take(usize::try_from(page.size).unwrap_or(0)).collect();
    Ok(axum::Json(json!({ "page": page.page, "size": page.size, "total": all.len(), "auctions": some })))
}

pub(crate) async fn auction(State(app): Site, _caller: Caller, PathId(id): PathId) -> Answer<axum::Json<Auction>> {
    browse::auction(&*app.database, id).await?.map(axum::Json).ok_or_else(Refusal::not_found)
}

pub(crate) async fn auction_items(
    State(app): Site,
    _caller: Caller,
    PathId(id): PathId,
    Asked(asked): Asked<PageAsked>,
) -> Answer<axum::Json<Value>> {
    let page = asked.page()?;
    let items = browse::items(&*app.database, id, page).await?;
    if items.is_empty() && browse::auction(&*app.database, id).await?.is_none() {
        return Err(Refusal::not_found());
    }
    Ok(axum::Json(json!({ "page": page.page, "size": page.size, "items": items })))
}

pub(crate) async fn current(State(app): Site, _caller: Caller, PathId(id): PathId) -> Answer<axum::Json<Current>> {
    let channel = app.hub.channel(&*app.database, id).await?.ok_or_else(Refusal::not_found)?;
    Ok(axum::Json(channel.current(&*app.database).await?))
}

pub(crate) async fn join(state: Site, caller: Caller, PathId(id): PathId) -> Answer<axum::Json<Current>> {
    if !accounts::join(&*state.database, caller.account, id, now_ms()).await? {
        return Err(Refusal::not_found());
    }
    current(state, caller, PathId(id)).await
}

pub(crate) async fn leave(State(app): Site, caller: Caller, PathId(id): PathId) -> Answer<StatusCode> {
    accounts::leave(&*app.database, caller.account, id, now_ms()).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BidAsked {
    item_id: i64,
    amount_cents: i64,
}

pub(crate) async fn place_bid(
    State(app): Site,
    caller: Caller,
    PathId(auction): PathId,
    Json(bid): Json<BidAsked>,
) -> Answer<Response> {
    if bid.item_id < 1 {
        return Err(Refusal::invalid("item_id", "an item"));
    }
    if !(1..=LARGEST_BID).contains(&bid.amount_cents) {
        return Err(Refusal::invalid("amount_cents", &format!("1 to {LARGEST_BID}")));
    }
    if !app.is_live(auction).await? {
        return Err(Refusal::not_found());
    }
    let asked = auctioneer::Asked { auction, item: bid.item_id, account: caller.account, amount: bid.amount_cents };
    Ok(peers::bid(&app, asked).await)
}

/// From another server of this database.
pub(crate) async fn forwarded_bid(
    State(app): Site,
    headers: HeaderMap,
    Json(asked): Json<auctioneer::Asked>,
) -> Answer<Response> {
    let given = headers.get(peers::SECRET).map(HeaderValue::as_bytes).unwrap_or_default();
    // Digests are compared, so that time tells nothing of the secret.
    let digest = |bytes: &[u8]| session::hash_of(&String::from_utf8_lossy(bytes));
    if digest(given) != digest(app.meta.cluster_secret.as_bytes()) {
        return Err(Refusal::not_found());
    }
    let event = peers::bid_here(&app, asked).await?;
    Ok((StatusCode::CREATED, axum::Json(event)).into_response())
}

pub(crate) async fn item(State(app): Site, _caller: Caller, PathId(id): PathId) -> Answer<axum::Json<Item>> {
    browse::item(&*app.database, id).await?.map(axum::Json).ok_or_else(Refusal::not_found)
}

pub(crate) async fn add_item(State(app): Site, caller: Caller, Json(item): Json<NewItem>) -> Answer<Response> {
    text("name", &item.name, 120)?;
    text("description", &item.description, 1000)?;
    text("manufacturer", &item.manufacturer, 80)?;
    if !["new", "used", "restored"].contains(&item.condition.as_str()) {
        return Err(Refusal::invalid("condition", "new, used or restored"));
    }
    if !(1..=100_000_000).contains(&item.starting_cents) {
        return Err(Refusal::invalid("starting_cents", "1 to 100000000"));
    }
    let id = browse::add_item(&*app.database, caller.account, &item).await?;
    let stored = browse::item(&*app.database, id).await?.ok_or_else(Refusal::not_found)?;
    Ok((StatusCode::CREATED, axum::Json(stored)).into_response())
}

pub(crate) async fn image(
    State(app): Site,
    Path((item, number, size)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let item = path_id(&item)?;
    let number = number.parse::<i64>().ok().filter(|number| (0..pictures::MOST).contains(number));
    let (Some(number), Some(size)) = (number, Size::named(&size)) else { return Err(Refusal::not_found()) };
    // An image never changes: whoever has it has the right one.
    let tag = format!("\"{item}-{number}-{}\"", size.name());
    let cache =
        [(header::CACHE_CONTROL, "public, max-age=31536000, immutable".to_owned()), (header::ETAG, tag.clone())];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == tag.as_bytes()) {
        return Ok((StatusCode::NOT_MODIFIED, cache).into_response());
    }
    let jpeg = app.images.get(item, number, size).await?.ok_or_else(Refusal::not_found)?;
    Ok((cache, [(header::CONTENT_TYPE, "image/jpeg")], jpeg).into_response())
}

pub(crate) async fn add_image(
    State(app): Site,
    caller: Caller,
    PathId(item): PathId,
    request: Request,
) -> Answer<Response> {
    if !is_type(request.headers(), "multipart/form-data") {
        return Err(Refusal::media_type("multipart/form-data"));
    }
    let (head, body) = request.into_parts();
    if let Err(why) = pictures::next(&*app.database, item, caller.account).await {
        // Whoever is cut off while it sends would not see the refusal.
        let _ = read(body, 0).await;
        return Err(no_number(why));
    }
    let turn = tokio::time::timeout(TURN_TIME, app.images.turns.acquire()).await;
    let _turn = turn.map_err(|_late| Refusal::busy("uploads"))?;
    let form = read(body, FORM_BYTES).await?;
    let jpeg = uploaded(Request::from_parts(head, form.into())).await?;
    let sizes = app.images.resize(jpeg).await?.map_err(|why| Refusal::invalid("image", &why))?;
    let number = pictures::reserve(&*app.database, item, caller.account).await.map_err(no_number)?;
    app.images.put(caller.account, (item, number), sizes).await?;
    Ok((StatusCode::CREATED, axum::Json(json!({ "item_id": item, "number": number }))).into_response())
}

fn no_number(why: NoNumber) -> Refusal {
    match why {
        NoNumber::NotYours => Refusal::not_yours(),
        NoNumber::Full => Refusal::invalid("image", &format!("an item has {} images at most", pictures::MOST)),
        NoNumber::Fault(why) => why.into(),
    }
}

/// The bytes of the part named `image`.
async fn uploaded(request: Request) -> Answer<Vec<u8>> {
    let broken = |why: &axum::extract::multipart::MultipartError| Refusal::malformed(why.body_text());
    let mut form = Multipart::from_request(request, &()).await.map_err(|why| Refusal::malformed(why.body_text()))?;
    while let Some(field) = form.next_field().await.map_err(|why| broken(&why))? {
        if field.name() != Some("image") {
            continue;
        }
        if field.content_type() != Some("image/jpeg") {
            return Err(Refusal::media_type("image/jpeg in the part `image`"));
        }
        let jpeg = field.bytes().await.map_err(|why| broken(&why))?;
        return if jpeg.len() > IMAGE_BYTES { Err(Refusal::too_large(IMAGE_BYTES)) } else { Ok(jpeg.to_vec()) };
    }
    Err(Refusal::malformed("the form has no part named `image`"))
}
