//! How many operations begin, against what was requested.

use crate::server::{answer, load, ms, prompt, run, serve};
use crate::shop::users;
use baremark_load::document::Document;
use baremark_load::load::{Drive, Load, LoadError};
use baremark_load::profile::Profile;
use baremark_load::rate_control::RateControl;
use baremark_load::record::Part;
use baremark_load::scenario::Cycle;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// What users of a scenario did.
fn did(text: &str, server: &crate::server::Server, profile: &str, lasting_ms: u64) -> Document {
    run(Load { timeout: ms(3000), ..users(text, server, profile, lasting_ms) })
}

fn window(dial: &mut RateControl, lasting_ms: u64, patience_ms: u64) -> Part {
    let asked = dial.ask(ms(lasting_ms), ms(patience_ms)).unwrap();
    dial.collect(asked, &AtomicBool::new(false)).unwrap().unwrap()
}

const ONE: &str = r#"
    [scenario]
    cycle = "100 ms"
    [operations.only]
    [[operations.only.requests]]
    get = "/"
"#;

#[test]
fn as_many_operations_begin_as_a_profile_has_users() {
    let server = serve(|_, stream| answer(stream, 200, "", ""));
    let document = did(ONE, &server, "intervals 2:600ms 20:600ms 2:600ms", 1800);
    // 12, then 120, then 12 operations, give or take a cycle and the 50 ms at which the profile is looked at.
    assert!((100..=180).contains(&document.counts.intended), "{}", document.counts.intended);
    assert!(document.failures.is_empty());
}

#[test]
fn users_of_a_dial_keep_their_cycle() {
    let server = prompt();
    let drive = Drive::Users { profile: Profile::steady(60.0) };
    let mut asked = load(server.address, drive, 1);
    asked.scenario.set_cycle(Some(Cycle { mean: ms(100), deviation: 0.1, most: 0.5 }));
    asked.connections = 60;
    asked.timeout = ms(10_000);
    let mut dial = RateControl::start(asked).unwrap();
    for users in [10_u32, 50, 20] {
        dial.set(f64::from(users)).unwrap();
        thread::sleep(Duration::from_millis(400));
        let part = window(&mut dial, 1000, 3000);
        // Each begins ten operations a second.
        let intended = part.counts.intended as f64 / f64::from(users);
        assert!((8.0..12.0).contains(&intended), "{intended} by each of {users}");
    }
    assert!(matches!(dial.set(61.0), Err(LoadError::Refused { .. })));
}
