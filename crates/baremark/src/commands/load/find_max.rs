//! The search for the largest rate, or number of users, at which a server keeps its limits.

use super::args::{Factor, LoadArgs};
use super::measure::failed;
use super::others::{self, Others, Probed};
use super::record::{self, Recorder};
use super::study;
use super::view::View;
use super::words::time;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch;
use baremark_lab::conduct::Ending;
use baremark_lab::search::{
    Expected, Probe, Search, SearchError, Step, SubjectError, UnderLoad, check, takes_s, window_s,
};
use baremark_load::document::away;
use baremark_load::limits::{self, CPU};
use baremark_load::load::{Engine, Load};
use baremark_load::order::Order;
use baremark_load::rate_control::{RateControl, wait_until};
use baremark_load::reading::{patience, reading};
use baremark_load::record::Part;
use baremark_load::workload;
use baremark_model::maximum::{Ended, Plan, SearchRequest};
use baremark_model::qos::{Bound, Limit, Qos, Reading};
use baremark_model::units::Nanos;
use baremark_report::maximum::{answer, render, said as said_in_words};
use baremark_store::{RunLock, Store, StoredRun};
use baremark_sys::cpu_time::CpuTime;
use baremark_sys::cpu_users::CpuUsers;
use serde::Deserialize as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Where the search goes where nobody says.
const RATES: (f64, f64) = (10.0, 200_000.0);
const USERS: (f64, f64) = (1.0, 10_000.0);

/// What of a search its study does not hold.
fn request(args: &LoadArgs, (plan, around): (Plan, Option<f64>), scenario: Option<String>) -> SearchRequest {
    SearchRequest {
        plan,
        limits: args.limit.clone(),
        seed: args.seed,
        cpus: args.cpus.clone(),
        complete: !study::has_secrets(args),
        scenario,
        around,
        count_disturbed: args.search.count_disturbed,
    }
}

/// Continues a search that was interrupted or killed: windows that are stored are not measured again. This process holds its run.
pub fn resume(context: &Context, store: &Store, held: RunLock, stored: StoredRun) -> Result<(String, Exit), Refusal> {
    let id = stored.id.clone();
    let gone = || Refusal::bad_input(format!("the request of run {id} is not stored; run the load again"));
    let request = stored.plan.search.clone().filter(|request| request.complete).ok_or_else(gone)?;
    let factor = Factor::of_metric(&stored.plan.metric).ok_or_else(gone)?;
    let arm = &stored.plan.arms.first().ok_or_else(gone)?.arm;
    let order = workload::order(arm).map_err(Refusal::bad_input)?;
    if request.scenario != of_scenario(&order) {
        let file = order.scenario.as_ref().map_or("", |(file, _)| file.as_str());
        let message = format!("{file} is not known to be the scenario with which run {id} began; run the load again");
        return Err(Refusal::bad_input(message));
    }
    let load = study::with(order, request.seed, &request.cpus).load().map_err(Refusal::bad_input)?;
    let probes: Vec<Probe> = stored.progress.iter().filter_map(|row| Probe::deserialize(row).ok()).collect();
    watch::say(format_args!("{} windows of run {id} are stored", probes.len()));
    crate::quiet::wait(context)?;
    let recorder = Recorder::resume(store, held, stored)?;
    let others = probe(&load, (factor, &request.plan), &context.interrupt).others;
    find(context, load, (factor, &request), (probes, others), recorder)
}

/// What is in the order's scenario: windows of two scenarios are not one search.
fn of_scenario(order: &Order) -> Option<String> {
    order.scenario.as_ref().map(|(_, text)| baremark_bundle::digest(text.as_bytes()))
}

