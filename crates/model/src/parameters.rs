//! An arm's parameters by their types: the one reader, by the rows of [`crate::descriptor`] that define them.
//!
//! A row's default holds where an arm does not set the parameter, so that no reader repeats it. What does not fit its row is
//! refused with what would be right, and never taken for a default: an arm may have come over the wire.

use crate::arm::ResolvedArm;
use crate::command::{EXITLESS, GUEST_PAGE, PREFAULT};
use crate::descriptor::{Descriptor, OwnSection};
use crate::knob::{Default, InvalidValue, Kind, Knob};
use crate::metric::{Aggregate, Better, Metric};
use crate::page_size::PageSize;
use crate::tables;
use crate::units::{Bytes, Nanos, Share};
use crate::value::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A type as which a parameter can be read.
pub trait Typed: Sized {
    /// The value as this type; `None` where its kind is another, or it is too large.
    fn typed(value: &Value) -> Option<Self>;
}

macro_rules! typed {
    ($($type:ty: $($pattern:pat => $taken:expr),+;)+) => {
        $(impl Typed for $type {
            fn typed(value: &Value) -> Option<Self> {
                match value {
                    $($pattern => $taken,)+
                    _ => None,
                }
            }
        })+
    };
}

typed! {
    u64: Value::Count(count) => Some(*count);
    u32: Value::Count(count) => u32::try_from(*count).ok();
    u16: Value::Count(count) => u16::try_from(*count).ok();
    i64: Value::Count(count) => i64::try_from(*count).ok();
    usize: Value::Count(count) => usize::try_from(*count).ok();
    bool: Value::Switch(on) => Some(*on);
    Bytes: Value::SizeBytes(size) => Some(*size);
    Nanos: Value::TimeNs(time) => Some(*time);
    Duration: Value::TimeNs(time) => Some(Duration::from_nanos(time.0));
    Share: Value::Share(share) => Some(*share);
    PageSize: Value::Page(page) => Some(*page);
    String: Value::Choice(text) | Value::Text(text) => Some(text.clone());
    PathBuf: Value::Choice(text) | Value::Text(text) => Some(PathBuf::from(text));
    Vec<String>: Value::Words(words) => Some(words.clone());
}

impl Knob {
    /// A row of a table of parameters; its help follows ([`Knob::help()`]).
    #[must_use]
    pub const fn new(key: &'static str, kind: Kind, default: Default) -> Knob {
        Knob { key, kind, default, help: "" }
    }

    /// The row with this help: one sentence for people.
    #[must_use]
    pub const fn help(self, help: &'static str) -> Knob {
        Knob { help, ..self }
    }

    /// What an arm sets this parameter to, or its default.
    ///
    /// # Errors
    /// When there is neither, or the value is of another kind.
    pub fn get<T: Typed>(&self, arm: &ResolvedArm) -> Result<T, InvalidValue> {
        self.find(arm)?.ok_or_else(|| self.refuse("not set"))
    }

    /// The same; `None` where the default is derived and the arm does not set the parameter.
    ///
    /// # Errors
    /// When the value is of another kind.
    pub fn find<T: Typed>(&self, arm: &ResolvedArm) -> Result<Option<T>, InvalidValue> {
        self.find_among(&arm.parameters)
    }

    /// The CPUs that this parameter lists, such as `0,2`; none where the arm does not set it.
    ///
    /// # Errors
    /// When it is not a list of numbers.
    pub fn cpus(&self, arm: &ResolvedArm) -> Result<Vec<usize>, InvalidValue> {
        let text = self.find::<String>(arm)?.unwrap_or_default();
        let number = |part: &str| part.trim().parse::<usize>().ok();
        let cpus: Option<Vec<usize>> = text.split(',').filter(|part| !part.trim().is_empty()).map(number).collect();
        let what = || format!("{} = \"{text}\" must be a list of CPUs", self.key);
        cpus.ok_or_else(|| InvalidValue::new(what(), "write such as \"0,2\""))
    }

