//! The search for a maximum, calibrated on a queue whose capacity is known.

use baremark_stats::Rng;
use baremark_stats::multinomial::{goodman, off_mix};
use baremark_stats::search::{
    Approach, Basis, Count, End, Level, LevelVerdict, MeanLimit, Next, Operation, Response, Staircase, Visit, Window,
    capacity, capacity_isotonic, capacity_of_mean, hysteresis, judge_level, judge_limits, over_trials,
};

/// One server, Poisson arrivals, exponential service: a request stays Exp(SERVICE - rate), so a share `ALLOWED` stays
/// longer than `LIMIT_S` at the rate SERVICE - ln(1/ALLOWED)/LIMIT_S.
struct Queue {
    rng: Rng,
    /// Work still before the next arrival, seconds.
    backlog: f64,
    /// Of this trial, about 1.
    speed: f64,
}

const SERVICE: f64 = 300.0;
const LIMIT_S: f64 = 0.08;
const ALLOWED: f64 = 0.05;
const SETTLE_S: f64 = 3.0;
const WINDOW_S: f64 = 10.0;

impl Queue {
    /// Whoever starts afresh lands on a machine that is a little faster or slower, by `spread`.
    fn new(seed: u64, trial: u64, spread: f64) -> Self {
        let mut rng = Rng::stream(seed, trial);
        let speed = (spread * rng.normal()).exp();
        Self { rng, backlog: 0.0, speed }
    }

    fn window(&mut self, rate: f64, drain: bool) -> Count {
        if drain {
            self.backlog = 0.0;
        }
        self.pass(rate, SETTLE_S);
        self.pass(rate, WINDOW_S)
    }

    /// Lindley's recursion; time is scaled by the trial's speed, which scales capacity.
    fn pass(&mut self, rate: f64, seconds: f64) -> Count {
        let (mut now, mut count) = (0.0, Count { bad: 0, all: 0 });
        loop {
            let gap = self.rng.exponential() / rate;
            now += gap;
            if now > seconds {
                return count;
            }
            self.backlog = (self.backlog - gap).max(0.0) + self.rng.exponential() / (SERVICE * self.speed);
            count.all += 1;
            count.bad += u64::from(self.backlog > LIMIT_S / self.speed);
        }
    }
}

fn true_capacity() -> f64 {
    SERVICE - (1.0 / ALLOWED).ln() / LIMIT_S
}

const PLAN: Staircase = Staircase { lowest: 60.0, start: 60.0, highest: 300.0, step: 60.0, finest: 7.5, windows: 24 };

/// One search from a fresh start: the windows at the finest step.
fn search(queue: &mut Queue, plan: &Staircase) -> (End, Vec<Window>) {
    let (mut visits, mut windows) = (Vec::<Visit>::new(), Vec::new());
    loop {
        let (level, drain) = match plan.next(&visits) {
            Next::Measure { level, drain } => (level, drain),
            Next::Done(end) => return (end, windows.split_off(plan.fine_from(&visits).unwrap_or(0))),
        };
        let count = queue.window(level, drain);
        let response = if count.bad as f64 > ALLOWED * count.all as f64 { Response::Fail } else { Response::Pass };
        let approach =
            if visits.last().is_some_and(|last| last.level > level) { Approach::Above } else { Approach::Below };
        visits.push(Visit { level, response });
        windows.push(Window { level, count, approach });
    }
}

/// Six windows that all passed ended a search in which nothing then lay between a pass and a failure: it had no level.
#[test]
fn windows_at_the_finest_step_go_on_until_the_lowest_passed_and_the_highest_failed() {
    let plan = Staircase { lowest: 10.0, start: 100.0, highest: 1000.0, step: 10.0, finest: 10.0, windows: 6 };
    let made = |said: &[Response], then: Response| {
        let mut visits = Vec::new();
        while let Next::Measure { level, .. } = plan.next(&visits) {
            let response = said.get(visits.len()).copied().unwrap_or(then);
            visits.push(Visit { level, response });
        }
        assert_eq!(plan.next(&visits), Next::Done(End::Turned));
        visits.len()
    };
    let (pass, fail) = (Response::Pass, Response::Fail);
    // At most twice as many.
    assert_eq!([3, 8, 12].map(|passing| made(&vec![pass; passing], fail)), [6, 9, 12]);
    assert_eq!(made(&[], pass), 12);
    // A web server that failed wherever it had passed, and at the lowest of its levels never passed: there was no level below it.
    assert_eq!(made(&[pass, fail, fail, fail, fail, fail], pass), 7);
    assert_eq!(made(&[fail, pass, pass, pass, pass, pass], fail), 7);
}

