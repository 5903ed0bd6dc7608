//! JSON that strangers wrote: read only when every key is there once and its values fit a limit of memory.
//!
//! A text is walked before anything is made of it. `serde_json` takes the last of two equal keys of a map, so that what a reader
//! sees first is not what is used; and a text of a few megabytes, such as `[{},{},...`, can become gigabytes of records. The walk
//! keeps the keys of the objects that are open, and nothing else. Depth is limited to 128 by `serde_json`.
#![forbid(unsafe_code)]

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Result;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// What one value is counted as, in bytes: an object is a node of a B-tree, or a record whose fields are all absent.
const OBJECT: u64 = 640;
const ARRAY: u64 = 32;
const TEXT: u64 = 32;
const OTHER: u64 = 8;

/// Reads `text` if each key of an object is there once, and its values take no more than about `most_bytes` of memory.
///
/// # Errors
/// When it is not JSON, a key is doubled, the limit is exceeded, or it is not a `T`; with line and column.
pub fn read<T: DeserializeOwned>(text: &[u8], most_bytes: u64) -> Result<T> {
    check(text, most_bytes)?;
    serde_json::from_slice(text)
}

/// Whether [`read`] would get as far as the type: the memory that the values of `text` take at most, in bytes.
///
/// # Errors
/// When it is not JSON, a key is doubled, or the limit is exceeded; with line and column.
pub fn check(text: &[u8], most_bytes: u64) -> Result<u64> {
    let mut taken = Taken { bytes: 0, most: most_bytes };
    let mut from = serde_json::Deserializer::from_slice(text);
    Walk(&mut taken).deserialize(&mut from)?;
    from.end()?;
    Ok(taken.bytes)
}

struct Taken {
    bytes: u64,
    most: u64,
}

impl Taken {
    fn add<E: Error>(&mut self, bytes: u64) -> std::result::Result<(), E> {
        self.bytes += bytes;
        match self.bytes > self.most {
            true => Err(E::custom(format_args!("its values take more than {} MiB of memory", self.most >> 20))),
            false => Ok(()),
        }
    }
}

struct Walk<'t>(&'t mut Taken);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> std::result::Result<(), E> {
        self.0.add(OTHER)
    }

    fn visit_i64<E: Error>(self, _: i64) -> std::result::Result<(), E> {
        self.0.add(OTHER)
    }

    fn visit_u64<E: Error>(self, _: u64) -> std::result::Result<(), E> {
        self.0.add(OTHER)
    }

    fn visit_f64<E: Error>(self, _: f64) -> std::result::Result<(), E> {
        self.0.add(OTHER)
    }

    fn visit_unit<E: Error>(self) -> std::result::Result<(), E> {
        self.0.add(OTHER)
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<(), E> {
        self.0.add(TEXT + text.len() as u64)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> std::result::Result<(), A::Error> {
        self.0.add(ARRAY)?;
        while values.next_element_seed(Walk(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<(), A::Error> {
        self.0.add(OBJECT)?;
        let mut keys = HashSet::new();
        while let Some(key) = fields.next_key_seed(Key)? {
            self.0.add(TEXT + key.len() as u64)?;
            if keys.contains(&key) {
                let key: String = key.chars().take(60).collect();
                return Err(A::Error::custom(format_args!("the key {key:?} is there twice")));
            }
            keys.insert(key);
            fields.next_value_seed(Walk(self.0))?;
        }
        Ok(())
    }
}

/// A key, where it lies in the text if it has no escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> std::result::Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const MIB: u64 = 1 << 20;

    fn refused(text: &str) -> String {
        read::<Value>(text.as_bytes(), MIB).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_sound_is_read_as_ever() {
        for text in
            ["{\"a\":[1,-2,3.5,null,true,\"x\\u00e9\"],\"b\":{\"a\":{}}}", "[]", "7", " \"x\" ", "{\"a\":1,\"A\":2}"]
        {
            let value: Value = read(text.as_bytes(), MIB).expect(text);
            assert_eq!(value, serde_json::from_str::<Value>(text).expect(text));
        }
    }

    #[test]
    fn a_doubled_key_is_refused_however_it_is_written_and_however_deep() {
        for text in ["{\"a\":1,\"a\":1}", "[0,{\"b\":[{\"a\":1,\"c\":2,\"\\u0061\":3}]}]"] {
            assert!(refused(text).starts_with("the key \"a\" is there twice at line 1 column "), "{}", refused(text));
        }
        assert!(serde_json::from_str::<Value>("{\"a\":1,\"a\":2}").is_ok(), "serde_json takes the last of two");
    }

    #[test]
    fn what_becomes_larger_than_its_text_is_refused_before_it_does() {
        let many = format!("[{}{{}}]", "{},".repeat(10_000));
        assert!(many.len() < 32 << 10);
        assert!(refused(&many).contains("its values take more than 1 MiB of memory"), "{}", refused(&many));
        assert!(refused(&"[".repeat(100_000)).contains("recursion limit"));
        assert!(refused("{\"a\":1e999}").contains("out of range") && refused("{} {}").contains("trailing"));
        assert_eq!(check(b"[1,2]", MIB).expect("sound"), ARRAY + 2 * OTHER);
    }
}
