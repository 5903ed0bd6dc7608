//! What is examined when a comparison of a program in a sandbox with native is over.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct_with, plan, run};
use baremark_lab::analysis::document;
use baremark_lab::conduct::{CallCounter, Uncounted};
use baremark_model::codes::Cause;
use baremark_model::descriptor::Descriptor;
use baremark_model::document::ExplanationRow;
use baremark_model::metric::{Aggregate, Better, Metric};
use baremark_model::plan::{Cell, Pair, Plan};
use baremark_model::second_look::{ExaminedPair, ExaminedSide, SecondLook};
use baremark_model::units::Nanos;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

static NEVER: AtomicBool = AtomicBool::new(false);

const fn metric(key: &'static str, unit: &'static str) -> Metric {
    Metric { key, unit, better: Better::Lower, together: Aggregate::Mean, help: "played" }
}
static METRICS: [Metric; 3] = [metric("wall_s", "s"), metric("cpu_s", "s"), metric("page_faults", "1")];

/// Counts so many calls of each run of a program, or cannot.
struct Counter {
    calls: Result<u64, &'static str>,
    /// By which processes were to identify themselves.
    arguments: Vec<u32>,
    begun: usize,
    ended: usize,
    /// The user interrupts when it is begun so often.
    interrupt: Option<(usize, &'static AtomicBool)>,
}

impl Counter {
    fn of(calls: Result<u64, &'static str>) -> Self {
        Counter { calls, arguments: Vec::new(), begun: 0, ended: 0, interrupt: None }
    }
}

impl CallCounter for Counter {
    fn begin(&mut self, argument: u32) -> Result<(), Uncounted> {
        self.begun += 1;
        self.arguments.push(argument);
        if let Some((_, flag)) = self.interrupt.filter(|(at, _)| *at == self.begun) {
            flag.store(true, Ordering::SeqCst);
        }
        self.calls.map(drop).map_err(|why| Uncounted(why.to_owned()))
    }

    fn choose(&mut self) -> Result<(), Uncounted> {
        Ok(())
    }

