//! What every observer must do, `null` included.
//!
//! The suite starts an observer, reads it some times and stops it, and says what it did that an observer must not do. It
//! is for this machine and for recordings of others; an observer that is absent has passed when it says why.

use crate::{LIST, Root, observer};
use baremark_model::conformance::Violation;
use baremark_model::observer::{Absence, OBSERVERS, Readings};
use baremark_model::quantity::{Growth, QUANTITIES};
use std::collections::BTreeMap;

/// What an observer of the suite came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It reads this many values.
    Reads(usize),
    /// It is absent, and says why.
    Absent(Absence),
}

const READINGS: usize = 3;

/// Runs the suite on the observer of that name.
///
/// # Errors
/// What it did that an observer must not do.
pub fn check(name: &str, root: &Root) -> Result<Passed, Violation> {
    let mut observer = observer(LIST, name, root).map_err(|absence| absence.to_string())?;
    if !OBSERVERS.contains(&name) {
        return Err(Violation(format!("it is registered as '{name}', which studies cannot name")));
    }
    let unstarted = observer.read(&mut Readings::default());
    if unstarted.is_ok() && name != "null" {
        return Err(Violation("it reads before it was started".to_owned()));
    }
    if let Err(absence) = observer.start() {
        observer.stop();
        return match absence.reason.is_empty() || absence.observer != name {
            true => Err(Violation(format!("it is absent without a specific reason: {absence:?}"))),
            false => Ok(Passed::Absent(absence)),
        };
    }
    let mut last: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let mut values = 0;
    for _ in 0..READINGS {
        let mut readings = Readings::default();
        if let Err(absence) = observer.read(&mut readings) {
            observer.stop();
            return Ok(Passed::Absent(absence));
        }
        values = readings.values.len();
        let mut seen = BTreeMap::new();
        for reading in readings.values {
            let key = (reading.quantity.key, reading.instance.clone());
            if !QUANTITIES.iter().any(|row| row.key == key.0) {
                return Err(Violation(format!("'{}' is not a quantity of the table", key.0)));
            }
            if seen.insert(key.clone(), reading.count).is_some() {
                return Err(Violation(format!("{key:?} stands twice in one reading")));
            }
            let back = |from: &u64| reading.quantity.growth != Growth::Level && reading.count + 100 < *from;
            if last.get(&key).is_some_and(back) {
                return Err(Violation(format!("{key:?} went back to {}", reading.count)));
            }
        }
        last = seen;
    }
    observer.stop();
    observer.start().map_err(|absence| format!("it cannot be started again: {absence}"))?;
    observer.stop();
    observer.stop();
    Ok(Passed::Reads(values))
}
