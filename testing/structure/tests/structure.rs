//! The shape of the source itself: arrows between crates, cycles among modules, passages that stand twice.
#![allow(clippy::unwrap_used, clippy::allow_attributes, missing_docs, reason = "a test crate")]

#[path = "structure/arrows.rs"]
mod arrows;
#[path = "structure/cycles.rs"]
mod cycles;
#[path = "structure/passages.rs"]
mod passages;
#[path = "structure/source.rs"]
mod source;
