//! What one kind of workload reports, as far as it says what it is: searches, loads, percentiles and rates anywhere in it.

use super::percentiles::ordered;
use super::violation::{Found, ROUNDING, place};
use super::{levels, sums};
use crate::knee::is_search;
use baremark_model::document::Document;
use baremark_model::maximum::{self, Ended, KneeRow};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Keys of the time to which an object's rates belong.
const TIMES: [&str; 2] = ["elapsed_s", "seconds"];
/// What rates by a rounded time may differ by, as a share.
const ROUNDED: f64 = 1e-3;
/// The share of CPUs that many servers used in a window of a fraction of a second: their counters are read one after the other, so that it may be
/// beyond the whole. What is beyond twice the whole is of others, or in another unit.
const CPU_SHARE: (&str, f64) = ("cpu_share", 2.0);
/// A share of operations where `broken` has their counts, else a deviation from a mix, which has no bound, or the use of a resource.
const MEASURED: (&str, &str) = ("measured_share", "broken");

pub(super) fn check(document: &Document, found: &mut Found) {
    for row in &document.details {
        of(&place(document, "details", &row.format, &row.treatment), &row.document, found);
    }
}

/// Everything in a detail.
pub(super) fn of(place: &str, detail: &Value, found: &mut Found) {
    match detail {
        Value::Object(object) => {
            if is_search(detail) {
                search(place, detail, found);
            }
            numbers(place, object, found);
            sums::of(place, object, detail, found);
            levels::of(place, detail, found);
            if let Ok(counted) = Counted::deserialize(detail) {
                counted.check(place, found);
            }
            object.iter().for_each(|(key, value)| of(&format!("{place}: {key}"), value, found));
        }
        Value::Array(rows) => (1..).zip(rows).for_each(|(number, row)| of(&format!("{place} {number}"), row, found)),
        _ => {}
    }
}

/// The numbers of an object next to each other.
fn numbers(place: &str, object: &Map<String, Value>, found: &mut Found) {
    let values: Vec<(&str, f64)> =
        object.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_f64()?))).collect();
    ordered(&values, &|key| format!("{place}: {key}"), found);
    let number = |key: &str| object.get(key).and_then(Value::as_f64);
    for (key, value) in &values {
        let at = || format!("{place}: {key}");
        if key.ends_with("_share") && !(0.0..=whole(key, object)).contains(value) {
            found.unless(false, at, || format!("{value}"), "a share is within 0 and the whole");
        }
        let counted = key.strip_suffix("_per_s").and_then(number).zip(TIMES.iter().find_map(|key| number(key)));
        if let Some((count, seconds)) = counted {
            let what = || format!("{value}/s in {seconds} s, and {count} counted");
            found.unless(near(value * seconds, count), at, what, "a rate times its time is its count");
        }
    }
}

/// The most that a share next to others may be, as a part of 1.
fn whole(key: &str, object: &Map<String, Value>) -> f64 {
    let of_counts = || object.get(MEASURED.1).is_some_and(|counts| !counts.is_null());
    match key {
        key if key == CPU_SHARE.0 => CPU_SHARE.1,
        key if key == MEASURED.0 && !of_counts() => f64::INFINITY,
        _ => 1.0 + ROUNDING,
    }
}

/// What was loaded, as far as its parts say one thing.
#[derive(Deserialize)]
struct Counted {
    counts: AnsweredCount,
    achieved: AnsweredRate,
    elapsed_s: f64,
    statuses: Option<BTreeMap<String, f64>>,
}

#[derive(Deserialize)]
struct AnsweredCount {
    answered: f64,
    received_bytes: Option<f64>,
}

#[derive(Deserialize)]
struct AnsweredRate {
    requests_per_s: f64,
    received_bytes_per_s: Option<f64>,
}

impl Counted {
    fn check(&self, place: &str, found: &mut Found) {
        let at = || format!("{place}: achieved");
        let (count, rate, seconds) = (self.counts.answered, self.achieved.requests_per_s, self.elapsed_s);
        let what = || format!("{rate} requests/s in {seconds} s, and {count} answered");
        found.unless(near(rate * seconds, count), at, what, "a rate times its time is its count");
        if let (Some(rate), Some(bytes)) = (self.achieved.received_bytes_per_s, self.counts.received_bytes) {
            let what = || format!("{rate} bytes/s in {seconds} s, and {bytes} received");
            found.unless(near(rate * seconds, bytes), at, what, "a rate times its time is its count");
        }
        // Answers that came after the time have a status, and are not counted.
        if let Some(all) = self.statuses.as_ref().map(|statuses| statuses.values().sum::<f64>()) {
            let what = || format!("{count} answered, {all} with a status");
            found.unless(count <= all, || format!("{place}: statuses"), what, "every answer has a status");
        }
    }
}

fn near(one: f64, two: f64) -> bool {
    (one - two).abs() <= ROUNDED * one.abs().max(two.abs()) + 1e-9
}

/// The answer of a search lies within its bracket: above the levels up to which all passed, below those from which on all failed.
fn search(place: &str, detail: &Value, found: &mut Found) {
    let document = match maximum::Document::deserialize(detail) {
        Ok(document) => document,
        Err(why) => return found.unless(false, || place.to_owned(), || why.to_string(), "a search can be read"),
    };
    let at = || place.to_owned();
    let Some(answer) = document.maximum else { return };
    let level = answer.level;
    let no_answer = matches!(document.ended, Ended::PassesAll | Ended::FailsAll);
    found.unless(
        !no_answer || document.trials.len() > 1,
        at,
        || format!("{level} although {:?}", document.ended),
        "a search without a bracket has no answer",
    );
    if let (Some(low), Some(high)) = (answer.low, answer.high) {
        let what = || format!("{level} in {low} to {high}");
        found.unless(low <= level && level <= high, at, what, "an interval contains its estimate");
    }
    let highest = document.knee.iter().map(|row| row.level).fold(0.0, f64::max);
    let lowest_failed = document.knee.iter().rev().take_while(|row| row.verdict == FAILED).last();
    let most = lowest_failed.map_or(highest, |row: &KneeRow| row.level) * (1.0 + document.plan.finest);
    let what = || format!("{level} where {most} failed or was not measured");
    found.unless(document.knee.is_empty() || level <= most, at, what, "no level beyond the bracket is the answer");
}

/// The verdict of a level at which a limit was exceeded.
const FAILED: &str = "fail";
