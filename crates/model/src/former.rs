//! Parameters, and keys of commands and topologies, that had another name in earlier versions. They are read as what they are called today, with a notice, from
//! studies and topologies, and without one from what is stored ([`renamed`](crate::renamed)).

/// Parameters that have another name today: the kinds of the workloads whose parameter it is, none of a key of a section that is not a workload's; the former
/// name; and the name.
pub const OF_KINDS: [(&[&str], &str, &str); 6] = [
    (&["sessions", "jvm-warehouse"], "time", "duration"),
    (&["jvm-warehouse"], "warm", "warm_up"),
    (&["jvm-warehouse"], "pages", "heap_pages"),
    (&["start-up", "density"], "place", "server_environment"),
    (&["density"], "max", "most"),
    (&[], "warmup", "warmup_runs"),
];

/// What a parameter of this former name is called, of workloads of these kinds, or without any a key of another section; `None` of any other name.
#[must_use]
pub fn now(kinds: &[&str], key: &str) -> Option<&'static str> {
    let is_theirs = |theirs: &[&str]| match theirs {
        [] => kinds.is_empty(),
        theirs => theirs.iter().any(|kind| kinds.contains(kind)),
    };
    OF_KINDS.into_iter().find(|(theirs, former, _)| *former == key && is_theirs(theirs)).map(|(.., now)| now)
}

/// What a factor is called that has this former name, a parameter of workloads of these kinds or a path in an application's section; `None` of any other name.
#[must_use]
pub fn key_now_of(kinds: &[&str], key: &str) -> Option<String> {
    now(kinds, key).map(str::to_owned).or_else(|| Some(path_now(key)).filter(|path| path != key))
}

/// The notice of a key that was typed at `place`, a file and a line, and has another name today.
#[must_use]
pub fn notice(place: &str, section: &str, typed: &str, now: &str) -> String {
    format!("{place}: '{typed}' in [{section}] is called '{now}' now")
}

/// Keys of a topology's sections: the section, the former name and the name.
pub const IN_SECTIONS: [(&str, &str, &str); 2] =
    [("load", "warm", "warm_up"), ("limits", "beyond", "violations_allowed")];

/// The entries of a section by its path, of which the last part counts.
fn of_section(path: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let section = path.rsplit('.').next().unwrap_or_default();
    IN_SECTIONS.into_iter().filter(move |(of, ..)| *of == section).map(|(_, former, now)| (former, now))
}

/// What a key of this former name in a section is called; `None` of any other name.
#[must_use]
pub fn now_in(path: &str, key: &str) -> Option<&'static str> {
    of_section(path).find(|(former, _)| *former == key).map(|(_, now)| now)
}

/// A path of sections and a key, such as `limits.violations_allowed`, with the key as it is called today.
#[must_use]
pub fn path_now(path: &str) -> String {
    let renamed = path.rsplit_once('.').and_then(|(section, key)| Some(format!("{section}.{}", now_in(section, key)?)));
    renamed.unwrap_or_else(|| path.to_owned())
}

/// What a key of a section was called; `None` where it was always called so.
#[must_use]
pub fn before_in(path: &str, key: &str) -> Option<&'static str> {
    of_section(path).find(|(_, now)| *now == key).map(|(former, _)| former)
}
