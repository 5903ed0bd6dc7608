//! From a study to its plan on this machine, for every command that needs one.

use crate::context::{descriptors, limits};
use crate::data;
use crate::exit::{Exit, Refusal};
use crate::kinds;
use crate::overrides;
use crate::places;
use crate::source::Source;
use crate::watch::say;
use baremark_consolidation::{members, tile};
use baremark_databases::notice::{self, Planned};
use baremark_disks::one_engine;
use baremark_disks::settings::{Settings, read_job};
use baremark_disks::workload::{self as block, Writer};
use baremark_harness::cluster::Places;
use baremark_harness::generator::LoadSites;
use baremark_harness::workload::{self as applications, Found};
use baremark_load::url;
use baremark_load::workload as load;
use baremark_model::arm::ResolvedArm;
use baremark_model::codes::Origin;
use baremark_model::environments;
use baremark_model::job::Job;
use baremark_model::knob::InvalidValue;
use baremark_model::plan::{Limits, Mode, Plan, resolve};
use baremark_model::problem::{Need, Problems};
use baremark_model::study::{self, Study};
use baremark_sys::machine;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Resolves a study on this machine. A study that comes with the program is nobody's wrong input: what is wrong with it here is that this
/// machine lacks what it needs.
pub fn of(source: &Source, mode: Mode, interrupt: &AtomicBool) -> Result<Plan, Refusal> {
    let parsed = study::parse(&source.name, &source.bytes, &descriptors());
    let study = parsed.map_err(|why| Refusal::bad_input(seen(source, why)))?;
    resolved(source, &study, mode, interrupt).map_err(|refusal| match refusal.exit {
        Exit::BadInput if source.is_shipped() => Refusal { exit: Exit::Missing, ..refusal },
        _ => refusal,
    })
}

/// Without the lines of a study that the user does not see: that of a command line, and those that options have written.
fn seen(source: &Source, problems: Problems) -> Problems {
    let mut problems = overrides::by_option(source, problems);
    if Origin::of(&source.name) == Origin::Load {
        problems.list.iter_mut().for_each(|problem| problem.line = 0);
    }
    problems
}

fn resolved(source: &Source, study: &Study, mode: Mode, interrupt: &AtomicBool) -> Result<Plan, Refusal> {
    study.renamed.iter().for_each(say);
    let parameters = study.workloads.iter().map(|chosen| &chosen.parameters);
    let mut limits = limits(data::of(parameters, &study.environments))?;
    let is_here = !machine::is_recorded();
    if is_here {
        places::limit(study, &mut limits, interrupt)?;
    }
    let mut plan = resolve(&source.name, study, &limits, mode);
    let mut limited = |plan: &Plan| {
        let tiers = limit_tiers(plan, &mut limits, interrupt);
        let servers = places::limit_servers(plan, &mut limits, kinds::server_of);
        places::limit_programs(plan, &mut limits) || servers || tiers
    };
    if is_here && plan.as_ref().is_ok_and(&mut limited) {
        plan = resolve(&source.name, study, &limits, mode);
    }
    let mut plan =
        plan.map_err(|problems| Refusal { exit: exit_of(&problems), message: seen(source, problems).to_string() })?;
    for kind in [block::KIND, baremark_disks::provision::KIND] {
        one_engine::settle(&mut plan, kind);
    }
    read_job_files(&mut plan).and_then(|()| checked(&plan)).map_err(Refusal::bad_input)?;
    if is_here {
        places::brought_files_are_there(&plan)?;
        writers(&plan).and_then(|writers| block::targets_fit(&writers)).map_err(Refusal::bad_input)?;
    }
    Ok(plan)
}

/// Reads the fio job files that the plan names: their texts travel with it, so that the run is of what was read here.
fn read_job_files(plan: &mut Plan) -> Result<(), InvalidValue> {
    for index in 0..plan.arms.len() {
        let kind = plan.workload_of(index).to_owned();
        let arm = &mut plan.arms[index].arm;
        match kind.as_str() {
            block::KIND => read_job(&mut arm.parameters)?,
            tile::KIND => members::settle(arm, block::KIND, read_job)?,
            _ => {}
        }
    }
    Ok(())
}

