//! Desktop users, who are processes of the program itself.

use crate::common::shrunk::{FEW_USERS, NATIVE, document, shrunk};

#[test]
fn desktop_users_run_as_their_study_says() {
    let sessions = shrunk("sessions", &[&FEW_USERS[..], &NATIVE].concat());
    let document = document(&sessions);
    assert!(document["flags"].to_string().contains("ceiling reached: at least 2 users keep the limit"), "{document:#}");
}
