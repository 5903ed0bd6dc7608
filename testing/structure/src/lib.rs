//! The shape of the source as tests: arrows between crates, cycles among modules, passages that stand twice.
