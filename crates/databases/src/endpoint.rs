//! Where a database is reached, in a form that another process can be given.

use crate::database::{Database, Dialect};
use crate::login::Login;
use crate::mariadb::Mariadb;
use crate::postgres::Postgres;
use crate::sqlite::{Sqlite, Synchronous};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The way to a database.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Endpoint {
    /// A file.
    Sqlite {
        /// Which.
        path: PathBuf,
        /// What a commit waits for.
        synchronous: Synchronous,
        /// The cache of each connection.
        cache_bytes: u64,
    },
    /// PostgreSQL.
    Postgres(Login),
    /// MariaDB.
    Mariadb(Login),
}

/// Without the password.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Sqlite { path, .. } => f.debug_tuple("Sqlite").field(path).finish(),
            Endpoint::Postgres(login) => f.debug_tuple("Postgres").field(&login.address).finish(),
            Endpoint::Mariadb(login) => f.debug_tuple("Mariadb").field(&login.address).finish(),
        }
    }
}

impl Endpoint {
    /// How the database writes SQL.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match self {
            Endpoint::Sqlite { .. } => Dialect::Sqlite,
            Endpoint::Postgres(_) => Dialect::Postgres,
            Endpoint::Mariadb(_) => Dialect::Mariadb,
        }
    }

    /// The database.
    #[must_use]
    pub fn open(&self) -> Box<dyn Database> {
        match self.clone() {
            Endpoint::Sqlite { path, synchronous, cache_bytes } => {
                Box::new(Sqlite::new(path, synchronous, cache_bytes))
            }
            Endpoint::Postgres(login) => Box::new(Postgres(login)),
            Endpoint::Mariadb(login) => Box::new(Mariadb(login)),
        }
    }
}
