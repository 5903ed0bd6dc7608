//! The search for a maximum, conducted on queues whose capacity is known and on systems that misbehave, all in simulated time.

use baremark_lab::search::{Expected, Probe, Search, SearchError, Step, SubjectError, UnderLoad, window_s};
use baremark_model::histogram::Histogram;
use baremark_model::maximum::{Basis, Document, Ended, Plan, Said, Samples, Window};
use baremark_model::qos::{Bound, Broken, Qos, Reading};
use baremark_model::units::Nanos;
use baremark_stats::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SERVICE: f64 = 300.0;

/// One server, Poisson arrivals, exponential service; what it is worth differs a little from start to start.
struct Queue {
    rng: Rng,
    study: u64,
    backlog: f64,
    /// What it serves a second at speed 1.
    service: f64,
    speed: f64,
    spread: f64,
    level: f64,
    drained: bool,
    /// Each request uses the processor for this long.
    cpu_s: f64,
    /// Share of logins among the operations.
    logins: f64,
    /// The generator makes no more than this.
    generator: f64,
    fails_at_start: Option<usize>,
}

impl Queue {
    fn new(study: u64) -> Queue {
        Queue {
            rng: Rng::stream(7, study),
            study,
            backlog: 0.0,
            service: SERVICE,
            speed: 1.0,
            spread: 0.01,
            level: 0.0,
            drained: true,
            cpu_s: 0.0,
            logins: 0.1,
            generator: f64::INFINITY,
            fails_at_start: None,
        }
    }

    fn pass(&mut self, seconds: f64, mut each: impl FnMut(f64, bool)) {
        let mut now = 0.0;
        loop {
            let gap = self.rng.exponential() / self.level.min(self.generator);
            now += gap;
            if now > seconds {
                return;
            }
            self.backlog = (self.backlog - gap).max(0.0) + self.rng.exponential() / (self.service * self.speed);
            let login = self.rng.uniform() < self.logins;
            each(self.backlog, login);
        }
    }
}

impl UnderLoad for Queue {
    fn start(&mut self, trial: usize) -> Result<(), SubjectError> {
        if self.fails_at_start.is_some_and(|at| trial >= at) {
            return Err("the topology did not come up; look at its log".into());
        }
        self.rng = Rng::stream(7, self.study * 1000 + trial as u64);
        self.speed = (self.spread * self.rng.normal()).exp();
        self.backlog = 0.0;
        Ok(())
    }

    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), SubjectError> {
        self.level = level;
        self.drained = false;
        self.pass(settle.seconds(), |_, _| {});
        Ok(())
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, SubjectError> {
        let mut stays: Vec<(f64, bool)> = Vec::new();
        self.pass(lasting.seconds(), |stay, login| stays.push((stay, login)));
        let broken = qos.limits.iter().map(|limit| {
            let Bound::Latency { within, .. } = limit.bound else { return None };
            let of = |login: bool| limit.operation.as_deref().is_none_or(|name| (name == "login") == login);
            let all = stays.iter().filter(|(_, login)| of(*login));
            let bad = all.clone().filter(|(stay, _)| *stay > within.seconds()).count() as u64;
            Some(Broken { bad, all: all.count() as u64 })
        });
        let logins = stays.iter().filter(|(_, login)| *login).count() as u64;
        let rate = stays.len() as f64 / lasting.seconds();
        let busy = self.generator < self.level;
        Ok(Reading {
            elapsed_s: lasting.seconds(),
            asked_per_s: self.level,
            achieved_per_s: rate,
            broken: broken.collect(),
            ended: BTreeMap::from([("login".to_owned(), logins), ("page".to_owned(), stays.len() as u64 - logins)]),
            latencies: stays.iter().map(|(stay, _)| (nanos(*stay), 1)).collect(),
            utilization: BTreeMap::from([("cpu".to_owned(), rate * self.cpu_s)]),
            generator_limit: busy
                .then(|| format!("the generator's thread was busy for {:.3} % of the time", 99.0 + rate / self.level)),
            ..Reading::default()
        })
    }

    fn drain(&mut self) -> Result<(), SubjectError> {
        self.backlog = 0.0;
        self.drained = true;
        Ok(())
    }
}

