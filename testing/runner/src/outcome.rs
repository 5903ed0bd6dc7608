//! What became of a test, and of all.

use crate::cargo::Test;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Passed,
    Failed,
    /// It, or a part of it, was not tried for want of something on this machine.
    Skipped,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub test: Test,
    pub state: State,
    pub seconds: f64,
    /// CPU time of it and of all that it started and waited for.
    pub cpu_s: f64,
    /// What it printed.
    pub output: String,
}

impl Outcome {
    /// The reasons for which it, or a part, was not tried.
    pub fn reasons(&self) -> Vec<String> {
        reasons(&self.output)
    }
}

const SKIPPED: &str = "skipped: ";

fn reasons(output: &str) -> Vec<String> {
    output.lines().filter_map(|line| line.strip_prefix(SKIPPED)).map(str::to_owned).collect()
}

/// What the test program's exit and output say. A program that ends well without having run its test is no pass.
pub fn judged(succeeded: bool, output: &str) -> State {
    if !succeeded || !output.contains("test result: ok. 1 passed; 0 failed;") {
        State::Failed
    } else if reasons(output).is_empty() {
        State::Passed
    } else {
        State::Skipped
    }
}

/// Lines that are shown of a failed test's output, from its beginning and from its end.
const SHOWN_LINES: usize = 150;

/// The test's own output, without what libtest prints around it; of a long one the beginning and the end.
pub fn of_the_test(output: &str) -> String {
    let own = |line: &&str| {
        let frame = ["running 1 test", "test result: ", "successes:", "failures:"];
        !frame.iter().any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = output.trim().lines().filter(own).collect();
    let omitted = lines.len().saturating_sub(2 * SHOWN_LINES);
    if omitted == 0 {
        return lines.join("\n").trim().to_owned();
    }
    let (first, last) = (&lines[..SHOWN_LINES], &lines[SHOWN_LINES + omitted..]);
    format!("{}\n[{omitted} lines omitted]\n{}", first.join("\n"), last.join("\n"))
}

/// `N passed, N failed, N skipped`.
pub fn counted(outcomes: &[Outcome]) -> String {
    let number = |state| outcomes.iter().filter(|of| of.state == state).count();
    format!("{} passed, {} failed, {} skipped", number(State::Passed), number(State::Failed), number(State::Skipped))
}

/// How many tests were not tried for each reason.
pub fn skips(outcomes: &[Outcome]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for reason in outcomes.iter().flat_map(Outcome::reasons) {
        *found.entry(reason).or_default() += 1;
    }
    found
}

/// Time and number of tests by suite, the ten slowest tests and the ten that took most CPU time.
pub fn times(outcomes: &[Outcome]) -> String {
    let mut suites: BTreeMap<String, (f64, f64, usize)> = BTreeMap::new();
    for outcome in outcomes {
        let of = suites.entry(outcome.test.suite()).or_default();
        *of = (of.0 + outcome.seconds, of.1 + outcome.cpu_s, of.2 + 1);
    }
    let mut suites: Vec<_> = suites.into_iter().collect();
    suites.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let mut text = "\nseconds, CPU seconds and tests by suite:\n".to_owned();
    for (suite, (seconds, cpu_s, tests)) in suites {
        text += &format!("{seconds:8.1} {cpu_s:8.1} {tests:5}  {suite}\n");
    }
    let mut most = |what: &str, of: fn(&Outcome) -> f64| {
        let mut sorted: Vec<&Outcome> = outcomes.iter().collect();
        sorted.sort_by(|a, b| of(b).total_cmp(&of(a)));
        text += &format!("the tests that took most {what}, in seconds:\n");
        for outcome in sorted.iter().take(10) {
            text += &format!("{:8.1}  {}\n", of(outcome), outcome.test.full());
        }
    };
    most("time", |of| of.seconds);
    most("CPU time", |of| of.cpu_s);
    text
}

#[cfg(test)]
mod tests {
    use super::{SHOWN_LINES, State, judged, of_the_test};

    const PASSED: &str = "running 1 test\na figure\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n";

    #[test]
    fn a_test_passes_when_it_ran_and_ended_well() {
        assert_eq!(judged(true, PASSED), State::Passed);
        assert_eq!(judged(false, PASSED), State::Failed, "something was left");
        let none = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n";
        assert_eq!(judged(true, none), State::Failed, "a test that did not run has not passed");
        assert_eq!(judged(true, ""), State::Failed);
    }

    #[test]
    fn a_test_that_says_so_is_skipped_and_never_counted_as_passed() {
        assert_eq!(judged(true, &format!("skipped: no docker\n{PASSED}")), State::Skipped);
        assert_eq!(judged(true, &format!("  it was skipped: no\n{PASSED}")), State::Passed);
        assert_eq!(judged(false, "skipped: no docker\n"), State::Failed);
    }

    #[test]
    fn what_is_shown_of_a_test_is_its_own_output() {
        assert_eq!(of_the_test(PASSED), "a figure\ntest a ... ok");
    }

    #[test]
    fn of_a_long_output_the_beginning_and_the_end_are_shown() {
        let lines: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let shown = of_the_test(&lines.join("\n"));
        assert_eq!(shown.lines().count(), 2 * SHOWN_LINES + 1);
        assert!(shown.starts_with("0\n") && shown.ends_with("\n999"));
        assert!(shown.contains("\n[700 lines omitted]\n"), "{shown}");
    }
}
