//! `baremark list`: what there is to choose from, straight from the descriptor tables.

use crate::context::{Context, descriptors};
use crate::exit::{Documented, Exit, Refusal};
use crate::places;
use crate::record;
use crate::source::SHIPPED;
use crate::watch::style;
use baremark_import::FORMATS;
use baremark_model::command;
use baremark_model::descriptor::Descriptor;
use baremark_model::environments::{self, EnvironmentKind};
use baremark_model::knob::{Default, Knob};
use baremark_model::metric::Better;
use baremark_model::plan::Mode;
use baremark_model::problem::nearest;
use baremark_model::published;
use baremark_model::study::{self, Study};
use baremark_model::tables;
use baremark_model::units::Nanos;
use baremark_model::value::Value;
use baremark_programs::command::missing;
use baremark_programs::workshop;
use baremark_report::beside;
use baremark_store::RunState;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark list                         # studies, workloads, environments
  baremark list studies                 # what each answers, needs and takes
  baremark list workloads               # parameters and metrics of each
  baremark list workloads block         # of one alone
  baremark list keys                    # every key of a study file";

/// What to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// Workloads with their parameters and metrics.
    Workloads,
    /// Environments, and whether they can be used here.
    Environments,
    /// Studies that are built in.
    Studies,
    /// Published tables that a study can name.
    Published,
    /// Keys of a study file.
    Keys,
    /// Formats of results that `import` reads.
    Formats,
    /// Exit codes of all commands.
    ExitCodes,
}

/// The listing; without a word, what can be listed. `only` is the kind of the workload that is listed alone.
pub fn run(context: &Context, what: Option<What>, only: Option<&str>) -> Result<(String, Exit), Refusal> {
    let json = context.json;
    let Some(what) = what else { return Ok((lists(context)?, Exit::Success)) };
    if let Some(only) = only.filter(|_| what != What::Workloads) {
        return Err(Refusal::bad_input(format!(
            "'{only}': only workloads are listed one by one; write list workloads KIND"
        )));
    }
    let text = match (what, json) {
        (What::Workloads, false) => workloads(&chosen(only)?),
        (What::Workloads, true) => pretty(&json!({ "workloads": workloads_json(&chosen(only)?) })),
        (What::Environments, _) => environments(json)?,
        (What::Studies, _) => studies(context)?,
        (What::Published, _) => published(json),
        (What::Keys, false) => keys(),
        (What::Keys, true) => pretty(&json!({ "sections": keys_json() })),
        (What::Formats, _) => formats(json),
        (What::ExitCodes, false) => Exit::markdown(),
        (What::ExitCodes, true) => pretty(&json!({ "exit_codes": exit_codes_json() })),
    };
    Ok((text, Exit::Success))
}

/// Each study and each workload with what it answers, in a line; as JSON their names.
fn lists(context: &Context) -> Result<String, Refusal> {
    use clap::ValueEnum;
    let named = |what: &What| what.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let lists: Vec<String> = What::value_variants().iter().map(named).collect();
    if context.json {
        let studies: Vec<&str> = SHIPPED.iter().map(|study| study.name).collect();
        let kinds: Vec<&str> = descriptors().iter().map(|descriptor| descriptor.kind).collect();
        return Ok(pretty(&json!({ "lists": lists, "studies": studies, "workloads": kinds })));
    }
    let style = style();
    let workload = |of: &&Descriptor| beside(&format!("  {:<WIDEST$}  ", of.kind), of.help, &style);
    Ok("Studies: `baremark run STUDY`\n".to_owned()
        + &studies(context)?
        + "\nWorkloads: `kind` in a study file\n"
        + &descriptors().iter().map(workload).collect::<String>()
        + "\n"
        + &beside("Environments: ", &environments::NAMES.join(", "), &style)
        + "Any program can be compared:\n"
        + "  baremark run --in native,microvm -- PROGRAM  # environments\n"
        + "  baremark ab A B                              # commands\n"
        + &beside("", &format!("`baremark list WHAT` describes them; WHAT is one of {}", lists.join(", ")), &style))
}

/// The formats of `import`, and how a file of each is made.
fn formats(json: bool) -> String {
    if json {
        let rows: Vec<_> = FORMATS.iter().map(|of| json!({ "name": of.name, "made_by": of.help })).collect();
        return pretty(&json!({ "formats": rows }));
    }
    FORMATS.iter().map(|of| beside(&format!("{:<17} ", of.name), of.help, &style())).collect()
}

