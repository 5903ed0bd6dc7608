//! Predictions alongside a run's ratios: what a model of page walks says of each virtual treatment, measured here or not.
//!
//! The processor is the one that the run was made on, so that a report of another machine's run is about that machine; what
//! was calibrated of this machine is used for its own runs. Only native measurements are in a calibration, and it is another
//! run's: no prediction is fitted to what it is next to. A
//! prediction that cannot be had (an unknown processor, a workload whose addresses are unknown) is left out: a report never
//! fails for lack of one.
//!
//! Of a database under single-row statements nested and shadow paging are predicted from what was counted natively, also where no
//! virtual machine is part of the study, and on a processor that is not known as the nearest one.
//!
//! Of a program in the microVM what [`kept`] has of it is next to its wall time.

use crate::calibrate;
use crate::commands::ab::quote;
use crate::context::Context;
use crate::kept::{self, Kept};
use baremark_databases::hammer::ROW_BYTES;
use baremark_lab::analysis::{self, Run};
use baremark_microvm::{MmuMode, mmu_virtualization};
use baremark_mmu::calibration::Calibration;
use baremark_mmu::machine::{self, Machine, Range};
use baremark_mmu::page::Page::{self, Huge, Large, Small};
use baremark_mmu::predict::{Cell, Effort, Interval, Question, predict};
use baremark_mmu::prior::{Priors, priors};
use baremark_mmu::scheme::Scheme;
use baremark_mmu::statements::Statements;
use baremark_mmu::stream::Stream;
use baremark_mmu::workload::{Kernel, of_arm};
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::codes::{Cause, Translation};
use baremark_model::command::{self, WALL};
use baremark_model::descriptor::Descriptor;
use baremark_model::distinct::distinct;
use baremark_model::document::{Document, PredictionRow, RatioRow, TrialArm};
use baremark_model::environments;
use baremark_model::metric::Better;
use baremark_model::parameters::Typed;
use baremark_model::plan::{Plan, PlannedArm, Treatment};
use baremark_model::value::Program;
use baremark_programs::workshop::search_path;
use std::path::Path;

/// So little that a report comes at once; `baremark predict` takes more.
const EFFORT: Effort = Effort { structures: 6, draws: 150, accesses: 1 << 14, seed: 1 };

/// The run's document, with predictions; a calibration is used that is of the machine that the run was made on.
pub fn document(context: &Context, run: &Run, workloads: &[&'static Descriptor]) -> Document {
    let mut document = analysis::document(run, workloads);
    if !run.plan.mode.self_check {
        let calibration = calibrate::of_run(context, run);
        document.predictions = rows(run, &document, calibration.as_ref()).unwrap_or_default();
        document.predictions.extend(databases(run, &document, calibration.as_ref()).unwrap_or_default());
        programs(context, run, &mut document);
    }
    document
}

/// A ratio that is to be predicted.
struct Wanted {
    kernel: Kernel,
    ranks: u32,
    scheme: Scheme,
    treatment: Treatment,
    relative_to: Treatment,
    metric: String,
    better: Better,
    /// Whether this machine has executed it.
    is_measured: bool,
}

/// The nearest known processor, labelled as such.
pub fn nearest((family, model): (u32, u32), name: &str) -> Option<Machine> {
    let mut machine = machine::nearest_to(family, model)?;
    machine.name = format!("{} (the nearest known model: this processor, {name}, is not known)", machine.name);
    Some(machine)
}

/// A processor, and whether it was calibrated.
pub fn named(machine: &Machine, calibration: Option<&Calibration>) -> String {
    match calibration {
        Some(of) => format!("{}, calibrated by run {}", machine.name, of.run),
        None => format!("{}, not calibrated", machine.name),
    }
}

/// The processor of a run, by family and model.
fn family_and_model(run: &Run) -> Option<(u32, u32)> {
    let number = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
    number(run.machine.cpu.family).zip(number(run.machine.cpu.model))
}

/// What is simulated: the processor with what was calibrated of it.
struct Simulated<'c> {
    machine: Machine,
    priors: Priors,
    /// What the machine's memory may be made of, where it is virtual itself.
    outer: Vec<Page>,
    calibration: Option<&'c Calibration>,
    processor: String,
}

impl<'c> Simulated<'c> {
    fn of(run: &Run, mut machine: Machine, calibration: Option<&'c Calibration>) -> Option<Self> {
        let virtual_itself = run.machine.virtualization.hypervisor == Some(true);
        let outer = if virtual_itself { vec![Small, Large, Huge] } else { Vec::new() };
        let mut priors = priors().ok()?;
        let calibration = calibration.filter(|of| of.machine == machine.key);
        if let Some(calibration) = calibration {
            calibration.apply(&mut machine, &mut priors);
        }
        let processor = named(&machine, calibration);
        Some(Simulated { machine, priors, outer, calibration, processor })
    }

