//! Accounts, sessions and their histories.

use crate::database::{Database, Fault, Outcome, Row, any, one};
use crate::nouns::{AttendanceRow, BidRow, Id, Profile, ProfileChange, PurchaseRow};

/// Which rows of a list: `size` from `page * size` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub page: i64,
    pub size: i64,
}

impl Page {
    fn offset(self) -> i64 {
        self.page.saturating_mul(self.size)
    }
}

/// The account of that name and its password's hash.
pub(crate) async fn by_name(database: &dyn Database, username: &str) -> Result<Option<(Id, String)>, Fault> {
    let rows =
        database.query("SELECT id, password_hash FROM account WHERE username = ?", vec![username.into()]).await?;
    rows.into_iter().next().map(|mut row| Ok((row.int()?, row.text()?))).transpose()
}

pub(crate) async fn profile(database: &dyn Database, account: Id) -> Result<Option<Profile>, Fault> {
    const SQL: &str =
        "SELECT id, username, first_name, last_name, email, credit_cents, held_cents FROM account WHERE id = ?";
    let row = |mut row: Row| {
        Ok(Profile {
            account_id: row.int()?,
            username: row.text()?,
            first_name: row.text()?,
            last_name: row.text()?,
            email: row.text()?,
            credit_cents: row.int()?,
            held_cents: row.int()?,
        })
    };
    database.query(SQL, vec![account.into()]).await?.into_iter().next().map(row).transpose()
}

pub(crate) async fn change_profile(database: &dyn Database, account: Id, change: ProfileChange) -> Result<(), Fault> {
    const SQL: &str =
        "UPDATE account SET first_name = ?, last_name = ?, email = ?, revision = revision + 1 WHERE id = ?";
    let values = vec![change.first_name.into(), change.last_name.into(), change.email.into(), account.into()];
    database.run(vec![one(SQL, values)]).await.map(drop)
}

pub(crate) async fn open_session(
    database: &dyn Database,
    hash: &[u8; 32],
    account: Id,
    expires_ms: i64,
) -> Result<(), Fault> {
    const SQL: &str = "INSERT INTO session (hash, account_id, expires_ms) VALUES (?, ?, ?)";
    database.run(vec![one(SQL, vec![hash[..].into(), account.into(), expires_ms.into()])]).await.map(drop)
}

/// The account of a session and when it ends.
pub(crate) async fn session(database: &dyn Database, hash: &[u8; 32]) -> Result<Option<(Id, i64)>, Fault> {
    const SQL: &str = "SELECT account_id, expires_ms FROM session WHERE hash = ?";
    let rows = database.query(SQL, vec![hash[..].into()]).await?;
    rows.into_iter().next().map(|mut row| Ok((row.int()?, row.int()?))).transpose()
}

pub(crate) async fn close_session(database: &dyn Database, hash: &[u8; 32]) -> Result<(), Fault> {
    database.run(vec![any("DELETE FROM session WHERE hash = ?", vec![hash[..].into()])]).await.map(drop)
}

/// Removes the sessions that have ended.
pub(crate) async fn sweep_sessions(database: &dyn Database, now_ms: i64) -> Result<(), Fault> {
    database.run(vec![any("DELETE FROM session WHERE expires_ms < ?", vec![now_ms.into()])]).await.map(drop)
}

/// Whether the account attends afterwards: false when the auction is not live.
pub(crate) async fn join(database: &dyn Database, account: Id, auction: Id, now_ms: i64) -> Result<bool, Fault> {
    const LIVE: &str = "SELECT id FROM auction WHERE id = ? AND status = 'live'";
    const AGAIN: &str = "UPDATE attendance SET left_ms = NULL WHERE account_id = ? AND auction_id = ?";
    const FIRST: &str =
        "INSERT INTO attendance (account_id, auction_id, loaded, joined_ms, left_ms) VALUES (?, ?, 0, ?, NULL)";
    let again = vec![one(LIVE, vec![auction.into()]), one(AGAIN, vec![account.into(), auction.into()])];
    match database.run(again).await? {
        Outcome::Refused(0) => return Ok(false),
        Outcome::Stored(_) => return Ok(true),
        Outcome::Refused(_) => {}
    }
    match database.run(vec![one(FIRST, vec![account.into(), auction.into(), now_ms.into()])]).await {
        // Another request of the same account was faster.
        Ok(_) | Err(Fault::Taken(_)) => Ok(true),
        Err(why) => Err(why),
    }
}

pub(crate) async fn leave(database: &dyn Database, account: Id, auction: Id, now_ms: i64) -> Result<(), Fault> {
    const SQL: &str = "UPDATE attendance SET left_ms = ? WHERE account_id = ? AND auction_id = ? AND left_ms IS NULL";
    database.run(vec![any(SQL, vec![now_ms.into(), account.into(), auction.into()])]).await.map(drop)
}

pub(crate) async fn bids(database: &dyn Database, account: Id, page: Page) -> Result<Vec<BidRow>, Fault> {
    const SQL: &str = "SELECT b.id, b.auction_id, b.item_id, i.name, b.amount_cents, b.event_order, b.accepted_ns
        FROM bid b JOIN item i ON i.id = b.item_id WHERE b.account_id = ?
        ORDER BY b.accepted_ns DESC, b.id DESC LIMIT ? OFFSET ?";
    let rows = database.query(SQL, vec![account.into(), page.size.into(), page.offset().into()]).await?;
    let row = |mut row: Row| {
        Ok(BidRow {
            bid_id: row.int()?,
            auction_id: row.int()?,
            item_id: row.int()?,
            item_name: row.text()?,
            amount_cents: row.int()?,
            order: row.int()?,
            placed_ms: row.int()? / 1_000_000,
        })
    };
    rows.into_iter().map(row).collect()
}

pub(crate) async fn attendances(database: &dyn Database, account: Id, page: Page) -> Result<Vec<AttendanceRow>, Fault> {
    const SQL: &str = "SELECT t.auction_id, a.name, t.joined_ms, t.left_ms
        FROM attendance t JOIN auction a ON a.id = t.auction_id WHERE t.account_id = ?
        ORDER BY t.joined_ms DESC, t.auction_id LIMIT ? OFFSET ?";
    let rows = database.query(SQL, vec![account.into(), page.size.into(), page.offset().into()]).await?;
    let row = |mut row: Row| {
        Ok(AttendanceRow {
            auction_id: row.int()?,
            auction_name: row.text()?,
            joined_ms: row.int()?,
            left_ms: row.maybe_int()?,
        })
    };
    rows.into_iter().map(row).collect()
}

pub(crate) async fn purchases(database: &dyn Database, account: Id, page: Page) -> Result<Vec<PurchaseRow>, Fault> {
    const SQL: &str = "SELECT p.item_id, i.name, i.image_item, p.amount_cents, p.bought_ms
        FROM purchase p JOIN item i ON i.id = p.item_id WHERE p.account_id = ?
        ORDER BY p.bought_ms DESC, p.item_id LIMIT ? OFFSET ?";
    let rows = database.query(SQL, vec![account.into(), page.size.into(), page.offset().into()]).await?;
    let row = |mut row: Row| {
        Ok(PurchaseRow {
            item_id: row.int()?,
            item_name: row.text()?,
            image_item: row.int()?,
            amount_cents: row.int()?,
            bought_ms: row.int()?,
        })
    };
    rows.into_iter().map(row).collect()
}
