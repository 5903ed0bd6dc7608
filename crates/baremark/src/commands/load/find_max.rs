//! The search for the largest rate, or number of users, at which a server keeps its limits.

use super::record::{End, Recorder};
use super::study::{self, Secrets};
use super::view::fitting;
use super::{LoadArgs, chain};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record::SEARCH;
use crate::watch;
use baremark_lab::search::{Probe, Search, SearchError, Step, UnderLoad};
use baremark_load::dial::Dial;
use baremark_load::limits::{self, CPU};
use baremark_load::load::{Load, LoadError};
use baremark_load::order::Order;
use baremark_load::reading::{patience, reading};
use baremark_load::workload;
use baremark_model::maximum::{Document, Ended, Plan};
use baremark_model::qos::{Limit, Qos, Reading};
use baremark_model::units::{Nanos, Share};
use baremark_store::{RunId, Store};
use baremark_sys::clock::monotonic_ns;
use baremark_sys::cpu_time::CpuTime;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::io::{IsTerminal, Write as _, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What a search needs in addition to a load.
#[derive(Args)]
pub struct SearchArgs {
    /// Find the highest rate, or number of users, that meets every limit
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "rate",
          conflicts_with_all = ["rate", "users", "trace", "replay", "duration", "count"])]
    pub find_max: Option<Factor>,
    /// Search range, such as 10..5000
    #[arg(long, value_name = "LOW..HIGH", requires = "find_max", value_parser = range)]
    between: Option<(f64, f64)>,
    /// Length of one measurement window
    #[arg(long, value_name = "TIME", default_value = "10 s", requires = "find_max")]
    window: Nanos,
    /// Settling time after each load change
    #[arg(long, value_name = "TIME", default_value = "2 s", requires = "find_max")]
    settle: Nanos,
    /// Number of independent searches; a confidence interval needs three
    #[arg(long, value_name = "N", default_value_t = 3, requires = "find_max")]
    trials: usize,
    /// Probes at the final step size, per search
    #[arg(long, value_name = "N", default_value_t = 12, requires = "find_max")]
    visits: usize,
    /// Final step size, as a share of the load level
    #[arg(long, value_name = "SHARE", default_value = "2.5 %", requires = "find_max")]
    step: Share,
}

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Factor {
    /// Operations per second
    Rate,
    /// Users who repeat the scenario's cycle
    Users,
}

/// Where the search goes where nobody says.
const RATES: (f64, f64) = (10.0, 200_000.0);
const USERS: (f64, f64) = (1.0, 10_000.0);

fn range(text: &str) -> Result<(f64, f64), String> {
    let numbers = text.split_once("..").and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    let sound = numbers.filter(|(low, high): &(f64, f64)| *low > 0.0 && low < high && high.is_finite());
    sound.ok_or_else(|| "write two ascending numbers above 0, such as 10..5000".to_owned())
}

/// What of a search its study does not hold, stored with the study as a comment, so that the search can be taken up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Request {
    factor: Factor,
    plan: Plan,
    limits: Vec<Limit>,
    seed: u64,
    cpus: Vec<usize>,
    /// Whether the study has everything of the command line: neither headers nor a query were left out.
    complete: bool,
    /// The digest of what is in the scenario's file.
    #[serde(default)]
    scenario: Option<String>,
}

impl Request {
    fn of(args: &LoadArgs, plan: Plan, factor: Factor, scenario: Option<String>) -> Request {
        let complete = study::text(args, Secrets::Shown) == study::text(args, Secrets::LeftOut);
        let (limits, seed, cpus) = (args.limit.clone(), args.seed, args.cpus.clone());
        Request { factor, plan, limits, seed, cpus, complete, scenario }
    }

    /// The line of the stored study.
    pub(super) fn line(&self) -> Result<String, Refusal> {
        let text = serde_json::to_string(self).map_err(|why| Refusal::failure(format!("writing JSON: {why}")))?;
        Ok(format!("{SEARCH}{text}\n"))
    }

    /// The request of a stored search; `None` of any other load, or of a search whose request is not stored as a whole.
    pub(super) fn stored(study: &str) -> Option<Request> {
        let line = study.lines().find_map(|line| line.strip_prefix(SEARCH))?;
        serde_json::from_str(line).ok().filter(|request: &Request| request.complete)
    }
}

