//! Settings typed as TOML, in one text or in layers of several: the line of every mistake, the nearest key, typed values.

use crate::distinct::distinct;
use crate::former;
use crate::knob::Knob;
use crate::literal::literal;
use crate::order;
use crate::problem::{Problem, Problems, nearest, with_article};
use crate::units::{Bytes, Nanos, Share};
use crate::value::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A key with its line and its value.
pub type Entry<'t> = (&'t str, usize, &'t Spanned<DeValue<'t>>);

/// One text of settings.
pub struct Layer<'t> {
    /// Its name in messages.
    pub file: String,
    /// All of it.
    pub text: &'t str,
    /// What is at its top.
    pub table: DeTable<'t>,
    /// Where its lines end; one of a single line has none that messages could name.
    breaks: Option<Vec<usize>>,
}

impl<'t> Layer<'t> {
    /// Parses a text; `file` is its name in messages.
    ///
    /// # Errors
    /// The place where it is not TOML.
    pub fn parse(file: &str, text: &'t str) -> Result<Layer<'t>, Problems> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
        Layer::read(file.to_owned(), text, Some(breaks))
    }

    /// Parses what lies over a file: a single setting, which is its own name in messages, or several.
    ///
    /// # Errors
    /// As [`Layer::parse`].
    pub fn level(text: &'t str) -> Result<Layer<'t>, Problems> {
        if text.trim_end().contains('\n') {
            return Layer::parse("the settings over the file", text);
        }
        Layer::read(format!("'{}'", text.trim_end()), text, None)
    }

    fn read(file: String, text: &'t str, breaks: Option<Vec<usize>>) -> Result<Layer<'t>, Problems> {
        let empty = Layer { file, text, table: DeTable::new(), breaks };
        match DeTable::parse(text) {
            Ok(table) => Ok(Layer { table: table.into_inner(), ..empty }),
            Err(why) => Err(Problems { list: vec![empty.not_toml(&why)], file: empty.file }),
        }
    }

    /// What the TOML parser found, with the line's text because its messages name no operand.
    fn not_toml(&self, why: &toml::de::Error) -> Problem {
        let line = self.line(why.span().map_or(0, |span| span.start));
        let typed = self.text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim();
        let at = match (line, typed) {
            (0, _) => String::new(),
            (_, "") => " at the end of the file".to_owned(),
            _ => format!(" in '{typed}'"),
        };
        let remedy = match why.message() {
            "duplicate key" => "name each key and each section once",
            _ => "write key = value, with words and quantities in quotation marks, such as table = \"1 GiB\"",
        };
        Problem::new(line, format!("{}{at}", why.message()), remedy)
    }

    /// The number of the line of an offset, from 1; 0 where there is a single one.
    #[must_use]
    pub fn line(&self, at: usize) -> usize {
        self.breaks.as_ref().map_or(0, |breaks| breaks.partition_point(|&end| end < at) + 1)
    }

    /// The entries of one of its tables in the order in which they were typed.
    #[must_use]
    pub fn entries<'l>(&self, table: &'l DeTable<'l>) -> Vec<Entry<'l>> {
        let mut typed: Vec<_> = table.iter().collect();
        order::by_key(&mut typed, |(key, _)| key.span().start);
        typed.into_iter().map(|(key, value)| (key.get_ref().as_ref(), self.line(key.span().start), value)).collect()
    }

    /// A notice of each key that has another name today.
    #[must_use]
    pub fn renamed(&self) -> Vec<String> {
        self.renamed_in("", &self.table)
    }

    /// The same of a table of it, which is the section of that path.
    #[must_use]
    pub fn renamed_in(&self, path: &str, table: &DeTable<'_>) -> Vec<String> {
        let mut notices = Vec::new();
        for (key, line, value) in self.entries(table) {
            let now = former::now_in(path, key);
            let place = if line == 0 { self.file.clone() } else { format!("{}:{line}", self.file) };
            notices.extend(now.map(|now| former::notice(&place, path, key, now)));
            if let Some(below) = value.get_ref().as_table() {
                let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                notices.extend(self.renamed_in(&path, below));
            }
        }
        notices
    }
}

/// The bytes of a file as text. One with more than `longest` bytes is not a `what`, such as "study".
///
/// # Errors
/// That it is too long, or where it is not UTF-8.
pub fn text<'t>(file: &str, bytes: &'t [u8], longest: usize, what: &str) -> Result<&'t str, Problems> {
    let refuse = |line, why, remedy| Problems { file: file.to_owned(), list: vec![Problem::new(line, why, remedy)] };
    if bytes.len() > longest {
        let why = format!("the file has {} bytes, more than the {longest} of any {what}", bytes.len());
        return Err(refuse(0, why, format!("name a {what} file")));
    }
    std::str::from_utf8(bytes).map_err(|why| {
        let line = bytes[..why.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        refuse(line, format!("not UTF-8 text: {why}"), format!("save the file as UTF-8, or name a {what} file"))
    })
}

/// Reads a text of a single layer; `take` returns `None` only after a mistake was recorded.
///
/// # Errors
/// Every mistake, with its line and what would be right.
pub fn read<T>(
    file: &str,
    text: &str,
    take: impl FnOnce(&mut Reader, &Section<'_>) -> Option<T>,
) -> Result<T, Problems> {
    let layer = Layer::parse(file, text)?;
    let mut reader = Reader::default();
    let taken = take(&mut reader, &Section::root(&[&layer]));
    reader.finish()?;
    let incomplete = || Problem::new(0, "the file is not complete", "compare it with one that is shipped");
    taken.ok_or_else(|| Problems { file: file.to_owned(), list: vec![incomplete()] })
}

/// A table as the layers have it, the first that says something counting.
#[derive(Clone)]
pub struct Section<'l> {
    /// Its path; empty for the top of a file.
    path: String,
    parts: Vec<(&'l Layer<'l>, &'l DeTable<'l>, usize)>,
}

impl<'l> Section<'l> {
    /// The whole of these layers, the first counting most.
    #[must_use]
    pub fn root(layers: &[&'l Layer<'l>]) -> Section<'l> {
        Section { path: String::new(), parts: layers.iter().map(|layer| (*layer, &layer.table, 0)).collect() }
    }

