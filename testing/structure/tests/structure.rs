//! The shape of the source itself: arrows between crates, cycles among modules, passages that stand twice, places that make folders,
//! knowledge that lies away from its owner, sizes, READMEs, and the map in ARCHITECTURE.md.
#![allow(clippy::unwrap_used, clippy::allow_attributes, missing_docs, reason = "a test crate")]

#[path = "structure/arrows.rs"]
mod arrows;
#[path = "structure/cycles.rs"]
mod cycles;
#[path = "structure/errors.rs"]
mod errors;
#[path = "structure/features.rs"]
mod features;
#[path = "structure/folders.rs"]
mod folders;
#[path = "structure/hidden.rs"]
mod hidden;
#[path = "structure/knowledge.rs"]
mod knowledge;
#[path = "structure/passages.rs"]
mod passages;
#[path = "structure/places.rs"]
mod places;
#[path = "structure/policies.rs"]
mod policies;
#[path = "structure/readmes.rs"]
mod readmes;
#[path = "structure/sizes.rs"]
mod sizes;
#[path = "structure/source.rs"]
mod source;
#[path = "structure/tokens.rs"]
mod tokens;
#[path = "structure/wall_time.rs"]
mod wall_time;
