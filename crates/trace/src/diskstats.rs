//! `/proc/diskstats`: the names of devices, and what is known of their I/Os where programs cannot be loaded.

use crate::disk::{DIRECTIONS, Direction};
use std::collections::BTreeMap;
use std::fs;
use std::io;

/// The I/Os of one direction that have ended since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many, after merging.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds that they took, summed; kept to the millisecond.
    pub total_ns: u64,
}

/// One line: a device or partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// In the order of [`DIRECTIONS`]; a kernel without discards has zeroes.
    pub counts: [Counts; 3],
}

impl Device {
    /// The counts of a direction.
    #[must_use]
    pub fn of(&self, direction: Direction) -> Counts {
        DIRECTIONS
            .iter()
            .zip(self.counts)
            .find(|(known, _)| **known == direction)
            .map_or(Counts::default(), |(_, counts)| counts)
    }
}

/// Devices by major and minor number.
pub type Devices = BTreeMap<(u32, u32), Device>;

/// Reads the machine's devices.
///
/// # Errors
/// Where `/proc/diskstats` cannot be read.
pub fn read() -> io::Result<Devices> {
    fs::read_to_string("/proc/diskstats").map(|text| parse(&text))
}

/// The fields of a line behind the name at which the directions begin (Documentation/admin-guide/iostats.rst).
const FIELDS: [usize; 3] = [0, 4, 11];

/// Lines that are whole; others are left out.
#[must_use]
pub fn parse(text: &str) -> Devices {
    text.lines().filter_map(device).collect()
}

fn device(line: &str) -> Option<((u32, u32), Device)> {
    let mut words = line.split_ascii_whitespace();
    let number = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let name = words.next()?.to_owned();
    let fields: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let counts = |from: usize| {
        let of = |field: usize| fields.get(from + field).copied().unwrap_or(0);
        Counts { ios: of(0), bytes: of(2).saturating_mul(512), total_ns: of(3).saturating_mul(1_000_000) }
    };
    (fields.len() >= 8).then(|| (number, Device { name, counts: FIELDS.map(counts) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_reads_writes_and_discards() {
        let text = " 254 0 vda 10 1 80 5 20 2 160 7 0 9 12 3 0 24 1 4 2\n 7 0 loop0 1 0 8 1 0 0 0 0 0 0 0\n 8 cut\n";
        let devices = parse(text);
        let vda = &devices[&(254, 0)];
        assert_eq!(vda.name, "vda");
        assert_eq!(vda.of(Direction::Read), Counts { ios: 10, bytes: 40_960, total_ns: 5_000_000 });
        assert_eq!(vda.of(Direction::Write), Counts { ios: 20, bytes: 81_920, total_ns: 7_000_000 });
        assert_eq!(vda.of(Direction::Discard), Counts { ios: 3, bytes: 12_288, total_ns: 1_000_000 });
        assert_eq!(devices[&(7, 0)].of(Direction::Discard), Counts::default());
        assert_eq!(devices.len(), 2);
    }
}
