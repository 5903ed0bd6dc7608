//! Predictions alongside a run's ratios: what a model of page walks says of each virtual treatment, measured here or not.
//!
//! The processor is the one that the run was made on, so that a report of another machine's run is about that machine; what
//! was calibrated of this machine is used for its own runs. Only native measurements are in a calibration, and it is another
//! run's: no prediction is fitted to what it is next to. A
//! prediction that cannot be had (an unknown processor, a workload whose addresses are unknown) is left out: a report never
//! fails for lack of one.

use baremark_lab::analysis::{self, Run};
use baremark_mmu::calibration::Calibration;
use baremark_mmu::machine;
use baremark_mmu::machine::Range;
use baremark_mmu::page::Page::{self, Huge, Large, Small};
use baremark_mmu::predict::{Cell, Effort, Question, predict};
use baremark_mmu::prior::priors;
use baremark_mmu::scheme::Scheme;
use baremark_mmu::stream::Stream;
use baremark_mmu::workload::{Kernel, of_arm};
use baremark_model::arm::ExecutorKind;
use baremark_model::descriptor::{Better, Descriptor};
use baremark_model::document::{Document, PredictionRow};
use baremark_model::plan::{PlannedArm, Treatment};

/// So little that a report comes at once; `baremark predict` takes more.
const EFFORT: Effort = Effort { structures: 6, draws: 150, accesses: 1 << 14, seed: 1 };

/// The run's document, with predictions; `calibration` is of the machine that the run was made on.
pub fn document(run: &Run, workloads: &[&'static Descriptor], calibration: Option<&Calibration>) -> Document {
    let mut document = analysis::document(run, workloads);
    if !run.plan.mode.self_check {
        document.predictions = rows(run, &document, calibration).unwrap_or_default();
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
}

fn rows(run: &Run, document: &Document, calibration: Option<&Calibration>) -> Option<Vec<PredictionRow>> {
    let facts = &run.machine;
    let number = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
    let mut machine = machine::recognised(number(facts.cpu.family)?, number(facts.cpu.model)?)?;
    let outer = if facts.virtualization.hypervisor == Some(true) { vec![Small, Large, Huge] } else { Vec::new() };
    let mut priors = priors().ok()?;
    let calibration = calibration.filter(|of| of.machine == machine.key);
    if let Some(calibration) = calibration {
        calibration.apply(&mut machine, &mut priors);
    }
    let processor = match calibration {
        Some(of) => format!("{}, calibrated by run {}", machine.name, of.run),
        None => format!("{}, not calibrated", machine.name),
    };
    let wanted = wanted(run, document);
    let mut rows = Vec::new();
    let mut done: Vec<(&Kernel, u32)> = Vec::new();
    for one in &wanted {
        if done.contains(&(&one.kernel, one.ranks)) {
            continue;
        }
        done.push((&one.kernel, one.ranks));
        let alike: Vec<&Wanted> =
            wanted.iter().filter(|other| other.kernel == one.kernel && other.ranks == one.ranks).collect();
        let mut schemes: Vec<Scheme> = Vec::new();
        for scheme in alike.iter().map(|other| Scheme::Native { page: other.scheme.application_page() }) {
            if !schemes.contains(&scheme) {
                schemes.push(scheme);
            }
        }
        schemes.extend(alike.iter().map(|other| other.scheme));
        let natives = schemes.len() - alike.len();
        let stream = || -> Box<dyn Stream> { one.kernel.stream() };
        let question = Question {
            busy: one.ranks,
            work_ns: one.kernel.work_ns(),
            faults: one.kernel.faults(),
            outer: outer.clone(),
            known: calibration.map(Calibration::known).unwrap_or_default(),
            effort: EFFORT,
            ..Question::new(&machine, &priors, &stream, schemes)
        };
        let Ok(prediction) = predict(&question) else { continue };
        let cells = prediction.cells.iter().skip(natives);
        rows.extend(alike.iter().zip(cells).filter_map(|(one, cell)| row(document, one, cell, &processor)));
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

/// Every virtual treatment of the plan that has a native one to be compared with, executed or not.
fn wanted(run: &Run, document: &Document) -> Vec<Wanted> {
    let plan = &run.plan;
    let native = |treatment: &Treatment| {
        let agrees = |base: &Treatment| {
            base.iter().all(|(key, label)| key == ENVIRONMENT || treatment.get(key).is_none_or(|mine| mine == label))
        };
        let is_native = |arm: &&PlannedArm| arm.environment == "native" && arm.arm.executor == ExecutorKind::Direct;
        plan.arms.iter().filter(is_native).find(|arm| agrees(&arm.treatment))
    };
    let executed = plan.arms.iter().filter(|arm| !arm.emulated).map(|arm| (&arm.treatment, Some(arm)));
    let all = executed.chain(plan.absent.iter().map(|absent| (&absent.treatment, None)));
    let mut wanted = Vec::new();
    for (treatment, arm) in all {
        let Some(base) = native(treatment).filter(|base| base.treatment != *treatment) else { continue };
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
        });
    }
    wanted
}

/// How a virtual treatment translates: as was found where it ran; else as its level of `mmu` says, nested where it says nothing.
fn scheme(document: &Document, treatment: &Treatment, arm: Option<&PlannedArm>, base: &PlannedArm) -> Option<Scheme> {
    let place = document.run.place_of(treatment.get(ENVIRONMENT)?);
    // Of machines that share one no page walk tells.
    let several = treatment.get("count").is_some_and(|count| count != "1");
    if several || (place != "microvm" && place != "qemu") {
        return None;
    }
    let guest_page = Page::from(arm.map_or(base.arm.page, |arm| arm.arm.page));
    let asked = treatment.get("host_backing").and_then(|label| Page::from_label(label));
    let host_backing = arm.and_then(|arm| arm.arm.host_backing).map(Page::from).or(asked).unwrap_or(guest_page);
    let mut arms = document.trials.iter().flat_map(|trial| &trial.arms).filter(|arm| arm.treatment == *treatment);
    let found = arms.find_map(|arm| arm.mmu.clone()).or_else(|| treatment.get("mmu").cloned());
    match found {
        Some(words) if words.starts_with("shadow") => Some(Scheme::Shadow { guest_page, host_backing }),
        Some(words) if !words.starts_with("nested") => None,
        None if arm.is_some() => None,
        _ => Some(Scheme::Nested { guest_page, host_backing }),
    }
}

const ENVIRONMENT: &str = "environment";
