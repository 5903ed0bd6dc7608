//! What is wrong with a study file: where, what, and what would be right.

use std::fmt;

/// One mistake in a study file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1; 0 when it concerns the whole file.
    pub line: usize,
    /// What is wrong, naming the operand.
    pub what: String,
    /// What would be right.
    pub remedy: String,
}

/// Everything that is wrong with one study file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The file's name as the user gave it.
    pub file: String,
    /// The mistakes, by line.
    pub list: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            match problem.line {
                0 => write!(f, "{}: {}; {}", self.file, problem.what, problem.remedy)?,
                line => write!(f, "{}:{line}: {}; {}", self.file, problem.what, problem.remedy)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// "did you mean 'x'?" when one of `valid` is near to `given`, else the list of what is valid.
#[must_use]
pub fn nearest(given: &str, valid: &[&str]) -> String {
    let best = valid.iter().map(|word| (strsim::damerau_levenshtein(given, word), word)).min();
    match best {
        Some((distance, word)) if distance <= 2.max(word.len() / 3) => format!("did you mean '{word}'?"),
        _ => format!("valid here: {}", valid.join(", ")),
    }
}
