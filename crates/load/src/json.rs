//! Values at a path of a JSON text, found as the text is read.
//!
//! No tree is built: a body of 16 MiB that a server has made up may hold millions of values, each of which would take more
//! memory than its text. What the path passes by is checked to be JSON and forgotten.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// `a.b[0].c`, `items[*].id`: keys, indices and all of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Hop>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hop {
    Key(String),
    Index(usize),
    Every,
}

/// The longest text of a list or an object that a path leads to, in bytes.
const LONGEST_TEXT: usize = 1 << 20;

impl JsonPath {
    pub(crate) fn parse(text: &str) -> Option<JsonPath> {
        let mut hops = Vec::new();
        let text = text.strip_prefix("$.").or_else(|| text.strip_prefix('$')).unwrap_or(text);
        for word in text.split('.').filter(|_| !text.is_empty()) {
            let (key, mut rest) = word.split_at(word.find('[').unwrap_or(word.len()));
            if key.is_empty() && rest.is_empty() {
                return None;
            }
            if !key.is_empty() {
                hops.push(Hop::Key(key.to_owned()));
            }
            while !rest.is_empty() {
                let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
                hops.push(if index == "*" { Hop::Every } else { Hop::Index(index.parse().ok()?) });
                rest = after;
            }
        }
        Some(JsonPath(hops))
    }

    /// Hands each value that the path leads to, as text and in the order of the document, to `found`; null is not a value, and
    /// lists and objects are JSON without blanks. `false` when `text` is not JSON, or a list or object at the path is longer
    /// than 1 MiB; `found` may have been called all the same.
    #[must_use]
    pub(crate) fn scan(&self, text: &[u8], found: &mut dyn FnMut(&str)) -> bool {
        let mut json = serde_json::Deserializer::from_slice(text);
        let walked = Walk { hops: &self.0, found }.deserialize(&mut json);
        walked.and_then(|()| json.end()).is_ok()
    }
}

