//! Results as a format's reader finds them, value by value: each is put to its series by a map, and all of them are limited.

use crate::result::{Damage, Imported, Measured, Metric, Place};
use std::collections::{BTreeMap, HashMap};

/// Most values of a file.
pub const MOST_VALUES: usize = 2_000_000;
/// Most series of a file: metrics of benchmarks.
pub const MOST_SERIES: usize = 100_000;
/// Bytes of the names of all benchmarks of a file.
const MOST_NAMES: usize = 16 << 20;
/// Notes that are kept; others are counted.
const MOST_NOTES: usize = 20;

/// What a log's reader says of its file.
const OPEN_ENDED: &str = "the format has no end mark: whether the file is complete is unknown";

/// The first second that a time in a file may be: 1990.
const EARLIEST_S: u64 = 631_152_000;
const DAY_S: u64 = 86_400;

/// What a reader has found.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) program: String,
    pub(crate) host: Option<String>,
    pub(crate) cpus: Option<u64>,
    pub(crate) unix_s: Option<u64>,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) free_names: bool,
    /// Whether a file that was cut off at the end of a line looks whole.
    pub(crate) open_ended: bool,
    notes: Vec<String>,
    more_notes: usize,
    series: Vec<Series>,
    /// The series of each benchmark: a few metrics.
    by_name: HashMap<String, Vec<usize>>,
    values: usize,
    names: usize,
    /// Series that were compared with what was added: the work of adding.
    #[cfg(test)]
    compared: u64,
}

#[derive(Debug)]
struct Series {
    of: Measured,
    zeros: u64,
}

impl Results {
    /// What the program `program` measured: nothing yet.
    pub(crate) fn of(program: impl Into<String>) -> Results {
        Results { program: program.into(), ..Results::default() }
    }

    /// The same of a log or table without an end mark.
    pub(crate) fn of_log(program: &str) -> Results {
        Results { open_ended: true, ..Results::of(program) }
    }

    /// Adds values. A value of 0 has no logarithm and is left out, which a note says.
    pub(crate) fn add(
        &mut self,
        benchmark: &str,
        metric: &Metric,
        values: impl IntoIterator<Item = f64>,
    ) -> Result<(), Damage> {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let at = self.series_of(benchmark, metric)?;
        for value in values {
            if !value.is_finite() || value < 0.0 {
                let what = format!("{} {benchmark}: {value} is not a positive number", metric.key);
                return Err(Damage::at(Place::Whole, what));
            }
            let series = &mut self.series[at];
            match value == 0.0 {
                true => series.zeros += 1,
                false => series.of.values.push(value),
            }
            self.values += 1;
            if self.values > MOST_VALUES {
                return Err(too_many(&format!("{MOST_VALUES} values")));
            }
        }
        Ok(())
    }

    /// Adds one value, if the file has it.
    pub(crate) fn add_one(&mut self, benchmark: &str, metric: &Metric, value: Option<f64>) -> Result<(), Damage> {
        self.add(benchmark, metric, value)
    }

    /// The place of a series, which is made when it is new.
    fn series_of(&mut self, benchmark: &str, metric: &Metric) -> Result<usize, Damage> {
        let own = self.by_name.get(benchmark).map_or(&[][..], Vec::as_slice);
        for &at in own {
            #[cfg(test)]
            {
                self.compared += 1;
            }
            if self.series[at].of.metric == *metric {
                return Ok(at);
            }
        }
        let at = self.series.len();
        if at >= MOST_SERIES {
            return Err(too_many(&format!("{MOST_SERIES} metrics of benchmarks")));
        }
        self.names += benchmark.len();
        if self.names > MOST_NAMES {
            return Err(too_many(&format!("{} MiB of names of benchmarks", MOST_NAMES >> 20)));
        }
        self.by_name.entry(benchmark.to_owned()).or_default().push(at);
        let of = Measured { benchmark: benchmark.to_owned(), metric: metric.clone(), values: Vec::new() };
        self.series.push(Series { of, zeros: 0 });
        Ok(at)
    }

