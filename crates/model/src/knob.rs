//! Knobs: rows of a table of keys that a study may set, and the way from a typed TOML value to a checked [`Value`] by them.

use crate::literal::literal;
use crate::page_size::PageSize;
use crate::problem::{nearest, with_article};
use crate::units::{Bytes, Nanos, Share, UnitError};
use crate::value::Value;
use toml::de::DeValue;

/// What kind of value a knob takes, and its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number within `min..=max`.
    Count {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A size with its unit, within `min..=max` bytes.
    Size {
        /// The least, in bytes.
        min: u64,
        /// The most, in bytes.
        max: u64,
    },
    /// A duration with its unit, within `min..=max` nanoseconds.
    Time {
        /// The least, in nanoseconds.
        min: u64,
        /// The most, in nanoseconds.
        max: u64,
    },
    /// A percentage within `min..=max` (as fractions).
    Percent {
        /// The least, as a fraction.
        min: f64,
        /// The most, as a fraction.
        max: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A page size, `4k` or `2m`.
    Page,
    /// Free text.
    Text,
    /// `true` or `false`.
    Switch,
    /// A list of words, passed on unchanged.
    Words,
    /// A list of names; a text with commas between them is read, too.
    Names,
    /// Any value of TOML: that of a key of a workload's own section, which the workload checks.
    Literal,
}

/// A default, as a person would type it in a study file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// The study must say it.
    Required,
    /// Taken when the study does not say it.
    Typed(&'static str),
    /// Found from the machine or from other keys when the study does not say it; the text says how.
    Derived(&'static str),
}

/// One row of a table: a key that a study may set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// The key as typed.
    pub key: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What is taken when it is absent.
    pub default: Default,
    /// One sentence for people.
    pub help: &'static str,
}

/// Why a value does not fit its knob: what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct InvalidValue {
    /// What is wrong, naming the operand.
    pub what: String,
    /// What would be right.
    pub remedy: String,
    /// The parameter whose value alone is wrong, where that is known: what a study leaves open is then the machine's matter.
    pub key: Option<String>,
}

impl InvalidValue {
    /// What is wrong, and what would be right.
    #[must_use]
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> InvalidValue {
        InvalidValue { what: what.into(), remedy: remedy.into(), key: None }
    }
}

impl Knob {
    /// Reads one typed value.
    ///
    /// # Errors
    /// A [`InvalidValue`] when the type, the unit or the range is wrong.
    pub fn read(&self, typed: &DeValue<'_>) -> Result<Value, InvalidValue> {
        match (self.kind, typed) {
            (Kind::Count { .. }, DeValue::Integer(number)) => self.count(number),
            (Kind::Switch, DeValue::Boolean(on)) => Ok(Value::Switch(*on)),
            (Kind::Words | Kind::Names, DeValue::Array(words)) => self.words(words),
            (Kind::Literal, other) => Ok(Value::Literal(literal(other))),
            (Kind::Count { .. } | Kind::Switch | Kind::Words, other) => Err(self.wrong_type(other.type_str())),
            (_, DeValue::String(text)) => self.read_text(text),
            (_, other) => Err(self.wrong_type(other.type_str())),
        }
    }

