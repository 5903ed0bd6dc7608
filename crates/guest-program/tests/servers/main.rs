//! nginx in the guest, under the load engine.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as expected")]
#![allow(dead_code, clippy::allow_attributes, reason = "each suite uses a part of what they share")]

#[path = "../guest/both.rs"]
mod both;
#[path = "../guest/cases.rs"]
mod cases;
#[path = "../guest/load.rs"]
mod load;
#[path = "../guest/support.rs"]
mod support;

use both::difference;
use cases::{Case, ONE_PROCESS, Page, nginx};
use support::has_kvm;

/// A server of the table under few requests.
const BRIEF: Case = nginx("nginx", ONE_PROCESS, &[Page { bytes: 1024, requests: 200 }]);

#[test]
fn a_server_answers_the_load_engine_as_natively() {
    if has_kvm() {
        assert_eq!(difference(&BRIEF, false), None);
    }
}
