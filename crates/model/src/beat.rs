//! What a guest that is only watched reports: lines over its port, and records on its disk.
//!
//! A line is `beat NUMBER RECORD`: NUMBER counts lines from the guest's start, RECORD is the last record that its disk has kept. A record
//! lies in a slot of its own at the beginning of the disk; slots are used in turn. So whoever watches sees that a guest went on where it was and did
//! not start anew, and that a copy of its disk has everything that the guest was promised.

/// Slots for records, each of a page.
const SLOTS: usize = 64;
const SLOT_BYTES: usize = 4096;
/// How a record begins; its number follows, little-endian.
const MAGIC: &[u8; 8] = b"baremark";
const NUMBER: std::ops::Range<usize> = MAGIC.len()..MAGIC.len() + size_of::<u64>();
/// What the records take at the beginning of a disk.
pub const LOG_BYTES: usize = SLOTS * SLOT_BYTES;

/// A line of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Lines since the guest's start, this one included.
    pub number: u64,
    /// The last record that its disk has kept; 0 for none.
    pub record: u64,
}

/// The line of these two numbers.
#[must_use]
pub fn line(number: u64, record: u64) -> String {
    format!("beat {number} {record}\n")
}

/// What a line says; `None` for any other line.
#[must_use]
pub fn read(line: &str) -> Option<Beat> {
    let (number, record) = line.trim_end().strip_prefix("beat ")?.split_once(' ')?;
    Some(Beat { number: number.parse().ok()?, record: record.parse().ok()? })
}

/// Where a record lies on a disk, and its bytes.
#[must_use]
pub fn record(number: u64) -> (u64, Vec<u8>) {
    let mut bytes = vec![0; SLOT_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[NUMBER].copy_from_slice(&number.to_le_bytes());
    (number % SLOTS as u64 * SLOT_BYTES as u64, bytes)
}

/// The number of the last record in the first [`LOG_BYTES`] of a disk; 0 for none.
#[must_use]
pub fn last_record(log: &[u8]) -> u64 {
    let number = |slot: &[u8]| {
        let number = slot.get(NUMBER).filter(|_| slot.starts_with(MAGIC))?;
        Some(u64::from_le_bytes(number.try_into().ok()?))
    };
    log.chunks(SLOT_BYTES).filter_map(number).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written_and_others_are_not() {
        assert_eq!(read(&line(7, 3)), Some(Beat { number: 7, record: 3 }));
        for other in ["", "beat", "beat 7", "beat 7 x", "beats 7 3", "baremark guest ready\n"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn the_last_of_many_records_is_found_also_after_the_slots_were_used_twice() {
        let mut log = vec![0xA5; LOG_BYTES];
        assert_eq!(last_record(&log), 0, "no record at all");
        for number in 1..=150 {
            let (at, bytes) = record(number);
            let at = usize::try_from(at).expect("a slot");
            log[at..at + bytes.len()].copy_from_slice(&bytes);
            assert_eq!(last_record(&log), number);
        }
    }
}