fn pretty(value: &serde_json::Value) -> String {
    crate::json::document("baremark-list/1", value.clone())
}

/// Where the text about a key or metric begins.
const ENTRY: usize = 19;

fn knob_line(knob: &Knob) -> String {
    let default = match knob.default {
        Default::Required => "must be given".to_owned(),
        Default::Typed(text) => format!("default {text}"),
        Default::Derived(how) => format!("default: {how}"),
    };
    let takes = format!("{}; {default}", knob.takes());
    entry(knob.key, knob.help) + &beside(&" ".repeat(ENTRY), &takes, &style())
}

/// A name and what it is; a name that is too long for the column has a line of its own.
fn entry(name: &str, help: &str) -> String {
    let column = ENTRY - 5;
    match name.len() <= column {
        true => beside(&format!("    {name:<column$} "), help, &style()),
        false => format!("    {name}\n{}", beside(&" ".repeat(ENTRY), help, &style())),
    }
}

/// The workload of this kind, or all.
fn chosen(only: Option<&str>) -> Result<Vec<&'static Descriptor>, Refusal> {
    let all = descriptors();
    let Some(kind) = only else { return Ok(all) };
    let kinds: Vec<&str> = all.iter().map(|descriptor| descriptor.kind).collect();
    let found = all.into_iter().find(|descriptor| descriptor.kind == kind);
    let unknown = || Refusal::bad_input(format!("unknown workload '{kind}'; {}", nearest(kind, &kinds)));
    found.map(|descriptor| vec![descriptor]).ok_or_else(unknown)
}

fn workloads(chosen: &[&Descriptor]) -> String {
    let mut text = String::new();
    for descriptor in chosen {
        let _ = writeln!(text, "{}", descriptor.kind);
        text.push_str(&beside("  ", descriptor.help, &style()));
        text.push_str(&beside("  source: ", descriptor.source, &style()));
        let executors: Vec<String> = descriptor.executors.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "  executors: {}\n  parameters:", executors.join(", "));
        descriptor.parameters.iter().for_each(|knob| text.push_str(&knob_line(knob)));
        text.push_str("  metrics:\n");
        for metric in descriptor.metrics {
            let better = if metric.better == Better::Higher { "higher" } else { "lower" };
            let says = format!("{} ({better} is better): {}", metric.unit, metric.help);
            text.push_str(&entry(metric.key, &says));
        }
        text.push('\n');
    }
    text
}

fn workloads_json(chosen: &[&Descriptor]) -> serde_json::Value {
    chosen
        .iter()
        .map(|descriptor| {
            let metrics: Vec<_> = descriptor
                .metrics
                .iter()
                .map(|metric| json!({ "key": metric.key, "unit": metric.unit, "better": metric.better }))
                .collect();
            let parameters: Vec<_> = descriptor.parameters.iter().map(knob_json).collect();
            json!({ "kind": descriptor.kind, "help": descriptor.help, "parameters": parameters, "metrics": metrics })
        })
        .collect()
}

/// An environment, and why it cannot be used here if so.
type Available = (&'static EnvironmentKind, Option<String>);

fn availability() -> Result<Vec<Available>, Refusal> {
    let limits = crate::context::limits(crate::data::usual())?;
    let of = |place: &'static EnvironmentKind| {
        let missing = match places::probe(place.name)? {
            Some(probed) => probed.err(),
            None => limits.absent.get(place.name).cloned(),
        };
        Ok((place, missing))
    };
    environments::ALL.iter().copied().map(of).collect()
}

fn environments(json: bool) -> Result<String, Refusal> {
    let rows = availability()?;
    if json {
        let row = |(place, missing): &Available| json!({ "name": place.name, "missing": missing });
        return Ok(pretty(&json!({ "environments": rows.iter().map(row).collect::<Vec<_>>() })));
    }
    let widest = environments::NAMES.iter().map(|name| name.len()).max().unwrap_or(0);
    let line = |(place, missing): &Available| {
        let missing = missing.as_ref().map(|why| format!("not here: {why}"));
        beside(&format!("{:<widest$} ", place.name), missing.as_deref().unwrap_or(place.help), &style())
    };
    Ok(rows.iter().map(line).collect())
}

