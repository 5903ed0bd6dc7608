//! The tables, and what the database knows about itself.

use crate::database::{Database, Dialect, Fault, Value, any};

const TABLES: [&str; 9] = [
    "CREATE TABLE meta (name {key} PRIMARY KEY, value {text} NOT NULL)",
    "CREATE TABLE account (id {long} PRIMARY KEY, username {key} NOT NULL, password_hash {text} NOT NULL,
        first_name {text} NOT NULL, last_name {text} NOT NULL, email {text} NOT NULL, revision {long} NOT NULL,
        loaded_credit_cents {long} NOT NULL, credit_cents {long} NOT NULL, held_cents {long} NOT NULL)",
    "CREATE TABLE session (hash {hash} PRIMARY KEY, account_id {long} NOT NULL, expires_ms {long} NOT NULL)",
    "CREATE TABLE auction (id {long} PRIMARY KEY, name {text} NOT NULL, category {text} NOT NULL, status {key} NOT NULL,
        starts_ms {long} NOT NULL, round {long} NOT NULL, items {long} NOT NULL, current_item {long}, last_order {long} NOT NULL,
        closes_ms {long} NOT NULL, owner {key}, fence {long} NOT NULL, lease_until_ms {long} NOT NULL)",
    "CREATE TABLE item (id {serial}, auction_id {long}, seller_id {long} NOT NULL, position {long} NOT NULL, round {long} NOT NULL,
        loaded {long} NOT NULL, image_item {long} NOT NULL, images {long} NOT NULL, name {text} NOT NULL, description {text} NOT NULL,
        manufacturer {text} NOT NULL, item_condition {key} NOT NULL, state {key} NOT NULL, starting_cents {long} NOT NULL,
        high_bid {long}, high_cents {long}, high_bidder {long}, bids {long} NOT NULL)",
    "CREATE TABLE bid (id {long} PRIMARY KEY, auction_id {long} NOT NULL, item_id {long} NOT NULL, account_id {long} NOT NULL,
        amount_cents {long} NOT NULL, event_order {long} NOT NULL, accepted_ns {long} NOT NULL)",
    "CREATE TABLE attendance (account_id {long} NOT NULL, auction_id {long} NOT NULL, loaded {long} NOT NULL,
        joined_ms {long} NOT NULL, left_ms {long}, PRIMARY KEY (account_id, auction_id))",
    "CREATE TABLE purchase (item_id {long} PRIMARY KEY, account_id {long} NOT NULL, bid_id {long} NOT NULL, loaded {long} NOT NULL,
        amount_cents {long} NOT NULL, bought_ms {long} NOT NULL)",
    "CREATE TABLE server (id {key} PRIMARY KEY, address {key} NOT NULL, alive_until_ms {long} NOT NULL, draining {long} NOT NULL)",
];

/// One row holds all sizes of an image, so that it is there whole or not at all.
const IMAGE: &str = "CREATE TABLE image (item_id {long} NOT NULL, number {long} NOT NULL, size {key} NOT NULL,
        jpeg {bytes} NOT NULL, PRIMARY KEY (item_id, number, size))";

/// Made after the rows are in: one sort instead of a million insertions.
const INDEXES: [&str; 7] = [
    "CREATE UNIQUE INDEX account_username ON account (username)",
    "CREATE INDEX auction_status ON auction (status, id)",
    "CREATE INDEX item_auction ON item (auction_id, round, position)",
    "CREATE INDEX bid_account ON bid (account_id, accepted_ns, id)",
    "CREATE INDEX bid_item ON bid (item_id, event_order)",
    "CREATE INDEX attendance_account ON attendance (account_id, joined_ms)",
    "CREATE INDEX purchase_account ON purchase (account_id, bought_ms)",
];

const ALL: [&str; 10] =
    ["meta", "account", "session", "auction", "item", "bid", "attendance", "purchase", "server", "image"];

/// The version of these tables.
const VERSION: &str = "1";

/// What was loaded.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub seed: u64,
    pub max_users: u64,
    /// Known to whoever can read the database: with it, servers know each other.
    pub cluster_secret: String,
}

/// Statements that drop all tables.
pub(crate) fn drops() -> impl Iterator<Item = String> {
    ALL.iter().map(|table| format!("DROP TABLE IF EXISTS {table}"))
}

/// Drops and makes all tables, without indexes.
pub(crate) async fn create(database: &dyn Database) -> Result<(), Fault> {
    let engine = if database.dialect() == Dialect::MariaDb { " ENGINE=InnoDB" } else { "" };
    let tables = TABLES.iter().chain([&IMAGE]).map(|table| format!("{table}{engine}"));
    database.define(drops().chain(tables).collect()).await
}

/// Makes the indexes and lets the database look at what it holds.
pub(crate) async fn finish(database: &dyn Database) -> Result<(), Fault> {
    let mut statements: Vec<String> = INDEXES.iter().map(|&index| index.to_owned()).collect();
    match database.dialect() {
        Dialect::Sqlite => statements.push("ANALYZE".to_owned()),
        Dialect::Postgres => {
            statements
                .push("SELECT setval(pg_get_serial_sequence('item', 'id'), (SELECT max(id) FROM item))".to_owned());
            statements.extend(ALL.iter().map(|table| format!("ANALYZE {table}")));
        }
        Dialect::MariaDb => {
            statements.push("ANALYZE TABLE account, auction, item, bid, attendance, purchase".to_owned())
        }
    }
    database.define(statements).await
}

/// Says that everything is loaded. Until then no server serves these tables.
pub(crate) async fn seal(database: &dyn Database, meta: &Meta) -> Result<(), Fault> {
    const PUT: &str = "INSERT INTO meta (name, value) VALUES (?, ?)";
    let pairs = [
        ("version", VERSION.to_owned()),
        ("seed", meta.seed.to_string()),
        ("max_users", meta.max_users.to_string()),
        ("cluster_secret", meta.cluster_secret.clone()),
    ];
    database.run(pairs.into_iter().map(|(name, value)| any(PUT, vec![name.into(), value.into()])).collect()).await?;
    Ok(())
}

/// What was loaded.
///
/// # Errors
/// [`Fault::Unexpected`] with the remedy when nothing was, or by another version.
pub(crate) async fn meta(database: &dyn Database) -> Result<Meta, Fault> {
    let empty = |why: &dyn std::fmt::Display| {
        Fault::Unexpected(format!("no auction data: {why}; run `baremark auction load` on it first"))
    };
    let rows = match database.query("SELECT name, value FROM meta", Vec::<Value>::new()).await {
        Ok(rows) => rows,
        Err(Fault::Unexpected(why)) => return Err(empty(&why)),
        Err(other) => return Err(other),
    };
    let mut pairs = std::collections::HashMap::new();
    for mut row in rows {
        pairs.insert(row.text()?, row.text()?);
    }
    match pairs.get("version").map(String::as_str) {
        Some(VERSION) => {}
        Some(other) => return Err(empty(&format!("tables of version {other}, this program wants {VERSION}"))),
        None => return Err(empty(&"the load has not ended")),
    }
    let number = |name: &str| pairs.get(name).and_then(|text| text.parse().ok());
    match (number("seed"), number("max_users"), pairs.get("cluster_secret")) {
        (Some(seed), Some(max_users), Some(secret)) => Ok(Meta { seed, max_users, cluster_secret: secret.clone() }),
        _ => Err(empty(&"incomplete table meta")),
    }
}
