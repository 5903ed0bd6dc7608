//! Frames (RFC 9113, 4 and 6): their types, flags and codes, and how one is written.

use crate::failure::Failure;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const PRIORITISED: u8 = 0x20;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const CANCEL: u32 = 8;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const HTTP_1_1_REQUIRED: u32 = 13;
/// The longest frame that we take, which is what everybody must send at least (RFC 9113, 4.2).
pub(super) const LONGEST_FRAME: usize = 16_384;

#[inline]
pub(super) fn word(payload: &[u8]) -> Result<u32, Failure> {
    payload.try_into().map(u32::from_be_bytes).or(Err(Failure::Malformed))
}

/// Without padding (RFC 9113, 6.1).
#[inline]
pub(super) fn unpadded(flags: u8, payload: &[u8]) -> Result<&[u8], Failure> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(Failure::Malformed)?;
    let kept = rest.len().checked_sub(usize::from(padding)).ok_or(Failure::Malformed)?;
    Ok(&rest[..kept])
}

#[inline]
pub(super) fn head(length: usize, kind: u8, flags: u8, id: u32, out: &mut Vec<u8>) {
    // No frame of ours is longer than 16,384 bytes.
    out.extend_from_slice(&u32::try_from(length).unwrap_or(0).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&id.to_be_bytes());
}

#[inline]
pub(super) fn frame(kind: u8, flags: u8, id: u32, payload: &[u8], out: &mut Vec<u8>) {
    head(payload.len(), kind, flags, id, out);
    out.extend_from_slice(payload);
}