    /// This section over another: what it does not say, the other does.
    #[must_use]
    pub fn over(mut self, other: &Section<'l>) -> Section<'l> {
        self.parts.extend(other.parts.iter().copied());
        self
    }

    /// Whether a layer says something of the key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Whether a layer over that of the file `below` says something of the key.
    #[must_use]
    pub fn has_over(&self, below: &str, key: &str) -> bool {
        self.parts.iter().any(|(layer, table, _)| layer.file != below && table.contains_key(key))
    }

    /// Keys that any layer has.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<String> {
        self.entries().into_iter().map(|(key, ..)| key.to_owned()).collect()
    }

    /// Everything that the layers have, in the order in which each was typed.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry<'l>> {
        self.parts.iter().flat_map(|(layer, table, _)| layer.entries(table)).collect()
    }

    /// Its line; 0 for the top of a file, and for one that no layer has.
    #[must_use]
    pub fn line(&self) -> usize {
        self.parts.first().map_or(0, |(.., line)| *line)
    }

    /// The line of a key's value, or that of the section where it has no such key.
    #[must_use]
    pub fn line_of(&self, key: &str) -> usize {
        self.value(key).map_or_else(|| self.line(), |(layer, value)| layer.line(value.span().start))
    }

    /// A key's value as it was typed.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'l Spanned<DeValue<'l>>> {
        self.value(key).map(|(_, value)| value)
    }

    fn value(&self, key: &str) -> Option<(&'l Layer<'l>, &'l Spanned<DeValue<'l>>)> {
        let typed = |table: &'l DeTable<'l>| table.get(key).or_else(|| table.get(former::before_in(&self.path, key)?));
        self.parts.iter().find_map(|(layer, table, _)| Some((*layer, typed(table)?)))
    }

    fn child(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Where it is, for messages: " in [its path]", or nothing for the top of a file.
    #[must_use]
    pub fn inside(&self) -> String {
        if self.path.is_empty() { String::new() } else { format!(" in [{}]", self.path) }
    }
}

