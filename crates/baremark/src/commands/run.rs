//! `baremark run`: plan, measure, show.

use crate::calibrate;
use crate::commands::plan;
use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::places;
use crate::predicted;
use crate::record::{self, Record};
use crate::source::Source;
use crate::watch::{Watch, say};
use baremark_disks::workload;
use baremark_lab::analysis::Run;
use baremark_lab::conduct::{Conductor, Ending};
use baremark_model::arm::ResolvedArm;
use baremark_model::plan::{Mode, Plan};
use baremark_programs::setup::{self, Step, When};
use std::path::PathBuf;

/// Runs a study from its beginning.
pub fn run(context: &Context, source: &Source, mode: Mode) -> Result<(String, Exit), Refusal> {
    let plan = plan::of(source, mode, &context.interrupt)?;
    disks(context, &plan)?;
    let store = context.open_store()?;
    let turn = record::turn(context, &store)?;
    let record = Record::create(&store, source, &plan)?;
    drop(turn);
    conduct(context, record)
}

/// Measures what a run still lacks and shows it.
pub fn conduct(context: &Context, record: Record<'_>) -> Result<(String, Exit), Refusal> {
    let (run, exit) = measure(context, record)?;
    Ok((show(context, &run, false)?, exit))
}

/// Measures what a run still lacks. Its agents get the labels of its blinded arms, if it has any.
pub fn measure(context: &Context, mut record: Record<'_>) -> Result<(Run, Exit), Refusal> {
    crate::changes::recover()?;
    let mut run = record.run()?;
    disks(context, &run.plan)?;
    if let Some(notice) = workload::notice(block_arms(&run.plan)).filter(|_| !context.quiet) {
        say(notice);
    }
    let steps = Steps::of(&run.plan)?;
    steps.set_up()?;
    let environments = places::of_plan(&run.plan, record.envelope()?)?;
    let mut watch = Watch::new(&run.plan, context);
    let progress = record.progress();
    let ending = Conductor {
        plan: &run.plan,
        run: &run.id,
        environments: &environments,
        interrupt: &context.interrupt,
        progress: &progress,
        journal: &mut record,
        watch: &mut |event| watch.see(event),
    }
    .conduct(&mut run.trials, &run.looks);
    watch.finish();
    steps.clean_up();
    let ending = ending.map_err(|why| Refusal::failure(format!("run {} stopped: {why}", run.id)))?;
    record.close(&ending)?;
    let run = record.run()?;
    let exit = exit_of(&ending, &run);
    Ok((run, exit))
}

/// The arms of the workload `block`.
pub fn block_arms(plan: &Plan) -> impl Iterator<Item = &ResolvedArm> {
    let of = |index: &usize| plan.workload_of(*index) == workload::KIND;
    (0..plan.arms.len()).filter(of).map(|index| &plan.arms[index].arm)
}

/// Refuses a plan that would overwrite a block device that the user has not named.
fn disks(context: &Context, plan: &Plan) -> Result<(), Refusal> {
    workload::consent(block_arms(plan), &context.allow_destructive).map_err(Refusal::bad_input)
}

/// What the programs of a plan have to be done on this machine before the first trial and after the last.
struct Steps {
    setup: Vec<Step>,
    cleanup: Vec<Step>,
    keeper: PathBuf,
}

impl Steps {
    fn of(plan: &Plan) -> Result<Self, Refusal> {
        let arms: Vec<&ResolvedArm> = plan.arms.iter().map(|planned| &planned.arm).collect();
        let of = |when| setup::steps(&arms, when).map_err(Refusal::bad_input);
        Ok(Steps { setup: of(When::Before)?, cleanup: of(When::After)?, keeper: places::program()? })
    }

    fn set_up(&self) -> Result<(), Refusal> {
        setup::run(&self.setup, &self.keeper).map_err(|why| Refusal::failure(format!("setup: {why}")))
    }

    /// What was measured stands, whatever becomes of this.
    fn clean_up(&self) {
        if let Err(why) = setup::run(&self.cleanup, &self.keeper) {
            say(format_args!("warning: cleanup: {why}"));
        }
    }
}

/// The run as text or JSON: its answer in a few lines, or with all details.
pub fn show(context: &Context, run: &Run, details: bool) -> Result<String, Refusal> {
    let document = predicted::document(run, &descriptors_of(run)?, calibrate::of_run(context, run).as_ref());
    Ok(match context.json {
        true => baremark_report::json::render(&document),
        false if details => baremark_report::terminal::render(&document, &crate::watch::style()),
        false => baremark_report::summary::render(&document, &crate::watch::style()),
    })
}

fn exit_of(ending: &Ending, run: &Run) -> Exit {
    match ending {
        Ending::Complete(_) => Exit::Success,
        Ending::Interrupted => {
            say(format_args!("interrupted; `baremark resume {}` goes on", run.id));
            Exit::Interrupted
        }
        Ending::Failed(why) => {
            say(format_args!("error: nothing could be measured: {why}"));
            Exit::Failure
        }
        Ending::NothingToCompare(why) => {
            say(format_args!("error: nothing could be compared: {why}"));
            Exit::Failure
        }
    }
}
