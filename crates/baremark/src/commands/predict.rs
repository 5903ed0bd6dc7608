//! `baremark predict`: what MMU virtualization and page sizes would cost, before a virtual machine exists.
//!
//! The addresses come from a study's workload, from a shared page-distance file, or from a program that is traced ([`tracer`]).

use crate::calibrate;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::json;
use crate::kept::{self, Kept};
use crate::planning;
use crate::predicted;
use crate::source;
use crate::tracer;
use crate::watch::{say, style};
use baremark_microvm::{MmuMode, mmu_virtualization};
use baremark_mmu::calibration::Calibration;
use baremark_mmu::histogram::Histogram;
use baremark_mmu::machine::{self, Machine, MachineError, Range};
use baremark_mmu::page::Page::{self, Huge, Large, Small};
use baremark_mmu::predict::{Effort, Interval, PredictError, Prediction, Question, predict};
use baremark_mmu::prior::priors;
use baremark_mmu::scheme::Scheme;
use baremark_mmu::show;
use baremark_mmu::stream::Stream;
use baremark_mmu::trace::{Trace, Windows};
use baremark_mmu::workload::{self, Kernel};
use baremark_model::environments::{self, Capabilities};
use baremark_model::plan::Mode;
use baremark_model::units::Nanos;
use baremark_programs::workshop::search_path;
use baremark_report::beside;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark predict standard             # a study, on this machine
  baremark predict -- ./prog --size 10  # any program, under valgrind
  baremark predict --in qemu,container -- ./prog   # as these translate
  baremark predict --calibrate          # measure this machine for it";

const NOTHING: &str = "nothing to predict is named; write predict STUDY, or predict -- PROGRAM";

/// The command's arguments.
#[derive(clap::Args)]
pub struct Arguments {
    /// The study file or the shipped study's name
    #[arg(conflicts_with_all = ["validate", "calibrate", "distances", "program"])]
    study: Option<String>,
    /// The processor to predict for [default: this machine's]; an unknown one prints the list
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Cores that run the same work at once [default: a study's ranks, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: Option<u32>,
    /// Compare the model with published measurements instead; says what was fitted to what
    #[arg(long, conflicts_with_all = ["distances", "program"])]
    validate: bool,
    /// Measure this machine natively (three minutes at most) and keep it: predictions of this machine and reports of its
    /// runs use it from then on
    #[arg(long, conflicts_with_all = ["validate", "distances", "program", "machine"])]
    calibrate: bool,
    /// Predict from a page-distance file
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    distances: Option<PathBuf>,
    /// Write the program's page distances, which hold no address, to be shared
    #[arg(long, value_name = "FILE", requires = "program")]
    save_distances: Option<PathBuf>,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Trace the program for TIME at most; a longer one is ended, and predicted from its beginning
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "program")]
    limit: Nanos,
    /// Show the schemes that these environments have [default: all schemes]
    #[arg(long = "in", value_name = "ENVIRONMENTS", value_delimiter = ',', conflicts_with_all = ["validate", "calibrate"])]
    environments: Vec<String>,
    /// A program and its arguments, run once under valgrind; processes that it starts are not traced
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Arguments {
    /// Whether neither a study nor a program is named, nor what is known of one.
    fn names_nothing(&self) -> bool {
        self.study.is_none() && self.distances.is_none() && self.program.is_empty()
    }
}

/// What accesses memory.
enum Subject {
    Kernel(Kernel),
    Distances(Box<Histogram>),
    /// Of a program, and whether it was traced to its end.
    Trace(Trace, bool),
}

