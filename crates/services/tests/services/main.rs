//! Services without their programs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod shipped;

use baremark_services::all;
use shipped::defaults;

#[test]
fn every_knob_has_its_default_in_the_shipped_file() {
    for service in all() {
        let settings = defaults(*service);
        for knob in service.knobs() {
            assert!(settings.has(knob.key), "{}.{} has no default", service.kind(), knob.key);
        }
    }
}
