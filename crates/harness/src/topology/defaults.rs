//! The shipped defaults: every key with its value.

/// Their name in messages.
pub(super) const DEFAULTS_FILE: &str = "the defaults";
/// Their text.
pub const DEFAULTS: &str = include_str!("../../../../studies/auction/defaults.toml");
