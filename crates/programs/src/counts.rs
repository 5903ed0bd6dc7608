//! Recorded latencies as counts by value.

use baremark_model::histogram::Histogram;

/// What was recorded, by the value that represents it.
pub(crate) fn counts(recorded: &hdrhistogram::Histogram<u64>) -> Histogram {
    recorded.iter_recorded().map(|of| (of.value_iterated_to(), of.count_at_value())).collect()
}
