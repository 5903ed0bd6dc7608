//! Fingerprints of source files, computed by the compiler: what depends on a source's text keeps 32 characters of it instead of the text.
//!
//! Data that is kept is of one schema and one generator, so that its record names the sources that made it. The sum is FNV-1a of 128 bits (Fowler, Noll,
//! Vo; draft-eastlake-fnv): it notices changes of one's own text, and is no protection from somebody who looks for a text of the same sum.

/// Offset basis and prime of FNV-1a of 128 bits.
const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The sum of these bytes as 32 hexadecimal digits, the highest first.
#[must_use]
pub const fn of(bytes: &[u8]) -> [u8; 32] {
    let (mut sum, mut at) = (BASIS, 0);
    while at < bytes.len() {
        sum = (sum ^ bytes[at] as u128).wrapping_mul(PRIME);
        at += 1;
    }
    let (mut digits, mut at) = ([0; 32], 0);
    while at < digits.len() {
        let [digit, ..] = (sum >> (124 - 4 * at)).to_le_bytes();
        digits[at] = b"0123456789abcdef"[(digit & 15) as usize];
        at += 1;
    }
    digits
}

/// The fingerprint of a file, named relative to the source in which this is, as text. The file itself does not go into the program.
#[macro_export]
macro_rules! fingerprint {
    ($path:literal) => {{
        const SUM: [u8; 32] = $crate::fingerprint::of(include_bytes!($path));
        const TEXT: &str = match core::str::from_utf8(&SUM) {
            Ok(text) => text,
            Err(_) => panic!("digits are text"),
        };
        TEXT
    }};
}

#[cfg(test)]
mod tests {
    use super::of;

    /// Test vectors of draft-eastlake-fnv for 128 bits.
    #[test]
    fn sums_are_those_of_the_draft() {
        let cases = [
            ("", "6c62272e07bb014262b821756295c58d"),
            ("a", "d228cb696f1a8caf78912b704e4a8964"),
            ("foobar", "343e1662793c64bf6f0d3597ba446f18"),
        ];
        for (text, sum) in cases {
            assert_eq!(of(text.as_bytes()), sum.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_file_has_the_sum_of_its_text() {
        let own = crate::fingerprint!("fingerprint.rs");
        assert_eq!(own.as_bytes(), of(include_str!("fingerprint.rs").as_bytes()));
        assert_ne!(own, crate::fingerprint!("lib.rs"));
    }
}
