//! What a document says of the members of an ensemble.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, plan, run};
use baremark_lab::analysis::document;
use baremark_model::seam::Sample;
use baremark_model::wire::MemberRecord;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn each_member_has_its_own_estimate_beside_that_of_all() {
    let plan = plan("microvm");
    let mut memory = Memory::default();
    let played = || Played::new(|spec| Answer::Values(vec![3.0; spec.arms.len()]));
    let places = plan.cells.iter().map(|&cell| (plan.environments_of(cell)[0], played())).collect();
    conduct(&plan, places, &mut memory, &NEVER).0.unwrap();
    for trial in &mut memory.trials {
        let phases = &mut trial.result.as_mut().unwrap().series;
        for phase in phases.iter_mut().filter(|phase| phase.arm == 1) {
            let own = |value: f64| vec![Sample::new("gups", value)];
            phase.members = (0..).zip([1.0, 2.0]).map(|(member, v)| MemberRecord { member, samples: own(v) }).collect();
        }
    }
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    let found: Vec<(usize, f64, bool)> = document
        .members
        .iter()
        .map(|row| (row.member, row.estimate, row.treatment["environment"] == "microvm" && row.metric == "gups"))
        .collect();
    assert_eq!(found, [(0, 1.0, true), (1, 2.0, true)], "native has one member, which is the arm");
    assert!(document.members.iter().all(|row| row.n >= 10 && row.lo == Some(row.estimate) && row.together == "sum"));
}