/// To the millisecond, as a recorder has buckets.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e3) as u64 * 1_000_000
}

fn qos(limits: &[&str]) -> Qos {
    Qos { limits: limits.iter().map(|text| text.parse().unwrap()).collect(), mix: BTreeMap::new() }
}

/// A request stays Exp(SERVICE - rate), so that a share `beyond` stays longer than `limit_s` at the rate below.
fn capacity(beyond: f64, limit_s: f64) -> f64 {
    SERVICE - (1.0 / beyond).ln() / limit_s
}

/// A search over operations a second that has all the time it wants.
fn of<'s>(qos: &'s Qos, plan: Plan, interrupt: &'s AtomicBool, watch: &'s mut dyn FnMut(&Step)) -> Search<'s> {
    Search {
        title: "a queue",
        factor: "operations/s",
        qos,
        plan,
        interrupt,
        deadline: None,
        around: None,
        stored: Vec::new(),
        watch,
    }
}

fn search(queue: &mut Queue, qos: &Qos, plan: Plan) -> Document {
    let interrupt = AtomicBool::new(false);
    let (document, broken) = of(qos, plan, &interrupt, &mut |_| {}).run(queue).unwrap();
    assert_eq!(broken, None);
    document
}

/// The whole conduct, from a ramp over two decades to the interval over trials, at the coverage that it claims: 95 %, which 150 studies show with a
/// standard error of 1.78 %.
#[test]
fn intervals_over_trials_cover_a_known_capacity() {
    let (known, studies) = (capacity(0.05, 0.08), 150_u32);
    let (mut covered, mut within, mut bias) = (0, 0, 0.0);
    for study in 0..studies {
        let plan = Plan { visits: 24, ..Plan::between(5.0, 5000.0) };
        let document = search(&mut Queue::new(study.into()), &qos(&["p95<80ms"]), plan);
        assert_eq!(document.ended, Ended::Found);
        let maximum = document.maximum.unwrap();
        assert_eq!(maximum.basis, Basis::FreshTrials);
        covered += i32::from((maximum.low.unwrap()..=maximum.high.unwrap()).contains(&known));
        let first = document.trials[0].maximum.unwrap();
        assert_eq!(first.basis, Basis::WithinRun);
        within += i32::from((first.low.unwrap()..=first.high.unwrap()).contains(&known));
        bias += (maximum.level / known).ln() / f64::from(studies);
        assert_eq!(document.limited_by[0].what, "p95<80 ms");
    }
    let coverage = f64::from(covered) / f64::from(studies);
    println!(
        "search on a queue of known capacity: covered {coverage:.3} over 3 trials (first trial alone {:.3}), bias {:+.2} %",
        f64::from(within) / f64::from(studies),
        100.0 * bias
    );
    let error = (0.95 * 0.05 / f64::from(studies)).sqrt();
    assert!((coverage - 0.95).abs() <= 2.5 * error && bias.abs() < 0.01, "{coverage} {bias}");
}

#[test]
fn the_knee_is_measured_and_levels_are_shown() {
    let document = search(&mut Queue::new(1), &qos(&["p95<80ms", "utilization.cpu<95%"]), Plan::between(5.0, 5000.0));
    let maximum = document.maximum.unwrap().level;
    let shown = document.shown_level.unwrap();
    assert!(shown <= 1.03 * maximum && shown > 0.5 * maximum, "{shown} {maximum}");
    assert!(document.knee.len() > 8 && document.knee.is_sorted_by(|left, right| left.level < right.level));
    let verdicts: Vec<&str> = document.knee.iter().map(|row| row.verdict.as_str()).collect();
    assert!(verdicts.contains(&"pass") && verdicts.contains(&"fail"), "{verdicts:?}");
    let both = document.trials[0].windows.iter().filter(|window| window.fitted);
    let (above, below): (Vec<_>, Vec<_>) = both.partition(|window| window.from_above);
    assert!(above.len() > 2 && below.len() > 2, "approached from both sides");
    assert!(document.hysteresis.is_some());
    // As it is stored and sent.
    let text = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document);
}

