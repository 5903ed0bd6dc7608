//! Observing alongside something that runs.

use baremark_model::observer::{Absence, ObserveSpec, Observer, Readings, USUAL};
use baremark_model::units::Nanos;
use baremark_observe::watch::Watch;
use baremark_observe::{LIST, Row};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn spec(which: &[&str]) -> ObserveSpec {
    let which = which.iter().map(|&name| name.to_owned()).collect();
    ObserveSpec { interval: Nanos(100_000_000), which, per_cpu: false }
}

/// Waits for what another thread does, which nobody reports.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// How often the observer below was read.
static READ: AtomicU32 = AtomicU32::new(0);

/// Its line of the list.
const SEEN: Row = ("seen", |_| Box::new(Seen));

/// Shows when it is read.
struct Seen;

impl Observer for Seen {
    fn start(&mut self) -> Result<(), Absence> {
        Ok(())
    }

    fn read(&mut self, _into: &mut Readings) -> Result<(), Absence> {
        READ.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn a_watch_makes_points_while_nobody_asks() {
    let watch = Watch::start_of(&[&[SEEN][..], LIST].concat(), &spec(&[&["seen"][..], USUAL].concat()));
    // The first reading is that of its start.
    wait_until("nobody reads", || READ.load(Ordering::SeqCst) >= 4);
    let seen = watch.stop();
    // One at each interval, and at the end.
    let points = seen.series.at_s.len();
    assert!(points >= 3 && points as f64 <= seen.seconds / 0.1 + 1.0, "{:?} in {} s", seen.series.at_s, seen.seconds);
    assert!(seen.whole["cpu.idle"] >= 0.0 && seen.whole["kernel.context_switches"] > 0.0);
}

#[test]
fn phases_make_the_points_where_they_are_short() {
    // An observer that costs nothing: of one that costs more than a fiftieth of the time some quads are left out.
    let watch = Watch::start(&spec(&["null"]));
    let before = Instant::now();
    watch.begin_phases();
    let begun = Instant::now();
    let (mut phases, mut last) = (0, begun);
    while begun.elapsed() < Duration::from_millis(600) {
        thread::sleep(Duration::from_millis(10));
        last = Instant::now();
        watch.phase_done(phases % 2, 1);
        phases += 1;
    }
    let done = Instant::now();
    let seen = watch.stop();
    assert!(!seen.series.at_s.is_empty());
    assert_eq!(seen.arms.iter().map(|arm| arm.phases as usize).sum::<usize>(), phases);
    // From the beginning of the first phase to the end of the last, neither of which is seen to the nanosecond from here.
    let seconds: f64 = seen.arms.iter().map(|arm| arm.seconds).sum();
    let (least, most) = ((last - begun).as_secs_f64(), (done - before).as_secs_f64());
    assert!(least - 1e-6 <= seconds && seconds <= most + 1e-6, "{seconds}, not {least} to {most}");
    assert!(seconds <= seen.seconds, "{seconds} of {}", seen.seconds);
}

#[test]
fn a_watch_that_is_dropped_leaves_no_thread() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    for _ in 0..20 {
        drop(Watch::start(&spec(&["null"])));
    }
    // A thread that was joined may be there for a moment. Where tests share a process others have threads too, but not twenty.
    wait_until("threads are left", || threads() < before + 15);
}
