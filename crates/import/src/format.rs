//! What a format of results is.

use crate::result::{Column, Damage, Imported};

/// A format of results.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its name, as `--format` takes it.
    pub name: &'static str,
    /// How such a file is made, for people.
    pub help: &'static str,
    /// Whether a file that begins so is of this format.
    pub recognises: fn(&str) -> bool,
    /// Reads a file.
    pub read: fn(&str, &[Column]) -> Result<Imported, Damage>,
}
