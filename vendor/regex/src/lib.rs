//! The part of the crate `regex` that mysql_common uses, on regex-lite, which the program has anyway.
//!
//! mysql_common reads a server's version, a public key and dates by regular expressions, and takes `regex` with all its features for it: half a megabyte of
//! the program. `[patch.crates-io]` of the workspace puts this in its place. What is matched is ASCII: text that is not UTF-8 matches nothing, and `\d` is a
//! digit from 0 to 9, where `regex` takes those of all scripts, which mysql_common could not read as numbers.

/// Expressions on bytes.
pub mod bytes {
    use std::str::from_utf8;

    /// A compiled expression.
    #[derive(Clone, Debug)]
    pub struct Regex(regex_lite::Regex);

    /// The groups of a match.
    #[derive(Debug)]
    pub struct Captures<'h>(regex_lite::Captures<'h>);

    /// One group of a match.
    #[derive(Clone, Copy, Debug)]
    pub struct Match<'h>(&'h [u8]);

    impl Regex {
        /// Compiles an expression.
        ///
        /// # Errors
        /// An expression that regex-lite does not know.
        pub fn new(expression: &str) -> Result<Regex, regex_lite::Error> {
            regex_lite::Regex::new(expression).map(Regex)
        }

        /// Whether it matches anywhere.
        #[must_use]
        pub fn is_match(&self, haystack: &[u8]) -> bool {
            from_utf8(haystack).is_ok_and(|text| self.0.is_match(text))
        }

        /// The first match.
        #[must_use]
        pub fn captures<'h>(&self, haystack: &'h [u8]) -> Option<Captures<'h>> {
            self.0.captures(from_utf8(haystack).ok()?).map(Captures)
        }
    }

    impl<'h> Captures<'h> {
        /// The group of this number; 0 is the whole match.
        #[must_use]
        pub fn get(&self, group: usize) -> Option<Match<'h>> {
            self.0.get(group).map(|found| Match(found.as_str().as_bytes()))
        }
    }

    impl<'h> Match<'h> {
        /// What was matched.
        #[must_use]
        pub fn as_bytes(&self) -> &'h [u8] {
            self.0
        }
    }
}