/// The coverage is 95 %, and at 300 studies has a standard error of 1.26 %.
#[test]
fn a_queue_of_known_capacity() {
    let (trials, studies) = (3, 300);
    let (mut covered, mut within, mut bias, mut isotonic) = (0, 0, 0.0, Vec::new());
    for study in 0..studies {
        let mut levels = Vec::new();
        for trial in 0..trials {
            let (end, windows) = search(&mut Queue::new(7, 100 * study + trial, 0.01), &PLAN);
            assert_eq!(end, End::Turned);
            let one = capacity(&windows, ALLOWED, 0.95).unwrap();
            assert_eq!(one.basis, Basis::WithinRun);
            within += i32::from(one.interval.is_some_and(|interval| interval.contains(true_capacity())));
            isotonic.extend(capacity_isotonic(&windows, ALLOWED).map(|level| (level / true_capacity()).ln()));
            levels.push(one.level);
        }
        let all = over_trials(&levels, 0.95).unwrap();
        assert_eq!(all.basis, Basis::FreshTrials);
        covered += i32::from(all.interval.unwrap().contains(true_capacity()));
        bias += (all.level / true_capacity()).ln() / studies as f64;
    }
    let coverage = f64::from(covered) / studies as f64;
    let within = f64::from(within) / (studies * trials) as f64;
    let other = isotonic.iter().sum::<f64>() / isotonic.len() as f64;
    println!(
        "capacity of a queue, 3 trials: covered {coverage:.3} (within a run {within:.3}), bias {:+.2} %; \
         isotonic {:+.2} % in {} of {}",
        100.0 * bias,
        100.0 * other,
        isotonic.len(),
        studies * trials
    );
    let error = (0.95 * 0.05 / studies as f64).sqrt();
    assert!((coverage - 0.95).abs() <= 2.5 * error, "{coverage}");
    assert!(within < 0.93, "a single run does not know how starts differ, and must stay labelled");
    assert!(bias.abs() < 0.003 && other.abs() < 0.01 && isotonic.len() as f64 > 0.9 * (studies * trials) as f64);
}

/// At exactly the capacity neither "pass" nor "fail" may come out more often than asked: of 500 studies at most 5 % and three standard errors, 7.9 %.
#[test]
fn a_level_is_judged_with_its_error() {
    let level = |rate: f64, queue: u64| {
        let mut queue = Queue::new(3, queue, 0.0);
        let windows: Vec<Count> = (0..10).map(|_| queue.window(rate, false)).collect();
        judge_level(&[Operation { windows: &windows, allowed: ALLOWED }], 0.05)
    };
    let studies = 500;
    // Shares of "pass" and of "fail".
    let shares = |rate: f64| {
        let verdicts: Vec<LevelVerdict> = (0..studies).map(|study| level(rate, study)).collect();
        let share = |of: fn(&LevelVerdict) -> bool| {
            verdicts.iter().filter(|verdict| of(verdict)).count() as f64 / studies as f64
        };
        [share(|verdict| *verdict == LevelVerdict::Pass), share(|verdict| matches!(verdict, LevelVerdict::Fail(_)))]
    };
    let at = shares(true_capacity());
    let beside = [shares(0.93 * true_capacity())[0], shares(1.07 * true_capacity())[1]];
    println!(
        "at capacity: pass {:.3}, fail {:.3}; 7 % below pass {:.3}, 7 % above fail {:.3}",
        at[0], at[1], beside[0], beside[1]
    );
    let limit = 0.05 + 3.0 * (0.05f64 * 0.95 / studies as f64).sqrt();
    assert!(at[0] <= limit && at[1] <= limit && beside[0] > 0.7 && beside[1] > 0.9);
}

