//! Who may sign: files of allowed signers as `ssh-keygen -Y verify` reads them (ssh-keygen(1), ALLOWED SIGNERS).
//!
//! Each line has principals, options and a public key. Keys are compared as bytes, so that lines with kinds of keys that nothing here can
//! verify do no harm. Certificates sign no bundle; their authorities' lines are read and never match.
//!
//! One thing is stricter than in `ssh-keygen`: a time without `Z` is in the zone of whoever reads it, which is not known here, so that it is
//! taken at its strict end over all zones (UTC-12 to UTC+14).

use crate::signature::{NAMESPACE, Signed};
use baremark_model::units::UnixTime;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The zones that are farthest from UTC, in hours behind and before it.
const BEHIND: u64 = 12;
const BEFORE: u64 = 14;
const HOUR_NS: u64 = 3_600_000_000_000;

/// A file of allowed signers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signers(Vec<Signer>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Signer {
    principals: String,
    key: Vec<u8>,
    /// Whether the key signs others' keys, and nothing else.
    authority: bool,
    /// Patterns of what it may sign; everything where there are none.
    namespaces: Option<String>,
    after: Option<Moment>,
    before: Option<Moment>,
}

/// A date and time as its digits say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    civil: [u64; 6],
    utc: bool,
}

/// What a file says of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// These principals may sign bundles with its key.
    By(String),
    /// Nobody may, and why.
    Not(String),
}

/// A line that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; write PRINCIPALS [OPTIONS] KEYTYPE KEY, as ssh-keygen(1) says of allowed signers")]
pub struct SignersError {
    /// Which line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: SignerError,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// The principals are quoted, and do not end.
    #[error("the quotation mark before the principals is not closed")]
    Unclosed,
    /// It is a single word.
    #[error("it has no key")]
    NoKey,
    /// The principals are empty.
    #[error("it has no principal")]
    NoPrincipal,
    /// A principal is one who may not sign.
    #[error("a principal that begins with '!' is not supported; remove the line")]
    Negated,
    /// Its key cannot be read.
    #[error("its key is damaged, or of another type than it says")]
    Key,
    /// An option is repeated: which.
    #[error("the option {0} is there twice")]
    Twice(String),
    /// A time cannot be read.
    #[error("{option} is '{text}', not YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS")]
    Time {
        /// The option.
        option: String,
        /// What is given.
        text: String,
    },
    /// A word is not an option that is known.
    #[error("'{0}' is neither an option nor the type of the key that follows")]
    Option(String),
}

impl Signers {
    /// Of a file's text.
    ///
    /// # Errors
    /// For the first line that cannot be read, also where no signature would need it: a mistake must not let others in, or keep anybody out.
    pub fn read(text: &str) -> Result<Signers, SignersError> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let read = |(at, line): (usize, &str)| signer(line).map_err(|what| SignersError { line: at + 1, what });
        lines.map(read).collect::<Result<_, _>>().map(Signers)
    }

    /// Whether somebody may sign bundles with the key of this signature at this time.
    #[must_use]
    pub fn allow(&self, signed: &Signed, now: UnixTime) -> Allowed {
        let mut why = format!("the key {} is not among the allowed signers", signed.name);
        for signer in self.0.iter().filter(|signer| signer.key == signed.key) {
            match signer.refuses(now) {
                None => return Allowed::By(signer.principals.clone()),
                Some(refused) => why = format!("the key {} of {} {refused}", signed.name, signer.principals),
            }
        }
        Allowed::Not(why)
    }
}

impl Signer {
    /// Why it may not sign a bundle now.
    fn refuses(&self, now: UnixTime) -> Option<String> {
        let shifted = |ns: u64| UnixTime(ns).civil();
        let hours = |moment: &Moment, most: u64| if moment.utc { 0 } else { most * HOUR_NS };
        if self.authority {
            return Some("signs certificates, not bundles (cert-authority)".to_owned());
        }
        if let Some(patterns) = self.namespaces.as_ref().filter(|patterns| !matches_any(patterns, NAMESPACE)) {
            return Some(format!("may sign for the namespaces \"{patterns}\" alone, not for {NAMESPACE}"));
        }
        if let Some(after) = self.after.filter(|of| shifted(now.0.saturating_sub(hours(of, BEHIND))) < of.civil) {
            return Some(format!("is not valid yet: valid-after {}", after.text()));
        }
        let before = self.before.filter(|of| shifted(now.0.saturating_add(hours(of, BEFORE))) > of.civil)?;
        Some(format!("is not valid any more: valid-before {}", before.text()))
    }
}

