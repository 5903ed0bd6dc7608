//! What a phase of the auction needs alongside its applications, and what it measures.

use crate::cluster::ClusterError;
use crate::document::{ApplicationRow, SecondRow};
use baremark_lab::search::{Probe, SearchError, Step, SubjectError};
use baremark_load::record::Part;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What happens during a phase.
pub(crate) enum Event<'e> {
    /// A step of a search.
    Search(&'e Step),
    /// A second of a load that is kept.
    Second(&'e SecondRow),
}

/// Why a phase has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// A tier.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The search.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The load.
    #[error("load: {0}")]
    Load(SubjectError),
}

/// Part of a search, stored while the phase goes on, so that an interrupted search can be taken up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stored {
    /// What several applications carried in step.
    InStep {
        /// Users of each.
        users: f64,
        /// How many exceeded a limit at the next level.
        exceeded: usize,
    },
    /// A window of one of them.
    Window {
        /// Which, from 0.
        application: usize,
        /// What was measured.
        probe: Box<Probe>,
    },
}

/// What a phase needs alongside its applications.
pub(crate) struct Ground<'g> {
    /// What an interrupted run of the phase has stored.
    pub stored: &'g [Stored],
    /// Stores a part at once.
    pub store: &'g mut dyn FnMut(&Stored),
    /// Set when the phase is to end now.
    pub interrupt: Arc<AtomicBool>,
    /// Who watches.
    pub watch: &'g mut dyn FnMut(&Event<'_>),
}

/// What a phase has measured.
pub(crate) struct Measured {
    /// One for each application.
    pub rows: Vec<ApplicationRow>,
    /// The window of each application whose metrics count: of a search the one that verified its level, absent where none did.
    pub parts: Vec<Option<Part>>,
    /// What a reader should know.
    pub remarks: Vec<String>,
}
