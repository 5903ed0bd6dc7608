//! Durations as people type them: `500ms`, `30s`, `2 min`, `12h`.

use std::time::Duration;

/// A duration with its unit.
///
/// # Errors
/// What is wrong with the text and what would be right.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("`{text}` is not a duration; write 500ms, 30s, 2min or 12h, for example");
    let number: f64 = number.parse().map_err(|why| format!("{}: {why}", wrong()))?;
    let seconds = match unit.trim() {
        "ms" => number / 1e3,
        "s" => number,
        "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|why| format!("{}: {why}", wrong()))
}

/// Whole milliseconds, at most `i64::MAX`.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds since 1970 by this machine's clock.
pub(crate) fn now_ms() -> i64 {
    millis(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default())
}

/// Nanoseconds since 1970 by this machine's clock.
pub(crate) fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn durations_carry_their_unit() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("2 min"), Ok(Duration::from_secs(120)));
        assert!(parse("30").unwrap_err().contains("500ms, 30s"));
        assert!(parse("-1s").is_err());
        assert!(parse("1e400h").is_err());
    }
}
