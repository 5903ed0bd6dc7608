//! Changes of a live auction, each one transaction that names its author's fence and takes the auction's next order.
//!
//! The first step of each locks the auction's row and refuses whoever does not own it any more; the rest cannot meet
//! another change of the same auction.

use super::browse;
use crate::database::{Database, Fault, Outcome, Script, Step, any, one};
use crate::nouns::{Auction, Event, EventType, Id, Item, bid_id, minimum};

/// Under what right a change is made, and the order that it takes.
#[derive(Clone, Debug)]
pub(crate) struct Right {
    pub auction: Id,
    pub server: String,
    pub fence: i64,
    /// The order of this change: one more than the last.
    pub order: i64,
}

/// Why a change was not stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Another server owns the auction now.
    NotOwner,
    NotAttending,
    Credit,
    /// The rows are not as the owner remembers.
    Stale,
}

/// A bid that the owner found good.
#[derive(Clone, Debug)]
pub(crate) struct Bidding {
    pub item: Id,
    pub account: Id,
    pub amount: i64,
    /// Who held the high bid, and with how much.
    pub previous: Option<(Id, i64)>,
    pub accepted_ns: i64,
    pub closes_ms: i64,
}

const LEAD: &str = "UPDATE auction SET last_order = ?, closes_ms = ?, current_item = ? WHERE id = ? AND owner = ? AND fence = ? AND last_order = ?";

fn lead(right: &Right, closes_ms: i64, current: Option<Id>) -> Step {
    one(
        LEAD,
        vec![
            right.order.into(),
            closes_ms.into(),
            current.into(),
            right.auction.into(),
            right.server.as_str().into(),
            right.fence.into(),
            (right.order - 1).into(),
        ],
    )
}

/// Stores a bid: history, high bid, and what is held of both bidders' credit.
pub(crate) async fn accept(
    database: &dyn Database,
    right: &Right,
    bid: &Bidding,
) -> Result<Result<Id, Refused>, Fault> {
    const ATTENDS: &str =
        "SELECT joined_ms FROM attendance WHERE account_id = ? AND auction_id = ? AND left_ms IS NULL";
    const HOLD: &str = "UPDATE account SET held_cents = held_cents + ? WHERE id = ? AND credit_cents - held_cents >= ?";
    const FREE: &str = "UPDATE account SET held_cents = held_cents - ? WHERE id = ?";
    const RAISE: &str = "UPDATE item SET high_bid = ?, high_cents = ?, high_bidder = ?, bids = bids + 1, state = 'open'
        WHERE id = ? AND state IN ('open', 'lastcall')";
    const STORE: &str = "INSERT INTO bid (id, auction_id, item_id, account_id, amount_cents, event_order, accepted_ns)
        VALUES (?, ?, ?, ?, ?, ?, ?)";
    let id = bid_id(right.auction, right.order);
    let hold = one(HOLD, vec![bid.amount.into(), bid.account.into(), bid.amount.into()]);
    let mut accounts = vec![(bid.account, Refused::Credit, hold)];
    if let Some((account, amount)) = bid.previous {
        accounts.push((account, Refused::Stale, one(FREE, vec![amount.into(), account.into()])));
    }
    // Two accounts are always locked in the same order, so that bids of two auctions cannot wait for each other.
    accounts.sort_by_key(|(account, _, _)| *account);
    let mut steps = vec![
        (Refused::NotOwner, lead(right, bid.closes_ms, Some(bid.item))),
        (Refused::NotAttending, one(ATTENDS, vec![bid.account.into(), right.auction.into()])),
    ];
    steps.extend(accounts.into_iter().map(|(_, refused, step)| (refused, step)));
    steps.push((Refused::Stale, one(RAISE, vec![id.into(), bid.amount.into(), bid.account.into(), bid.item.into()])));
    let row = [id, right.auction, bid.item, bid.account, bid.amount, right.order, bid.accepted_ns];
    steps.push((Refused::Stale, one(STORE, row.into_iter().map(Into::into).collect())));
    let (mut reasons, script): (Vec<Refused>, Script) = steps.into_iter().unzip();
    Ok(match database.run(script).await? {
        Outcome::Stored(_) => Ok(id),
        Outcome::Refused(index) => Err(reasons.swap_remove(index)),
    })
}

async fn change(database: &dyn Database, script: Script) -> Result<Result<(), Refused>, Fault> {
    Ok(match database.run(script).await? {
        Outcome::Stored(_) => Ok(()),
        Outcome::Refused(0) => Err(Refused::NotOwner),
        Outcome::Refused(_) => Err(Refused::Stale),
    })
}

/// Stores that the item is now in `state` (open or lastcall) until `closes_ms`.
pub(crate) async fn announce(
    database: &dyn Database,
    right: &Right,
    item: Id,
    state: &'static str,
    closes_ms: i64,
) -> Result<Result<(), Refused>, Fault> {
    const SQL: &str = "UPDATE item SET state = ? WHERE id = ? AND state IN ('waiting', 'open', 'lastcall')";
    let set = one(SQL, vec![state.into(), item.into()]);
    change(database, vec![lead(right, closes_ms, Some(item)), set]).await
}

