//! The study of a command line or of a topology file: what `baremark auction run` runs and `--print-study` prints.
//!
//! A topology file has the keys of a study's `[topology]` in sections of its own, users and times in `[load]`, and arms in
//! `[study]`. Each mistake in it is reported with its line before anything is converted.

use crate::measurements::MAXIMUM;
use crate::topology::{Demand, QUICK, Topology, resolve};
use crate::workload::{KIND, MOST, USERS};
use baremark_model::problem::{Problem, Problems};
use std::fmt::Write as _;
use toml::{Table, Value};

/// What is converted.
#[derive(Clone, Copy, Debug)]
pub struct Request<'t> {
    /// The file's name in messages.
    pub file: &'t str,
    /// Its text; empty for the defaults.
    pub text: &'t str,
    /// Lines of TOML that lie over it, such as `app.count = 2`; of two for one key the first counts.
    pub levels: &'t [String],
    /// Whether the settings for a first answer lie over the file.
    pub quick: bool,
    /// Blocks, where the file does not say.
    pub blocks: u64,
    /// Where databases and logs are kept while it runs.
    pub folder: Option<&'t str>,
    /// The folder of logs and configurations that are kept.
    pub keep: Option<&'t str>,
}

/// A study and what it describes.
pub struct Converted {
    /// The text.
    pub study: String,
    /// The topology of its first arm.
    pub topology: Topology,
}

/// A phase beyond its own time may take so long.
const MARGIN_S: f64 = 600.0;
/// The longest that a search without a budget may take, in s.
const UNLIMITED_S: f64 = 24.0 * 3600.0;
/// Keys of `[load]` that are parameters of the workload.
const OF_THE_WORKLOAD: [&str; 4] = [USERS, "profile", "duration", "warm"];

/// Whether a text is a study already, and no topology file.
#[must_use]
pub fn is_study(text: &str) -> bool {
    let table: Result<Table, _> = toml::from_str(text);
    table.is_ok_and(|table| {
        table.contains_key("workload") || table.get("study").is_some_and(|study| study.get("title").is_some())
    })
}

/// Writes the study.
///
/// # Errors
/// Every mistake of the file and of what lies over it.
pub fn convert(request: &Request<'_>) -> Result<Converted, Problems> {
    let Request { file, text, .. } = *request;
    let mut levels = request.levels.to_vec();
    levels.extend(request.quick.then(|| QUICK.to_owned()));
    let topology = resolve(file, text, &levels)?;
    let mut above = Table::new();
    for level in levels.iter().rev() {
        lay_over(&mut above, table(file, level)?);
    }
    let mut whole = table(file, text)?;
    let (blocks, arms) = arms(file, whole.remove("study").or_else(|| above.get("study").cloned()), &above, request)?;
    above.remove("study");
    lay_over(&mut whole, above);
    for arm in &arms {
        let levels: Vec<String> = levels.iter().chain(&arm.set).cloned().collect();
        resolve(file, text, &levels)?;
    }
    let title = topology.title.clone();
    let study = written(
        &title,
        &topology.load,
        (blocks, &arms),
        section(whole, &[("folder", request.folder), ("keep", request.keep)]),
    );
    Ok(Converted { study, topology })
}

/// One arm of a topology file.
struct Arm {
    name: String,
    set: Vec<String>,
    keys: Table,
}

