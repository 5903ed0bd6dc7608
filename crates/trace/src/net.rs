//! Packets of network interfaces, one by one: how large, how many in a poll, how many merged into one, and why they are dropped.
//!
//! A packet received is counted where the stack takes it (`netif_receive_skb`), after neighbours were merged (GRO); one that is sent
//! where the driver has taken it (`net_dev_xmit`), before the card cuts it. An interface is known by its name and network namespace.

mod maps;
mod programs;

use crate::btf::Btf;
use crate::error::{TraceError, attach, load, map_error};
use crate::histogram::{BINS, Histogram};
use baremark_sys::bpf::Link;
use maps::Maps;
use std::collections::BTreeMap;

/// An interface: two of the same name in different namespaces are two.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interface {
    /// The number of the network namespace, as `/proc/PID/ns/net` shows it; 0 where a poll belongs to no interface.
    pub namespace: u32,
    /// The interface's name when it was met first.
    pub name: String,
}

/// The packets of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// Packets that the stack took, after merging.
    pub received: u64,
    /// Their bytes, without the link's header.
    pub received_bytes: u64,
    /// Packets that were merged into one that is counted: two that came as one are one merge. Those that a sender on this machine has not
    /// cut yet look the same.
    pub merged: u64,
    /// Packets that the driver took, before it cuts them.
    pub sent: u64,
    /// Their bytes, with the link's header.
    pub sent_bytes: u64,
    /// Packets that the driver refused for the moment, which are tried again.
    pub refused: u64,
    /// Polls of the driver.
    pub polls: u64,
    /// Polls that took as many packets as they may.
    pub full_polls: u64,
    /// Bytes of packets received.
    pub received_size: Histogram,
    /// Bytes of packets sent.
    pub sent_size: Histogram,
    /// Packets of a poll.
    pub poll: Histogram,
}

impl Packets {
    fn sums(&self) -> [u64; 8] {
        [
            self.received,
            self.received_bytes,
            self.merged,
            self.sent,
            self.sent_bytes,
            self.refused,
            self.polls,
            self.full_polls,
        ]
    }

    fn of(sums: [u64; 8], [received_size, sent_size, poll]: [Histogram; 3]) -> Self {
        let [received, received_bytes, merged, sent, sent_bytes, refused, polls, full_polls] = sums;
        Packets {
            received,
            received_bytes,
            merged,
            sent,
            sent_bytes,
            refused,
            polls,
            full_polls,
            received_size,
            sent_size,
            poll,
        }
    }

    /// The histograms with their names and units.
    #[must_use]
    pub fn histograms(&self) -> [(&'static str, &'static str, &Histogram); 3] {
        [
            ("received_size", "B", &self.received_size),
            ("sent_size", "B", &self.sent_size),
            ("packets_per_poll", "packets", &self.poll),
        ]
    }

    /// Adds those of another interface.
    pub fn merge(&mut self, other: &Packets) {
        let (mine, theirs) = (self.sums(), other.sums());
        let mut histograms = self.histograms().map(|(.., histogram)| histogram.clone());
        histograms.iter_mut().zip(other.histograms()).for_each(|(to, (.., from))| to.merge(from));
        *self = Packets::of(std::array::from_fn(|number| mine[number] + theirs[number]), histograms);
    }

    /// Those since `before`.
    #[must_use]
    pub fn since(&self, before: &Packets) -> Packets {
        let (now, then) = (self.sums(), before.sums());
        let (mine, theirs) = (self.histograms(), before.histograms());
        let histograms = std::array::from_fn(|number| mine[number].2.since(theirs[number].2));
        Packets::of(std::array::from_fn(|number| now[number].saturating_sub(then[number])), histograms)
    }
}

/// What was counted from the start to one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By interface.
    pub interfaces: BTreeMap<Interface, Packets>,
    /// Packets dropped, of the whole machine, by the kernel's word for the reason.
    pub drops: BTreeMap<String, u64>,
}