/// The prediction, or the validation, as text or JSON.
pub fn run(context: &Context, arguments: &Arguments) -> Result<(String, Exit), Refusal> {
    let effort = Effort { seed: arguments.seed, ..Effort::default() };
    if arguments.validate {
        let shown =
            show::validation(Effort { seed: arguments.seed, ..Effort::VALIDATION }).map_err(Refusal::failure)?;
        // A prediction that failed is reported in words; the command itself did what was asked.
        let text = if context.json { validation_json(&shown) } else { style().plain(&shown.text) };
        return Ok((text, Exit::Success));
    }
    // A processor that is not known is answered with those that are, whatever shall be predicted.
    if arguments.names_nothing() && !arguments.calibrate && arguments.machine.is_none() {
        return Err(Refusal::bad_input(NOTHING));
    }
    let paging = if arguments.machine.is_none() { mmu_virtualization().mode } else { MmuMode::Unknown };
    let places: Vec<Has> = arguments.environments.iter().map(|typed| has(typed, &paging)).collect::<Result<_, _>>()?;
    let (mut machine, outer) = machine_of(arguments.machine.as_deref())?;
    let processor = baremark_sys::machine::at_once().cpu.model_name.unwrap_or_default();
    if arguments.calibrate {
        let (calibration, path) = crate::commands::calibrate::run(context, &machine, &processor)?;
        let text = match context.json {
            true => calibration_json(&calibration, &path),
            false => format!("{calibration}\n# kept in {}\n", path.display()),
        };
        return Ok((text, Exit::Success));
    }
    let mut priors = priors().map_err(Refusal::failure)?;
    // A machine that was requested by name is the one in the books.
    let calibration = if arguments.machine.is_none() { calibrate::load(context, &processor)? } else { None };
    if let Some(calibration) = &calibration {
        calibration.apply(&mut machine, &mut priors);
    }
    let (subjects, left_out) = subjects(context, arguments)?;
    let mut found = Vec::new();
    let shown = |scheme: Scheme| places.is_empty() || places.iter().any(|has| has.has(scheme));
    for (subject, cores) in &subjects {
        // What was predicted of another machine says nothing of runs on this one.
        let kept = match (subject, &arguments.machine) {
            (Subject::Trace(_, whole), None) => Some(*whole),
            _ => None,
        };
        // Reports look for any scheme of a program; of all else nobody asks for what is not shown.
        let schemes = schemes().into_iter().filter(|scheme| kept.is_some() || shown(*scheme)).collect();
        let stream = || -> Box<dyn Stream> { subject.stream(arguments.seed) };
        let question = Question {
            busy: arguments.cores.unwrap_or(*cores),
            sample: subject.sample(),
            work_ns: subject.work_ns(),
            faults: subject.faults(),
            outer: outer.clone(),
            known: calibration.as_ref().map(Calibration::known).unwrap_or_default(),
            effort,
            ..Question::new(&machine, &priors, &stream, schemes)
        };
        let mut prediction = predict(&question).map_err(|why| match why {
            PredictError::Setup { .. } => Refusal::bad_input(why),
            _ => Refusal::failure(why),
        })?;
        if let Some(whole) = kept {
            keep(context, arguments, whole, &prediction, predicted::named(&machine, calibration.as_ref()));
        }
        prediction.cells.retain(|cell| shown(cell.scheme));
        found.push((subject.to_string(), prediction));
    }
    let text = if context.json {
        prediction_json(&machine, calibration.as_ref(), &places, &found, &left_out)
    } else {
        text(&machine, calibration.as_ref(), (&outer, &places), &found, &left_out)
    };
    Ok((text, Exit::Success))
}

/// Keeps the prediction of a program for reports of its runs on this machine.
fn keep(context: &Context, arguments: &Arguments, whole: bool, prediction: &Prediction, processor: String) {
    let words: Option<Vec<String>> = arguments.program.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let (Some(words), Ok(folder)) = (words, std::env::current_dir()) else { return };
    let Some(key) = kept::key(&words, &folder, &search_path()) else { return };
    let machine = baremark_sys::machine::at_once().fingerprint();
    let mut kept = Kept::of(prediction, words, machine, processor);
    (kept.whole, kept.cores) = (whole, arguments.cores.unwrap_or(1));
    match kept.save(context, &key) {
        Ok(path) => say(format_args!("kept for reports of this program in the microVM: {}", path.display())),
        // What was asked is answered all the same.
        Err(why) => say(format_args!("not kept for reports: {}", why.message)),
    }
}

/// Every scheme of small and large pages; the natives first, for they are the denominators.
fn schemes() -> Vec<Scheme> {
    let pairs = [(Small, Small), (Small, Large), (Large, Small), (Large, Large)];
    let native = [Scheme::Native { page: Small }, Scheme::Native { page: Large }];
    let nested = pairs.map(|(guest_page, host_backing)| Scheme::Nested { guest_page, host_backing });
    let shadow = pairs.map(|(guest_page, host_backing)| Scheme::Shadow { guest_page, host_backing });
    native.into_iter().chain(nested).chain(shadow).collect()
}

/// What an environment has of the schemes that are not native.
struct Has {
    name: String,
    nested: bool,
    shadow: bool,
    why: String,
}

impl Has {
    fn has(&self, scheme: Scheme) -> bool {
        match scheme {
            Scheme::Native { .. } => true,
            Scheme::Nested { .. } => self.nested,
            Scheme::Shadow { .. } => self.shadow,
        }
    }
}

