//! Text that a program prints for people: values behind words, each looked for with the line that it stands on.

use crate::number;
use crate::result::{Damage, Place};

/// A text, line by line.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'t>(pub(crate) &'t str);

impl<'t> Lines<'t> {
    /// The lines with their numbers, from 1, without blanks at their ends.
    pub(crate) fn all(self) -> impl Iterator<Item = (u64, &'t str)> {
        (1..).zip(self.0.lines()).map(|(number, line)| (number, line.trim()))
    }

    /// What stands behind `word` on the first line that begins with it.
    pub(crate) fn after(self, word: &str) -> Option<(u64, &'t str)> {
        self.all().find_map(|(number, line)| Some((number, line.strip_prefix(word)?.trim())))
    }

    /// The number with which what is behind `word` begins; `None` where no line begins with it.
    pub(crate) fn number(self, word: &str) -> Result<Option<f64>, Damage> {
        self.after(word).map(|(line, rest)| number::leading(rest, line, word)).transpose()
    }

    /// The same of a word that must be there.
    pub(crate) fn required(self, word: &str) -> Result<f64, Damage> {
        self.number(word)?.ok_or_else(|| self.lacks(word))
    }

    /// That the text ends without `word`.
    pub(crate) fn lacks(self, word: &str) -> Damage {
        let last = self.0.lines().count().max(1) as u64;
        Damage::at(
            Place::Line(last),
            format!("the file ends without '{word}'; it was cut off, or is of another program"),
        )
    }
}
