//! Desktop users, who are processes of the program itself.

use crate::common::shrunk::{FEW_USERS, NATIVE, document, estimate, shrunk};

#[test]
fn desktop_users_run_as_their_study_says() {
    let sessions = shrunk("sessions", &[&FEW_USERS[..], &NATIVE].concat());
    assert_eq!(estimate(&document(&sessions), "users_within_limit"), 2.0);
}
