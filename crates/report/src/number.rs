//! Numbers as a reader may trust them: digits by the width of the interval.
//!
//! In tables a half-width is shown with two significant digits and the estimate to the same decimal. In sentences the rule
//! of the Particle Data Group is followed (Review of Particle Physics, section 5.3): a half-width whose leading digits
//! are above 35 supports one digit, others two. Without an interval, three significant digits are shown.

use std::fmt::Write;

/// How many digits of a half-width are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digits {
    /// Two, always: tables.
    Two,
    /// One or two, by the rule of the Particle Data Group: sentences.
    Plain,
}

/// Decimals to which a value with this half-width is shown; negative means tens, hundreds, ...
pub(crate) fn decimals(half_width: f64, digits: Digits) -> Option<i32> {
    if !half_width.is_finite() || half_width <= 0.0 {
        return None;
    }
    let (leading, exponent) = scientific(half_width, 1)?;
    match digits {
        Digits::Plain if leading > 3.54 => Some(-exponent),
        _ => Some(1 - exponent),
    }
}

/// Decimals for a ratio and its interval, all in `unit`s (100 for percent): by the half-width, at least whole percents, in which verdicts are
/// (0.3 - 1.2 next to "25 % faster" would be two roundings of one number), and one or two more where rounding would put a limit on 1 that is
/// not there, because then the interval would contradict its verdict.
pub(crate) fn ratio_decimals(ratio: f64, interval: Option<(f64, f64)>, unit: f64, digits: Digits) -> i32 {
    let by_width = interval.and_then(|(lo, hi)| decimals((hi - lo) / 2.0 * unit, digits));
    let (Some(places), Some((lo, hi))) = (by_width, interval) else { return three_digits(ratio * unit) };
    let whole_percents = 2 - scientific(unit, 0).map_or(0, |(_, exponent)| exponent);
    let places = if lo < 10.0 { places.max(whole_percents) } else { places };
    let one = |places| fixed(unit, places);
    let misleads = |places| [lo, hi].iter().any(|&x| (x - 1.0).abs() > 1e-9 && fixed(x * unit, places) == one(places));
    (places..places + 3).find(|&places| !misleads(places)).unwrap_or(places)
}

/// Decimals that show three significant digits of `value`.
pub(crate) fn three_digits(value: f64) -> i32 {
    scientific(value.abs(), 2).map_or(0, |(_, exponent)| 2 - exponent)
}

/// A value with three significant digits.
pub(crate) fn rounded(value: f64) -> String {
    fixed(value, three_digits(value))
}

/// Mantissa and decimal exponent of a positive value, rounded to `places` after the point first, so that 0.0996 is 1.0e-1.
fn scientific(value: f64, places: usize) -> Option<(f64, i32)> {
    let text = format!("{value:.places$e}");
    let (mantissa, exponent) = text.split_once('e')?;
    Some((mantissa.parse().ok()?, exponent.parse().ok()?))
}

/// `value` to `decimals`; those below zero round before the point.
pub(crate) fn fixed(value: f64, decimals: i32) -> String {
    let text = match usize::try_from(decimals) {
        Ok(places) => format!("{value:.places$}"),
        Err(_) => {
            let unit = 10_f64.powi(-decimals);
            format!("{:.0}", (value / unit).round() * unit)
        }
    };
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| matches!(c, '0' | '.')) => zero.to_owned(),
        _ => text,
    }
}

/// The share of the longer side of an interval from which on the shorter one is as good as it: below, half of the interval says neither.
const SKEWED: f64 = 2.0 / 3.0;
/// Ends that are a power of ten apart have digits of their own.
const FAR_APART: f64 = 10.0;

/// Whether an interval lies unevenly about its estimate, so that it is shown by its ends.
#[must_use]
pub fn is_skewed(value: f64, lo: f64, hi: f64) -> bool {
    let (below, above) = (value - lo, hi - value);
    let (less, more) = (below.min(above), below.max(above));
    more > 1e-9 * value.abs() && less < SKEWED * more
}