/// Values were those of a level up to a tenth below the answer.
#[test]
fn values_are_measured_at_the_answer_itself() {
    let limits = qos(&["p95<80ms"]);
    let plan = Plan { visits: 12, ..Plan::between(5.0, 5000.0) };
    let with = search(&mut Queue::new(1), &limits, plan);
    let without = search(&mut Queue::new(1), &limits, Plan { confirming: 0, ..plan });
    let maximum = with.maximum.unwrap();
    let row = with.at_answer.clone().unwrap();
    assert!((row.level / maximum.level - 1.0).abs() <= 0.1 * plan.finest, "{row:?} and not {maximum:?}");
    assert!((row.achieved_per_s / maximum.level - 1.0).abs() < 0.2 && row.p95_ns.is_some(), "{row:?}");
    let last = with.trials[2].windows.last().unwrap();
    assert!(!last.fitted && (last.level / maximum.level - 1.0).abs() < 1e-9, "after all trials, and in no fit");
    assert_eq!(without.at_answer, None, "no search that confirms nothing spends time on it");
    // A search without an answer has no values there either.
    let none = search(&mut Queue::new(7), &limits, Plan::between(5.0, 100.0));
    assert_eq!((none.maximum, none.at_answer), (None, None));
}

/// A system whose windows differ as those of an overloaded one do: many operations and quick, or few and slow, of which some
/// never end. Nobody could judge a 99th percentile by the few.
struct Uneven {
    level: f64,
    windows: usize,
}

impl UnderLoad for Uneven {
    fn start(&mut self, _trial: usize) -> Result<(), SubjectError> {
        Ok(())
    }