/// Blocks and arms of a topology file; without arms it describes one.
fn arms(file: &str, study: Option<Value>, above: &Table, request: &Request<'_>) -> Result<(u64, Vec<Arm>), Problems> {
    let wrong = |what: &str, remedy: &str| Problems {
        file: file.to_owned(),
        list: vec![Problem::new(0, what.to_owned(), remedy.to_owned())],
    };
    let Some(study) = study else { return Ok((request.blocks, Vec::new())) };
    let Value::Table(study) = study else { return Err(wrong("'study' must be a section", "write [study]")) };
    let over = above.get("study").and_then(|over| over.get("blocks"));
    let blocks = match over.or(study.get("blocks")) {
        None => request.blocks,
        Some(Value::Integer(blocks)) => u64::try_from(*blocks)
            .ok()
            .filter(|blocks| *blocks > 0)
            .ok_or_else(|| wrong("[study] has an invalid 'blocks'", "write a whole number from 1"))?,
        Some(_) => return Err(wrong("[study] has an invalid 'blocks'", "write a whole number from 1")),
    };
    let listed = study.get("arms").and_then(Value::as_array).filter(|arms| !arms.is_empty());
    let listed = listed.ok_or_else(|| wrong("[study] has no arms", "add [[study.arms]] with name and set"))?;
    let mut arms = Vec::new();
    for arm in listed {
        let name = arm.get("name").and_then(Value::as_str);
        let set = arm
            .get("set")
            .and_then(Value::as_array)
            .and_then(|set| set.iter().map(|line| line.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>());
        let known = arm.as_table().is_some_and(|arm| arm.keys().all(|key| ["name", "set"].contains(&key.as_str())));
        let (Some(name), Some(set), true) = (name, set, known) else {
            return Err(wrong(
                "an arm needs name and set, and nothing else",
                "write [[study.arms]], name = \"...\", set = [\"...\"]",
            ));
        };
        let mut keys = Table::new();
        for line in set.iter().rev() {
            lay_over(&mut keys, table(file, line)?);
        }
        if let Some(load) = keys.get("load").and_then(Value::as_table)
            && let Some(key) = OF_THE_WORKLOAD.into_iter().find(|key| load.contains_key(*key))
        {
            let what = format!("the arm '{name}' sets load.{key}, which a study has in [workload]");
            return Err(wrong(&what, "write a study with that key in [factors]"));
        }
        without(&mut keys, above);
        let mut name = slug(name, arms.len());
        if arms.iter().any(|arm: &Arm| arm.name == name) {
            name = format!("{name}-{}", arms.len() + 1);
        }
        arms.push(Arm { name, set, keys });
    }
    Ok((blocks, arms))
}

/// A name as a bare key.
fn slug(name: &str, place: usize) -> String {
    let words: Vec<String> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    if words.is_empty() { format!("arm-{}", place + 1) } else { words.join("-") }
}

/// The keys of `[topology]`.
fn section(mut whole: Table, folders: &[(&str, Option<&str>)]) -> Table {
    if let Some(Value::Table(load)) = whole.get_mut("load") {
        OF_THE_WORKLOAD.into_iter().for_each(|key| drop(load.remove(key)));
        if load.is_empty() {
            whole.remove("load");
        }
    }
    if let Some(Value::Table(head)) = whole.remove("topology") {
        lay_over(&mut whole, head);
    }
    whole.remove("title");
    for (key, folder) in folders.iter().filter_map(|(key, folder)| Some((key, (*folder)?))) {
        whole.insert((*key).to_owned(), Value::String(folder.to_owned()));
    }
    whole
}

fn written(title: &str, load: &Demand, (blocks, arms): (u64, &[Arm]), mut section: Table) -> String {
    let searched = load.users.is_none();
    let users = match load.users {
        None => quoted(MOST),
        Some(_) if !load.profile.is_empty() => quoted(&load.profile),
        Some(users) => users.to_string(),
    };
    let longest =
        if searched { load.budget_s.unwrap_or(UNLIMITED_S) } else { load.warm_s + load.duration_s + load.ramp_down_s };
    let mut text = format!(
        "[study]\ntitle = {}\n\n[workload]\nkind = \"{KIND}\"\nusers = {users}\nduration = \"{}\"\nwarm_up = \"{}\"\n",
        quoted(title),
        time(load.duration_s),
        time(load.warm_s)
    );
    if load.ramp_down_s > 0.0 {
        let _ = writeln!(text, "ramp_down = \"{}\"", time(load.ramp_down_s));
    }
    // Whoever allows more failures as a limit does not want them to discard the phase.
    if load.failures > 0.01 {
        let _ = writeln!(text, "error_limit = \"{} %\"", 100.0 * load.failures);
    }
    let _ = writeln!(text, "timeout = \"{}\"", time(longest + MARGIN_S));
    if searched && load.budget_s.is_none() {
        let budget = Value::String(time(UNLIMITED_S));
        lay_over(&mut section, Table::from_iter([("load".to_owned(), one("budget", budget))]));
    }
    if !arms.is_empty() {
        let variants = arms.iter().map(|arm| (arm.name.clone(), Value::Table(arm.keys.clone())));
        section.insert("variants".to_owned(), Value::Table(variants.collect()));
    }
    let lines = lines(&section);
    if !lines.is_empty() {
        let _ = write!(text, "\n[topology]\n{lines}");
    }
    let names: Vec<String> = arms.iter().map(|arm| quoted(&arm.name)).collect();
    if let Some(first) = names.first() {
        let _ = write!(text, "\n[factors]\nvariant = [{}]\n", names.join(", "));
        let _ =
            write!(text, "{}\n[report]\ncolumns = \"variant\"\nratio_to = {{ variant = {first} }}\n", design(blocks));
    } else {
        let _ = write!(text, "{}\n[report]\n", design(blocks));
    }
    let metric = if searched { MAXIMUM } else { "operations_per_s" };
    let _ = writeln!(text, "metric = \"{metric}\"");
    text
}

/// One phase of each arm in a trial: phases take minutes.
fn design(blocks: u64) -> String {
    format!(
        "\n[design]\nquads = 0\nleast_blocks = {blocks}\nmost_blocks = {blocks}\nprecision = \"5 %\"\nbudget = \"168 h\"\n"
    )
}

fn one(key: &str, value: Value) -> Value {
    Value::Table(Table::from_iter([(key.to_owned(), value)]))
}

fn time(seconds: f64) -> String {
    if seconds.fract() == 0.0 { format!("{seconds:.0} s") } else { format!("{:.0} ms", 1000.0 * seconds) }
}

fn table(file: &str, text: &str) -> Result<Table, Problems> {
    toml::from_str(text).map_err(|why: toml::de::Error| Problems {
        file: file.to_owned(),
        list: vec![Problem::new(0, why.message().to_owned(), "write key = value, text in quotation marks")],
    })
}

/// Lays the keys of `other` over those of `table`.
fn lay_over(table: &mut Table, other: Table) {
    for (key, value) in other {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            (_, value) => drop(table.insert(key, value)),
        }
    }
}

