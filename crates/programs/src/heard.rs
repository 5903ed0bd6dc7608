//! What a program said: the beginning and the end of a stream of any length.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A stream as far as it was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// Its text; what is not a UTF-8 is replaced, and what is left out of the middle is marked by a line.
    pub text: String,
    /// Bytes that came.
    pub bytes: u64,
    /// Whether some of them are left out.
    pub cut: bool,
}

impl Heard {
    /// The last lines that are not empty, oldest first.
    #[must_use]
    pub fn last_lines(&self, most: usize) -> Vec<String> {
        let lines = self.text.lines().rev().filter(|line| !line.trim().is_empty()).take(most);
        let mut lines: Vec<String> = lines.map(bearable).collect();
        lines.reverse();
        lines
    }
}

const LONGEST_LINE: usize = 400;

fn bearable(line: &str) -> String {
    let end = line.floor_char_boundary(LONGEST_LINE);
    line[..end].trim_end().to_owned()
}

/// Keeps a stream while it comes.
#[derive(Debug)]
pub struct Ear {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    /// Of each, head and tail.
    most: usize,
}

impl Ear {
    /// Keeps `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let most = usize::try_from(limit / 2).unwrap_or(usize::MAX);
        Ear { head: Vec::new(), tail: VecDeque::new(), bytes: 0, most }
    }

    /// Takes what came.
    pub fn take(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        let (head, rest) = chunk.split_at(chunk.len().min(self.most - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(self.most);
        self.tail.drain(..over);
    }

    /// What there is so far.
    #[must_use]
    pub fn heard(&self) -> Heard {
        let left_out = self.bytes - (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if left_out > 0 {
            bytes.extend_from_slice(format!("\n[{left_out} bytes left out]\n").as_bytes());
        }
        bytes.extend(&self.tail);
        Heard { text: String::from_utf8_lossy(&bytes).into_owned(), bytes: self.bytes, cut: left_out > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stream_is_kept_whole_and_of_a_long_one_both_ends() {
        let mut ear = Ear::new(8);
        ear.take(b"abc");
        ear.take(b"defg");
        assert_eq!(ear.heard(), Heard { text: "abcdefg".to_owned(), bytes: 7, cut: false });
        ear.take(b"hijklmn");
        assert_eq!(ear.heard(), Heard { text: "abcd\n[6 bytes left out]\nklmn".to_owned(), bytes: 14, cut: true });
    }

    #[test]
    fn the_last_lines_are_found_in_garbage() {
        let mut ear = Ear::new(1 << 10);
        ear.take(b"one\n\n\xff\xfe\ntwo  \n");
        assert_eq!(ear.heard().last_lines(2), ["\u{fffd}\u{fffd}", "two"]);
    }
}
