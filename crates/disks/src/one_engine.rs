//! One engine for all places of a study: I/Os by io_uring here and by threads there would be compared as if the places differed alone.

use crate::settings::ENGINE;
use baremark_model::environments;
use baremark_model::plan::Plan;
use baremark_model::value::Value;

/// Settles the engine of all arms of the workload `kind` that leave it open, where these are in several environments: threads where one of them
/// refuses io_uring by a filter of system calls, as containers' engines do by default, else io_uring. A site that cannot have what was settled fails
/// with that reason.
pub fn settle(plan: &mut Plan, kind: &str) {
    let own: Vec<usize> = (0..plan.arms.len()).filter(|&arm| plan.workload_of(arm) == kind).collect();
    let mut places: Vec<&str> = own.iter().map(|&arm| plan.arms[arm].environment.as_str()).collect();
    places.sort_unstable();
    places.dedup();
    if places.len() < 2 {
        return;
    }
    let filtered = own.iter().any(|&arm| filters_calls(plan, arm));
    let engine = Value::Choice(if filtered { "threads" } else { "io_uring" }.to_owned());
    for arm in own {
        if let Some(open) = plan.arms[arm].arm.parameters.get_mut(ENGINE.key).filter(|value| is_open(value)) {
            open.clone_from(&engine);
        }
    }
}

fn is_open(engine: &Value) -> bool {
    matches!(engine, Value::Choice(word) if word == "auto")
}

/// Whether the environment of an arm filters its system calls.
fn filters_calls(plan: &Plan, arm: usize) -> bool {
    let planned = &plan.arms[arm];
    environments::filters_calls(planned.place(), plan.environments.get(&planned.environment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Block, KIND};
    use baremark_model::job::Job;
    use baremark_model::plan::{Limits, Mode, resolve};
    use baremark_model::study;
    use baremark_model::units::Bytes;
    use std::collections::{BTreeMap, BTreeSet};

    /// The engines of the arms of a study with these lines, after they were settled.
    fn engines(workload: &str, rest: &str) -> Vec<String> {
        let text =
            format!("[study]\ntitle = \"t\"\n[workload]\nkind = \"block\"\nsize = \"64 MiB\"\n{workload}\n{rest}");
        let study = study::parse("a.toml", text.as_bytes(), &[Block.descriptor()]).expect("a study");
        let limits = Limits {
            cpus: vec![0],
            quota_millicpus: None,
            topology: None,
            memory_available: Bytes(8 << 30),
            absent: BTreeMap::new(),
            emulated: BTreeSet::new(),
            found: BTreeMap::new(),
        };
        let mut plan = resolve("a.toml", &study, &limits, Mode::default()).expect("a plan");
        settle(&mut plan, KIND);
        plan.arms.iter().map(|arm| arm.arm.parameters[ENGINE.key].to_string()).collect()
    }

    #[test]
    fn places_that_are_compared_have_one_engine() {
        let between = |places: &str| format!("[factors]\nenvironment = [{places}]");
        assert_eq!(engines("", &between("\"native\"")), ["auto"], "one place takes what it can");
        assert_eq!(engines("", &between("\"native\", \"container\"")), ["threads", "threads"]);
        let open = format!("{}\n[environments.container]\nseccomp = \"off\"", between("\"native\", \"container\""));
        assert_eq!(engines("", &open), ["io_uring", "io_uring"]);
        assert_eq!(
            engines("engine = \"io_uring\"", &between("\"native\", \"container\"")),
            ["io_uring", "io_uring"],
            "as the study says"
        );
        let bare =
            format!("{}\n[environments.sandbox]\nlayers = [\"user\", \"mount\"]", between("\"native\", \"sandbox\""));
        assert_eq!(engines("", &bare), ["io_uring", "io_uring"], "a sandbox without the filter");
        assert_eq!(engines("", &between("\"native\", \"sandbox\"")), ["threads", "threads"]);
    }
}