/// A number with a unit.
pub trait Quantity: FromStr<Err: Display> {
    /// One of them, as it is typed.
    const EXAMPLE: &'static str;
}

impl Quantity for Nanos {
    const EXAMPLE: &'static str = "5 s";
}

impl Quantity for Share {
    const EXAMPLE: &'static str = "10 %";
}

impl Quantity for Bytes {
    const EXAMPLE: &'static str = "32 KiB";
}

/// Reads sections and gathers what is wrong.
#[derive(Default)]
pub struct Reader {
    problems: Vec<(String, Problem)>,
}

impl Reader {
    /// Everything that was wrong in the file of the first mistake, by line; mistakes of other layers come when these are repaired.
    ///
    /// # Errors
    /// When something was.
    pub fn finish(self) -> Result<(), Problems> {
        let Some(file) = self.problems.first().map(|(file, _)| file.clone()) else { return Ok(()) };
        let own = self.problems.into_iter().filter(|(of, _)| *of == file);
        Err(Problems::listed(file.clone(), own.map(|(_, problem)| problem).collect()))
    }

    /// Everything that was wrong, each mistake with its file.
    #[must_use]
    pub fn into_problems(self) -> Vec<(String, Problem)> {
        distinct(self.problems)
    }

    /// How many mistakes there are so far.
    #[must_use]
    pub fn mistakes(&self) -> usize {
        self.problems.len()
    }

    /// Records a mistake.
    pub fn add(&mut self, file: &str, problem: Problem) {
        self.problems.push((file.to_owned(), problem));
    }

    /// Records a mistake at a key, or at the section where the key is not there.
    pub fn wrong(&mut self, section: &Section<'_>, key: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let layer = section.value(key).map(|(layer, _)| layer).or(section.parts.first().map(|(layer, ..)| *layer));
        let file = layer.map_or("", |layer| layer.file.as_str());
        self.add(file, Problem::new(section.line_of(key), what, remedy));
    }

