//! What goes over the link: numbers of 8 bytes, little-endian, and pages. A message is its length and so many bytes.

use std::io::{self, Read};

/// The longest message that a secondary takes.
const LONGEST: u64 = 64 << 30;

/// Adds a number to a message.
pub fn put(message: &mut Vec<u8>, number: u64) {
    message.extend_from_slice(&number.to_le_bytes());
}

/// Writes a number over one that was added before, at a place in bytes.
pub fn put_at(message: &mut [u8], at: usize, number: u64) {
    message[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

/// Takes a number from the front of a message.
///
/// # Errors
/// When it is too short.
pub fn take(message: &mut &[u8]) -> io::Result<u64> {
    let (number, rest) = message.split_first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
    *message = rest;
    Ok(u64::from_le_bytes(*number))
}

/// Takes so many bytes from the front of a message.
///
/// # Errors
/// When it is too short.
pub fn take_bytes<'m>(message: &mut &'m [u8], length: u64) -> io::Result<&'m [u8]> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let (bytes, rest) = message.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
    *message = rest;
    Ok(bytes)
}

/// Reads a whole message into `message`; false at the end of the stream.
///
/// # Errors
/// What reading gives; `InvalidData` for a length that no checkpoint has.
pub fn read(stream: &mut impl Read, message: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 8];
    match stream.read_exact(&mut length) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        done => done?,
    }
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a checkpoint of {length} bytes")));
    }
    message.clear();
    let read = stream.take(length).read_to_end(message)?;
    if read as u64 == length { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// A number that depends on the contents of a page and on its address; 0 for a page of zeros.
#[must_use]
pub fn digest(address: u64, page: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = 0_u64;
    for word in page.chunks_exact(8) {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        sum = (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    }
    if sum == 0 { 0 } else { (sum ^ address).wrapping_mul(FACTOR) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_come_back_and_a_torn_message_is_an_error() {
        let mut message = Vec::new();
        put(&mut message, 7);
        put(&mut message, 0);
        put_at(&mut message, 8, u64::MAX);
        message.extend_from_slice(b"abc");
        let mut rest = message.as_slice();
        assert_eq!((take(&mut rest).expect("a value"), take(&mut rest).expect("a value")), (7, u64::MAX));
        assert_eq!(take_bytes(&mut rest, 3).expect("a value"), b"abc");
        assert!(take(&mut rest).is_err());
        let mut framed = 3_u64.to_le_bytes().to_vec();
        framed.extend_from_slice(b"ab");
        let why = read(&mut framed.as_slice(), &mut message).expect_err("an error");
        assert_eq!(why.kind(), io::ErrorKind::UnexpectedEof);
        assert!(!read(&mut io::empty(), &mut message).expect("a value"));
    }

    #[test]
    fn a_digest_depends_on_contents_and_address() {
        let (zeros, mut page) = ([0; 4096], [0; 4096]);
        assert_eq!(digest(4096, &zeros), 0);
        page[4095] = 1;
        let one = digest(4096, &page);
        page[4095] = 2;
        assert_eq!([one, digest(4096, &page), digest(8192, &page)].iter().filter(|&&of| of == one).count(), 1);
    }
}
