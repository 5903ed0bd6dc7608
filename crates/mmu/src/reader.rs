//! Reads data files: every mistake is told with its line, what was expected and the nearest valid word.

use crate::page::Page;
use crate::range::Range;
use baremark_model::problem::{Problem, Problems, nearest};
use baremark_model::units::Bytes;
use toml::de::{DeTable, DeValue};

/// Collects mistakes while a file is taken apart.
pub(crate) struct Reader {
    breaks: Vec<usize>,
    problems: Vec<Problem>,
}

/// A table of the file, and its name for messages.
pub(crate) struct Section<'t> {
    table: &'t DeTable<'t>,
    name: String,
    line: usize,
}

impl Reader {
    /// Parses `text` and hands its top to `take`, which returns `None` only after a mistake was recorded.
    pub(crate) fn read<T>(
        file: &str,
        text: &str,
        take: impl FnOnce(&mut Reader, &Section<'_>) -> Option<T>,
    ) -> Result<T, Problems> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset).collect();
        let mut reader = Reader { breaks, problems: Vec::new() };
        let document = match DeTable::parse(text) {
            Ok(document) => document,
            Err(why) => {
                let line = why.span().map_or(0, |span| reader.line_of(span.start));
                let list = vec![Problem::new(line, format!("no TOML: {}", why.message()), "see toml.io")];
                return Err(Problems { file: file.to_owned(), list });
            }
        };
        let top = Section { table: document.get_ref(), name: String::new(), line: 1 };
        let taken = take(&mut reader, &top);
        match taken {
            Some(taken) if reader.problems.is_empty() => Ok(taken),
            _ => Err(Problems { file: file.to_owned(), list: reader.problems }),
        }
    }

    /// Refuses keys that are not among `known`.
    pub(crate) fn keys(&mut self, section: &Section<'_>, known: &[&str]) {
        for key in section.table.keys() {
            if !known.contains(&key.get_ref().as_ref()) {
                let line = self.line_of(key.span().start);
                let what = format!("unknown key '{}'{}", key.get_ref(), section.inside());
                self.problems.push(Problem::new(line, what, nearest(key.get_ref(), known)));
            }
        }
    }

    /// Whether a key is there.
    pub(crate) fn has(&self, section: &Section<'_>, key: &str) -> bool {
        section.table.contains_key(key)
    }

    /// Records that a key's value cannot be.
    pub(crate) fn refuse(&mut self, section: &Section<'_>, key: &str, what: String) {
        let line = self.line(section, key);
        self.problems.push(Problem::new(line, format!("{key}{}: {what}", section.inside()), "correct the numbers"));
    }

    pub(crate) fn section<'t>(&mut self, section: &Section<'t>, key: &str) -> Option<Section<'t>> {
        match self.value(section, key)? {
            DeValue::Table(table) => Some(Section { table, name: section.child(key), line: self.line(section, key) }),
            _ => self.wrong(section, key, "a table"),
        }
    }

    /// Tables of an array of tables.
    pub(crate) fn sections<'t>(&mut self, section: &Section<'t>, key: &str) -> Vec<Section<'t>> {
        let Some(value) = self.value(section, key) else { return Vec::new() };
        let DeValue::Array(items) = value else {
            self.wrong::<()>(section, key, "an array of tables");
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    let line = self.line_of(item.span().start);
                    tables.push(Section { table, name: section.child(key), line });
                }
                _ => {
                    self.wrong::<()>(section, key, "an array of tables");
                }
            }
        }
        tables
    }

    pub(crate) fn text(&mut self, section: &Section<'_>, key: &str) -> Option<String> {
        match self.value(section, key)? {
            DeValue::String(text) => Some(text.to_string()),
            _ => self.wrong(section, key, "text in quotation marks"),
        }
    }

    /// One text, or several.
    pub(crate) fn texts(&mut self, section: &Section<'_>, key: &str) -> Vec<String> {
        let values = self.several(section, key);
        let mut texts = Vec::new();
        for value in values {
            match value {
                DeValue::String(text) => texts.push(text.to_string()),
                _ => {
                    self.wrong::<()>(section, key, "text in quotation marks, or several in brackets");
                }
            }
        }
        texts
    }

    pub(crate) fn switch(&mut self, section: &Section<'_>, key: &str) -> Option<bool> {
        match self.value(section, key)? {
            DeValue::Boolean(on) => Some(*on),
            _ => self.wrong(section, key, "true or false"),
        }
    }

    pub(crate) fn page(&mut self, section: &Section<'_>, label: &str) -> Option<Page> {
        let page = Page::from_label(label);
        if page.is_none() {
            let line = self.line(section, "pages");
            let problem = Problem::new(
                line,
                format!("the page size '{label}' is not known"),
                nearest(label, &["4k", "2m", "1g"]),
            );
            self.problems.push(problem);
        }
        page
    }

    /// The index of a word among `known`.
    pub(crate) fn word(&mut self, section: &Section<'_>, key: &str, known: &[&str]) -> Option<usize> {
        self.words(section, key, known).first().copied()
    }

    /// The indices of words among `known`.
    pub(crate) fn words(&mut self, section: &Section<'_>, key: &str, known: &[&str]) -> Vec<usize> {
        let mut chosen = Vec::new();
        for text in self.texts(section, key) {
            match known.iter().position(|word| *word == text) {
                Some(index) => chosen.push(index),
                None => {
                    let line = self.line(section, key);
                    let what = format!("{key} = '{text}'{} is not known", section.inside());
                    self.problems.push(Problem::new(line, what, nearest(&text, known)));
                }
            }
        }
        chosen
    }

    pub(crate) fn count(&mut self, section: &Section<'_>, key: &str, least: u32, most: u32) -> Option<u32> {
        match self.counts(section, key, least, most)?.as_slice() {
            [one] => Some(*one),
            _ => self.wrong(section, key, "one whole number"),
        }
    }

    /// One whole number, or all that it may be.
    pub(crate) fn counts(&mut self, section: &Section<'_>, key: &str, least: u32, most: u32) -> Option<Vec<u32>> {
        self.value(section, key)?;
        let mut counts = Vec::new();
        for value in self.several(section, key) {
            let count = number(value).filter(|count| count.fract() == 0.0);
            match count.filter(|count| (f64::from(least)..=f64::from(most)).contains(count)) {
                Some(count) => counts.push(count as u32),
                None => {
                    return self.wrong(
                        section,
                        key,
                        &format!("a whole number from {least} to {most}, or several in brackets"),
                    );
                }
            }
        }
        if counts.is_empty() { self.wrong(section, key, "at least one whole number") } else { Some(counts) }
    }

    /// One number, or the least and the most that it may be.
    pub(crate) fn range(&mut self, section: &Section<'_>, key: &str, least: f64, most: f64) -> Option<Range> {
        self.value(section, key)?;
        let numbers: Vec<Option<f64>> = self.several(section, key).into_iter().map(number).collect();
        let range = match numbers.as_slice() {
            [Some(one)] => Some(Range::exactly(*one)),
            [Some(low), Some(high)] if low <= high => Some(Range { low: *low, high: *high }),
            _ => None,
        };
        match range.filter(|range| range.low >= least && range.high <= most) {
            Some(range) => Some(range),
            None => self.wrong(section, key, &format!("a number from {least} to {most}, or [low, high] of such")),
        }
    }

    pub(crate) fn size(&mut self, section: &Section<'_>, key: &str) -> Option<u64> {
        match self.text(section, key)?.parse::<Bytes>() {
            Ok(size) => Some(size.0),
            Err(why) => {
                let line = self.line(section, key);
                self.problems.push(Problem::new(line, format!("{key}{}: {why}", section.inside()), "write \"32 KiB\""));
                None
            }
        }
    }

    fn several<'t>(&mut self, section: &Section<'t>, key: &str) -> Vec<&'t DeValue<'t>> {
        match self.value(section, key) {
            Some(DeValue::Array(items)) => items.iter().map(toml::Spanned::get_ref).collect(),
            Some(value) => vec![value],
            None => Vec::new(),
        }
    }

    fn value<'t>(&mut self, section: &Section<'t>, key: &str) -> Option<&'t DeValue<'t>> {
        if let Some(value) = section.table.get(key) {
            return Some(value.get_ref());
        }
        let problem = Problem::new(section.line, format!("'{key}' is missing{}", section.inside()), "add it");
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
        None
    }

    fn wrong<T>(&mut self, section: &Section<'_>, key: &str, expected: &str) -> Option<T> {
        let line = self.line(section, key);
        let what = format!("'{key}'{} is not as it should be", section.inside());
        self.problems.push(Problem::new(line, what, format!("write {expected}")));
        None
    }

    fn line(&self, section: &Section<'_>, key: &str) -> usize {
        section.table.get(key).map_or(section.line, |value| self.line_of(value.span().start))
    }

    fn line_of(&self, offset: usize) -> usize {
        self.breaks.partition_point(|at| *at < offset) + 1
    }
}

impl Section<'_> {
    fn inside(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(" in [{}]", self.name) }
    }

    fn child(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}
