//! Messages of rtnetlink(7): a header, a structure of the kind of object, and attributes, in the byte order of the machine. Numbers and layouts are
//! those of linux/netlink.h, linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h and linux/pkt_sched.h.

use baremark_sys::netlink::{self, ATTRIBUTE, number, short};

/// Bytes of `struct nlmsghdr`.
pub(crate) const HEADER: usize = 16;

pub(crate) const REQUEST: u16 = 0x1;
pub(crate) const ACK: u16 = 0x4;
pub(crate) const DUMP: u16 = 0x300;
pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const EXCLUSIVE: u16 = 0x200;
pub(crate) const CREATE: u16 = 0x400;

const ERROR: u16 = 2;
const DONE: u16 = 3;

/// What a message is about. Its structure comes after the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// RTM_*.
    pub(crate) number: u16,
    /// Bytes of its structure.
    pub(crate) structure: usize,
}

/// With `struct ifinfomsg`: family, type, index, flags, mask of changes.
const fn link(number: u16) -> Kind {
    Kind { number, structure: 16 }
}

pub(crate) const NEW_LINK: Kind = link(16);
pub(crate) const DELETE_LINK: Kind = link(17);
pub(crate) const GET_LINK: Kind = link(18);
pub(crate) const SET_LINK: Kind = link(19);
/// With `struct ifaddrmsg`: family, length of the prefix, flags, scope, index.
pub(crate) const NEW_ADDRESS: Kind = Kind { number: 20, structure: 8 };
pub(crate) const GET_ADDRESS: Kind = Kind { number: 22, ..NEW_ADDRESS };
/// With `struct rtmsg`: family, lengths of destination and source, and what is not used here.
pub(crate) const NEW_ROUTE: Kind = Kind { number: 24, structure: 12 };
pub(crate) const GET_ROUTE: Kind = Kind { number: 26, ..NEW_ROUTE };
/// With `struct tcmsg`: family, index, handle, parent, info.
pub(crate) const NEW_QDISC: Kind = Kind { number: 36, structure: 20 };

/// A message without its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    kind: Kind,
    /// The structure, then the attributes.
    body: Vec<u8>,
}

impl Message {
    /// One whose structure is zero.
    pub(crate) fn new(kind: Kind) -> Message {
        Message { kind, body: vec![0; kind.structure] }
    }

    /// With these bytes of its structure.
    pub(crate) fn at<const N: usize>(mut self, place: usize, bytes: [u8; N]) -> Message {
        self.body[place..place + N].copy_from_slice(&bytes);
        self
    }

    /// With one more attribute.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Message {
        put(&mut self.body, kind, value);
        self
    }

    /// With one more attribute, a text that ends with a zero.
    pub(crate) fn with_text(self, kind: u16, text: &str) -> Message {
        self.with(kind, &terminated(text))
    }

    /// Its structure and attributes, as they stand in an attribute of another message.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The message as it is sent.
    pub(crate) fn bytes(&self, flags: u16, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(HEADER + self.body.len()).unwrap_or(u32::MAX);
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([self.kind.number, flags].map(u16::to_ne_bytes).concat());
        // The kernel knows which socket it came from.
        bytes.extend([sequence, 0].map(u32::to_ne_bytes).concat());
        bytes.extend(&self.body);
        bytes
    }
}

/// A text as the kernel keeps it.
pub(crate) fn terminated(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// An attribute at the end of `into`, filled up to a multiple of four bytes.
pub(crate) fn put(into: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(ATTRIBUTE + value.len()).unwrap_or(u16::MAX);
    into.extend([length, kind].map(u16::to_ne_bytes).concat());
    into.extend(value);
    into.resize(into.len().next_multiple_of(ATTRIBUTE), 0);
}

/// A part of what the kernel answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// The request was carried out, or its answer is complete.
    Done,
    /// It was refused, with this number of errno.
    Refused(i32),
    /// An object: its number, and its structure and attributes.
    Object(u16, &'a [u8]),
}

/// The messages of a datagram that answer request `sequence`. What is cut off is no message.
pub(crate) fn parts(mut bytes: &[u8], sequence: u32) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    while let (Some(length), Some(kind), Some(of)) = (number(bytes, 0), short(bytes, 4), number(bytes, 8)) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(body) = bytes.get(HEADER..length) else { break };
        if of == sequence {
            let code = number(body, 0).map_or(0, u32::cast_signed);
            parts.push(match kind {
                ERROR | DONE if code >= 0 => Part::Done,
                ERROR | DONE => Part::Refused(code.saturating_neg()),
                _ => Part::Object(kind, body),
            });
        }
        bytes = bytes.get(length.next_multiple_of(ATTRIBUTE)..).unwrap_or_default();
    }
    parts
}

/// The attributes after the structure of an object. What is cut off is none.
pub(crate) fn attributes(body: &[u8], kind: Kind) -> impl Iterator<Item = (u16, &[u8])> {
    netlink::attributes(body.get(kind.structure..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_laid_out_as_the_kernel_reads_it() {
        let message =
            Message::new(SET_LINK).at(4, 7_u32.to_ne_bytes()).with(4, &1500_u32.to_ne_bytes()).with_text(3, "ab");
        let bytes = message.bytes(REQUEST | ACK, 9);
        assert_eq!((number(&bytes, 0), bytes.len()), (Some(48), 48));
        assert_eq!((short(&bytes, 4), short(&bytes, 6), number(&bytes, 8)), (Some(19), Some(5), Some(9)));
        assert_eq!(number(&bytes, HEADER + 4), Some(7), "the index of the structure");
        assert_eq!((short(&bytes, 32), short(&bytes, 34), number(&bytes, 36)), (Some(8), Some(4), Some(1500)));
        // A text of three bytes with its zero, and one to fill up.
        assert_eq!((short(&bytes, 40), &bytes[44..]), (Some(7), &b"ab\0\0"[..]));
    }

    #[test]
    fn answers_are_told_apart_and_others_are_left_out() {
        let error = |code: i32, sequence: u32| {
            let head = [20_u32.to_ne_bytes().to_vec(), [ERROR, 0].map(u16::to_ne_bytes).concat()].concat();
            [head, sequence.to_ne_bytes().to_vec(), vec![0; 4], code.to_ne_bytes().to_vec()].concat()
        };
        let object = Message::new(NEW_LINK).with_text(3, "eth0").bytes(0, 2);
        let all = [error(-19, 1), object.clone(), error(-17, 2), error(0, 2)].concat();
        let found = parts(&all, 2);
        assert_eq!(found, [Part::Object(16, &object[HEADER..]), Part::Refused(17), Part::Done]);
        let Part::Object(_, body) = found[0] else { panic!("{found:?}") };
        assert_eq!(attributes(body, NEW_LINK).collect::<Vec<_>>(), [(3, &b"eth0\0"[..])]);
    }

    /// Neither a length of nothing nor one beyond the end is followed.
    #[test]
    fn what_is_cut_off_ends_the_reading() {
        let whole = Message::new(NEW_LINK).with_text(3, "eth0").bytes(0, 2);
        for end in 0..whole.len() {
            assert_eq!(parts(&whole[..end], 2), [], "{end}");
        }
        for length in [0_u32, 15, u32::MAX] {
            let mut odd = whole.clone();
            odd[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(parts(&odd, 2), []);
        }
    }
}
