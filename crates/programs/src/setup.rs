//! What is done on the lab's own machine before the first trial of a run and after its last: a build, a file that is made.
//!
//! Trials of several programs alternate, so that nothing can be set up for one of them alone between trials: each program's steps
//! are run once, before all. What is to be done before every run of a program is its preparation instead.

use crate::command::Texts;
use crate::keeper::Task;
use crate::workshop::{self, Workshop, ended_well};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{self, TIMEOUT};
use baremark_model::distinct::distinct;
use baremark_model::job::{JobContext, JobError};
use baremark_model::units::Nanos;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What is kept of each stream of a step.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// When steps are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the first trial.
    Before,
    /// After the last trial.
    After,
}

/// One program to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Step(Task);

/// The steps of all programs among `arms`, in their order; those that are the same for several are there once.
///
/// # Errors
/// A placeholder that nothing fills.
pub fn steps(arms: &[&ResolvedArm], when: When) -> Result<Vec<Step>, JobError> {
    let mut steps: Vec<Step> = Vec::new();
    for arm in arms {
        let Some(program) = command::of_arm(arm) else { continue };
        let argvs = match when {
            When::Before => &program.setup,
            When::After => &program.cleanup,
        };
        if argvs.is_empty() {
            continue;
        }
        let cpus: Vec<usize> = (0..arm.ranks).collect();
        let interrupt = Arc::new(AtomicBool::new(false));
        let around = JobContext {
            keeper: Path::new(""),
            cpus: &cpus,
            seed: 0,
            phase: Duration::ZERO,
            overwritable: &[],
            interrupt: &interrupt,
        };
        let folder = std::env::temp_dir();
        let texts = Texts::new(arm, program, around, folder.to_string_lossy().into_owned());
        let directory = texts.fill(&program.directory)?;
        for argv in argvs {
            let step = Step(Task {
                argv: argv.iter().map(|text| texts.fill(text)).collect::<Result<_, _>>()?,
                environment: texts.environment()?,
                timeout_ns: TIMEOUT.get::<Nanos>(arm)?.0,
                output_limit_bytes: OUTPUT_LIMIT,
                directory: (!directory.is_empty()).then(|| PathBuf::from(&directory)),
                ..Task::default()
            });
            steps.push(step);
        }
    }
    Ok(distinct(steps))
}

/// Runs steps, in this order, under a keeper; the first that does not end well is the last.
///
/// # Errors
/// How it ended instead, with the last lines that it wrote.
pub fn run(steps: &[Step], keeper: &Path) -> Result<(), JobError> {
    if steps.is_empty() {
        return Ok(());
    }
    let mut workshop = Workshop::open(keeper)?;
    for Step(task) in steps {
        let name = workshop::name(task);
        let timeout_ns = task.timeout_ns;
        ended_well(&name, timeout_ns, workshop.run(task.clone())?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use baremark_model::value::{Declared, Program, Value};

    #[test]
    fn steps_that_are_the_same_are_run_once_and_in_the_order_of_the_arms() {
        let program = |setup: &[&[&str]]| Program {
            setup: setup.iter().map(|argv| argv.iter().map(|&word| word.to_owned()).collect()).collect(),
            parameters: vec![Declared { key: "level".to_owned(), default: Value::Count(1), quick: None }],
            ..Program::default()
        };
        let arm = |program: Program, level: u64| {
            let arm = ResolvedArm::native(1, PageSize::Small);
            arm.with("command", Value::Program(Box::new(program))).with("level", Value::Count(level))
        };
        let one = program(&[&["make", "old"], &["gen", "{level}"]]);
        let arms = [arm(one.clone(), 1), arm(one, 2), arm(program(&[&["make", "new"]]), 1)];
        let found = steps(&arms.iter().collect::<Vec<_>>(), When::Before).expect("all is filled");
        let words: Vec<String> = found.iter().map(|Step(task)| task.argv.join(" ")).collect();
        assert_eq!(words, ["make old", "gen 1", "gen 2", "make new"]);
        assert_eq!(steps(&arms.iter().collect::<Vec<_>>(), When::After).expect("nothing"), []);
    }
}