impl Moment {
    /// `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, with `Z` for UTC.
    fn read(text: &str) -> Option<Moment> {
        let (digits, utc) = text
            .strip_suffix(['Z', 'z'])
            .or_else(|| text.strip_suffix("UTC"))
            .map_or((text, false), |digits| (digits, true));
        if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let number = |from: usize, to: usize| digits.get(from..to).map_or(Some(0), |digits| digits.parse().ok());
        let civil = [number(0, 4)?, number(4, 6)?, number(6, 8)?, number(8, 10)?, number(10, 12)?, number(12, 14)?];
        let [year, month, day, hour, minute, second] = civil;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => 0,
        };
        let is_one = (1..=days).contains(&day) && hour < 24 && minute < 60 && second < 60;
        is_one.then_some(Moment { civil, utc })
    }

    fn text(self) -> String {
        let [year, month, day, hour, minute, second] = self.civil;
        let zone = if self.utc { "Z" } else { " (without Z: in the earliest or latest zone)" };
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{zone}")
    }
}

/// A line that has something.
fn signer(line: &str) -> Result<Signer, SignerError> {
    let (principals, rest) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').ok_or(SignerError::Unclosed)?,
        None => line.split_once([' ', '\t']).ok_or(SignerError::NoKey)?,
    };
    if principals.is_empty() {
        return Err(SignerError::NoPrincipal);
    }
    // OpenSSH refuses whoever such a pattern matches; here nobody is asked who they are.
    if principals.split(',').any(|of| of.starts_with('!')) {
        return Err(SignerError::Negated);
    }
    let mut signer = Signer { principals: principals.to_owned(), ..Signer::default() };
    let (first, rest) = word(rest.trim_start());
    if let Some(key) = key(first, rest) {
        return Ok(Signer { key, ..signer });
    }
    options(first, &mut signer)?;
    let (kind, rest) = word(rest);
    signer.key = key(kind, rest).ok_or(SignerError::Key)?;
    Ok(signer)
}

/// The first word, in which quotation marks hold spaces, and what follows.
fn word(text: &str) -> (&str, &str) {
    let mut quoted = false;
    let end = text.find(|c: char| {
        quoted ^= c == '"';
        !quoted && (c == ' ' || c == '\t')
    });
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    (word, rest.trim_start())
}

/// The key as bytes, which begin with its type; `None` where the words are no key.
fn key(kind: &str, rest: &str) -> Option<Vec<u8>> {
    let bytes = BASE64_STANDARD.decode(word(rest).0).ok()?;
    let length = u32::try_from(kind.len()).ok()?.to_be_bytes();
    (!kind.is_empty() && bytes.starts_with(&[&length, kind.as_bytes()].concat())).then_some(bytes)
}