    /// The path that this parameter is set to, which must be absolute; `None` where the arm does not set it.
    ///
    /// # Errors
    /// When it is relative.
    pub fn absolute(&self, arm: &ResolvedArm) -> Result<Option<PathBuf>, InvalidValue> {
        match self.find::<PathBuf>(arm)? {
            Some(path) if !path.is_absolute() => {
                let what = format!("{}: {} must be an absolute path", self.key, path.display());
                Err(InvalidValue::new(what, "begin it with /"))
            }
            named => Ok(named),
        }
    }

    fn find_among<T: Typed>(&self, values: &BTreeMap<String, Value>) -> Result<Option<T>, InvalidValue> {
        let known = |value: &Value| match (self.kind, value) {
            (Kind::Choice(words), Value::Choice(word) | Value::Text(word)) => words.contains(&word.as_str()),
            _ => true,
        };
        let typed = |value: &Value| {
            let fits = Some(value).filter(|value| known(value)).and_then(T::typed);
            fits.ok_or_else(|| self.refuse(&value.to_string()))
        };
        match (values.get(self.key), self.default) {
            (Some(value), _) => typed(value).map(Some),
            (None, Default::Typed(text)) => typed(&self.read_text(text)?).map(Some),
            (None, _) => Ok(None),
        }
    }

    fn refuse(&self, found: &str) -> InvalidValue {
        InvalidValue::new(format!("{}: {found}", self.key), format!("write {}", self.takes()))
    }
}

impl Descriptor {
    /// The first parameter whose value would be lost, because its name means something else in every study or stands in the
    /// table twice.
    #[must_use]
    pub fn reserved_parameter(&self) -> Option<&'static str> {
        let twice = |at: usize, key: &str| self.parameters[..at].iter().any(|knob| knob.key == key);
        let lost = |(at, knob): &(usize, &'static Knob)| {
            let is_factor = [GUEST_PAGE, EXITLESS, PREFAULT].contains(*knob);
            !is_factor && tables::is_reserved(knob.key) || twice(*at, knob.key)
        };
        self.parameters.iter().enumerate().find(lost).map(|(_, knob)| knob.key)
    }
}

impl OwnSection {
    /// The row of `key`, a path inside the section.
    pub(crate) fn knob(&self, key: &str) -> Option<&'static Knob> {
        static KNOBS: Mutex<BTreeMap<String, &'static Knob>> = Mutex::new(BTreeMap::new());
        if !(self.has)(key) {
            return None;
        }
        let mut knobs = KNOBS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(knob) = knobs.get(key) {
            return Some(knob);
        }
        // Keys are few, and tables of knobs live as long as the program.
        let help = "a key of the workload's own section";
        let name: &'static str = Box::leak(key.to_owned().into_boxed_str());
        let knob: &'static Knob = Box::leak(Box::new(Knob {
            key: name,
            kind: Kind::Literal,
            default: Default::Derived("the workload's own"),
            help,
        }));
        knobs.insert(key.to_owned(), knob);
        Some(knob)
    }
}

impl Metric {
    /// A row of a table of metrics of which more is better; its help follows ([`Metric::help()`]).
    #[must_use]
    pub const fn higher(key: &'static str, unit: &'static str, together: Aggregate) -> Metric {
        Metric { key, unit, better: Better::Higher, together, help: "" }
    }

    /// A row of one of which less is better.
    #[must_use]
    pub const fn lower(key: &'static str, unit: &'static str, together: Aggregate) -> Metric {
        Metric { key, unit, better: Better::Lower, together, help: "" }
    }

    /// The row with this help: one sentence for people, formula and source.
    #[must_use]
    pub const fn help(self, help: &'static str) -> Metric {
        Metric { help, ..self }
    }
}

/// The parameters that an arm sets, with the table that defines them.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    knobs: &'a [Knob],
    values: &'a BTreeMap<String, Value>,
}