    /// Reads a value typed as text: on a command line, or a default in a table.
    ///
    /// # Errors
    /// A [`InvalidValue`] when the unit or the range is wrong.
    pub fn read_text(&self, text: &str) -> Result<Value, InvalidValue> {
        match self.kind {
            Kind::Count { min, max } => match text.parse() {
                Ok(number) if (min..=max).contains(&number) => Ok(Value::Count(number)),
                _ => Err(self.out_of_range(text)),
            },
            Kind::Size { min, max } => match text.parse::<Bytes>() {
                Ok(size) if (min..=max).contains(&size.0) => Ok(Value::SizeBytes(size)),
                Ok(_) => Err(self.out_of_range(text)),
                Err(why) => Err(self.unreadable(&why)),
            },
            Kind::Time { min, max } => match text.parse::<Nanos>() {
                Ok(time) if (min..=max).contains(&time.0) => Ok(Value::TimeNs(time)),
                Ok(_) => Err(self.out_of_range(text)),
                Err(why) => Err(self.unreadable(&why)),
            },
            Kind::Percent { min, max } => match text.parse::<Share>() {
                Ok(share) if (min..=max).contains(&share.0) => Ok(Value::Share(share)),
                Ok(_) => Err(self.out_of_range(text)),
                Err(why) => Err(self.unreadable(&why)),
            },
            Kind::Choice(words) if words.contains(&text) => Ok(Value::Choice(text.to_owned())),
            Kind::Choice(words) => Err(self.unknown_word(text, words)),
            Kind::Page => match PageSize::from_label(text) {
                Some(page) => Ok(Value::Page(page)),
                None => Err(self.unknown_word(text, &["4k", "2m"])),
            },
            Kind::Text => Ok(Value::Text(text.to_owned())),
            Kind::Literal => Ok(Value::Literal(text.to_owned())),
            Kind::Words => Ok(Value::Words(text.split_whitespace().map(str::to_owned).collect())),
            Kind::Names => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                Ok(Value::Words(names.map(str::to_owned).collect()))
            }
            Kind::Switch => text.parse().map(Value::Switch).or(Err(self.unknown_word(text, &["true", "false"]))),
        }
    }

    /// What the knob takes, in words: "a size from 1 MiB to 1 TiB, such as \"512 MiB\"".
    #[must_use]
    pub fn takes(&self) -> String {
        match self.kind {
            Kind::Count { min, max } if max >= i64::MAX as u64 => format!("a whole number from {min}"),
            Kind::Count { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Size { min, max } => {
                let example = self.example("512 MiB", (min..=max).contains(&(512 << 20)), Bytes(min));
                format!("a size from {} to {}, such as \"{example}\"", Bytes(min), Bytes(max))
            }
            Kind::Time { min, max } => {
                let example = self.example("500 ms", (min..=max).contains(&500_000_000), Nanos(min));
                format!("a duration from {} to {}, such as \"{example}\"", Nanos(min), Nanos(max))
            }
            Kind::Percent { min, max } => {
                let example = self.example("2 %", (min..=max).contains(&0.02), Share(min));
                format!("a percentage from {} to {}, such as \"{example}\"", Share(min), Share(max))
            }
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Page => "a page size, \"4k\" or \"2m\"".to_owned(),
            Kind::Text => "text in quotation marks".to_owned(),
            Kind::Literal => "a value of TOML".to_owned(),
            Kind::Switch => "true or false".to_owned(),
            Kind::Words => "a list of texts, such as [\"one\", \"two\"]".to_owned(),
            Kind::Names => "a list of names, such as [\"cpu_s\", \"user_s\"]".to_owned(),
        }
    }

    /// An example that this knob takes: the usual one, else its default, else its least value.
    fn example(&self, usual: &str, in_range: bool, least: impl ToString) -> String {
        match self.default {
            _ if in_range => usual.to_owned(),
            Default::Typed(text) => text.to_owned(),
            _ => least.to_string(),
        }
    }

    fn words(&self, typed: &toml::de::DeArray<'_>) -> Result<Value, InvalidValue> {
        let word = |typed: &toml::Spanned<DeValue<'_>>| match typed.get_ref() {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            other => Err(self.wrong_type(&format!("list with {}", with_article(other.type_str())))),
        };
        typed.iter().map(word).collect::<Result<_, _>>().map(Value::Words)
    }

    fn count(&self, number: &toml::de::DeInteger<'_>) -> Result<Value, InvalidValue> {
        let text = number.as_str();
        match u64::from_str_radix(text, number.radix()) {
            Ok(value) => self.read_text(&value.to_string()),
            Err(_) => Err(self.out_of_range(text)),
        }
    }

    fn wrong_type(&self, found: &str) -> InvalidValue {
        InvalidValue::new(format!("'{}' is {}", self.key, with_article(found)), format!("write {}", self.takes()))
    }

    fn out_of_range(&self, text: &str) -> InvalidValue {
        InvalidValue::new(format!("{} = {text} is out of range", self.key), format!("write {}", self.takes()))
    }

    fn unreadable(&self, why: &UnitError) -> InvalidValue {
        let what = match why {
            UnitError::Range(text, _) => return self.out_of_range(text),
            UnitError::NoNumber(text, _) => format!("{} = '{text}' does not start with a number", self.key),
            UnitError::Unit { text, found, expected } => format!("{} = '{text}' has {found} ({expected})", self.key),
        };
        InvalidValue::new(what, format!("write {}", self.takes()))
    }

    fn unknown_word(&self, text: &str, words: &[&str]) -> InvalidValue {
        InvalidValue::new(format!("{} = '{text}' is not known", self.key), nearest(text, words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Knob =
        Knob { key: "table", kind: Kind::Size { min: 1 << 20, max: 1 << 40 }, default: Default::Required, help: "" };

    #[test]
    fn a_size_needs_its_unit() {
        let misfit = SIZE.read_text("512").expect_err("no unit");
        assert!(misfit.what.contains("has no unit"), "{misfit}");
        assert_eq!(SIZE.read_text("512 MiB"), Ok(Value::SizeBytes(Bytes(512 << 20))));
    }

    #[test]
    fn a_time_is_no_size() {
        let misfit = SIZE.read_text("3 min").expect_err("wrong unit");
        assert!(misfit.to_string().contains("unknown unit 'min'"), "{misfit}");
    }

    #[test]
    fn a_list_holds_texts_alone() {
        let knob = Knob { key: "arguments", kind: Kind::Words, default: Default::Derived("none"), help: "" };
        let read = |text: &str| {
            let typed = toml::de::DeTable::parse(text).expect("it is TOML");
            knob.read(typed.get_ref()["arguments"].get_ref())
        };
        let words = vec!["--qos=low".to_owned(), "two words".to_owned()];
        assert_eq!(read("arguments = ['--qos=low', 'two words']"), Ok(Value::Words(words)));
        let misfit = read("arguments = ['--nice', 3]").expect_err("a number is not a text");
        let right = "write a list of texts, such as [\"one\", \"two\"]";
        assert_eq!(misfit.to_string(), format!("'arguments' is a list with an integer; {right}"));
        let misfit = read("arguments = '--nice'").expect_err("a text is not a list");
        assert_eq!(misfit.to_string(), format!("'arguments' is a string; {right}"));
    }

    #[test]
    fn names_are_a_list_or_a_text_with_commas() {
        let knob = Knob { key: "also", kind: Kind::Names, default: Default::Derived("no other"), help: "" };
        let read = |text: &str| {
            let typed = toml::de::DeTable::parse(text).expect("it is TOML");
            knob.read(typed.get_ref()["also"].get_ref())
        };
        let names = Ok(Value::Words(vec!["cpu_s".to_owned(), "user_s".to_owned()]));
        assert_eq!([read("also = ['cpu_s', 'user_s']"), read("also = 'cpu_s, user_s'")], [names.clone(), names]);
        assert!(read("also = 3").expect_err("a number").to_string().contains("write a list of names"));
    }

    #[test]
    fn out_of_range_says_the_range() {
        let misfit = SIZE.read_text("1 KiB").expect_err("too small");
        assert_eq!(
            misfit.to_string(),
            "table = 1 KiB is out of range; write a size from 1 MiB to 1 TiB, such as \"512 MiB\""
        );
    }
}
