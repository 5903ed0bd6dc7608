//! What must hold of an auction site after anything: the run that it does not hold of is void.

use crate::database::{self, Address, Database, Fault, Value};
use crate::failure::Failure;
use crate::nouns::bid_id;
use crate::store::{browse, schema};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

/// A rule: what to say and a query that finds who breaks it, ids first. `?` is given the first and last auction to look at.
struct Rule {
    name: &'static str,
    sql: &'static str,
}

const RULES: [Rule; 12] = [
    Rule {
        name: "a sold item went to its highest accepted bid",
        sql: "SELECT i.id FROM item i LEFT JOIN bid b ON b.id = i.high_bid
            WHERE i.auction_id BETWEEN ? AND ? AND i.state = 'sold' AND (b.id IS NULL OR b.item_id <> i.id
            OR b.account_id <> i.high_bidder OR b.amount_cents <> i.high_cents
            OR b.amount_cents < (SELECT MAX(o.amount_cents) FROM bid o WHERE o.item_id = i.id)) LIMIT 20",
    },
    Rule {
        name: "an item's high bid is its highest stored bid, and all of its bids are stored",
        sql: "SELECT i.id FROM item i LEFT JOIN (SELECT item_id, MAX(amount_cents) AS most, COUNT(*) AS bids FROM bid
            WHERE auction_id BETWEEN ? AND ? GROUP BY item_id) b ON b.item_id = i.id WHERE i.auction_id BETWEEN ? AND ?
            AND (COALESCE(b.most, 0) <> COALESCE(i.high_cents, 0) OR COALESCE(b.bids, 0) <> i.bids) LIMIT 20",
    },
    Rule {
        name: "every sold item has one purchase, of its high bid, by its high bidder",
        sql: "SELECT i.id FROM item i LEFT JOIN purchase p ON p.item_id = i.id WHERE i.auction_id BETWEEN ? AND ?
            AND i.state = 'sold' AND (p.item_id IS NULL OR p.account_id <> i.high_bidder OR p.amount_cents <> i.high_cents
            OR p.bid_id <> i.high_bid) LIMIT 20",
    },
    Rule {
        name: "what was bought was sold",
        sql: "SELECT p.item_id FROM purchase p LEFT JOIN item i ON i.id = p.item_id
            WHERE i.id IS NULL OR i.state <> 'sold' LIMIT 20",
    },
    Rule {
        name: "each bid of an item is higher than the one before, by another bidder",
        sql: "SELECT id FROM (SELECT id, account_id, amount_cents, LAG(amount_cents) OVER w AS amount_before,
            LAG(account_id) OVER w AS account_before FROM bid WHERE auction_id BETWEEN ? AND ?
            WINDOW w AS (PARTITION BY item_id ORDER BY event_order)) s
            WHERE amount_cents <= amount_before OR account_id = account_before LIMIT 20",
    },
    Rule {
        name: "a first bid is at least the starting price",
        sql: "SELECT i.id FROM item i WHERE i.auction_id BETWEEN ? AND ? AND i.bids > 0
            AND (SELECT MIN(b.amount_cents) FROM bid b WHERE b.item_id = i.id) < i.starting_cents LIMIT 20",
    },
    Rule {
        name: "no bid comes after its item was sold or beyond its auction's order",
        sql: "SELECT b.id FROM bid b JOIN auction a ON a.id = b.auction_id JOIN item i ON i.id = b.item_id
            WHERE b.auction_id BETWEEN ? AND ? AND (b.event_order > a.last_order OR i.auction_id <> b.auction_id) LIMIT 20",
    },
    Rule {
        name: "whoever bids attends",
        sql: "SELECT b.id FROM bid b LEFT JOIN attendance t ON t.account_id = b.account_id AND t.auction_id = b.auction_id
            WHERE b.auction_id BETWEEN ? AND ? AND t.account_id IS NULL LIMIT 20",
    },
    Rule {
        name: "an account's credit is what was loaded less what it bought since",
        sql: "SELECT a.id FROM account a LEFT JOIN (SELECT account_id, SUM(amount_cents) AS spent FROM purchase WHERE loaded = 0
            GROUP BY account_id) p ON p.account_id = a.id
            WHERE a.credit_cents <> a.loaded_credit_cents - COALESCE(p.spent, 0) LIMIT 20",
    },
    Rule {
        name: "what is held of an account's credit is the sum of its high bids on open items, and never more than the credit",
        sql: "SELECT a.id FROM account a LEFT JOIN (SELECT high_bidder, SUM(high_cents) AS held FROM item
            WHERE state IN ('open', 'lastcall') GROUP BY high_bidder) i ON i.high_bidder = a.id
            WHERE a.held_cents <> COALESCE(i.held, 0) OR a.held_cents > a.credit_cents LIMIT 20",
    },
    Rule {
        name: "the money of all sold items is the money of all purchases",
        sql: "SELECT CAST(i.total AS {int}) FROM (SELECT COALESCE(SUM(high_cents), 0) AS total FROM item WHERE state = 'sold') i,
            (SELECT COALESCE(SUM(amount_cents), 0) AS total FROM purchase) p WHERE i.total <> p.total",
    },
    Rule {
        name: "a live auction has at most one item up, and that is its current one",
        sql: "SELECT a.id FROM auction a WHERE a.id BETWEEN ? AND ? AND a.status = 'live' AND ((SELECT COUNT(*) FROM item i
            WHERE i.auction_id = a.id AND i.state IN ('open', 'lastcall')) > 1 OR EXISTS (SELECT 1 FROM item i
            WHERE i.auction_id = a.id AND i.state IN ('open', 'lastcall') AND (a.current_item IS NULL OR a.current_item <> i.id))) LIMIT 20",
    },
];

