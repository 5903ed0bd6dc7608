//! Mistakes in what an option gave.

use super::find;
use crate::source::Source;
use baremark_model::problem::{Problem, Problems};
use toml::de::DeTable;

/// What is wrong with a study, where an option gave the value with that in place of a line, which nobody has written.
pub fn by_option(source: &Source, mut problems: Problems) -> Problems {
    let text = String::from_utf8_lossy(&source.bytes);
    let Ok(document) = DeTable::parse(&text) else { return problems };
    let lines = |place: &[String]| {
        let span = find(document.get_ref(), place)?.span();
        let line = |at: usize| 1 + text[..at].matches('\n').count();
        Some(line(span.start)..=line(span.end))
    };
    for problem in problems.list.iter_mut().filter(|problem| problem.line > 0) {
        let option = source.given.iter().find(|(place, _)| lines(place).is_some_and(|of| of.contains(&problem.line)));
        if let Some((_, typed)) = option {
            let what = format!("{typed}: {}", problem.what);
            *problem = Problem { need: problem.need, ..Problem::new(0, what, problem.remedy.clone()) };
        }
    }
    problems
}
