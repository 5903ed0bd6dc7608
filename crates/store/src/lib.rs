//! The record of runs: one SQLite file that keeps every finished trial, whatever happens to the process that ran it.
//!
//! A trial is one transaction, and the call that adds it returns when the write-ahead log has been synced to the disk:
//! neither `kill -9` nor a power cut loses a trial that was acknowledged. The sync falls between two trials; nothing is
//! written while one is measured. Who works on a run holds its lock, which the kernel takes back when the process dies,
//! so that a run is *live*, *killed* or *finished* and never needs repair.
//!
//! Every row has a checksum, and every run counts its rows: what a fault of the disk or a stray hand changed is refused by
//! name, and what was not is read as ever. Rows that a version before checksums wrote are read unverified.
//!
//! Specification and result of a trial are stored as the JSON that crossed the wire: a later version can estimate anew
//! from what was measured, and `sqlite3` shows it to anybody. The store computes nothing and judges nothing. It does not
//! work on network file systems, on which SQLite's write-ahead log has no shared memory.
#![forbid(unsafe_code)]

mod apart;
mod batch;
mod checksum;
mod comments;
mod error;
mod heads;
mod loads;
mod lock;
mod read;
mod record;
mod rows;
mod run_id;
mod schema;
mod store;
mod tally;

pub use batch::Batch;
pub use error::{LockError, StoreError};
pub use loads::{LoadSummary, StoredLoad};
pub use lock::{RunLock, Turn};
pub use record::{FORMAT, Listing, RunRecord, RunState, RunSummary, StoredRun, StoredTrial, Torn, TrialEntry};
pub use run_id::{BadRunId, RunId};
pub use store::Store;
