//! Checksums of rows: CRC-32 over every column, each with its type and length, so that no two rows share an encoding.
//!
//! A row's checksum is written with the row and compared whenever it is read. It finds any damage of up to 32 bits in a row
//! and all but one in four billion of the rest. Rows that are missing altogether are found by the counts and the sum of
//! checksums that the row's run holds (`heads`).

use crc32fast::Hasher;

/// A checksum in the making.
pub(crate) struct Checksum(Hasher);

impl Checksum {
    /// Begins the checksum of a row of `table`.
    pub(crate) fn of(table: &str) -> Self {
        Checksum(Hasher::new()).text(table)
    }

    /// Adds a text.
    pub(crate) fn text(self, text: &str) -> Self {
        self.add(b't', text.as_bytes())
    }

    /// Adds a text that may be absent.
    pub(crate) fn maybe_text(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(text),
            None => self.add(b'-', &[]),
        }
    }

    /// Adds a number.
    pub(crate) fn number(self, number: i64) -> Self {
        self.add(b'i', &number.to_le_bytes())
    }

    /// Adds a number that may be absent.
    pub(crate) fn maybe_number(self, number: Option<i64>) -> Self {
        match number {
            Some(number) => self.number(number),
            None => self.add(b'-', &[]),
        }
    }

    /// Adds a real number that may be absent.
    pub(crate) fn maybe_real(self, real: Option<f64>) -> Self {
        match real {
            Some(real) => self.add(b'r', &real.to_bits().to_le_bytes()),
            None => self.add(b'-', &[]),
        }
    }

    /// The checksum.
    pub(crate) fn done(self) -> u32 {
        self.0.finalize()
    }

    fn add(mut self, kind: u8, bytes: &[u8]) -> Self {
        self.0.update(&[kind]);
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }
}

/// A stored checksum that is not that of what was read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("checksum mismatch (stored {stored:08x}, computed {computed:08x})")]
pub(crate) struct Mismatch {
    stored: i64,
    computed: u32,
}

/// Compares a stored checksum with the one computed from what was read. `None` is a row without one, written by an earlier
/// version.
///
/// # Errors
/// That they differ, with both values.
pub(crate) fn compare(stored: Option<i64>, computed: u32) -> Result<(), Mismatch> {
    match stored {
        Some(stored) if stored != i64::from(computed) => Err(Mismatch { stored, computed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_do_not_run_into_each_other() {
        let two = |a: &str, b: &str| Checksum::of("t").text(a).text(b).done();
        assert_ne!(two("ab", "c"), two("a", "bc"));
        assert_ne!(Checksum::of("t").maybe_text(None).done(), Checksum::of("t").text("").done());
        assert_ne!(Checksum::of("t").number(0).done(), Checksum::of("t").maybe_real(Some(0.0)).done());
    }

    #[test]
    fn any_flipped_bit_is_found() {
        let sum = |bytes: &[u8]| Checksum::of("t").text(&String::from_utf8_lossy(bytes)).done();
        let text = b"{\"status\":\"ok\"}".to_vec();
        for bit in 0..text.len() * 7 {
            let mut other = text.clone();
            other[bit / 7] ^= 1 << (bit % 7);
            assert_ne!(sum(&text), sum(&other), "bit {bit}");
        }
        assert!(compare(Some(7), 7).is_ok() && compare(None, 7).is_ok());
        let why = compare(Some(1), 7).expect_err("they differ").to_string();
        assert_eq!(why, "checksum mismatch (stored 00000001, computed 00000007)");
    }
}
