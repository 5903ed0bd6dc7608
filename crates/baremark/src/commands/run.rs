//! `baremark run`: plan, measure, show.

use crate::context::{Context, descriptors_of};
use crate::counted::Counted;
use crate::data;
use crate::exit::{Exit, Refusal};
use crate::places;
use crate::planning;
use crate::predicted;
use crate::record::Record;
use crate::source::Source;
use crate::watch::{Watch, say};
use baremark_disks::workload;
use baremark_host::{Host, Setter};
use baremark_lab::analysis::Run;
use baremark_lab::conduct::{Conductor, Ending};
use baremark_model::arm::ResolvedArm;
use baremark_model::event::TrialStatus;
use baremark_model::plan::{Mode, Plan};
use baremark_model::problem::chain;
use baremark_model::tables;
use baremark_programs::setup::{self, Step, When};
use std::path::PathBuf;
use std::time::Duration;

/// What is examined after a comparison may take so long, however short that was.
const EXAMINE_LEAST: Duration = Duration::from_secs(5);

/// Runs a study from its beginning.
pub fn run(context: &Context, source: &Source, mode: Mode) -> Result<(String, Exit), Refusal> {
    let (run, ended) = once(context, source, mode)?;
    Ok((show(context, &run, false)?, answered(ended, &run)))
}

/// Runs a study and shows nothing of it but its progress.
pub fn once(context: &Context, source: &Source, mode: Mode) -> Result<(Run, Exit), Refusal> {
    let plan = planning::of(source, mode, &context.interrupt)?;
    may_begin(context, &plan)?;
    of_plan(context, source, &plan)
}

/// Makes a run of a plan, and measures it.
pub fn of_plan(context: &Context, source: &Source, plan: &Plan) -> Result<(Run, Exit), Refusal> {
    let store = context.open_store()?;
    measure(context, Record::create(context, &store, source, plan)?)
}