/// An estimate with its half-width, `0.01561 ± 0.00015`; with an interval that is skewed, `1.0 (0.8 - 6.1)`; far from one,
/// `(1.234 ± 0.012)e-7`.
#[must_use]
pub fn estimate(value: f64, lo: Option<f64>, hi: Option<f64>) -> String {
    if !value.is_finite() {
        return "no number".to_owned();
    }
    if let Some((lo, hi)) = lo.zip(hi).filter(|(lo, hi)| lo.is_finite() && hi.is_finite() && is_skewed(value, *lo, *hi))
    {
        return format!("{} ({})", skewed(value, lo, hi), range(lo, hi, value));
    }
    let half_width = lo.zip(hi).map(|(lo, hi)| (hi - lo) / 2.0).filter(|half| half.is_finite());
    let exponent = scientific(value.abs(), 2).map_or(0, |(_, exponent)| exponent);
    if value != 0.0 && !(-4..=8).contains(&exponent) {
        let scale = 10_f64.powi(exponent);
        let inner = with_half_width(value / scale, half_width.map(|half| half / scale));
        return if half_width.is_some() { format!("({inner})e{exponent}") } else { format!("{inner}e{exponent}") };
    }
    with_half_width(value, half_width)
}

/// The ends of an interval about a value: `0.8 - 6.1`.
pub(crate) fn range(lo: f64, hi: f64, value: f64) -> String {
    format!("{} - {}", shown(lo, lo, hi, value), shown(hi, lo, hi, value))
}

fn skewed(value: f64, lo: f64, hi: f64) -> String {
    shown(value, lo, hi, value)
}

/// One of the three numbers of an interval: to the decimal that its shorter side supports, or where the ends are far apart, each with two
/// digits of its own.
fn shown(one: f64, lo: f64, hi: f64, value: f64) -> String {
    let exponent = |of: f64| scientific(of.abs(), 1).map_or(0, |(_, exponent)| exponent);
    let places = match () {
        () if one == 0.0 => 0,
        () if lo > 0.0 && hi / lo >= FAR_APART => 1 - exponent(one),
        () => {
            let (below, above) = (value - lo, hi - value);
            // A side without length says nothing; neither does one that is lost in the other.
            let side = below.min(above).max(0.1 * below.max(above));
            decimals(side, Digits::Plain).unwrap_or_else(|| three_digits(one))
        }
    };
    if !(-4..=8).contains(&exponent(one)) && one != 0.0 {
        return format!("{one:.1e}");
    }
    fixed(one, places)
}

fn with_half_width(value: f64, half_width: Option<f64>) -> String {
    match half_width {
        None => rounded(value),
        // What differs in the last digits of a float alone was the same every time.
        Some(half) => match decimals(half, Digits::Two).filter(|_| half > 1e-9 * value.abs()) {
            Some(places) => format!("{} ± {}", fixed(value, places), fixed(half, places)),
            // A count that was the same every time: 2 users, no packet.
            None if value.fract() == 0.0 => format!("{} ± 0", fixed(value, 0)),
            None => format!("{} ± 0", trimmed(value)),
        },
    }
}

