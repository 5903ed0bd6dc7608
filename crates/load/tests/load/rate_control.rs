//! A load whose level is changed while it runs, and windows of it.

use crate::server::{LIMIT, Then, Visits, answer, load, ms, prompt, serve, wait_until};
use crate::shop::{NUMBERED, scenario};
use baremark_load::arrival::Arrival;
use baremark_load::load::{Drive, LoadError};
use baremark_load::profile::Profile;
use baremark_load::rate_control::RateControl;
use baremark_load::reading::reading;
use baremark_load::record::Part;
use baremark_model::qos::{Qos, Reading};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn window(dial: &mut RateControl, lasting_ms: u64, patience_ms: u64) -> Part {
    let asked = dial.ask(ms(lasting_ms), ms(patience_ms)).unwrap();
    dial.collect(asked, &AtomicBool::new(false)).unwrap().unwrap()
}

fn open(rate: f64) -> Drive {
    Drive::Open { arrival: Arrival::Constant, profile: Profile::steady(rate) }
}

fn read(part: &Part, limits: &[&str]) -> Reading {
    let limits = limits.iter().map(|text| text.parse().unwrap()).collect();
    reading(part, &Qos { limits, mix: BTreeMap::new() })
}

/// The intended starts of a constant rate are exact, whatever the machine does: a window of 500 ms at 400/s has 200.
#[test]
fn the_rate_follows_the_dial_without_new_connections() {
    let server = prompt();
    let mut asked = load(server.address, open(1000.0), 1);
    asked.threads = 2;
    let mut dial = RateControl::start(asked).unwrap();
    assert_eq!(window(&mut dial, 100, 100).counts.intended, 0, "nothing before the first level");
    for rate in [400_u32, 100, 800] {
        // Before the window, which is asked for later.
        dial.set(f64::from(rate)).unwrap();
        let part = window(&mut dial, 500, 60_000);
        let wanted = u64::from(rate) / 2;
        assert!(part.counts.intended.abs_diff(wanted) <= 2, "{} of {wanted}", part.counts.intended);
        let reading = read(&part, &["p99<60s", "failures<1%"]);
        assert!((reading.asked_per_s / f64::from(rate) - 1.0).abs() < 0.05, "{reading:?}");
        let broken = reading.broken[1].unwrap();
        assert_eq!((broken.bad, broken.all, part.counts.unfinished), (0, part.counts.intended, 0));
        assert!(part.threads.len() == 2 && reading.generator_cpu_share.is_some() && part.send_lag.count() > 0);
    }
    assert!(dial.drain(ms(60_000), &AtomicBool::new(false)).unwrap() && dial.in_flight() == 0);
    let whole = dial.stop().unwrap();
    assert!(whole.counts.connections <= 4 && whole.counts.answered > 600, "{:?}", whole.counts);
}

/// A server that answers nobody ends no operation; those meant to start in the window have broken every limit all the same.
#[test]
fn who_never_gets_an_answer_counts() {
    let open_now = Arc::new(AtomicBool::new(true));
    let gate = Arc::clone(&open_now);
    let server = serve(move |_, stream| {
        while !gate.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        answer(stream, 200, "", "")
    });
    let asked = load(server.address, open(1000.0), 1);
    let mut dial = RateControl::start(asked).unwrap();
    dial.set(200.0).unwrap();
    assert_eq!(read(&window(&mut dial, 300, 60_000), &["failures<1%"]).failed, 0);
    open_now.store(false, Ordering::Relaxed);
    let part = window(&mut dial, 300, 200);
    assert_eq!((part.counts.intended, part.counts.unfinished), (60, 60), "{:?}", part.counts);
    let reading = read(&part, &["p99<10ms"]);
    let broken = reading.broken[0].unwrap();
    assert_eq!((broken.bad, broken.all, reading.failed), (60, 60, 60), "{reading:?}");
    assert!(!dial.drain(ms(300), &AtomicBool::new(false)).unwrap(), "four are still on their way");
    open_now.store(true, Ordering::Relaxed);
    assert!(dial.drain(ms(60_000), &AtomicBool::new(false)).unwrap(), "until the server wakes");
}

/// Ten users are answered, ten never: each of their operations fails after 200 ms, so that with a cycle of 50 ms the next is later by 150 ms. No window after
/// the first had one of theirs, and none failed.
#[test]
fn users_who_are_kept_beyond_their_cycle_break_limits_in_each_window() {
    let server = serve(|request, stream| {
        let user: usize = request.line.rsplit('/').next().and_then(|text| text.parse().ok()).unwrap();
        if user >= 10 {
            thread::sleep(LIMIT);
        }
        answer(stream, 200, "", "")
    });
    let mut asked = load(server.address, Drive::Users { profile: Profile::steady(20.0) }, 1);
    asked.scenario = scenario(NUMBERED, &server);
    asked.connections = 20;
    asked.timeout = ms(200);
    let mut dial = RateControl::start(asked).unwrap();
    dial.set(20.0).unwrap();
    window(&mut dial, 1000, 50);
    for _ in 0..2 {
        let part = window(&mut dial, 1000, 50);
        // In the 950 ms before the patience each of the ten was to start one in 50 ms.
        assert!(part.counts.unsent >= 150, "{:?}", part.counts);
        // A limit of the operation at which they are kept is broken as one of all is.
        for limit in ["failures<1%", "only:p99<60s"] {
            let broken = read(&part, &[limit]).broken[0].unwrap();
            let is_all = broken.all == part.counts.intended;
            assert!(3 * broken.bad >= broken.all && is_all, "{limit}: {broken:?} {:?}", part.counts);
        }
    }
}

#[test]
fn users_come_and_go_with_the_dial() {
    let visits = Arc::<Visits>::default();
    let server = visits.server();
    let drive = Drive::Users { profile: Profile::steady(60.0) };
    let mut asked = load(server.address, drive, 1);
    asked.scenario = scenario(NUMBERED, &server);
    asked.connections = 60;
    let mut dial = RateControl::start(asked).unwrap();
    for users in [10, 50] {
        assert_eq!(visits.least(users), 0, "not all of {users} users have come");
        dial.set(users as f64).unwrap();
        wait_until(&format!("{users} users"), || visits.least(users) > 3);
        assert_eq!(visits.highest(), Some(users - 1));
    }
    dial.set(20.0).unwrap();
    wait_until("20 users alone", || visits.least_alone(20) > 3);
    assert!(matches!(dial.set(61.0), Err(LoadError::Refused { .. })));
}

#[test]
fn a_dial_refuses_what_has_no_level_and_says_when_it_is_interrupted() {
    let server = prompt();
    assert!(matches!(RateControl::start(load(server.address, Drive::Closed, 1)), Err(LoadError::Refused { .. })));
    let slow = serve(|_, _| {
        thread::sleep(Duration::from_millis(100));
        Then::Close
    });
    let mut dial = RateControl::start(load(slow.address, open(50.0), 1)).unwrap();
    assert!(dial.set(-1.0).is_err() && dial.set(f64::NAN).is_err());
    let asked = dial.ask(ms(60_000), ms(100)).unwrap();
    assert_eq!(dial.collect(asked, &AtomicBool::new(true)).unwrap(), None);
}
