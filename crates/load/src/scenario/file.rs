//! Reads scenario files: TOML in, a [`Scenario`] that holds together or every mistake with its line out.
//!
//! ```toml
//! [scenario]
//! title = "a shop"
//! base = "http://127.0.0.1:8080"     # or given on the command line
//! start = "home"
//! cycle = "5 s"                      # mean; cycle_deviation = "25 %", cycle_most = "50 %"
//! cookies = true
//!
//! [variables]
//! name = "user{user}"
//!
//! [operations.home]
//! limit = "2 s"
//! next = "browse"
//! [[operations.home.requests]]
//! get = "/"
//! extract = [{ into = "item", json = "items[*].id", pick = "random" }]
//!
//! [choices]
//! browse = [{ to = "buy", chance = "10 %", when = [{ variable = "item", is_set = true }] }, { to = "home", weight = 3 }]
//! ```
//!
//! Places `{variable}`, `{user}`, `{serial}`, `{random}` and `{each}` stand in paths, headers, bodies and values.

use super::{
    Candidate, Change, Condition, Cycle, Delay, Extract, Follow, JsonPath, Next, Operation, Pick, Piece, Request,
    Scenario, Source, Stream, Test,
};
use crate::template::{Escape, Template};
use crate::url;
use baremark_model::problem::{Problem, Problems, nearest};
use baremark_model::units::{Bytes, Nanos, Share};
use regex_lite::Regex;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest scenario file, in bytes.
pub const LONGEST: usize = 4 << 20;
/// The most operations, choices, follows or variables.
const MOST_NAMES: usize = 10_000;
/// The most bytes that a request's body may have as written in a file.
const LONGEST_BODY: u64 = 64 << 20;
/// Mistakes that are listed.
const MOST_PROBLEMS: usize = 50;

/// Parses a scenario. `file` is its name in messages; `base` stands for the file's `base` when given; files that requests
/// upload are looked for beside `folder`.
///
/// # Errors
/// Every problem found, with its line and what would be right.
pub fn parse(file: &str, bytes: &[u8], base: Option<&str>, folder: &Path) -> Result<Scenario, Problems> {
    let refuse = |list| Err(Problems { file: file.to_owned(), list });
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= LONGEST => text,
        Ok(_) => return refuse(vec![Problem::new(0, "the file is longer than 4 MiB", "name a scenario file")]),
        Err(why) => return refuse(vec![Problem::new(0, format!("not UTF-8 text: {why}"), "save the file as UTF-8")]),
    };
    let breaks: Vec<usize> = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(why) => {
            let line = why.span().map_or(1, |span| breaks.partition_point(|&end| end < span.start) + 1);
            return refuse(vec![Problem::new(
                line,
                why.message().to_owned(),
                "write key = value, text in quotation marks",
            )]);
        }
    };
    let root = Table { entries: document.get_ref(), line: 1, what: "the file" };
    let mut reader = Reader { breaks, problems: Vec::new(), names: Names::default(), folder };
    let scenario = reader.scenario(&root, base);
    match scenario {
        Some(scenario) if reader.problems.is_empty() => Ok(scenario),
        _ => {
            reader.problems.sort_by_key(|problem| problem.line);
            reader.problems.truncate(MOST_PROBLEMS);
            refuse(reader.problems)
        }
    }
}

#[derive(Default)]
struct Names {
    operations: Vec<String>,
    choices: Vec<String>,
    follows: Vec<String>,
    variables: Vec<String>,
    origins: Vec<(String, url::Origin)>,
}

#[derive(Clone, Copy)]
struct Table<'t> {
    entries: &'t DeTable<'t>,
    line: usize,
    what: &'t str,
}

struct Reader<'f> {
    breaks: Vec<usize>,
    problems: Vec<Problem>,
    names: Names,
    folder: &'f Path,
}

type Value<'t> = &'t Spanned<DeValue<'t>>;

const METHODS: [&str; 7] = ["get", "post", "put", "delete", "patch", "head", "options"];
const REQUEST: &[&str] = &[
    "get",
    "post",
    "put",
    "delete",
    "patch",
    "head",
    "options",
    "origin",
    "headers",
    "bearer",
    "body",
    "content_type",
    "form",
    "json",
    "multipart",
    "expect",
    "extract",
    "events",
    "events_for",
    "delay",
    "timeout",
    "each",
    "at_most",
];

