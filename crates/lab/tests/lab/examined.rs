//! What is examined when a comparison of a program in a sandbox with native is over.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct_with, plan, run};
use baremark_lab::analysis::document;
use baremark_lab::conduct::{CallCounter, Uncounted};
use baremark_model::codes::Cause;
use baremark_model::descriptor::{Better, Descriptor, Metric, Together};
use baremark_model::document::ExplanationRow;
use baremark_model::plan::Plan;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

const fn metric(key: &'static str, unit: &'static str) -> Metric {
    Metric { key, unit, better: Better::Lower, together: Together::Mean, help: "played" }
}
static METRICS: [Metric; 3] = [metric("wall_s", "s"), metric("cpu_s", "s"), metric("page_faults", "1")];

/// Counts so many calls of each run of a program, or cannot.
struct Counter {
    calls: Result<u64, &'static str>,
    begun: usize,
}

impl Counter {
    fn of(calls: Result<u64, &'static str>) -> Self {
        Counter { calls, begun: 0 }
    }
}

impl CallCounter for Counter {
    fn begin(&mut self) -> Result<(), Uncounted> {
        self.begun += 1;
        self.calls.map(drop).map_err(|why| Uncounted(why.to_owned()))
    }

    fn choose(&mut self, calls: u64) -> Result<(), Uncounted> {
        assert!(calls > 1000, "an agent identifies itself by many calls");
        Ok(())
    }

    fn end(&mut self) -> Result<BTreeMap<u32, u64>, Uncounted> {
        self.calls.map(|calls| BTreeMap::from([(0, calls)])).map_err(|why| Uncounted(why.to_owned()))
    }
}

/// A program, in a sandbox or the microVM.
fn of_program(other: &str) -> Plan {
    let mut plan = plan(other);
    (plan.workload, plan.metric) = ("command".to_owned(), "wall_s".to_owned());
    plan
}

/// A place where a run takes so long, of which half is CPU time, with 200 page faults; a call and a fault take so long there.
fn place(wall_s: f64, costs_ns: [f64; 2]) -> Played {
    let values = vec![("wall_s", wall_s), ("cpu_s", wall_s / 2.0), ("page_faults", 200.0)];
    Played::new(move |_| Answer::Named(values.clone())).costing(costs_ns)
}

/// What the run of such a sandbox against native explains, with the trials that it had, and how often counting was begun.
fn found([native, sandbox]: [Played; 2], mut counter: Counter) -> (Vec<ExplanationRow>, Memory, usize) {
    let plan = of_program("sandbox");
    let mut memory = Memory::default();
    let played = vec![("native", native), ("sandbox", sandbox)];
    conduct_with(&plan, played, &mut memory, (&NEVER, Some(&mut counter))).0.unwrap();
    let descriptor: &'static Descriptor =
        Box::leak(Box::new(Descriptor { kind: "command", metrics: &METRICS, ..WORKLOAD }));
    let rows = document(&run(&plan, &memory), &[descriptor]).explanations;
    let ours = |row: &ExplanationRow| {
        let parts = ["system calls", "page faults", "nothing was examined"];
        parts.iter().any(|part| row.what.contains(part))
    };
    (rows.into_iter().filter(ours).collect(), memory, counter.begun)
}

/// The program natively, whose runs take 0.2 s.
fn native() -> Played {
    place(0.2, [100.0, 500.0])
}

