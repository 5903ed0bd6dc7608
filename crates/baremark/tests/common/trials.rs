//! How trials ended, whatever disturbed the machine meanwhile.

use serde_json::Value;

/// Setbacks in a row after which no more trials of a cell are run.
const PATIENCE: usize = 3;

/// How many of some trials ended in which way.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// They count.
    pub ok: usize,
    /// They were disturbed and do not count.
    pub void: usize,
    /// They did not run to their end.
    pub failed: usize,
}

impl Ends {
    /// How these trials ended. A trial that does not count has a reason.
    pub fn of(trials: &[&Value]) -> Self {
        let mut ends = Ends::default();
        for trial in trials {
            match trial["status"].as_str() {
                Some("ok") => ends.ok += 1,
                Some("void") => {
                    assert!(trial["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()), "{trial:#}");
                    ends.void += 1;
                }
                Some("failed") => {
                    assert!(trial["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{trial:#}");
                    ends.failed += 1;
                }
                _ => panic!("{trial:#}"),
            }
        }
        ends
    }
}

/// Demands that none of these trials failed, and that they are as many as planned, or fewer where so many in a row did not count that no
/// more were run. How many count.
pub fn accounted(trials: &[&Value], planned: usize) -> usize {
    let ends = Ends::of(trials);
    assert_eq!(ends.failed, 0, "{trials:#?}");
    let given_up = trials.len() >= PATIENCE && Ends::of(&trials[trials.len() - PATIENCE..]).void == PATIENCE;
    assert!(
        trials.len() == planned || (trials.len() < planned && given_up),
        "{} of {planned}: {trials:#?}",
        trials.len()
    );
    ends.ok
}

/// All trials of a document.
pub fn all(document: &Value) -> Vec<&Value> {
    document["trials"].as_array().unwrap().iter().collect()
}

/// Those of one environment.
pub fn of<'d>(document: &'d Value, environment: &str) -> Vec<&'d Value> {
    let runs_there = |arm: &Value| arm["treatment"]["environment"] == environment;
    let of = |trial: &&Value| trial["arms"].as_array().unwrap().iter().any(runs_there);
    all(document).into_iter().filter(of).collect()
}
