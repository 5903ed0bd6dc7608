//! I/Os of block devices, one by one: by device, process and direction, how large, how far from the last, how long, with how many others.
//!
//! An I/O is a request as `/proc/diskstats` counts it: what was merged into one request is one I/O, and passed-through commands and the
//! flushes between are none. It begins with `block_io_start`, reaches the device with `block_rq_issue` (the last, where the driver gave
//! it back) and ends with `block_io_done`. Devices that keep no requests of their own (zram, device mapper, md) show nothing here; what
//! they send to the devices below does.

mod maps;
mod programs;

pub use maps::OTHERS;

use crate::btf::Btf;
use crate::error::{TraceError, attach, load, map_error};
use crate::histogram::{BINS, Histogram};
use crate::owner::{OWNER_BYTES, Owner};
use baremark_sys::bpf::{Link, Program};
use maps::Maps;
use serde::Serialize;
use std::collections::BTreeMap;

/// What an I/O does, as `/proc/diskstats` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes, also of zeroes.
    Write,
    /// Discards.
    Discard,
}

/// Every direction, in the order of the programs' numbers.
pub const DIRECTIONS: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Discard];

impl Direction {
    /// As a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Discard => "discard",
        }
    }
}

/// Whose I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The whole device: major and minor number.
    pub device: (u32, u32),
    /// The process that made the request (its thread group).
    pub process: u32,
    /// What they do.
    pub direction: Direction,
}

/// The I/Os of one key. Every histogram has each I/O at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ios {
    /// How many have ended.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds from request to end, summed.
    pub total_ns: u64,
    /// Nanoseconds from request to issue, summed.
    pub queue_ns: u64,
    /// Nanoseconds from issue to end, summed.
    pub device_ns: u64,
    /// Bytes; of those that reached the device.
    pub size: Histogram,
    /// Sectors of 512 bytes from the end of the device's last I/O to the beginning, forwards or backwards.
    pub seek_last: Histogram,
    /// The same to the nearest of the device's last 16 I/Os: small with several sequential streams.
    pub seek_near: Histogram,
    /// Nanoseconds from request to issue.
    pub queue: Histogram,
    /// Nanoseconds from issue to end.
    pub device: Histogram,
    /// Nanoseconds from request to end.
    pub total: Histogram,
    /// Other I/Os of the device under way when it began.
    pub outstanding: Histogram,
    /// Nanoseconds since the device's last I/O began.
    pub inter_arrival: Histogram,
}

impl Ios {
    fn from_bytes(bytes: &[u8]) -> Self {
        let word =
            |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let histogram = |number: usize| {
            let from = maps::ENTRY_HISTOGRAMS + number * BINS * 8;
            Histogram::from_bytes(bytes.get(from..from + BINS * 8).unwrap_or_default())
        };
        let [size, seek_last, seek_near, queue, device, total, outstanding, inter_arrival] =
            std::array::from_fn(histogram);
        let [count, bytes, total_ns, queue_ns, device_ns] = std::array::from_fn(|number| word(8 * number));
        Ios {
            count,
            bytes,
            total_ns,
            queue_ns,
            device_ns,
            size,
            seek_last,
            seek_near,
            queue,
            device,
            total,
            outstanding,
            inter_arrival,
        }
    }

    /// The histograms with their names and units.
    #[must_use]
    pub fn histograms(&self) -> [(&'static str, &'static str, &Histogram); 8] {
        [
            ("size", "B", &self.size),
            ("seek_last", "sectors", &self.seek_last),
            ("seek_near", "sectors", &self.seek_near),
            ("queue", "ns", &self.queue),
            ("device", "ns", &self.device),
            ("total", "ns", &self.total),
            ("outstanding", "I/Os", &self.outstanding),
            ("inter_arrival", "ns", &self.inter_arrival),
        ]
    }

    fn histograms_mut(&mut self) -> [&mut Histogram; 8] {
        [
            &mut self.size,
            &mut self.seek_last,
            &mut self.seek_near,
            &mut self.queue,
            &mut self.device,
            &mut self.total,
            &mut self.outstanding,
            &mut self.inter_arrival,
        ]
    }

    fn sums(&self) -> [u64; 5] {
        [self.count, self.bytes, self.total_ns, self.queue_ns, self.device_ns]
    }

    fn set_sums(&mut self, sums: [u64; 5]) {
        [self.count, self.bytes, self.total_ns, self.queue_ns, self.device_ns] = sums;
    }

    /// Adds those of another key.
    pub fn merge(&mut self, other: &Ios) {
        let (mine, theirs) = (self.sums(), other.sums());
        self.set_sums(std::array::from_fn(|number| mine[number] + theirs[number]));
        for (to, (.., from)) in self.histograms_mut().into_iter().zip(other.histograms()) {
            to.merge(from);
        }
    }

    /// Those since `before`.
    #[must_use]
    pub fn since(&self, before: &Ios) -> Ios {
        let mut grown = self.clone();
        let (now, then) = (self.sums(), before.sums());
        grown.set_sums(std::array::from_fn(|number| now[number].saturating_sub(then[number])));
        for (to, (.., from)) in grown.histograms_mut().into_iter().zip(before.histograms()) {
            *to = to.since(from);
        }
        grown
    }
}

