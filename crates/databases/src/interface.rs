//! What the server's interface of the lab's network moved in the measured time, from the `/proc/net/dev` of its namespace.

use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;
use baremark_networks::Namespace;
use baremark_networks::network::INSIDE;
use baremark_sys::clock;
use baremark_trace::netdev::{self, Counts};

/// Packets and bytes at the server's end.
pub(crate) const METRICS: [Metric; 4] = [
    Metric::lower("net_receive_packets_per_s", "1/s", Aggregate::Sum)
        .help("packets per second that the server received; with network = \"lab\" alone"),
    Metric::lower("net_transmit_packets_per_s", "1/s", Aggregate::Sum).help("packets per second that it sent"),
    Metric::lower("net_receive_mb_per_s", "MB/s", Aggregate::Sum).help("10^6 bytes per second that it received"),
    Metric::lower("net_transmit_mb_per_s", "MB/s", Aggregate::Sum).help("10^6 bytes per second that it sent"),
];

/// The counters at both ends of the measured time.
#[derive(Default)]
pub(crate) struct Interface {
    first: Option<(u64, Counts)>,
    last: Option<(u64, Counts)>,
}

impl Interface {
    /// Reads the counters.
    pub(crate) fn mark(&mut self, namespace: &Namespace) {
        let text = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let counts = text.ok().and_then(Result::ok).and_then(|text| netdev::parse(&text).remove(INSIDE));
        self.last = counts.map(|counts| (clock::monotonic_ns(), counts));
        self.first = self.first.or(self.last);
    }

    /// What grew between the first and the last mark.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let (Some((begin, before)), Some((end, after))) = (self.first, self.last) else { return Vec::new() };
        if end <= begin {
            return Vec::new();
        }
        let seconds = (end - begin) as f64 / 1e9;
        let grown = after.since(&before);
        let counts = [
            grown.received as f64,
            grown.sent as f64,
            grown.received_bytes as f64 / 1e6,
            grown.sent_bytes as f64 / 1e6,
        ];
        METRICS.iter().zip(counts).map(|(metric, count)| Sample::new(metric.key, count / seconds)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grew_between_two_marks_is_by_second() {
        let (none, second) = (Counts::default(), 1_000_000_000);
        let some = Counts { received: 10, sent: 20, received_bytes: 1_000_000, sent_bytes: 4_000_000, ..none };
        let interface = Interface { first: Some((0, none)), last: Some((2 * second, some)) };
        let values: Vec<f64> = interface.samples().iter().map(|sample| sample.value).collect();
        assert_eq!(values, [5.0, 10.0, 0.5, 2.0]);
        assert!(Interface::default().samples().is_empty());
    }
}
