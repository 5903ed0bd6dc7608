//! The study of a command line or of a topology file: what `baremark auction run` runs and `--print-study` prints.
//!
//! A topology file has the keys of a study's `[topology]` in sections of its own, users and times in `[load]`, and arms in
//! `[study]`. Each mistake in it is reported with its line before anything is converted.

use crate::measurements::MAXIMUM;
use crate::topology::{Demand, QUICK, Topology, resolve};
use crate::workload::{KIND, MOST, USERS};
use baremark_model::command::RAMP_DOWN;
use baremark_model::config::{Layer, Reader, Section};
use baremark_model::former;
use baremark_model::literal;
use baremark_model::problem::Problems;
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
    /// A notice of each key that has another name today, of the file and of what lies over it.
    pub renamed: Vec<String>,
}

/// A phase beyond its own time may take so long.
const MARGIN_S: f64 = 600.0;
/// The longest that a search without a budget may take, in s.
const UNLIMITED_S: f64 = 24.0 * 3600.0;
/// Keys of `[load]` that are parameters of the workload.
const OF_THE_WORKLOAD: [&str; 4] = [USERS, "profile", "duration", "warm_up"];

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
        lay_over(&mut above, table(level));
    }
    let mut whole = table(text);
    let (blocks, arms) = arms(request, &levels, &above)?;
    for keys in [&mut whole, &mut above] {
        keys.remove("study");
    }
    lay_over(&mut whole, above);
    for arm in &arms {
        let levels: Vec<String> = levels.iter().chain(&arm.set).cloned().collect();
        resolve(file, text, &levels)?;
    }
    let topic = section(whole, &[("folder", request.folder), ("keep", request.keep)]);
    let study = written(&topology.title, &topology.load, (blocks, &arms), topic);
    let mut renamed = Layer::parse(file, text)?.renamed();
    for level in request.levels.iter().chain(arms.iter().flat_map(|arm| &arm.set)) {
        renamed.extend(Layer::level(level)?.renamed());
    }
    Ok(Converted { study, topology, renamed })
}

/// One arm of a topology file.
struct Arm {
    name: String,
    set: Vec<String>,
    keys: Table,
}

