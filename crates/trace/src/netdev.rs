//! `/proc/net/dev`: what is known of packets where programs cannot be loaded: counts of the interfaces of this network namespace.

use std::collections::BTreeMap;
use std::fs;
use std::io;

/// What went through an interface since it came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets received and dropped.
    pub received_drops: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets dropped before they were sent.
    pub sent_drops: u64,
}

impl Counts {
    /// What was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Counts) -> Counts {
        Counts {
            received: self.received.saturating_sub(before.received),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            received_drops: self.received_drops.saturating_sub(before.received_drops),
            sent: self.sent.saturating_sub(before.sent),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            sent_drops: self.sent_drops.saturating_sub(before.sent_drops),
        }
    }
}

/// Reads the interfaces of this network namespace.
///
/// # Errors
/// Where `/proc/net/dev` cannot be read.
pub fn read() -> io::Result<BTreeMap<String, Counts>> {
    fs::read_to_string("/proc/net/dev").map(|text| parse(&text))
}

/// Lines that are whole; others are left out.
#[must_use]
pub fn parse(text: &str) -> BTreeMap<String, Counts> {
    text.lines().filter_map(interface).collect()
}

fn interface(line: &str) -> Option<(String, Counts)> {
    let (name, rest) = line.rsplit_once(':')?;
    let fields: Vec<u64> = rest.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    let &[received_bytes, received, _, received_drops, .., sent_bytes, sent, _, sent_drops, _, _, _, _] =
        fields.as_slice()
    else {
        return None;
    };
    let counts = Counts { received, received_bytes, received_drops, sent, sent_bytes, sent_drops };
    Some((name.trim().to_owned(), counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_both_ways() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 10 1 0 2 0 0 0 0 30 3 0 4 0 0 0 0\n cut: 1 2\n";
        let all = parse(text);
        let lo = Counts { received: 1, received_bytes: 10, received_drops: 2, sent: 3, sent_bytes: 30, sent_drops: 4 };
        assert_eq!(all, BTreeMap::from([("lo".to_owned(), lo)]));
        assert_eq!(lo.since(&Counts { received: 1, sent: 9, ..Counts::default() }).received, 0);
    }
}
