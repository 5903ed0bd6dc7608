//! How netlink lays out numbers and attributes, in the byte order of the machine (`linux/netlink.h`, `linux/rtnetlink.h`).

/// Bytes of `struct rtattr` before its value, and what each begins at a multiple of.
pub const ATTRIBUTE: usize = 4;
/// The flags in the type of an attribute are not part of its number.
const TYPE_MASK: u16 = 0x3fff;

/// The attributes in `rest`, each with its number. What is cut off is none.
pub fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, number) = (usize::from(short(rest, 0)?), short(rest, 2)?);
        let value = rest.get(ATTRIBUTE..length)?;
        rest = rest.get(length.next_multiple_of(ATTRIBUTE)..).unwrap_or_default();
        Some((number & TYPE_MASK, value))
    })
}

/// The number of eight bytes at a place.
#[must_use]
pub fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number of four bytes at a place.
#[must_use]
pub fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number of two bytes at a place.
#[must_use]
pub fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_with_the_bytes() {
        let bytes: Vec<u8> = (1..=9).collect();
        assert_eq!(long(&bytes, 0), Some(u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8])));
        assert_eq!((long(&bytes, 1).is_some(), long(&bytes, 2), long(&bytes, usize::MAX)), (true, None, None));
        assert_eq!((number(&bytes, 5).is_some(), number(&bytes, 6)), (true, None));
        assert_eq!((short(&bytes, 7).is_some(), short(&bytes, 8)), (true, None));
    }

    /// Neither a length of nothing nor one beyond the end is followed.
    #[test]
    fn attributes_end_where_one_is_cut_off() {
        let of = |length: u16| [length.to_ne_bytes(), 0x8003_u16.to_ne_bytes()].concat();
        let two = [of(5), vec![7, 0, 0, 0], of(4)].concat();
        assert_eq!(attributes(&two).collect::<Vec<_>>(), [(3, &[7_u8][..]), (3, &[])]);
        for length in [0, 3, u16::MAX] {
            assert_eq!(attributes(&[of(length), vec![0; 8]].concat()).count(), 0, "{length}");
        }
    }
}
