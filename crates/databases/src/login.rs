//! The way to a database server, in a form that another process can be given.

use crate::database::Isolation;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The way to a server.
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    /// Where it listens.
    pub address: SocketAddr,
    /// The account.
    pub user: String,
    /// Its password. Never in a log.
    pub password: String,
    /// The database.
    pub database: String,
    /// Isolation of all transactions.
    pub isolation: Isolation,
}
