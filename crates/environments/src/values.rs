//! The values of an environment's settings as a study gives them.

use baremark_model::knob::InvalidValue;
use baremark_model::parameters::Typed;
use baremark_model::units::Bytes;
use baremark_model::value::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Settings of one environment.
pub type Settings = BTreeMap<String, Value>;

/// A word or a text.
pub(crate) fn word<'s>(settings: &'s Settings, key: &str) -> Option<&'s str> {
    match settings.get(key) {
        Some(Value::Choice(word) | Value::Text(word)) => Some(word),
        _ => None,
    }
}

/// A number.
pub(crate) fn count(settings: &Settings, key: &str) -> Option<usize> {
    settings.get(key).and_then(usize::typed)
}

/// A list of words.
pub(crate) fn words(settings: &Settings, key: &str) -> Vec<String> {
    settings.get(key).and_then(Vec::typed).unwrap_or_default()
}

/// A time.
pub(crate) fn time(settings: &Settings, key: &str) -> Option<Duration> {
    settings.get(key).and_then(Duration::typed)
}

/// CPUs that this process may use.
pub(crate) fn own_cpus() -> usize {
    baremark_sys::affinity::allowed_cpus().map_or(1, |cpus| cpus.len())
}

/// Whether a switch is there and stands so.
pub(crate) fn switched(settings: &Settings, key: &str, so: bool) -> bool {
    matches!(settings.get(key), Some(Value::Switch(on)) if *on == so)
}

/// A list of numbers.
pub(crate) fn numbers(settings: &Settings, place: &str, key: &str) -> Result<Vec<usize>, InvalidValue> {
    let number = |text: String| {
        let what = |why| format!("{key} in [environments.{place}]: '{text}' must be a number: {why}");
        let wrong = |why| InvalidValue::new(what(why), "write whole numbers from 0");
        text.parse().map_err(wrong)
    };
    words(settings, key).into_iter().map(number).collect()
}

/// A size in bytes.
pub(crate) fn bytes(settings: &Settings, key: &str) -> Option<u64> {
    settings.get(key).and_then(Bytes::typed).map(|size| size.0)
}