impl Reader<'_> {
    fn line(&self, value: Value<'_>) -> usize {
        self.breaks.partition_point(|&end| end < value.span().start) + 1
    }

    fn wrong(&mut self, line: usize, what: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(Problem::new(line, what, remedy));
    }

    fn known(&mut self, table: Table<'_>, keys: &[&str]) {
        for (key, value) in table.entries {
            let key = key.get_ref();
            if !keys.contains(&key.as_ref()) {
                let line = self.line(value);
                self.wrong(line, format!("{} has no '{key}'", table.what), nearest(key, keys));
            }
        }
    }

    fn text<'t>(&mut self, table: Table<'t>, key: &str) -> Option<(&'t str, usize)> {
        let value = table.entries.get(key)?;
        let line = self.line(value);
        if let DeValue::String(text) = value.get_ref() {
            return Some((text.as_ref(), line));
        }
        self.wrong(line, format!("'{key}' is no text"), "write text in quotation marks");
        None
    }

    fn read<T: std::str::FromStr<Err: std::fmt::Display>>(&mut self, table: Table<'_>, key: &str) -> Option<T> {
        let (text, line) = self.text(table, key)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(why) => {
                self.wrong(line, format!("{key}: {why}"), "write such as \"5 s\", \"10 %\" or \"4 KiB\"");
                None
            }
        }
    }

    fn number(&mut self, table: Table<'_>, key: &str) -> Option<f64> {
        let value = table.entries.get(key)?;
        let line = self.line(value);
        let number = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| number.is_finite());
        if number.is_none() {
            self.wrong(line, format!("'{key}' is no number"), "write a number without quotation marks");
        }
        number
    }

    fn count(&mut self, table: Table<'_>, key: &str, most: u32) -> Option<u32> {
        let number = self.number(table, key)?;
        if (1.0..=f64::from(most)).contains(&number) && number.fract() == 0.0 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
            return Some(number as u32);
        }
        let line = table.entries.get(key).map_or(table.line, |value| self.line(value));
        self.wrong(line, format!("{key} = {number} is out of range"), format!("write a whole number from 1 to {most}"));
        None
    }

    fn switch(&mut self, table: Table<'_>, key: &str) -> Option<bool> {
        let value = table.entries.get(key)?;
        if let DeValue::Boolean(on) = value.get_ref() {
            return Some(*on);
        }
        let line = self.line(value);
        self.wrong(line, format!("'{key}' is neither true nor false"), "write true or false");
        None
    }

    fn table<'t>(&mut self, parent: Table<'t>, key: &str, what: &'t str) -> Option<Table<'t>> {
        let value = parent.entries.get(key)?;
        self.as_table(value, what)
    }

    fn as_table<'t>(&mut self, value: Value<'t>, what: &'t str) -> Option<Table<'t>> {
        let line = self.line(value);
        if let DeValue::Table(entries) = value.get_ref() {
            return Some(Table { entries, line, what });
        }
        self.wrong(line, format!("{what} is no table"), "write { key = value }");
        None
    }

    /// The tables in a list; a single table is a list of one.
    fn tables<'t>(&mut self, parent: Table<'t>, key: &str, what: &'t str) -> Vec<Table<'t>> {
        match parent.entries.get(key).map(|value| (value, value.get_ref())) {
            None => Vec::new(),
            Some((_, DeValue::Array(list))) => list.iter().filter_map(|value| self.as_table(value, what)).collect(),
            Some((value, _)) => self.as_table(value, what).into_iter().collect(),
        }
    }

    /// The texts in a list; a single text is a list of one.
    fn texts<'t>(&mut self, parent: Table<'t>, key: &str) -> Vec<(&'t str, usize)> {
        let Some(value) = parent.entries.get(key) else { return Vec::new() };
        let single = std::slice::from_ref(value);
        let list: &[Spanned<DeValue<'t>>] = if let DeValue::Array(list) = value.get_ref() { list } else { single };
        let mut texts = Vec::new();
        for value in list {
            let line = self.line(value);
            match value.get_ref() {
                DeValue::String(text) => texts.push((text.as_ref(), line)),
                _ => self.wrong(line, format!("'{key}' holds what is no text"), "write text in quotation marks"),
            }
        }
        texts
    }

    fn template(&mut self, text: &str, line: usize) -> Template {
        let names = &self.names.variables;
        let find = |name: &str| -> Result<usize, String> {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            names
                .iter()
                .position(|known| known == name)
                .ok_or_else(|| format!("no variable is '{name}': {}", nearest(name, &known)))
        };
        match Template::parse::<String>(text, find) {
            Ok(template) => template,
            Err(why) => {
                self.wrong(line, why, "extract or set the variable somewhere; write {{ and }} for braces");
                Template::default()
            }
        }
    }

    fn variable(&mut self, text: &str, line: usize) -> usize {
        if let Some(index) = self.names.variables.iter().position(|name| name == text) {
            return index;
        }
        let known: Vec<&str> = self.names.variables.iter().map(String::as_str).collect();
        let remedy = nearest(text, &known);
        self.wrong(line, format!("no variable is '{text}'"), remedy);
        0
    }

    fn named_variable(&mut self, table: Table<'_>, key: &str) -> usize {
        match self.text(table, key) {
            Some((text, line)) => self.variable(text, line),
            None => {
                self.wrong(table.line, format!("{} has no '{key}'", table.what), format!("add {key} = \"VARIABLE\""));
                0
            }
        }
    }

    fn index(&mut self, kind: &str, name: &str, line: usize) -> usize {
        let names = match kind {
            "operation" => &self.names.operations,
            "follow" => &self.names.follows,
            _ => &self.names.choices,
        };
        if let Some(index) = names.iter().position(|known| known == name) {
            return index;
        }
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let remedy = nearest(name, &known);
        self.wrong(line, format!("no {kind} is '{name}'"), remedy);
        0
    }

    fn scenario(&mut self, root: &Table<'_>, base: Option<&str>) -> Option<Scenario> {
        self.known(*root, &["scenario", "origins", "variables", "operations", "choices", "follows"]);
        let head = self.table(*root, "scenario", "[scenario]");
        let empty = DeTable::new();
        let head = head.unwrap_or(Table { entries: &empty, line: 0, what: "[scenario]" });
        let keys = ["title", "base", "start", "cycle", "cycle_deviation", "cycle_most", "cookies"];
        self.known(head, &keys);
        self.origins(*root, head, base);
        let operations = self.named(*root, "operations");
        let choices = self.named(*root, "choices");
        let follows = self.named(*root, "follows");
        self.names.operations = operations.iter().map(|(name, _)| name.clone()).collect();
        self.names.choices = choices.iter().map(|(name, _)| name.clone()).collect();
        self.names.follows = follows.iter().map(|(name, _)| name.clone()).collect();
        self.collect_variables(*root, &operations);
        if operations.is_empty() {
            self.wrong(0, "the scenario has no operations", "add [operations.NAME] with [[operations.NAME.requests]]");
            return None;
        }
        if [&operations, &choices, &follows].iter().any(|list| list.len() > MOST_NAMES) {
            self.wrong(0, "the scenario has over 10,000 names", "make it smaller");
            return None;
        }
        let start = self.text(head, "start").map_or(0, |(name, line)| self.index("operation", name, line));
        let initial = self.settings(*root, "variables");
        let cookies = self.switch(head, "cookies").unwrap_or(true);
        let cycle = self.cycle(head);
        let operations = operations.iter().enumerate().filter_map(|(at, (name, value))| {
            let table = self.as_table(value, "the operation")?;
            Some(self.operation(name, table, at, start))
        });
        let operations: Vec<Operation> = operations.collect();
        let choices: Vec<Vec<Candidate>> = choices.iter().map(|(_, value)| self.choice(value)).collect();
        let follows: Vec<Follow> = follows
            .iter()
            .filter_map(|(_, value)| {
                let table = self.as_table(value, "the follow")?;
                Some(self.follow(table))
            })
            .collect();
        self.refuse_circles(&choices);
        let mut scenario = Scenario {
            title: self.text(head, "title").map_or("scenario", |(text, _)| text).to_owned(),
            origins: self.names.origins.iter().map(|(_, origin)| origin.clone()).collect(),
            variables: self.names.variables.clone(),
            initial,
            operations,
            choices,
            follows,
            start,
            cycle,
            cookies,
        };
        if !self.problems.is_empty() {
            return None;
        }
        for request in scenario.operations.iter_mut().flat_map(|operation| &mut operation.requests) {
            request.fix(&scenario.origins[request.origin], &[]);
        }
        Some(scenario)
    }

    fn named<'t>(&mut self, root: Table<'t>, key: &str) -> Vec<(String, Value<'t>)> {
        let Some(table) = self.table(root, key, "the section") else { return Vec::new() };
        let mut all: Vec<(String, Value<'t>)> =
            table.entries.iter().map(|(name, value)| (name.get_ref().to_string(), value)).collect();
        // In the order of the file, so that the first operation is the first of the file.
        all.sort_by_key(|(_, value)| value.span().start);
        all
    }

    fn origins(&mut self, root: Table<'_>, head: Table<'_>, base: Option<&str>) {
        let typed = self.text(head, "base");
        match base.map(|text| (text, 0)).or(typed) {
            Some((text, line)) => self.origin("base", text, line),
            None => self.wrong(head.line, "the scenario goes nowhere", "add base = \"http://...\" or name a URL"),
        }
        for (name, value) in self.named(root, "origins") {
            let line = self.line(value);
            match value.get_ref() {
                DeValue::String(text) => self.origin(&name, text, line),
                _ => self.wrong(line, format!("the origin '{name}' is no text"), "write NAME = \"http://...\""),
            }
        }
    }

    fn origin(&mut self, name: &str, text: &str, line: usize) {
        match url::parse(text) {
            Ok((origin, _)) => self.names.origins.push((name.to_owned(), origin)),
            Err(why) => self.wrong(line, why.to_string(), "name the server"),
        }
    }

    /// Every variable is one that something gives a value to.
    fn collect_variables(&mut self, root: Table<'_>, operations: &[(String, Value<'_>)]) {
        let mut names: Vec<String> = Vec::new();
        let add = |names: &mut Vec<String>, name: &str| {
            if names.len() < MOST_NAMES && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        };
        for key in root.entries.get("variables").into_iter().filter_map(|value| table_in(value)).flat_map(keys_of) {
            add(&mut names, &key);
        }
        for (_, value) in operations {
            let Some(operation) = table_in(value) else { continue };
            for changes in ["set", "add", "draw"] {
                for key in operation.get(changes).and_then(table_in).into_iter().flat_map(keys_of) {
                    add(&mut names, &key);
                }
            }
            for request in operation.get("requests").into_iter().flat_map(list_in).filter_map(table_in) {
                for extract in request.get("extract").into_iter().flat_map(list_in).filter_map(table_in) {
                    if let Some(DeValue::String(name)) = extract.get("into").map(Spanned::get_ref) {
                        add(&mut names, name);
                    }
                }
            }
        }
        self.names.variables = names;
    }

    fn settings(&mut self, parent: Table<'_>, key: &str) -> Vec<(usize, Template)> {
        let mut settings = Vec::new();
        for (name, value) in self.named(parent, key) {
            let line = self.line(value);
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.as_str().to_owned(),
                _ => {
                    self.wrong(line, format!("'{name}' is no text"), "write text in quotation marks");
                    continue;
                }
            };
            let variable = self.variable(&name, line);
            settings.push((variable, self.template(&text, line)));
        }
        settings
    }

    fn cycle(&mut self, head: Table<'_>) -> Option<Cycle> {
        let mean: Nanos = self.read(head, "cycle")?;
        let deviation: Share = self.read(head, "cycle_deviation").unwrap_or(Share(0.25));
        let most: Share = self.read(head, "cycle_most").unwrap_or(Share(0.5));
        if mean.0 == 0 || most.0 > 1.0 {
            self.wrong(head.line, "the cycle cannot be kept", "write a cycle above 0 and cycle_most of at most 100 %");
        }
        Some(Cycle { mean, deviation: deviation.0, most: most.0 })
    }

    fn operation(&mut self, name: &str, table: Table<'_>, at: usize, start: usize) -> Operation {
        let keys = [
            "weight",
            "limit",
            "think",
            "next",
            "on_failure",
            "requests",
            "set",
            "unset",
            "add",
            "draw",
            "begin",
            "end",
        ];
        self.known(table, &keys);
        let requests = self.tables(table, "requests", "the request");
        if requests.is_empty() {
            self.wrong(table.line, format!("operation '{name}' has no requests"), "add [[operations.NAME.requests]]");
        }
        let next = match self.text(table, "next") {
            Some((text, line)) => self.next(text, line),
            None => Next::Operation(at),
        };
        Operation {
            name: name.to_owned(),
            weight: self.number(table, "weight").unwrap_or(0.0).max(0.0),
            limit: self.read(table, "limit"),
            think: self.read(table, "think"),
            requests: requests.into_iter().map(|request| self.request(request)).collect(),
            next,
            on_failure: self
                .text(table, "on_failure")
                .map_or(start, |(text, line)| self.index("operation", text, line)),
            changes: self.changes(table),
            begin: self
                .texts(table, "begin")
                .into_iter()
                .map(|(text, line)| self.index("follow", text, line))
                .collect(),
            end: self.texts(table, "end").into_iter().map(|(text, line)| self.index("follow", text, line)).collect(),
        }
    }

    fn next(&mut self, text: &str, line: usize) -> Next {
        if let Some(operation) = self.names.operations.iter().position(|name| name == text) {
            return Next::Operation(operation);
        }
        if let Some(choice) = self.names.choices.iter().position(|name| name == text) {
            return Next::Choice(choice);
        }
        let known: Vec<&str> = self.names.operations.iter().chain(&self.names.choices).map(String::as_str).collect();
        let remedy = nearest(text, &known);
        self.wrong(line, format!("no operation or choice is '{text}'"), remedy);
        Next::Operation(0)
    }

    fn changes(&mut self, table: Table<'_>) -> Vec<Change> {
        let mut changes: Vec<Change> = self
            .settings(table, "set")
            .into_iter()
            .map(|(variable, template)| Change::Set(variable, template))
            .collect();
        for (text, line) in self.texts(table, "unset") {
            changes.push(Change::Unset(self.variable(text, line)));
        }
        if let Some(adds) = self.table(table, "add", "'add'") {
            for (name, value) in adds.entries {
                let line = self.line(value);
                let variable = self.variable(name.get_ref(), line);
                let by = self.number(adds, name.get_ref()).unwrap_or(0.0);
                changes.push(Change::Add(variable, by));
            }
        }
        for (name, value) in self.named(table, "draw") {
            let Some(draw) = self.as_table(value, "the draw") else { continue };
            self.known(draw, &["from", "mean", "deviation", "least", "most", "decimals"]);
            let limits =
                (self.number(draw, "least").unwrap_or(f64::MIN), self.number(draw, "most").unwrap_or(f64::MAX));
            changes.push(Change::Draw {
                variable: self.variable(&name, draw.line),
                from: self.named_variable(draw, "from"),
                mean: self.number(draw, "mean").unwrap_or(1.0),
                deviation: self.number(draw, "deviation").unwrap_or(0.0),
                limits,
                decimals: self.count(draw, "decimals", 9).unwrap_or(0) as usize,
            });
        }
        changes
    }

    fn choice(&mut self, value: Value<'_>) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for value in list_in(value) {
            let Some(table) = self.as_table(value, "the candidate") else { continue };
            self.known(table, &["to", "chance", "weight", "when"]);
            let Some((to, line)) = self.text(table, "to") else {
                self.wrong(table.line, "a candidate leads nowhere", "add to = \"OPERATION\"");
                continue;
            };
            let to = self.next(to, line);
            let when = self.conditions(table, "when");
            let chance = self.read::<Share>(table, "chance").map(|share| share.0);
            let weight = self.number(table, "weight");
            // With a condition and nothing else, it is taken whenever the condition holds.
            let chance = chance.or((weight.is_none() && !when.is_empty()).then_some(1.0));
            candidates.push(Candidate { to, when, chance, weight: weight.unwrap_or(1.0).max(0.0) });
        }
        candidates
    }

    fn conditions(&mut self, parent: Table<'_>, key: &str) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for table in self.tables(parent, key, "the condition") {
            self.known(table, &["variable", "is", "is_not", "below", "at_least", "is_set"]);
            let variable = self.named_variable(table, "variable");
            let before = conditions.len();
            if let Some((text, line)) = self.text(table, "is") {
                conditions.push(Condition { variable, test: Test::Is(self.template(text, line)) });
            }
            if let Some((text, line)) = self.text(table, "is_not") {
                conditions.push(Condition { variable, test: Test::IsNot(self.template(text, line)) });
            }
            if let Some(limit) = self.number(table, "below") {
                conditions.push(Condition { variable, test: Test::Below(limit) });
            }
            if let Some(limit) = self.number(table, "at_least") {
                conditions.push(Condition { variable, test: Test::AtLeast(limit) });
            }
            if let Some(set) = self.switch(table, "is_set") {
                conditions.push(Condition { variable, test: if set { Test::Set } else { Test::Unset } });
            }
            if conditions.len() == before {
                self.wrong(table.line, "a condition tests nothing", "add is, is_not, below, at_least or is_set");
            }
        }
        conditions
    }

    fn follow(&mut self, table: Table<'_>) -> Follow {
        self.known(table, &["operations", "until", "tell", "pause"]);
        let named = self.texts(table, "operations");
        if named.is_empty() {
            self.wrong(table.line, "a follow has no operations", "add operations = [\"NAME\"]");
        }
        Follow {
            operations: named.into_iter().map(|(text, line)| self.index("operation", text, line)).collect(),
            until: self.conditions(table, "until"),
            tell: self.texts(table, "tell").into_iter().map(|(text, line)| self.variable(text, line)).collect(),
            pause: self.read(table, "pause").unwrap_or(Nanos(0)),
        }
    }

    fn request(&mut self, table: Table<'_>) -> Request {
        self.known(table, REQUEST);
        let methods: Vec<&str> = METHODS.into_iter().filter(|method| table.entries.contains_key(*method)).collect();
        let [method] = methods[..] else {
            self.wrong(table.line, "a request has not exactly one method", "write such as get = \"/path\"");
            return Request::new(0, "GET", Template::default());
        };
        let (path, line) = self.text(table, method).unwrap_or(("/", table.line));
        if !path.starts_with('/') && !path.starts_with('{') {
            self.wrong(line, format!("the path '{path}' does not start at the root"), "write such as get = \"/path\"");
        }
        let path = self.template(path, line);
        let origin = self.text(table, "origin").map_or(0, |(name, line)| self.request_origin(name, line));
        let mut request = Request::new(origin, &method.to_ascii_uppercase(), path);
        self.headers(table, &mut request);
        self.body(table, &mut request);
        request.expect = self.statuses(table);
        request.extract =
            self.tables(table, "extract", "the extract").into_iter().map(|one| self.extract(one)).collect();
        let events = self.count(table, "events", 1_000_000_000);
        let lasting = self.read(table, "events_for");
        if events.is_some() || lasting.is_some() {
            request.events = Some(Stream { most: events.map_or(u64::MAX, u64::from), lasting });
        }
        request.delay = self.table(table, "delay", "the delay").map(|delay| self.delay(delay));
        request.timeout = self.read(table, "timeout");
        let most = self.count(table, "at_most", 10_000).unwrap_or(10_000) as usize;
        request.each = self.text(table, "each").map(|(text, line)| (self.variable(text, line), most));
        request
    }

    fn request_origin(&mut self, name: &str, line: usize) -> usize {
        if let Some(index) = self.names.origins.iter().position(|(known, _)| known == name) {
            return index;
        }
        let known: Vec<&str> = self.names.origins.iter().map(|(known, _)| known.as_str()).collect();
        let remedy = nearest(name, &known);
        self.wrong(line, format!("no origin is '{name}'"), remedy);
        0
    }

    fn headers(&mut self, table: Table<'_>, request: &mut Request) {
        if let Some(headers) = self.table(table, "headers", "'headers'") {
            for (name, _) in headers.entries {
                let Some((text, line)) = self.text(headers, name.get_ref()) else { continue };
                let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
                if name.get_ref().is_empty() || !name.get_ref().bytes().all(token) {
                    self.wrong(
                        line,
                        format!("'{}' is no name of a header", name.get_ref()),
                        "write such as accept = \"text/html\"",
                    );
                }
                let value = self.template(text, line);
                request.headers.push((name.get_ref().to_string(), value));
            }
        }
        if let Some((token, line)) = self.text(table, "bearer") {
            let value = self.template(&format!("Bearer {token}"), line);
            request.headers.push(("Authorization".to_owned(), value));
        }
    }

    fn statuses(&mut self, table: Table<'_>) -> Vec<u16> {
        let mut statuses = Vec::new();
        for value in table.entries.get("expect").into_iter().flat_map(list_in) {
            let status = match value.get_ref() {
                DeValue::Integer(number) => number.as_str().parse().ok().filter(|status| (200..1000).contains(status)),
                _ => None,
            };
            let line = self.line(value);
            match status {
                Some(status) => statuses.push(status),
                None => self.wrong(line, "'expect' holds what is no status", "write such as expect = [200, 404]"),
            }
        }
        statuses
    }

    fn body(&mut self, table: Table<'_>, request: &mut Request) {
        let kinds: Vec<&str> = ["body", "form", "json", "multipart"]
            .into_iter()
            .filter(|kind| table.entries.contains_key(*kind))
            .collect();
        if kinds.len() > 1 {
            self.wrong(
                table.line,
                format!("a request has {} bodies", kinds.len()),
                "keep one of body, form, json, multipart",
            );
        }
        let mut pieces = Vec::new();
        let default = match kinds.first() {
            Some(&"body") => {
                if let Some((text, line)) = self.text(table, "body") {
                    pieces.push(Piece::Text(self.template(text, line), Escape::None));
                }
                "text/plain; charset=utf-8"
            }
            Some(&"form") => {
                for (index, (name, value)) in self.named(table, "form").into_iter().enumerate() {
                    let line = self.line(value);
                    let mut key = Vec::new();
                    Escape::Form.append(&name, &mut key);
                    let key = String::from_utf8_lossy(&key).into_owned();
                    pieces.push(plain(&format!("{}{key}=", if index > 0 { "&" } else { "" })));
                    match value.get_ref() {
                        DeValue::String(text) => {
                            let value = self.template(text, line).escaped(Escape::Form);
                            pieces.push(Piece::Text(value, Escape::Form));
                        }
                        _ => {
                            self.wrong(line, format!("the field '{name}' is no text"), "write text in quotation marks")
                        }
                    }
                }
                "application/x-www-form-urlencoded"
            }
            Some(&"json") => {
                if let Some(value) = table.entries.get("json") {
                    self.json(value, &mut pieces);
                }
                "application/json"
            }
            Some(_) => {
                self.multipart(table, &mut pieces);
                "multipart/form-data; boundary=baremark-7f3b9c1e5a2d4860"
            }
            None if ["POST", "PUT", "PATCH"].contains(&request.method.as_str()) => {
                // A request of these methods says that it has none.
                request.body = Some(Vec::new());
                return;
            }
            None => return,
        };
        request.content_type = Some(self.text(table, "content_type").map_or(default, |(text, _)| text).to_owned());
        request.body = Some(pieces);
    }

    fn json(&mut self, value: Value<'_>, pieces: &mut Vec<Piece>) {
        let line = self.line(value);
        match value.get_ref() {
            DeValue::String(text) => {
                pieces.push(plain("\""));
                pieces.push(Piece::Text(self.template(text, line).escaped(Escape::Json), Escape::Json));
                pieces.push(plain("\""));
            }
            DeValue::Integer(number) => pieces.push(plain(number.as_str())),
            DeValue::Float(number) => pieces.push(plain(number.as_str())),
            DeValue::Boolean(on) => pieces.push(plain(if *on { "true" } else { "false" })),
            DeValue::Datetime(moment) => pieces.push(plain(&format!("\"{moment}\""))),
            DeValue::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    pieces.push(plain(if index == 0 { "[" } else { "," }));
                    self.json(value, pieces);
                }
                pieces.push(plain(if list.is_empty() { "[]" } else { "]" }));
            }
            DeValue::Table(entries) => {
                let single = entries.len() == 1;
                if let Some(DeValue::String(text)) = entries.get("number").map(Spanned::get_ref).filter(|_| single) {
                    // { number = "{amount}" }: a variable's value without quotation marks.
                    pieces.push(Piece::Text(self.template(text, line), Escape::None));
                    return;
                }
                for (index, (key, value)) in entries.iter().enumerate() {
                    let mut name = Vec::new();
                    Escape::Json.append(key.get_ref(), &mut name);
                    let name = String::from_utf8_lossy(&name).into_owned();
                    pieces.push(plain(&format!("{}\"{name}\":", if index == 0 { "{" } else { "," })));
                    self.json(value, pieces);
                }
                pieces.push(plain(if entries.is_empty() { "{}" } else { "}" }));
            }
        }
    }

    fn multipart(&mut self, table: Table<'_>, pieces: &mut Vec<Piece>) {
        const BOUNDARY: &str = "baremark-7f3b9c1e5a2d4860";
        for part in self.tables(table, "multipart", "the part") {
            self.known(part, &["name", "text", "file", "size", "filename", "content_type"]);
            let (name, line) = self.text(part, "name").unwrap_or(("", part.line));
            if name.is_empty() || name.contains(['"', '\r', '\n']) {
                self.wrong(line, "a part has no name", "add name = \"FIELD\"");
            }
            let mut head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"");
            if let Some((filename, _)) = self.text(part, "filename") {
                head.push_str(&format!("; filename=\"{}\"", filename.replace(['"', '\r', '\n'], "_")));
            }
            if let Some((kind, _)) = self.text(part, "content_type") {
                head.push_str(&format!("\r\nContent-Type: {}", kind.replace(['\r', '\n'], " ")));
            }
            pieces.push(plain(&format!("{head}\r\n\r\n")));
            if let Some((text, line)) = self.text(part, "text") {
                pieces.push(Piece::Text(self.template(text, line), Escape::None));
            } else if let Some((file, line)) = self.text(part, "file") {
                pieces.push(self.upload(file, line));
            } else if let Some(size) = self.read::<Bytes>(part, "size") {
                if size.0 > LONGEST_BODY {
                    self.wrong(part.line, format!("a part of {size}"), "write at most 64 MiB");
                }
                pieces.push(Piece::Bytes(filler(size.0.min(LONGEST_BODY)).into()));
            } else {
                self.wrong(part.line, format!("the part '{name}' is empty"), "add text, file or size");
            }
            pieces.push(plain("\r\n"));
        }
        pieces.push(plain(&format!("--{BOUNDARY}--\r\n")));
    }

    fn upload(&mut self, file: &str, line: usize) -> Piece {
        let path = self.folder.join(file);
        match std::fs::metadata(&path).and_then(|facts| {
            if facts.len() > LONGEST_BODY {
                Err(std::io::Error::other("it is over 64 MiB"))
            } else {
                std::fs::read(&path)
            }
        }) {
            Ok(bytes) => Piece::Bytes(bytes.into()),
            Err(why) => {
                self.wrong(line, format!("cannot read {}: {why}", path.display()), "name a file beside the scenario");
                Piece::Bytes(Arc::from([]))
            }
        }
    }

    fn extract(&mut self, table: Table<'_>) -> Extract {
        self.known(table, &["into", "json", "regex", "header", "pick", "optional"]);
        let variable = self.named_variable(table, "into");
        let json = self.text(table, "json").map(|(text, line)| (JsonPath::parse(text), text, line));
        let source = if let Some((path, text, line)) = json {
            if path.is_none() {
                self.wrong(line, format!("'{text}' is no path"), "write such as items[*].id or user.name");
            }
            path.map(Source::Json)
        } else if let Some((text, line)) = self.text(table, "regex") {
            match Regex::new(text) {
                Ok(regex) => Some(Source::Regex(regex)),
                Err(why) => {
                    self.wrong(line, format!("'{text}' is no regular expression: {why}"), "mend it");
                    None
                }
            }
        } else if let Some((text, _)) = self.text(table, "header") {
            Some(Source::Header(text.to_owned()))
        } else {
            self.wrong(table.line, "an extract looks nowhere", "add json, regex or header");
            None
        };
        let picks = [
            ("first", Pick::First),
            ("last", Pick::Last),
            ("random", Pick::Random),
            ("all", Pick::All),
            ("count", Pick::Count),
        ];
        let pick = match self.text(table, "pick") {
            None => Pick::First,
            Some((text, line)) => match picks.iter().find(|(name, _)| *name == text) {
                Some((_, pick)) => *pick,
                None => {
                    self.wrong(
                        line,
                        format!("pick = '{text}' is not known"),
                        nearest(text, &picks.map(|(name, _)| name)),
                    );
                    Pick::First
                }
            },
        };
        let optional = self.switch(table, "optional").unwrap_or(false);
        let source = source.unwrap_or_else(|| Source::Header(String::new()));
        Extract { variable, source, pick, optional }
    }

    fn delay(&mut self, table: Table<'_>) -> Delay {
        self.known(table, &["json", "unit", "limit"]);
        let (text, line) = self.text(table, "json").unwrap_or(("", table.line));
        let path = JsonPath::parse(text).filter(|_| !text.is_empty());
        if path.is_none() {
            self.wrong(line, "a delay needs the path of a time", "add json = \"placed_at\"");
        }
        let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)];
        let unit = self.text(table, "unit").map_or("ms", |(text, _)| text);
        let found = units.iter().find(|(name, _)| *name == unit);
        if found.is_none() {
            self.wrong(table.line, format!("unit = '{unit}' is not known"), "write s, ms, us or ns since 1970");
        }
        let path = path.unwrap_or(JsonPath(Vec::new()));
        Delay { path, unit_ns: found.map_or(1e6, |(_, ns)| *ns), limit: self.read(table, "limit") }
    }

    /// A choice that can lead back to itself without an operation would never end.
    fn refuse_circles(&mut self, choices: &[Vec<Candidate>]) {
        let mut settled = vec![false; choices.len()];
        // Whatever leads only to operations and settled choices is settled; what never settles is in a circle.
        for _ in 0..choices.len() {
            let before = settled.clone();
            for (index, candidates) in choices.iter().enumerate() {
                let open = |one: &Candidate| matches!(one.to, Next::Choice(other) if !settled[other]);
                settled[index] = settled[index] || !candidates.iter().any(open);
            }
            if settled == before {
                break;
            }
        }
        if let Some(index) = settled.iter().position(|settled| !settled) {
            let name = self.names.choices[index].clone();
            self.wrong(0, format!("the choice '{name}' leads back to itself"), "let choices end at operations");
        }
    }
}