/// Searches and says what was found.
pub fn run(context: &Context, args: LoadArgs, factor: Factor) -> Result<(String, Exit), Refusal> {
    let search = &args.search;
    let (lowest, highest) = search.between.unwrap_or(if factor == Factor::Rate { RATES } else { USERS });
    let (window, settle) = (search.window.map(Nanos::seconds), search.settle.map(Nanos::seconds));
    let usual = Plan::between(lowest, highest);
    let plan = Plan {
        finest: search.step.0,
        trials: search.trials,
        visits: search.visits,
        confirming: CONFIRMING,
        window_s: window.unwrap_or(usual.window_s),
        settle_s: settle.unwrap_or(usual.settle_s),
        ..usual
    };
    let mut args = args;
    match factor {
        Factor::Rate => args.rate = Some(highest.to_string()),
        Factor::Users => args.users = Some(highest.to_string()),
    }
    let (source, mut run_plan, order) = study::plan(context, &args)?;
    let scenario = of_scenario(&order);
    let load = order.load().map_err(Refusal::bad_input)?;
    let qos = limits::qos(&load, &args.limit).map_err(Refusal::bad_input)?;
    // What is wrong loads nobody and records nothing.
    check(&qos, &plan).map_err(Refusal::bad_input)?;
    drop(Engine::new(load.clone(), Arc::clone(&context.interrupt)).map_err(failed)?);
    crate::quiet::wait(context)?;
    let probed = probe(&load, (factor, &plan), &context.interrupt);
    let cycle_s = load.scenario.cycle().map(|cycle| cycle.mean.seconds());
    let around = expected(factor, probed.per_s, cycle_s);
    let needed = window_s(&qos, probed.per_s.filter(|_| around.is_some()), plan.finest);
    let window_s = window.unwrap_or_else(|| usual_window_s(factor, needed, cycle_s));
    let settle_s = settle.unwrap_or_else(|| usual_settle_s(factor, window_s, cycle_s));
    let request = request(&args, (Plan { window_s, settle_s, ..plan }, around), scenario);
    if let Some(per_s) = probed.per_s.filter(|_| !(context.json || context.quiet)) {
        let left = takes_s(&request.plan, request.around);
        watch::say(format_args!(
            "a first load has {per_s:.0} operations/s; windows of {window_s:.1} s, about {left:.0} s in all"
        ));
    }
    let store = record::store(context, &args)?;
    run_plan.search = Some(request.clone());
    let recorder = Recorder::begin(context, store.as_ref(), &source, run_plan)?;
    find(context, load, (factor, &request), (Vec::new(), probed.others), recorder)
}

/// What a first load shows, before a search.
fn probe(load: &Load, (factor, plan): (Factor, &Plan), interrupt: &Arc<AtomicBool>) -> Probed {
    let most = match factor {
        Factor::Rate => RATES.1,
        Factor::Users => USERS.1,
    };
    others::probe(load, plan.highest < most, interrupt)
}

/// About which level the answer is, by the operations per second of the first load: each user makes one a cycle. `None` where users have no cycle but times to think.
fn expected(factor: Factor, per_s: Option<f64>, cycle_s: Option<f64>) -> Option<f64> {
    match factor {
        Factor::Rate => per_s,
        Factor::Users => Some(per_s? * cycle_s?),
    }
}

/// How long a window is where nobody says: what users do is seen over two of their cycles.
fn usual_window_s(factor: Factor, needed_s: f64, cycle_s: Option<f64>) -> f64 {
    needed_s.max((2.0 * of_users(factor, cycle_s)).min(LONGEST_S))
}

/// How long settling takes where nobody says: users are at a new level when each has begun a cycle of it.
fn usual_settle_s(factor: Factor, window_s: f64, cycle_s: Option<f64>) -> f64 {
    (window_s / SETTLE).max(of_users(factor, cycle_s).min(LONGEST_S))
}

fn of_users(factor: Factor, cycle_s: Option<f64>) -> f64 {
    cycle_s.filter(|_| factor == Factor::Users).unwrap_or(0.0)
}

/// The longest that a cycle makes a window or settling last.
const LONGEST_S: f64 = 10.0;

/// Visits somewhat below the maximum of a trial.
const CONFIRMING: usize = 1;
/// So many times the settling time is a window.
const SETTLE: f64 = 6.0;

