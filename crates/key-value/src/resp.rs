//! The protocol of Redis, version 2 (RESP2): commands as they are sent, and replies as they come, in however many pieces.

/// The longest line of a reply: a status, an error, a number.
const LONGEST_LINE: usize = 64 << 10;

/// A reply. Arrays are not among them: no command that is sent here has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'b> {
    /// A status, such as `OK`.
    Status(&'b [u8]),
    /// An error, such as `OOM command not allowed`.
    Error(&'b [u8]),
    /// A number.
    Integer(i64),
    /// A string of bytes.
    Bulk(&'b [u8]),
    /// No such key.
    Nil,
}

impl Reply<'_> {
    /// The reply as a message shows it, without control characters, and of a long one the beginning.
    #[must_use]
    pub fn shown(&self) -> String {
        let text = |bytes: &[u8]| {
            let line = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
            line.chars().map(|c| if c.is_control() { '.' } else { c }).collect::<String>()
        };
        match self {
            Reply::Status(line) => format!("status {}", text(line)),
            Reply::Error(line) => format!("error {}", text(line)),
            Reply::Integer(number) => format!("number {number}"),
            Reply::Bulk(bytes) => format!("{} B", bytes.len()),
            Reply::Nil => "nil".to_owned(),
        }
    }
}

/// What is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A first byte that begins no reply to what was asked.
    #[error("a reply begins with {0:?}, where +, -, : or $ can be; is it a server of the protocol RESP2?")]
    Type(char),
    /// A number or a length that is none.
    #[error("a reply has {0:?} in the place of a number")]
    Number(String),
    /// A reply that is longer than what was asked for can be.
    #[error("a reply has {0} B or more, where at most {1} B were expected")]
    Long(u64, usize),
    /// A string whose end is not where its length says.
    #[error("a reply of {0} B has no line break at its end")]
    Unended(usize),
}

/// The first reply in `bytes` and the bytes that it takes; `None` where more must come. `most` is the longest string that was asked for.
///
/// # Errors
/// What is no reply, however it would go on.
pub fn parse(bytes: &[u8], most: usize) -> Result<Option<(Reply<'_>, usize)>, ProtocolError> {
    // The reply to nearly every command that writes.
    if bytes.starts_with(b"+OK\r\n") {
        return Ok(Some((Reply::Status(b"OK"), 5)));
    }
    let Some(&first) = bytes.first() else { return Ok(None) };
    if !matches!(first, b'+' | b'-' | b':' | b'$') {
        return Err(ProtocolError::Type(char::from(first)));
    }
    let Some(end) = bytes.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n') else {
        let long = bytes.len() >= LONGEST_LINE;
        return if long { Err(ProtocolError::Long(LONGEST_LINE as u64, LONGEST_LINE)) } else { Ok(None) };
    };
    let line = bytes[1..end].strip_suffix(b"\r").ok_or(ProtocolError::Unended(end))?;
    let after = end + 1;
    let reply = match first {
        b'+' => Reply::Status(line),
        b'-' => Reply::Error(line),
        b':' => Reply::Integer(number(line)?),
        _ => return bulk(bytes, after, number(line)?, most),
    };
    Ok(Some((reply, after)))
}

fn bulk(bytes: &[u8], at: usize, length: i64, most: usize) -> Result<Option<(Reply<'_>, usize)>, ProtocolError> {
    if length == -1 {
        return Ok(Some((Reply::Nil, at)));
    }
    let Ok(length) = usize::try_from(length) else { return Err(ProtocolError::Number(length.to_string())) };
    if length > most {
        return Err(ProtocolError::Long(length as u64, most));
    }
    let Some(whole) = bytes.get(at..at + length + 2) else { return Ok(None) };
    let string = whole.strip_suffix(b"\r\n").ok_or(ProtocolError::Unended(length))?;
    Ok(Some((Reply::Bulk(string), at + length + 2)))
}

fn number(line: &[u8]) -> Result<i64, ProtocolError> {
    let read = || std::str::from_utf8(line).ok()?.parse().ok();
    read().ok_or_else(|| ProtocolError::Number(String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned()))
}