/// Whether `text` is JSON.
pub(crate) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// What is left of a path, from the value at which it stands.
struct Walk<'p, 'f> {
    hops: &'p [Hop],
    found: &'f mut dyn FnMut(&str),
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl Walk<'_, '_> {
    /// A value that is neither list nor object.
    fn plain(self, text: &str) {
        if self.hops.is_empty() {
            (self.found)(text);
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.plain(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.plain(&value.to_string());
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.plain(&value.to_string());
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.plain(&serde_json::Value::from(value).to_string());
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.plain(value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Some((hop, rest)) = self.hops.split_first() else {
            let mut text = String::new();
            Compact(&mut text).visit_seq(list)?;
            (self.found)(&text);
            return Ok(());
        };
        let mut at = 0;
        loop {
            let meant = match hop {
                Hop::Every => true,
                Hop::Index(index) => *index == at,
                Hop::Key(_) => false,
            };
            at += 1;
            let more = match meant {
                true => list.next_element_seed(Walk { hops: rest, found: &mut *self.found })?.is_some(),
                false => list.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((hop, rest)) = self.hops.split_first() else {
            let mut text = String::new();
            Compact(&mut text).visit_map(map)?;
            (self.found)(&text);
            return Ok(());
        };
        while let Some(Key(key)) = map.next_key()? {
            if matches!(hop, Hop::Key(wanted) if *wanted == key) {
                map.next_value_seed(Walk { hops: rest, found: &mut *self.found })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A key, borrowed from the text where it can be.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(key: D) -> Result<Key<'de>, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }
            fn visit_str<E: Error>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        key.deserialize_str(Text)
    }
}

/// Writes a value down as JSON without blanks, at most [`LONGEST_TEXT`] of it.
struct Compact<'t>(&'t mut String);

impl Compact<'_> {
    fn put<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.push_str(text);
        if self.0.len() > LONGEST_TEXT { Err(E::custom("longer than 1 MiB")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Compact<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Compact<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.put("null")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put(if value { "true" } else { "false" })
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.put(&value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.put(&value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.put(&serde_json::Value::from(value).to_string())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.put(&serde_json::Value::from(value).to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut before = "[";
        loop {
            let length = self.0.len();
            self.0.push_str(before);
            if list.next_element_seed(Compact(&mut *self.0))?.is_none() {
                self.0.truncate(length);
                let end = if before == "[" { "[]" } else { "]" };
                return self.put(end);
            }
            before = ",";
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut before = '{';
        while let Some(Key(key)) = map.next_key()? {
            self.0.push(before);
            Compact(&mut *self.0).visit_str(&key)?;
            self.0.push(':');
            map.next_value_seed(Compact(&mut *self.0))?;
            before = ',';
        }
        self.put(if before == '{' { "{}" } else { "}" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(path: &str, text: &str) -> Option<Vec<String>> {
        let mut values = Vec::new();
        let sound =
            JsonPath::parse(path).expect(path).scan(text.as_bytes(), &mut |value| values.push(value.to_owned()));
        sound.then_some(values)
    }

    #[test]
    fn json_paths_lead_to_values() {
        let document = r#" {"items": [{"id": 1, "name": "a"}, {"id": 2.50}], "deep": {"er": [[7]]}, "no": null, "é": true,
            "odd": [-3, 1e300, "\u00e9\"", [ ], { }, {"a" : [1, {"b" : "c\n"}]}] } "#;
        let all = |path: &str| values(path, document).expect("JSON");
        assert_eq!(all("items[*].id"), ["1", "2.5"]);
        assert_eq!(all("$.items[0].name"), ["a"]);
        assert_eq!(all("deep.er[0][0]"), ["7"]);
        assert_eq!(all("deep"), [r#"{"er":[[7]]}"#]);
        assert_eq!(all("é"), ["true"]);
        assert_eq!(all("odd[*]"), ["-3", "1e+300", "é\"", "[]", "{}", r#"{"a":[1,{"b":"c\n"}]}"#]);
        assert_eq!(all("odd"), [r#"[-3,1e+300,"é\"",[],{},{"a":[1,{"b":"c\n"}]}]"#]);
        assert!(
            ["no", "items[9].id", "x.y", "items.id", "deep[0]", "odd[0].x"].iter().all(|path| all(path).is_empty())
        );
        for wrong in ["a..b", "a[", "a[x]", "a[0]b", "."] {
            assert_eq!(JsonPath::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_json_or_too_long_has_no_values() {
        for torn in ["", "[1,2", "[1] 2", "{\"a\":1,}", "[1 2]", "nul", &"[".repeat(100_000)] {
            assert_eq!(values("[0]", torn), None, "{torn:.20}");
            assert!(!is_json(torn.as_bytes()), "{torn:.20}");
        }
        let long = format!("[[{}]]", "1,".repeat(LONGEST_TEXT) + "1");
        assert_eq!(values("[0]", &long), None);
        assert_eq!(values("[0][5]", &long), Some(vec!["1".to_owned()]));
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..proptest::test_runner::Config::default() })]

        /// Whatever the document: the values are those that a tree of it has.
        #[test]
        fn a_document_is_written_down_as_its_tree_is(
            numbers in proptest::collection::vec(proptest::num::f64::NORMAL, 0..5), text in ".{0,20}", deep in 0..5_usize,
        ) {
            let mut document = serde_json::json!({ "text": text, "numbers": numbers });
            for _ in 0..deep {
                document = serde_json::json!([document, null, {}]);
            }
            let written = serde_json::to_string_pretty(&document).expect("JSON");
            proptest::prop_assert_eq!(values("", &written), Some(vec![sorted(&document)]));
            let path = "[0].".repeat(deep) + "text";
            proptest::prop_assert_eq!(values(&path, &written), Some(vec![text]));
        }
    }

    fn sorted(document: &serde_json::Value) -> String {
        document.to_string()
    }
}