    fn end(&mut self) -> Result<BTreeMap<u32, u64>, Uncounted> {
        self.ended += 1;
        self.calls.map(|calls| BTreeMap::from([(0, calls)])).map_err(|why| Uncounted(why.to_owned()))
    }
}

/// A program, in a sandbox or the microVM.
fn of_program(other: &str) -> Plan {
    let mut plan = plan(other);
    (plan.workload, plan.metric) = ("command".to_owned(), "wall_s".to_owned());
    // Ten hours, of which what is examined may take its least: no test ends sooner on a machine that has something else to do.
    plan.design.budget = Nanos(36_000_000_000_000);
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
    (explained(&plan, &memory), memory, counter.begun)
}

/// The rows about what was examined.
fn explained(plan: &Plan, memory: &Memory) -> Vec<ExplanationRow> {
    let descriptor: &'static Descriptor =
        Box::leak(Box::new(Descriptor { kind: "command", metrics: &METRICS, ..WORKLOAD }));
    let rows = document(&run(plan, memory), &[descriptor]).explanations;
    let causes = [Cause::SystemCalls, Cause::PageFaults, Cause::Throttling, Cause::Examined];
    rows.into_iter().filter(|row| row.cause.is_some_and(|cause| causes.contains(&cause))).collect()
}

/// What is explained of 0.22 s in a sandbox against 0.2 s natively where this was examined, so often.
fn explained_of(sides: impl Fn(usize) -> [ExaminedSide; 2], times: usize) -> Vec<ExplanationRow> {
    let plan = of_program("sandbox");
    let mut memory = Memory::default();
    let played = vec![("native", native()), ("sandbox", place(0.22, [500.0, 600.0]))];
    conduct_with(&plan, played, &mut memory, (&NEVER, None)).0.unwrap();
    let pair = ExaminedPair { pair: 0, blocks: (0..6).map(sides).collect(), absent: Vec::new() };
    memory.examined = Some(SecondLook { pairs: vec![pair; times] });
    explained(&plan, &memory)
}

/// A run of 0.02 s of CPU time with so many calls of 500 ns, no fault, and this share withheld by a quota.
fn side(calls: u64, throttled: Option<f64>) -> ExaminedSide {
    ExaminedSide {
        call_ns: 500.0,
        fault_ns: Some(500.0),
        runs: 1,
        calls: Some(BTreeMap::from([(0, calls)])),
        page_faults: Some(0.0),
        cpu_s: Some(0.02),
        throttled,
    }
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
            (
                Some(Cause::SystemCalls),
                "extra time of system calls (20000 a run, with its supervisor's), of native's wall_s",
                4.0
            ),
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

/// Twelve runs of 6000 s and more are no tenth of what the comparison took.
#[test]
fn a_long_program_is_not_begun_again() {
    let (rows, _, begun) = found([place(6000.0, [1.0; 2]), place(6600.0, [1.0; 2])], Counter::of(Ok(1)));
    assert_eq!((rows.len(), begun), (1, 0), "{rows:?}");
    let says = "not examined: the program (it would take 75600 s, and 3600 s are allowed for it; a longer comparison allows more)";
    assert!(rows[0].advice.contains(says), "{rows:?}");
}

/// The program ran up to 96 times more for nothing: the metric that is compared is not a time, or the ratio has no interval.
#[test]
fn what_cannot_be_split_is_not_run_again() {
    let begun = |plan: &Plan| {
        let (mut memory, mut counter) = (Memory::default(), Counter::of(Ok(1)));
        let played = vec![("native", native()), ("sandbox", place(0.22, [500.0, 600.0]))];
        conduct_with(plan, played, &mut memory, (&NEVER, Some(&mut counter))).0.unwrap();
        (counter.begun, memory.examined.map(|found| found.pairs.len()))
    };
    let usual = of_program("sandbox");
    assert_eq!(begun(&usual), (12, Some(1)));
    assert_eq!(begun(&Plan { metric: "page_faults".to_owned(), ..usual.clone() }), (0, None));
    let mut short = usual;
    (short.design.least_blocks, short.design.most_blocks) = (3, 3);
    assert_eq!(begun(&short), (0, None), "three blocks have no interval");
}

/// Wall time does not contain the CPU time of two threads, which is known before anything is run again.
#[test]
fn programs_of_several_threads_are_not_run_again_and_the_report_says_why() {
    let threads = |wall_s: f64| {
        let values = vec![("wall_s", wall_s), ("cpu_s", 2.0 * wall_s), ("page_faults", 200.0)];
        Played::new(move |_| Answer::Named(values.clone()))
    };
    let (rows, _, begun) = found([threads(0.2), threads(0.22)], Counter::of(Ok(1)));
    assert_eq!((rows.len(), begun), (1, 0), "{rows:?}");
    assert!(rows[0].advice.contains("not examined: CPU time of several threads"), "{rows:?}");
}

/// Of two processes that called `getppid` often at once, as other work does, neither was known to be the agent.
#[test]
fn an_agent_identifies_itself_by_what_was_drawn_for_it_alone() {
    let plan = of_program("sandbox");
    let (mut memory, mut counter) = (Memory::default(), Counter::of(Ok(1)));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let identifying = |site: Played| {
        let seen = Arc::clone(&seen);
        site.identifying(move |argument| {
            seen.lock().unwrap().push(argument);
            true
        })
    };
    let played = vec![("native", identifying(native())), ("sandbox", identifying(place(0.22, [500.0, 600.0])))];
    conduct_with(&plan, played, &mut memory, (&NEVER, Some(&mut counter))).0.unwrap();
    let (seen, mut drawn) = (seen.lock().unwrap().clone(), counter.arguments);
    assert!(seen.len() > 4 && seen == drawn && drawn.iter().all(|argument| *argument < 1 << 31), "{seen:?} {drawn:?}");
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), seen.len(), "each its own");
}

