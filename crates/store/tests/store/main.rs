//! The store against its promises: what goes in comes out, and no fault of process, disk or neighbour loses a trial.
//!
//! Faults are real: children are killed with SIGKILL, disks are full, files are cut off. What this machine cannot show
//! (mounting needs root) is skipped, counted and said.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on shall say where")]

mod damaged;
mod faults;
mod golden;
mod locks;
mod progress;
mod record;
mod support;
