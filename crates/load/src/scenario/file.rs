//! Reads scenario files: TOML in, a [`Scenario`] that holds together or every mistake with its line out.
//!
//! The format is described in `docs/load-scenario.md`, which is made from the table of keys that this parser reads.

mod keys;
mod request;
mod table;

pub use keys::reference;

use super::{Candidate, Change, Condition, Cycle, Follow, Next, Operation, Scenario, Test};
use crate::url;
use baremark_model::config::{self, Layer, Section};
use baremark_model::problem::{Problems, nearest};
use baremark_model::units::{Nanos, Share};
use keys::{CANDIDATE, CONDITION, DRAW, FOLLOW, OPERATION, SCENARIO, TABLES};
use std::collections::BTreeSet;
use std::path::Path;
use table::{Names, Reader};

/// The longest scenario file, in MiB.
pub const LONGEST_MIB: u64 = 4;
const LONGEST_BYTES: usize = 4 << 20;
/// The most operations, choices, follows or variables.
const MOST_NAMES: usize = 10_000;

/// Parses a scenario. `file` is its name in messages; `base` represents the file's `base` when given; files that requests
/// upload are looked for in `folder`.
///
/// # Errors
/// Every problem found, with its line and what would be right.
pub fn parse(file: &str, bytes: &[u8], base: Option<&str>, folder: &Path) -> Result<Scenario, Problems> {
    let text = config::text(file, bytes, LONGEST_BYTES, "scenario")?;
    let layer = Layer::parse(file, text)?;
    let mut reader = Reader { layer: &layer, typed: config::Reader::default(), names: Names::default(), folder };
    let scenario = reader.scenario(&Section::root(&[&layer]), base);
    reader.typed.finish()?;
    scenario.ok_or_else(|| Problems { file: file.to_owned(), list: Vec::new() })
}