impl Snapshot {
    /// What was counted since `before`; what did not grow is left out.
    #[must_use]
    pub fn since(&self, before: &Snapshot) -> Snapshot {
        let none = Packets::default();
        let grown = |(key, packets): (&Interface, &Packets)| {
            (key.clone(), packets.since(before.interfaces.get(key).unwrap_or(&none)))
        };
        let drops = self.drops.iter().map(|(reason, count)| {
            (reason.clone(), count.saturating_sub(before.drops.get(reason).copied().unwrap_or(0)))
        });
        Snapshot {
            interfaces: self.interfaces.iter().map(grown).filter(|(_, packets)| packets.sums() != [0; 8]).collect(),
            drops: drops.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// Programs at work. Dropped, they are gone.
#[derive(Debug)]
pub struct NetTrace {
    maps: Maps,
    reasons: BTreeMap<u32, String>,
    _links: Vec<Link>,
}

impl NetTrace {
    /// Attaches the programs; what they count begins now.
    ///
    /// # Errors
    /// Where this kernel or user cannot, with the reason; nothing is attached then.
    pub fn start() -> Result<Self, TraceError> {
        let btf = Btf::of_kernel()?;
        let fields = programs::Fields::of(&btf)?;
        let maps = Maps::new()?;
        let loaded = [
            ("net_receive", "netif_receive_skb", programs::receive(&fields, &maps)),
            ("net_send", "net_dev_xmit", programs::send(&fields, &maps)),
            ("net_poll", "napi_poll", programs::poll(&fields, &maps)),
            ("net_drop", "kfree_skb", programs::drop_packet(&maps)),
        ];
        let loaded = loaded.into_iter().map(|(name, event, code)| Ok((load(name, code)?, event)));
        let loaded = loaded.collect::<Result<Vec<_>, TraceError>>()?;
        let links = loaded.iter().map(|(program, event)| attach(program, event)).collect::<Result<_, _>>()?;
        let word = |(name, value): (String, u64)| {
            let word = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(&name).to_lowercase();
            (u32::try_from(value).unwrap_or(u32::MAX), word)
        };
        Ok(NetTrace { maps, reasons: btf.enumeration("skb_drop_reason").map(word).collect(), _links: links })
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// Where a map cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, TraceError> {
        let mut snapshot = Snapshot::default();
        let mut value = vec![0; maps::ENTRY_BYTES];
        for key in self.maps.interfaces.keys().map_err(map_error("interfaces"))? {
            if self.maps.interfaces.lookup(&key, &mut value).map_err(map_error("interfaces"))? {
                let (interface, packets) = entry(&value);
                snapshot.interfaces.entry(interface).or_default().merge(&packets);
            }
        }
        let mut count = [0; 8];
        for key in self.maps.reasons.keys().map_err(map_error("reasons"))? {
            if self.maps.reasons.lookup(&key, &mut count).map_err(map_error("reasons"))? {
                let number = key.as_slice().try_into().map_or(0, u32::from_ne_bytes);
                let word = self.reasons.get(&number).cloned().unwrap_or_else(|| format!("reason {number:#x}"));
                *snapshot.drops.entry(word).or_default() += u64::from_ne_bytes(count);
            }
        }
        Ok(snapshot)
    }
}

fn entry(value: &[u8]) -> (Interface, Packets) {
    let word = |at: usize| value.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes);
    let name: Vec<u8> = value.iter().copied().take(maps::NAME_BYTES).take_while(|byte| *byte != 0).collect();
    let namespace = u32::try_from(word(maps::ENTRY_NAMESPACE)).unwrap_or(0);
    let histogram = |number: usize| {
        let from = maps::ENTRY_HISTOGRAMS + number * BINS * 8;
        Histogram::from_bytes(value.get(from..from + BINS * 8).unwrap_or_default())
    };
    let sums = std::array::from_fn(|number| word(maps::ENTRY_SUMS + 8 * number));
    let name = String::from_utf8_lossy(&name).into_owned();
    // Polls of the queue between interfaces of this machine, which belongs to none.
    let name = if name.is_empty() { "(backlog)".to_owned() } else { name };
    (Interface { namespace, name }, Packets::of(sums, std::array::from_fn(histogram)))
}
