//! What the kernel lets this machine do on its network.

use std::fs;

/// Ports from which connections may come whose port nobody has chosen, between one pair of addresses; `None` where the
/// kernel does not say.
#[must_use]
pub fn local_ports() -> Option<usize> {
    range(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

fn range(text: &str) -> Option<usize> {
    let mut ends = text.split_whitespace().map(str::parse::<usize>);
    let (low, high) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some((high + 1).saturating_sub(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_counts_both_its_ends() {
        assert_eq!(range("32768\t60999\n"), Some(28_232));
        assert_eq!(range("40000 40010"), Some(11));
        assert_eq!((range("32768"), range("")), (None, None));
        assert!(local_ports().is_some_and(|ports| ports > 0), "this kernel says");
    }
}