/// What the environment that is typed has, on a machine whose KVM translates so.
fn has(typed: &str, paging: &MmuMode) -> Result<Has, Refusal> {
    let name = typed.split(':').next().unwrap_or(typed);
    let Some(kind) = environments::find(name) else {
        let names = environments::names(Capabilities::runs_work);
        return Err(Refusal::bad_input(format!("--in {typed}: unknown; write {}", names.join(", "))));
    };
    let of = |nested: bool, shadow: bool, why: &str| Has { name: name.to_owned(), nested, shadow, why: why.to_owned() };
    Ok(match (&kind.can, paging) {
        (can, _) if !can.runs_work() => of(false, false, "none: nothing runs there"),
        (can, MmuMode::Nested(by)) if can.virtual_machine => {
            of(true, false, &format!("nested paging, as KVM translates on this machine ({by})"))
        }
        (can, MmuMode::Shadow(by)) if can.virtual_machine => {
            of(false, true, &format!("shadow paging, as KVM translates on this machine ({by})"))
        }
        (can, MmuMode::Unknown) if can.virtual_machine => of(true, true, "nested or shadow paging: which is not known"),
        (can, _) if can.on_these_processors() => {
            of(false, false, "none: no second table, its walks are those of native")
        }
        _ => of(false, false, "not known: another machine; --machine selects its processor"),
    })
}

/// The processor, and what this machine's memory may be made of when it is itself virtual.
fn machine_of(named: Option<&str>) -> Result<(Machine, Vec<Page>), Refusal> {
    if let Some(key) = named {
        let machine = machine::known(key).map_err(|why| match why {
            MachineError::Unknown { .. } => Refusal::bad_input(why),
            MachineError::File(_) => Refusal::failure(why),
        })?;
        return Ok((machine, Vec::new()));
    }
    let facts = baremark_sys::machine::at_once();
    let number = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
    let found = number(facts.cpu.family).zip(number(facts.cpu.model));
    let recognised = found.and_then(|(family, model)| machine::recognised(family, model));
    let name = facts.cpu.model_name.unwrap_or_else(|| "unnamed".to_owned());
    let machine = recognised.or_else(|| predicted::nearest(found?, &name));
    let Some(machine) = machine else {
        let keys: Vec<_> = machine::known_keys().collect();
        let message = format!("unknown processor ({name}); select one with --machine: {}", keys.join(", "));
        return Err(Refusal { exit: Exit::Missing, message });
    };
    let outer = if facts.virtualization.hypervisor == Some(true) { vec![Small, Large, Huge] } else { Vec::new() };
    Ok((machine, outer))
}

/// What is to be predicted with the cores that do it side by side, and why something of a study is not.
type Subjects = (Vec<(Subject, u32)>, Vec<String>);

fn subjects(context: &Context, arguments: &Arguments) -> Result<Subjects, Refusal> {
    if let Some(study) = &arguments.study {
        return of_study(context, study);
    }
    if let Some(path) = &arguments.distances {
        let text = std::fs::read_to_string(path)
            .map_err(|why| Refusal::bad_input(format!("reading {}: {why}", path.display())))?;
        let histogram: Histogram =
            text.parse().map_err(|why| Refusal::bad_input(format!("{}: {why}", path.display())))?;
        return Ok((vec![(Subject::Distances(Box::new(histogram)), 1)], Vec::new()));
    }
    if arguments.names_nothing() {
        return Err(Refusal::bad_input(NOTHING));
    }
    if let Some(path) = &arguments.save_distances {
        writable(path)?;
    }
    let (trace, whole) = tracer::trace(context, &arguments.program, Duration::from_nanos(arguments.limit.0))?;
    if let Some(path) = &arguments.save_distances {
        save(path, &trace)?;
    }
    Ok((vec![(Subject::Trace(trace, whole), 1)], Vec::new()))
}

/// Whether a file can be written, known before a program is traced for minutes; one that is there keeps its content until then.
fn writable(path: &Path) -> Result<(), Refusal> {
    let fresh = !path.exists();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|_| if fresh { std::fs::remove_file(path) } else { Ok(()) })
        .map_err(|why| {
            Refusal::bad_input(format!("writing {}: {why}; name a file that can be written", path.display()))
        })
}

fn save(path: &Path, trace: &Trace) -> Result<(), Refusal> {
    let text = Histogram::of(trace.addresses()).to_string();
    std::fs::write(path, text).map_err(|why| Refusal::failure(format!("writing {}: {why}", path.display())))
}