/// Columns of a name.
const WIDEST: usize = 20;

fn studies(context: &Context) -> Result<String, Refusal> {
    let (took, here) = (lasts(context)?, availability()?);
    let mut rows = Vec::new();
    for shipped in SHIPPED {
        let study = study::parse(shipped.name, shipped.text.as_bytes(), &descriptors()).map_err(Refusal::failure)?;
        // One that took much longer was interrupted for a while.
        let plausible = |took: &Nanos| took.0 <= 2 * study.design.budget.0;
        let took = took.get(&(shipped.name.to_owned(), study.title.clone())).copied().filter(plausible);
        rows.push((shipped.name, needs(&study, &here), study, took));
    }
    if context.json {
        let row = |(name, needs, study, took): &(&str, Vec<Need>, Study, Option<Nanos>)| {
            let [budget, took] = [Some(study.design.budget), *took].map(|time| time.map(|time| time.0));
            let needs: Vec<_> = needs.iter().map(|need| json!({ "what": need.what, "here": need.is_here })).collect();
            json!({ "name": name, "title": study.title, "needs": needs, "budget_ns": budget, "took_ns": took })
        };
        return Ok(pretty(&json!({ "studies": rows.iter().map(row).collect::<Vec<_>>() })));
    }
    let line = |(name, needs, study, took): &(&str, Vec<Need>, Study, Option<Nanos>)| {
        let seconds = |time: Nanos| Nanos(time.0.div_ceil(1_000_000_000) * 1_000_000_000);
        let took = took.map(|time| format!(", took {} here", seconds(time))).unwrap_or_default();
        let needs: Vec<String> = needs
            .iter()
            .map(|need| format!("{}{}", need.what, if need.is_here { "" } else { " (not here)" }))
            .collect();
        let needs = if needs.is_empty() { String::new() } else { format!("; uses {}", needs.join(", ")) };
        let says = format!("{} (at most {}{took}{needs})", study.title, study.design.budget);
        beside(&format!("  {name:<WIDEST$}  "), &says, &style())
    };
    Ok(rows.iter().map(line).collect())
}

/// What a study uses beyond this program and this machine as it is: an environment, a program, a permission.
struct Need {
    what: String,
    is_here: bool,
}

/// What parts of a study use; a part whose environment is not here is left out of its run.
fn needs(study: &Study, here: &[Available]) -> Vec<Need> {
    let levels = || study.factors.iter().flat_map(|factor| factor.levels.iter().map(move |level| (&factor.key, level)));
    let mut needs = Vec::new();
    let named: BTreeSet<String> =
        levels().map(|(_, level)| environments::kind_of(&level.to_string(), &study.environments).to_owned()).collect();
    for (place, missing) in here.iter().filter(|(place, _)| named.contains(place.name) && place.can.is_bounded()) {
        needs.push(Need { what: place.name.to_owned(), is_here: missing.is_none() });
    }
    let fixed = study.workloads.iter().flat_map(|chosen| chosen.parameters.values());
    let mut programs = BTreeMap::new();
    for value in fixed.chain(levels().map(|(_, level)| level)) {
        let Value::Program(program) = value else { continue };
        let path = program.environment.get("PATH").cloned().unwrap_or_else(workshop::search_path);
        for (name, package) in &program.needs {
            let is_here = missing(name, package, &path).is_ok();
            programs.insert(name.clone(), is_here);
        }
    }
    needs.extend(programs.into_iter().map(|(what, is_here)| Need { what, is_here }));
    if levels().any(|(key, _)| key.starts_with(tables::HOST)) {
        needs.push(Need { what: "--allow-host-changes".to_owned(), is_here: true });
    }
    needs
}

/// How long the last finished run of each study took on this machine, by the study's name and title; `--quick` and `--aa` do not count.
fn lasts(context: &Context) -> Result<BTreeMap<(String, String), Nanos>, Refusal> {
    let mut lasts = BTreeMap::new();
    if !context.store_path().is_ok_and(|path| path.exists()) {
        return Ok(lasts);
    }
    let store = record::open_existing(context)?;
    // A damaged run has no time here; `history` names it.
    for run in store.list().map_err(Refusal::failure)?.runs {
        let shipped = SHIPPED.iter().any(|study| study.name == run.study_file);
        let Some(ended) = run.ended.filter(|_| shipped && run.state == RunState::Finished) else { continue };
        let study = (run.study_file, run.title);
        if lasts.contains_key(&study) {
            continue;
        }
        let Ok(head) = store.load_head(&run.id) else { continue };
        if head.plan.mode == Mode::default() {
            lasts.insert(study, Nanos(ended.0.saturating_sub(run.started.0)));
        }
    }
    Ok(lasts)
}