/// Sells the item to its high bidder.
pub(crate) async fn sell(
    database: &dyn Database,
    right: &Right,
    item: Id,
    (bid, account, amount): (Id, Id, i64),
    now_ms: i64,
) -> Result<Result<(), Refused>, Fault> {
    const SOLD: &str = "UPDATE item SET state = 'sold' WHERE id = ? AND state = 'lastcall' AND high_bid = ?";
    const BUY: &str =
        "INSERT INTO purchase (item_id, account_id, bid_id, loaded, amount_cents, bought_ms) VALUES (?, ?, ?, 0, ?, ?)";
    const PAY: &str = "UPDATE account SET credit_cents = credit_cents - ?, held_cents = held_cents - ? WHERE id = ?";
    let script = vec![
        lead(right, now_ms, None),
        one(SOLD, vec![item.into(), bid.into()]),
        one(BUY, vec![item.into(), account.into(), bid.into(), amount.into(), now_ms.into()]),
        one(PAY, vec![amount.into(), amount.into(), account.into()]),
    ];
    change(database, script).await
}

/// Gives an item without a bid back to its seller.
pub(crate) async fn take_back(
    database: &dyn Database,
    right: &Right,
    item: Id,
    now_ms: i64,
) -> Result<Result<(), Refused>, Fault> {
    const SQL: &str = "UPDATE item SET state = 'returned' WHERE id = ? AND state = 'lastcall' AND high_bid IS NULL";
    change(database, vec![lead(right, now_ms, None), one(SQL, vec![item.into()])]).await
}

/// The item of this round that comes up next.
pub(crate) async fn waiting(database: &dyn Database, auction: Id) -> Result<Option<Id>, Fault> {
    const SQL: &str =
        "SELECT id FROM item WHERE auction_id = ? AND round = (SELECT a.round FROM auction a WHERE a.id = ?)
        AND state = 'waiting' ORDER BY position, id LIMIT 1";
    let rows = database.query(SQL, vec![auction.into(), auction.into()]).await?;
    rows.into_iter().next().map(|mut row| row.int()).transpose()
}

/// Starts the auction over: as many new items of the same kind as there were, so that no item is ever sold twice.
pub(crate) async fn start_over(
    database: &dyn Database,
    right: &Right,
    round: i64,
) -> Result<Result<(), Refused>, Fault> {
    const OWN: &str = "UPDATE auction SET round = round + 1 WHERE id = ? AND owner = ? AND fence = ? AND round = ?";
    const COPY: &str =
        "INSERT INTO item (auction_id, seller_id, position, round, loaded, image_item, images, name, description,
         manufacturer, item_condition, state, starting_cents, high_bid, high_cents, high_bidder, bids)
        SELECT auction_id, seller_id, position, round + 1, 0, image_item, images, name, description, manufacturer,
         item_condition, 'waiting', starting_cents, NULL, NULL, NULL, 0 FROM item WHERE auction_id = ? AND round = ?";
    let own = vec![right.auction.into(), right.server.as_str().into(), right.fence.into(), round.into()];
    let copy = any(COPY, vec![right.auction.into(), round.into()]);
    change(database, vec![one(OWN, own), copy]).await
}

/// The auction and the item that is up.
pub(crate) async fn lot(database: &dyn Database, auction: Id) -> Result<Option<(Auction, Option<Item>, i64)>, Fault> {
    let Some(found) = browse::auction(database, auction).await? else { return Ok(None) };
    let item = match found.current_item {
        Some(id) => browse::item(database, id).await?,
        None => None,
    };
    let rows = database.query("SELECT closes_ms, last_order FROM auction WHERE id = ?", vec![auction.into()]).await?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(None) };
    let closes_ms = row.int()?;
    // Read between two changes: look again, so that auction and item belong together.
    if row.int()? != found.order {
        return Box::pin(lot(database, auction)).await;
    }
    Ok(Some((found, item, closes_ms)))
}

/// The bids of an auction after `order`, oldest first, as the events that they were.
pub(crate) async fn bids_after(
    database: &dyn Database,
    auction: Id,
    order: i64,
    limit: i64,
) -> Result<Vec<Event>, Fault> {
    const SQL: &str = "SELECT event_order, item_id, id, account_id, amount_cents, accepted_ns FROM bid
        WHERE id > ? AND id < ? ORDER BY id LIMIT ?";
    let values = vec![bid_id(auction, order).into(), bid_id(auction + 1, 0).into(), limit.into()];
    let mut events = Vec::new();
    for mut row in database.query(SQL, values).await? {
        let (order, item_id, bid, account) = (row.int()?, row.int()?, row.int()?, row.int()?);
        let (amount, accepted_ns) = (row.int()?, row.int()?);
        events.push(Event {
            kind: EventType::Bid,
            auction_id: auction,
            order,
            item_id,
            bid_id: Some(bid),
            account_id: Some(account),
            amount_cents: Some(amount),
            minimum_cents: Some(minimum(amount, Some(amount))),
            accepted_ns: Some(accepted_ns),
            closes_ms: 0,
        });
    }
    Ok(events)
}

/// The bid of that account and amount on an item, if it was stored: what became of one whose answer was lost.
pub(crate) async fn find_bid(
    database: &dyn Database,
    auction: Id,
    item: Id,
    account: Id,
    amount: i64,
) -> Result<Option<Event>, Fault> {
    const SQL: &str =
        "SELECT event_order, accepted_ns FROM bid WHERE item_id = ? AND account_id = ? AND amount_cents = ?";
    let rows = database.query(SQL, vec![item.into(), account.into(), amount.into()]).await?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(None) };
    let (order, accepted_ns) = (row.int()?, row.int()?);
    Ok(Some(Event {
        kind: EventType::Bid,
        auction_id: auction,
        order,
        item_id: item,
        bid_id: Some(bid_id(auction, order)),
        account_id: Some(account),
        amount_cents: Some(amount),
        minimum_cents: Some(minimum(amount, Some(amount))),
        accepted_ns: Some(accepted_ns),
        closes_ms: 0,
    }))
}
