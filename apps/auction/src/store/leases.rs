//! Who owns which live auction.
//!
//! A server owns an auction while its lease runs; whoever takes a lease over raises the auction's *fence*, and every change of
//! a live auction names the fence under which its author owns it. A former owner that was stalled, however long, can
//! therefore store nothing (`sales`); clocks decide only how soon a dead server's auctions are taken over.

use crate::database::{Database, Fault, Outcome, any};
use crate::nouns::Id;
use std::collections::HashMap;

/// A live auction, as seen by those who might own it.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub auction_id: Id,
    pub owner: Option<String>,
    pub fence: i64,
    /// Nobody's lease runs.
    pub free: bool,
    pub last_order: i64,
}

/// A server that lives.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub id: String,
    pub address: String,
    pub draining: bool,
}

pub(crate) async fn live(database: &dyn Database) -> Result<Vec<Live>, Fault> {
    const SQL: &str =
        "SELECT id, owner, fence, CASE WHEN owner IS NULL OR lease_until_ms < {now_ms} THEN 1 ELSE 0 END, last_order
        FROM auction WHERE status = 'live' ORDER BY id";
    let mut all = Vec::new();
    for mut row in database.query(SQL, Vec::new()).await? {
        all.push(Live {
            auction_id: row.int()?,
            owner: row.maybe_text()?,
            fence: row.int()?,
            free: row.int()? == 1,
            last_order: row.int()?,
        });
    }
    Ok(all)
}

/// Says that `server` lives for another `lease_ms`, and renews all its leases.
pub(crate) async fn beat(database: &dyn Database, server: &Server, lease_ms: i64) -> Result<(), Fault> {
    const MINE: &str = "UPDATE server SET alive_until_ms = {now_ms} + ?, draining = ? WHERE id = ?";
    const FIRST: &str = "INSERT INTO server (id, address, alive_until_ms, draining) VALUES (?, ?, {now_ms} + ?, ?)";
    const RENEW: &str = "UPDATE auction SET lease_until_ms = {now_ms} + ? WHERE status = 'live' AND owner = ?";
    const DEAD: &str = "DELETE FROM server WHERE alive_until_ms < {now_ms} - 60000";
    let id = || server.id.as_str().into();
    let draining = i64::from(server.draining).into();
    let beat = any(MINE, vec![lease_ms.into(), draining, id()]);
    let renew = any(RENEW, vec![lease_ms.into(), id()]);
    if let Outcome::Stored(touched) = database.run(vec![beat, renew, any(DEAD, Vec::new())]).await?
        && touched.first() == Some(&0)
    {
        let first = vec![id(), server.address.as_str().into(), lease_ms.into(), i64::from(server.draining).into()];
        database.run(vec![any(FIRST, first)]).await?;
    }
    Ok(())
}

/// The servers that live, by id.
pub(crate) async fn servers(database: &dyn Database) -> Result<HashMap<String, Server>, Fault> {
    const SQL: &str = "SELECT id, address, draining FROM server WHERE alive_until_ms >= {now_ms}";
    let mut all = HashMap::new();
    for mut row in database.query(SQL, Vec::new()).await? {
        let server = Server { id: row.text()?, address: row.text()?, draining: row.int()? == 1 };
        all.insert(server.id.clone(), server);
    }
    Ok(all)
}

/// Takes over those of `wanted` that are still free under the fence that was seen; returns each with its new fence.
pub(crate) async fn claim(
    database: &dyn Database,
    server: &str,
    lease_ms: i64,
    wanted: &[Live],
) -> Result<Vec<(Id, i64)>, Fault> {
    const SQL: &str = "UPDATE auction SET owner = ?, fence = fence + 1, lease_until_ms = {now_ms} + ?
        WHERE id = ? AND fence = ? AND (owner IS NULL OR lease_until_ms < {now_ms})";
    let step = |it: &Live| any(SQL, vec![server.into(), lease_ms.into(), it.auction_id.into(), it.fence.into()]);
    let Outcome::Stored(touched) = database.run(wanted.iter().map(step).collect()).await? else {
        return Ok(Vec::new());
    };
    let taken = wanted.iter().zip(touched).filter(|(_, rows)| *rows == 1);
    Ok(taken.map(|(it, _)| (it.auction_id, it.fence + 1)).collect())
}

/// Gives an auction back, for others to take at once.
pub(crate) async fn release(database: &dyn Database, server: &str, auction: Id, fence: i64) -> Result<(), Fault> {
    const SQL: &str = "UPDATE auction SET owner = NULL, lease_until_ms = 0 WHERE id = ? AND owner = ? AND fence = ?";
    database.run(vec![any(SQL, vec![auction.into(), server.into(), fence.into()])]).await.map(drop)
}

/// Forgets a server that ends in good order.
pub(crate) async fn farewell(database: &dyn Database, server: &str) -> Result<(), Fault> {
    database.run(vec![any("DELETE FROM server WHERE id = ?", vec![server.into()])]).await.map(drop)
}