    fn question<'q>(&'q self, stream: &'q dyn Fn() -> Box<dyn Stream>, schemes: Vec<Scheme>) -> Question<'q> {
        Question {
            outer: self.outer.clone(),
            known: self.calibration.map(Calibration::known).unwrap_or_default(),
            effort: EFFORT,
            ..Question::new(&self.machine, &self.priors, stream, schemes)
        }
    }
}

fn rows(run: &Run, document: &Document, calibration: Option<&Calibration>) -> Option<Vec<PredictionRow>> {
    let (family, model) = family_and_model(run)?;
    let wanted = wanted(run, document);
    // Where no virtual machine was measured, the nearest known processor says more than nothing.
    let name = run.machine.cpu.model_name.clone().unwrap_or_else(|| "unnamed".to_owned());
    let instead = || if wanted.iter().any(|one| one.is_measured) { None } else { nearest((family, model), &name) };
    let simulated = Simulated::of(run, machine::recognised(family, model).or_else(instead)?, calibration)?;
    let mut rows = Vec::new();
    let mut done: Vec<(&Kernel, u32)> = Vec::new();
    for one in &wanted {
        if done.contains(&(&one.kernel, one.ranks)) {
            continue;
        }
        done.push((&one.kernel, one.ranks));
        let alike: Vec<&Wanted> =
            wanted.iter().filter(|other| other.kernel == one.kernel && other.ranks == one.ranks).collect();
        let natives = alike.iter().map(|other| Scheme::Native { page: other.scheme.application_page() });
        let mut schemes = distinct(natives);
        schemes.extend(alike.iter().map(|other| other.scheme));
        let natives = schemes.len() - alike.len();
        let stream = || -> Box<dyn Stream> { one.kernel.stream() };
        let question = Question {
            busy: one.ranks,
            work_ns: one.kernel.work_ns(),
            faults: one.kernel.faults(),
            ..simulated.question(&stream, schemes)
        };
        let Ok(prediction) = predict(&question) else { continue };
        let cells = prediction.cells.iter().skip(natives);
        rows.extend(alike.iter().zip(cells).filter_map(|(one, cell)| row(document, one, cell, &simulated.processor)));
    }
    Some(rows)
}

fn row(document: &Document, wanted: &Wanted, cell: &Cell, processor: &str) -> Option<PredictionRow> {
    let time = cell.relative?;
    let (ratio, lo, hi) = match wanted.better {
        Better::Higher => (1.0 / time.median, 1.0 / time.high, 1.0 / time.low),
        Better::Lower => (time.median, time.low, time.high),
    };
    let same = |treatment: &Treatment, base: &Treatment, metric: &str| {
        *treatment == wanted.treatment && *base == wanted.relative_to && metric == wanted.metric
    };
    let found = document.ratios.iter().find(|row| same(&row.treatment, &row.relative_to, &row.metric));
    let measured = found.and_then(|row| Some(Range { low: row.lo?, high: row.hi? }));
    Some(PredictionRow {
        metric: wanted.metric.clone(),
        treatment: wanted.treatment.clone(),
        relative_to: wanted.relative_to.clone(),
        scheme: wanted.scheme.to_string(),
        processor: processor.to_owned(),
        ratio,
        lo,
        hi,
        measured: found.is_some_and(|row| row.ratio.is_some()),
        disagrees: measured.is_some_and(|range| range.high < lo || hi < range.low),
    })
}

/// Of each native treatment of `oltp-hammer` what nested and shadow paging would make of its rate, and the one of the other.
fn databases(run: &Run, document: &Document, calibration: Option<&Calibration>) -> Option<Vec<PredictionRow>> {
    let plan = &run.plan;
    let native = |&arm: &usize| {
        let planned = &plan.arms[arm];
        plan.workload_of(arm) == HAMMER && planned.environment == environments::NATIVE && plan.metric_of(arm) == RATE
    };
    let mut arms = (0..plan.arms.len()).filter(native).peekable();
    // Most runs have none, and nothing is read for them.
    arms.peek()?;
    let (family, model) = family_and_model(run)?;
    let name = run.machine.cpu.model_name.clone().unwrap_or_else(|| "unnamed".to_owned());
    let machine = machine::recognised(family, model).or_else(|| nearest((family, model), &name))?;
    let simulated = Simulated::of(run, machine, calibration)?;
    Some(arms.filter_map(|arm| database(&plan.arms[arm], document, &simulated)).flatten().collect())
}