fn plain(text: &str) -> Piece {
    Piece::Text(Template::plain(text), Escape::None)
}

/// Bytes that do not compress: what an image would be.
fn filler(size: u64) -> Vec<u8> {
    let mut rng = crate::rng::Rng::stream(size, 0);
    let words = usize::try_from(size.div_ceil(8)).unwrap_or(0);
    let mut bytes: Vec<u8> = (0..words).flat_map(|_| rng.next().to_le_bytes()).collect();
    bytes.truncate(usize::try_from(size).unwrap_or(0));
    bytes
}

fn table_in<'t>(value: &'t Spanned<DeValue<'t>>) -> Option<&'t DeTable<'t>> {
    if let DeValue::Table(table) = value.get_ref() { Some(table) } else { None }
}

fn keys_of<'t>(table: &'t DeTable<'t>) -> Vec<String> {
    table.iter().map(|(key, _)| key.get_ref().to_string()).collect()
}

/// The values of a list; anything else is a list of one.
fn list_in<'t>(value: &'t Spanned<DeValue<'t>>) -> &'t [Spanned<DeValue<'t>>] {
    if let DeValue::Array(list) = value.get_ref() { list } else { std::slice::from_ref(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHOP: &str = include_str!("../../tests/load/shop.toml");

    fn read(text: &str) -> Result<Scenario, String> {
        parse("shop.toml", text.as_bytes(), Some("http://127.0.0.1:1"), Path::new(".")).map_err(|why| why.to_string())
    }

    #[test]
    fn the_specimen_is_read_with_everything_in_it() {
        let shop = read(SHOP).expect("the specimen");
        assert_eq!(shop.operations[shop.start].name, "home");
        assert!(shop.cycle.is_some() && shop.follows.len() == 1 && shop.choices.len() == 2);
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_a_remedy() {
        for (from, to, told) in [
            ("start = \"home\"", "start = \"hom\"", "no operation is 'hom'; did you mean 'home'?"),
            ("limit = \"2 s\"", "limit = 2", "'limit' is no text"),
            ("limit = \"2 s\"", "limti = \"2 s\"", "has no 'limti'; did you mean 'limit'?"),
            ("{token}", "{tokem}", "no variable is 'tokem'"),
            ("pick = \"random\"", "pick = \"rand\"", "pick = 'rand' is not known"),
            ("items[*].id", "items[*.id", "is no path"),
            ("get = \"/\"", "get = \"/\"\npost = \"/\"", "not exactly one method"),
            ("next = \"rest\"", "next = \"resr\"", "no operation or choice is 'resr'; did you mean 'rest'?"),
            ("{ to = \"item\" }", "{ to = \"rest\" }", "leads back to itself"),
            ("below = 2", "below = \"2\"", "'below' is no number"),
        ] {
            assert!(SHOP.contains(from), "the specimen has {from}");
            let why = read(&SHOP.replacen(from, to, 1)).expect_err(told);
            assert!(why.contains(told) && why.starts_with("shop.toml:"), "{told}: {why}");
        }
        assert!(read("").expect_err("empty").contains("no operations"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn strange_files_are_refused_without_panic(
            cuts in proptest::collection::vec((0..SHOP.len(), 0..40_usize, any::<u8>()), 1..6),
        ) {
            let mut bytes = SHOP.as_bytes().to_vec();
            for (at, length, byte) in cuts {
                let at = at.min(bytes.len());
                let end = (at + length).min(bytes.len());
                bytes.splice(at..end, [byte]);
            }
            let _ = parse("x", &bytes, None, Path::new("."));
        }
    }
}
