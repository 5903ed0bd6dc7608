//! Numbers out of what a program wrote: by regular expression or JSON pointer.

use baremark_model::value::{Finder, Reading, Take};
use regex_lite::Regex;
use serde_json::Value;
use std::io;

/// Why a program's output has no value of a metric.
#[derive(Debug, thiserror::Error)]
pub enum ReadingError {
    /// A file that it writes cannot be read.
    #[error("its file {name}: {source}")]
    File {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A file that it writes is longer than output may be.
    #[error("its file {name} has more than {limit} bytes")]
    TooLong {
        /// Its name.
        name: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The expression by which a number is found is none.
    #[error("'{regex}' is not a regular expression: {source}")]
    Regex {
        /// The expression.
        regex: String,
        /// Why.
        source: regex_lite::Error,
    },
    /// Something else stands where a number is expected: its beginning.
    #[error("'{0}' must be a number")]
    NotANumber(String),
    /// There is nothing that could be JSON: the text's beginning.
    #[error("there is no JSON in '{0}'")]
    NoJson(String),
    /// What begins as JSON is none.
    #[error("its JSON cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// There is no value where JSON begins.
    #[error("its JSON ends before it begins")]
    NoValue,
    /// There are more numbers than one, of which none is said to count.
    #[error("it stands there {0} times; say by 'take' which counts")]
    Several(usize),
}

/// The value of a metric in `text`, in the metric's unit; `None` where it is nowhere.
///
/// # Errors
/// What is there instead of one number.
pub fn value(reading: &Reading, text: &str) -> Result<Option<f64>, ReadingError> {
    let found = match &reading.finder {
        Finder::Regex(regex) => by_regex(regex, text)?,
        Finder::Json(pointer) => by_pointer(pointer, text)?,
    };
    Ok(taken(reading.take, &found)?.map(|value| value * reading.scale))
}

fn by_regex(regex: &str, text: &str) -> Result<Vec<f64>, ReadingError> {
    let regex = Regex::new(regex).map_err(|source| ReadingError::Regex { regex: regex.to_owned(), source })?;
    let found = regex.captures_iter(text).filter_map(|captures| captures.name("value").map(|group| group.as_str()));
    found.map(number).collect()
}

fn number(text: &str) -> Result<f64, ReadingError> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(ReadingError::NotANumber(shortened(text))),
    }
}

fn by_pointer(pointer: &str, text: &str) -> Result<Vec<f64>, ReadingError> {
    // Some programs say a word before or after their JSON.
    let start = text.find(['{', '[']).ok_or_else(|| ReadingError::NoJson(shortened(text)))?;
    let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let document = match stream.next() {
        Some(document) => document?,
        None => return Err(ReadingError::NoValue),
    };
    let mut found = vec![&document];
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        found = found.into_iter().flat_map(|value| members(value, &token)).collect();
    }
    let number_of = |value: &Value| match value {
        Value::String(text) => number(text),
        other => other.as_f64().ok_or_else(|| ReadingError::NotANumber(shortened(&other.to_string()))),
    };
    found.into_iter().map(number_of).collect()
}

fn members<'v>(value: &'v Value, token: &str) -> Vec<&'v Value> {
    match value {
        Value::Array(list) if token == "*" => list.iter().collect(),
        Value::Object(map) if token == "*" && !map.contains_key("*") => map.values().collect(),
        Value::Array(list) => token.parse::<usize>().ok().and_then(|index| list.get(index)).into_iter().collect(),
        Value::Object(map) => map.get(token).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn taken(take: Take, found: &[f64]) -> Result<Option<f64>, ReadingError> {
    let (Some(first), Some(last)) = (found.first(), found.last()) else { return Ok(None) };
    #[expect(clippy::cast_precision_loss, reason = "a count of matches")]
    let count = found.len() as f64;
    Ok(Some(match take {
        Take::Only if found.len() > 1 => return Err(ReadingError::Several(found.len())),
        Take::Only | Take::First => *first,
        Take::Last => *last,
        Take::Sum => found.iter().sum(),
        Take::Mean => found.iter().sum::<f64>() / count,
        Take::Least => found.iter().copied().fold(f64::INFINITY, f64::min),
        Take::Most => found.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }))
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 80;
    let end = text.floor_char_boundary(LONGEST);
    if end < text.len() { format!("{} ...", &text[..end]) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::metric::Better;

    fn read(finder: Finder, take: Take, scale: f64, text: &str) -> Result<Option<f64>, String> {
        let reading = Reading {
            key: "rate".to_owned(),
            unit: "1/s".to_owned(),
            better: Better::Higher,
            help: String::new(),
            from: "stdout".to_owned(),
            finder,
            take,
            scale,
            per: String::new(),
            optional: false,
        };
        value(&reading, text).map_err(|why| why.to_string())
    }

    fn regex(take: Take, text: &str) -> Result<Option<f64>, String> {
        read(Finder::Regex(r"rate:\s+(?<value>\S+)".to_owned()), take, 1.0, text)
    }

    #[test]
    fn a_number_is_found_by_its_words() {
        assert_eq!(regex(Take::Only, "x\nrate:   12.5 /s\n"), Ok(Some(12.5)));
        assert_eq!(regex(Take::Only, "rate: 1e3"), Ok(Some(1000.0)));
        assert_eq!(regex(Take::Only, "nothing"), Ok(None));
        assert_eq!(regex(Take::Only, "rate: fast"), Err("'fast' must be a number".to_owned()));
        assert_eq!(regex(Take::Only, "rate: nan"), Err("'nan' must be a number".to_owned()));
    }

    #[test]
    fn of_several_the_one_that_is_asked_for_counts() {
        let text = "rate: 1 rate: 5 rate: 3";
        assert!(regex(Take::Only, text).is_err_and(|why| why.contains("3 times")));
        let all = [Take::First, Take::Last, Take::Sum, Take::Mean, Take::Least, Take::Most];
        for (take, expected) in all.into_iter().zip([1.0, 3.0, 9.0, 3.0, 1.0, 5.0]) {
            assert_eq!(regex(take, text), Ok(Some(expected)), "{take:?}");
        }
    }

    #[test]
    fn a_number_is_found_by_its_pointer() {
        let json = |pointer: &str, take, text| read(Finder::Json(pointer.to_owned()), take, 1e-3, text);
        let text =
            "fio: a word before\n{\"jobs\": [{\"iops\": 1500, \"p\": {\"99.9\": \"2e3\"}}, {\"iops\": 500}]} after";
        assert_eq!(json("/jobs/0/iops", Take::Only, text), Ok(Some(1.5)));
        assert_eq!(json("/jobs/0/p/99.9", Take::Only, text), Ok(Some(2.0)));
        assert_eq!(json("/jobs/*/iops", Take::Sum, text), Ok(Some(2.0)));
        assert_eq!(json("/jobs/7/iops", Take::Only, text), Ok(None));
        assert!(json("/jobs/0", Take::Only, text).is_err_and(|why| why.ends_with("must be a number")));
        assert!(json("/a", Take::Only, "{\"a\": ").is_err_and(|why| why.contains("cannot be read")));
        assert!(json("/a", Take::Only, "garbage").is_err_and(|why| why.contains("no JSON")));
    }
}