/// Refuses arms of the workload `block` whose job files have made them impossible.
fn checked(plan: &Plan) -> Result<(), InvalidValue> {
    writers(plan)?.iter().try_for_each(|writer| Settings::of(&writer.arm).map(drop))
}

/// A study of which nothing can run lacks an environment; any other problem is the study's own.
fn exit_of(problems: &Problems) -> Exit {
    let lacks = problems.list.iter().all(|problem| problem.need == Need::Machine);
    if lacks { Exit::Missing } else { Exit::BadInput }
}

/// What planning must know of what the tiers of applications need on this machine; whether anything is missing or emulated.
fn limit_tiers(plan: &Plan, limits: &mut Limits, interrupt: &AtomicBool) -> bool {
    let Ok(program) = places::program() else { return false };
    let ways: (Places, LoadSites) = (crate::auction_places::make, crate::auction_places::load_site);
    let mut limited = false;
    let here = plan.arms.iter().enumerate().filter(|(_, arm)| arm.on_this_machine());
    for (_, arm) in here.filter(|(index, _)| plan.workload_of(*index) == applications::KIND) {
        for (name, found) in applications::look_for(&arm.arm, ways, &program, interrupt) {
            limited |= found != Found::Here;
            match found {
                Found::Here => {}
                Found::Emulated => drop(limits.emulated.insert(name)),
                Found::Absent(why) => drop(limits.absent.insert(name, why)),
            }
        }
    }
    limited
}

/// All that runs the workload `block`: the plan's arms, and members of its tiles.
///
/// # Errors
/// A member that cannot be.
pub fn writers(plan: &Plan) -> Result<Vec<Writer>, InvalidValue> {
    let mut writers = Vec::new();
    for (index, planned) in plan.arms.iter().enumerate() {
        let arms = match plan.workload_of(index) {
            block::KIND => vec![planned.arm.clone()],
            tile::KIND => tile::arms_of(&planned.arm, block::Block.descriptor())?,
            _ => continue,
        };
        let environment = &planned.environment;
        let is_here = environment == environments::NATIVE;
        let sees_files = environments::can(planned.place()).host_files;
        let writer = |arm| Writer { arm, environment: environment.clone(), is_here, sees_files };
        writers.extend(arms.into_iter().map(writer));
    }
    Ok(writers)
}

/// Servers of loads that do not answer from here, a sentence for each.
pub fn silent_servers(plan: &Plan) -> Vec<String> {
    /// For how long an answer is waited for.
    const LIMIT: Duration = Duration::from_millis(500);
    let is_load =
        |index: usize| plan.workload_of(index) == load::KIND && plan.arms[index].environment == environments::NATIVE;
    let parameters = (0..plan.arms.len()).filter(|&index| is_load(index)).map(|index| &plan.arms[index].arm.parameters);
    let urls: BTreeSet<String> = parameters.filter_map(|of| of.get("url")).map(ToString::to_string).collect();
    let silent = |text: &String| {
        let (origin, _) = url::parse(text).ok()?;
        let why = origin.reachable(LIMIT).err()?;
        Some(format!("load: nothing answers at {text} ({why}); start the server before the study"))
    };
    urls.iter().filter(|_| !machine::is_recorded()).filter_map(silent).collect()
}

/// What a plan writes to disks before anything is measured, a sentence for each workload and each database that does.
pub fn notices(plan: &Plan) -> Vec<String> {
    let block = writers(plan).ok().and_then(|writers| block::notice(&writers));
    let provision = baremark_disks::provision::notice(arms_of(plan, baremark_disks::provision::KIND));
    let databases = plan.arms.iter().enumerate().map(|(index, planned)| Planned {
        kind: plan.workload_of(index),
        environment: &planned.environment,
        is_here: planned.on_this_machine(),
        arm: &planned.arm,
    });
    block.into_iter().chain(provision).chain(notice::notices(databases)).collect()
}

fn arms_of<'p>(plan: &'p Plan, kind: &'static str) -> impl Iterator<Item = &'p ResolvedArm> {
    let of = move |index: &usize| plan.workload_of(*index) == kind;
    (0..plan.arms.len()).filter(of).map(|index| &plan.arms[index].arm)
}