fn published(json: bool) -> String {
    if json {
        let tables = published::names().into_iter().filter_map(|name| Some((published::find(&name)?, name)));
        let rows: Vec<_> = tables
            .map(|(of, name)| {
                let publication = of.publication;
                json!({ "name": name, "title": of.table.title, "when": publication.when, "studies": publication.studies, "blank": publication.blank.as_ref().or(of.table.blank.as_ref()) })
            })
            .collect();
        return pretty(&json!({ "published": rows }));
    }
    let of = |(name, of): (&str, &'static published::Publication)| {
        let widest = of.table.iter().map(|table| table.name.len()).max().unwrap_or(0);
        let rows = of.table.iter().map(|table| beside(&format!("  {:<widest$}  ", table.name), &table.title, &style()));
        let here = match of.studies.as_slice() {
            [] => format!("not measured: {}", of.blank.as_deref().unwrap_or("no shipped study does")),
            studies if studies[0] == name => format!("baremark run {}", studies.join(" | ")),
            studies => format!("baremark run {name} | {}", studies.join(" | ")),
        };
        beside(&format!("{name} ({}): ", of.when), &of.title, &style())
            + &rows.collect::<String>()
            + &beside("  here: ", &here, &style())
    };
    published::all().map(of).collect::<Vec<_>>().join("\n")
}

/// Every section of a study file but that of a workload, with its keys.
fn sections() -> Vec<(String, Vec<Knob>)> {
    let fixed: [(&str, &'static [Knob]); 10] = [
        ("study", tables::STUDY),
        ("factors", tables::FACTORS),
        ("workload.KIND", tables::OF_ONE_WORKLOAD),
        ("command", command::COMMAND),
        ("command.metrics.NAME", command::READING),
        ("command.success", command::SUCCESS),
        ("command.beside", command::BESIDE),
        ("observe", baremark_model::observer::OBSERVE),
        ("design", tables::DESIGN),
        ("report", tables::REPORT),
    ];
    let fixed = fixed.map(|(name, knobs)| (name.to_owned(), knobs.to_vec()));
    let places = environments::ALL.iter().filter(|place| !place.settings.is_empty());
    let places = places.map(|place| (format!("environments.{}", place.name), place.knobs()));
    fixed.into_iter().chain(places).chain([("environments.NAME".to_owned(), vec![environments::LIKE])]).collect()
}

fn keys_json() -> serde_json::Value {
    let of = |(section, knobs): &(String, Vec<Knob>)| {
        let keys = knobs.iter().map(knob_json).collect::<Vec<_>>();
        json!({ "section": section, "keys": keys })
    };
    sections().iter().map(of).collect()
}

fn knob_json(knob: &Knob) -> serde_json::Value {
    json!({ "key": knob.key, "takes": knob.takes(), "help": knob.help })
}

fn exit_codes_json() -> serde_json::Value {
    let command = |(command, when): &(&str, &str)| json!({ "command": command, "when": when });
    let row = |row: &Documented| {
        let commands: Vec<_> = row.commands.iter().map(command).collect();
        json!({ "code": row.exit.code(), "meaning": row.meaning, "commands": commands })
    };
    Exit::DOCUMENTED.iter().map(row).collect()
}

fn keys() -> String {
    let mut text = String::new();
    for (name, knobs) in sections() {
        let _ = writeln!(text, "[{name}]");
        knobs.iter().for_each(|knob| text.push_str(&knob_line(knob)));
        text.push('\n');
    }
    let taken = [
        ("[workload] ", "takes kind and the parameters that `baremark list workloads` shows."),
        ("[commands.NAME] ", "takes the keys of [command]; NAME is a level of the factor command."),
        ("[environments.NAME] ", "of a name of your own takes like and the keys of the place that it is like."),
    ];
    taken.iter().for_each(|(section, keys)| text.push_str(&beside(section, keys, &style())));
    text
}
