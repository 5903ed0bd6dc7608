//! Keys, and values by which a wrong answer is found: each says of which key and version it is, under a checksum that nobody else has made.

/// The least length of a value: its key, its version and its checksum.
pub const SHORTEST: usize = 24;
/// Bytes of a key: `key:` and twelve digits.
pub const KEY_BYTES: usize = 16;
/// Places in the pool where the rest of a value can begin.
const PLACES: usize = 1 << 16;

/// Makes values of one length, and reads them back.
///
/// Of a value all bytes but the head are a piece of a pool of random bytes, from a place that the checksum decides: to write and to check one
/// costs a copy and a comparison, not a generator.
#[derive(Clone, Debug)]
pub struct TaggedValues {
    length: usize,
    seed: u64,
    pool: Vec<u8>,
}

impl TaggedValues {
    /// TaggedValues of `length` bytes, [`SHORTEST`] or more. Those of another seed are of somebody else.
    #[must_use]
    pub fn new(length: usize, seed: u64) -> TaggedValues {
        let length = length.max(SHORTEST);
        let words = (PLACES + length).div_ceil(8) as u64;
        let pool = (0..words).flat_map(|word| mixed(seed ^ mixed(word)).to_le_bytes()).collect();
        TaggedValues { length, seed, pool }
    }

    /// Bytes of a value.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Appends the value of a key in a version.
    pub fn write(&self, out: &mut Vec<u8>, key: u64, version: u64) {
        let checksum = self.checksum(key, version);
        for word in [key, version, checksum] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(self.rest(checksum));
    }

    /// The version of a value of `key`; `None` where it is not a value that was ever written for it.
    #[must_use]
    pub fn version(&self, value: &[u8], key: u64) -> Option<u64> {
        let (head, rest) = value.split_at_checked(SHORTEST)?;
        let word = |at: usize| head[8 * at..8 * at + 8].try_into().map_or(0, u64::from_le_bytes);
        let (version, checksum) = (word(1), word(2));
        (word(0) == key && checksum == self.checksum(key, version) && rest == self.rest(checksum)).then_some(version)
    }

    fn checksum(&self, key: u64, version: u64) -> u64 {
        mixed(self.seed ^ mixed(key ^ mixed(version)))
    }

    fn rest(&self, checksum: u64) -> &[u8] {
        let place = usize::try_from(checksum).unwrap_or(0) % PLACES;
        &self.pool[place..place + self.length - SHORTEST]
    }
}

/// Appends a key's name as a word of a command.
pub fn write_key(out: &mut Vec<u8>, mut key: u64) {
    let mut word = *b"$16\r\nkey:000000000000\r\n";
    for digit in word[9..21].iter_mut().rev() {
        *digit = b'0' + u8::try_from(key % 10).unwrap_or(0);
        key /= 10;
    }
    out.extend_from_slice(&word);
}

/// The finalizer of `SplitMix64` (Steele, Lea & Flood 2014): a bijection that spreads each bit over all.
fn mixed(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_by_its_key_and_any_other_byte_is_found() {
        for length in [SHORTEST, 25, 100, 5000] {
            let values = TaggedValues::new(length, 7);
            let mut value = Vec::new();
            values.write(&mut value, 12, 3);
            assert_eq!((value.len(), values.version(&value, 12)), (length, Some(3)));
            assert_eq!(values.version(&value, 13), None, "of another key");
            assert_eq!(TaggedValues::new(length, 8).version(&value, 12), None, "of another run");
            assert_eq!(values.version(&value[..length - 1], 12), None, "cut short");
            for at in 0..length {
                let mut wrong = value.clone();
                wrong[at] ^= 0x10;
                assert_eq!(values.version(&wrong, 12), None, "byte {at} of {length}");
            }
        }
    }

    #[test]
    fn a_key_has_twelve_digits() {
        let mut out = Vec::new();
        write_key(&mut out, 90_071);
        assert_eq!(out, b"$16\r\nkey:000000090071\r\n");
        assert_eq!(out.len() - "$16\r\n\r\n".len(), KEY_BYTES);
    }
}
