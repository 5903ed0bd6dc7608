//! What other programs used in the phases of both arms of a ratio, where the two sides count it differently.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, plan, run};
use baremark_lab::analysis::document;
use baremark_model::observation::{Observation, THIS_MACHINE};
use baremark_model::plan::Cell;
use baremark_model::wire::{Disturbance, PhaseDisturbance};
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);
const WHAT: &str = "CPU use by other programs in timed phases beyond native";
/// The same where one side does not see them.
const BEYOND: &str = "CPU use by other programs, kernel and lab in timed phases beyond native";

/// A phase in which others used this share, and all but the agent and its work that.
fn phase(others: f64, beyond_agent: f64) -> PhaseDisturbance {
    PhaseDisturbance { others: Some(others), beyond_agent: Some(beyond_agent), ..PhaseDisturbance::default() }
}

/// The percentages by which others used more in a container's phases than natively, and why there is none, where each phase of an arm was such; whether
/// programs are hidden in the container.
fn compared(native: PhaseDisturbance, container: PhaseDisturbance, hidden: bool) -> (Vec<f64>, Vec<String>) {
    let (plan, mut memory) = (plan("container"), Memory::default());
    let played = || Played::new(|spec| Answer::Values(vec![1.0; spec.arms.len()]));
    conduct(&plan, vec![("native", played()), ("container", played())], &mut memory, &NEVER).0.unwrap();
    for trial in &mut memory.trials {
        let is_inside = matches!(plan.cells[trial.cell], Cell::Single(1));
        let of = if is_inside { container } else { native };
        let times = 1.0 + 0.01 * (trial.block % 3) as f64;
        let [others, beyond_agent] = [of.others, of.beyond_agent].map(|share| share.map(|share| times * share));
        let result = trial.result.as_mut().unwrap();
        let phases = vec![PhaseDisturbance { others, beyond_agent, ..of }; result.series.len()];
        let hidden_programs = hidden && is_inside;
        result.disturbance = Some(Disturbance { others, hidden_programs, phases, ..Disturbance::default() });
        result.observations =
            vec![Observation { place: THIS_MACHINE.to_owned(), seconds: 1.0, ..Observation::default() }];
    }
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    let what = if hidden { BEYOND } else { WHAT };
    let found = document.explanations.into_iter().filter(|row| [WHAT, BEYOND].contains(&row.what.as_str()));
    let rows = found.inspect(|row| assert_eq!(row.what, what)).map(|row| row.value.round()).collect();
    let absent = document.observed.unwrap().absent.into_iter().filter(|absent| absent.absence.observer == WHAT);
    (rows, absent.map(|absent| format!("{}: {}", absent.place, absent.absence.reason)).collect())
}

/// "-81 %" was said of a sandbox, inside which another program that used nearly all CPUs natively was not seen.
#[test]
fn both_sides_are_compared_by_what_both_can_count() {
    let of_sandbox = compared(phase(0.02, 0.05), phase(0.5, 0.5), true);
    assert_eq!(of_sandbox, (vec![45.0], Vec::new()), "with the kernel's work, which nobody tells apart inside");
    assert_eq!(compared(phase(0.81, 0.9), phase(0.9, 0.9), true), (Vec::new(), Vec::new()));
    let of_guest = compared(phase(0.02, 0.4), phase(0.3, 0.4), false);
    assert_eq!(of_guest, (vec![28.0], Vec::new()), "programs alone, where both see all of theirs");
}

#[test]
fn what_was_not_counted_in_one_way_has_a_reason_in_the_place_of_a_row() {
    let why = |container: PhaseDisturbance| {
        let (rows, absent) = compared(phase(0.81, 0.9), container, false);
        assert!(rows.is_empty(), "{rows:?}");
        absent
    };
    let unlike = "container: the two sides were not counted in one way:";
    let of_earlier_version = PhaseDisturbance { others: Some(0.0), ..PhaseDisturbance::default() };
    assert_eq!(why(of_earlier_version), [format!("{unlike} trials of an earlier version have no such count")]);
    let of_container = PhaseDisturbance { of_container: true, ..phase(0.1, 0.1) };
    let words = format!("{unlike} /proc/stat is not the kernel's in container but a container's (lxcfs)");
    assert_eq!(why(of_container), [words]);
    let words = format!("{unlike} the kernel of container does not report CPU time");
    assert_eq!(why(PhaseDisturbance::default()), [words]);
}
