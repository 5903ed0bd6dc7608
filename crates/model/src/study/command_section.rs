//! The section `[command]` of a study: an external program, its parameters, its files and where its metrics stand.

use super::{Entry, Reader};
use crate::command::{self, Beside, Declared, Finder, Program, READING_DEFAULTS, Reading, Success, Take};
use crate::descriptor::{Better, Default, Kind, Knob, Value};
use crate::machine::Isa;
use crate::problem::{nearest, with_article};
use crate::tables;
use regex_lite::Regex;
use std::collections::BTreeMap;
use toml::de::DeValue;

/// Sections below `[command]`.
const BELOW: &[&str] = &[
    "parameters",
    "quick",
    "prepare",
    "files",
    "bring",
    "environment",
    "needs",
    "success",
    "beside",
    "reading",
    "metrics",
];

impl Reader {
    /// Reads `[command]`; `None` where it has a mistake, which is then among the problems.
    pub(super) fn command(&mut self, section: usize, entries: &[Entry<'_>]) -> Option<Program> {
        let before = self.problems.len();
        let (below, flat): (Vec<_>, Vec<_>) = entries.iter().copied().partition(|(key, ..)| BELOW.contains(key));
        let flat_keys: Vec<&str> = command::COMMAND.iter().map(|knob| knob.key).chain(BELOW.iter().copied()).collect();
        for (key, line, _) in flat.iter().filter(|(key, ..)| !flat_keys.contains(key)) {
            let remedy = match *key {
                "timeout" => "it belongs in [workload]".to_owned(),
                _ => nearest(key, &flat_keys),
            };
            self.report(*line, format!("unknown key '{key}' in [command]"), remedy);
        }
        let flat: Vec<Entry<'_>> = flat.into_iter().filter(|(key, ..)| flat_keys.contains(key)).collect();
        let mut head = self.known("command", command::COMMAND, &flat);
        let table = |name: &str| below.iter().find(|(key, ..)| *key == name).copied();
        let argv = self.argv("command", line_of(&flat, "argv", section), &flat, head.remove("argv"));
        let parameters = self.declared(table("parameters"), table("quick"));
        let reading = self.table("reading", table("reading"));
        let program = Program {
            argv,
            prepare: self.prepare(table("prepare")),
            beside: self.beside(table("beside")),
            files: self.texts("files", table("files")),
            bring: self.texts("bring", table("bring")),
            environment: self.texts("environment", table("environment")),
            inherit: words(head.remove("inherit")),
            needs: self.texts("needs", table("needs")),
            instruction_set: head.remove("instruction_set").and_then(instruction_set),
            output_limit_bytes: size_or_default(head.remove("output_limit")),
            success: self.success(table("success")),
            metrics: self.metrics(&reading, table("metrics")),
            parameters,
        };
        self.placeholders(&program, section, entries);
        for section in ["files", "bring"] {
            for (name, line) in self.names(section, table(section)) {
                self.is_inside(name, line);
            }
        }
        (self.problems.len() == before).then_some(program)
    }

    /// The entries of a section below `[command]`; what is no section becomes a problem.
    fn table<'t>(&mut self, name: &str, entry: Option<Entry<'t>>) -> Vec<Entry<'t>> {
        let Some((_, line, value)) = entry else { return Vec::new() };
        match value.get_ref().as_table() {
            Some(table) => self.entries(table),
            None => {
                let what = format!("'{name}' is {}, no section", with_article(value.get_ref().type_str()));
                self.report(line, what, format!("write [command.{name}] and keys below it"));
                Vec::new()
            }
        }
    }

    fn names<'t>(&mut self, name: &str, entry: Option<Entry<'t>>) -> Vec<(&'t str, usize)> {
        let known = self.problems.len();
        let names = self.table(name, entry).into_iter().map(|(key, line, _)| (key, line)).collect();
        self.problems.truncate(known);
        names
    }

    fn argv(&mut self, of: &str, line: usize, entries: &[Entry<'_>], value: Option<Value>) -> Vec<String> {
        // What was misread is a problem already.
        let misread = value.is_none() && entries.iter().any(|(key, ..)| *key == "argv");
        let argv = words(value);
        if !misread && argv.first().is_none_or(String::is_empty) {
            let remedy = format!("write argv = [\"program\", \"argument\"] in [{of}]");
            self.report(line, format!("[{of}] names no program"), remedy);
        }
        argv
    }

    /// A section of texts by name.
    fn texts(&mut self, section: &str, entry: Option<Entry<'_>>) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        for (key, line, value) in self.table(section, entry) {
            match value.get_ref().as_str() {
                Some(text) => drop(texts.insert(key.to_owned(), text.to_owned())),
                None => {
                    let what = format!("'{key}' is {}", with_article(value.get_ref().type_str()));
                    self.report(line, what, format!("write text in quotation marks in [command.{section}]"));
                }
            }
        }
        texts
    }

    fn declared(&mut self, parameters: Option<Entry<'_>>, quick: Option<Entry<'_>>) -> Vec<Declared> {
        let mut declared: Vec<Declared> = Vec::new();
        for (key, line, value) in self.table("parameters", parameters) {
            let taken = command::GIVEN.iter().any(|(given, _)| *given == key)
                || tables::FACTORS.iter().any(|knob| knob.key == key)
                || ["kind", command::KIND, command::TIMEOUT.key].contains(&key);
            if taken {
                let remedy = "give the parameter another name";
                self.report(line, format!("'{key}' has a meaning of its own in every study"), remedy);
            } else if !is_word(key) {
                let remedy = "begin with a small letter and use small letters, digits and _ alone";
                self.report(line, format!("'{key}' cannot be a placeholder"), remedy);
            } else if let Some(default) = self.default(key, line, value.get_ref()) {
                declared.push(Declared { key: key.to_owned(), default, quick: None });
            }
        }
        for (key, line, value) in self.table("quick", quick) {
            let Some(of) = declared.iter_mut().find(|declared| declared.key == key) else {
                let keys: Vec<&str> = declared.iter().map(|declared| declared.key.as_str()).collect();
                let remedy = nearest(key, &keys);
                self.report(line, format!("'{key}' is no parameter of [command.parameters]"), remedy);
                continue;
            };
            let knob = Knob { key: "quick", kind: kind_of(&of.default), default: Default::Required, help: "" };
            match knob.read(value.get_ref()) {
                Ok(value) => of.quick = Some(value),
                Err(misfit) => self.report(line, misfit.what, misfit.remedy),
            }
        }
        declared
    }

    /// A declared default: a whole number, a text or a switch.
    fn default(&mut self, key: &str, line: usize, value: &DeValue<'_>) -> Option<Value> {
        let kind = match value {
            DeValue::Integer(_) => Kind::Count { min: 0, max: u64::MAX },
            DeValue::Boolean(_) => Kind::Switch,
            _ => Kind::Text,
        };
        let knob = Knob { key: "the default", kind, default: Default::Required, help: "" };
        match knob.read(value) {
            Ok(value) => Some(value),
            Err(misfit) => {
                let remedy = "write a whole number, true, false, or text in quotation marks";
                self.report(line, format!("{key}: {}", misfit.what), remedy);
                None
            }
        }
    }

    fn prepare(&mut self, entry: Option<Entry<'_>>) -> Vec<Vec<String>> {
        let Some((_, line, value)) = entry else { return Vec::new() };
        let knob = Knob { key: "prepare", kind: Kind::Words, default: Default::Required, help: "" };
        let remedy = "write a list of programs with their arguments, such as [[\"tar\", \"xf\", \"a.tar\"]]";
        let Some(list) = value.get_ref().as_array() else {
            self.report(line, format!("'prepare' is {}", with_article(value.get_ref().type_str())), remedy);
            return Vec::new();
        };
        let mut steps = Vec::new();
        for step in list {
            match (step.get_ref().as_array(), knob.read(step.get_ref())) {
                (Some(words), Ok(Value::Words(argv))) if !words.is_empty() => steps.push(argv),
                (_, Err(misfit)) => self.report(line, misfit.what, remedy),
                _ => self.report(line, "'prepare' has a step that names no program".to_owned(), remedy),
            }
        }
        steps
    }

    fn beside(&mut self, entry: Option<Entry<'_>>) -> Option<Beside> {
        let (_, line, _) = entry?;
        let entries = self.table("beside", entry);
        let mut known = self.known("command.beside", command::BESIDE, &entries);
        let argv = self.argv("command.beside", line, &entries, known.remove("argv"));
        let ready = text(known.remove("ready")).unwrap_or_default();
        self.regex("ready", line_of(&entries, "ready", line), &ready);
        Some(Beside { argv, ready })
    }

    fn success(&mut self, entry: Option<Entry<'_>>) -> Success {
        let line = entry.map_or(0, |(_, line, _)| line);
        let entries = self.table("success", entry);
        // An exit code, or a list of them.
        let (exits, others): (Vec<_>, Vec<_>) = entries.iter().copied().partition(|(key, ..)| *key == "exit");
        let mut known = self.known("command.success", command::SUCCESS, &others);
        let mut exit = Vec::new();
        for (_, line, value) in exits {
            let one = std::slice::from_ref(value);
            for code in value.get_ref().as_array().map_or(one, |list| list) {
                match command::SUCCESS[0].read(code.get_ref()) {
                    Ok(Value::Count(code)) => exit.push(code),
                    Ok(_) => {}
                    Err(misfit) => self.report(line, misfit.what, misfit.remedy),
                }
            }
        }
        if exit.is_empty() {
            exit.push(0);
        }
        let (present, absent) = (words(known.remove("present")), words(known.remove("absent")));
        for (name, regexes) in [("present", &present), ("absent", &absent)] {
            for regex in regexes {
                // What a placeholder stands for is taken literally.
                let filled = command::fill(regex, |_| Some("x".to_owned())).unwrap_or_default();
                self.regex(name, line_of(&entries, name, line), &filled);
            }
        }
        let from = text(known.remove("from")).unwrap_or_else(|| "output".to_owned());
        self.is_inside(&from, line_of(&entries, "from", line));
        Success { exit, present, absent, from }
    }

    fn metrics(&mut self, defaults: &[Entry<'_>], entry: Option<Entry<'_>>) -> Vec<Reading> {
        for (key, line, _) in defaults.iter().filter(|(key, ..)| !READING_DEFAULTS.contains(key)) {
            let what = format!("'{key}' cannot be the same for every metric");
            self.report(*line, what, format!("valid in [command.reading]: {}", READING_DEFAULTS.join(", ")));
        }
        let defaults: Vec<Entry<'_>> =
            defaults.iter().copied().filter(|(key, ..)| READING_DEFAULTS.contains(key)).collect();
        let defaults = self.known("command.reading", command::READING, &defaults);
        let mut readings: Vec<Reading> = Vec::new();
        for (key, line, value) in self.table("metrics", entry) {
            if [command::WALL.key, command::CPU.key].contains(&key) {
                let what = format!("'{key}' is a metric that every program has");
                self.report(line, what, "give the metric another name");
                continue;
            }
            let typed = self.table(&format!("metrics.{key}"), Some((key, line, value)));
            readings.extend(self.reading(key, line, &typed, &defaults));
        }
        readings
    }

    fn reading(
        &mut self,
        key: &str,
        line: usize,
        entries: &[Entry<'_>],
        defaults: &BTreeMap<String, Value>,
    ) -> Option<Reading> {
        let section = format!("command.metrics.{key}");
        let mut known = self.known(&section, command::READING, entries);
        let own = ["regex", "json"].iter().any(|finder| known.contains_key(*finder));
        for (name, value) in defaults.iter().filter(|(name, _)| !(own && ["regex", "json"].contains(&name.as_str()))) {
            known.entry(name.clone()).or_insert_with(|| value.clone());
        }
        let mut missing = |name: &str| {
            let knob = command::READING.iter().find(|knob| knob.key == name);
            let remedy = format!("write {name} in [{section}]: {}", knob.map_or_else(String::new, Knob::takes));
            if !entries.iter().any(|(typed, ..)| *typed == name) {
                self.report(line, format!("metric '{key}' has no {name}"), remedy);
            }
        };
        let unit = text(known.remove("unit"));
        let better = text(known.remove("better"));
        unit.is_none().then(|| missing("unit"));
        better.is_none().then(|| missing("better"));
        let finder = self.finder(key, line, text(known.remove("regex")), text(known.remove("json")))?;
        let scale = text(known.remove("scale")).unwrap_or_else(|| "1".to_owned());
        let scale = match scale.parse::<f64>() {
            Ok(scale) if scale.is_finite() && scale > 0.0 => scale,
            _ => {
                self.report(line, format!("scale = '{scale}' is no number above 0"), "write one, such as \"1e-3\"");
                1.0
            }
        };
        let from = text(known.remove("from")).unwrap_or_else(|| "stdout".to_owned());
        if from == "output" {
            let remedy = "write from = \"stdout\", \"stderr\" or the name of a file";
            self.report(line, format!("metric '{key}' is read from both streams at once"), remedy);
        }
        self.is_inside(&from, line);
        Some(Reading {
            key: key.to_owned(),
            unit: unit?,
            better: if better? == "higher" { Better::Higher } else { Better::Lower },
            help: text(known.remove("help")).unwrap_or_default(),
            from,
            finder,
            take: text(known.remove("take")).and_then(|word| Take::from_word(&word)).unwrap_or(Take::Only),
            scale,
            per: text(known.remove("per")).unwrap_or_default(),
            optional: known.remove("optional") == Some(Value::Switch(true)),
        })
    }

    fn finder(&mut self, key: &str, line: usize, regex: Option<String>, json: Option<String>) -> Option<Finder> {
        match (regex, json) {
            (Some(regex), None) => {
                let regex = regex.replace("{key}", &escaped(key));
                self.regex(&format!("regex of '{key}'"), line, &regex);
                let named = Regex::new(&regex).is_ok_and(|re| re.capture_names().any(|name| name == Some("value")));
                if !named && Regex::new(&regex).is_ok() {
                    let remedy = "name the group that is the number, such as rate: (?<value>[0-9.]+)";
                    self.report(line, format!("the regex of metric '{key}' has no group 'value'"), remedy);
                }
                Some(Finder::Regex(regex))
            }
            (None, Some(json)) => {
                let json = json.replace("{key}", key);
                if !json.starts_with('/') {
                    let what = format!("json = '{json}' of metric '{key}' is no JSON pointer");
                    self.report(line, what, "begin it with /, such as /jobs/0/read/iops");
                }
                Some(Finder::Json(json))
            }
            (Some(_), Some(_)) => {
                self.report(line, format!("metric '{key}' has a regex and a json"), "keep one of the two");
                None
            }
            (None, None) => {
                let remedy = "write regex = 'rate: (?<value>[0-9.]+)' or json = \"/path/to/number\"";
                self.report(line, format!("metric '{key}' does not say where its value stands"), remedy);
                None
            }
        }
    }

    fn regex(&mut self, name: &str, line: usize, regex: &str) {
        if let Err(why) = Regex::new(regex) {
            let remedy = "write a regular expression without look-around; in '...' its backslashes need no doubling";
            self.report(line, format!("{name} = '{regex}' is no regular expression: {why}"), remedy);
        }
    }

    /// Refuses a file outside of the program's folder.
    fn is_inside(&mut self, name: &str, line: usize) {
        if name.is_empty() || name.starts_with('/') || name.split('/').any(|part| part == "..") {
            let remedy = "name a file in the program's own folder, such as input.txt";
            self.report(line, format!("'{name}' is no file in the program's folder"), remedy);
        }
    }

    /// Refuses placeholders that nothing fills, and parameters that fill nothing.
    fn placeholders(&mut self, program: &Program, section: usize, entries: &[Entry<'_>]) {
        let line = |key: &str| line_of(entries, key, section);
        let mut used: Vec<String> = Vec::new();
        for (key, text) in program.texts() {
            // The text itself is not wanted: every key is noted and filled with nothing.
            let noted = command::fill(text, |name| {
                used.push(program.side(name).map_or(name, |(count, _)| count).to_owned());
                program.has_placeholder(name).then(String::new)
            });
            if let Err(name) = noted {
                let mut keys: Vec<&str> = program.parameters.iter().map(|declared| declared.key.as_str()).collect();
                keys.extend(command::GIVEN.iter().map(|(given, _)| *given));
                let remedy = format!(
                    "{}; write {name} = ... in [command.parameters], or {{{{{name}}} for the text itself",
                    nearest(&name, &keys)
                );
                self.report(line(key), format!("nothing fills the placeholder {{{name}}}"), remedy);
            }
        }
        for declared in program.parameters.iter().filter(|declared| !used.contains(&declared.key)) {
            let what = format!("parameter '{}' stands nowhere in the program's texts", declared.key);
            self.report(line("parameters"), what, format!("write {{{}}} where it belongs, or drop it", declared.key));
        }
    }
}

fn line_of(entries: &[Entry<'_>], key: &str, otherwise: usize) -> usize {
    entries.iter().find(|(name, ..)| *name == key).map_or(otherwise, |(_, line, _)| *line)
}

fn is_word(key: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    key.bytes().next().is_some_and(|first| first.is_ascii_lowercase()) && key.bytes().all(word)
}

/// A key as a regular expression that matches just it.
fn escaped(key: &str) -> String {
    regex_lite::escape(key)
}

fn kind_of(default: &Value) -> Kind {
    match default {
        Value::Count(_) => Kind::Count { min: 0, max: u64::MAX },
        Value::Switch(_) => Kind::Switch,
        _ => Kind::Text,
    }
}

fn words(value: Option<Value>) -> Vec<String> {
    match value {
        Some(Value::Words(words)) => words,
        _ => Vec::new(),
    }
}

fn text(value: Option<Value>) -> Option<String> {
    match value? {
        Value::Text(text) | Value::Choice(text) => Some(text),
        _ => None,
    }
}

fn instruction_set(value: Value) -> Option<Isa> {
    match text(Some(value))?.as_str() {
        "avx2" => Some(Isa::Avx2),
        "avx512" => Some(Isa::Avx512),
        _ => Some(Isa::Baseline),
    }
}

fn size_or_default(value: Option<Value>) -> u64 {
    match value.or_else(|| super::default_of(command::COMMAND, "output_limit")) {
        Some(Value::SizeBytes(size)) => size.0,
        _ => 1 << 20,
    }
}