impl<'a> Parameters<'a> {
    /// Of an arm, by the table of its workload.
    #[must_use]
    pub fn of(arm: &'a ResolvedArm, knobs: &'a [Knob]) -> Self {
        Parameters { knobs, values: &arm.parameters }
    }

    /// What `key` is set to, or its default. A choice is read as its word, [`String`].
    ///
    /// # Errors
    /// When there is neither, the value is of another kind, or the table has no such row.
    pub fn get<T: Typed>(&self, key: &str) -> Result<T, InvalidValue> {
        let knob = self.knob(key)?;
        knob.find_among(self.values)?.ok_or_else(|| knob.refuse("not set"))
    }

    /// The same; `None` where the default is derived and the parameter is not set.
    ///
    /// # Errors
    /// When the value is of another kind, or the table has no such row.
    pub fn find<T: Typed>(&self, key: &str) -> Result<Option<T>, InvalidValue> {
        self.knob(key)?.find_among(self.values)
    }

    /// Whether the choice `key` is `word`.
    ///
    /// # Errors
    /// As [`Parameters::get`].
    pub fn is(&self, key: &str, word: &str) -> Result<bool, InvalidValue> {
        Ok(self.find::<String>(key)?.is_some_and(|set| set == word))
    }

    /// Whether `key` is set, by the study or by its default.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    fn knob(&self, key: &str) -> Result<&'a Knob, InvalidValue> {
        let keys = || self.knobs.iter().map(|knob| knob.key).collect::<Vec<_>>();
        let unknown = || {
            InvalidValue::new(format!("{key}: no parameter of this workload"), crate::problem::nearest(key, &keys()))
        };
        self.knobs.iter().find(|knob| knob.key == key).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [Knob; 4] = [
        Knob::new("depth", Kind::Count { min: 1, max: 4096 }, Default::Typed("32")).help("outstanding I/Os"),
        Knob::new("size", Kind::Size { min: 1, max: 1 << 40 }, Default::Required).help("size of the target"),
        Knob::new("cache", Kind::Choice(&["direct", "buffered"]), Default::Typed("direct")).help("page cache"),
        Knob::new("rate", Kind::Count { min: 1, max: 1 << 40 }, Default::Derived("closed loop")).help("rate"),
    ];

    fn arm() -> ResolvedArm {
        ResolvedArm::native(1, PageSize::Small)
    }

    fn refusal<T: Typed + std::fmt::Debug>(arm: &ResolvedArm, key: &str) -> String {
        Parameters::of(arm, &TABLE).get::<T>(key).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_not_set_has_the_default_of_its_row() {
        let arm = arm();
        let of = Parameters::of(&arm, &TABLE);
        assert_eq!((of.get("depth"), of.find("rate")), (Ok(32_usize), Ok(None::<u64>)));
        assert_eq!((of.is("cache", "direct"), of.has("cache")), (Ok(true), false));
        let set = arm.clone().with("rate", Value::Count(7)).with("size", Value::SizeBytes(Bytes(9)));
        let of = Parameters::of(&set, &TABLE);
        assert_eq!((of.find("rate"), of.get("size")), (Ok(Some(7_u64)), Ok(Bytes(9))));
    }

    #[test]
    fn what_does_not_fit_its_row_is_refused_and_no_default() {
        let odd = arm().with("depth", Value::Text("deep".to_owned()));
        assert_eq!(refusal::<u64>(&odd, "depth"), "depth: deep; write a whole number from 1 to 4096");
        let large = arm().with("depth", Value::Count(1 << 20));
        assert!(refusal::<u16>(&large, "depth").starts_with("depth: 1048576; write a whole number"));
        assert_eq!(refusal::<Bytes>(&arm(), "size").split("; ").next(), Some("size: not set"));
        let unknown = arm().with("cache", Value::Choice("half".to_owned()));
        assert_eq!(refusal::<String>(&unknown, "cache"), "cache: half; write one of direct, buffered");
        assert_eq!(refusal::<u64>(&arm(), "dept"), "dept: no parameter of this workload; did you mean 'depth'?");
    }
}