#[test]
fn too_few_samples_are_never_a_pass() {
    let good = [Count { bad: 0, all: 23 }; 3];
    let judged = |windows: &[Count]| judge_level(&[Operation { windows, allowed: 0.05 }], 0.05);
    assert_eq!(judged(&good), LevelVerdict::Insufficient { operation: 0, have: 69, need: 72 });
    assert_eq!(judged(&[Count { bad: 0, all: 24 }; 3]), LevelVerdict::Pass);
    let two = [Count { bad: 0, all: 500 }; 2];
    assert!(matches!(judged(&two), LevelVerdict::Insufficient { .. }), "two windows have no spread");
    assert_eq!(judge_level(&[], 0.05), LevelVerdict::Undecided);
}

#[test]
fn failures_are_corrected_for_the_number_of_operations() {
    let slow = [Count { bad: 9, all: 100 }, Count { bad: 10, all: 100 }, Count { bad: 8, all: 100 }];
    let fine = [Count { bad: 0, all: 100 }, Count { bad: 1, all: 100 }, Count { bad: 0, all: 100 }];
    let one = |windows| Operation { windows, allowed: 0.05 };
    assert_eq!(judge_level(&[one(&fine), one(&slow)], 0.05), LevelVerdict::Fail(vec![1]));
    let many: Vec<Operation> = (0..40).map(|i| one(if i == 7 { &slow[..] } else { &fine[..] })).collect();
    assert_eq!(judge_level(&many, 0.05), LevelVerdict::Undecided, "one of forty may look like that by chance");
}

fn walk(plan: &Staircase, respond: impl Fn(f64) -> Response) -> (End, Vec<Visit>) {
    let mut visits = Vec::new();
    loop {
        match plan.next(&visits) {
            Next::Measure { level, drain } => {
                let failed = visits.last().is_some_and(|visit: &Visit| visit.response == Response::Fail);
                assert_eq!(drain, failed, "drained after overload and only then");
                assert!((plan.lowest..=plan.highest).contains(&level));
                visits.push(Visit { level, response: respond(level) });
            }
            Next::Done(end) => return (end, visits),
        }
        assert!(visits.len() < 1000, "does not end");
    }
}

#[test]
fn a_staircase_closes_in_or_says_why_not() {
    let (end, visits) = walk(&PLAN, |level| if level <= 200.0 { Response::Pass } else { Response::Fail });
    assert_eq!(end, End::Turned);
    let fine = &visits[PLAN.fine_from(&visits).unwrap()..];
    assert_eq!(fine.len(), PLAN.windows);
    assert!(fine[2..].iter().all(|visit| (visit.level - 200.0).abs() <= 2.0 * PLAN.finest), "{fine:?}");
    assert_eq!(walk(&PLAN, |_| Response::Pass).0, End::PassesAll);
    assert_eq!(walk(&PLAN, |_| Response::Fail).0, End::FailsAll);
    let (end, visits) = walk(&PLAN, |_| Response::Insufficient);
    assert_eq!((end, visits.len()), (End::Insufficient, 3));
}

/// A system that stays slow after an overload: what is measured coming down is less than what is measured going up.
#[test]
fn hysteresis_is_seen() {
    let window = |level: f64, approach, limit: f64| {
        let share = 1.0 / (1.0 + (-(level - limit) / 5.0 + (0.95f64 / 0.05).ln()).exp());
        Window { level, approach, count: Count { bad: (share * 1e6) as u64, all: 1_000_000 } }
    };
    let levels = [180.0, 190.0, 200.0, 210.0];
    let up = levels.map(|level| window(level, Approach::Below, 200.0));
    let down = levels.map(|level| window(level, Approach::Above, 190.0));
    let found = hysteresis(&[up, down].concat(), 0.05).unwrap();
    assert!((found - (190.0f64 / 200.0).ln()).abs() < 1e-4, "{found}");
    assert_eq!(hysteresis(&up, 0.05), None, "one side alone says nothing");
    let fitted = capacity(&[up, up].concat(), 0.05, 0.95).unwrap();
    assert!((fitted.level - 200.0).abs() < 1e-2 && fitted.interval.is_some());
}

