//! Why there is no database, or no second copy of it.

use crate::database::Failure;
use crate::dataset_cache::KeptError;
use baremark_disks::engine::EngineError;
use baremark_networks::NetworkError;
use baremark_services::error::ServiceError;
use std::path::PathBuf;

/// Why there is no database.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server's program, its settings or its start.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The data that is kept.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// What the database says.
    #[error(transparent)]
    Database(#[from] Failure),
    /// The lab's network.
    #[error("network = \"lab\": {0}")]
    Network(#[from] NetworkError),
    /// A disk of two copies.
    #[error(transparent)]
    Disk(#[from] EngineError),
    /// A file or a socket.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