/// What was counted of a server, for each statement; `None` where something was not.
fn counted(arm: &PlannedArm, document: &Document) -> Option<Statements> {
    let of = |metric: &str| document.estimate_of(metric, &arm.treatment);
    let rate = of(RATE).filter(|row| row.estimate > 0.0)?.estimate;
    let each = |metric: &str| of(metric).map(|row| row.estimate / rate);
    let cpu = of("cpu_us_per_tx")?;
    let ns = |us: f64| 1e3 * us.max(0.0);
    Some(Statements {
        table: arm.arm.parameters.get("rows").and_then(u64::typed)?.checked_mul(ROW_BYTES)?,
        cpu_ns: Range { low: ns(cpu.lo.unwrap_or(cpu.estimate)), high: ns(cpu.hi.unwrap_or(cpu.estimate)) },
        faults: each("server_minor_faults_per_s")? + each("server_major_faults_per_s")?,
        // Where shootdowns are not counted the switches alone are known.
        switches: each("server_context_switches_per_s")? + each("tlb_shootdowns_per_s").unwrap_or(0.0),
    })
}

fn database(arm: &PlannedArm, document: &Document, simulated: &Simulated<'_>) -> Option<Vec<PredictionRow>> {
    let counted = counted(arm, document)?;
    counted.stream().ok()?;
    let stream = || -> Box<dyn Stream> {
        match counted.stream() {
            Ok(stream) => stream,
            Err(why) => unreachable!("it was made a moment ago: {why}"),
        }
    };
    let huge = arm.arm.parameters.get("huge_pages").and_then(bool::typed) == Some(true);
    let schemes = Statements::schemes(if huge { Large } else { Small }).to_vec();
    let busy = u32::try_from(arm.arm.ranks).unwrap_or(1).max(1);
    let question = Question { busy, ..simulated.question(&stream, schemes) };
    let prediction = predict(&counted.asked(question)).ok()?;
    let in_mode = |mode: &str| {
        let mut treatment = arm.treatment.clone();
        treatment.insert(ENVIRONMENT.to_owned(), "virtual machine".to_owned());
        treatment.insert("mmu".to_owned(), mode.to_owned());
        treatment
    };
    let row = |treatment: Treatment, relative_to: Treatment, scheme: String, time: Interval| PredictionRow {
        metric: RATE.to_owned(),
        treatment,
        relative_to,
        scheme,
        processor: simulated.processor.clone(),
        // A rate is the inverse of a time.
        ratio: 1.0 / time.median,
        lo: 1.0 / time.high,
        hi: 1.0 / time.low,
        measured: false,
        disagrees: false,
    };
    let [_, nested, shadow] = prediction.cells.as_slice() else { return None };
    let against_native = |mode: &str, cell: &Cell| {
        let scheme = format!("{}, against native, from counts of the server", cell.scheme);
        Some(row(in_mode(mode), arm.treatment.clone(), scheme, cell.relative?))
    };
    let both = row(
        in_mode("nested"),
        in_mode("shadow"),
        "nested against shadow, from counts of the server".to_owned(),
        prediction.nested_over_shadow?,
    );
    Some(vec![against_native("nested", nested)?, against_native("shadow", shadow)?, both])
}

/// Next to each program that ran in the microVM what `baremark predict -- PROGRAM` found of it on this machine; where it was not asked, how
/// to ask it.
fn programs(context: &Context, run: &Run, document: &mut Document) {
    let plan = &run.plan;
    let inside = |&index: &usize| {
        let PlannedArm { arm, emulated, .. } = &plan.arms[index];
        arm.executor == ExecutorKind::Microvm && !emulated && plan.workload_of(index) == command::KIND
    };
    let mut arms = (0..plan.arms.len()).filter(inside).peekable();
    let machine = run.machine.fingerprint();
    // Most runs have none, and nothing is read for them.
    if arms.peek().is_none() || machine != baremark_sys::machine::at_once().fingerprint() {
        return;
    }
    let mode = mmu_virtualization().mode;
    for arm in arms.map(|index| &plan.arms[index]) {
        let Some(base) = native_of(plan, &arm.treatment) else { continue };
        let Some(program) = command::of_arm(&arm.arm) else { continue };
        let Some((words, directory)) = words_of(program, &arm.arm) else { continue };
        let path = program.environment.get("PATH").cloned().unwrap_or_else(search_path);
        let kept = kept::find(context, &words, Path::new(&directory), &path, run.started);
        match kept.filter(|kept| kept.machine == machine) {
            Some(kept) => {
                let rows = of_program(run, document, (arm, base), &kept, &mode);
                document.predictions.extend(rows);
            }
            None => advise(document, arm, &words),
        }
    }
}

