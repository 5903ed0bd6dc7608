//! Back to what the load left, in the time of the few rows that a trial added; the past is not touched.

use crate::database::{self, Address, Database, Fault, any};
use crate::failure::Failure;
use crate::nouns::bid_id;
use crate::store::schema;
use crate::store::{browse, leases};
use serde_json::json;
use std::time::{Duration, Instant};

/// Resets; refuses while a server lives. What was removed, as JSON.
pub(crate) async fn reset(address: Address, wait: Duration) -> Result<serde_json::Value, Failure> {
    let begun = Instant::now();
    let database = database::open(&address).await?;
    let database = &*database;
    schema::meta(database).await?;
    loop {
        let servers = leases::servers(database).await?;
        if servers.is_empty() {
            break;
        }
        if begun.elapsed() > wait {
            let names: Vec<String> = servers.into_values().map(|server| server.address).collect();
            return Err(format!("servers still live at {}; end them first", names.join(", ")).into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let bids = put_back(database).await?;
    Ok(json!({ "bids_removed": bids, "ms": begun.elapsed().as_millis() }))
}

async fn put_back(database: &dyn Database) -> Result<u64, Fault> {
    const BIDS: &str = "DELETE FROM bid WHERE id < ?";
    // Offers and later rounds; then the loaded items of live auctions are as new.
    const ITEMS: &str = "DELETE FROM item WHERE loaded = 0";
    const WAITING: &str =
        "UPDATE item SET state = 'waiting', high_bid = NULL, high_cents = NULL, high_bidder = NULL, bids = 0
        WHERE auction_id <= ?";
    const AUCTIONS: &str =
        "UPDATE auction SET round = 0, current_item = NULL, last_order = 0, closes_ms = 0, owner = NULL,
        fence = fence + 1, lease_until_ms = 0 WHERE status = 'live'";
    const MONEY: &str = "UPDATE account SET credit_cents = loaded_credit_cents, held_cents = 0
        WHERE credit_cents <> loaded_credit_cents OR held_cents <> 0";
    let last = browse::live_auctions(database).await?.last().map_or(0, |auction| auction.auction_id);
    let script = vec![
        any(BIDS, vec![bid_id(last + 1, 0).into()]),
        any("DELETE FROM purchase WHERE loaded = 0", Vec::new()),
        any("DELETE FROM image WHERE item_id IN (SELECT id FROM item WHERE loaded = 0)", Vec::new()),
        any(ITEMS, Vec::new()),
        any(WAITING, vec![last.into()]),
        any("DELETE FROM attendance WHERE loaded = 0", Vec::new()),
        any(AUCTIONS, Vec::new()),
        any(MONEY, Vec::new()),
        any("DELETE FROM session", Vec::new()),
    ];
    match database.run(script).await? {
        database::Outcome::Stored(touched) => Ok(touched.first().copied().unwrap_or(0)),
        database::Outcome::Refused(step) => Err(Fault::Unexpected(format!("step {step} of the reset was refused"))),
    }
}
