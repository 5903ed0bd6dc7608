//! Removing what identifies a machine and its user, in a way that keeps a run's parts fitting to each other.
//!
//! The same text becomes the same word everywhere, and different ones become different words, so that two treatments that differ in a path
//! still differ. Paths below /dev, /proc and /sys are the same on all machines and stay. Names that a user gave to treatments and
//! metrics are what a report is about and stay, too, unless they are one of the removed words.

use regex_lite::{Captures, Regex};
use serde_json::Value;
use std::collections::BTreeMap;

/// Keys whose values a run is not needed for: the kernel's command line names disks.
const EMPTIED: &[&str] = &["command_line", "hostname"];
/// The key whose value is a table of environment variables where it is a table; it is a factor's level where it is text.
const VARIABLES: &str = "environment";
/// Settings of environments whose values name machines, accounts and files, as documents and studies spell them.
const SETTINGS: &[&str] = &["host", "config", "identity", "partition", "hostfile", "folder", "address"];

/// Removes names, addresses, paths and environment variables.
#[derive(Debug)]
pub struct Redactor {
    words: Vec<Regex>,
    patterns: Vec<(&'static str, Regex)>,
    given: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Redactor {
    /// One that removes these words (names of hosts and users) besides what it recognizes. Words of one letter are not removed, and `root` is
    /// everybody's.
    #[must_use]
    pub fn new(words: &[String]) -> Redactor {
        let mut words: Vec<&String> = words.iter().filter(|word| is_word(word)).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words.dedup();
        let pattern =
            |word: &&String| Regex::new(&format!("(^|[^A-Za-z0-9_-])({})($|[^A-Za-z0-9_-])", literal(word))).ok();
        let known = |(name, pattern): (&'static str, &str)| Some((name, Regex::new(pattern).ok()?));
        Redactor {
            words: words.iter().filter_map(pattern).collect(),
            patterns: PATTERNS.into_iter().filter_map(known).collect(),
            given: BTreeMap::new(),
            counts: BTreeMap::new(),
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

    /// A study's text: as any text, without the lines of its environment variables.
    pub fn study(&mut self, text: &str) -> String {
        let mut inside = false;
        let mut lines = Vec::new();
        for line in text.lines() {
            let typed = line.trim();
            if typed.starts_with('[') {
                inside = typed.starts_with("[command.environment");
            }
            let assigned =
                typed.strip_prefix("environment").map(str::trim_start).and_then(|rest| rest.strip_prefix('='));
            let inline = assigned.is_some_and(|value| value.trim_start().starts_with('{'));
            if inline || (inside && !typed.starts_with('[')) {
                continue;
            }
            lines.push(self.text(line));
        }
        lines.join("\n") + "\n"
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
    fn word(&mut self, name: &'static str, secret: &str) -> String {
        if let Some(word) = self.given.get(secret) {
            return word.clone();
        }
        let count = self.counts.entry(name).or_default();
        *count += 1;
        let word = format!("removed-{name}-{count}");
        self.given.insert(secret.to_owned(), word.clone());
        word
    }

    /// A document without what identifies, in its texts and in its keys.
    pub fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(fields) => {
                let old = std::mem::take(fields);
                for (key, mut value) in old {
                    match &mut value {
                        emptied if EMPTIED.contains(&key.as_str()) => *emptied = Value::Null,
                        Value::Object(variables) if key == VARIABLES => variables.clear(),
                        other => self.value(other),
                    }
                    fields.insert(self.recognized(&key), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Whether a word can be removed without taking numbers and single letters of other texts with it.
fn is_word(word: &str) -> bool {
    word.chars().count() > 1 && word.chars().any(char::is_alphabetic) && word != "root"
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

/// Whether what a pattern found identifies nobody: the kernel's own files, and texts that only look like an address.
fn keeps(name: &str, secret: &str) -> bool {
    match name {
        _ if secret.starts_with("removed-") => true,
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

/// Texts in a run's document that name machines, accounts and files: settings of environments, the name of the machine.
#[must_use]
pub fn secrets_in(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look(value, &mut found);
    found.sort();
    found.dedup();
    found
}

fn look(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| look(value, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::Object(_) if key == VARIABLES => {}
                    value if SETTINGS.contains(&key.as_str()) || key == "hostname" => texts(value, found),
                    other => look(other, found),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Every text below `value`; those with an account or a domain in them, in parts too.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            found.extend(text.split('@').map(str::to_owned));
            found.push(text.clone());
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("/home/x/a.dat and -I/home/x/inc and /opt/tool", "removed-path-1 and -Iremoved-path-2 and removed-path-3"),
            ("file:///var/lib/x ~/notes", "file://removed-path-1 removed-path-2"),
            ("/dev/kvm /proc/self/maps /sys/kernel", "/dev/kvm /proc/self/maps /sys/kernel"),
            ("/proc/../home/x", "removed-path-2"),
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
                "lab7": { "hostname": null, "command_line": null, "n": 1.25 },
                "arms": [{ "environment": "native", "argv": ["removed-path-1", "removed-name-1"] }],
                "program": { "environment": {} },
            })
        );
    }

    #[test]
    fn a_study_loses_its_variables_and_keeps_its_factor() {
        let text = "[factors]\nenvironment = [\"native\"]\n[command.environment]\nTOKEN = \"s\"\n[design]\nseed = 1\nenvironment = { A = \"b\" }\n";
        let expected = "[factors]\nenvironment = [\"native\"]\n[command.environment]\n[design]\nseed = 1\n";
        assert_eq!(Redactor::new(&[]).study(text), expected);
    }

    #[test]
    fn settings_that_name_machines_are_secrets() {
        let value = serde_json::json!({ "far": { "host": { "text": "maria@lab7" }, "port": 22 }, "hostname": "here" });
        assert_eq!(secrets_in(&value), ["here", "lab7", "maria", "maria@lab7"]);
    }
}