fn options(text: &str, signer: &mut Signer) -> Result<(), SignerError> {
    let mut rest = text;
    while !rest.is_empty() {
        let mut quoted = false;
        let end = rest.find(|c: char| {
            quoted ^= c == '"';
            !quoted && c == ','
        });
        let (option, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.strip_prefix(',').unwrap_or(after);
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let value = value.map(|value| value.strip_prefix('"').and_then(|value| value.strip_suffix('"')));
        let once = |known: bool| if known { Err(SignerError::Twice(name.to_owned())) } else { Ok(()) };
        let moment = |text: &str| {
            let wrong = || SignerError::Time { option: name.to_owned(), text: text.to_owned() };
            Moment::read(text).ok_or_else(wrong)
        };
        match (name.to_ascii_lowercase().as_str(), value) {
            ("cert-authority", None) => signer.authority = true,
            ("namespaces", Some(Some(patterns))) => {
                once(signer.namespaces.replace(patterns.to_owned()).is_some())?;
            }
            ("valid-after", Some(Some(text))) => once(signer.after.replace(moment(text)?).is_some())?,
            ("valid-before", Some(Some(text))) => once(signer.before.replace(moment(text)?).is_some())?,
            _ => return Err(SignerError::Option(option.to_owned())),
        }
    }
    Ok(())
}

/// Whether a text is one of these patterns, with commas between, and of none that begins with `!`.
fn matches_any(patterns: &str, text: &str) -> bool {
    let (not, of): (Vec<&str>, Vec<&str>) = patterns.split(',').partition(|pattern| pattern.starts_with('!'));
    !not.iter().any(|pattern| fits(&pattern.as_bytes()[1..], text.as_bytes()))
        && of.iter().any(|pattern| fits(pattern.as_bytes(), text.as_bytes()))
}

/// A pattern of ssh_config(5): `*` is anything, `?` one character.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    // Where the last star stands, and up to where of the text it is taken: the one before it need not be tried again.
    let (mut at, mut of, mut star) = (0, 0, None);
    while of < text.len() {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                star = Some((at + 1, of));
                at += 1;
            }
            (Some(&one), _) if one == b'?' || one == text[of] => {
                at += 1;
                of += 1;
            }
            (_, Some((after, from))) => {
                star = Some((after, from + 1));
                (at, of) = (after, from + 1);
            }
            _ => return false,
        }
    }
    pattern[at..].iter().all(|one| *one == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPmS0Z8cbKLrY5rKTGNkzFZ7Vy2FZgGdQzdTq+e7+mK";

    fn signed() -> Signed {
        Signed {
            key: BASE64_STANDARD.decode(KEY.split(' ').nth(1).expect("a key")).expect("base64"),
            name: "K".to_owned(),
        }
    }

    /// Seconds since 1970 of 2026-11-28 12:00:00 UTC.
    const NOON: UnixTime = UnixTime(1_795_867_200 * 1_000_000_000);

    fn allowed(line: &str) -> Allowed {
        Signers::read(line).unwrap_or_else(|why| panic!("{line}: {why}")).allow(&signed(), NOON)
    }

    #[test]
    fn lines_of_each_form_name_their_principals() {
        assert_eq!(NOON.civil(), [2026, 11, 28, 12, 0, 0]);
        let lines = [
            format!("maria@example.org {KEY}"),
            format!("  maria@example.org\t{KEY} a comment\n"),
            format!("\"maria@example.org\" namespaces=\"file,baremark-*\" {KEY}"),
            format!("# others\n\nnobody cert-authority {KEY}\nmaria@example.org NAMESPACES=\"*\" {KEY}"),
            format!("maria@example.org valid-after=\"20261128Z\",valid-before=\"20261128120000Z\" {KEY}"),
        ];
        for line in lines {
            assert_eq!(allowed(&line), Allowed::By("maria@example.org".to_owned()), "{line}");
        }
    }

    #[test]
    fn keys_that_may_not_sign_bundles_now_are_refused_with_the_reason() {
        for (options, says) in [
            ("namespaces=\"file,git\"", "namespaces \"file,git\" alone"),
            ("namespaces=\"*,!baremark-bundle\"", "alone"),
            ("valid-before=\"202611281159Z\"", "not valid any more: valid-before 2026-11-28 11:59:00Z"),
            ("valid-after=\"20261128120001Z\"", "not valid yet"),
            ("cert-authority", "certificates"),
            // In some zone this time has come, in another it has not: the strict end.
            ("valid-before=\"20261129\"", "not valid any more"),
            ("valid-after=\"202611280001\"", "not valid yet: valid-after 2026-11-28 00:01:00 (without Z"),
        ] {
            match allowed(&format!("maria {options} {KEY}")) {
                Allowed::Not(why) => assert!(why.contains(says) && why.contains("maria"), "{options}: {why}"),
                by @ Allowed::By(_) => panic!("{options}: {by:?}"),
            }
        }
        for options in ["valid-before=\"20261130\"", "valid-after=\"20261127\""] {
            assert_eq!(allowed(&format!("maria {options} {KEY}")), Allowed::By("maria".to_owned()), "{options}");
        }
        let other = KEY.replace("GPmS0", "GPmS1");
        assert!(matches!(allowed(&format!("maria {other}")), Allowed::Not(why) if why.contains("not among")));
        // A second line may allow what the first does not.
        let two = format!("maria valid-before=\"20200101Z\" {KEY}\njoan {KEY}");
        assert_eq!(allowed(&two), Allowed::By("joan".to_owned()));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let bad = [
            "maria",
            "\"maria ssh-ed25519 AAAA",
            "maria ssh-ed25519 AAAA",
            &format!("maria any-option {KEY}"),
            &format!("maria namespaces=git {KEY}"),
            &format!("maria namespaces=\"a\",namespaces=\"b\" {KEY}"),
            &format!("maria valid-before=\"20261301\" {KEY}"),
            &format!("maria valid-before=\"tomorrow\" {KEY}"),
            &format!("maria {}", KEY.replace("ssh-ed25519", "ssh-rsa")),
        ];
        for line in bad {
            let why = Signers::read(&format!("# one\n{line}\n")).expect_err(line);
            assert_eq!(why.line, 2, "{line}: {why}");
        }
        assert_eq!(
            Signers::read("maria namespaces=\"x\",valid-before=\"20261301\" k"),
            Err(SignersError {
                line: 1,
                what: SignerError::Time { option: "valid-before".to_owned(), text: "20261301".to_owned() },
            })
        );
    }
}
