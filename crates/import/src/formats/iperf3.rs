//! iperf3: `iperf3 --json --client HOST`.
//!
//! A run is one value, that of its end: its seconds are not independent of each other.

use crate::format::Format;
use crate::json;
use crate::result::{Column, Damage, Metric, Place};
use crate::results::Results;
use crate::text::Text;
use serde::Deserialize;

pub(super) const FORMAT: Format = Format {
    name: "iperf3",
    help: "iperf3 --json --client HOST >FILE",
    recognises: |head| {
        head.contains("\"test_start\"") || (head.contains("\"start\"") && head.contains("\"intervals\""))
    },
    read,
};

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    error: Option<String>,
    start: Start,
    end: End,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    version: String,
    #[serde(default)]
    system_info: String,
    #[serde(default)]
    timestamp: Option<Timestamp>,
    #[serde(default)]
    test_start: Option<TestStart>,
}

#[derive(Deserialize)]
struct Timestamp {
    timesecs: u64,
}

#[derive(Deserialize)]
struct TestStart {
    protocol: String,
    num_streams: u64,
    #[serde(default)]
    blksize: u64,
    #[serde(default)]
    duration: u64,
    #[serde(default)]
    reverse: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct End {
    sum: Option<Sum>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
}

#[derive(Deserialize)]
struct Sum {
    bits_per_second: f64,
    #[serde(default)]
    jitter_ms: Option<f64>,
    #[serde(default)]
    lost_percent: Option<f64>,
    #[serde(default)]
    retransmits: Option<u64>,
}

impl Sum {
    /// The same with the rate of what was not lost.
    fn arrived(self) -> Sum {
        let lost = self.lost_percent.unwrap_or(0.0) / 100.0;
        Sum { bits_per_second: self.bits_per_second * (1.0 - lost), ..self }
    }
}

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let file: File = json::read(&text.whole()?)?;
    if let Some(error) = file.error {
        return Err(Damage::at(Place::Whole, format!("iperf3 reports an error and no result: {error}")));
    }
    let mut imported = Results::of(file.start.version.replace("iperf ", "iperf3 "));
    imported.unix_s = file.start.timestamp.map(|of| of.timesecs);
    imported.host = file.start.system_info.split_whitespace().nth(1).map(str::to_owned);
    if let Some(test) = file.start.test_start {
        imported.parameter("protocol", Some(test.protocol));
        imported.parameter("streams", Some(test.num_streams));
        imported.parameter("block_bytes", Some(test.blksize));
        imported.parameter("duration_s", Some(test.duration));
        imported.parameter("reverse", Some(test.reverse != 0));
    }
    let End { sum, sum_sent, sum_received } = file.end;
    let retransmits = sum_sent.as_ref().and_then(|of| of.retransmits).filter(|count| *count > 0);
    if let Some(count) = retransmits {
        imported.note(format!("{count} retransmits"));
    }
    // Of versions that have the two ends apart one alone may have it.
    let jitter_ms = [&sum_received, &sum].into_iter().flatten().find_map(|of| of.jitter_ms);
    // What was received. `sum`, which is all that older versions have of UDP, is of what was sent, lost datagrams included.
    let rate = sum_received.or(sum.map(Sum::arrived)).or(sum_sent);
    let rate = rate.ok_or_else(|| Damage::at(Place::Whole, "has no sum at its end; the test did not end"))?;
    imported.add("", &Metric::higher("bits_per_s", "bit/s"), [rate.bits_per_second])?;
    imported.add_one("", &Metric::lower("jitter_ms", "ms"), jitter_ms)?;
    if let Some(lost) = rate.lost_percent.filter(|lost| *lost > 0.0) {
        imported.note(format!("{lost:.3} % of the datagrams were lost"));
    }
    Ok(imported)
}
