//! What a request is told when it is not served: a status, a code that programs read, a message that people read.

use super::failed_logins::FORGOTTEN;
use crate::database::Fault;
use crate::nouns::Id;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

/// A refusal; its codes are those of `openapi.yaml`.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub code: &'static str,
    message: String,
    more: Option<(&'static str, Value)>,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Refusal { status, code, message: message.into(), more: None }
    }

    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.more = Some((name, value.into()));
        self
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    pub(crate) fn unknown_token() -> Self {
        let message = "no token, or one that is unknown, expired or logged out; POST /api/login gives one";
        Refusal::new(StatusCode::UNAUTHORIZED, "unknown_token", message)
    }

    pub(crate) fn wrong_password() -> Self {
        Refusal::new(StatusCode::UNAUTHORIZED, "wrong_password", "no such user, or another password")
    }

    pub(crate) fn credit(available_cents: i64) -> Self {
        let message = format!("the bid exceeds what you may still spend, {available_cents} cents");
        Refusal::new(StatusCode::PAYMENT_REQUIRED, "insufficient_credit", message)
            .with("available_cents", available_cents)
    }

    pub(crate) fn not_attending() -> Self {
        Refusal::new(StatusCode::FORBIDDEN, "not_attending", "join the auction before you bid")
    }

    pub(crate) fn not_yours() -> Self {
        Refusal::new(StatusCode::FORBIDDEN, "not_yours", "no item that you offer and that is not in an auction yet")
    }

    pub(crate) fn admin_token() -> Self {
        Refusal::new(
            StatusCode::FORBIDDEN,
            "admin_token",
            "this needs the administrator's token, which the server must have been given",
        )
    }

    pub(crate) fn not_found() -> Self {
        Refusal::new(StatusCode::NOT_FOUND, "not_found", "no such page, auction, item or image")
    }

    pub(crate) fn method() -> Self {
        Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this page knows other methods")
    }

    pub(crate) fn too_slow() -> Self {
        Refusal::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the request's body did not arrive in time")
    }

    pub(crate) fn too_low(minimum_cents: i64) -> Self {
        let message = format!("the next bid must be at least {minimum_cents} cents");
        Refusal::new(StatusCode::CONFLICT, "too_low", message).with("minimum_cents", minimum_cents)
    }

    pub(crate) fn already_high_bidder() -> Self {
        Refusal::new(StatusCode::CONFLICT, "already_high_bidder", "the high bid is yours")
    }

    pub(crate) fn item_closed(current: Option<Id>) -> Self {
        let message = "the item is sold, returned or not up yet";
        Refusal::new(StatusCode::GONE, "item_closed", message).with("current_item", current)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("the body may have {limit} bytes at most"))
    }

    pub(crate) fn media_type(expected: &str) -> Self {
        let message = format!("the content type must be {expected}");
        Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", message)
    }

    pub(crate) fn invalid(field: &'static str, right: &str) -> Self {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", format!("{field}: {right}")).with("field", field)
    }

    pub(crate) fn busy(what: &str) -> Self {
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "busy", format!("too many {what} at once"))
    }

    /// Too many log-ins have failed from where this one comes from.
    pub(crate) fn failed_logins() -> Self {
        let message = "too many failed log-ins from this address, of this account or of all; try again later";
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "failed_logins", message)
    }

    pub(crate) fn foreign_origin() -> Self {
        let message = "the page that sent this is not of this site: its Origin differs from the Host of the request";
        Refusal::new(StatusCode::FORBIDDEN, "foreign_origin", message)
    }

    pub(crate) fn unavailable(why: &str) -> Self {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", format!("nothing was stored: {why}"))
    }

    pub(crate) fn outcome_unknown(bid: Id) -> Self {
        let message = "the database was lost before it confirmed the bid; your bid history will tell";
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, "outcome_unknown", message).with("bid_id", bid)
    }

    /// The bid was handed to the auction's owner, which did not answer.
    pub(crate) fn unanswered() -> Self {
        let message = "the owner of the auction was lost before it answered; your bid history will tell";
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, "outcome_unknown", message)
    }

    /// Between servers alone: the auction belongs to another one.
    pub(crate) fn not_owner() -> Self {
        Refusal::new(StatusCode::MISDIRECTED_REQUEST, "not_owner", "another server owns this auction")
    }

    pub(crate) fn is_not_owner(&self) -> bool {
        self.status == StatusCode::MISDIRECTED_REQUEST
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unavailable(why) | Fault::Unconfirmed(why) | Fault::Taken(why) | Fault::Unexpected(why) => {
                // What the database said may name tables and addresses: for the operator's log, not for strangers.
                super::log::line(&format!("database: {why}"));
                Refusal::unavailable("the database does not answer")
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut error = Map::new();
        error.insert("code".to_owned(), json!(self.code));
        error.insert("message".to_owned(), json!(self.message));
        if let Some((name, value)) = self.more {
            error.insert(name.to_owned(), value);
        }
        let mut response = (self.status, Json(json!({ "error": error }))).into_response();
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            let seconds = if self.code == "failed_logins" { FORGOTTEN.as_secs() } else { 1 };
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::REQUEST_TIMEOUT {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
