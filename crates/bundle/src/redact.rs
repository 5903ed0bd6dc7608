//! Removing what identifies a machine and its user, in a way that keeps a run's parts fitting to each other.
//!
//! Texts leave by one list of keys ([`may_leave`]): those of words of baremark's own, and those of texts, from which names, addresses and
//! paths are removed. A text under any other key is replaced, so that a key that nobody thought of gives nothing away. Numbers leave.
//! Of a setting of an environment its row in the table of environments says whether it identifies somebody.
//!
//! The same text becomes the same word everywhere, and different ones become different words, so that two treatments that differ in a path
//! still differ. Paths below /dev, /proc and /sys are the same on all machines and stay. Names that a user gave to treatments and
//! metrics are what a report is about and stay, too, unless they are one of the removed words.

use crate::keys::{DOCUMENT, ENVIRONMENTS, Leave, NAMES, TABLES, VARIABLES, may_leave};
use crate::study;
use baremark_model::environments;
use baremark_model::order;
use regex_lite::{Captures, Regex};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Removes names, addresses, paths and environment variables.
#[derive(Debug)]
pub struct Redactor {
    words: Vec<Regex>,
    patterns: Vec<(&'static str, Regex)>,
    given: BTreeMap<String, String>,
    counts: BTreeMap<String, usize>,
    /// Texts of documents that have left: those of a study may leave as well.
    left: BTreeSet<String>,
}

impl Redactor {
    /// One that removes these words (names of hosts and users) besides what it recognizes. Words of one letter are not removed, and `root` is
    /// everybody's.
    #[must_use]
    pub fn new(words: &[String]) -> Redactor {
        let mut words: Vec<&String> = words.iter().filter(|word| is_word(word)).collect();
        order::by_key(&mut words, |word| std::cmp::Reverse(word.len()));
        words.dedup();
        let pattern =
            |word: &&String| Regex::new(&format!("(^|[^A-Za-z0-9_-])({})($|[^A-Za-z0-9_-])", literal(word))).ok();
        let known = |(name, pattern): (&'static str, &str)| Some((name, Regex::new(pattern).ok()?));
        Redactor {
            words: words.iter().filter_map(pattern).collect(),
            patterns: PATTERNS.into_iter().filter_map(known).collect(),
            given: BTreeMap::new(),
            counts: BTreeMap::new(),
            left: BTreeSet::new(),
        }
    }

    /// A text without what identifies.
    pub fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for index in 0..self.words.len() {
            // Two words that share the character between them take a second pass.
            for _ in 0..2 {
                let word = self.words[index].clone();
                text = self.replaced(&word, &text, "name");
            }
        }
        self.recognized(&text)
    }

    /// A text without what is recognized by its form. Keys are no names: only this is removed from them.
    fn recognized(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for index in 0..2 * self.patterns.len() {
            let (name, pattern) = &self.patterns[index / 2];
            let (name, pattern) = (*name, pattern.clone());
            text = self.replaced(&pattern, &text, name);
        }
        text
    }

    /// A study's text, after the documents that were made of it: without its comments and the variables of programs, and of its strings those
    /// that are in the documents, or have a key under which texts leave.
    pub fn study(&mut self, text: &str) -> String {
        study::rewritten(text, &mut |key, string| self.of_study(key, string))
    }

    /// A string of a study; one that is in the documents becomes the same there.
    fn of_study(&mut self, key: &str, string: &str) -> String {
        match may_leave(key) {
            _ if string.is_empty() || is_quantity(string) => string.to_owned(),
            _ if self.left.contains(string) => self.text(string),
            _ if self.given.contains_key(string) => self.word(key, string),
            Leave::Word => string.to_owned(),
            Leave::Text => self.text(string),
            Leave::Never => self.word(key, string),
        }
    }

    fn replaced(&mut self, pattern: &Regex, text: &str, name: &'static str) -> String {
        let replacement = |found: &Captures<'_>| {
            let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
            let (before, secret, after) = (part(1), part(2), part(3));
            match keeps(name, secret) {
                true => format!("{before}{secret}{after}"),
                false => format!("{before}{}{after}", self.word(name, secret)),
            }
        };
        pattern.replace_all(text, replacement).into_owned()
    }