#[test]
fn a_capacity_needs_a_crossing() {
    let window = |level: f64, bad| Window { level, approach: Approach::Below, count: Count { bad, all: 100 } };
    let rows = |bad: fn(u32) -> u64| (0..8u32).map(|i| window(100.0 + f64::from(i), bad(i))).collect::<Vec<_>>();
    assert_eq!(capacity(&rows(|_| 0), 0.05, 0.95), None, "nothing was bad");
    assert_eq!(capacity(&rows(|i| 8 - u64::from(i)), 0.05, 0.95), None, "falls with the level");
    assert!(capacity(&rows(u64::from), 0.05, 0.95).is_some());
    assert_eq!(capacity(&rows(u64::from)[..5], 0.05, 0.95), None);
    assert_eq!(over_trials(&[100.0, 101.0], 0.95), None, "two trials are not enough");
}

/// Utilizations rise in proportion to the load: the ceiling is reached where the line says, and judged window by window.
#[test]
fn a_mean_reaches_its_ceiling() {
    let mut rng = Rng::stream(11, 1);
    let windows: Vec<Level> = (0..12)
        .map(|i| 100.0 + 10.0 * f64::from(i))
        .map(|level| Level { level, value: level / 200.0 + 0.01 * rng.normal() })
        .collect();
    let found = capacity_of_mean(&windows, 0.8, 0.95).unwrap();
    assert!((found.level - 160.0).abs() < 3.0 && found.interval.unwrap().contains(160.0), "{found:?}");
    assert_eq!(capacity_of_mean(&windows[..5], 0.8, 0.95), None);
    let falling: Vec<Level> = windows.iter().map(|w| Level { value: -w.value, ..*w }).collect();
    assert_eq!(capacity_of_mean(&falling, 0.8, 0.95), None);
    let judged = |values: &[f64]| judge_limits(&[], &[MeanLimit { windows: values, ceiling: 0.8 }], 0.05);
    assert_eq!(judged(&[0.70, 0.71, 0.69]), LevelVerdict::Pass);
    assert_eq!(judged(&[0.90, 0.91, 0.89]), LevelVerdict::Fail(vec![0]));
    assert_eq!(judged(&[0.70, 0.80, 0.90]), LevelVerdict::Undecided);
    assert_eq!(judged(&[0.1, 0.1]), LevelVerdict::Insufficient { operation: 0, have: 2, need: 3 });
}

/// A mix as requested is hardly ever called off, however few there are; one that is off by half is found when there are enough.
#[test]
fn a_mix_is_off_only_beyond_its_own_noise() {
    let wanted = [0.5, 0.3, 0.15, 0.05];
    let draw = |rng: &mut Rng, shares: &[f64; 4], n: usize| {
        let mut counts = [0u64; 4];
        for _ in 0..n {
            let mut at = rng.uniform();
            let index = shares.iter().position(|share| {
                at -= share;
                at < 0.0
            });
            counts[index.unwrap_or(3)] += 1;
        }
        counts
    };
    let mut rng = Rng::stream(3, 5);
    let rate = |rng: &mut Rng, shares: &[f64; 4], n: usize, tolerance: f64| {
        (0..400).filter(|_| !off_mix(&draw(rng, shares, n), &wanted, tolerance, 0.95).is_empty()).count() as f64 / 400.0
    };
    let shifted = [0.5, 0.3, 0.125, 0.075];
    let found =
        [rate(&mut rng, &wanted, 60, 0.0), rate(&mut rng, &wanted, 2000, 0.0), rate(&mut rng, &shifted, 5000, 0.1)];
    println!(
        "mix as wanted called off: {:.3} of 60, {:.3} of 2000; off by half, tolerance 10 %: {:.3}",
        found[0], found[1], found[2]
    );
    assert!(found[0] < 0.08 && found[1] < 0.08 && found[2] > 0.95, "{found:?}");
    assert!(off_mix(&[0; 4], &wanted, 0.1, 0.95).is_empty(), "no sample shows nothing");
    let intervals = goodman(&[56, 72, 73, 59, 62, 87, 58], 0.95).unwrap();
    // The formula worked out apart from this program, with Python's statistics.NormalDist.
    let ends: Vec<String> = intervals.iter().map(|one| format!("{:.3}-{:.3}", one.lo, one.hi)).collect();
    let expected = "0.085-0.166 0.115-0.204 0.116-0.207 0.091-0.173 0.096-0.181 0.143-0.239 0.089-0.171";
    assert_eq!(ends.join(" "), expected);
}
