//! The grade of a run's conditions, from trials whose disturbances are written here.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, plan, run};
use baremark_lab::analysis::document;
use baremark_model::codes::Hindrance;
use baremark_model::descriptor::{Descriptor, HinderedBy};
use baremark_model::document::{Grade, Reliability};
use baremark_model::event::TrialStatus;
use baremark_model::seam::Sample;
use baremark_model::wire::{Disturbance, ProgramShare};
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

/// What is said of a run in whose trials, one after the other and from the first again, this was found; of as many trials the first are invalid.
fn graded(found: &[Disturbance], invalid: usize) -> Option<Reliability> {
    let plan = plan("microvm");
    let mut memory = Memory::default();
    let script = Played::new(|_| Answer::Values(vec![10.0, 10.0]));
    conduct(&plan, vec![("native", script)], &mut memory, &NEVER).0.unwrap();
    for (index, trial) in memory.trials.iter_mut().enumerate() {
        let disturbance = found.get(index % found.len().max(1)).cloned();
        trial.result.as_mut().unwrap().disturbance = disturbance;
        if index < invalid {
            trial.status = TrialStatus::Void { reasons: vec!["played".to_owned()] };
        }
    }
    document(&run(&plan, &memory), &[&WORKLOAD]).reliability
}

fn others(share: f64, programs: &[(&str, f64)]) -> Disturbance {
    let of = |&(name, share): &(&str, f64)| ProgramShare { name: name.to_owned(), share };
    Disturbance {
        others: Some(share),
        stolen: Some(0.0),
        programs: programs.iter().map(of).collect(),
        ..Disturbance::default()
    }
}

fn words(found: &Disturbance) -> (Grade, Vec<String>) {
    let found = graded(std::slice::from_ref(found), 0).unwrap();
    (found.grade, found.reasons)
}

#[test]
fn other_programs_lower_the_grade_and_are_named() {
    assert_eq!(words(&others(0.02, &[("cron", 0.02)])), (Grade::Good, Vec::new()));
    let half = others(0.5, &[("sh", 0.4), ("cc1", 0.1)]);
    assert_eq!(
        words(&half),
        (Grade::Poor, vec!["other programs used 50 % of the CPUs (sh 40 %, cc1 10 %)".to_owned()])
    );
    let found = graded(&[half.clone(), others(0.0, &[])], 0).unwrap();
    assert_eq!(found.grade, Grade::Fair, "half of the time");
    assert_eq!(found.reasons, ["other programs used 25 % of the CPUs (sh 20 %, cc1 5 %)"]);
    let found = words(&others(0.3, &[("sh", 0.06), ("cron", 0.004), ("exe", 0.0)]));
    assert_eq!(found.1, ["other programs used 30 % of the CPUs (sh 6 %, others 24 %)"], "nothing is shown with 0 %");
    let found = words(&others(0.3, &[("cron", 0.004), ("exe", 0.0)]));
    assert_eq!(found.1, ["other programs used 30 % of the CPUs"]);
    let found = graded(&[half, others(0.0, &[])], 0).unwrap();
    assert!(found.programs[0].name == "sh" && (found.programs[0].share - 0.2).abs() < 1e-9, "{found:?}");
}

/// In a sandbox what others used is known, and who they are is not.
#[test]
fn programs_that_an_agent_does_not_see_are_said_to_be_unnamed() {
    let hidden = |programs: &[(&str, f64)]| Disturbance { hidden_programs: true, ..others(0.3, programs) };
    let says = |found: &Disturbance| words(found).1;
    assert_eq!(
        says(&hidden(&[])),
        ["other programs and the kernel used 30 % of the CPUs (unnamed: their processes are hidden from the agent)"]
    );
    assert_eq!(
        says(&hidden(&[("sh", 0.06)])),
        ["other programs and the kernel used 30 % of the CPUs (sh 6 %, unnamed 24 %)"]
    );
    assert_eq!(says(&hidden(&[("sh", 0.2)])), ["other programs and the kernel used 30 % of the CPUs (sh 20 %)"]);
}

#[test]
fn a_server_that_was_there_before_is_named_and_lowers_nothing() {
    let found = Disturbance { work_of_others: true, ..others(0.6, &[("nginx", 0.6)]) };
    let found = graded(&[found], 0).unwrap();
    assert_eq!((found.grade, found.programs.len()), (Grade::Good, 1), "{found:?}");
}

