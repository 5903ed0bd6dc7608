//! Values of parameters, and the external program, which is one of them: a study describes it, an arm carries it, and its own parameters have values
//! again.

use crate::machine::Isa;
use crate::metric::Better;
use crate::page_size::PageSize;
use crate::units::{Bytes, Nanos, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A value as a study gives it, checked against its knob's kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// A size in bytes.
    SizeBytes(Bytes),
    /// A duration in nanoseconds.
    TimeNs(Nanos),
    /// A share of one.
    Share(Share),
    /// One of a knob's words.
    Choice(String),
    /// A page size.
    Page(PageSize),
    /// Free text.
    Text(String),
    /// `true` or `false`.
    Switch(bool),
    /// A list of words.
    Words(Vec<String>),
    /// An external program, as its study describes it.
    Program(Box<Program>),
    /// A value of a workload's own section, as TOML writes it.
    Literal(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(n) => n.fmt(f),
            Value::SizeBytes(size) => size.fmt(f),
            Value::TimeNs(time) => time.fmt(f),
            Value::Share(share) => share.fmt(f),
            Value::Choice(word) | Value::Text(word) => word.fmt(f),
            Value::Page(page) => page.fmt(f),
            Value::Switch(on) => on.fmt(f),
            Value::Words(words) => words.join(" ").fmt(f),
            Value::Program(program) if program.name.is_empty() => f.write_str(&program.argv.join(" ")),
            Value::Program(program) => f.write_str(&program.name),
            Value::Literal(text) => match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                Some(inner) if !inner.contains(['"', '\\']) => f.write_str(inner),
                _ => f.write_str(text),
            },
        }
    }
}

/// Placeholders that every program has in addition to its own parameters.
pub const GIVEN: &[(&str, &str)] = &[
    ("ranks", "the CPUs that the program may use, their number"),
    ("folder", "the program's private working folder"),
    ("port", "a TCP port that was free on loopback a moment ago, the same throughout a run of the program"),
    ("baremark", "this program at the site, for its commands such as nodes"),
    ("seed", "a number that differs from trial to trial and not between runs of one study"),
];

/// One side of the most square grid of so many processes, as the placeholders `{KEY_rows}` and `{KEY_columns}` of a count KEY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The shorter one.
    Rows,
    /// The longer one.
    Columns,
}

impl Side {
    /// Its end of a placeholder, with what it represents.
    pub const ENDINGS: &'static [(Side, &'static str, &'static str)] = &[
        (
            Side::Rows,
            "_rows",
            "the rows of the most square grid of `{KEY}` processes, as P of P x Q: 1 of a prime number; KEY is ranks or a parameter",
        ),
        (Side::Columns, "_columns", "its columns, which are at least as many"),
    ];

    /// This side of the grid of `count` processes; 0 of none.
    #[must_use]
    pub fn of(self, count: u64) -> u64 {
        let rows = (1..=count.isqrt()).rev().find(|rows| count.is_multiple_of(*rows)).unwrap_or(0);
        match self {
            Side::Rows => rows,
            Side::Columns => count.checked_div(rows).unwrap_or(0),
        }
    }
}

/// Which of several matches of a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// There must be just one.
    Only,
    /// The first.
    First,
    /// The last.
    Last,
    /// All, added up.
    Sum,
    /// The mean of all.
    Mean,
    /// The least.
    Least,
    /// The greatest.
    Most,
}

impl Take {
    /// The words of a study, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["only", "first", "last", "sum", "mean", "least", "most"];

    /// From a word of a study.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Take::Only, Take::First, Take::Last, Take::Sum, Take::Mean, Take::Least, Take::Most];
        Self::WORDS.iter().zip(all).find(|(name, _)| **name == word).map(|(_, take)| take)
    }
}

/// How a metric is found in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finder {
    /// A regular expression whose group `value` is the number.
    Regex(String),
    /// A JSON pointer (RFC 6901) to the number, in which a `*` represents every member of an array or object.
    Json(String),
}

