//! One instance of a service as its caller requests it.

use crate::card::Tier;
use crate::settings::Settings;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// One instance as requested.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Its name, such as `app-2`.
    pub name: String,
    /// Which tier it serves.
    pub tier: Tier,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its private folder, as its program sees it.
    pub folder: PathBuf,
    /// The program, as [`Install`](crate::card::Install) found it.
    pub program: PathBuf,
    /// Values for every knob, and what is passed through.
    pub settings: Settings,
    /// Servers behind it.
    pub upstreams: Vec<Upstream>,
    /// Arguments by which its caller connects it with the rest; only the application's own servers take them.
    pub wiring: Vec<String>,
    /// A secret made for this run: the database's password and the like. Never in a log.
    pub secret: String,
    /// The password of a database that is not the run's own server; absent, that is `secret`. Never in a log.
    #[serde(default)]
    pub database_secret: Option<String>,
    /// The user and group that its folder belongs to and that its program runs as; absent, those of whoever starts it.
    pub owner: Option<(u32, u32)>,
    /// By which it serves TLS at its address; absent, it serves plain. Only balancers and web servers take it.
    pub tls: Option<Tls>,
}

/// What a server needs to serve TLS.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    /// Its certificate, as PEM.
    pub chain: String,
    /// The key of that, as PEM. Never in a log.
    pub key: String,
    /// Where it tells of itself without TLS: not what it serves.
    pub plain: SocketAddr,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("plain", &self.plain).finish_non_exhaustive()
    }
}

impl Order {
    /// Where it reports about itself: its own address, or alongside it when that takes TLS alone.
    #[must_use]
    pub fn plain(&self) -> SocketAddr {
        self.tls.as_ref().map_or(self.address, |tls| tls.plain)
    }

    /// Whether it is asked about itself over the lab's network. One that listens on loopback, or on every address of a machine of
    /// its own, is asked there.
    #[must_use]
    pub(crate) fn is_on_lab_network(&self) -> bool {
        let address = self.address.ip();
        !address.is_loopback() && !address.is_unspecified()
    }
}

/// A server behind another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
}
