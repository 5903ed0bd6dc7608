//! The way to a second site: a proxy that delays both directions.

use baremark_delay::{Delay, Overhead, Proxy, Wait, probe};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Round trips that are measured before a load.
const PINGS: usize = 30;

/// The way to the second site.
pub(crate) struct Way {
    proxy: Proxy,
    /// The median round trip through such a proxy, measured before the load.
    round_trip: Duration,
}

impl Way {
    /// A way to this address of such a round trip.
    ///
    /// # Errors
    /// What sockets give.
    pub(crate) fn to(address: SocketAddr, round_trip: Duration, overhead: Overhead) -> io::Result<Way> {
        let delay = Delay { one_way: round_trip / 2, overhead, wait: Wait::Sleeping, ..Delay::default() };
        let round_trip = probe::round_trip(delay, PINGS)?.median;
        Ok(Way { proxy: Proxy::tcp((Ipv4Addr::LOCALHOST, 0).into(), address, delay)?, round_trip })
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> SocketAddr {
        self.proxy.address()
    }

    /// The measured round trip.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Twice the median time that a chunk has spent on the way so far; `None` before the first.
    pub(crate) fn under_load(&self) -> Option<Duration> {
        self.proxy.report().median.map(|median| 2 * median)
    }
}
