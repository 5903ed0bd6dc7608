//! `baremark resume`: continue with a run that was interrupted or killed, or give a finished one more.

use crate::commands::{load, run};
use crate::context::{Context, descriptors};
use crate::exit::{Exit, Refusal};
use crate::overrides::{self, Changes, Spending, percent};
use crate::record::{self, Record};
use crate::source::Source;
use baremark_lab::conduct;
use baremark_model::codes::Origin;
use baremark_model::descriptor::Kind;
use baremark_model::plan::Plan;
use baremark_model::study;
use baremark_model::tables;
use baremark_model::units::{Nanos, Share};
use baremark_store::{Store, StoredRun};
use std::str::FromStr;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark resume                       # the latest unfinished run
  baremark resume 20261120-0801-7f3a
  baremark resume 7f3a --budget +4min   # extend a finished run
  baremark resume 7f3a --precision 0.5 --budget +10min

Whoever extends a finished run has seen its result, and may go on until they
like it. So each extension makes the intervals of ratios wider, which then cover
95 %: they are at 98.3 % after one extension, at 99.4 % after two.";

/// What a run is given besides what it has.
#[derive(clap::Args)]
#[command(next_help_heading = "Extension")]
pub struct More {
    /// Measure for +TIME more, or until TIME in all
    #[arg(long, value_name = "[+]TIME")]
    budget: Option<Budget>,
    /// Stop when the interval is this narrow
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    precision: Option<Share>,
}

#[derive(Clone, Copy)]
enum Budget {
    More(Nanos),
    InAll(Nanos),
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let time = |text: &str| text.parse::<Nanos>().map_err(|why| why.to_string());
        match typed.strip_prefix('+') {
            Some(more) => time(more).map(Budget::More),
            None => time(typed).map(Budget::InAll),
        }
    }
}

/// Continues the named run, or the latest unfinished one; with more, a finished one too.
pub fn run(context: &Context, named: Option<&str>, more: &More) -> Result<(String, Exit), Refusal> {
    // What is not there has nothing to resume, and nothing is made there.
    drop(record::open_existing(context)?);
    let store = context.open_store()?;
    let extends = more.budget.is_some() || more.precision.is_some();
    let id = if extends { record::find(&store, named)? } else { record::find_unfinished(&store, named)? };
    if record::is_resumable(&store, &id) && !extends {
        let turn = record::turn(context, &store)?;
        let resumed = load::find_max::resume(context, store, id);
        drop(turn);
        return resumed;
    }
    let turn = record::turn(context, &store)?;
    let held = record::hold(&store, &id)?;
    let stored = store.load_intact(&id).map_err(Refusal::failure)?;
    if baremark_sys::machine::this().fingerprint() != stored.machine.fingerprint() {
        return Err(Refusal::bad_input(format!(
            "run {id} was begun on another machine ({}); trials of two machines are not one run",
            record::machine_line(&stored.machine)
        )));
    }
    if extends {
        extend(&store, &stored, more)?;
    }
    let record = Record::take_up(&store, held, stored)?;
    drop(turn);
    run::conduct(context, record)
}

/// Stores the study and plan of a run that is given more.
fn extend(store: &Store, stored: &StoredRun, more: &More) -> Result<(), Refusal> {
    let id = &stored.id;
    let refuse = |why: String| Refusal::bad_input(format!("run {id} cannot be extended: {why}"));
    match Origin::of(&stored.study_file) {
        Origin::Import(_) => return Err(refuse("it was imported; import its file again".to_owned())),
        Origin::Load => return Err(refuse("it is a load; run that again".to_owned())),
        Origin::Study(_) | Origin::Command(_) => {}
    }
    let plan = &stored.plan;
    if plan.mode.quick {
        return Err(refuse("it is one of --quick, whose sizes are small; run the study without --quick".to_owned()));
    }
    if !plan.pairs.iter().any(|pair| pair.asked) {
        let remedy = "run its study again with --set design.least_blocks=N";
        return Err(refuse(format!("it compares nothing, and each value has its interval; {remedy}")));
    }
    let spent = Nanos(stored.trials.iter().map(|trial| trial.elapsed.0).sum());
    let budget = match more.budget {
        Some(Budget::More(time)) => Nanos(spent.0.saturating_add(time.0)),
        Some(Budget::InAll(time)) => time,
        None => plan.design.budget,
    };
    if budget.0 <= spent.0 {
        return Err(refuse(format!("it has measured for {spent} of {budget}; add time, such as --budget +2min")));
    }
    let precision = more.precision.unwrap_or(plan.design.precision);
    if conduct::is_reached(precision, &stored.plan.design, &stored.looks) {
        let finer = Share(precision.0 / 2.0);
        return Err(refuse(format!(
            "it has reached its precision of {precision}; give a smaller one, such as --precision '{finer}'"
        )));
    }
    let (text, plan) = extended(stored, budget, precision)?;
    store.extend(id, &text, &plan).map_err(Refusal::failure)
}

/// The run's study with another budget and precision, and its plan. A run that has ended has a result that somebody has seen.
fn extended(stored: &StoredRun, budget: Nanos, precision: Share) -> Result<(String, Plan), Refusal> {
    let design = &stored.plan.design;
    let precision_changes = precision.0.total_cmp(&design.precision.0).is_ne();
    let source = Source::new(stored.study_file.clone(), stored.study_text.clone().into_bytes());
    let spending =
        Spending { budget: Some(budget), precision: precision_changes.then_some(precision), ..Spending::default() };
    let blocks = stored.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
    // A study that its number of blocks has ended goes on until the budget ends it.
    let is_full = blocks >= design.most_blocks;
    let set = is_full.then(|| format!("design.most_blocks={}", most_blocks())).into_iter().collect();
    let changes = Changes { set, ..Changes::default() };
    let source = overrides::applied(source, &changes, &spending)?;
    let parsed = study::parse(&source.name, &source.bytes, &descriptors()).map_err(Refusal::bad_input)?;
    let mut plan = stored.plan.clone();
    plan.design = study::Design { seed: design.seed, ..parsed.design };
    plan.extensions += u32::from(stored.ended.is_some());
    Ok((String::from_utf8_lossy(&source.bytes).into_owned(), plan))
}

/// The most blocks that a study may ask for.
fn most_blocks() -> u64 {
    let knob = tables::DESIGN.iter().find(|knob| knob.key == "most_blocks");
    match knob.map(|knob| knob.kind) {
        Some(Kind::Count { max, .. }) => max,
        _ => u64::MAX,
    }
}
