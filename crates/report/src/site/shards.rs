//! The rows and runs of a site as scripts that hand over JSON: `studies-K.js` some rows of the index, `runs-K.js` the runs of some of them.
//!
//! A page that is opened from a disk may load a script next to it and nothing else, which is why they are no plain JSON.

use super::entry::{Entry, Quantity};
use baremark_model::order;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Rows of a file, and those that are in the index itself.
const ROWS: usize = 200;
const FIRST_ROWS: usize = 60;
/// Bytes of a file of runs, from which on there is another.
const RUN_BYTES: usize = 192 << 10;
/// Runs that a history draws: the latest.
const DRAWN: usize = 40;

/// What the index needs.
pub(super) struct StudyRows {
    /// The first rows, and how many files there are, as JSON that may be inside a script's element.
    pub first: String,
    /// The files.
    pub shards: Vec<(String, String)>,
    /// Rows in all.
    pub studies: usize,
}

/// The runs of a study on a machine, the latest first.
struct Group<'e> {
    /// The same in every index, so that a page may load files that were written after it.
    name: String,
    runs: Vec<&'e Entry>,
}

impl StudyRows {
    /// Of runs in any order; the study with the latest run is first.
    pub fn of(entries: &[&Entry]) -> StudyRows {
        let groups = groups(entries);
        let mut runs = Runs::default();
        let places: Vec<[usize; 2]> = groups.iter().map(|group| runs.add(group)).collect();
        let mut shards = runs.finish();
        let rows: Vec<Value> = groups.iter().zip(places).map(|(group, places)| row(group, places)).collect();
        let (first, rest) = rows.split_at(rows.len().min(FIRST_ROWS));
        let files: Vec<&[Value]> = rest.chunks(ROWS).collect();
        let first = json!({ "rows": first, "files": files.len() }).to_string();
        for (at, rows) in files.iter().enumerate() {
            let text = format!("baremark.rows({at},{});\n", Value::from(rows.to_vec()));
            shards.push((format!("studies-{at}.js"), text));
        }
        // `</script>` would end the element, and `<!--` begin another state of it.
        StudyRows { first: first.replace('<', "\\u003c"), shards, studies: rows.len() }
    }
}

fn groups<'e>(entries: &[&'e Entry]) -> Vec<Group<'e>> {
    let mut ordered = entries.to_vec();
    order::by(&mut ordered, |one, two| (&two.started, &two.id).cmp(&(&one.started, &one.id)));
    let mut known = HashMap::new();
    let mut groups: Vec<Group<'e>> = Vec::new();
    for entry in ordered {
        let key = (&entry.title, &entry.study, &entry.kind, &entry.machine);
        let at = *known.entry(key).or_insert_with(|| {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            groups.push(Group { name: format!("{:016x}", hasher.finish()), runs: Vec::new() });
            groups.len() - 1
        });
        groups[at].runs.push(entry);
    }
    groups
}

/// A row of the index. Keys are short, for there are thousands.
fn row(group: &Group<'_>, files: [usize; 2]) -> Value {
    let latest = group.runs[0];
    let answer = &latest.answer;
    let is_ratio = !answer.ratio.is_empty();
    let drawn = |entry: &&Entry| {
        let same = |of: &&Quantity| of.name == answer.drawn;
        entry.quantities.iter().find(same).map(|of| rounded(of.value))
    };
    let mut history: Vec<Value> = group.runs.iter().filter_map(drawn).take(DRAWN).collect();
    history.reverse();
    let number = latest.quantities.iter().find(|of| is_ratio && of.name == answer.drawn);
    json!({
        "g": group.name, "t": latest.study, "k": latest.kind, "m": latest.machine, "n": group.runs.len(),
        "l": group.runs.iter().filter(|run| run.live).count(),
        "w": answer.of, "v": answer.value, "r": answer.ratio, "x": number.map(|of| rounded(of.value)),
        "o": answer.verdict, "c": answer.tone, "a": answer.others,
        "s": latest.source, "h": history, "d": latest.started, "p": latest.page, "i": latest.id, "f": files,
    })
}

/// A run, for the list of its study and for comparisons.
fn run(entry: &Entry) -> Value {
    let quantity = |of: &Quantity| {
        let (lo, hi) = of.limits.map_or((Value::Null, Value::Null), |(lo, hi)| (rounded(lo), rounded(hi)));
        json!([of.name, of.unit, rounded(of.value), lo, hi])
    };
    json!({
        "i": entry.id, "p": entry.page, "d": entry.started, "b": entry.version, "s": entry.source, "l": entry.live,
        "v": entry.answer.value, "r": entry.answer.ratio, "o": entry.answer.verdict, "c": entry.answer.tone,
        "q": entry.quantities.iter().map(quantity).collect::<Vec<_>>(),
    })
}

/// A number with as many digits as anybody compares.
fn rounded(value: f64) -> Value {
    format!("{value:.6e}").parse::<f64>().map_or(Value::Null, Value::from)
}

/// Files of runs as they fill.
#[derive(Default)]
struct Runs {
    files: Vec<(String, String)>,
    open: String,
}

impl Runs {
    /// The runs of a group, and the first and last of the files that they are in.
    fn add(&mut self, group: &Group<'_>) -> [usize; 2] {
        let first = self.files.len();
        let mut last = first;
        let mut rest = group.runs.as_slice();
        while !rest.is_empty() {
            let mut text = String::new();
            let mut taken = 0;
            while taken < rest.len() && self.open.len() + text.len() < RUN_BYTES {
                text.push_str(if taken == 0 { "" } else { "," });
                text.push_str(&run(rest[taken]).to_string());
                taken += 1;
            }
            self.open.push_str(&format!("baremark.runs(\"{}\",[{text}]);\n", group.name));
            rest = &rest[taken..];
            last = self.files.len();
            if self.open.len() >= RUN_BYTES {
                self.close();
            }
        }
        [first, last]
    }

    fn close(&mut self) {
        let at = self.files.len();
        let text = format!("{}baremark.read(\"runs-{at}.js\");\n", std::mem::take(&mut self.open));
        self.files.push((format!("runs-{at}.js"), text));
    }

    fn finish(mut self) -> Vec<(String, String)> {
        if !self.open.is_empty() {
            self.close();
        }
        self.files
    }
}
