//! The points of a series, never more than can be kept: when they are too many, two become one.

use baremark_model::observation::{Series, Values};
use std::collections::BTreeMap;
use std::time::Duration;

/// Points that one trial keeps of each quantity.
const MOST: usize = 1800;

/// Points that grow.
#[derive(Debug, Default)]
pub(crate) struct Points {
    at_s: Vec<f64>,
    values: BTreeMap<String, Vec<Option<f64>>>,
    halvings: u32,
}

impl Points {
    /// Adds the point that ends at `at_s`.
    pub(crate) fn add(&mut self, at_s: f64, rates: &Values) {
        let before = self.at_s.len();
        self.at_s.push(at_s);
        for (key, rate) in rates {
            let points = self.values.entry(key.clone()).or_insert_with(|| vec![None; before]);
            points.push(Some(rounded(*rate)));
        }
        self.values.values_mut().for_each(|points| points.resize(before + 1, None));
        if self.at_s.len() >= MOST {
            self.halve();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.at_s.len()
    }

    /// By how much longer than the interval requested a point is now.
    pub(crate) fn stretch(&self) -> u32 {
        1 << self.halvings.min(20)
    }

    fn halve(&mut self) {
        self.at_s = self.at_s.chunks(2).filter_map(|pair| pair.last().copied()).collect();
        for points in self.values.values_mut() {
            *points = points.chunks(2).map(mean).collect();
        }
        self.halvings += 1;
    }

    /// The series, without quantities of instances in which nothing happened.
    pub(crate) fn series(self, interval: Duration) -> Series {
        let stretched = interval * self.stretch();
        let happened = |key: &str, points: &[Option<f64>]| {
            !key.contains(':') || points.iter().flatten().any(|value| *value != 0.0)
        };
        Series {
            interval_ns: u64::try_from(stretched.as_nanos()).unwrap_or(u64::MAX),
            at_s: self.at_s,
            values: self.values.into_iter().filter(|(key, points)| happened(key, points)).collect(),
        }
    }
}

/// The mean of those that are there.
#[expect(clippy::cast_precision_loss, reason = "one or two values")]
fn mean(values: &[Option<f64>]) -> Option<f64> {
    let there: Vec<f64> = values.iter().flatten().copied().collect();
    (!there.is_empty()).then(|| there.iter().sum::<f64>() / there.len() as f64)
}

/// Five digits: more is noise, and takes room in every record.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let unit = 10_f64.powf(value.abs().log10().floor() - 4.0);
    let whole = (value / unit).round();
    // Dividing by a power of ten gives the nearest number; multiplying by a fraction leaves a tail of digits.
    if unit < 1.0 { whole / (1.0 / unit).round() } else { whole * unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(rows: &[(&str, f64)]) -> Values {
        rows.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
    }

    #[test]
    fn a_quantity_that_comes_late_or_goes_early_has_holes() {
        let mut points = Points::default();
        points.add(1.0, &rates(&[("a", 1.0)]));
        points.add(2.0, &rates(&[("a", 2.0), ("b:x", 5.0), ("c:x", 0.0)]));
        points.add(3.0, &rates(&[("b:x", 6.0)]));
        let series = points.series(Duration::from_secs(1));
        assert_eq!(series.values["a"], [Some(1.0), Some(2.0), None]);
        assert_eq!(series.values["b:x"], [None, Some(5.0), Some(6.0)]);
        assert!(!series.values.contains_key("c:x"), "nothing happened there");
    }

    #[test]
    fn points_stay_few_and_keep_their_mean_however_long_it_lasts() {
        let mut points = Points::default();
        let mut second = 0;
        while second < 20_000 {
            second += points.stretch();
            let rate = if points.stretch() == 1 { f64::from(second % 2) } else { 0.5 };
            points.add(f64::from(second), &rates(&[("a", rate)]));
        }
        assert!(points.len() < MOST);
        assert_eq!(points.stretch(), 16);
        let series = points.series(Duration::from_secs(1));
        assert_eq!(series.interval_ns, 16_000_000_000);
        assert_eq!(series.at_s.len(), series.values["a"].len());
        assert!(series.values["a"][..500].iter().all(|value| *value == Some(0.5)));
    }

    #[test]
    fn values_keep_five_digits() {
        for (value, kept) in [(1234.5678, "1234.6"), (0.001_234_567_8, "0.0012346"), (123_456_789.0, "123460000")] {
            assert_eq!(rounded(value).to_string(), kept);
        }
        for (value, kept) in [(f64::NAN, "0"), (f64::INFINITY, "0"), (-1.000_004, "-1"), (0.0, "0")] {
            assert_eq!(rounded(value).to_string(), kept);
        }
    }
}
