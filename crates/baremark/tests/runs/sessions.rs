//! Desktop users, who are processes of the program itself.

use crate::common::shrunk::{FEW_USERS, NATIVE, document, shrunk};

#[test]
fn desktop_users_run_as_their_study_says() {
    let sessions = shrunk("sessions", &[&FEW_USERS[..], &NATIVE].concat());
    let document = document(&sessions);
    let search = &document["details"][0]["document"]["search"];
    let levels = search["knee"].as_array().unwrap().iter().map(|row| row["level"].as_f64().unwrap());
    assert_eq!(levels.collect::<Vec<_>>(), [1.0, 2.0], "{search:#}");
    assert_eq!(search["ended"], "passes-all", "{search:#}");
    assert!(document["flags"].to_string().contains("ceiling reached: at least 2 users keep the limit"), "{document:#}");
}