/// Every kernel that a study runs, once for each size and number of ranks.
fn of_study(context: &Context, named: &str) -> Result<Subjects, Refusal> {
    let plan = planning::of(&source::find(named)?, Mode::default(), &context.interrupt)?;
    let mut found: Vec<(Kernel, u32)> = Vec::new();
    let mut left_out: Vec<String> = Vec::new();
    for (index, planned) in plan.arms.iter().enumerate() {
        let ranks = u32::try_from(planned.arm.ranks).unwrap_or(1).max(1);
        match workload::of_arm(plan.workload_of(index), &planned.arm) {
            Ok(kernel) if found.contains(&(kernel.clone(), ranks)) => {}
            Ok(kernel) => found.push((kernel, ranks)),
            Err(why) if left_out.contains(&why.to_string()) => {}
            Err(why) => left_out.push(why.to_string()),
        }
    }
    match (found.is_empty(), left_out.is_empty()) {
        (false, _) => {
            Ok((found.into_iter().map(|(kernel, ranks)| (Subject::Kernel(kernel), ranks)).collect(), left_out))
        }
        (true, false) => Err(Refusal::bad_input(format!("{named}: {}", left_out.join("; ")))),
        (true, true) => Err(Refusal::bad_input(format!("{named}: no part of it can run here"))),
    }
}

impl Subject {
    fn stream(&self, seed: u64) -> Box<dyn Stream> {
        match self {
            Subject::Kernel(kernel) => kernel.stream(),
            Subject::Distances(histogram) => Box::new(histogram.stream(seed)),
            Subject::Trace(trace, _) => Box::new(trace.stream()),
        }
    }

    /// Nanoseconds of other work for each access: a quarter to one for each of its instructions.
    fn work_ns(&self) -> Range {
        let instructions = match self {
            Subject::Kernel(kernel) => return kernel.work_ns(),
            Subject::Distances(_) => 3.0,
            Subject::Trace(trace, _) => trace.instructions_per_access(),
        };
        Range { low: 0.25 * instructions / 3.0, high: instructions / 3.0 }
    }

    /// The windows of a trace.
    fn sample(&self) -> Option<Windows> {
        match self {
            Subject::Trace(trace, whole) => trace.windows(*whole),
            Subject::Kernel(_) | Subject::Distances(_) => None,
        }
    }

    /// Page faults for each access.
    fn faults(&self) -> f64 {
        match self {
            Subject::Kernel(kernel) => kernel.faults(),
            Subject::Distances(_) | Subject::Trace(..) => 0.0,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Kernel(kernel) => kernel.fmt(f),
            Subject::Distances(_) => f.write_str("a program's page distances"),
            Subject::Trace(trace, true) => write!(f, "a program of {} accesses, traced", trace.accesses),
            Subject::Trace(trace, false) => {
                write!(f, "the beginning of a program, its first {} accesses, traced until the limit", trace.accesses)
            }
        }
    }
}

fn text(
    machine: &Machine,
    calibration: Option<&Calibration>,
    (outer, places): (&[Page], &[Has]),
    found: &[(String, Prediction)],
    left_out: &[String],
) -> String {
    let mut text = format!("{}\n", machine.name);
    if let Some(calibration) = calibration {
        let Calibration { date, run, .. } = calibration;
        text.push_str(&format!("Calibrated on this machine {date}, run {run}.\n"));
    }
    if !outer.is_empty() {
        let virtual_here = "This machine is itself virtual: every scheme walks its hypervisor's table, too, of unknown pages; \"native\" is native here.";
        text.push_str(&beside("", virtual_here, &style()));
    }
    for Has { name, why, .. } in places {
        text.push_str(&beside(&format!("{name}: "), why, &style()));
    }
    for (name, prediction) in found {
        text.push_str(&format!("\n{name}\n{}\n", show::prediction(prediction)));
        show::remarks(prediction).iter().for_each(|remark| text.push_str(&beside("", remark, &style())));
    }
    for why in left_out {
        text.push_str(&format!("\n{}", beside("not predicted: ", why, &style())));
    }
    text
}

