//! The sections `[command]` and `[commands.NAME]` of a study: external programs, their parameters, their files and where
//! their metrics stand.

use super::{Entry, Reader};
use crate::command::{self, READING_DEFAULTS};
use crate::former;
use crate::knob::{Default, Kind, Knob};
use crate::machine::Isa;
use crate::metric::Better;
use crate::percentile::Percentile;
use crate::problem::{nearest, with_article};
use crate::tables;
use crate::value::{Beside, Declared, Finder, GIVEN, Program, Reading, Stdout, Success, Take, Value};
use regex_lite::Regex;
use std::collections::BTreeMap;
use toml::de::DeValue;

/// Sections and lists below `[command]` that every program of a study may have for itself.
const OWN: &[&str] = &["setup", "prepare", "cleanup", "files", "bring", "environment", "needs", "beside"];
/// Those that all programs of a study have in common.
const SHARED: &[&str] = &["parameters", "quick", "success", "reading", "metrics"];
/// Of the name of a program.
const LONGEST_NAME: usize = 32;
/// What a name cannot hold because the sides of a comparison are typed with it.
const SEPARATORS: &[char] = &[',', ':', '=', '+'];

impl Reader<'_> {
    /// Reads `[command]` and `[commands.NAME]`, of which each is as `[command]` but for what it says itself; `None` after a
    /// mistake, which is then among the problems.
    pub(super) fn commands(
        &mut self,
        (section, entries): (usize, &[Entry<'_>]),
        named: Option<&(usize, Vec<Entry<'_>>)>,
    ) -> Option<(Program, Vec<Program>)> {
        let before = self.mistakes.mistakes();
        let base = self.command(entries);
        let several: Vec<Program> = named
            .map_or(&[][..], |(_, entries)| entries)
            .iter()
            .filter_map(|entry| self.named_command(&base, *entry))
            .collect();
        match named {
            None if base.argv.is_empty() => self.no_program(section, entries, "command"),
            Some((line, _)) if several.is_empty() && self.mistakes.mistakes() == before => {
                self.report(
                    *line,
                    "[commands] names no program".to_owned(),
                    "write [commands.NAME] and argv = [...] below it",
                );
            }
            _ => {}
        }
        let all: Vec<&Program> = if named.is_none() { vec![&base] } else { several.iter().collect() };
        if self.mistakes.mistakes() == before {
            self.placeholders(&all, section, entries);
        }
        (self.mistakes.mistakes() == before).then_some((base, several))
    }

    /// Reads `[command]`.
    fn command(&mut self, entries: &[Entry<'_>]) -> Program {
        let table = |name: &str| entries.iter().find(|(key, ..)| *key == name).copied();
        let (shared, own): (Vec<_>, Vec<_>) = entries.iter().copied().partition(|(key, ..)| SHARED.contains(key));
        let base = self.own(&Program::default(), "command", &own, SHARED);
        let parameters = self.declared(table("parameters"), table("quick"));
        let reading = self.table("command", table("reading"));
        let success = self.success(shared.iter().find(|(key, ..)| *key == "success").copied());
        let metrics = self.metrics(&reading, table("metrics"));
        Program { success, metrics, parameters, ..base }
    }

    /// Reads `[commands.NAME]`.
    fn named_command(&mut self, base: &Program, (name, line, value): Entry<'_>) -> Option<Program> {
        let plain = |c: char| !c.is_control() && !SEPARATORS.contains(&c);
        if name.is_empty() || name.chars().count() > LONGEST_NAME || name.trim() != name || !name.chars().all(plain) {
            let what = format!("[commands.{name}] has a name that cannot be used");
            let remedy = format!(
                "write at most {LONGEST_NAME} characters, without , : = and +, that neither begin nor end with a space"
            );
            self.report(line, what, remedy);
            return None;
        }
        let Some(table) = value.get_ref().as_table() else {
            let what = format!("'{name}' is {}, no section", with_article(value.get_ref().type_str()));
            self.report(line, what, format!("write [commands.{name}] and keys below it"));
            return None;
        };
        let entries = self.layer.entries(table);
        let of = format!("commands.{name}");
        for (key, line, _) in entries.iter().filter(|(key, ..)| SHARED.contains(key)) {
            let what = format!("'{key}' in [{of}] is shared by all programs of a study");
            self.report(*line, what, format!("write it in [command.{key}]"));
        }
        let own: Vec<Entry<'_>> = entries.iter().copied().filter(|(key, ..)| !SHARED.contains(key)).collect();
        let program = self.own(base, &of, &own, &[]);
        if program.argv.is_empty() {
            self.no_program(line, &entries, &of);
        }
        Some(Program { name: name.to_owned(), ..program })
    }

    /// What a section says of one program, over what `base` says. `beside` are keys that may be there besides.
    fn own(&mut self, base: &Program, of: &str, entries: &[Entry<'_>], beside: &[&str]) -> Program {
        let keys: Vec<&str> = command::COMMAND.iter().map(|knob| knob.key).chain(OWN.iter().copied()).collect();
        let suggested: Vec<&str> = keys.iter().chain(beside).copied().collect();
        let is_known = |key: &str| keys.contains(&former::now(&[], key).unwrap_or(key));
        for (key, line, _) in entries.iter().filter(|(key, ..)| !is_known(key)) {
            let remedy = match *key {
                "timeout" => "it belongs in [workload]".to_owned(),
                _ => nearest(key, &suggested),
            };
            self.report(*line, format!("unknown key '{key}' in [{of}]"), remedy);
        }
        let flat: Vec<Entry<'_>> =
            entries.iter().copied().filter(|(key, ..)| is_known(key) && !OWN.contains(key)).collect();
        let mut head = self.known(of, command::COMMAND, &flat);
        let table = |name: &str| entries.iter().find(|(key, ..)| *key == name).copied();
        let mut program = base.clone();
        if let Some(argv) = head.remove("argv") {
            program.argv = words(argv);
        }
        if let Some(inherit) = head.remove("inherit") {
            program.inherit = words(inherit);
        }
        if let Some(carry) = head.remove("carry") {
            program.carry = self.carried(words(carry), line_of(&flat, "carry", 0));
        }
        if let Some(widest) = head.remove("instruction_set") {
            program.instruction_set = instruction_set(widest);
        }
        for (key, text) in [("directory", &mut program.directory), ("stdin", &mut program.stdin)] {
            if let Some(Value::Text(typed)) = head.remove(key) {
                *text = typed;
            }
        }
        match head.remove("stdout") {
            Some(Value::Choice(word)) if word == "drop" => program.stdout = Stdout::Drop,
            Some(_) => program.stdout = Stdout::Keep,
            None => {}
        }
        if let Some(Value::Switch(on)) = head.remove("repeat") {
            program.repeat = on;
        }
        if let Some(Value::Count(runs)) = head.remove("warmup_runs") {
            program.warmup = runs;
        }
        if let Some(Value::SizeBytes(size)) = head.remove("output_limit") {
            program.output_limit_bytes = size.0;
        }
        let line = line_of(&flat, "directory", 0);
        self.is_absolute(&program.directory, line);
        for (key, steps) in
            [("setup", &mut program.setup), ("prepare", &mut program.prepare), ("cleanup", &mut program.cleanup)]
        {
            if let Some(entry) = table(key) {
                *steps = self.steps(key, entry);
            }
        }
        program.files.extend(self.texts(of, "files", table("files")));
        program.bring.extend(self.texts(of, "bring", table("bring")));
        program.environment.extend(self.texts(of, "environment", table("environment")));
        program.needs.extend(self.texts(of, "needs", table("needs")));
        for section in ["files", "bring"] {
            let named = table(section).and_then(|(.., value)| value.get_ref().as_table());
            for (name, line, _) in named.map(|table| self.layer.entries(table)).unwrap_or_default() {
                self.is_inside(name, line);
            }
        }
        if let Some(entry) = table("beside") {
            program.beside = Some(self.beside(of, entry));
        }
        program
    }

    fn no_program(&mut self, line: usize, entries: &[Entry<'_>], of: &str) {
        // What was misread is a problem already.
        let typed = entries.iter().find(|(key, ..)| *key == "argv");
        if typed.is_none_or(|(.., value)| value.get_ref().as_array().is_some_and(|list| list.is_empty())) {
            let remedy = format!("write argv = [\"program\", \"argument\"] in [{of}]");
            self.report(line_of(entries, "argv", line), format!("[{of}] names no program"), remedy);
        }
    }

    /// Refuses a working folder that is not an absolute path.
    fn is_absolute(&mut self, directory: &str, line: usize) {
        if line > 0 && !directory.starts_with('/') && !directory.starts_with('{') {
            let remedy = "write an absolute path, or leave it out for a private folder";
            self.report(line, format!("directory = '{directory}' is not an absolute path"), remedy);
        }
    }

    /// Files that are carried, each of which must be an absolute path.
    fn carried(&mut self, paths: Vec<String>, line: usize) -> BTreeMap<String, String> {
        for path in paths.iter().filter(|path| !path.starts_with('/')) {
            self.report(
                line,
                format!("'{path}' in carry is not an absolute path"),
                "write the absolute path of a file of this machine",
            );
        }
        paths.into_iter().map(|path| (path, String::new())).collect()
    }

    /// The entries of a section below that of a program; what is not a section becomes a problem.
    fn table<'t>(&mut self, of: &str, entry: Option<Entry<'t>>) -> Vec<Entry<'t>> {
        let Some((name, line, value)) = entry else { return Vec::new() };
        match value.get_ref().as_table() {
            Some(table) => self.layer.entries(table),
            None => {
                let what = format!("'{name}' is {}, no section", with_article(value.get_ref().type_str()));
                self.report(line, what, format!("write [{of}.{name}] and keys below it"));
                Vec::new()
            }
        }
    }

    /// A section of texts by name.
    fn texts(&mut self, of: &str, section: &str, entry: Option<Entry<'_>>) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        for (key, line, value) in self.table(of, entry) {
            match value.get_ref().as_str() {
                Some(text) => drop(texts.insert(key.to_owned(), text.to_owned())),
                None => {
                    let what = format!("'{key}' is {}", with_article(value.get_ref().type_str()));
                    self.report(line, what, format!("write text in quotation marks in [{of}.{section}]"));
                }
            }
        }
        texts
    }

    fn declared(&mut self, parameters: Option<Entry<'_>>, quick: Option<Entry<'_>>) -> Vec<Declared> {
        let mut declared: Vec<Declared> = Vec::new();
        for (key, line, value) in self.table("command", parameters) {
            let taken = GIVEN.iter().any(|(given, _)| *given == key)
                || tables::is_reserved(key)
                || [
                    command::KIND,
                    command::TIMEOUT.key,
                    command::GUEST_PAGE.key,
                    command::EXITLESS.key,
                    command::PREFAULT.key,
                ]
                .contains(&key);
            if taken {
                let remedy = "give the parameter another name";
                self.report(line, format!("'{key}' is reserved in every study"), remedy);
            } else if !is_word(key) {
                let remedy = "begin with a small letter and use small letters, digits and _ alone";
                self.report(line, format!("'{key}' cannot be a placeholder"), remedy);
            } else if let Some(default) = self.default(key, line, value.get_ref()) {
                declared.push(Declared { key: key.to_owned(), default, quick: None });
            }
        }
        for (key, line, value) in self.table("command", quick) {
            let Some(of) = declared.iter_mut().find(|declared| declared.key == key) else {
                let keys: Vec<&str> = declared.iter().map(|declared| declared.key.as_str()).collect();
                let remedy = nearest(key, &keys);
                self.report(line, format!("'{key}' is not a parameter of [command.parameters]"), remedy);
                continue;
            };
            let knob = Knob::new("quick", kind_of(&of.default), Default::Required);
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

    /// A list of programs with their arguments.
    fn steps(&mut self, key: &str, (_, line, value): Entry<'_>) -> Vec<Vec<String>> {
        let knob = Knob::new("steps", Kind::Words, Default::Required);
        let remedy = "write a list of programs with their arguments, such as [[\"tar\", \"xf\", \"a.tar\"]]";
        let Some(list) = value.get_ref().as_array() else {
            self.report(line, format!("'{key}' is {}", with_article(value.get_ref().type_str())), remedy);
            return Vec::new();
        };
        let mut steps = Vec::new();
        for step in list {
            match (step.get_ref().as_array(), knob.read(step.get_ref())) {
                (Some(words), Ok(Value::Words(argv))) if !words.is_empty() => steps.push(argv),
                (_, Err(misfit)) => self.report(line, misfit.what.replace("'steps'", &format!("'{key}'")), remedy),
                _ => self.report(line, format!("'{key}' has a step that names no program"), remedy),
            }
        }
        steps
    }

    fn beside(&mut self, of: &str, entry: Entry<'_>) -> Beside {
        let line = entry.1;
        let of_beside = format!("{of}.beside");
        let entries = self.table(of, Some(entry));
        let mut known = self.known(&of_beside, command::BESIDE, &entries);
        let argv = known.remove("argv").map(words).unwrap_or_default();
        if argv.is_empty() {
            self.no_program(line, &entries, &of_beside);
        }
        let ready = text(known.remove("ready")).unwrap_or_default();
        self.regex("ready", line_of(&entries, "ready", line), &ready);
        Beside { argv, ready }
    }

    fn success(&mut self, entry: Option<Entry<'_>>) -> Success {
        let line = entry.map_or(0, |(_, line, _)| line);
        let entries = self.table("command", entry);
        // An exit code, or a list of them.
        let (exits, others): (Vec<_>, Vec<_>) = entries.iter().copied().partition(|(key, ..)| *key == "exit");
        let mut known = self.known("command.success", command::SUCCESS, &others);
        let mut exit = if exits.is_empty() { vec![0] } else { Vec::new() };
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
        let [present, absent] = ["present", "absent"].map(|key| known.remove(key).map(words).unwrap_or_default());
        for (name, regexes) in [("present", &present), ("absent", &absent)] {
            for regex in regexes {
                // What a placeholder represents is taken literally.
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
        for (key, line, value) in self.table("command", entry) {
            let of_run_times = Percentile::of_key(key).is_some_and(|found| found.of == command::RUN_TIMES_OF);
            if of_run_times || command::USUAL.iter().any(|metric| metric.key == key) {
                let what = format!("'{key}' is a metric that every program has");
                self.report(line, what, "give the metric another name");
                continue;
            }
            let typed = self.table("command.metrics", Some((key, line, value)));
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
                let what = match name {
                    "better" => format!("metric '{key}' does not say whether higher or lower is better"),
                    _ => format!("metric '{key}' has no {name}"),
                };
                self.report(line, what, remedy);
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
                self.report(line, format!("scale = '{scale}' must be a number above 0"), "write one, such as \"1e-3\"");
                1.0
            }
        };
        let from = text(known.remove("from")).unwrap_or_else(|| "stdout".to_owned());
        if from == "output" {
            let remedy = "write from = \"stdout\", \"stderr\" or the name of a file";
            self.report(line, format!("metric '{key}' is read from both streams"), remedy);
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
                    let what = format!("json = '{json}' of metric '{key}' is not a JSON pointer");
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
            self.report(line, format!("{name} = '{regex}' is not a regular expression: {why}"), remedy);
        }
    }

    /// Refuses a file outside of the program's folder.
    fn is_inside(&mut self, name: &str, line: usize) {
        if name.is_empty() || name.starts_with('/') || name.split('/').any(|part| part == "..") {
            let remedy = "name a file in the program's own folder, such as input.txt";
            self.report(line, format!("'{name}' is not a file in the program's folder"), remedy);
        }
    }

    /// Refuses placeholders that nothing fills, and parameters that fill nothing in any of these programs.
    fn placeholders(&mut self, programs: &[&Program], section: usize, entries: &[Entry<'_>]) {
        let line = |key: &str| line_of(entries, key, section);
        let mut used: Vec<String> = Vec::new();
        for (program, (key, text)) in programs.iter().flat_map(|program| program.texts().map(move |of| (program, of))) {
            // The text itself is not wanted: every key is noted and filled with nothing.
            let noted = command::fill(text, |name| {
                used.push(program.side(name).map_or(name, |(count, _)| count).to_owned());
                program.has_placeholder(name).then(String::new)
            });
            if let Err(name) = noted {
                let mut keys: Vec<&str> = program.parameters.iter().map(|declared| declared.key.as_str()).collect();
                keys.extend(GIVEN.iter().map(|(given, _)| *given));
                let remedy = format!(
                    "{}; write {name} = ... in [command.parameters], or {{{{{name}}} for the text itself",
                    nearest(&name, &keys)
                );
                self.report(line(key), format!("nothing fills the placeholder {{{name}}}"), remedy);
            }
        }
        let declared = programs.first().map_or(&[][..], |program| &program.parameters);
        for declared in declared.iter().filter(|declared| !used.contains(&declared.key)) {
            let what = format!("parameter '{}' is never used", declared.key);
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

fn words(value: Value) -> Vec<String> {
    match value {
        Value::Words(words) => words,
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