    fn set(&mut self, level: f64, _settle: Nanos) -> Result<(), SubjectError> {
        self.level = level;
        Ok(())
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, SubjectError> {
        self.windows += 1;
        let slow = self.windows.is_multiple_of(2);
        let (done, failed, ns) = if slow { (40, 10, 3_000_000_000) } else { (1000, 0, 5_000_000) };
        let bad = if slow { 50 } else { 0 };
        let latencies: Histogram = [(ns, done)].into_iter().collect();
        Ok(Reading {
            elapsed_s: lasting.seconds(),
            asked_per_s: (done + failed) as f64 / lasting.seconds(),
            achieved_per_s: done as f64 / lasting.seconds(),
            broken: qos.limits.iter().map(|_| Some(Broken { bad, all: done + failed })).collect(),
            failed,
            p50_ns: Some(ns),
            p95_ns: (!slow).then_some(ns),
            p99_ns: (!slow).then_some(ns),
            latencies,
            utilization: BTreeMap::from([("cpu".to_owned(), if slow { 1.0 } else { 0.2 })]),
            ..Reading::default()
        })
    }

    fn drain(&mut self) -> Result<(), SubjectError> {
        Ok(())
    }
}

/// A row used to show a median of 3 s alongside a 99th percentile of 5 ms, and fewer operations than had been answered.
#[test]
fn a_row_is_of_all_its_windows_together() {
    let (limits, interrupt) = (qos(&["p50<4s"]), AtomicBool::new(false));
    // All windows at one level, none too few.
    let plan = Plan { windows_per_visit: 2, trials: 1, ..Plan::between(99.0, 100.0) };
    let (document, _) = of(&limits, plan, &interrupt, &mut |_| {}).run(&mut Uneven { level: 0.0, windows: 0 }).unwrap();
    let windows: Vec<_> = document.trials.iter().flat_map(|trial| &trial.windows).collect();
    assert!(windows.len() > 8, "{}", windows.len());
    for row in &document.knee {
        assert!(row.p50_ns <= row.p95_ns && row.p95_ns <= row.p99_ns, "{row:?}");
        let here = |window: &&&Window| (window.level / row.level - 1.0).abs() <= plan.finest;
        let of = |value: fn(&Window) -> f64| windows.iter().filter(here).map(|window| value(window)).sum::<f64>();
        let seconds = of(|window| window.reading.elapsed_s);
        let rate = of(|window| window.reading.achieved_per_s * window.reading.elapsed_s) / seconds;
        let failed = of(|window| window.reading.failed as f64)
            / of(|window| window.reading.asked_per_s * window.reading.elapsed_s);
        let cpu = of(|window| window.reading.utilization["cpu"] * window.reading.elapsed_s) / seconds;
        let found =
            [row.achieved_per_s / rate, (1.0 + row.failed_share) / (1.0 + failed), row.utilization["cpu"] / cpu];
        assert!(found.iter().all(|ratio| (ratio - 1.0).abs() < 1e-9), "{found:?} of {row:?}");
    }
    let together = document.knee.iter().find(|row| row.windows > 2).unwrap();
    assert_eq!((together.p50_ns, together.p99_ns), (Some(5_000_000), Some(3_000_000_000)), "{together:?}");
}

/// What limits is what is found: an operation's own percentile, a ceiling, or the generator.
#[test]
fn the_smallest_capacity_counts_and_is_named() {
    let plan = Plan::between(5.0, 5000.0);
    let document = search(&mut Queue::new(2), &qos(&["page:p95<500ms", "login:p90<40ms"]), plan);
    let known = capacity(0.1, 0.04);
    assert!((document.maximum.unwrap().level / known - 1.0).abs() < 0.06, "{:?} {known}", document.maximum);
    assert_eq!(document.trials[0].limiting.as_deref(), Some("login:p90<40 ms"));

    let mut queue = Queue { cpu_s: 0.004, ..Queue::new(3) };
    let document = search(&mut queue, &qos(&["p95<80ms", "utilization.cpu<80%"]), plan);
    assert!((document.maximum.unwrap().level / 200.0 - 1.0).abs() < 0.03, "{:?}", document.maximum);
    assert_eq!(document.trials[0].limiting.as_deref(), Some("utilization.cpu<80 %"));

    let mut queue = Queue { generator: 100.0, ..Queue::new(4) };
    let document = search(&mut queue, &qos(&["p95<80ms"]), plan);
    assert!(document.generator_was_the_limit);
    let generators = document.limited_by.iter().filter(|limiting| limiting.what.contains("generator"));
    assert!(document.limited_by[0].what.contains("generator"), "{:?}", document.limited_by);
    assert_eq!(generators.count(), 1, "one reason, whatever its figures are: {:?}", document.limited_by);
    assert!(document.shown_level.is_none_or(|level| level <= 101.0));
}

#[test]
fn a_mix_that_is_off_is_no_pass() {
    let mix = BTreeMap::from([("login".to_owned(), 0.1), ("page".to_owned(), 0.9)]);
    let limited = Qos { mix, ..qos(&["p95<80ms", "mix<20%"]) };
    let document = search(&mut Queue::new(5), &limited, Plan::between(5.0, 5000.0));
    assert_eq!(document.ended, Ended::Found, "the mix is as wanted");
    let mut queue = Queue { logins: 0.2, ..Queue::new(6) };
    let document = search(&mut queue, &limited, Plan::between(50.0, 5000.0));
    assert_eq!(document.ended, Ended::FailsAll);
    assert_eq!((document.maximum, document.limited_by[0].what.as_str()), (None, "mix<20 %"));
}

#[test]
fn what_cannot_be_found_says_why() {
    let all = search(&mut Queue::new(7), &qos(&["p95<80ms"]), Plan::between(5.0, 100.0));
    assert_eq!((all.ended, all.maximum), (Ended::PassesAll, None));
    assert!(all.shown_level.unwrap() > 90.0);
    let none = search(&mut Queue::new(8), &qos(&["p95<1ms"]), Plan::between(50.0, 100.0));
    assert_eq!((none.ended, none.maximum, none.shown_level), (Ended::FailsAll, None, None));
    // p99.9 wants thousands of samples, and 6 windows of 10 s at 5/s are 300.
    let few = search(&mut Queue::new(9), &qos(&["p99.9<10s"]), Plan::between(5.0, 6.0));
    assert_eq!((few.ended, few.maximum), (Ended::Insufficient, None));
    assert!(few.trials[0].windows.iter().all(|window| window.said != Said::Pass), "never a pass");
}

/// Few logins hold a search up when each limit wants its samples, and are judged all the same when they need not.
#[test]
fn a_rare_operation_is_judged_and_need_not_hold_a_search_up() {
    let limits = qos(&["p95<80ms", "login:p99<80ms"]);
    let each = Plan { windows_per_visit: 1, ..Plan::between(20.0, 5000.0) };
    let rare = || Queue { logins: 0.02, ..Queue::new(13) };
    assert_eq!(search(&mut rare(), &limits, each).ended, Ended::Insufficient);
    let some = Plan { samples: Samples::Some, confirming: 0, ..each };
    let document = search(&mut rare(), &limits, some);
    assert_eq!(document.ended, Ended::Found);
    assert!(document.limited_by.iter().any(|limiting| limiting.what == "login:p99<80 ms"), "{:?}", document.limited_by);
    // 99 % of the logins within the limit is reached before 95 % of everything.
    assert!(document.maximum.unwrap().level < capacity(0.05, 0.08), "{:?}", document.maximum);
}

/// An expectation saves the ramp. One that is far off costs windows, and the answer is the same.
#[test]
fn a_search_that_begins_where_the_answer_is_expected_has_no_ramp() {
    let (limits, known) = (qos(&["p95<80ms"]), capacity(0.05, 0.08));
    let plan = Plan { visits: 24, trials: 1, confirming: 0, ..Plan::between(5.0, 5000.0) };
    let found = |around: Option<Expected>| {
        let (interrupt, mut watch) = (AtomicBool::new(false), |_: &Step| {});
        let mut search = Search { around, ..of(&limits, plan, &interrupt, &mut watch) };
        let (document, broken) = search.run(&mut Queue::new(21)).unwrap();
        assert_eq!((document.ended, broken), (Ended::Found, None));
        let level = document.maximum.unwrap().level;
        assert!((level / known - 1.0).abs() < 0.1, "{level}, not {known}, from {around:?}");
        document.trials[0].windows.len()
    };
    let (ramped, expected) = (found(None), found(Some(Expected::Near(1.1 * known))));
    assert!(expected < ramped, "{expected} windows, and {ramped} with a ramp");
    found(Some(Expected::Near(0.2 * known)));
    found(Some(Expected::Near(4.0 * known)));
    let about = found(Some(Expected::About(SERVICE)));
    assert!(about < ramped, "{about} windows, and {ramped} with a ramp");
    found(Some(Expected::About(0.02 * known)));
    found(Some(Expected::About(50.0 * known)));
}

/// A search took eight minutes for what a probe of two seconds brackets: with the windows of a server as fast as this, and three fresh starts, it
/// takes about one in simulated time, and its answer is that of the queue.
#[test]
fn a_search_about_a_known_throughput_takes_about_a_minute() {
    let limits = qos(&["p95<50ms"]);
    // The queue of this rate fills and empties within milliseconds: it carries all but what a limit of 50 ms takes.
    let (service, known) = (10_000.0, 10_000.0 - 20.0_f64.ln() / 0.05);
    let mut longest = Duration::ZERO;
    let mut off: Vec<f64> = (0..8)
        .map(|study| {
            let window_s = window_s(&limits, Some(service), 0.025);
            let plan =
                Plan { window_s, settle_s: window_s / 6.0, visits: 6, confirming: 1, ..Plan::between(10.0, 200_000.0) };
            let (interrupt, begun, mut watch) = (AtomicBool::new(false), Instant::now(), |_: &Step| {});
            let around = Some(Expected::About(service));
            let mut search = Search { around, ..of(&limits, plan, &interrupt, &mut watch) };
            let queue = Queue { service, spread: 0.0, ..Queue::new(study) };
            let mut queue = Clocked { queue, now: begun };
            let document = search.run(&mut queue).unwrap().0;
            longest = longest.max(queue.now - begun);
            (document.maximum.unwrap().level / known).ln()
        })
        .collect();
    off.sort_by(f64::total_cmp);
    println!("{longest:?}, {:+.1} % to {:+.1} %", 100.0 * off[0], 100.0 * off[7]);
    assert!(longest < Duration::from_secs(103), "{longest:?}, the visit at the answer included");
    assert!(off[0] > -0.05 && off[7] < 0.05, "within 5 %: {off:?}");
}

/// A queue whose first window after each start shows a failure, whatever the level.
struct Misleading {
    queue: Queue,
    first: bool,
}

impl UnderLoad for Misleading {
    fn start(&mut self, trial: usize) -> Result<(), SubjectError> {
        self.first = true;
        self.queue.start(trial)
    }

    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), SubjectError> {
        self.queue.set(level, settle)
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, SubjectError> {
        let mut reading = self.queue.read(qos, lasting)?;
        if std::mem::take(&mut self.first) {
            reading.broken.iter_mut().flatten().for_each(|of| of.bad = of.all);
        }
        Ok(reading)
    }

    fn drain(&mut self) -> Result<(), SubjectError> {
        self.queue.drain()
    }
}

/// Two short windows whose bracket was too low: the search stood at its upper end three times, and began anew above it.
#[test]
fn a_search_goes_beyond_a_bracket_that_was_wrong() {
    let (limits, known) = (qos(&["p95<50ms"]), 10_000.0 - 20.0_f64.ln() / 0.05);
    let plan = Plan { window_s: 2.0, settle_s: 0.4, visits: 6, confirming: 0, trials: 1, ..Plan::between(10.0, 2e5) };
    for study in 0..8 {
        let (interrupt, mut watch) = (AtomicBool::new(false), |_: &Step| {});
        let around = Some(Expected::About(8_000.0));
        let mut search = Search { around, ..of(&limits, plan, &interrupt, &mut watch) };
        let queue = Queue { service: 10_000.0, spread: 0.0, ..Queue::new(study) };
        let document = search.run(&mut Misleading { queue, first: true }).unwrap().0;
        let windows = &document.trials[0].windows;
        let level = document.maximum.unwrap().level;
        println!("{} windows, {level:.0} of {known:.0}", windows.len());
        assert!((level / known - 1.0).abs() < 0.05, "{level}");
        let stood = windows.windows(3).any(|three| three.iter().all(|window| window.level == three[0].level));
        assert!(!stood && windows.len() <= 22, "{windows:?}");
    }
}

/// A queue whose windows do not count at first.
struct Disturbed {
    queue: Queue,
    windows: usize,
}

impl UnderLoad for Disturbed {
    fn start(&mut self, trial: usize) -> Result<(), SubjectError> {
        self.queue.start(trial)
    }

    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), SubjectError> {
        self.queue.set(level, settle)
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, SubjectError> {
        self.windows = self.windows.saturating_sub(1);
        let reading = self.queue.read(qos, lasting)?;
        Ok(if self.windows > 0 { Reading::default() } else { reading })
    }

    fn drain(&mut self) -> Result<(), SubjectError> {
        self.queue.drain()
    }
}

/// Windows that other programs disturbed are in no level and no verdict; a search that has no others ends without an answer.
#[test]
fn windows_that_do_not_count_are_measured_again() {
    let (limits, interrupt) = (qos(&["p95<80ms"]), AtomicBool::new(false));
    let plan = Plan { trials: 1, ..Plan::between(5.0, 5000.0) };
    let found = |windows: usize| {
        let mut watch = |_: &Step| {};
        let mut subject = Disturbed { queue: Queue::new(3), windows };
        of(&limits, plan, &interrupt, &mut watch).run(&mut subject).unwrap().0
    };
    let document = found(3);
    assert_eq!(document.ended, Ended::Found);
    assert!((document.maximum.unwrap().level / capacity(0.05, 0.08) - 1.0).abs() < 0.1, "{:?}", document.maximum);
    assert!(document.trials[0].windows.iter().all(|window| window.reading.asked_per_s > 0.0));
    let none = found(usize::MAX);
    assert_eq!((none.ended, none.maximum, none.knee.len()), (Ended::Insufficient, None, 0));
}

/// A queue whose clock shows the time that was simulated.
struct Clocked {
    queue: Queue,
    now: Instant,
}

impl UnderLoad for Clocked {
    fn start(&mut self, trial: usize) -> Result<(), SubjectError> {
        self.queue.start(trial)
    }

    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), SubjectError> {
        self.now += Duration::from_nanos(settle.0);
        self.queue.set(level, settle)
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, SubjectError> {
        self.now += Duration::from_nanos(lasting.0);
        self.queue.read(qos, lasting)
    }

    fn drain(&mut self) -> Result<(), SubjectError> {
        self.queue.drain()
    }

    fn now(&self) -> Instant {
        self.now
    }
}

#[test]
fn a_search_ends_with_its_time_and_says_what_lies_between() {
    let (limits, interrupt) = (qos(&["p95<80ms"]), AtomicBool::new(false));
    let plan = Plan { visits: 1_000_000, ..Plan::between(5.0, 5000.0) };
    let window = Duration::from_secs_f64(plan.settle_s + plan.window_s);
    let ended = |windows: u32| {
        let begun = Instant::now();
        let deadline = begun + windows * window;
        let mut watch = |_: &Step| {};
        let mut search = Search { deadline: Some(deadline), ..of(&limits, plan, &interrupt, &mut watch) };
        let mut queue = Clocked { queue: Queue::new(14), now: begun };
        let document = search.run(&mut queue).unwrap().0;
        let millisecond = Duration::from_millis(1);
        assert!(queue.now <= deadline + millisecond, "a window ends after the deadline");
        assert!(queue.now + window + millisecond > deadline, "another window would have ended before the deadline");
        document
    };
    let some = ended(60);
    let maximum = some.maximum.unwrap();
    assert_eq!((some.ended, maximum.basis), (Ended::TimeOver, Basis::Bracket));
    assert!(maximum.low.unwrap() <= maximum.level && maximum.level <= maximum.high.unwrap(), "{maximum:?}");
    assert!((maximum.level / capacity(0.05, 0.08) - 1.0).abs() < 0.3, "{maximum:?}");
    let mut watch = |_: &Step| {};
    let mut search = Search { deadline: Some(Instant::now()), ..of(&limits, plan, &interrupt, &mut watch) };
    let (none, _) = search.run(&mut Queue::new(15)).unwrap();
    assert_eq!((none.ended, none.maximum, none.knee.len()), (Ended::TimeOver, None, 0));
}

#[test]
fn an_interrupt_and_a_broken_system_leave_what_is_known() {
    let interrupt = AtomicBool::new(false);
    let limits = qos(&["p95<80ms"]);
    let mut windows = 0;
    let mut watch = |step: &Step| {
        windows += i32::from(matches!(step, Step::Window { .. }));
        // In the second trial.
        if windows > 60 {
            interrupt.store(true, Ordering::Relaxed);
        }
    };
    let plan = Plan { visits: 30, ..Plan::between(5.0, 5000.0) };
    let mut queue = Queue::new(10);
    let (document, _) = of(&limits, plan, &interrupt, &mut watch).run(&mut queue).unwrap();
    assert_eq!(document.ended, Ended::Interrupted);
    let first = document.maximum.unwrap();
    assert_eq!(first.basis, Basis::WithinRun, "one trial is labelled as that");
    assert!(queue.drained, "and the system is left at rest");

    let mut dying = Queue { fails_at_start: Some(2), ..Queue::new(11) };
    let calm = AtomicBool::new(false);
    let mut quiet = |_: &Step| {};
    let mut search = of(&limits, plan, &calm, &mut quiet);
    let (document, why) = search.run(&mut dying).unwrap();
    assert_eq!((document.ended, document.trials.len()), (Ended::Broken, 3));
    assert!(why.unwrap().contains("look at its log") && document.maximum.is_some());
    let mut dead = Queue { fails_at_start: Some(0), ..Queue::new(12) };
    assert!(matches!(search.run(&mut dead), Err(SearchError::Start(_))));
}

#[test]
fn a_search_that_cannot_be_is_refused() {
    let interrupt = AtomicBool::new(false);
    for (limits, plan, told) in [
        (qos(&[]), Plan::between(1.0, 2.0), "no limit"),
        (qos(&["p95<1s"]), Plan::between(2.0, 1.0), "0 < LOW < HIGH"),
        (qos(&["p95<1s"]), Plan { visits: 3, ..Plan::between(1.0, 2.0) }, "at least 6 visits"),
        (qos(&["p95<1s"]), Plan { visits: 3, finest: 0.9, ..Plan::between(1.0, 2.0) }, "(--step)\ntoo few probes"),
        (qos(&["p95<1s"]), Plan { window_s: 0.0, ..Plan::between(1.0, 2.0) }, "has no length"),
    ] {
        let why = of(&limits, plan, &interrupt, &mut |_| {}).run(&mut Queue::new(1)).unwrap_err().to_string();
        assert!(why.contains(told), "{why}");
    }
}

/// Counts what is asked of a queue.
struct Counted {
    queue: Queue,
    started: usize,
    read: usize,
}

impl UnderLoad for Counted {
    fn start(&mut self, trial: usize) -> Result<(), SubjectError> {
        self.started += 1;
        self.queue.start(trial)
    }

    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), SubjectError> {
        assert!(self.started > 0, "it is loaded only after its start");
        self.queue.set(level, settle)
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, SubjectError> {
        self.read += 1;
        self.queue.read(qos, lasting)
    }

    fn drain(&mut self) -> Result<(), SubjectError> {
        assert!(self.started > 0, "it is drained only after its start");
        self.queue.drain()
    }
}

/// A search that is taken up goes the way of the interrupted one as far as its windows are stored, and measures the rest.
#[test]
fn stored_windows_are_not_measured_again() {
    let limits = qos(&["p90<50ms"]);
    let plan = Plan { trials: 2, ..Plan::between(10.0, 400.0) };
    let interrupt = AtomicBool::new(false);
    let mut probes: Vec<Probe> = Vec::new();
    let mut keep = |step: &Step| {
        if let Step::Window { trial, level, reading, stored, .. } = step {
            assert!(!stored);
            // As a store keeps them: in words.
            let words = serde_json::to_string(&Probe::new(*trial, *level, reading)).unwrap();
            probes.push(serde_json::from_str(&words).unwrap());
        }
    };
    let (whole, _) = of(&limits, plan, &interrupt, &mut keep).run(&mut Queue::new(3)).unwrap();
    for known in [probes.len(), probes.len() / 2, 1] {
        let mut counted = Counted { queue: Queue::new(3), started: 0, read: 0 };
        let (mut again, mut fresh) = (Vec::new(), 0);
        let mut watch = |step: &Step| {
            if let Step::Window { trial, level, stored, .. } = step {
                if *stored { again.push((*trial, *level)) } else { fresh += 1 }
            }
        };
        let search = of(&limits, plan, &interrupt, &mut watch);
        let (document, broken) = Search { stored: probes[..known].to_vec(), ..search }.run(&mut counted).unwrap();
        assert_eq!((broken, again.len(), counted.read), (None, known, fresh));
        let levels: Vec<(usize, f64)> = probes[..known].iter().map(|probe| (probe.trial, probe.level)).collect();
        assert_eq!(again, levels);
        if known == probes.len() {
            assert_eq!((counted.started, counted.read), (0, 0), "nothing is left to measure");
            assert_eq!(document.maximum, whole.maximum);
            assert_eq!(document.knee, whole.knee);
        } else {
            assert!(counted.read > 0);
            assert_eq!(document.ended, Ended::Found);
        }
    }
    // Windows of another search are not mistaken for its own.
    let other = Probe::new(0, 123.4, &Reading::default());
    let mut counted = Counted { queue: Queue::new(3), started: 0, read: 0 };
    let mut nothing = |_: &Step| {};
    let search = of(&limits, plan, &interrupt, &mut nothing);
    Search { stored: vec![other], ..search }.run(&mut counted).unwrap();
    assert_eq!(counted.read, probes.len());
}