/// A value that was the same every time: six significant digits, without zeros at the end.
pub(crate) fn trimmed(value: f64) -> String {
    let text = fixed(value, (three_digits(value) + 3).max(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A share as a percentage with two significant digits, and whole percents above: `1.4 %`, `0.084 %`, `12 %`, `138 %`.
pub(crate) fn percent(share: f64) -> String {
    match decimals(share.abs() * 100.0, Digits::Two) {
        Some(places) => format!("{} %", fixed(share * 100.0, places.max(0))),
        None => "0 %".to_owned(),
    }
}

/// A count with its noun: `1 trial`, `3 trials`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A duration for people: `850 ms`, `41 s`, `2 min 51 s`, `3 h 5 min`.
pub(crate) fn duration(nanoseconds: u64) -> String {
    let milliseconds = nanoseconds / 1_000_000;
    let seconds = (milliseconds + 500) / 1000;
    let mut text = String::new();
    let done = match seconds {
        0 => write!(text, "{milliseconds} ms"),
        1..100 => write!(text, "{seconds} s"),
        100..3600 if seconds.is_multiple_of(60) => write!(text, "{} min", seconds / 60),
        100..3600 => write!(text, "{} min {} s", seconds / 60, seconds % 60),
        _ => write!(text, "{} h {} min", seconds / 3600, seconds % 3600 / 60),
    };
    debug_assert!(done.is_ok(), "a string takes everything");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_the_half_width() {
        let shown = |value: f64, half: f64| estimate(value, Some(value - half), Some(value + half));
        assert_eq!(shown(0.015_612_3, 0.000_151), "0.01561 ± 0.00015");
        assert_eq!(shown(20473.4, 231.0), "20470 ± 230");
        assert_eq!(shown(1.0, 0.099_6), "1.00 ± 0.10", "rounded before digits are counted");
        assert_eq!(shown(37.04, 12.0), "37 ± 12");
        assert_eq!(shown(1.234_5e-7, 1.2e-9), "(1.235 ± 0.012)e-7");
        assert_eq!([shown(3.0, 0.0), shown(0.0, 0.0), shown(3.5, 0.0)], ["3 ± 0", "0 ± 0", "3.5 ± 0"]);
        assert_eq!(shown(3.130_000_000_000_000_3, 1.3e-15), "3.13 ± 0");
        assert_eq!(shown(0.85, 0.0), "0.85 ± 0");
        assert_eq!(shown(-0.001, 1.0), "0.0 ± 1.0");
        assert_eq!(estimate(0.015_61, None, None), "0.0156");
        assert_eq!(estimate(3.98e-7, None, None), "3.98e-7");
        assert_eq!(estimate(20473.0, None, Some(1.0)), "20500");
        assert_eq!(estimate(f64::NAN, None, None), "no number");
        assert_eq!(estimate(0.0, None, None), "0.00");
    }

    /// As printed: 1.0 ± 2.7 for 0.8 to 6.1, and 45 ± 88 % for 5.8 to 181.7.
    #[test]
    fn a_skewed_interval_is_shown_by_its_ends() {
        let shown = |value, lo, hi| estimate(value, Some(lo), Some(hi));
        assert_eq!(shown(1.0, 0.8, 6.1), "1.0 (0.8 - 6.1)");
        assert_eq!(shown(45.0, 5.8, 181.7), "45 (5.8 - 180)");
        assert_eq!(shown(23.9, 8.2, 67.9), "24 (8 - 68)");
        assert_eq!(shown(0.002, 0.0003, 0.0072), "0.0020 (0.00030 - 0.0072)");
        assert_eq!(shown(40.0, 0.0, 510.0), "40 (0 - 510)");
        assert_eq!(shown(1.0, 0.9, 1.11), "1.00 ± 0.11", "nearly even");
        assert_eq!(shown(5.0, 5.0, 5.0), "5 ± 0");
        assert_eq!(shown(3e-7, 1e-7, 9e-7), "3.0e-7 (1.0e-7 - 9.0e-7)");
        assert!(is_skewed(1.0, 0.8, 6.1) && !is_skewed(1.0, 0.9, 1.11));
    }

    #[test]
    fn sentences_show_one_digit_where_two_would_be_noise() {
        assert_eq!(decimals(0.85, Digits::Plain), Some(1));
        assert_eq!(decimals(0.85, Digits::Two), Some(2));
        assert_eq!(decimals(0.35, Digits::Plain), Some(2));
        assert_eq!(decimals(0.097, Digits::Plain), Some(2));
        assert_eq!(decimals(0.0, Digits::Two), None);
        assert_eq!(decimals(f64::INFINITY, Digits::Two), None);
    }

    #[test]
    fn a_limit_that_is_not_1_is_never_shown_as_1() {
        let places = |lo, hi| ratio_decimals(0.9938, Some((lo, hi)), 100.0, Digits::Plain);
        assert_eq!(places(0.9881, 0.9985), 1);
        assert_eq!(places(0.9881, 0.9996), 2, "99.96, not 100.0");
        assert_eq!(places(0.9881, 0.999_996), 1, "nothing short would tell");
        assert_eq!(ratio_decimals(0.9938, None, 1.0, Digits::Two), 3);
        assert_eq!(ratio_decimals(0.7, Some((0.31, 1.25)), 1.0, Digits::Plain), 2, "the verdict says 25 %");
        assert_eq!(ratio_decimals(0.7, Some((0.31, 1.25)), 100.0, Digits::Plain), 0);
        assert_eq!(ratio_decimals(176.0, Some((120.0, 250.0)), 1.0, Digits::Plain), -1);
    }

    #[test]
    fn shares_and_durations_are_for_people() {
        assert_eq!([0.0141, 0.00084, 0.123, 0.0].map(percent), ["1.4 %", "0.084 %", "12 %", "0 %"]);
        assert_eq!([1.138, 1.376].map(percent), ["114 %", "138 %"], "beside a ratio of 2.138 no 110 %");
        let times = [850_000_000, 41_000_000_000, 171_000_000_000, 11_100_000_000_000, 999_900_000, 400_000];
        assert_eq!(times.map(duration), ["1 s", "41 s", "2 min 51 s", "3 h 5 min", "1 s", "0 ms"]);
        assert_eq!(duration(499_000_000), "499 ms");
    }
}