    /// Sets a parameter, if the file has it.
    pub(crate) fn parameter(&mut self, key: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.parameters.insert(key.to_owned(), value.to_string());
        }
    }

    /// Adds a note, once.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if self.notes.len() >= MOST_NOTES {
            self.more_notes += 1;
        } else if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// What was read in all; `last_line` is the file's. A time that nobody can have measured at is left out.
    pub(crate) fn finished(
        mut self,
        format: &'static str,
        last_line: u64,
        now_unix_s: u64,
    ) -> Result<Imported, Damage> {
        let series = std::mem::take(&mut self.series);
        for Series { of, zeros } in series.iter().filter(|series| series.zeros > 0) {
            let of_benchmark = if of.benchmark.is_empty() { String::new() } else { format!(" of {}", of.benchmark) };
            self.note(format!("{zeros} values of {}{of_benchmark} are 0 and left out", of.metric.key));
        }
        let measured: Vec<Measured> =
            series.into_iter().map(|series| series.of).filter(|of| !of.values.is_empty()).collect();
        if measured.is_empty() {
            let notes = if self.notes.is_empty() { String::new() } else { format!(" ({})", self.notes.join("; ")) };
            return Err(Damage::at(Place::Line(last_line), format!("the file ends without a result{notes}")));
        }
        let believed = EARLIEST_S..=now_unix_s.saturating_add(DAY_S);
        if let Some(wrong) = self.unix_s.take_if(|unix_s| !believed.contains(unix_s)) {
            self.note(format!(
                "the file's time ({wrong} s since 1970) is before 1990 or in the future, and is left out"
            ));
        }
        if self.open_ended {
            self.note(OPEN_ENDED);
        }
        if self.more_notes > 0 {
            self.notes.push(format!("and {} more notes", self.more_notes));
        }
        Ok(Imported {
            format,
            program: self.program,
            host: self.host,
            cpus: self.cpus,
            unix_s: self.unix_s,
            parameters: self.parameters,
            free_names: self.free_names,
            measured,
            notes: self.notes,
        })
    }
}

fn too_many(what: &str) -> Damage {
    Damage::at(Place::Whole, format!("the file has more than {what}; import a part of it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before, each value was compared with every series: 5,000,000,000 comparisons for 100,000 benchmarks.
    #[test]
    fn the_work_of_adding_grows_with_the_number_of_values_alone() {
        let seconds = Metric::lower("seconds", "s");
        let mut results = Results::of("x");
        for round in 0..3 {
            for benchmark in 0..MOST_SERIES {
                results.add(&benchmark.to_string(), &seconds, [1.0]).expect("within the limits");
            }
            assert_eq!(results.compared, (round * MOST_SERIES) as u64);
        }
        assert_eq!(results.series.len(), MOST_SERIES);
        let why = results.add("one more", &seconds, [1.0]).expect_err("too many").to_string();
        assert_eq!(why, "the file has more than 100000 metrics of benchmarks; import a part of it");
    }

    #[test]
    fn values_names_and_notes_are_limited() {
        let seconds = Metric::lower("seconds", "s");
        let mut results = Results::of("x");
        results.add("", &seconds, (0..MOST_VALUES).map(|_| 1.0)).expect("within the limits");
        let why = results.add("", &seconds, [1.0]).expect_err("too many").to_string();
        assert_eq!(why, "the file has more than 2000000 values; import a part of it");
        let name = |at: usize| format!("{at}{}", "x".repeat(1 << 20));
        let mut results = Results::of("x");
        let why = (0..17).find_map(|at| results.add(&name(at), &seconds, [1.0]).err()).expect("too many").to_string();
        assert_eq!(why, "the file has more than 16 MiB of names of benchmarks; import a part of it");
        let mut results = Results::of("x");
        for at in 0..100 {
            results.add(&at.to_string(), &seconds, [0.0, 1.0]).expect("within the limits");
        }
        let finished = results.finished("csv", 1, 0).expect("results");
        assert_eq!((finished.notes.len(), finished.notes[20].as_str()), (21, "and 80 more notes"));
        assert_eq!(finished.notes[0], "1 values of seconds of 0 are 0 and left out");
    }

    #[test]
    fn a_time_that_cannot_be_is_left_out() {
        const NOW: u64 = 1_800_000_000;
        for (unix_s, kept) in [
            (0, false),
            (EARLIEST_S - 1, false),
            (EARLIEST_S, true),
            (NOW + DAY_S, true),
            (NOW + DAY_S + 1, false),
            (u64::MAX, false),
        ] {
            let mut results = Results { unix_s: Some(unix_s), ..Results::of("x") };
            results.add("", &Metric::lower("seconds", "s"), [1.0]).expect("a value");
            let finished = results.finished("fio", 1, NOW).expect("results");
            assert_eq!(finished.unix_s, kept.then_some(unix_s));
            assert_eq!(finished.notes.len(), usize::from(!kept), "{:?}", finished.notes);
        }
    }
}