/// The rows of one program. Where nobody says in which pages its memory is, each size that the kernel may choose has one.
fn of_program(
    run: &Run,
    document: &Document,
    (arm, base): (&PlannedArm, &PlannedArm),
    kept: &Kept,
    mode: &MmuMode,
) -> Vec<PredictionRow> {
    let guest_page = Page::from(command::guest_page(&arm.arm));
    let scheme = |host_backing: Page| match mode {
        MmuMode::Nested(_) => Some(Scheme::Nested { guest_page, host_backing }),
        MmuMode::Shadow(_) => Some(Scheme::Shadow { guest_page, host_backing }),
        MmuMode::Unknown => None,
    };
    let same =
        |row: &&RatioRow| row.metric == WALL.key && row.treatment == arm.treatment && row.relative_to == base.treatment;
    let measured = document.ratios.iter().find(same).is_some_and(|row| row.ratio.is_some());
    let what = if kept.whole { "its accesses" } else { "the accesses of its beginning" };
    let cores = if kept.cores > 1 { format!(" on {} cores at once", kept.cores) } else { String::new() };
    let row = |(host_backing, native): (Page, Page)| {
        let scheme = scheme(host_backing)?;
        let time = kept.time(scheme, native)?;
        Some(PredictionRow {
            metric: WALL.key.to_owned(),
            treatment: arm.treatment.clone(),
            relative_to: base.treatment.clone(),
            scheme: format!("{scheme}, against native {native}; page walks of {what}{cores}, without exits"),
            processor: kept.processor.clone(),
            ratio: time.median,
            lo: time.low,
            hi: time.high,
            measured,
            // Exits, the start and first touches are in the measured ratio alone: a difference is nothing to be explained.
            disagrees: false,
        })
    };
    pages(run, &arm.arm).into_iter().filter_map(row).collect()
}

/// The page sizes of a program's memory inside, each with the native ones.
fn pages(run: &Run, arm: &ResolvedArm) -> Vec<(Page, Page)> {
    let never = run.machine.memory.thp_enabled.as_deref() == Some("never");
    let choices = if never { vec![Small] } else { vec![Small, Large] };
    // The kernel chooses inside as it does natively.
    choices.into_iter().map(|native| (arm.host_backing.map_or(native, Page::from), native)).collect()
}

/// A program with its arguments as it was run, and its folder; `None` where it depends on what a prediction does not give it.
fn words_of(program: &Program, arm: &ResolvedArm) -> Option<(Vec<String>, String)> {
    let is_fed = !program.stdin.is_empty() || program.beside.is_some();
    if is_fed || !program.files.is_empty() || !program.bring.is_empty() {
        return None;
    }
    let filled = |text: &String| command::fill(text, |key| value(program, arm, key)).ok();
    Some((program.argv.iter().map(filled).collect::<Option<_>>()?, filled(&program.directory)?))
}

/// What a placeholder represents, where it is the same in every run.
fn value(program: &Program, arm: &ResolvedArm, key: &str) -> Option<String> {
    match program.side(key) {
        Some((count, side)) => value(program, arm, count)?.parse().ok().map(|count| side.of(count).to_string()),
        None if key == "ranks" => Some(arm.ranks.to_string()),
        None if program.parameters.iter().any(|declared| declared.key == key) => {
            arm.parameters.get(key).map(ToString::to_string)
        }
        None => None,
    }
}

/// Says how a program that ran in the microVM is predicted.
fn advise(document: &mut Document, arm: &PlannedArm, words: &[String]) {
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    let rows = document.explanations.iter_mut();
    for row in rows.filter(|row| row.cause == Some(Cause::ExitsOfProgram) && row.treatment == arm.treatment) {
        let command = format!("what its page walks add is predicted by `baremark predict -- {}`", words.join(" "));
        row.advice = if row.advice.is_empty() { command } else { format!("{}; {command}", row.advice) };
    }
}

/// The native arm that agrees with a treatment in everything but its place.
fn native_of<'p>(plan: &'p Plan, treatment: &Treatment) -> Option<&'p PlannedArm> {
    let agrees = |base: &Treatment| {
        base.iter().all(|(key, label)| key == ENVIRONMENT || treatment.get(key).is_none_or(|mine| mine == label))
    };
    let is_native =
        |arm: &&PlannedArm| arm.environment == environments::NATIVE && arm.arm.executor == ExecutorKind::Direct;
    plan.arms.iter().filter(is_native).find(|arm| agrees(&arm.treatment))
}

