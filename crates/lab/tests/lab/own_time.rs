//! The parts of a difference that a run's own metrics show.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, plan, run};
use baremark_lab::analysis::document;
use baremark_model::codes::Cause;
use baremark_model::descriptor::Descriptor;
use baremark_model::metric::{Aggregate, Better, Metric};
use baremark_model::seam::Sample;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

const fn metric(key: &'static str, unit: &'static str) -> Metric {
    Metric { key, unit, better: Better::Lower, together: Aggregate::Mean, help: "played" }
}
static METRICS: [Metric; 4] =
    [metric("wall_s", "s"), metric("user_s", "s"), metric("system_s", "s"), metric("communication", "%")];

fn timed() -> &'static Descriptor {
    Box::leak(Box::new(Descriptor { metrics: &METRICS, ..WORKLOAD }))
}

/// The rows of a run of 20 blocks whose arms have these metrics in each trial, by what they say.
fn told(arms: [[f64; 4]; 2]) -> Vec<(String, f64)> {
    let mut plan = plan("microvm");
    plan.metric = "wall_s".to_owned();
    (plan.design.least_blocks, plan.design.most_blocks) = (20, 20);
    let mut memory = Memory::default();
    let script = Played::new(|_| Answer::Values(vec![1.0, 1.0]));
    conduct(&plan, vec![("native", script)], &mut memory, &NEVER).0.unwrap();
    for trial in &mut memory.trials {
        let wander = 1.0 + 0.001 * (trial.block % 3) as f64;
        for phase in &mut trial.result.as_mut().unwrap().series {
            let values = METRICS.iter().zip(arms[phase.arm]);
            phase.samples = values.map(|(metric, value)| Sample::new(metric.key, value * wander)).collect();
        }
    }
    let document = document(&run(&plan, &memory), &[timed()]);
    let rows = document.explanations.into_iter().filter(|row| row.cause == Some(Cause::OwnTime));
    rows.map(|row| (row.what, (10.0 * row.value).round() / 10.0)).collect()
}

/// Of a second natively, of which 0.6 s are in user mode; 0.3 s more in the machine, of which 0.2 s are the kernel's.
#[test]
fn the_parts_of_a_difference_are_told_the_largest_first() {
    let found = told([[1.0, 0.6, 0.1, 10.0], [1.3, 0.65, 0.3, 10.0]]);
    let found: Vec<(&str, f64)> = found.iter().map(|(what, percent)| (what.as_str(), *percent)).collect();
    assert_eq!(
        found,
        [
            ("extra CPU time in the kernel, of native's wall_s", 20.0),
            ("extra CPU time in user mode, of native's wall_s", 5.0),
            // 10 % of 1.3 s against 10 % of 1 s.
            ("extra communication, of native's wall_s", 3.0)
        ]
    );
    assert_eq!(told([[1.0, 0.6, 0.1, 10.0], [1.005, 0.605, 0.1, 10.0]]), [], "less than delta");
    assert_eq!(told([[1.0, 0.6, 0.1, 10.0]; 2]), []);
    let threads = told([[1.0, 1.6, 0.1, 10.0], [1.3, 2.2, 0.1, 10.0]]);
    assert!(
        matches!(&threads[..], [(what, _)] if what.contains("communication")),
        "CPU time of several threads: {threads:?}"
    );
}