/// Appends a command.
pub fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    head(out, b'*', words.len());
    for word in words {
        head(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a length with its type.
pub(crate) fn head(out: &mut Vec<u8>, kind: u8, mut length: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(length % 10).unwrap_or(0);
        length /= 10;
        if length == 0 {
            break;
        }
    }
    out.push(kind);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// What has come over a connection, and of it what was not read yet.
#[derive(Debug, Default)]
pub struct Received {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

/// Room for one read at least.
const ROOM: usize = 16 << 10;

impl Received {
    /// Where the next bytes go; [`Received::took`] says how many came.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.bytes.len() - self.end < ROOM {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            // A long string is read in fewer and fewer pieces.
            let setup = (self.end + ROOM).max(2 * self.end);
            if self.bytes.len() < setup {
                self.bytes.resize(setup, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// So many bytes have come into the room.
    pub fn took(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// The next whole reply.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn next(&mut self, most: usize) -> Result<Option<Reply<'_>>, ProtocolError> {
        let Received { bytes, start, end } = self;
        Ok(parse(&bytes[*start..*end], most)?.map(|(reply, used)| {
            *start += used;
            reply
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(pieces: &[&[u8]], most: usize) -> Result<Vec<String>, ProtocolError> {
        let (mut received, mut found) = (Received::default(), Vec::new());
        for piece in pieces {
            let mut left = *piece;
            while !left.is_empty() {
                let room = received.room();
                let count = room.len().min(left.len());
                room[..count].copy_from_slice(&left[..count]);
                received.took(count);
                left = &left[count..];
                while let Some(reply) = received.next(most)? {
                    found.push(match reply {
                        Reply::Bulk(bytes) => format!("bulk {}", String::from_utf8_lossy(bytes)),
                        other => other.shown(),
                    });
                }
            }
        }
        Ok(found)
    }

    const MIXED: &[u8] = b"+OK\r\n$5\r\nab\r\nc\r\n$-1\r\n:-7\r\n-ERR no such\r\n$0\r\n\r\n+PONG\r\n";

    #[test]
    fn each_type_of_reply_is_read() {
        let setup = ["status OK", "bulk ab\r\nc", "nil", "number -7", "error ERR no such", "bulk ", "status PONG"];
        assert_eq!(all(&[MIXED], 5), Ok(setup.map(str::to_owned).to_vec()));
    }

    #[test]
    fn what_is_no_reply_is_refused_as_soon_as_that_is_seen() {
        let refused = |bytes: &[u8]| parse(bytes, 10).expect_err("no reply");
        assert_eq!(refused(b"HTTP/1.1 400"), ProtocolError::Type('H'));
        assert_eq!(refused(b"*1\r\n"), ProtocolError::Type('*'));
        assert_eq!(refused(b"$1x\r\n"), ProtocolError::Number("1x".to_owned()));
        assert_eq!(refused(b"$-2\r\n"), ProtocolError::Number("-2".to_owned()));
        assert_eq!(refused(b"$11\r\n"), ProtocolError::Long(11, 10));
        assert_eq!(refused(b"$9223372036854775807\r\n"), ProtocolError::Long(i64::MAX as u64, 10));
        assert_eq!(refused(b"$2\r\nabcd"), ProtocolError::Unended(2));
        assert_eq!(refused(b"+OK\n"), ProtocolError::Unended(3));
        let endless = vec![b'+'; LONGEST_LINE];
        assert_eq!(refused(&endless), ProtocolError::Long(LONGEST_LINE as u64, LONGEST_LINE));
        assert_eq!(parse(&endless[1..], 10), Ok(None));
    }

    #[test]
    fn a_command_has_the_lengths_of_its_words() {
        let mut out = Vec::new();
        command(&mut out, &[b"SET", b"key:1", b"", b"0123456789"]);
        assert_eq!(out, b"*4\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n$0\r\n\r\n$10\r\n0123456789\r\n");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn replies_in_pieces_are_the_same(cuts in proptest::collection::vec(0..MIXED.len(), 0..6), long in 0..70_000_usize) {
            let mut bytes = MIXED.to_vec();
            head(&mut bytes, b'$', long);
            bytes.extend(std::iter::repeat_n(b'x', long));
            bytes.extend_from_slice(b"\r\n+OK\r\n");
            let mut cuts: Vec<usize> = cuts.into_iter().chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            let found = all(&pieces, 70_000).expect("replies");
            prop_assert_eq!(found.len(), 9);
            prop_assert_eq!(found[7].len(), "bulk ".len() + long);
            prop_assert_eq!(&found, &all(&[&bytes], 70_000).expect("replies"));
        }

        #[test]
        fn strange_bytes_are_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&bytes, 20);
        }
    }
}