impl Finder {
    /// A regular expression in which the first group is the number, unless one is named `value`; `None` where it has no group.
    #[must_use]
    pub fn with_group(pattern: &str) -> Option<Self> {
        if pattern.contains("(?<value>") || pattern.contains("(?P<value>") {
            return Some(Finder::Regex(pattern.to_owned()));
        }
        let (mut escaped, mut in_class) = (false, false);
        for (at, c) in pattern.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '[' => in_class = true,
                ']' => in_class = false,
                '(' if !in_class && !pattern[at + 1..].starts_with('?') => {
                    return Some(Finder::Regex(format!("{}(?<value>{}", &pattern[..at], &pattern[at + 1..])));
                }
                _ => {}
            }
        }
        None
    }
}

/// One metric of a program: its row of the descriptor, and where its value is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// The metric's key.
    pub key: String,
    /// The unit, as printed.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// One sentence for people.
    pub help: String,
    /// Where it stands: `stdout`, `stderr`, or a file that the program writes into its folder.
    pub from: String,
    /// How it is found there.
    pub finder: Finder,
    /// Which of several matches counts.
    pub take: Take,
    /// By what the number is multiplied to be in the unit.
    pub scale: f64,
    /// By what it is divided: a number, or a placeholder such as `{steps}`; empty for nothing.
    pub per: String,
    /// Whether a run without it counts.
    pub optional: bool,
}

/// When a run of a program counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Success {
    /// Exit codes that mean success; empty for any.
    pub exit: Vec<u64>,
    /// Regular expressions that must match in `from`.
    pub present: Vec<String>,
    /// Regular expressions that must not match in `from`.
    pub absent: Vec<String>,
    /// Where they are looked for: `output` (both streams), `stdout`, `stderr`, or a file in the folder.
    pub from: String,
}

impl Default for Success {
    fn default() -> Self {
        Success { exit: vec![0], present: Vec::new(), absent: Vec::new(), from: "output".to_owned() }
    }
}

/// What becomes of a program's standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdout {
    /// It is read, and as much as the limit allows is kept.
    #[default]
    Keep,
    /// It is `/dev/null`.
    Drop,
}

impl Stdout {
    /// The words of a study, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["keep", "drop"];

    /// Whether it is read.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        *self == Stdout::Keep
    }
}

/// A program that runs alongside the measured one, such as the server that it talks to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// A regular expression in its output that says that it is ready; empty where it is ready at once.
    pub ready: String,
}

/// A parameter that a study declares for its program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Declared {
    /// Its key: a placeholder `{key}` in the program's texts.
    pub key: String,
    /// Its default: a count, a text or a switch, which also says what it takes.
    pub default: Value,
    /// What `--quick` takes instead.
    pub quick: Option<Value>,
}

/// An external program as a study describes it. Texts hold placeholders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Its name, where the study has several; empty where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Programs that are run on the lab's machine before the first trial of a run, not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Vec<String>>,
    /// Programs that are run before every run of it in the same folder, not measured.
    pub prepare: Vec<Vec<String>>,
    /// Programs that are run on the lab's machine after the last trial of a run, not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleanup: Vec<Vec<String>>,
    /// Its working folder at the site, absolute; empty for its private folder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// The file that it reads as standard input, from its working folder; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// What becomes of its standard output.
    #[serde(default, skip_serializing_if = "Stdout::is_kept")]
    pub stdout: Stdout,
    /// Runs before the first one that is measured: at a site of this machine in the first block, elsewhere in every trial.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup: u64,
    /// Whether it is run again and again as long as a phase lasts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
    /// A program that runs meanwhile.
    pub beside: Option<Beside>,
    /// Files that are put into the folder, by name: their text.
    pub files: BTreeMap<String, String>,
    /// Files that are brought into the folder from the lab's machine, by name: their paths, there, and at the site once they
    /// are there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bring: BTreeMap<String, String>,
    /// Files of the lab's machine that it needs at their own paths, by path: where each is once it was brought to a site, and
    /// empty at a site of the lab's own machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub carry: BTreeMap<String, String>,
    /// Environment variables. Nothing else is passed on but a search path and what `inherit` names.
    pub environment: BTreeMap<String, String>,
    /// Environment variables that are passed on from the agent, where it has them.
    pub inherit: Vec<String>,
    /// Programs that must be there, each with the Debian package that has it.
    pub needs: BTreeMap<String, String>,
    /// The instruction set without which the program cannot run.
    pub instruction_set: Option<Isa>,
    /// The most that is kept of each output stream.
    pub output_limit_bytes: u64,
    /// When a run counts.
    pub success: Success,
    /// Its metrics; the first is the headline's.
    pub metrics: Vec<Reading>,
    /// Its parameters.
    pub parameters: Vec<Declared>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Default for Program {
    fn default() -> Self {
        Program {
            name: String::new(),
            argv: Vec::new(),
            setup: Vec::new(),
            prepare: Vec::new(),
            cleanup: Vec::new(),
            directory: String::new(),
            stdin: String::new(),
            stdout: Stdout::Keep,
            warmup: 0,
            repeat: false,
            beside: None,
            files: BTreeMap::new(),
            bring: BTreeMap::new(),
            carry: BTreeMap::new(),
            environment: BTreeMap::new(),
            inherit: Vec::new(),
            needs: BTreeMap::new(),
            instruction_set: None,
            output_limit_bytes: 1 << 20,
            success: Success::default(),
            metrics: Vec::new(),
            parameters: Vec::new(),
        }
    }
}

