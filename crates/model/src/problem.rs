//! What is wrong with a study or another file: where, what, and what would be right.

use crate::order;
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
    /// Whose it is.
    pub need: Need,
}

/// Whose a problem is: what must change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The study is wrong.
    Study,
    /// The machine lacks what the study needs.
    Machine,
}

/// The longest that a message may be, in bytes; what was typed may be of any length.
const LONGEST: usize = 400;

impl Problem {
    /// A mistake, told at bearable length.
    #[must_use]
    pub fn new(line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Problem { line, what: bearable(what.into()), remedy: bearable(remedy.into()), need: Need::Study }
    }

    /// The same as a lack of the machine.
    #[must_use]
    pub fn of_machine(self) -> Self {
        Problem { need: Need::Machine, ..self }
    }
}

/// Without its middle where it is too long.
fn bearable(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let head = text.floor_char_boundary(LONGEST / 2);
    let tail = text.ceil_char_boundary(text.len() - LONGEST / 4);
    format!("{} ... {}", &text[..head], &text[tail..])
}

/// Everything that is wrong with one study file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The file's name as the user gave it.
    pub file: String,
    /// The mistakes, by line.
    pub list: Vec<Problem>,
}

/// Mistakes that are listed; the others are counted.
const MOST_PROBLEMS: usize = 100;

impl Problems {
    /// These mistakes in the order of their lines, each once; what is too much is counted.
    #[must_use]
    pub fn listed(file: String, mut list: Vec<Problem>) -> Self {
        order::by_key(&mut list, |problem| problem.line);
        list.dedup();
        if list.len() > MOST_PROBLEMS {
            let more = list.split_off(MOST_PROBLEMS);
            let what = format!("{} more mistakes from here on", more.len());
            list.push(Problem::new(more[0].line, what, "fix those above first"));
        }
        Problems { file, list }
    }
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

/// An error with its causes, each once.
#[must_use]
pub fn chain(why: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(why.source(), |why| why.source());
    causes.fold(why.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// "an integer", "a string".
pub(crate) fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {noun}")
}

/// Which of `valid` is near to `given`, if any.
#[must_use]
pub fn near<'v>(given: &str, valid: &[&'v str]) -> Option<&'v str> {
    let distance = |word: &str| {
        let longer = given.len().max(word.len());
        let distance = if longer > LONGEST { longer } else { strsim::damerau_levenshtein(given, word) };
        // Of two letters one wrong is half: that is not a slip of the finger, it is another word.
        (distance <= 2.max(word.len() / 3) && 2 * distance < longer).then_some(distance)
    };
    valid.iter().filter_map(|word| Some((distance(word)?, *word))).min().map(|(_, word)| word)
}

/// "did you mean 'x'?" when one of `valid` is near to `given`, else the list of what is valid.
#[must_use]
pub fn nearest(given: &str, valid: &[&str]) -> String {
    match near(given, valid) {
        Some(word) => format!("did you mean '{word}'?"),
        None if valid.is_empty() => "nothing can stand here; take it out".to_owned(),
        None => format!("valid here: {}", valid.join(", ")),
    }
}