    /// The replacement of `secret`, the same each time.
    fn word(&mut self, name: &str, secret: &str) -> String {
        if let Some(word) = self.given.get(secret) {
            return word.clone();
        }
        let name: String = name.chars().filter(|c| c.is_ascii_lowercase() || *c == '_').collect();
        let count = self.counts.entry(name.clone()).or_default();
        *count += 1;
        // An absolute path stays one, where only such a path may stand.
        let root = if secret.starts_with('/') { "/" } else { "" };
        let word = format!("{root}removed-{name}-{count}");
        self.given.insert(secret.to_owned(), word.clone());
        word
    }

    /// A document without what identifies, in its texts and in its keys.
    pub fn value(&mut self, value: &mut Value) {
        self.part(value, Place { key: "", leave: Leave::Never, within: Within::Record });
    }

    fn part(&mut self, value: &mut Value, place: Place<'_>) {
        match value {
            Value::String(text) => *text = self.leaf(text, place),
            Value::Array(values) => values.iter_mut().for_each(|value| self.part(value, place)),
            Value::Object(fields) => {
                for (key, mut value) in std::mem::take(fields) {
                    let below = match place.within {
                        Within::Environments => place.settings(&key, &value),
                        _ => place.below(&key),
                    };
                    match &mut value {
                        Value::Object(variables) if key == VARIABLES => variables.clear(),
                        other => self.part(other, below),
                    }
                    fields.insert(self.recognized(&key), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn leaf(&mut self, text: &str, place: Place<'_>) -> String {
        match place.leave {
            Leave::Never if text.is_empty() || is_removed(text) => return text.to_owned(),
            Leave::Never => return self.word(place.key, text),
            Leave::Word | Leave::Text => drop(self.left.insert(text.to_owned())),
        }
        if place.leave == Leave::Word { text.to_owned() } else { self.text(text) }
    }
}

/// Where in a document a value is.
#[derive(Clone, Copy)]
struct Place<'k> {
    /// The key of the value, or of the parameter whose value it is.
    key: &'k str,
    leave: Leave,
    within: Within<'k>,
}

/// Whose the keys are.
#[derive(Clone, Copy, PartialEq)]
enum Within<'k> {
    /// Baremark's.
    Record,
    /// Names of environments, whose values are their settings.
    Environments,
    /// Settings of an environment of this kind.
    Settings(&'k str),
    /// Names that a user or a kernel gave.
    Table,
    /// Those of a workload's detailed document.
    Document,
}

impl<'k> Place<'k> {
    /// The place of the value under `key`.
    fn below(self, key: &'k str) -> Place<'k> {
        let of = |leave, within| Place { key, leave, within };
        match (self.within, key) {
            (Within::Settings(kind), key) if environments::identifies(kind, key) => of(Leave::Never, Within::Record),
            (Within::Settings(_), _) => of(Leave::Text, Within::Record),
            // How the value of a parameter is written: whether it leaves is said by the parameter's key, unless it is one of its words.
            (Within::Record, "text" | "words" | "literal") => self,
            (Within::Table, _) => of(Leave::Text, Within::Table),
            (_, DOCUMENT) => of(Leave::Text, Within::Document),
            (Within::Record, ENVIRONMENTS) => of(Leave::Never, Within::Environments),
            (Within::Document, key) if NAMES.contains(&key) => of(Leave::Never, Within::Document),
            (Within::Document, _) => of(self.leave, Within::Document),
            (Within::Record, key) if TABLES.contains(&key) => of(Leave::Text, Within::Table),
            (_, key) => of(may_leave(key), Within::Record),
        }
    }

    /// The place of the settings of an environment.
    fn settings(self, name: &'k str, settings: &Value) -> Place<'k> {
        Place { key: name, leave: Leave::Never, within: Within::Settings(kind_of(name, settings)) }
    }
}

/// Which environment `name` is, by its settings: itself, or the one that it is like. One that is not known has no name.
fn kind_of(name: &str, settings: &Value) -> &'static str {
    let like = settings.get(environments::LIKE.key).and_then(|like| like.get("choice")?.as_str());
    environments::find(like.unwrap_or(name)).map_or("", |kind| kind.name)
}

/// Whether a text is a number with a unit, which a study writes in quotation marks.
fn is_quantity(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
    text.starts_with(|c: char| c.is_ascii_digit())
        && unit.len() <= 3
        && unit.chars().all(|c| c.is_ascii_alphabetic() || c == '%')
}

/// Names of accounts, namespaces and contexts that identify nobody, and are words of other texts as well.
const EVERYBODYS: &[&str] = &["root", "default", environments::NATIVE, "localhost"];

/// Whether a word can be removed without taking numbers and single letters of other texts with it.
fn is_word(word: &str) -> bool {
    word.chars().count() > 1 && word.chars().any(char::is_alphabetic) && !EVERYBODYS.contains(&word)
}

/// What is recognized: a character before, the secret, a character after.
const PATTERNS: [(&str, &str); 6] = [
    ("url", r#"([a-z][a-z0-9+.-]*://)([^/\s"'<>\\]+)()"#),
    ("mac", r"(^|[^0-9A-Fa-f:])((?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2})($|[^0-9A-Fa-f:])"),
    ("address", r"(^|[^0-9.])([0-9]{1,3}(?:\.[0-9]{1,3}){3})($|[^0-9.]|\.$|\.[^0-9])"),
    ("address", r"(^|[^0-9A-Za-z:])([0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7})($|[^0-9A-Za-z:])"),
    ("path", r#"()(/(?:home|root|Users|mnt|media|srv)/[^\s"'`,;:)\]}<>|\\]*)()"#),
    ("path", r#"(^|[\s"'=:,;(\[{`]|://)((?:/|~/)[A-Za-z0-9._+@%~-]{2}[^\s"'`,;:)\]}<>|\\]*)()"#),
];

/// Whether a text is what [`Redactor::word`] puts in the place of another.
fn is_removed(text: &str) -> bool {
    let parts = text.strip_prefix('/').unwrap_or(text).strip_prefix("removed-").and_then(|rest| rest.rsplit_once('-'));
    parts.is_some_and(|(name, count)| {
        name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_') && count.bytes().all(|c| c.is_ascii_digit())
    })
}

/// Whether what a pattern found identifies nobody: the kernel's own files, and texts that only look like an address.
fn keeps(name: &str, secret: &str) -> bool {
    match name {
        _ if is_removed(secret) => true,
        "path" => ["/dev", "/proc", "/sys"].iter().any(|root| {
            secret.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                && !secret.contains("..")
        }),
        // An IPv6 address has more letters and digits than a time of day, and is no run of colons alone.
        "address" if secret.contains(':') => {
            let groups: Vec<&str> = secret.split(':').collect();
            let time =
                groups.len() == 3 && groups.iter().all(|of| of.len() == 2 && of.bytes().all(|b| b.is_ascii_digit()));
            time || groups.iter().all(|of| of.is_empty()) || (groups.len() < 8 && !secret.contains("::"))
        }
        _ => false,
    }
}

/// A word as a pattern that matches it alone.
fn literal(word: &str) -> String {
    word.chars()
        .map(|c| if c.is_alphanumeric() || c == '_' { c.to_string() } else { format!("\\x{{{:x}}}", c as u32) })
        .collect()
}

/// Texts in a run's document that name machines, accounts and files: settings of environments that do not leave, and names of
/// machines. They are removed from other texts, too.
#[must_use]
pub fn secrets_in(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look(value, None, &mut found);
    found.sort();
    found.dedup();
    found
}

/// `of` is the environment whose settings these are.
fn look(value: &Value, of: Option<&str>, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| look(value, of, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                let names = ["host", "hostname"].contains(&key.as_str());
                match value {
                    Value::Object(_) if key == VARIABLES => {}
                    Value::Object(all) if key == ENVIRONMENTS => {
                        all.iter().for_each(|(name, value)| look(value, Some(kind_of(name, value)), found));
                    }
                    value if names || of.is_some_and(|kind| environments::identifies(kind, key)) => texts(value, found),
                    other if of.is_none() => look(other, of, found),
                    _ => {}
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Every text below `value` but for words of a parameter; those with an account or a domain in them, in parts too.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            found.extend(text.split('@').map(str::to_owned));
            found.push(text.clone());
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(fields) => {
            let leaves = |key: &&String| may_leave(key) != Leave::Word;
            fields.keys().filter(leaves).for_each(|key| texts(&fields[key], found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::knob::Kind;

    fn removed(text: &str) -> String {
        Redactor::new(&["lab7".to_owned(), "maria".to_owned(), "root".to_owned(), "4".to_owned()]).text(text)
    }

    #[test]
    fn names_addresses_and_paths_are_removed() {
        for (text, expected) in [
            ("run on lab7 by maria, lab7 again", "run on removed-name-2 by removed-name-1, removed-name-2 again"),
            ("lab7,lab7", "removed-name-1,removed-name-1"),
            ("collab7 and 4 ranks as root", "collab7 and 4 ranks as root"),
            ("10.0.0.7 and 10.0.0.8, 10.0.0.7.", "removed-address-1 and removed-address-2, removed-address-1."),
            ("fe80::1%eth0, 2001:db8:0:0:1:2:3:4", "removed-address-1%eth0, removed-address-2"),
            ("52:54:00:12:34:56", "removed-mac-1"),
            ("at 03:37:41 on 0000:00:1f.2", "at 03:37:41 on 0000:00:1f.2"),
            ("http://shop.example:8080/items", "http://removed-url-1/items"),
            (
                "/home/x/a.dat and -I/home/x/inc and /opt/tool",
                "/removed-path-1 and -I/removed-path-2 and /removed-path-3",
            ),
            ("file:///var/lib/x ~/notes", "file:///removed-path-1 removed-path-2"),
            ("/dev/kvm /proc/self/maps /sys/kernel", "/dev/kvm /proc/self/maps /sys/kernel"),
            ("/proc/../home/x", "/removed-path-2"),
            ("335/s, GUP/s, native / microvm, 7 /s", "335/s, GUP/s, native / microvm, 7 /s"),
        ] {
            assert_eq!(removed(text), expected);
        }
    }

    #[test]
    fn a_document_keeps_its_keys_and_numbers() {
        let mut value = serde_json::json!({
            "lab7": { "hostname": "lab7", "command_line": "root=UUID=1", "n": 1.25 },
            "arms": [{ "environment": "native", "argv": ["/home/m/x", "lab7"] }],
            "program": { "environment": { "TOKEN": "secret" } },
        });
        Redactor::new(&["lab7".to_owned()]).value(&mut value);
        assert_eq!(
            value,
            serde_json::json!({
                "lab7": { "hostname": "removed-name-1", "command_line": "removed-command_line-1", "n": 1.25 },
                "arms": [{ "environment": "native", "argv": ["/removed-path-1", "removed-name-1"] }],
                "program": { "environment": {} },
            })
        );
    }

    /// Every setting of every environment with a value that no pattern recognizes: the one in its row that says so is replaced, also under a name of
    /// the study's own and in the study's text, and no other is.
    #[test]
    fn what_identifies_in_an_environment_is_said_by_its_row() {
        for kind in environments::ALL.iter().filter(|kind| !kind.settings.is_empty()) {
            for name in [kind.name, "mine"] {
                let texts = || kind.settings.iter().filter(|of| matches!(of.kind, Kind::Text | Kind::Words));
                let secret = |key: &str| format!("quartz {key}");
                let mut settings: serde_json::Map<_, _> =
                    texts().map(|of| (of.key.to_owned(), serde_json::json!({ "text": secret(of.key) }))).collect();
                settings.insert("like".to_owned(), serde_json::json!({ "choice": kind.name }));
                settings.insert("a_new_key".to_owned(), serde_json::json!({ "words": ["quartz new"] }));
                let mut value = serde_json::json!({ "environments": { name: settings } });
                let secrets = secrets_in(&value);
                let mut redactor = Redactor::new(&secrets);
                redactor.value(&mut value);
                let settings = &value["environments"][name];
                for of in texts() {
                    let leaves = settings[of.key]["text"] == secret(of.key);
                    assert_eq!(leaves, !of.identifies, "{}: {}", kind.name, of.key);
                    assert_eq!(secrets.contains(&secret(of.key)), of.identifies, "{}: {}", kind.name, of.key);
                    let line = format!("{} = \"{}\"\n", of.key, secret(of.key));
                    assert_eq!(redactor.study(&line) == line, !of.identifies, "{line}");
                }
                assert_eq!(settings["a_new_key"]["words"][0], "removed-a_new_key-1");
                assert_eq!(settings["like"]["choice"], kind.name);
            }
        }
    }

    /// A study's text is redacted key by key, also of environments that its plan left out.
    #[test]
    fn no_key_that_identifies_leaves_a_study() {
        let settings = environments::ALL.iter().flat_map(|kind| kind.settings);
        for of in settings.filter(|of| of.identifies) {
            assert_eq!(may_leave(of.key), Leave::Never, "{}", of.key);
        }
    }

    /// Before, settings of Kubernetes left, since nobody had put them on the list of what must not.
    #[test]
    fn a_new_key_gives_nothing_away() {
        let mut value = serde_json::json!({
            "environments": { "pods": {
                "like": { "choice": "kubernetes" }, "context": { "text": "prod-eu" }, "namespace": { "text": "payments" }, "node": { "text": "ip-7" },
                "image": { "text": "registry.example/secret" }, "a_new_key": { "text": "hidden" },
                "labels": { "words": ["team=blue", "tier=gold"] }, "pull": { "choice": "always" }, "count": { "count": 3 },
            } },
            "a_new_key": ["hidden", { "another": "hidden too" }],
            "title": "payments on prod-eu",
            "notes": { "cgroup": "v2", "node": "7" },
            "document": { "url": "http://x/", "mode": "open", "list": [{ "user": "maria", "phase": "hold" }] },
        });
        let secrets = secrets_in(&value);
        assert!(
            ["prod-eu", "payments", "ip-7", "hidden", "team=blue"].iter().all(|of| secrets.contains(&(*of).to_owned()))
        );
        Redactor::new(&secrets).value(&mut value);
        let text = value.to_string();
        for secret in ["prod-eu", "payments", "ip-7", "registry", "hidden", "blue", "gold", "maria", "http:"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
        let settings = &value["environments"]["pods"];
        assert_eq!((&settings["pull"]["choice"], &settings["count"]["count"]), (&"always".into(), &3.into()));
        assert_eq!(settings["a_new_key"]["text"], value["a_new_key"][0], "the same text is the same word");
        assert_ne!(settings["labels"]["words"][0], settings["labels"]["words"][1], "different ones stay different");
        assert_eq!((&value["notes"]["cgroup"], &value["document"]["mode"]), (&"v2".into(), &"open".into()));
        assert_eq!(value["document"]["list"][0]["phase"], "hold");
    }

    #[test]
    fn a_study_loses_variables_and_comments_and_keeps_what_the_plan_keeps() {
        let text = "# by maria\n[factors] # mine\nenvironment = [\"native\"]\n[command.environment]\nTOKEN = \"s\"\nMORE = \"\"\"\n[x]\n\"\"\"\n\
                    [design]\nphase = \"10 ms\"\nenvironment = { A = \"b\" }\n[environments.pods]\nnamespace = 'payments' # of ours\n\
                    pull = \"always\"\nnew = \"\"\"a # b\nc\"\"\"\nargv = [\"sh\", \"/home/m/#1\", \"say \\\"x\\\"\"]\n";
        let mut redactor = Redactor::new(&[]);
        let mut plan = serde_json::json!({ "namespace": "payments", "pull": { "choice": "always" }, "argv": ["sh", "/home/m/#1"] });
        redactor.value(&mut plan);
        let expected = "\n[factors] \nenvironment = [\"native\"]\n[command.environment]\n[design]\nphase = \"10 ms\"\n\
                        [environments.pods]\nnamespace = \"removed-namespace-1\" \npull = \"always\"\nnew = \"removed-new-1\"\n\
                        argv = [\"sh\", \"/removed-path-1\", \"say \\\"x\\\"\"]\n";
        assert_eq!(redactor.study(text), expected);
    }

    #[test]
    fn settings_that_name_machines_are_secrets() {
        let value = serde_json::json!({
            "environments": { "far": { "host": { "text": "maria@lab7" }, "port": { "count": 22 }, "like": { "choice": "ssh" } } },
            "machine": { "hostname": "here" },
        });
        assert_eq!(secrets_in(&value), ["here", "lab7", "maria", "maria@lab7"]);
    }
}