/// What was looked at and found.
#[derive(Debug)]
pub(crate) struct Found {
    pub violations: Vec<String>,
    rules: usize,
    bids: i64,
    sold: i64,
    revenue_cents: i64,
    servers: usize,
    pushed_bids: i64,
    deliveries: u64,
}

impl Found {
    pub(crate) fn json(&self) -> serde_json::Value {
        json!({
            "holds": self.violations.is_empty(),
            "rules": self.rules,
            "violations": self.violations,
            "live_bids": self.bids,
            "live_sold": self.sold,
            "live_revenue_cents": self.revenue_cents,
            "servers": self.servers,
            "pushed_bids": self.pushed_bids,
            "deliveries": self.deliveries,
        })
    }
}

#[derive(Deserialize)]
struct Push {
    auction_id: i64,
    after: i64,
    order: i64,
    bids: i64,
    amount_sum_cents: i64,
    deliveries: u64,
}

#[derive(Deserialize)]
struct Pushes {
    server: String,
    pushes: Vec<Push>,
}

/// Looks at everything, or at live auctions only, and at what the servers say they pushed.
pub(crate) async fn check(address: Address, live: bool, servers: Vec<SocketAddr>) -> Result<Found, Failure> {
    let database = database::open(&address).await?;
    let database = &*database;
    schema::meta(database).await?;
    let mut pushed = Vec::new();
    for server in &servers {
        pushed.push(ask(*server).await?);
    }
    let mut found = look(database, live).await?;
    for server in &pushed {
        compare(database, server, &mut found).await?;
    }
    found.servers = servers.len();
    Ok(found)
}

async fn look(database: &dyn Database, live: bool) -> Result<Found, Fault> {
    let last_live = browse::live_auctions(database).await?.last().map_or(0, |auction| auction.auction_id);
    let last = if live { last_live } else { i64::from(i32::MAX) };
    let mut violations = Vec::new();
    for rule in &RULES {
        let marks = rule.sql.matches('?').count();
        let range = [Value::Int(1), Value::Int(last)];
        let values = range.into_iter().cycle().take(marks).collect();
        let mut ids = Vec::new();
        for mut row in database.query(rule.sql, values).await? {
            ids.push(row.int()?.to_string());
        }
        if !ids.is_empty() {
            violations.push(format!("{}: not so for {}", rule.name, ids.join(", ")));
        }
    }
    const BIDS: &str = "SELECT COUNT(*) FROM bid WHERE id < ?";
    const SOLD: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(amount_cents), 0) AS {int}) FROM purchase WHERE loaded = 0";
    let missing = || Fault::Unexpected("no row of a count".to_owned());
    let bids = database.query(BIDS, vec![bid_id(last_live + 1, 0).into()]).await?.pop().ok_or_else(missing)?.int()?;
    let mut sums = database.query(SOLD, Vec::new()).await?.pop().ok_or_else(missing)?;
    let (sold, revenue_cents) = (sums.int()?, sums.int()?);
    Ok(Found { violations, rules: RULES.len(), bids, sold, revenue_cents, servers: 0, pushed_bids: 0, deliveries: 0 })
}

/// How long a server may take to say what it has pushed.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

async fn ask(server: SocketAddr) -> Result<Pushes, Failure> {
    let named = |why: &dyn std::fmt::Display| Failure::Refused(format!("server {server}: {why}"));
    let uri = format!("http://{server}/pushes").parse().map_err(|why| named(&why))?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let answer = async {
        let response = client.get(uri).await.map_err(|why| named(&why))?;
        Ok::<_, Failure>(response.into_body().collect().await.map_err(|why| named(&why))?.to_bytes())
    };
    // One that is stopped accepts connections, and answers none.
    let body = tokio::time::timeout(ANSWER_LIMIT, answer).await.map_err(|why| named(&why))??;
    serde_json::from_slice(&body).map_err(|why| named(&why))
}

/// Each auction that the server followed: the bids that it pushed are the bids that are stored, in number and sum.
async fn compare(database: &dyn Database, server: &Pushes, found: &mut Found) -> Result<(), Fault> {
    const STORED: &str =
        "SELECT COUNT(*), CAST(COALESCE(SUM(amount_cents), 0) AS {int}) FROM bid WHERE id > ? AND id <= ?";
    for push in &server.pushes {
        let range = vec![bid_id(push.auction_id, push.after).into(), bid_id(push.auction_id, push.order).into()];
        for mut row in database.query(STORED, range).await? {
            let (bids, sum) = (row.int()?, row.int()?);
            if (bids, sum) != (push.bids, push.amount_sum_cents) {
                found.violations.push(format!(
                    "pushes match bids: server {} pushed {} bids of auction {} ({} cents) where {bids} are stored ({sum} cents)",
                    server.server, push.bids, push.auction_id, push.amount_sum_cents
                ));
            }
        }
        found.pushed_bids += push.bids;
        found.deliveries += push.deliveries;
    }
    Ok(())
}