/// What was counted from the start to one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By key; only those with an I/O.
    pub ios: BTreeMap<Key, Ios>,
    /// Processes that were met.
    pub owners: BTreeMap<u32, Owner>,
    /// I/Os that ended but whose beginning was not seen, because they were under way at the start; they are in no histogram.
    pub began_before: u64,
    /// I/Os whose beginning found a table full; they are in no histogram.
    pub not_kept: u64,
}

impl Snapshot {
    /// What was counted since `before`; keys without any are left out.
    #[must_use]
    pub fn since(&self, before: &Snapshot) -> Snapshot {
        let none = Ios::default();
        let grown = |(key, ios): (&Key, &Ios)| (*key, ios.since(before.ios.get(key).unwrap_or(&none)));
        Snapshot {
            ios: self.ios.iter().map(grown).filter(|(_, ios)| ios.count > 0).collect(),
            owners: self.owners.clone(),
            began_before: self.began_before - before.began_before.min(self.began_before),
            not_kept: self.not_kept - before.not_kept.min(self.not_kept),
        }
    }

    /// The I/Os of each device and direction, over all processes.
    #[must_use]
    pub fn by_device(&self) -> BTreeMap<((u32, u32), Direction), Ios> {
        let mut devices: BTreeMap<_, Ios> = BTreeMap::new();
        for (key, ios) in &self.ios {
            devices.entry((key.device, key.direction)).or_default().merge(ios);
        }
        devices
    }
}

/// Programs at work. Dropped, they are gone.
#[derive(Debug)]
pub struct DiskTrace {
    maps: Maps,
    programs: Vec<Program>,
    _links: Vec<Link>,
}

impl DiskTrace {
    /// Attaches the programs; what they count begins now.
    ///
    /// # Errors
    /// Where this kernel or user cannot, with the reason; nothing is attached then.
    pub fn start() -> Result<Self, TraceError> {
        let fields = programs::Fields::of(&Btf::of_kernel()?)?;
        let maps = Maps::new()?;
        let loaded = [
            ("disk_done", "block_io_done", programs::done(&fields, &maps)),
            ("disk_issue", "block_rq_issue", programs::issue(&fields, &maps)),
            ("disk_merge", "block_rq_merge", programs::merge(&maps)),
            // The last: what is under way is known from here on.
            ("disk_start", "block_io_start", programs::start(&fields, &maps)),
        ];
        let loaded = loaded.into_iter().map(|(name, event, code)| Ok((load(name, code)?, event)));
        let loaded = loaded.collect::<Result<Vec<_>, TraceError>>()?;
        let links = loaded.iter().map(|(program, event)| attach(program, event)).collect::<Result<_, _>>()?;
        Ok(DiskTrace { maps, programs: loaded.into_iter().map(|(program, _)| program).collect(), _links: links })
    }

    /// Nanoseconds that the programs ran, while `baremark_sys::bpf::RunTimes` were kept.
    ///
    /// # Errors
    /// Where the kernel does not show it.
    pub fn run_time_ns(&self) -> std::io::Result<u64> {
        self.programs.iter().map(|program| program.run_time().map(|(ns, _)| ns)).sum()
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// Where a map cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, TraceError> {
        let mut snapshot = Snapshot::default();
        let mut value = vec![0; maps::ENTRY_BYTES];
        for bytes in self.maps.entries.keys().map_err(map_error("entries"))? {
            let there = self.maps.entries.lookup(&bytes, &mut value).map_err(map_error("entries"))?;
            let ios = Ios::from_bytes(&value);
            if let Some(key) = key(&bytes).filter(|_| there && ios.count > 0) {
                snapshot.ios.insert(key, ios);
            }
        }
        snapshot.owners = self.owners()?;
        let missed = |number: u32| {
            let mut count = [0; 8];
            self.maps.missed.lookup(&number.to_ne_bytes(), &mut count).map_err(map_error("missed"))?;
            Ok::<_, TraceError>(u64::from_ne_bytes(count))
        };
        snapshot.began_before = missed(maps::BEGAN_BEFORE)?;
        snapshot.not_kept = missed(maps::NOT_KEPT)?;
        Ok(snapshot)
    }

    fn owners(&self) -> Result<BTreeMap<u32, Owner>, TraceError> {
        let mut owners = BTreeMap::new();
        let mut value = [0; OWNER_BYTES];
        for bytes in self.maps.owners.keys().map_err(map_error("owners"))? {
            let there = self.maps.owners.lookup(&bytes, &mut value).map_err(map_error("owners"))?;
            if let Some(process) = word(&bytes, 0).filter(|_| there) {
                owners.insert(process, Owner::from_bytes(&value));
            }
        }
        Ok(owners)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn key(bytes: &[u8]) -> Option<Key> {
    let (device, process, direction) = (word(bytes, 0)?, word(bytes, 4)?, word(bytes, 8)?);
    let direction = *DIRECTIONS.get(direction as usize)?;
    Some(Key { device: (device >> 20, device & 0xf_ffff), process, direction })
}
