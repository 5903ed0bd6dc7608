//! Auctions and items, to look at.

use super::accounts::Page;
use crate::database::{Database, Fault, Row};
use crate::nouns::{Auction, Id, Item, NewItem};

macro_rules! auction_columns {
    () => {
        "SELECT id, name, category, status, starts_ms, round, items, current_item, last_order FROM auction "
    };
}

macro_rules! item_columns {
    () => {
        "SELECT id, auction_id, seller_id, position, name, description, manufacturer, item_condition, state, starting_cents,
         high_cents, high_bidder, bids, images, image_item, high_bid FROM item "
    };
}

fn auction_row(mut row: Row) -> Result<Auction, Fault> {
    Ok(Auction {
        auction_id: row.int()?,
        name: row.text()?,
        category: row.text()?,
        status: row.text()?,
        starts_ms: row.int()?,
        round: row.int()?,
        items: row.int()?,
        current_item: row.maybe_int()?,
        order: row.int()?,
    })
}

fn item_row(mut row: Row) -> Result<Item, Fault> {
    Ok(Item {
        item_id: row.int()?,
        auction_id: row.maybe_int()?,
        seller_id: row.int()?,
        position: row.int()?,
        name: row.text()?,
        description: row.text()?,
        manufacturer: row.text()?,
        condition: row.text()?,
        state: row.text()?,
        starting_cents: row.int()?,
        high_cents: row.maybe_int()?,
        high_bidder: row.maybe_int()?,
        bids: row.int()?,
        images: row.int()?,
        image_item: row.int()?,
        high_bid: row.maybe_int()?,
    })
}

/// All live auctions, by id.
pub(crate) async fn live_auctions(database: &dyn Database) -> Result<Vec<Auction>, Fault> {
    const SQL: &str = concat!(auction_columns!(), "WHERE status = 'live' ORDER BY id");
    database.query(SQL, Vec::new()).await?.into_iter().map(auction_row).collect()
}

pub(crate) async fn auction(database: &dyn Database, id: Id) -> Result<Option<Auction>, Fault> {
    const SQL: &str = concat!(auction_columns!(), "WHERE id = ?");
    database.query(SQL, vec![id.into()]).await?.into_iter().next().map(auction_row).transpose()
}

/// The items of an auction's present round.
pub(crate) async fn items(database: &dyn Database, auction: Id, page: Page) -> Result<Vec<Item>, Fault> {
    const SQL: &str = concat!(
        item_columns!(),
        "WHERE auction_id = ? AND round = (SELECT a.round FROM auction a WHERE a.id = ?) ORDER BY position, id LIMIT ? OFFSET ?"
    );
    let offset = page.page.saturating_mul(page.size);
    let values = vec![auction.into(), auction.into(), page.size.into(), offset.into()];
    database.query(SQL, values).await?.into_iter().map(item_row).collect()
}

pub(crate) async fn item(database: &dyn Database, id: Id) -> Result<Option<Item>, Fault> {
    const SQL: &str = concat!(item_columns!(), "WHERE id = ?");
    database.query(SQL, vec![id.into()]).await?.into_iter().next().map(item_row).transpose()
}

/// Stores an item that `seller` offers, and returns its id.
pub(crate) async fn add_item(database: &dyn Database, seller: Id, item: &NewItem) -> Result<Id, Fault> {
    const SQL: &str =
        "INSERT INTO item (auction_id, seller_id, position, round, loaded, image_item, images, name, description,
         manufacturer, item_condition, state, starting_cents, high_bid, high_cents, high_bidder, bids)
        VALUES (NULL, ?, 0, 0, 0, 0, 0, ?, ?, ?, ?, 'offered', ?, NULL, NULL, NULL, 0) RETURNING id";
    let values = vec![
        seller.into(),
        item.name.as_str().into(),
        item.description.as_str().into(),
        item.manufacturer.as_str().into(),
        item.condition.as_str().into(),
        item.starting_cents.into(),
    ];
    database.insert(SQL, values).await
}