/// Measures what a run still lacks. Its agents get the labels of its blinded arms, if it has any.
pub fn measure(context: &Context, mut record: Record<'_>) -> Result<(Run, Exit), Refusal> {
    crate::changes::recover_and_say()?;
    let mut run = record.run()?;
    disks(context, &run.plan)?;
    // From its first trial on a run finds in its files what it has written there.
    if run.trials.is_empty() {
        files(context, &run.plan)?;
    }
    let mut host = host_changes(context, &run.plan)?;
    if !context.quiet {
        planning::notices(&run.plan).iter().for_each(say);
    }
    let steps = Steps::of(&run.plan)?;
    if let Err(interrupted) = crate::quiet::wait(context) {
        record.close(&Ending::Interrupted)?;
        return Err(interrupted);
    }
    let environments = match steps.set_up().and_then(|()| places::of_plan(&run.plan, record.injected()?)) {
        Ok(environments) => environments,
        Err(why) => {
            // What the steps before the one that failed have made is there.
            steps.clean_up();
            record.close(&Ending::Failed(why.message.clone()))?;
            return Err(why);
        }
    };
    let mut watch = Watch::new(&run.plan, context);
    let progress = record.progress();
    let mut calls = Counted::default();
    let ending = Conductor {
        plan: &run.plan,
        run: &run.id,
        environments: &environments,
        interrupt: &context.interrupt,
        progress: &progress,
        overwritable: &context.allow_destructive,
        host: &mut |treatment| match &mut host {
            Some(setter) => tables::host_levels(treatment)
                .try_for_each(|(key, level)| setter.set(key, level))
                .map_err(|why| chain(&why)),
            None => Ok(()),
        },
        calls: Some(&mut calls),
        examine_least: EXAMINE_LEAST,
        log: &mut record,
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

/// Refuses a plan that the user has not permitted to do what it does.
pub fn permitted(context: &Context, plan: &Plan) -> Result<(), Refusal> {
    disks(context, plan)?;
    host_changes(context, plan).map(drop)
}

/// The same of one that begins anew, which would also overwrite files that hold something.
pub fn may_begin(context: &Context, plan: &Plan) -> Result<(), Refusal> {
    permitted(context, plan)?;
    files(context, plan)
}

/// The same of one that is run several times in a row: the first run fills the files that the second would be asked for.
pub fn may_be_repeated(context: &Context, plan: &Plan) -> Result<(), Refusal> {
    may_begin(context, plan)?;
    let writers = planning::writers(plan).map_err(Refusal::bad_input)?;
    match workload::kept_file(&writers) {
        Some(file) => Err(Refusal::bad_input(format!("each run fills {} and keeps it", file.display()))),
        None => Ok(()),
    }
}

/// Refuses a plan that would overwrite a block device that the user has not named.
fn disks(context: &Context, plan: &Plan) -> Result<(), Refusal> {
    let writers = planning::writers(plan).map_err(Refusal::bad_input)?;
    workload::consent(&writers, &context.allow_destructive).map_err(Refusal::bad_input)
}

/// Refuses a plan that would fill a file which holds something that no run has written, and that the user has not named.
fn files(context: &Context, plan: &Plan) -> Result<(), Refusal> {
    let writers = planning::writers(plan).map_err(Refusal::bad_input)?;
    workload::contents_may_go(&writers, &context.allow_destructive).map_err(Refusal::bad_input)
}

/// What sets the features of this host that a plan varies; `None` where no arm that runs has one. Refused unless the user allows it, and
/// where this host does not have one of the levels.
fn host_changes(context: &Context, plan: &Plan) -> Result<Option<Setter>, Refusal> {
    let runs = |key: &str| plan.arms.iter().any(|arm| arm.treatment.contains_key(key));
    let varied = plan.factors.iter().map(|(key, _)| key.as_str());
    let varied: Vec<&str> = varied.filter(|key| key.starts_with(tables::HOST) && runs(key)).collect();
    if varied.is_empty() {
        return Ok(None);
    }
    if !context.allow_host_changes {
        let keys = varied.join(", ");
        return Err(Refusal::bad_input(format!(
            "{keys}: this changes the host for the time of the run; allow it with --allow-host-changes"
        )));
    }
    let journal = crate::changes::journal().map_err(Refusal::failure)?;
    let parameters = plan.arms.iter().map(|arm| &arm.arm.parameters);
    let setter = Setter::new(journal, Host::this(data::of(parameters, &plan.environments)));
    let mut levels = plan.arms.iter().flat_map(|arm| tables::host_levels(&arm.treatment));
    levels.try_for_each(|(key, level)| setter.offers(key, level)).map_err(|why| Refusal::bad_input(chain(&why)))?;
    Ok(Some(setter))
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
    let document = predicted::document(context, run, &descriptors_of(run)?);
    Ok(match context.json {
        true => baremark_report::json::render(&document),
        false if details => baremark_report::terminal::render(&document, &crate::watch::style()),
        false => baremark_report::summary::render(&document, &crate::watch::style()),
    })
}

/// The exit code of a study: what its run ended with, unless no trial of it counts.
pub fn answered(ended: Exit, run: &Run) -> Exit {
    if ended != Exit::Success || run.trials.iter().any(|trial| trial.counted().is_some()) {
        return ended;
    }
    let why = run.trials.iter().find_map(|trial| match &trial.status {
        TrialStatus::Ok => None,
        TrialStatus::Void { reasons } => reasons.first().cloned(),
        TrialStatus::Failed { reason } => Some(reason.clone()),
    });
    say(format_args!("error: nothing could be measured: {}", why.as_deref().unwrap_or("no trial was run")));
    Exit::Failure
}

fn exit_of(ending: &Ending, run: &Run) -> Exit {
    match ending {
        Ending::Complete(_) => Exit::Success,
        Ending::Interrupted => {
            say(format_args!("interrupted; `baremark resume {}` continues", run.id));
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
