//! The nouns of `openapi.yaml`, as they travel and as they are stored.

use serde::{Deserialize, Serialize};

/// An account, auction, item or bid. Below 2^53, so that every JSON reader keeps it whole.
pub(crate) type Id = i64;

/// The orders of one auction take this many bits of a bid's id.
const ORDER_BITS: u32 = 30;

/// The id of the bid that got `order` in `auction`: no other bid can have it, whoever owns the auction.
pub(crate) fn bid_id(auction: Id, order: i64) -> Id {
    (auction << ORDER_BITS) | order
}

/// The least bid after `high` (none: at `starting`): a raise of 0.5 %, at least one cent.
pub(crate) fn minimum(starting: i64, high: Option<i64>) -> i64 {
    high.map_or(starting, |high| high + (high / 200).max(1))
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Auction {
    pub auction_id: Id,
    pub name: String,
    pub category: String,
    pub status: String,
    pub starts_ms: i64,
    pub round: i64,
    pub items: i64,
    pub current_item: Option<Id>,
    pub order: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Item {
    pub item_id: Id,
    pub auction_id: Option<Id>,
    pub seller_id: Id,
    pub position: i64,
    pub name: String,
    pub description: String,
    pub manufacturer: String,
    pub condition: String,
    pub state: String,
    pub starting_cents: i64,
    pub high_cents: Option<i64>,
    pub high_bidder: Option<Id>,
    pub bids: i64,
    pub images: i64,
    pub image_item: Id,
    /// Its bid's id; shown as part of [`Current`] alone.
    #[serde(skip)]
    pub high_bid: Option<Id>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewItem {
    pub name: String,
    pub description: String,
    pub manufacturer: String,
    pub condition: String,
    pub starting_cents: i64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Profile {
    pub account_id: Id,
    pub username: String,
    pub first_name: String,
    pub last_name: String,
    pub email: String,
    pub credit_cents: i64,
    pub held_cents: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileChange {
    pub first_name: String,
    pub last_name: String,
    pub email: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct BidRow {
    pub bid_id: Id,
    pub auction_id: Id,
    pub item_id: Id,
    pub item_name: String,
    pub amount_cents: i64,
    pub order: i64,
    pub placed_ms: i64,
}

#[derive(Debug, Serialize)]
pub(crate) struct AttendanceRow {
    pub auction_id: Id,
    pub auction_name: String,
    pub joined_ms: i64,
    pub left_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PurchaseRow {
    pub item_id: Id,
    pub item_name: String,
    pub image_item: Id,
    pub amount_cents: i64,
    pub bought_ms: i64,
}

/// What is up in a live auction, after the event `order`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Current {
    pub auction_id: Id,
    pub order: i64,
    pub state: &'static str,
    pub item: Option<Item>,
    pub high_cents: Option<i64>,
    pub high_bidder: Option<Id>,
    pub high_bid: Option<Id>,
    pub minimum_cents: Option<i64>,
    pub closes_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventType {
    Bid,
    LastCall,
    Sold,
    Returned,
    Opened,
}

impl EventType {
    /// The name as it travels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            EventType::Bid => "bid",
            EventType::LastCall => "lastcall",
            EventType::Sold => "sold",
            EventType::Returned => "returned",
            EventType::Opened => "opened",
        }
    }
}

/// One thing that happened in a live auction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    #[serde(rename = "type")]
    pub kind: EventType,
    pub auction_id: Id,
    pub order: i64,
    pub item_id: Id,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bid_id: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account_id: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub amount_cents: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub minimum_cents: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accepted_ns: Option<i64>,
    pub closes_ms: i64,
}