fn prediction_json(
    machine: &Machine,
    calibration: Option<&Calibration>,
    places: &[Has],
    found: &[(String, Prediction)],
    left_out: &[String],
) -> String {
    let place =
        |of: &Has| serde_json::json!({ "name": of.name, "nested": of.nested, "shadow": of.shadow, "why": of.why });
    let places: Vec<_> = places.iter().map(place).collect();
    let subjects: Vec<_> = found.iter().map(|(name, prediction)| subject_json(name, prediction)).collect();
    let calibrated = calibration.map(|of| serde_json::json!({ "date": of.date, "run": of.run }));
    let document = serde_json::json!({
        "machine": machine.key,
        "processor": machine.name,
        "calibrated": calibrated,
        "environments": places,
        "subjects": subjects,
        "not_predicted": left_out,
    });
    json::document("baremark-prediction/1", document)
}

/// What a calibration found, and the file in which it is kept.
fn calibration_json(calibration: &Calibration, path: &Path) -> String {
    let document =
        serde_json::json!({ "date": calibration.date, "run": calibration.run, "file": path.display().to_string() });
    json::document("baremark-calibration/1", document)
}

/// The validation: each condition and whether it holds, and each predicted ratio with the published one.
fn validation_json(shown: &show::Shown) -> String {
    let conditions: Vec<_> = shown
        .conditions
        .iter()
        .map(|of| serde_json::json!({ "part": of.part, "condition": of.condition, "holds": of.holds }))
        .collect();
    let ratios: Vec<_> = shown
        .ratios
        .iter()
        .map(|of| {
            let predicted = interval_json(&of.compared.predicted);
            serde_json::json!({ "part": of.part, "case": of.case, "predicted": predicted, "published": of.compared.published })
        })
        .collect();
    let document = serde_json::json!({ "passes": shown.passes, "conditions": conditions, "ratios": ratios });
    json::document("baremark-validation/1", document)
}

fn interval_json(of: &Interval) -> serde_json::Value {
    serde_json::json!({ "median": of.median, "low": of.low, "high": of.high })
}

fn subject_json(name: &str, prediction: &Prediction) -> serde_json::Value {
    let interval = interval_json;
    let cells: Vec<_> = prediction
        .cells
        .iter()
        .map(|cell| {
            serde_json::json!({
                "scheme": cell.scheme.to_string(),
                "access_ns": interval(&cell.ns),
                "relative_run_time": cell.relative.as_ref().map(interval),
                "walking_share": interval(&cell.walking_share),
                "walks_per_access": cell.walks,
                "walk_references_per_access": cell.walk_references,
                "walk_references_to_memory_per_access": cell.walk_references_to_memory,
            })
        })
        .collect();
    let sampled = prediction
        .sample
        .map(|of| serde_json::json!({ "windows": of.count, "accesses_per_window": of.length, "share": of.share }));
    serde_json::json!({
        "subject": name,
        "sampled": sampled,
        "cells": cells,
        "native_small_over_large": prediction.page_contrast.as_ref().map(interval),
        "advice": show::advice(prediction),
        "draws": prediction.draws,
        "effective_draws": prediction.effective_draws,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "A program of 9 accesses" stood above a prediction from the first 60 s of it; only standard error said so.
    #[test]
    fn a_prediction_from_a_programs_beginning_is_labelled_so() {
        let of = |whole: bool| Subject::Trace(Trace::of(vec![64, 128, 4096]).expect("addresses"), whole).to_string();
        assert_eq!(of(true), "a program of 3 accesses, traced");
        assert_eq!(of(false), "the beginning of a program, its first 3 accesses, traced until the limit");
    }

    #[test]
    fn environments_have_the_schemes_that_their_machine_gives_them() {
        let of = |typed: &str, mode: &MmuMode| has(typed, mode).map(|of| (of.nested, of.shadow)).ok();
        let (nested, shadow) = (MmuMode::Nested("EPT"), MmuMode::Shadow("PVM"));
        for machine in ["microvm", "qemu", "cloud-hypervisor"] {
            assert_eq!(of(machine, &nested), Some((true, false)), "{machine}");
            assert_eq!(of(machine, &shadow), Some((false, true)), "{machine}");
            assert_eq!(of(machine, &MmuMode::Unknown), Some((true, true)), "{machine}");
        }
        for process in ["native", "sandbox", "container", "container:runsc"] {
            assert_eq!(of(process, &nested), Some((false, false)), "{process}");
            assert!(has(process, &nested).is_ok_and(|of| of.why.starts_with("none: no second table")), "{process}");
        }
        assert!(has("ssh:node1", &nested).is_ok_and(|of| of.why.starts_with("not known")));
        let why = has("xen", &nested).err().map(|refusal| refusal.message).unwrap_or_default();
        assert!(why.starts_with("--in xen: unknown; write native, microvm"), "{why}");
    }
}