/// Continues a search that was interrupted or killed: windows that are stored are not measured again.
pub fn resume(context: &Context, store: Store, id: RunId) -> Result<(String, Exit), Refusal> {
    let stored = store.load_intact(&id).map_err(Refusal::failure)?;
    let gone = || Refusal::bad_input(format!("the request of run {id} is not stored; run the load again"));
    let request = Request::stored(&stored.study_text).ok_or_else(gone)?;
    let arm = &stored.plan.arms.first().ok_or_else(gone)?.arm;
    let order = workload::order(arm).map_err(Refusal::bad_input)?;
    if request.scenario != of_scenario(&order) {
        let file = order.scenario.as_ref().map_or("", |(file, _)| file.as_str());
        let message = format!("{file} is not known to be the scenario with which run {id} began; run the load again");
        return Err(Refusal::bad_input(message));
    }
    let load = study::with(order, request.seed, &request.cpus).load().map_err(Refusal::bad_input)?;
    let probes: Vec<Probe> =
        stored.progress.iter().filter_map(|row| serde_json::from_value(row.clone()).ok()).collect();
    watch::say(format_args!("{} windows of run {id} are stored", probes.len()));
    let recorder = Recorder::take_up(store, id, stored.started, stored.plan)?;
    find(context, load, &request, probes, recorder)
}

/// What is in the order's scenario: windows of two scenarios are not one search.
fn of_scenario(order: &Order) -> Option<String> {
    order.scenario.as_ref().map(|(_, text)| baremark_bundle::digest(text.as_bytes()))
}

/// Searches and says what was found.
pub fn run(context: &Context, args: LoadArgs, factor: Factor) -> Result<(String, Exit), Refusal> {
    let search = &args.search;
    let (lowest, highest) = search.between.unwrap_or(if factor == Factor::Rate { RATES } else { USERS });
    let plan = Plan {
        finest: search.step.0,
        window_s: search.window.seconds(),
        settle_s: search.settle.seconds(),
        trials: search.trials,
        visits: search.visits,
        ..Plan::between(lowest, highest)
    };
    let mut args = args;
    match factor {
        Factor::Rate => args.rate = Some(highest.to_string()),
        Factor::Users => args.users = Some(highest.to_string()),
    }
    let (_, plan_of_load) = study::plan(context, &args, Secrets::Shown)?;
    let order = study::order(&args, &plan_of_load)?;
    let request = Request::of(&args, plan, factor, of_scenario(&order));
    let load = order.load().map_err(Refusal::bad_input)?;
    qos(&load, &args.limit)?;
    let recorder = Recorder::begin_search(context, &args, &request)?;
    find(context, load, &request, Vec::new(), recorder)
}

fn find(
    context: &Context,
    load: Load,
    request: &Request,
    stored: Vec<Probe>,
    recorder: Recorder,
) -> Result<(String, Exit), Refusal> {
    let (factor, plan) = (request.factor, request.plan);
    let qos = qos(&load, &request.limits)?;
    let title = load.scenario.title.clone();
    let mut target = Target { load, dial: None, interrupt: &context.interrupt };
    let mut watch = Watch { recorder, live: watch::live(), quiet: context.json && !stderr().is_terminal() };
    let found = Search {
        title: &title,
        factor: if factor == Factor::Rate { "operations/s" } else { "users" },
        qos: &qos,
        plan,
        interrupt: &context.interrupt,
        deadline: None,
        around: None,
        stored,
        watch: &mut |step| watch.see(step),
    }
    .run(&mut target);
    let recorder = watch.finish();
    let (document, broken) = found.map_err(|why| match why {
        SearchError::Start(_) => Refusal::failure(why),
        SearchError::NoLimits | SearchError::Plan(_) => Refusal::bad_input(why),
    })?;
    if let Some(why) = &broken {
        watch::say(format_args!("error: {why}"));
    }
    let exit = exit_of(document.ended);
    let value = serde_json::to_value(&document).map_err(|why| Refusal::failure(format!("writing JSON: {why}")))?;
    let end = match document.ended {
        Ended::Interrupted => End::Interrupted,
        _ => End::Complete(baremark_report::maximum::answer(&document)),
    };
    recorder.end_search(&end, &document, study::metric(factor));
    let text = if context.json { format!("{value:#}\n") } else { shown(&document) };
    Ok((text, exit))
}

/// The exit code of a search. A bound is an answer: even the highest level keeps the limits.
fn exit_of(ended: Ended) -> Exit {
    match ended {
        Ended::Interrupted => Exit::Interrupted,
        Ended::Broken => Exit::Failure,
        Ended::FailsAll => Exit::Regression,
        Ended::Insufficient | Ended::TimeOver => Exit::Undecided,
        Ended::Found | Ended::PassesAll => Exit::Success,
    }
}

/// The limits as typed, or those of the scenario where none are, with what they are judged by.
pub(super) fn qos(load: &Load, typed: &[Limit]) -> Result<Qos, Refusal> {
    let limits = if typed.is_empty() { load.scenario.limits() } else { typed.to_vec() };
    limits::qos(load, limits).map_err(Refusal::bad_input)
}

