//! What a format of results is.

use crate::result::{Column, Damage};
use crate::results::Results;
use crate::text::Text;

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
    pub(crate) read: fn(&mut Text<'_>, &[Column]) -> Result<Results, Damage>,
}
