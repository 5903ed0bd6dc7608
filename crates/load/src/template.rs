//! Text with places: `{variable}` is replaced for each user at each request.
//!
//! Names are resolved to numbers when the scenario is read, so that rendering looks nothing up.

use std::fmt::Write as _;

/// A text with places in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(usize),
    /// `{user}`: the user's number, from 0.
    User,
    /// `{serial}`: a number that no other operation of this site has.
    Serial,
    /// `{random}`: 64 random bits in decimal.
    Random,
    /// `{each}`: the current value of a request that is made for each of a list.
    Each,
}

/// How a value is written so that the text around it keeps its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    None,
    /// In a path or query: blanks and what is not ASCII are percent-encoded; delimiters stay, for values may be paths.
    Path,
    /// In a header: line ends are left out.
    Header,
    /// Inside a JSON string.
    Json,
    /// In a form: everything but letters, digits and `-._*` is percent-encoded.
    Form,
}

/// What the places are filled with.
pub(crate) struct Values<'a> {
    pub(crate) variables: &'a [Option<Box<str>>],
    pub(crate) user: u64,
    pub(crate) serial: u64,
    pub(crate) random: u64,
    pub(crate) each: &'a str,
}

impl Template {
    /// Reads a text; `number` gives a variable's number or what is wrong with its name. `{{` and `}}` are braces.
    pub(crate) fn parse<E: From<String>>(
        text: &str,
        mut number: impl FnMut(&str) -> Result<usize, E>,
    ) -> Result<Template, E> {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let (name, after) = match rest.split_once('}') {
                Some(split) if brace == "{" => split,
                _ => return Err(format!("'{text}' has a single '{brace}'").into()),
            };
            rest = after;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(match name {
                "user" => Part::User,
                "serial" => Part::Serial,
                "random" => Part::Random,
                "each" => Part::Each,
                _ => Part::Variable(number(name)?),
            });
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Template { parts })
    }

    pub(crate) fn plain(text: &str) -> Template {
        Template { parts: vec![Part::Text(text.to_owned())] }
    }

    /// With its fixed text escaped as its places will be.
    pub(crate) fn escaped(mut self, escape: Escape) -> Template {
        for part in &mut self.parts {
            if let Part::Text(text) = part {
                let mut out = Vec::new();
                escape.append(text, &mut out);
                *text = String::from_utf8_lossy(&out).into_owned();
            }
        }
        self
    }

    /// Whether it is the same for every user and request.
    pub(crate) fn is_fixed(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Appends the filled text; `false` when a variable has no value.
    pub(crate) fn render(&self, values: &Values<'_>, escape: Escape, out: &mut Vec<u8>) -> bool {
        let mut number = String::new();
        for part in &self.parts {
            number.clear();
            let text = match part {
                Part::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                Part::Variable(index) => match values.variables.get(*index) {
                    Some(Some(text)) => text,
                    _ => return false,
                },
                Part::Each => values.each,
                Part::User => decimal(values.user, &mut number),
                Part::Serial => decimal(values.serial, &mut number),
                Part::Random => decimal(values.random, &mut number),
            };
            escape.append(text, out);
        }
        true
    }

    /// The filled text, unescaped; `None` when a variable has no value.
    pub(crate) fn text(&self, values: &Values<'_>) -> Option<String> {
        let mut out = Vec::new();
        self.render(values, Escape::None, &mut out).then(|| String::from_utf8_lossy(&out).into_owned())
    }
}

fn decimal(value: u64, text: &mut String) -> &str {
    let _ = write!(text, "{value}");
    text
}

impl Escape {
    pub(crate) fn append(self, text: &str, out: &mut Vec<u8>) {
        for byte in text.bytes() {
            match (self, byte) {
                (Escape::Header, b'\r' | b'\n') => {}
                (Escape::None | Escape::Header, _) => out.push(byte),
                (Escape::Json, b'"' | b'\\') => out.extend([b'\\', byte]),
                (Escape::Json, 0..0x20) => out.extend(format!("\\u{byte:04x}").bytes()),
                (Escape::Json, _) => out.push(byte),
                (Escape::Path, 0x21..=0x7e) if !b"\"<>\\^`{|}#".contains(&byte) => out.push(byte),
                (Escape::Form, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*') => out.push(byte),
                (Escape::Path | Escape::Form, _) => out.extend(format!("%{byte:02X}").bytes()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, escape: Escape) -> Option<String> {
        let template = Template::parse::<String>(text, |name| match name {
            "a" => Ok(0),
            "none" => Ok(1),
            _ => Err(format!("no '{name}'")),
        })
        .expect(text);
        let variables = [Some("x y\"\r\n/é".into()), None];
        let values = Values { variables: &variables, user: 7, serial: 8, random: 9, each: "e" };
        let mut out = Vec::new();
        template.render(&values, escape, &mut out).then(|| String::from_utf8(out).expect("text"))
    }

    #[test]
    fn places_are_filled_and_escaped_for_where_they_stand() {
        assert_eq!(filled("{user}-{serial}-{random}-{each}-{{}}", Escape::None).as_deref(), Some("7-8-9-e-{}"));
        assert_eq!(filled("/p?{a}", Escape::Path).as_deref(), Some("/p?x%20y%22%0D%0A/%C3%A9"));
        assert_eq!(filled("{a}", Escape::Header).as_deref(), Some("x y\"/é"));
        assert_eq!(filled("\"{a}\"", Escape::Json).as_deref(), Some("\"x y\\\"\\u000d\\u000a/é\""));
        assert_eq!(filled("k={a}", Escape::Form).as_deref(), Some("k=x%20y%22%0D%0A%2F%C3%A9"));
        assert_eq!(filled("{none}", Escape::None), None);
    }

    #[test]
    fn lone_braces_and_unknown_names_are_refused() {
        for text in ["{a", "a}", "{", "{b}"] {
            assert!(Template::parse::<String>(text, |_| Err("unknown".to_owned())).is_err(), "{text}");
        }
    }
}