    /// The table of that name in each layer.
    pub fn section<'l>(&mut self, parent: &Section<'l>, key: &str) -> Section<'l> {
        let mut parts = Vec::new();
        for (layer, table, _) in &parent.parts {
            parts.extend(table.get(key).and_then(|value| self.part(parent, layer, key, value, ["[", "]"])));
        }
        Section { path: parent.child(key), parts }
    }

    /// The tables in a list, each as a section; a single table is a list of one.
    pub fn sections<'l>(&mut self, parent: &Section<'l>, key: &str) -> Vec<Section<'l>> {
        let Some((layer, value)) = parent.value(key) else { return Vec::new() };
        let parts = list_of(value).iter().filter_map(|item| self.part(parent, layer, key, item, ["[[", "]]"]));
        parts.map(|part| Section { path: parent.child(key), parts: vec![part] }).collect()
    }

    fn part<'l>(
        &mut self,
        parent: &Section<'l>,
        layer: &'l Layer<'l>,
        key: &str,
        value: &'l Spanned<DeValue<'l>>,
        [open, close]: [&str; 2],
    ) -> Option<(&'l Layer<'l>, &'l DeTable<'l>, usize)> {
        let line = layer.line(value.span().start);
        if let Some(table) = value.get_ref().as_table() {
            return Some((layer, table, line));
        }
        let what = format!("'{key}' is {}, no section", with_article(value.get_ref().type_str()));
        let remedy = format!("write {open}{}{close} and keys below it", parent.child(key));
        self.add(&layer.file, Problem::new(line, what, remedy));
        None
    }

    /// Refuses keys that nobody knows.
    pub fn known(&mut self, section: &Section<'_>, keys: &[&str]) {
        for (layer, table, _) in &section.parts {
            for (key, line, _) in layer.entries(table).into_iter().filter(|(key, ..)| !keys.contains(key)) {
                let problem = match former::now_in(&section.path, key).filter(|now| keys.contains(now)) {
                    Some(now) if table.contains_key(now) => {
                        let what =
                            format!("'{key}' is the former name of '{now}', which is set{} too", section.inside());
                        Problem::new(line, what, "keep one of the two")
                    }
                    Some(_) => continue,
                    None => {
                        let what = format!("unknown key '{key}'{}", section.inside());
                        Problem::new(line, what, nearest(key, keys))
                    }
                };
                self.add(&layer.file, problem);
            }
        }
    }

    /// Refuses keys that neither the layer of the file `whole` has, which has every key with its default, nor `more`.
    pub fn known_by(&mut self, section: &Section<'_>, whole: &str, more: &[&str]) {
        let wholes = section.parts.iter().filter(|(layer, ..)| layer.file == whole);
        let keys = wholes.flat_map(|(layer, table, _)| layer.entries(table)).map(|(key, ..)| key);
        self.known(section, &keys.chain(more.iter().copied()).collect::<Vec<_>>());
    }

    /// Refuses keys that are neither `needed` nor `optional`, and the lack of those that are needed. A section that is not there at all was
    /// refused where it should be.
    pub fn keys(&mut self, section: &Section<'_>, needed: &[&str], optional: &[&str]) {
        self.known(section, &[needed, optional].concat());
        for key in needed.iter().filter(|key| !section.has(key) && !section.parts.is_empty()) {
            self.wrong(section, key, format!("'{key}' is missing{}", section.inside()), "add it");
        }
    }

    /// What `take` makes of a key's value; where that is nothing, `takes` says what would be right.
    pub fn typed<'l, T>(
        &mut self,
        section: &Section<'l>,
        key: &str,
        takes: &str,
        take: impl FnOnce(&'l DeValue<'l>) -> Option<T>,
    ) -> Option<T> {
        let (_, value) = section.value(key)?;
        let found = take(value.get_ref());
        if found.is_none() {
            let typed = shortened(literal(value.get_ref()));
            let what = format!("invalid {key} = {typed}{}", section.inside());
            self.wrong(section, key, what, format!("write {takes}"));
        }
        found
    }

    /// Text.
    pub fn text<'l>(&mut self, section: &Section<'l>, key: &str) -> Option<&'l str> {
        self.typed(section, key, "text in quotation marks", DeValue::as_str)
    }

    /// One text, or several.
    pub fn texts<'l>(&mut self, section: &Section<'l>, key: &str) -> Vec<&'l str> {
        let takes = "text in quotation marks, or a list of such";
        self.typed(section, key, takes, |value| all_of(value, DeValue::as_str)).unwrap_or_default()
    }

    /// The index of one word of `words`.
    pub fn choice(&mut self, section: &Section<'_>, key: &str, words: &[&str]) -> Option<usize> {
        let text = self.text(section, key)?;
        self.known_word(section, key, text, words)
    }

    /// The indices of one word of `words`, or of several.
    pub fn choices(&mut self, section: &Section<'_>, key: &str, words: &[&str]) -> Vec<usize> {
        let texts = self.texts(section, key);
        if texts.is_empty() && section.get(key).is_some_and(|value| value.get_ref().is_array()) {
            let what = format!("{key}{} is an empty list", section.inside());
            self.wrong(section, key, what, format!("write one or several of {}", words.join(", ")));
        }
        texts.into_iter().filter_map(|text| self.known_word(section, key, text, words)).collect()
    }

    fn known_word(&mut self, section: &Section<'_>, key: &str, text: &str, words: &[&str]) -> Option<usize> {
        let found = words.iter().position(|word| *word == text);
        if found.is_none() {
            let what = format!("{key} = '{text}'{} is not known", section.inside());
            self.wrong(section, key, what, nearest(text, words));
        }
        found
    }

    /// A quantity with its unit.
    pub fn quantity<T: Quantity>(&mut self, section: &Section<'_>, key: &str) -> Option<T> {
        let parsed = self.text(section, key)?.parse();
        let what = |why| format!("{key}{}: {why}", section.inside());
        parsed.map_err(|why| self.wrong(section, key, what(why), format!("write such as \"{}\"", T::EXAMPLE))).ok()
    }

    /// A duration in seconds.
    pub fn seconds(&mut self, section: &Section<'_>, key: &str) -> f64 {
        self.quantity::<Nanos>(section, key).map_or(0.0, Nanos::seconds)
    }

    /// A share of one.
    pub fn share(&mut self, section: &Section<'_>, key: &str) -> f64 {
        self.quantity::<Share>(section, key).map_or(0.0, |share| share.0)
    }

    /// A size in bytes.
    pub fn bytes(&mut self, section: &Section<'_>, key: &str) -> Option<u64> {
        self.quantity::<Bytes>(section, key).map(|bytes| bytes.0)
    }

    /// A number.
    pub fn number(&mut self, section: &Section<'_>, key: &str) -> Option<f64> {
        self.typed(section, key, "a number without quotation marks", number)
    }

    /// A whole number in a range.
    pub fn count(&mut self, section: &Section<'_>, key: &str, (least, most): (u64, u64)) -> Option<u64> {
        let takes = format!("a whole number from {least} to {most}");
        self.typed(section, key, &takes, |value| whole(value).filter(|number| (least..=most).contains(number)))
    }

    /// One whole number in a range, or several.
    pub fn counts(&mut self, section: &Section<'_>, key: &str, (least, most): (u64, u64)) -> Option<Vec<u64>> {
        let takes = format!("a whole number from {least} to {most}, or a list of such");
        let one = |value: &DeValue<'_>| whole(value).filter(|number| (least..=most).contains(number));
        self.typed(section, key, &takes, |value| all_of(value, one))
    }

    /// `true` or `false`.
    pub fn switch(&mut self, section: &Section<'_>, key: &str) -> Option<bool> {
        self.typed(section, key, "true or false", DeValue::as_bool)
    }

    /// Values of knobs, each from the first layer that has it.
    pub fn values(&mut self, knobs: &[Knob], section: &Section<'_>) -> BTreeMap<String, Value> {
        let mut values = BTreeMap::new();
        for knob in knobs {
            let Some((_, typed)) = section.value(knob.key) else { continue };
            match knob.read(typed.get_ref()) {
                Ok(value) => drop(values.insert(knob.key.to_owned(), value)),
                Err(misfit) => self.wrong(section, knob.key, misfit.what, misfit.remedy),
            }
        }
        values
    }
}

/// As much of a value as a message has room for.
fn shortened(mut text: String) -> String {
    const MOST: usize = 60;
    if let Some((end, _)) = text.char_indices().nth(MOST) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// The values of a list; anything else is a list of one.
#[must_use]
pub fn list_of<'t>(value: &'t Spanned<DeValue<'t>>) -> &'t [Spanned<DeValue<'t>>] {
    value.get_ref().as_array().map_or(std::slice::from_ref(value), |list| list)
}

/// What `take` makes of a value, or of each in a list; `None` where it makes nothing of one.
pub fn all_of<'t, T>(value: &'t DeValue<'t>, take: impl Fn(&'t DeValue<'t>) -> Option<T>) -> Option<Vec<T>> {
    match value.as_array() {
        Some(list) => list.iter().map(|item| take(item.get_ref())).collect(),
        None => Some(vec![take(value)?]),
    }
}

/// A finite decimal number.
#[must_use]
pub fn number(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => return None,
    };
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    value.as_integer().and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok())
}
