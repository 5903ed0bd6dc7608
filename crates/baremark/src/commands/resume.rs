//! `baremark resume`: continue with a run that was interrupted or killed, or give a finished one more.

use crate::commands::{ab, load, run};
use crate::context::{Context, descriptors};
use crate::exit::{Exit, Refusal};
use crate::overrides::{self, Changes, Spending, percent};
use crate::record::{self, Record};
use crate::source::Source;
use baremark_model::codes::Origin;
use baremark_model::knob::Kind;
use baremark_model::plan::Plan;
use baremark_model::study::{self, Design};
use baremark_model::tables;
use baremark_model::units::{Nanos, Share};
use baremark_report::block_ns;
use baremark_store::StoredRun;
use std::str::FromStr;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark resume                       # the latest unfinished run of a study
  baremark resume 20261120-0801-7f3a    # by its ID, as loads have to be
  baremark resume 7f3a --budget +4min   # extend a finished run
  baremark resume 7f3a --precision 0.5 --budget +10min

Whoever extends a run may have seen its result, and may go on until they like
it. So each extension makes the intervals of ratios wider: 98.3 % after one,
99.4 % after two (docs/statistics.md). A gate (`ab --fail-above`) is not judged
again: compare or check the run.";

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

/// Continues the named run, or the latest unfinished one that is no load; with more, a finished one too.
pub fn run(context: &Context, named: Option<&str>, more: &More) -> Result<(String, Exit), Refusal> {
    // What is not there has nothing to resume, and nothing is made there.
    drop(record::open_existing(context)?);
    let store = context.open_store()?;
    let extends = more.budget.is_some() || more.precision.is_some();
    let id = if extends { record::find(&store, named)? } else { record::find_unfinished(&store, named)? };
    let turn = record::turn(context, &store)?;
    let held = record::hold(&store, &id)?;
    let stored = store.load_intact(&id).map_err(Refusal::failure)?;
    record::same_machine(&stored)?;
    if !extends && Origin::of(&stored.study_file) == Origin::Load {
        drop(turn);
        let is_search = stored.plan.search.is_some();
        let resume = if is_search { load::find_max::resume } else { load::resume };
        return resume(context, &store, held, stored);
    }
    if extends {
        let (text, plan) = extended(&stored, more)?;
        // What would be refused later is refused before the run is changed.
        run::permitted(context, &plan)?;
        store.extend(&id, &text, &plan).map_err(Refusal::failure)?;
    }
    let record = Record::resume(&store, held, stored)?;
    drop(turn);
    let (run, ended) = run::measure(context, record)?;
    // As the command that began it would have shown it.
    let text = match ab::shown(context, &run)? {
        Some(text) => text,
        None => run::show(context, &run, false)?,
    };
    Ok((text, run::answered(ended, &run)))
}

/// The study and plan of a run that is given more.
fn extended(stored: &StoredRun, more: &More) -> Result<(String, Plan), Refusal> {
    let id = &stored.id;
    let refuse = |why: String| Refusal::bad_input(format!("run {id} cannot be extended: {why}"));
    match Origin::of(&stored.study_file) {
        Origin::Import(_) => return Err(refuse("it was imported; import its file again".to_owned())),
        Origin::Load => return Err(refuse("it is a load; run that again".to_owned())),
        Origin::Study(_) | Origin::Changed(_) | Origin::Command(_) => {}
    }
    let (plan, design) = (&stored.plan, &stored.plan.design);
    if plan.mode.quick {
        return Err(refuse("it is one of --quick, whose sizes are small; run the study without --quick".to_owned()));
    }
    if !plan.pairs.iter().any(|pair| pair.asked) {
        let remedy = "run its study again with --set design.least_blocks=N";
        return Err(refuse(format!("it compares nothing, and each value has its interval; {remedy}")));
    }
    let spent = stored.trials.iter().map(|trial| trial.elapsed.0).sum::<u64>();
    let blocks = stored.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
    let budget = match more.budget {
        Some(Budget::More(time)) => spent.saturating_add(time.0),
        Some(Budget::InAll(time)) => time.0,
        None => design.budget.0,
    };
    let block = block_ns(stored.trials.iter().map(|trial| (trial.block, trial.cell, trial.elapsed.0)));
    if let Some(why) = too_short(budget, spent, block) {
        return Err(refuse(why));
    }
    let mut set = vec![format!("design.budget={} s", budget.div_ceil(1_000_000_000))];
    set.extend(more.precision.map(|precision| format!("design.precision={precision}")));
    // A study that its number of blocks has ended goes on until the budget ends it.
    set.extend((blocks >= design.most_blocks).then(|| format!("design.most_blocks={}", most_blocks())));
    let source = Source::new(stored.study_file.clone(), stored.study_text.clone().into_bytes());
    let source = overrides::applied(source, &Changes { set, ..Changes::default() }, &Spending::default())?;
    let parsed = study::parse(&source.name, &source.bytes, &descriptors()).map_err(Refusal::bad_input)?;
    let Design { budget, precision, most_blocks, .. } = parsed.design;
    let mut plan = plan.clone();
    plan.design = Design { budget, precision, most_blocks, ..plan.design };
    if plan.design != (Design { seed: plan.design.seed, ..parsed.design }) {
        let what =
            "its design is not that of its study, as of a pilot or a run with blinded arms; run the study itself";
        return Err(refuse(what.to_owned()));
    }
    plan.extensions.push(stored.looks.len());
    Ok((String::from_utf8_lossy(&source.bytes).into_owned(), plan))
}

const MINUTE: u64 = 60_000_000_000;

/// Why a budget of so many nanoseconds has no room for another block, and what has; `None` where it has.
fn too_short(budget: u64, spent: u64, block: u64) -> Option<String> {
    let minutes = block.div_ceil(MINUTE).max(2);
    (budget < spent.saturating_add(block)).then(|| {
        format!(
            "it has measured for {} of {}, and a block takes {}; add time, such as --budget +{minutes}min",
            Nanos(spent),
            Nanos(budget),
            Nanos(block)
        )
    })
}

/// The most blocks that a study may ask for.
fn most_blocks() -> u64 {
    let knob = tables::DESIGN.iter().find(|knob| knob.key == "most_blocks");
    match knob.map(|knob| knob.kind) {
        Some(Kind::Count { max, .. }) => max,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose first block had loaded a database for ten minutes was told to be resumed with +1min, which was refused with +2min, which was refused.
    #[test]
    fn what_is_said_to_be_enough_is_enough() {
        let trials = [(0, 0, 600), (1, 0, 10), (2, 0, 10)];
        let block = block_ns(trials.iter().map(|&(block, cell, s)| (block, cell, s * 1_000_000_000)));
        let spent = 620_000_000_000;
        assert_eq!(too_short(spent + MINUTE, spent, block), None);
        let said = too_short(spent + MINUTE, spent, 10 * MINUTE).expect("a block of ten minutes");
        assert!(said.ends_with("add time, such as --budget +10min"), "{said}");
        assert_eq!(too_short(spent + 10 * MINUTE, spent, 10 * MINUTE), None);
        assert!(too_short(0, spent, 1).is_some_and(|said| said.ends_with(" +2min")));
    }
}