/// Takes away what `above` sets, too.
fn without(table: &mut Table, above: &Table) {
    for (key, value) in above {
        match (table.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => without(below, above),
            (Some(_), _) => drop(table.remove(key)),
            (None, _) => {}
        }
    }
}

/// Every value with its dotted key, one a line.
fn lines(table: &Table) -> String {
    fn put(path: &str, table: &Table, text: &mut String) {
        for (key, value) in table {
            let bare = !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_');
            let key = if bare { key.clone() } else { quoted(key) };
            let path = if path.is_empty() { key } else { format!("{path}.{key}") };
            match value {
                Value::Table(inner) if !inner.is_empty() => put(&path, inner, text),
                other => {
                    let _ = writeln!(text, "{path} = {}", literal(other));
                }
            }
        }
    }
    let mut text = String::new();
    put("", table, &mut text);
    text
}

/// A value as TOML writes it, on one line.
fn literal(value: &Value) -> String {
    let joined = |items: Vec<String>| items.join(", ");
    match value {
        Value::String(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(on) => on.to_string(),
        Value::Datetime(moment) => moment.to_string(),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(literal).collect())),
        Value::Table(table) if table.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let pairs = table.iter().map(|(key, value)| format!("{} = {}", quoted(key), literal(value)));
            format!("{{ {} }}", joined(pairs.collect()))
        }
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
