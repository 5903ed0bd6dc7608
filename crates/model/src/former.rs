//! Parameters that had another name in earlier versions. They are read as what they are called today, with a notice, from studies and from stored arms.

/// The former name of a parameter and its name.
const RENAMED: [(&str, &str); 3] = [("time", "duration"), ("warm", "warm_up"), ("max", "most")];

/// What a parameter of this former name is called; `None` of any other name.
#[must_use]
pub fn now(key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(former, _)| *former == key).map(|(_, now)| *now)
}

/// What a parameter was called; `None` where it was always called so.
#[must_use]
pub fn before(key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(_, now)| *now == key).map(|(former, _)| *former)
}
