//! Values taken from answers: where they are looked for, and which of several is taken.
//!
//! A server may send millions of values where one is requested. They are looked at one by one; what is kept is the one that is
//! picked, or a list of at most [`LONGEST_VALUE`] bytes.

use crate::rng::Rng;
use crate::scenario::{Extract, Pick, Source};

/// The longest value, or list of values, that a user keeps, in bytes. What is longer counts as not found.
pub(crate) const LONGEST_VALUE: usize = 1 << 20;
/// A regular expression looks through so many bytes of an answer from its beginning: it takes 40 ms and more for them.
pub(crate) const LONGEST_SEARCHED: usize = 1 << 20;

impl Extract {
    /// The value that is requested from an answer; `None` when it does not exist.
    pub(crate) fn value(&self, head: &[u8], body: &[u8], rng: &mut Rng) -> Option<String> {
        if self.pick != Pick::Random {
            return self.picked(Wanted::of(self.pick), head, body);
        }
        let count = self.picked(Wanted::Count, head, body)?.parse().unwrap_or(0);
        if count == 0 { None } else { self.picked(Wanted::At(rng.below(count)), head, body) }
    }

    fn picked(&self, wanted: Wanted, head: &[u8], body: &[u8]) -> Option<String> {
        let mut picker = Picker { wanted, seen: 0, kept: None, too_long: false };
        let sound = match &self.source {
            Source::Json(path) => path.scan(body, &mut |value| picker.take(value)),
            Source::Regex(regex) => {
                let text = String::from_utf8_lossy(&body[..body.len().min(LONGEST_SEARCHED)]);
                let group = usize::from(regex.captures_len() > 1);
                let all = regex.captures_iter(&text).filter_map(|found| found.get(group));
                all.for_each(|found| picker.take(found.as_str()));
                true
            }
            Source::Header(name) => {
                header_values(head, name).iter().for_each(|value| picker.take(value));
                true
            }
        };
        picker.value(sound)
    }
}

/// Which value is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    First,
    Last,
    /// The one of this number, from 0.
    At(usize),
    /// Each, on a line of its own.
    All,
    /// Their number.
    Count,
}

impl Wanted {
    fn of(pick: Pick) -> Wanted {
        match pick {
            Pick::First | Pick::Random => Wanted::First,
            Pick::Last => Wanted::Last,
            Pick::All => Wanted::All,
            Pick::Count => Wanted::Count,
        }
    }
}

/// Looks at values as they come.
struct Picker {
    wanted: Wanted,
    seen: usize,
    kept: Option<String>,
    /// What would be kept is longer than a value may be.
    too_long: bool,
}

impl Picker {
    fn take(&mut self, value: &str) {
        let at = self.seen;
        self.seen += 1;
        let keeps = match self.wanted {
            Wanted::First => at == 0,
            Wanted::At(wanted) => at == wanted,
            Wanted::Last | Wanted::All => true,
            Wanted::Count => false,
        };
        if !keeps {
            return;
        }
        let list = self.wanted == Wanted::All;
        let before = self.kept.as_ref().filter(|_| list).map_or(0, |kept| kept.len() + 1);
        if !list {
            self.too_long = false;
        }
        self.too_long |= before + value.len() > LONGEST_VALUE;
        if self.too_long {
            return;
        }
        let kept = self.kept.get_or_insert_default();
        if !list {
            kept.clear();
        } else if at > 0 {
            kept.push('\n');
        }
        kept.push_str(value);
    }

    /// What was picked, from a source that was `sound` as a whole or has no values.
    fn value(self, sound: bool) -> Option<String> {
        let seen = if sound { self.seen } else { 0 };
        match self.wanted {
            Wanted::Count => Some(seen.to_string()),
            _ if seen == 0 || self.too_long => None,
            _ => self.kept,
        }
    }
}

/// The values of a header in a head that has been parsed once already.
pub(crate) fn header_values(head: &[u8], name: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(head);
    let lines = text.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonPath;
    use regex_lite::Regex;

    fn picked(pick: Pick, source: Source, body: &[u8]) -> Option<String> {
        Extract { variable: 0, source, pick, optional: false }.value(b"", body, &mut Rng::stream(1, 1))
    }

    fn json(pick: Pick, body: &str) -> Option<String> {
        picked(pick, Source::Json(JsonPath::parse("[*]").expect("a path")), body.as_bytes())
    }

    #[test]
    fn values_are_picked() {
        let abc = |pick| json(pick, r#"["a", "b", "", "c"]"#);
        assert_eq!(abc(Pick::First).as_deref(), Some("a"));
        assert_eq!(abc(Pick::Last).as_deref(), Some("c"));
        assert_eq!(abc(Pick::All).as_deref(), Some("a\nb\n\nc"));
        assert_eq!(abc(Pick::Count).as_deref(), Some("4"));
        assert!(abc(Pick::Random).is_some_and(|value| ["a", "b", "", "c"].contains(&value.as_str())));
        for nothing in ["[]", "[1, 2", "{}", ""] {
            assert_eq!(json(Pick::Count, nothing).as_deref(), Some("0"));
            for pick in [Pick::First, Pick::Last, Pick::All, Pick::Random] {
                assert_eq!(json(pick, nothing), None, "{nothing}");
            }
        }
    }

    #[test]
    fn each_of_several_is_drawn_as_often() {
        let mut rng = Rng::stream(7, 7);
        let extract = Extract {
            variable: 0,
            source: Source::Json(JsonPath::parse("[*]").expect("a path")),
            pick: Pick::Random,
            optional: false,
        };
        let mut counts = [0; 3];
        for _ in 0..3000 {
            let value = extract.value(b"", b"[0, 1, 2]", &mut rng).expect("three values");
            counts[value.parse::<usize>().expect("a number")] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }

    #[test]
    fn what_is_too_long_to_keep_is_not_found() {
        let long = "x".repeat(LONGEST_VALUE + 1);
        let both = format!("[\"{long}\", \"short\"]");
        assert_eq!(json(Pick::First, &both), None);
        assert_eq!(json(Pick::All, &both), None);
        assert_eq!(json(Pick::Last, &both).as_deref(), Some("short"));
        assert_eq!(json(Pick::Count, &both).as_deref(), Some("2"));
        let many = format!("[{}1]", "1,".repeat(LONGEST_VALUE / 2));
        assert_eq!(json(Pick::All, &many), None, "{} lines", LONGEST_VALUE / 2 + 1);
        assert_eq!(json(Pick::All, &many.replacen("1,", "", 1)).map(|list| list.len()), Some(LONGEST_VALUE - 1));
        assert_eq!(json(Pick::Count, &many), Some((LONGEST_VALUE / 2 + 1).to_string()));
    }

    #[test]
    fn a_regular_expression_looks_through_the_beginning() {
        let find = |at: usize| {
            let body = [&vec![b' '; at][..], b"id=7"].concat();
            picked(Pick::First, Source::Regex(Regex::new("id=([0-9]+)").expect("sound")), &body)
        };
        assert_eq!(find(1000).as_deref(), Some("7"));
        assert_eq!(find(LONGEST_SEARCHED), None);
    }
}