impl Reader<'_> {
    fn scenario(&mut self, root: &Section<'_>, base: Option<&str>) -> Option<Scenario> {
        self.typed.known(root, &TABLES);
        let head = &self.typed.section(root, "scenario");
        self.known(head, &SCENARIO);
        self.origins(root, head, base);
        let [operations, choices, follows] =
            ["operations", "choices", "follows"].map(|key| self.typed.section(root, key));
        self.names.operations = names_in(&operations);
        self.names.choices = names_in(&choices);
        self.names.follows = names_in(&follows);
        self.collect_variables(root, &operations);
        if self.names.operations.is_empty() {
            self.wrong(0, "the scenario has no operations", "add [operations.NAME] with [[operations.NAME.requests]]");
            return None;
        }
        if [&self.names.operations, &self.names.choices, &self.names.follows].iter().any(|list| list.len() > MOST_NAMES)
        {
            self.wrong(0, "the scenario has over 10,000 names", "make it smaller");
            return None;
        }
        let start = self.text(head, "start").map_or(0, |(name, line)| self.index("operation", name, line));
        let initial = self.settings(root, "variables");
        let cookies = self.typed.switch(head, "cookies").unwrap_or(true);
        let cycle = self.cycle(head);
        let operations = operations.entries().into_iter().enumerate().map(|(at, (name, ..))| {
            let table = self.typed.section(&operations, name);
            self.operation(name, &table, at, start)
        });
        let operations: Vec<Operation> = operations.collect();
        let choices = choices.entries().into_iter().map(|(name, ..)| {
            let candidates = self.typed.sections(&choices, name);
            self.choice(&candidates)
        });
        let choices: Vec<Vec<Candidate>> = choices.collect();
        let follows = follows.entries().into_iter().map(|(name, ..)| {
            let table = self.typed.section(&follows, name);
            self.follow(&table)
        });
        let follows: Vec<Follow> = follows.collect();
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
        if self.typed.mistakes() > 0 {
            return None;
        }
        for request in scenario.operations.iter_mut().flat_map(|operation| &mut operation.requests) {
            request.fix(&scenario.origins[request.origin], &[]);
        }
        Some(scenario)
    }

    fn origins(&mut self, root: &Section<'_>, head: &Section<'_>, base: Option<&str>) {
        let typed = self.text(head, "base");
        match base.map(|text| (text, 0)).or(typed) {
            Some((text, line)) => self.origin("base", text, line),
            None => self.wrong(head.line(), "the scenario has no server", "add base = \"http://...\" or name a URL"),
        }
        let origins = self.typed.section(root, "origins");
        for (name, ..) in origins.entries() {
            if let Some((text, line)) = self.text(&origins, name) {
                self.origin(name, text, line);
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
    fn collect_variables(&mut self, root: &Section<'_>, operations: &Section<'_>) {
        let mut all = names_in(&self.typed.section(root, "variables"));
        for (name, ..) in operations.entries() {
            let operation = self.typed.section(operations, name);
            for changes in ["set", "add", "draw"] {
                all.extend(names_in(&self.typed.section(&operation, changes)));
            }
            for request in self.typed.sections(&operation, "requests") {
                let extracts = self.typed.sections(&request, "extract");
                all.extend(extracts.iter().filter_map(|of| Some(of.get("into")?.get_ref().as_str()?.to_owned())));
            }
        }
        let mut seen = BTreeSet::new();
        all.retain(|name| seen.len() < MOST_NAMES && seen.insert(name.clone()));
        self.names.variables = all;
    }

    fn cycle(&mut self, head: &Section<'_>) -> Option<Cycle> {
        let mean: Nanos = self.typed.quantity(head, "cycle")?;
        let deviation: Share = self.typed.quantity(head, "cycle_deviation").unwrap_or(Share(0.25));
        let most: Share = self.typed.quantity(head, "cycle_most").unwrap_or(Share(0.5));
        if mean.0 == 0 || most.0 > 1.0 {
            self.wrong(head.line(), "invalid cycle", "write a cycle above 0 and cycle_most of at most 100 %");
        }
        Some(Cycle { mean, deviation: deviation.0, most: most.0 })
    }

    fn operation(&mut self, name: &str, table: &Section<'_>, at: usize, start: usize) -> Operation {
        self.known(table, &OPERATION);
        let requests = self.typed.sections(table, "requests");
        if requests.is_empty() {
            self.wrong(table.line(), format!("operation '{name}' has no requests"), "add [[operations.NAME.requests]]");
        }
        let next = match self.text(table, "next") {
            Some((text, line)) => self.next(text, line),
            None => Next::Operation(at),
        };
        Operation {
            name: name.to_owned(),
            weight: self.typed.number(table, "weight").unwrap_or(0.0).max(0.0),
            limit: self.typed.quantity(table, "limit"),
            think: self.typed.quantity(table, "think"),
            requests: requests.iter().map(|request| self.request(request)).collect(),
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

    fn changes(&mut self, table: &Section<'_>) -> Vec<Change> {
        let mut changes: Vec<Change> = self
            .settings(table, "set")
            .into_iter()
            .map(|(variable, template)| Change::Set(variable, template))
            .collect();
        for (text, line) in self.texts(table, "unset") {
            changes.push(Change::Unset(self.variable(text, line)));
        }
        let adds = self.typed.section(table, "add");
        for (name, line, _) in adds.entries() {
            let variable = self.variable(name, line);
            changes.push(Change::Add(variable, self.typed.number(&adds, name).unwrap_or(0.0)));
        }
        let draws = self.typed.section(table, "draw");
        for (name, ..) in draws.entries() {
            let draw = &self.typed.section(&draws, name);
            self.known(draw, &DRAW);
            let limits = (
                self.typed.number(draw, "least").unwrap_or(f64::MIN),
                self.typed.number(draw, "most").unwrap_or(f64::MAX),
            );
            changes.push(Change::Draw {
                variable: self.variable(name, draw.line()),
                from: self.named_variable(draw, "from"),
                mean: self.typed.number(draw, "mean").unwrap_or(1.0),
                deviation: self.typed.number(draw, "deviation").unwrap_or(0.0),
                limits,
                decimals: self.count(draw, "decimals", 9).unwrap_or(0) as usize,
            });
        }
        changes
    }

    fn choice(&mut self, typed: &[Section<'_>]) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for table in typed {
            self.known(table, &CANDIDATE);
            let Some((to, line)) = self.text(table, "to") else {
                self.wrong(table.line(), "a candidate has no target", "add to = \"OPERATION\"");
                continue;
            };
            let to = self.next(to, line);
            let when = self.conditions(table, "when");
            let chance = self.typed.quantity::<Share>(table, "chance").map(|share| share.0);
            let weight = self.typed.number(table, "weight");
            // With a condition and nothing else, it is taken whenever the condition holds.
            let chance = chance.or((weight.is_none() && !when.is_empty()).then_some(1.0));
            candidates.push(Candidate { to, when, chance, weight: weight.unwrap_or(1.0).max(0.0) });
        }
        candidates
    }

    fn conditions(&mut self, parent: &Section<'_>, key: &str) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for table in &self.typed.sections(parent, key) {
            self.known(table, &CONDITION);
            let variable = self.named_variable(table, "variable");
            let before = conditions.len();
            if let Some((text, line)) = self.text(table, "is") {
                conditions.push(Condition { variable, test: Test::Is(self.template(text, line)) });
            }
            if let Some((text, line)) = self.text(table, "is_not") {
                conditions.push(Condition { variable, test: Test::IsNot(self.template(text, line)) });
            }
            if let Some(limit) = self.typed.number(table, "below") {
                conditions.push(Condition { variable, test: Test::Below(limit) });
            }
            if let Some(limit) = self.typed.number(table, "at_least") {
                conditions.push(Condition { variable, test: Test::AtLeast(limit) });
            }
            if let Some(set) = self.typed.switch(table, "is_set") {
                conditions.push(Condition { variable, test: if set { Test::Set } else { Test::Unset } });
            }
            if conditions.len() == before {
                self.wrong(table.line(), "a condition has no test", "add is, is_not, below, at_least or is_set");
            }
        }
        conditions
    }

    fn follow(&mut self, table: &Section<'_>) -> Follow {
        self.known(table, &FOLLOW);
        let named = self.texts(table, "operations");
        if named.is_empty() {
            self.wrong(table.line(), "a follow has no operations", "add operations = [\"NAME\"]");
        }
        Follow {
            operations: named.into_iter().map(|(text, line)| self.index("operation", text, line)).collect(),
            until: self.conditions(table, "until"),
            tell: self.texts(table, "tell").into_iter().map(|(text, line)| self.variable(text, line)).collect(),
            pause: self.typed.quantity(table, "pause").unwrap_or(Nanos(0)),
        }
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

/// The names of what a section has, in the order of the file, so that the first operation is the first of the file.
fn names_in(section: &Section<'_>) -> Vec<String> {
    section.entries().into_iter().map(|(name, ..)| name.to_owned()).collect()
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
            ("limit = \"2 s\"", "limit = 2", "invalid limit = 2 in [operations.home]; write text"),
            ("limit = \"2 s\"", "limti = \"2 s\"", "unknown key 'limti' in [operations.home]; did you mean 'limit'?"),
            ("{token}", "{tokem}", "no variable is 'tokem'"),
            (
                "pick = \"random\"",
                "pick = \"rand\"",
                "pick = 'rand' in [operations.list.requests.extract] is not known",
            ),
            ("items[*].id", "items[*.id", "invalid JSON path"),
            ("get = \"/\"", "get = \"/\"\npost = \"/\"", "needs exactly one method"),
            ("next = \"rest\"", "next = \"resr\"", "no operation or choice is 'resr'; did you mean 'rest'?"),
            ("{ to = \"item\" }", "{ to = \"rest\" }", "leads back to itself"),
            ("below = 2", "below = \"2\"", "invalid below = \"2\" in ["),
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
