//! Observing alongside something that runs.

use baremark_model::observer::{ObserveSpec, USUAL};
use baremark_model::units::Nanos;
use baremark_observe::watch::Watch;
use std::thread;
use std::time::{Duration, Instant};

fn spec(which: &[&str]) -> ObserveSpec {
    let which = which.iter().map(|&name| name.to_owned()).collect();
    ObserveSpec { interval: Nanos(100_000_000), which, per_cpu: false }
}

#[test]
fn a_watch_makes_points_while_nobody_asks() {
    let watch = Watch::start(&spec(USUAL));
    thread::sleep(Duration::from_millis(2500));
    let seen = watch.stop();
    assert!(seen.seconds >= 2.5);
    // One at each interval, and at the end.
    let points = seen.series.at_s.len();
    assert!(points >= 2 && points as f64 <= seen.seconds / 0.1 + 1.0, "{:?} in {} s", seen.series.at_s, seen.seconds);
    assert!(seen.whole["cpu.idle"] >= 0.0 && seen.whole["kernel.context_switches"] > 0.0);
}

#[test]
fn phases_make_the_points_where_they_are_short() {
    let watch = Watch::start(&spec(&["kernel"]));
    watch.begin_phases();
    let until = Instant::now() + Duration::from_millis(600);
    let mut phases = 0;
    while Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
        watch.phase_done(phases % 2);
        phases += 1;
    }
    let seen = watch.stop();
    assert!(!seen.series.at_s.is_empty());
    assert_eq!(seen.arms.iter().map(|arm| arm.phases as usize).sum::<usize>(), phases);
    let seconds: f64 = seen.arms.iter().map(|arm| arm.seconds).sum();
    assert!((seconds - seen.seconds).abs() < 0.5, "{seconds} of {}", seen.seconds);
}

#[test]
fn a_watch_that_is_dropped_leaves_no_thread() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    for _ in 0..20 {
        drop(Watch::start(&spec(&["null"])));
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    // Other tests of this process have threads of their own: what matters is that twenty do not stay.
    while threads() > before + 15 {
        assert!(Instant::now() < deadline, "{} threads, {before} before", threads());
        thread::sleep(Duration::from_millis(20));
    }
}
