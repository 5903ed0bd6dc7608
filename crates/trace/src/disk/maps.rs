//! The tables that the programs of [`super::DiskTrace`] share with this process, and how their keys and values are laid out.

use crate::error::{TraceError, hash, map_error, template};
use crate::histogram::BINS;
use crate::owner::OWNER_BYTES;
use baremark_sys::bpf::Map;

/// The process number of what did not fit into the table.
pub const OTHERS: u32 = u32::MAX;

/// Pairs of device, process and direction; what is more is counted together.
const MOST_ENTRIES: u32 = 1024;
const MOST_DEVICES: u32 = 512;
const MOST_OWNERS: u32 = 4096;
/// I/Os at one time.
const MOST_IN_FLIGHT: u32 = 16_384;

/// Key of an entry: device, process, direction.
pub(super) const KEY_BYTES: usize = 12;
/// Entry: count, bytes, total, queue and device nanoseconds, then the histograms.
pub(super) const ENTRY_HISTOGRAMS: usize = 40;
pub(super) const ENTRY_BYTES: usize = ENTRY_HISTOGRAMS + 8 * BINS * 8;
/// Device: outstanding, last arrival, I/Os issued, end of the last, ends of the last 16.
pub(super) const DEVICE_BYTES: usize = 32 + 8 * RING as usize;
pub(super) const RING: i16 = 16;
/// I/O under way; see the `STATE_*` places.
pub(super) const STATE_BYTES: usize = 72;
/// Indices of the array `missed`.
pub(super) const BEGAN_BEFORE: u32 = 0;
pub(super) const NOT_KEPT: u32 = 1;

/// The maps that the programs share with this process.
#[derive(Debug)]
pub(super) struct Maps {
    /// By device, process and direction: [`super::Ios`].
    pub(super) entries: Map,
    /// An [`super::Ios`] of nothing.
    pub(super) entry_template: Map,
    /// By device: what its last I/Os were.
    pub(super) devices: Map,
    /// A device of which nothing was seen.
    pub(super) device_template: Map,
    /// By the request's address: an I/O under way.
    pub(super) in_flight: Map,
    /// By process.
    pub(super) owners: Map,
    /// Counts of what is in no histogram.
    pub(super) missed: Map,
}

impl Maps {
    /// Makes them, empty.
    pub(super) fn new() -> Result<Self, TraceError> {
        let maps = Maps {
            entries: hash("entries", KEY_BYTES, ENTRY_BYTES, MOST_ENTRIES)?,
            entry_template: template("entry_zero", &[0; ENTRY_BYTES])?,
            devices: hash("devices", 4, DEVICE_BYTES, MOST_DEVICES)?,
            device_template: template("device_zero", &[0; DEVICE_BYTES])?,
            in_flight: hash("in_flight", 8, STATE_BYTES, MOST_IN_FLIGHT)?,
            owners: hash("owners", 4, OWNER_BYTES, MOST_OWNERS)?,
            missed: Map::array("missed", 8, 2).map_err(map_error("missed"))?,
        };
        for direction in 0..3_u32 {
            let key = [0, OTHERS, direction].map(u32::to_ne_bytes).concat();
            maps.entries.update(&key, &[0; ENTRY_BYTES]).map_err(map_error("entries"))?;
        }
        Ok(maps)
    }
}