impl Program {
    /// Every text that may hold placeholders, with the key of `[command]` under which it stands.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let argv = self.argv.iter().map(|text| ("argv", text));
        let setup = self.setup.iter().flatten().map(|text| ("setup", text));
        let prepare = self.prepare.iter().flatten().map(|text| ("prepare", text));
        let cleanup = self.cleanup.iter().flatten().map(|text| ("cleanup", text));
        let places = [("directory", &self.directory), ("stdin", &self.stdin)];
        let beside = self.beside.iter().flat_map(|beside| &beside.argv).map(|text| ("beside", text));
        let files = self.files.values().map(|text| ("files", text));
        let environment = self.environment.values().map(|text| ("environment", text));
        let per = self.metrics.iter().map(|reading| ("metrics", &reading.per));
        let rules = self.success.present.iter().chain(&self.success.absent).map(|text| ("success", text));
        let steps = setup.chain(prepare).chain(cleanup);
        let texts =
            argv.chain(steps).chain(places).chain(beside).chain(files).chain(environment).chain(per).chain(rules);
        texts.map(|(key, text)| (key, text.as_str()))
    }

    /// Whether `key` is a placeholder of this program.
    #[must_use]
    pub fn has_placeholder(&self, key: &str) -> bool {
        GIVEN.iter().any(|(given, _)| *given == key)
            || self.parameters.iter().any(|declared| declared.key == key)
            || self.side(key).is_some()
    }

    /// The count, `ranks` or a parameter, of whose grid a placeholder is a side.
    #[must_use]
    pub fn side<'k>(&self, placeholder: &'k str) -> Option<(&'k str, Side)> {
        if self.parameters.iter().any(|declared| declared.key == placeholder) {
            return None;
        }
        let is_count = |key: &str| {
            let counts = |declared: &Declared| declared.key == key && matches!(declared.default, Value::Count(_));
            key == "ranks" || self.parameters.iter().any(counts)
        };
        let of = |(side, ending, _): &(Side, &str, &str)| Some((placeholder.strip_suffix(ending)?, *side));
        Side::ENDINGS.iter().find_map(of).filter(|(key, _)| is_count(key))
    }
}

#[cfg(test)]
mod tests {
    use super::{Finder, Side};

    #[test]
    fn a_pattern_gets_the_name_of_its_group() {
        let found = |pattern: &str| match Finder::with_group(pattern) {
            Some(Finder::Regex(regex)) => Some(regex),
            _ => None,
        };
        assert_eq!(found("rate: ([0-9.]+)").as_deref(), Some("rate: (?<value>[0-9.]+)"));
        assert_eq!(found(r"\((?:a|b) [(] (\d+)").as_deref(), Some(r"\((?:a|b) [(] (?<value>\d+)"));
        assert_eq!(found("(?<value>x)").as_deref(), Some("(?<value>x)"));
        assert_eq!(found("[0-9]+"), None);
    }

    #[test]
    fn a_grid_is_as_square_as_its_processes_let_it_be() {
        let grids: Vec<(u64, u64)> = (0..=9).map(|count| (Side::Rows.of(count), Side::Columns.of(count))).collect();
        let expected = [(0, 0), (1, 1), (1, 2), (1, 3), (2, 2), (1, 5), (2, 3), (1, 7), (2, 4), (3, 3)];
        assert_eq!(grids, expected);
        assert_eq!((Side::Rows.of(72), Side::Columns.of(72)), (8, 9));
    }
}