/// Blocks and arms of a topology file; without arms it describes one.
fn arms(request: &Request<'_>, levels: &[String], above: &Table) -> Result<(u64, Vec<Arm>), Problems> {
    let own = Layer::parse(request.file, request.text)?;
    let over: Vec<Layer<'_>> = levels.iter().map(|level| Layer::level(level)).collect::<Result<_, _>>()?;
    let layers: Vec<&Layer<'_>> = over.iter().chain([&own]).collect();
    let mut reader = Reader::default();
    let root = Section::root(&layers);
    let study = reader.section(&root, "study");
    let blocks = reader.count(&study, "blocks", (1, u64::MAX >> 1)).unwrap_or(request.blocks);
    let listed = reader.sections(&study, "arms");
    if root.has("study") && listed.is_empty() {
        reader.wrong(&study, "arms", "[study] has no arms", "add [[study.arms]] with name and set");
    }
    let mut arms: Vec<Arm> = Vec::new();
    for section in &listed {
        reader.keys(section, &["name", "set"], &[]);
        let (name, set) = (reader.text(section, "name").unwrap_or_default(), reader.texts(section, "set"));
        let mut keys = Table::new();
        for line in set.iter().rev() {
            match Layer::level(line) {
                Ok(_) => lay_over(&mut keys, table(line)),
                Err(why) => why.list.into_iter().for_each(|why| reader.wrong(section, "set", why.what, why.remedy)),
            }
        }
        let load = keys.get("load").and_then(Value::as_table);
        if let Some(key) = OF_THE_WORKLOAD.into_iter().find(|key| load.is_some_and(|load| load.contains_key(*key))) {
            let what = format!("the arm '{name}' sets load.{key}, which a study has in [workload]");
            reader.wrong(section, "set", what, "write a study with that key in [factors]");
        }
        without(&mut keys, above);
        let mut name = slug(name, arms.len());
        if arms.iter().any(|arm| arm.name == name) {
            name = format!("{name}-{}", arms.len() + 1);
        }
        arms.push(Arm { name, set: set.into_iter().map(str::to_owned).collect(), keys });
    }
    reader.finish()?;
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

fn written(title: &str, load: &Demand, (blocks, arms): (u64, &[Arm]), mut topology: Table) -> String {
    let searched = load.users.is_none();
    let users = match load.users {
        None => MOST.into(),
        Some(_) if !load.profile.is_empty() => load.profile.as_str().into(),
        Some(users) => literal::whole(users),
    };
    let longest =
        if searched { load.budget_s.unwrap_or(UNLIMITED_S) } else { load.warm_s + load.duration_s + load.ramp_down_s };
    let mut workload = literal::section([
        ("kind", KIND.into()),
        ("users", users),
        ("duration", time(load.duration_s)),
        ("warm_up", time(load.warm_s)),
    ]);
    if load.ramp_down_s > 0.0 {
        workload.insert(RAMP_DOWN.to_owned(), time(load.ramp_down_s));
    }
    // Whoever allows more failures as a limit does not want them to discard the phase.
    if load.failures > 0.01 {
        workload.insert("error_limit".to_owned(), format!("{} %", 100.0 * load.failures).into());
    }
    workload.insert("timeout".to_owned(), time(longest + MARGIN_S));
    if searched && load.budget_s.is_none() {
        let budget = literal::section([("budget", time(UNLIMITED_S))]);
        lay_over(&mut topology, literal::section([("load", budget.into())]));
    }
    let names: Vec<Value> = arms.iter().map(|arm| arm.name.as_str().into()).collect();
    let mut report = Table::new();
    if let Some(first) = names.first() {
        let variants = arms.iter().map(|arm| (arm.name.clone(), Value::Table(arm.keys.clone())));
        topology.insert("variants".to_owned(), Value::Table(variants.collect()));
        let base = literal::section([("variant", first.clone())]);
        report = literal::section([("columns", "variant".into()), ("ratio_to", base.into())]);
    }
    report.insert("metric".to_owned(), if searched { MAXIMUM } else { "operations_per_s" }.into());
    // One phase of each arm in a trial: phases take minutes.
    let design = literal::section([
        ("quads", 0.into()),
        ("least_blocks", literal::whole(blocks)),
        ("most_blocks", literal::whole(blocks)),
        ("precision", "5 %".into()),
        ("budget", "168 h".into()),
    ]);
    let mut study = literal::section([
        ("study", literal::section([("title", title.into())]).into()),
        ("workload", workload.into()),
        ("topology", topology.into()),
        ("factors", literal::section([("variant", names.into())]).into()),
        ("design", design.into()),
        ("report", report.into()),
    ]);
    for (section, needless) in [("factors", arms.is_empty()), ("topology", study["topology"] == Table::new().into())] {
        if needless {
            study.remove(section);
        }
    }
    study.to_string()
}

fn time(seconds: f64) -> Value {
    match seconds.fract() == 0.0 {
        true => format!("{seconds:.0} s").into(),
        false => format!("{:.0} ms", 1000.0 * seconds).into(),
    }
}

/// The keys of a text that was read already.
fn table(text: &str) -> Table {
    let mut table: Table = toml::from_str(text).unwrap_or_default();
    for (section, former, now) in former::IN_SECTIONS {
        let Some(Value::Table(section)) = table.get_mut(section) else { continue };
        if let Some(value) = section.remove(former) {
            section.insert(now.to_owned(), value);
        }
    }
    table
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
            (Some(Value::Table(below)), Value::Table(above)) => {
                without(below, above);
                if below.is_empty() {
                    table.remove(key);
                }
            }
            (Some(_), _) => drop(table.remove(key)),
            (None, _) => {}
        }
    }
}