/// A stored or fresh result as text.
pub(super) fn shown(document: &Document) -> String {
    baremark_report::maximum::render(document, &watch::style())
}

/// A server behind the load engine.
struct Target<'c> {
    load: Load,
    dial: Option<Dial>,
    interrupt: &'c AtomicBool,
}

/// After an overload, what is on its way is waited for so long beyond its timeout.
const DRAINED_NS: u64 = 2_000_000_000;
/// How often a wait checks whether it was interrupted.
const GLANCE_NS: u64 = 50_000_000;

impl Target<'_> {
    fn dial(&mut self) -> Result<&mut Dial, String> {
        self.dial.as_mut().ok_or_else(|| "the load has not been started".to_owned())
    }

    fn wait_until(&self, at_ns: u64) {
        while !self.interrupt.load(Ordering::Relaxed) {
            let left = at_ns.saturating_sub(monotonic_ns());
            if left == 0 {
                return;
            }
            thread::sleep(Duration::from_nanos(left.min(GLANCE_NS)));
        }
    }
}

fn words(why: LoadError) -> String {
    chain(&why)
}

impl UnderLoad for Target<'_> {
    fn start(&mut self, trial: usize) -> Result<(), String> {
        // New connections, and other draws than before.
        self.dial = None;
        let mut load = self.load.clone();
        load.seed = load.seed.wrapping_add(trial as u64);
        self.dial = Some(Dial::start(load).map_err(words)?);
        Ok(())
    }

    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), String> {
        let at = self.dial()?.set(level).map_err(words)?;
        self.wait_until(at + settle.0);
        Ok(())
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, String> {
        let asked = self.dial()?.ask(lasting, patience(qos)).map_err(words)?;
        self.wait_until(asked.begin_ns);
        let before = CpuTime::now();
        self.wait_until(asked.end_ns);
        let after = CpuTime::now();
        let interrupt = self.interrupt;
        let Some(part) = self.dial()?.collect(asked, interrupt).map_err(words)? else {
            // Whoever interrupts takes no more readings.
            return Ok(Reading::default());
        };
        let mut reading = reading(&part, qos);
        if let (Ok(before), Ok(after)) = (before, after)
            && let Some(share) = after.share_since(&before)
        {
            reading.utilization.insert(CPU.to_owned(), share);
        }
        Ok(reading)
    }

    fn drain(&mut self) -> Result<(), String> {
        let within = Nanos(self.load.timeout.0.saturating_add(DRAINED_NS));
        let interrupt = self.interrupt;
        self.dial()?.drain(within, interrupt).map(drop).map_err(words)
    }
}

/// Reports progress on standard error.
struct Watch {
    recorder: Recorder,
    live: bool,
    quiet: bool,
}

impl Watch {
    fn see(&mut self, step: &Step) {
        if let Step::Window { trial, level, said, reading, stored: false } = step
            && let Ok(mut row) = serde_json::to_value(Probe::new(*trial, *level, reading))
        {
            row["said"] = serde_json::json!(said);
            self.recorder.second(&row);
        }
        if self.quiet {
            return;
        }
        let mut out = stderr().lock();
        // A terminal or pipe that is gone ends nothing.
        drop(match step {
            Step::Window { stored: true, .. } => Ok(()),
            Step::Window { trial, level, said, reading, .. } => {
                let said = baremark_report::maximum::said(*said);
                let time = |ns: Option<u64>| super::words::time(ns);
                let line = format!(
                    "trial {}  {level:>8.1} requested  {:>8.1}/s done  {:>6} failed  p50 {:>8}  p99 {:>8}  {said}",
                    trial + 1,
                    reading.achieved_per_s,
                    reading.failed,
                    time(reading.p50_ns),
                    time(reading.p99_ns)
                );
                if self.live { write!(out, "\r\x1b[K{}", fitting(&line)) } else { writeln!(out, "{line}") }
            }
            Step::Trial { trial, so_far } => {
                let clear = if self.live { "\r\x1b[K" } else { "" };
                writeln!(out, "{clear}after trial {}: {}", trial + 1, baremark_report::maximum::answer(so_far))
            }
        });
        drop(out.flush());
    }

    fn finish(self) -> Recorder {
        if self.live && !self.quiet {
            drop(write!(stderr(), "\r\x1b[K"));
        }
        self.recorder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_without_an_answer_does_not_end_as_one_that_has_one() {
        let all = [
            Ended::Found,
            Ended::PassesAll,
            Ended::FailsAll,
            Ended::Insufficient,
            Ended::TimeOver,
            Ended::Broken,
            Ended::Interrupted,
        ];
        assert_eq!(all.map(|ended| exit_of(ended).code()), [0, 0, 4, 5, 5, 1, 130]);
    }
}
