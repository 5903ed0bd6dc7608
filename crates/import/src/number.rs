//! Numbers as programs print them for people, with their units.

use crate::result::{Damage, Place};

/// The number with which `text` begins, on line `line`, of the quantity `what`.
pub(crate) fn leading(text: &str, line: u64, what: &str) -> Result<f64, Damage> {
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E'))).unwrap_or(text.len());
    let wrong = || Damage::at(Place::Line(line), format!("'{text}' behind '{what}' is not a number"));
    // A unit such as `us` or `events` may follow without a blank; an `e` may be its first letter.
    let digits = text[..end].trim_end_matches(['e', 'E', '+', '-']);
    digits.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(wrong)
}

/// A time such as `1.25ms` in milliseconds.
pub(crate) fn milliseconds(text: &str, line: u64, what: &str) -> Result<f64, Damage> {
    let value = leading(text, line, what)?;
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim();
    let factor = match unit {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        "h" => 3600e3,
        _ => return Err(Damage::at(Place::Line(line), format!("'{text}' behind '{what}' is not a time"))),
    };
    Ok(value * factor)
}