fn find(
    context: &Context,
    load: Load,
    (factor, request): (Factor, &SearchRequest),
    (stored, others): (Vec<Probe>, Option<Others>),
    recorder: Recorder<'_>,
) -> Result<(String, Exit), Refusal> {
    let plan = request.plan;
    let qos = limits::qos(&load, &request.limits).map_err(Refusal::bad_input)?;
    let title = load.scenario.title.clone();
    let others = others.filter(|_| !request.count_disturbed);
    let mut target = Target { load, dial: None, interrupt: &context.interrupt, others, disturbed: Vec::new() };
    let ends =
        Instant::now() + Duration::from_secs_f64(takes_s(&plan, request.around).clamp(0.0, LONGEST_LEFT.as_secs_f64()));
    let mut watch = Watch { view: View::new(context, recorder), trials: plan.trials, begun: Instant::now(), ends };
    let found = Search {
        title: &title,
        factor: if factor == Factor::Rate { "operations/s" } else { "users" },
        qos: &qos,
        plan,
        interrupt: &context.interrupt,
        deadline: None,
        around: request.around.map(Expected::About),
        stored,
        watch: &mut |step| watch.see(step),
    }
    .run(&mut target);
    let recorder = watch.view.finish();
    let (document, broken) = match found {
        Ok(found) => found,
        Err(why @ SearchError::Start(_)) => return Err(recorder.fail(Refusal::failure(why))),
        Err(why) => return Err(recorder.fail(Refusal::bad_input(why))),
    };
    if let Some(why) = &broken {
        watch::say(format_args!("error: {why}"));
    }
    if let Some(last) = target.disturbed.last() {
        let count = target.disturbed.len();
        watch::say(format_args!(
            "{count} windows that exceeded a limit were measured again: {last}; end what took the CPUs, or use --count-disturbed"
        ));
    }
    let exit = exit_of(document.ended);
    let value = serde_json::to_value(&document).map_err(|why| Refusal::failure(format!("writing JSON: {why}")))?;
    let end = match document.ended {
        Ended::Interrupted => Ending::Interrupted,
        _ => Ending::Complete(answer(&document)),
    };
    recorder.end_search(&end, &document, factor.metric());
    let text = if context.json { format!("{value:#}\n") } else { render(&document, &watch::style()) };
    Ok((text, exit))
}

/// The exit code of a search. That even the highest level keeps the limits is a bound, and no maximum.
fn exit_of(ended: Ended) -> Exit {
    match ended {
        Ended::Interrupted => Exit::Interrupted,
        Ended::Broken => Exit::Failure,
        Ended::FailsAll => Exit::Regression,
        Ended::Insufficient | Ended::TimeOver | Ended::PassesAll => Exit::Undecided,
        Ended::Found => Exit::Success,
    }
}

/// A server behind the load engine.
struct Target<'c> {
    load: Load,
    dial: Option<RateControl>,
    interrupt: &'c AtomicBool,
    /// Who else is on this machine; `None` where the loaded system is not known.
    others: Option<Others>,
    /// Why windows did not count.
    disturbed: Vec<String>,
}

/// A window that others disturbed, and in which a limit was exceeded, is measured so many times.
const ATTEMPTS: usize = 2;

/// After an overload, what is on its way is waited for so long beyond its timeout.
const DRAINED_NS: u64 = 2_000_000_000;

impl Target<'_> {
    fn dial(&mut self) -> Result<&mut RateControl, SubjectError> {
        self.dial.as_mut().ok_or_else(|| "the load has not been started".into())
    }
}

/// Why a window that exceeds a limit is no evidence: what other programs used of the CPUs, or that the generator itself was kept from running, as by a stop
/// of this process or of its virtual machine. Its starts were late then, and so were their ends, whatever the server did.
fn disturbance(used: Option<String>, part: &Part) -> Option<String> {
    used.or_else(|| away(part))
}

/// Whether a window exceeds a limit by its counts, or the generator could not make its load.
fn exceeds(qos: &Qos, reading: &Reading) -> bool {
    let busy = |limit: &Limit| match &limit.bound {
        Bound::Utilization { most, .. } => reading.utilization.get(CPU).is_some_and(|share| share > most),
        _ => false,
    };
    reading.generator_limit.is_some() || qos.is_exceeded(&reading.broken) || qos.limits.iter().any(busy)
}