/// 10 % longer, of which 20 000 calls that take 400 ns more each are 4 % and faults that take 100 ns more next to nothing.
#[test]
fn a_difference_is_split_into_calls_faults_and_a_rest() {
    let (rows, memory, begun) = found([native(), place(0.22, [500.0, 600.0])], Counter::of(Ok(20_000)));
    let told: Vec<(Option<Cause>, &str, f64)> =
        rows.iter().map(|row| (row.cause, row.what.as_str(), (100.0 * row.value).round() / 100.0)).collect();
    assert_eq!(
        told,
        [
            (Some(Cause::SystemCalls), "extra time of system calls (20000 a run), of native's wall_s", 4.0),
            (Some(Cause::Examined), "extra time of page faults (200 a run), of native's wall_s", 0.01),
            (Some(Cause::Examined), "extra time beyond system calls, page faults, of native's wall_s", 5.99),
        ]
    );
    assert!(rows.iter().all(|row| row.lo <= row.value && row.value <= row.hi), "{rows:?}");
    assert_eq!(rows[0].advice, "a call takes 500 ns, against 100 ns in native");
    assert_eq!(rows[1].advice, "a fault takes 600 ns, against 500 ns in native; excluded as a cause of more than 2 %");
    assert_eq!(rows[2].advice, "not examined: throttling (the kernel does not count it here)");
    // Six blocks of a run at either site, none of which is a trial.
    assert_eq!((begun, memory.examined.unwrap().pairs[0].blocks.len()), (12, 6));
    let mut without = Memory::default();
    let played = vec![("native", native()), ("sandbox", place(0.22, [500.0, 600.0]))];
    conduct_with(&of_program("sandbox"), played, &mut without, (&NEVER, None)).0.unwrap();
    assert_eq!((memory.trials.len(), without.examined), (without.trials.len(), None));
}

#[test]
fn no_difference_names_what_was_examined_and_why_something_was_not() {
    let why = "loading BPF programs is not permitted; run as root (CAP_BPF and CAP_PERFMON)";
    let (rows, memory, _) = found([native(), native()], Counter::of(Err(why)));
    let words: Vec<&str> = rows.iter().map(|row| row.what.as_str()).collect();
    assert_eq!(
        words,
        [
            "extra time of page faults (200 a run), of native's wall_s",
            "extra time beyond page faults, of native's wall_s"
        ]
    );
    assert!(rows.iter().all(|row| row.cause == Some(Cause::Examined) && row.value == 0.0), "{rows:?}");
    let advice = &rows[1].advice;
    assert!(advice.starts_with("no difference: equivalent within 0.0 %; not examined: system calls ("), "{advice}");
    assert!(advice.contains(why), "{advice}");
    // The reason is the same in every block, and is there once.
    assert_eq!(memory.examined.unwrap().pairs[0].absent.len(), 1);
}

#[test]
fn what_cannot_be_run_again_is_named_and_the_run_is_complete() {
    let values = vec![("wall_s", 0.22), ("cpu_s", 0.1), ("page_faults", 200.0)];
    // Trials of the comparison have two phases here, and what is examined of a program of 0.22 s one run.
    let sandbox = Played::new(move |spec| match spec.schedule.len() {
        1 => Answer::Failed("no memory"),
        _ => Answer::Named(values.clone()),
    });
    let (rows, _, _) = found([native(), sandbox], Counter::of(Ok(1)));
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].what, "difference of which nothing was examined, of native's wall_s");
    assert!(rows[0].advice.contains("not examined: the program (a trial failed: no memory)"), "{rows:?}");
}

/// Twelve runs of a minute are no tenth of what the comparison took.
#[test]
fn a_long_program_is_not_begun_again() {
    let (rows, _, begun) = found([place(60.0, [1.0; 2]), place(66.0, [1.0; 2])], Counter::of(Ok(1)));
    assert_eq!((rows.len(), begun), (1, 0), "{rows:?}");
    let says = "not examined: the program (it would take 756 s, and 5 s are allowed: a tenth of the comparison's time, or 5 s)";
    assert!(rows[0].advice.contains(says), "{rows:?}");
}

#[test]
fn programs_of_a_virtual_machine_are_not_examined() {
    let plan = of_program("microvm");
    let (mut memory, mut counter) = (Memory::default(), Counter::of(Ok(1)));
    let values = vec![("wall_s", 1.0), ("cpu_s", 0.5), ("page_faults", 10.0)];
    let script = Played::new(move |_| Answer::Named(values.clone()));
    conduct_with(&plan, vec![("native", script)], &mut memory, (&NEVER, Some(&mut counter))).0.unwrap();
    assert_eq!((memory.examined, counter.begun), (None, 0));
}