#[test]
fn steal_throttling_waiting_and_invalid_trials_lower_the_grade() {
    let stolen = Disturbance { stolen: Some(0.03), ..others(0.0, &[]) };
    assert_eq!(words(&stolen), (Grade::Fair, vec!["the hypervisor took 3 % of the CPUs (steal)".to_owned()]));
    let throttled = Disturbance { throttled: Some(0.5), pressure: Some(0.9), ..others(0.0, &[]) };
    let words_of_quota = vec!["a CPU quota withheld 50 % of the CPU time (throttling)".to_owned()];
    assert_eq!(words(&throttled), (Grade::Poor, words_of_quota));
    let none = Disturbance { throttled: Some(0.0), ..others(0.0, &[]) };
    let found = graded(&[throttled, none], 0).unwrap();
    assert_eq!(found.reasons, ["a CPU quota withheld 25 % of the CPU time (throttling)"], "half of the time");
    let little = Disturbance { throttled: Some(0.004), pressure: Some(0.9), ..others(0.0, &[]) };
    assert_eq!(words(&little), (Grade::Good, Vec::new()), "pressure is not judged");
    let queued = Disturbance { queued: vec![Some(0.17), Some(0.13)], ..others(0.0, &[]) };
    assert_eq!(
        words(&queued),
        (Grade::Poor, vec!["measured threads waited for a CPU for 15 % of their time".to_owned()])
    );
    // Next to programs that use all CPUs a container looked faster than native, and nothing said why.
    let apart = Disturbance { queued: vec![Some(0.46), Some(0.12)], ..others(0.0, &[]) };
    let says = "measured threads waited for a CPU for 29 % of their time (native 46 %, microvm 12 %)";
    assert_eq!(words(&apart), (Grade::Poor, vec![says.to_owned()]));
    let unknown = Disturbance { queued: vec![Some(0.46), None], ..others(0.0, &[]) };
    assert_eq!(words(&unknown).1, ["measured threads waited for a CPU for 46 % of their time"]);
    let found = graded(&[others(0.0, &[])], 6).unwrap();
    assert_eq!(found.grade, Grade::Fair);
    assert!(found.reasons[0].starts_with("6 of ") && found.reasons[0].ends_with(" trials are invalid"), "{found:?}");
    // Each reason has its code.
    assert_eq!(found.hindrances, [Hindrance::InvalidTrials]);
    let codes = |found: &Disturbance| graded(std::slice::from_ref(found), 0).unwrap().hindrances;
    assert_eq!([codes(&stolen), codes(&queued)], [[Hindrance::Stolen], [Hindrance::Queued]]);
    let both = Disturbance { stolen: Some(0.03), ..others(0.3, &[]) };
    assert_eq!(codes(&both), [Hindrance::OtherPrograms, Hindrance::Stolen]);
}

/// Two thirds of a run's trials had failed, and "Reliability: good" was said of the others.
#[test]
fn trials_that_failed_are_invalid_as_well() {
    let (plan, mut memory) = (plan("microvm"), Memory::default());
    let script = Played::new(|_| Answer::Values(vec![10.0, 10.0]));
    conduct(&plan, vec![("native", script)], &mut memory, &NEVER).0.unwrap();
    memory.trials.iter_mut().flat_map(|trial| &mut trial.result).for_each(|result| {
        result.disturbance = Some(others(0.0, &[]));
    });
    let failing = 2 * memory.trials.len() / 3;
    for trial in &mut memory.trials[..failing] {
        (trial.status, trial.result) = (TrialStatus::Failed { reason: "played".to_owned() }, None);
    }
    let found = document(&run(&plan, &memory), &[&WORKLOAD]).reliability.unwrap();
    assert_eq!((found.grade, found.hindrances), (Grade::Poor, vec![Hindrance::InvalidTrials]), "{:?}", found.reasons);
}

#[test]
fn nothing_is_said_where_nothing_is_known() {
    assert_eq!(graded(&[], 0), None);
}

/// A file in /tmp was measured as a disk where /tmp is a tmpfs.
#[test]
fn what_is_not_what_its_name_says_makes_a_run_poor() {
    let of_kind = |kind: &'static str| Descriptor {
        kind,
        hindered_by: &[HinderedBy {
            metric: "in_memory",
            hindrance: Hindrance::InMemory,
            means: "the target lies in memory",
        }],
        ..WORKLOAD
    };
    let graded = |kind: &'static str, shares: &[(usize, f64)]| {
        let plan = plan("microvm");
        let mut memory = Memory::default();
        let script = Played::new(|_| Answer::Values(vec![10.0, 10.0]));
        conduct(&plan, vec![("native", script)], &mut memory, &NEVER).0.unwrap();
        for result in memory.trials.iter_mut().filter_map(|trial| trial.result.as_mut()) {
            result.disturbance = Some(others(0.0, &[]));
            for (arm, share) in shares {
                let phases = result.series.iter_mut().filter(|phase| phase.arm == *arm);
                phases.for_each(|phase| phase.samples.push(Sample::new("in_memory", *share)));
            }
        }
        let found = document(&run(&plan, &memory), &[&of_kind(kind), &WORKLOAD]).reliability.unwrap();
        (found.grade, found.reasons, found.hindrances)
    };
    let good = (Grade::Good, Vec::new(), Vec::new());
    let own = WORKLOAD.kind;
    assert_eq!(graded(own, &[]), good);
    assert_eq!(graded(own, &[(1, 30.0)]), good, "pages that another program maps");
    assert_eq!(graded("another", &[(1, 100.0)]), good, "a metric of the same name");
    let poor =
        |places: &str| (Grade::Poor, vec![format!("the target lies in memory ({places})")], vec![Hindrance::InMemory]);
    assert_eq!(graded(own, &[(1, 100.0)]), poor("microvm"));
    assert_eq!(graded(own, &[(0, 100.0), (1, 90.0)]), poor("native, microvm"));
}