/// An agent that died while it identified itself left the counter attached until the run was over.
#[test]
fn counting_ends_where_an_agent_dies_while_it_identifies_itself() {
    let plan = of_program("sandbox");
    let (mut memory, mut counter) = (Memory::default(), Counter::of(Ok(1)));
    let played = vec![("native", native().identifying(|_| false)), ("sandbox", native())];
    conduct_with(&plan, played, &mut memory, (&NEVER, Some(&mut counter))).0.unwrap();
    assert_eq!((counter.begun, counter.ended), (1, 1));
    let examined = memory.examined.unwrap();
    assert_eq!((examined.pairs[0].blocks.len(), examined.pairs[0].absent[0].what.as_str()), (0, "the program"));
}

#[test]
fn an_interrupt_loses_no_pair_that_was_examined() {
    static SECOND: AtomicBool = AtomicBool::new(false);
    static FIRST: AtomicBool = AtomicBool::new(false);
    let mut plan = of_program("sandbox");
    let mut container = plan.arms[1].clone();
    "container".clone_into(&mut container.environment);
    container.treatment.insert("environment".to_owned(), "container".to_owned());
    plan.arms.push(container);
    plan.cells.push(Cell::Single(2));
    let of_container = Pair { numerator: 2, ..plan.pairs[0] };
    plan.pairs.push(of_container);
    let examined = |at: usize, flag: &'static AtomicBool| {
        let played = vec![("native", native()), ("sandbox", native()), ("container", native())];
        let (mut memory, mut counter) = (Memory::default(), Counter::of(Ok(1)));
        counter.interrupt = Some((at, flag));
        conduct_with(&plan, played, &mut memory, (flag, Some(&mut counter))).0.unwrap();
        assert_eq!((counter.begun, counter.ended), (at, at));
        memory
            .examined
            .map(|found| found.pairs.iter().map(|found| (found.pair, found.blocks.len())).collect::<Vec<_>>())
    };
    // Twelve runs of each pair are counted.
    assert_eq!(examined(13, &SECOND), Some(vec![(0, 6)]));
    assert_eq!(examined(2, &FIRST), None);
}

/// Natively there is no group with a quota, and the kernel counts nothing: in a container of which half the CPU time was withheld nothing was said of it.
#[test]
fn throttling_of_one_side_is_a_part_where_the_other_has_no_quota() {
    let rows = explained_of(|_| [side(0, None), side(0, Some(0.5))], 1);
    let part = rows.iter().find(|row| row.cause == Some(Cause::Throttling)).unwrap();
    assert_eq!(part.what, "extra time of throttling by a CPU quota, of native's wall_s");
    assert!((part.value - 10.0).abs() < 1e-9 && part.lo > 9.0, "0.02 s of 0.2 s: {part:?}");
    let rest = rows.last().unwrap();
    assert!(rest.what.contains("beyond system calls, page faults, throttling by a CPU quota"), "{rest:?}");
    assert!(rest.value.abs() < 1e-9 && rest.advice.is_empty(), "{rest:?}");
}

/// Calls that take 1.9 and 2.6 % in turns are about 2.25 %, and not certainly more than 2 %.
#[test]
fn a_part_that_may_be_below_delta_is_named_as_no_cause() {
    let calls = |block: usize| if block.is_multiple_of(2) { 7600 } else { 10_400 };
    let part = |calls: &dyn Fn(usize) -> u64| {
        let rows = explained_of(|block| [side(0, None), side(calls(block), None)], 1);
        rows.into_iter().find(|row| row.what.contains("extra time of system calls")).unwrap()
    };
    let unsure = part(&calls);
    assert!(unsure.value > 2.0 && unsure.lo < 2.0 && unsure.cause == Some(Cause::Examined), "{unsure:?}");
    let sure = part(&|_| 10_400);
    assert!(sure.lo > 2.0 && sure.cause == Some(Cause::SystemCalls), "{sure:?}");
}

#[test]
fn a_pair_that_a_document_names_again_and_again_is_explained_once() {
    let of = |times| explained_of(|_| [side(0, None), side(u64::MAX, None)], times).len();
    assert_eq!((of(0), of(1), of(1000)), (0, 3, 3));
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