/// Every virtual treatment of the plan that has a native one to be compared with, executed or not.
fn wanted(run: &Run, document: &Document) -> Vec<Wanted> {
    let plan = &run.plan;
    let executed = plan.arms.iter().filter(|arm| !arm.emulated).map(|arm| (&arm.treatment, Some(arm)));
    let all = executed.chain(plan.absent.iter().map(|absent| (&absent.treatment, None)));
    let mut wanted = Vec::new();
    for (treatment, arm) in all {
        let Some(base) = native_of(plan, treatment).filter(|base| base.treatment != *treatment) else { continue };
        let Some(index) = plan.arms.iter().position(|arm| arm.treatment == base.treatment) else { continue };
        let Some(scheme) = scheme(document, treatment, arm, base) else { continue };
        let metric = document.run.metric_of(treatment).to_owned();
        let workload = plan.workload_of(index);
        let better = document.estimates.iter().find(|row| row.metric == metric).map(|row| row.better);
        // The other costs of page-table work are calls, of which nothing is simulated.
        let known = workload != "page-table" || metric == "fault_ns";
        let (Some(better), Ok(kernel), true) = (better, of_arm(workload, &base.arm), known) else { continue };
        wanted.push(Wanted {
            kernel,
            ranks: u32::try_from(base.arm.ranks).unwrap_or(1).max(1),
            scheme,
            treatment: treatment.clone(),
            relative_to: base.treatment.clone(),
            metric,
            better,
            is_measured: arm.is_some(),
        });
    }
    wanted
}

/// How a virtual treatment translates: as was found where it ran; else as its level of `host.mmu` or `mmu` says, nested where
/// it says nothing.
fn scheme(document: &Document, treatment: &Treatment, arm: Option<&PlannedArm>, base: &PlannedArm) -> Option<Scheme> {
    // Of machines that share one no page walk tells.
    let several = treatment.get("count").is_some_and(|count| count != "1");
    if several || !document.run.can_of(treatment).virtual_machine {
        return None;
    }
    let guest_page = Page::from(arm.map_or(base.arm.page, |arm| arm.arm.page));
    let asked = treatment.get("host_backing").and_then(|label| Page::from_label(label));
    let host_backing = arm.and_then(|arm| arm.arm.host_backing).map(Page::from).or(asked).unwrap_or(guest_page);
    let mut arms = document.trials.iter().flat_map(|trial| &trial.arms).filter(|arm| arm.treatment == *treatment);
    let asked =
        || ["host.mmu", "mmu"].into_iter().find_map(|key| treatment.get(key)).map(|level| Translation::of_words(level));
    let found = arms.find_map(TrialArm::translation).or_else(asked);
    match found {
        Some(Translation::Shadow) => Some(Scheme::Shadow { guest_page, host_backing }),
        Some(Translation::Unknown) => None,
        None if arm.is_some() => None,
        Some(Translation::Nested) | None => Some(Scheme::Nested { guest_page, host_backing }),
    }
}

const ENVIRONMENT: &str = "environment";
/// The workload whose statements are counted, and its rate.
const HAMMER: &str = "oltp-hammer";
const RATE: &str = "tx_per_s";

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use baremark_model::value::{Declared, Value};

    #[test]
    fn a_program_is_looked_for_with_its_arguments_as_they_were_and_not_where_it_needs_more() {
        let mut arm = ResolvedArm::native(6, PageSize::Small);
        arm.parameters.insert("level".to_owned(), Value::Count(9));
        let level = Declared { key: "level".to_owned(), default: Value::Count(1), quick: None };
        let of = |argv: &[&str]| Program {
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            directory: "/srv/{{data}".to_owned(),
            parameters: vec![level.clone()],
            ..Program::default()
        };
        let found = words_of(&of(&["./a", "-{level}", "{ranks}", "{ranks_rows}", "{other}}"]), &arm);
        assert_eq!(found, None, "a placeholder that is not declared");
        let (words, folder) =
            words_of(&of(&["./a", "-{level}", "{ranks}", "{ranks_rows}", "{{x}"]), &arm).expect("filled");
        assert_eq!(words, ["./a", "-9", "6", "2", "{x}"]);
        assert_eq!(folder, "/srv/{data}");
        for text in ["{seed}", "{folder}", "{port}"] {
            assert_eq!(words_of(&of(&["./a", text]), &arm), None, "{text} differs from run to run");
        }
        let fed = Program { stdin: "file".to_owned(), ..of(&["./a"]) };
        assert_eq!(words_of(&fed, &arm), None);
    }
}