impl Target<'_> {
    fn window(&mut self, qos: &Qos, lasting: Nanos) -> Result<(Reading, Option<String>), SubjectError> {
        let interrupt = self.interrupt;
        let meter = || (CpuTime::now(), CpuUsers::now().ok(), Instant::now());
        let measured = self.dial()?.metered((lasting, patience(qos)), interrupt, meter).map_err(SubjectError::of)?;
        // Whoever interrupts takes no more readings.
        let Some((part, (before, users, begun), (after, now, ended))) = measured else {
            return Ok((Reading::default(), None));
        };
        let used = self.others.as_ref().zip(users).zip(now);
        let used = used.and_then(|((others, users), now)| others.disturbed(&users, &now, ended - begun));
        let disturbed = self.others.as_ref().and_then(|_| disturbance(used, &part));
        let mut reading = reading(&part, qos);
        if let (Ok(before), Ok(after)) = (before, after)
            && let Some(share) = after.share_since(&before)
        {
            reading.utilization.insert(CPU.to_owned(), share);
        }
        Ok((reading, disturbed))
    }
}

impl UnderLoad for Target<'_> {
    fn start(&mut self, trial: usize) -> Result<(), SubjectError> {
        // New connections, and other draws than before.
        self.dial = None;
        let mut load = self.load.clone();
        load.seed = load.seed.wrapping_add(trial as u64);
        self.dial = Some(RateControl::start(load).map_err(SubjectError::of)?);
        Ok(())
    }

    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), SubjectError> {
        let at = self.dial()?.set(level).map_err(SubjectError::of)?;
        wait_until(at + settle.0, self.interrupt);
        Ok(())
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, SubjectError> {
        for _ in 0..ATTEMPTS {
            let (reading, disturbed) = self.window(qos, lasting)?;
            match disturbed.filter(|_| exceeds(qos, &reading)) {
                None => return Ok(reading),
                Some(why) => self.disturbed.push(why),
            }
        }
        // Whoever took the CPUs each time leaves no evidence: neither of a pass nor of a failure.
        Ok(Reading::default())
    }

    fn drain(&mut self) -> Result<(), SubjectError> {
        let within = Nanos(self.load.timeout.0.saturating_add(DRAINED_NS));
        let interrupt = self.interrupt;
        self.dial()?.drain(within, interrupt).map(drop).map_err(SubjectError::of)
    }
}

/// Reports progress on standard error, and writes it down.
struct Watch<'s> {
    view: View<'s>,
    trials: usize,
    /// When the trial in work began.
    begun: Instant,
    /// When it is about over.
    ends: Instant,
}

/// When a search is about over whose last trial took so long, with so many to come; not before it was planned to be.
fn over(planned: Instant, now: Instant, (lasted, left): (Duration, usize)) -> Instant {
    planned.max(now + lasted.saturating_mul(left.try_into().unwrap_or(u32::MAX)).min(LONGEST_LEFT))
}

/// More than that is not foreseen.
const LONGEST_LEFT: Duration = Duration::from_secs(1_000_000);

