//! What else differs between two sides than what was asked: facts of the machines, of the program and of the design.

use baremark_model::comparison::Difference;
use baremark_model::document::{Document, RunHead};
use baremark_model::environments;
use baremark_model::joined::JoinedFact;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What is different from one minute to the next on every machine, and says nothing of it.
const VOLATILE: &[&str] =
    &["machine.load_average", "machine.memory.available_bytes", "machine.clock.tsc_hz", "machine.clock.tsc_error_ppm"];

/// The facts that differ.
pub struct Found {
    /// Between the sides.
    pub differing: Vec<Difference>,
    /// Among the runs of one side, and not between the sides.
    pub mixed: Vec<Difference>,
}

/// Every fact on which the sides do not agree.
pub fn between(base: &[Document], other: &[Document]) -> Found {
    let of_two = |JoinedFact { fact, values }: JoinedFact| {
        let mut values = values.into_iter();
        let mut next = || values.next().unwrap_or_default();
        Difference { fact, base: next(), other: next() }
    };
    let (differing, mixed) = among(&[base, other]);
    let [differing, mixed] = [differing, mixed].map(|facts| facts.into_iter().map(of_two).collect());
    Found { differing, mixed }
}

/// The facts on which several sides do not agree, the first one's value first: those that differ between sides, and those that differ among
/// the runs of one side alone.
pub fn among(sides: &[&[Document]]) -> (Vec<JoinedFact>, Vec<JoinedFact>) {
    let gathered: Vec<_> = sides.iter().map(|side| self::gathered(side)).collect();
    let keys: BTreeSet<&String> = gathered.iter().flat_map(BTreeMap::keys).collect();
    let none = BTreeSet::from(["none".to_owned()]);
    let (mut differing, mut mixed) = (Vec::new(), Vec::new());
    for fact in keys {
        let values: Vec<&BTreeSet<String>> = gathered.iter().map(|side| side.get(fact).unwrap_or(&none)).collect();
        // Each is set against the first one that has another value, which of long lists shows what that lacks.
        let against = |own: &BTreeSet<String>| values.iter().copied().find(|other| *other != own);
        let words = values.iter().map(|own| said(own, against(own).unwrap_or(own)));
        let found = JoinedFact { fact: fact.clone(), values: words.collect() };
        match values.iter().any(|own| against(own).is_some()) {
            true => differing.push(found),
            false if values.first().is_some_and(|own| own.len() > 1) => mixed.push(found),
            false => {}
        }
    }
    (differing, mixed)
}

/// Values in words; of long lists of words only what the other side lacks.
fn said(of: &BTreeSet<String>, against: &BTreeSet<String>) -> String {
    if let (1, 1, Some(own), Some(others)) = (of.len(), against.len(), of.first(), against.first())
        && own.len() > 200
    {
        let others: BTreeSet<&str> = others.split(' ').collect();
        let only: Vec<&str> = own.split(' ').filter(|word| !others.contains(word)).collect();
        return if only.is_empty() { "without these".to_owned() } else { only.join(" ") };
    }
    of.iter().cloned().collect::<Vec<_>>().join(" | ")
}

fn gathered(documents: &[Document]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let runs: Vec<BTreeMap<String, String>> = documents.iter().map(of_document).collect();
    for key in runs.iter().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>() {
        let values = runs.iter().map(|run| run.get(key).cloned().unwrap_or_else(|| "none".to_owned()));
        all.insert(key.clone(), values.collect());
    }
    all
}

fn of_document(document: &Document) -> BTreeMap<String, String> {
    let mut facts = of_run(&document.run);
    let mut recorded: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for arm in document.trials.iter().flat_map(|trial| &trial.arms) {
        let Some(mmu) = &arm.mmu else { continue };
        let environment = environments::of(&arm.treatment);
        recorded.entry(format!("mmu.{environment}")).or_default().insert(mmu.clone());
    }
    for detail in &document.details {
        let word = |key: &str| detail.document.get(key).and_then(Value::as_str);
        let Some((database, version)) = word("database").zip(word("version")) else { continue };
        recorded.entry(format!("server.{database}")).or_default().insert(version.to_owned());
    }
    facts.extend(recorded.into_iter().map(|(fact, values)| (fact, values.into_iter().collect::<Vec<_>>().join(" | "))));
    facts
}

fn of_run(run: &RunHead) -> BTreeMap<String, String> {
    let places: BTreeMap<&str, _> = run.environments.iter().map(|of| (of.name.as_str(), &of.settings)).collect();
    let mut facts = json!({
        "baremark": run.version,
        "design": { "phase": run.design.phase.to_string(), "quads": run.design.quads },
        "mode": run.mode,
        "environments": places,
        "parameters": run.parameters,
        "machine": run.machine,
    });
    if run.duet.is_some() {
        facts["design"]["duet"] = true.into();
    }
    let mut flat = BTreeMap::new();
    flatten("", &facts, &mut flat);
    flat.retain(|key, _| !VOLATILE.contains(&key.as_str()) && !key.ends_with("free_pages"));
    flat
}

fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Null => {}
        Value::Object(fields) => fields.iter().for_each(|(key, value)| flatten(&below(key), value, into)),
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().zip(0_u64..).for_each(|(item, index)| flatten(&below(&index.to_string()), item, into));
        }
        Value::Array(items) => {
            let words: Vec<String> = items.iter().map(plain).collect();
            into.insert(path.to_owned(), words.join(" "));
        }
        value => drop(into.insert(path.to_owned(), plain(value))),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A run's machine in one line.
pub fn machine(run: &RunHead) -> String {
    let facts = &run.machine;
    let name = facts.cpu.model_name.clone().unwrap_or_else(|| "an unnamed processor".to_owned());
    let parts = [
        facts.hostname.clone(),
        facts.cpu.logical_cpus.map(|cpus| format!("{cpus} CPUs")),
        facts.kernel.release.as_ref().map(|release| format!("Linux {release}")),
    ];
    parts.into_iter().flatten().fold(name, |line, part| format!("{line}, {part}"))
}
