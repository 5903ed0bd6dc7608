//! Where two JSON documents differ: numbers by more than rounding, everything else at all.

use serde_json::Value;

/// Relative difference of two numbers that are the same: processors and their libraries round logarithms otherwise.
const ROUNDING: f64 = 1e-9;
/// Most differences that are named.
pub const MOST_NAMED: usize = 20;

/// The places at which `found` is otherwise than `expected`, at most [`MOST_NAMED`], each as `path: expected, found`. Keys that stand in
/// one of the two alone differ.
#[must_use]
pub fn differences(expected: &Value, found: &Value) -> Vec<String> {
    let mut named = Vec::new();
    compare(&mut named, "", expected, found);
    named
}

fn compare(named: &mut Vec<String>, path: &str, expected: &Value, found: &Value) {
    if named.len() >= MOST_NAMED {
        return;
    }
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (key, value) in expected {
                let path = format!("{path}.{}", shown(key));
                match found.get(key) {
                    Some(other) => compare(named, &path, value, other),
                    None => push(named, format!("{path}: missing")),
                }
            }
            let more = found.keys().filter(|key| !expected.contains_key(*key));
            more.for_each(|key| push(named, format!("{path}.{}: does not follow from the trials", shown(key))));
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (value, other)) in expected.iter().zip(found).enumerate() {
                compare(named, &format!("{path}[{index}]"), value, other);
            }
        }
        (Value::Array(expected), Value::Array(found)) => {
            push(
                named,
                format!("{path}: {} entries follow from the trials, {} are there", expected.len(), found.len()),
            );
        }
        (Value::Number(one), Value::Number(other)) if alike(one.as_f64(), other.as_f64()) => {}
        _ if expected == found => {}
        _ => push(named, format!("{path}: {} follows from the trials, {} is there", scalar(expected), scalar(found))),
    }
}

fn push(named: &mut Vec<String>, what: String) {
    if named.len() < MOST_NAMED {
        named.push(what.trim_start_matches('.').to_owned());
    }
}

fn alike(one: Option<f64>, other: Option<f64>) -> bool {
    let Some((one, other)) = one.zip(other) else { return false };
    (one - other).abs() <= ROUNDING * one.abs().max(other.abs())
}

/// A value in a line: long texts are cut, lists and tables named.
fn scalar(value: &Value) -> String {
    match value {
        Value::Object(_) => "a table".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) => format!("\"{}\"", shown(text)),
        other => other.to_string(),
    }
}

/// A stranger's text in a message.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(60).collect();
    cut.escape_debug().to_string()
}