impl Watch<'_> {
    fn see(&mut self, step: &Step) {
        match step {
            Step::Window { stored: true, .. } => {}
            Step::Window { trial, level, said, reading, .. } => {
                if let Ok(mut row) = serde_json::to_value(Probe::new(*trial, *level, reading)) {
                    row["said"] = serde_json::json!(said);
                    self.view.recorder.second(&row);
                }
                let left = self.ends.saturating_duration_since(Instant::now()).as_secs();
                let left = if left > 0 { format!(", about {left} s to go") } else { String::new() };
                self.view.line(&format!(
                    "trial {}  {level:>8.1} requested  {:>8.1}/s done  {:>6} failed  p50 {:>8}  p99 {:>8}  {}{left}",
                    trial + 1,
                    reading.achieved_per_s,
                    reading.failed,
                    time(reading.p50_ns),
                    time(reading.p99_ns),
                    said_in_words(*said)
                ));
            }
            Step::Trial { trial, so_far } => {
                self.view.recorder.trial_ends();
                let now = Instant::now();
                self.ends = over(self.ends, now, (now - self.begun, self.trials.saturating_sub(trial + 1)));
                self.begun = now;
                if !self.view.quiet {
                    self.view.say(&format!("after trial {}: {}", trial + 1, answer(so_far)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_load::record::ThreadPart;
    use baremark_model::qos::Broken;

    /// Windows that say nothing for certain are followed by others: a search of 94 s as planned took 140 s, of which the last 50 s were not foreseen.
    #[test]
    fn the_time_to_go_is_that_of_the_trials_so_far() {
        let begun = Instant::now();
        let (s, planned) = (Duration::from_secs, begun + Duration::from_secs(90));
        assert_eq!(over(planned, begun + s(50), (s(50), 2)), begun + s(150));
        // One that was faster than foreseen, or stored, does not shorten it; and after the last there is none.
        assert_eq!(over(planned, begun, (s(0), 2)), planned);
        assert_eq!(over(planned, begun + s(150), (s(50), 0)), begun + s(150));
    }

    /// A search whose process was stopped for three seconds took a level for one that exceeds the limits.
    #[test]
    fn a_window_in_which_the_generator_did_not_run_is_disturbed() {
        let part = |away_ns: u64| Part {
            elapsed_ns: 10_000_000_000,
            threads: vec![ThreadPart { cpu: None, cpu_ns: 1, wall_ns: 10_000_000_000, away_ns }],
            ..Part::default()
        };
        let used = || Some("other programs used 50 % of the CPUs (cc1 50 %)".to_owned());
        assert_eq!(disturbance(None, &part(900_000_000)), None);
        let said = "a generator thread did not run for 3.0 s of 10.0 s".to_owned();
        assert_eq!(disturbance(None, &part(3_000_000_000)), Some(said));
        assert_eq!(disturbance(used(), &part(3_000_000_000)), used());
    }

    #[test]
    fn a_window_exceeds_by_counts_and_by_the_processor() {
        let qos = Qos {
            limits: ["failures<1%", "utilization.cpu<80%"].map(|text| text.parse().expect("a limit")).to_vec(),
            ..Qos::default()
        };
        let reading = |bad: u64, cpu: f64| Reading {
            broken: vec![Some(Broken { bad, all: 1000 }), None],
            utilization: [(CPU.to_owned(), cpu)].into(),
            ..Reading::default()
        };
        assert!(!exceeds(&qos, &reading(10, 0.8)));
        assert!(exceeds(&qos, &reading(11, 0.1)) && exceeds(&qos, &reading(0, 0.81)));
    }

    /// 2000 operations/s of users who make one in five seconds are 10,000 users.
    #[test]
    fn users_are_expected_by_the_throughput_of_a_closed_loop_and_have_windows_of_two_cycles() {
        let of = |factor, cycle_s| expected(factor, Some(2000.0), cycle_s);
        assert_eq!([of(Factor::Rate, Some(5.0)), of(Factor::Users, Some(5.0))], [Some(2000.0), Some(10_000.0)]);
        assert_eq!([of(Factor::Users, None), expected(Factor::Users, None, Some(5.0))], [None; 2]);
        let usual = |factor, needed_s, cycle_s| {
            let window_s = usual_window_s(factor, needed_s, cycle_s);
            (window_s, usual_settle_s(factor, window_s, cycle_s))
        };
        assert_eq!(usual(Factor::Users, 2.0, Some(3.0)), (6.0, 3.0));
        assert_eq!(usual(Factor::Users, 2.0, Some(60.0)), (10.0, 10.0));
        assert_eq!(usual(Factor::Rate, 6.0, Some(5.0)), (6.0, 1.0));
        assert!(
            (usual_settle_s(Factor::Users, 12.0, Some(5.0)) - 5.0).abs() < 1e-12,
            "of a window that was typed, too"
        );
    }

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
        assert_eq!(all.map(|ended| exit_of(ended).code()), [0, 5, 4, 5, 5, 1, 130]);
    }
}
