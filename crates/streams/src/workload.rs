//! `stream-tcp` as a workload of studies.

use crate::ends::Path;
use crate::engine::{self, Direction, Order, Outcome, Pattern};
use baremark_journal::{Journal, JournalError};
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::hdr;
use baremark_model::histogram::Histogram;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::parameters::Parameters;
use baremark_model::seam::Sample;
use baremark_model::units::Bytes;
use baremark_model::wire::Point;
use baremark_networks::NetworkError;
use baremark_stats::percentile::sample_floor;
use baremark_sys::ethtool::Offload;
use std::time::Duration;

/// The longest payload of a UDP datagram over IPv4.
const LONGEST_DATAGRAM: u64 = 65_507;
const WARM_UP: Duration = Duration::from_millis(200);
/// The shortest window: in less, a busy machine may let nothing pass.
const SHORTEST: Duration = Duration::from_millis(200);

static PARAMETERS: [Knob; 13] = [
    Knob::new("path", Kind::Choice(&["loopback", "veth", "bridge"]), Default::Typed("loopback"))
        .help("network path: loopback, a veth pair between two network namespaces, or two namespaces on a bridge"),
    Knob::new(
        "pattern",
        Kind::Choice(&["stream", "request-response", "connect-close", "udp"]),
        Default::Typed("stream"),
    )
    .help("stream one way, request and response, a connection for each request, or UDP datagrams one way"),
    Knob::new("message", Kind::Size { min: 1, max: 16 << 20 }, Default::Typed("64 KiB"))
        .help("bytes of a write, request or datagram"),
    Knob::new("buffer", Kind::Size { min: 2048, max: 1 << 30 }, Default::Derived("adapted by the kernel")).help(
        "socket buffers, as SO_SNDBUF and SO_RCVBUF take them; the kernel limits them to net.core.wmem_max \
         and rmem_max",
    ),
    Knob::new("buffer_messages", Kind::Count { min: 1, max: 1024 }, Default::Derived("buffer decides"))
        .help("socket buffers in messages, at least 8 KiB, in place of buffer"),
    Knob::new("streams", Kind::Count { min: 1, max: 256 }, Default::Typed("1")).help("connections in each direction"),
    Knob::new("direction", Kind::Choice(&["forward", "both"]), Default::Typed("forward"))
        .help("one end sends, or both do"),
    Knob::new("zero_copy", Kind::Switch, Default::Typed("false")).help("send by sendfile(2), which copies nothing"),
    Knob::new("tso", Kind::Switch, Default::Typed("true"))
        .help("TCP segmentation offload of each link that sends; veth and bridge only"),
    Knob::new("gso", Kind::Switch, Default::Typed("true"))
        .help("generic segmentation offload of each link that sends; veth and bridge only"),
    Knob::new("gro", Kind::Switch, Default::Typed("false"))
        .help("generic receive offload of each link that receives; veth and bridge only"),
    Knob::new("mtu", Kind::Count { min: 576, max: 65_535 }, Default::Derived("1500; 65536 on loopback"))
        .help("largest packet of both links, in bytes; veth only"),
    Knob::new("rate_mbit", Kind::Count { min: 1, max: 1_000_000 }, Default::Derived("unlimited"))
        .help("rate of both links in 10^6 bit/s, by a token bucket (tbf); veth only"),
];

static METRICS: [Metric; 13] = [
    Metric::higher("gbit_per_s", "Gbit/s", Aggregate::Sum).help("10^9 bits of payload received per second"),
    Metric::higher("gbit_per_cpu", "Gbit/s per CPU", Aggregate::Mean).help(
        "CPU efficiency: gbit_per_s over the CPUs that both ends and ksoftirqd kept busy; softirqs count in \
         the thread that they interrupt",
    ),
    Metric::higher("gbit_per_receiver_cpu", "Gbit/s per CPU", Aggregate::Mean)
        .help("the same over the receiving threads and ksoftirqd alone"),
    Metric::lower("cpus", "CPUs", Aggregate::Sum).help("CPUs that both ends and ksoftirqd kept busy"),
    Metric::lower("softirq_cpus", "CPUs", Aggregate::Sum)
        .help("softirq time of the CPUs of both ends, by ticks; part of cpus"),
    Metric::lower("packets_per_s", "packets/s", Aggregate::Sum)
        .help("packets that IP of each end that receives took, after merging"),
    Metric::higher("packet_bytes", "B", Aggregate::Mean).help("mean size of these packets"),
    Metric::lower("retransmits_per_s", "segments/s", Aggregate::Sum).help("TCP segments that were sent again"),
    Metric::higher("transactions_per_s", "transactions/s", Aggregate::Sum).help("requests answered per second"),
    Metric::lower("latency_p50_us", "us", Aggregate::Mean).help("round trip of a request, median"),
    Metric::lower("latency_p99_us", "us", Aggregate::Most).help("round trip of a request, 99th percentile"),
    Metric::lower("latency_p99_9_us", "us", Aggregate::Most).help("round trip of a request, 99.9th percentile"),
    Metric::lower("lost", "%", Aggregate::Mean).help("datagrams that did not arrive"),
];

/// What the workload is.
pub static DESCRIPTOR: Descriptor = Descriptor {
    kind: "stream-tcp",
    help: "TCP streams, requests and UDP datagrams between two ends of one machine: throughput and its cost in CPU time; ranks = 2 gives each end its own CPU",
    source: "this program",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    alternates: |_| true,
    check: |arm| Settings::of(arm).map(drop),
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

/// The workload `stream-tcp`.
#[derive(Clone, Copy)]
pub struct StreamTcp {
    /// Opens the journal of changes to this host, which a bridge needs.
    pub journal: fn() -> Result<Journal, JournalError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Loopback,
    Veth,
    Bridge,
}

struct Settings {
    between: Between,
    order: Order,
    offloads: Vec<(usize, Offload, bool)>,
    mtu: Option<u32>,
    rate: Option<u64>,
}

impl Settings {
    fn of(arm: &ResolvedArm) -> Result<Settings, InvalidValue> {
        let of = Parameters::of(arm, &PARAMETERS);
        let between = match of.get::<String>("path")?.as_str() {
            "veth" => Between::Veth,
            "bridge" => Between::Bridge,
            _ => Between::Loopback,
        };
        let order = order(of)?;
        let offloads = offloads(of, between, order.direction)?;
        let (mtu, rate) = (of.find("mtu")?, of.find::<u64>("rate_mbit")?);
        if (mtu.is_some() || rate.is_some()) && between != Between::Veth {
            let remedy = "write path = \"veth\", or leave them out";
            return Err(InvalidValue::new("mtu and rate_mbit are of the path veth alone", remedy));
        }
        Ok(Settings { between, order, offloads, mtu, rate: rate.map(|rate| rate * 1_000_000) })
    }

    fn path(&self, journal: fn() -> Result<Journal, JournalError>) -> Result<Path, NetworkError> {
        let path = match self.between {
            Between::Loopback => return Ok(Path::Loopback),
            Between::Veth => Path::veth()?,
            Between::Bridge => Path::bridge(&journal()?)?,
        };
        for (end, offload, on) in &self.offloads {
            path.switch(*end, *offload, *on)?;
        }
        if let Path::Veth(pair) = &path {
            self.mtu.map_or(Ok(()), |mtu| pair.set_mtu(mtu))?;
            self.rate.map_or(Ok(()), |rate| pair.limit_rate(rate))?;
        }
        Ok(path)
    }
}

/// What is switched at which end: what is on needs what is below it, so TSO is switched after GSO.
fn offloads(
    of: Parameters<'_>,
    between: Between,
    direction: Direction,
) -> Result<Vec<(usize, Offload, bool)>, InvalidValue> {
    let (tso, gso, gro): (bool, bool, bool) = (of.get("tso")?, of.get("gso")?, of.get("gro")?);
    let usual = tso && gso && !gro;
    if !usual && between == Between::Loopback {
        let remedy = "write path = \"veth\" or \"bridge\"";
        return Err(InvalidValue::new("tso, gso and gro are not switched on loopback", remedy));
    }
    let one_way = |(from, to)| [(from, Offload::Gso, gso), (from, Offload::Tso, tso), (to, Offload::Gro, gro)];
    let ways: &[(usize, usize)] = if direction == Direction::Both { &[(0, 1), (1, 0)] } else { &[(0, 1)] };
    Ok(ways.iter().copied().flat_map(one_way).collect())
}

/// What the engine does, without the CPUs and the time.
fn order(of: Parameters<'_>) -> Result<Order, InvalidValue> {
    let pattern = match of.get::<String>("pattern")?.as_str() {
        "request-response" => Pattern::RequestResponse,
        "connect-close" => Pattern::ConnectClose,
        "udp" => Pattern::Datagrams,
        _ => Pattern::Stream,
    };
    let Bytes(message) = of.get("message")?;
    if pattern == Pattern::Datagrams && message > LONGEST_DATAGRAM {
        return Err(InvalidValue::new(
            format!("message = {message} B is too long for a datagram"),
            "write 65507 B or less",
        ));
    }
    let zero_copy: bool = of.get("zero_copy")?;
    if zero_copy && pattern != Pattern::Stream {
        let remedy = "write pattern = \"stream\", or leave it out";
        return Err(InvalidValue::new("zero_copy = true is of streams alone", remedy));
    }
    let buffer = match (of.find("buffer")?, of.find::<u64>("buffer_messages")?) {
        (Some(_), Some(_)) => {
            return Err(InvalidValue::new("buffer and buffer_messages are both set", "keep one of them"));
        }
        (Some(Bytes(buffer)), None) => Some(buffer),
        (None, messages) => messages.map(|messages| (messages * message).max(8 << 10)),
    };
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(Order {
        pattern,
        message: size(message),
        buffer: buffer.map(size),
        streams: of.get("streams")?,
        direction: if of.is("direction", "both")? { Direction::Both } else { Direction::Forward },
        zero_copy,
        cpus: None,
        warm_up: WARM_UP,
        duration: Duration::ZERO,
    })
}

impl Job for StreamTcp {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let mut settings = Settings::of(arm).map_err(|misfit| JobError::failed(misfit.to_string()))?;
        let missing = |why: NetworkError| JobError::Missing {
            what: why.to_string(),
            remedy: "paths other than loopback need root, or CAP_NET_ADMIN and CAP_SYS_ADMIN".to_owned(),
        };
        let path = settings.path(self.journal).map_err(missing)?;
        settings.order.duration = around.phase.max(SHORTEST);
        settings.order.cpus = match around.cpus {
            [] => None,
            [first, .., last] => Some([*first, *last]),
            [only] => Some([*only, *only]),
        };
        Ok(Box::new(PreparedStreams { order: settings.order, path, around }))
    }
}

struct PreparedStreams<'s> {
    order: Order,
    path: Path,
    around: JobContext<'s>,
}

impl ReadyJob for PreparedStreams<'_> {
    fn run(&mut self) -> Result<JobRun, JobError> {
        if self.around.interrupt.load(std::sync::atomic::Ordering::Acquire) {
            return Err(JobError::Interrupted);
        }
        let outcome = engine::run(&self.order, &self.path).map_err(|why| JobError::failed(why.to_string()))?;
        if outcome.bytes == 0 {
            return Err(JobError::failed("nothing arrived in the measured time"));
        }
        let checked = match self.order.pattern {
            Pattern::Stream => "every byte that was sent arrived".to_owned(),
            Pattern::Datagrams => format!("{:.2} % of the datagrams did not arrive", 100.0 * outcome.lost),
            _ => format!("{} requests were answered completely", outcome.trips.len()),
        };
        let mut flags = Vec::new();
        if self.order.cpus.is_some_and(|cpus| cpus[0] == cpus[1]) {
            flags.push("both ends share one CPU; ranks = 2 gives each its own".to_owned());
        }
        let points = points(&outcome);
        Ok(JobRun { samples: samples(&self.order, &outcome), checked, flags, points, ..JobRun::default() })
    }
}

/// The round trips; none of what has none.
fn points(outcome: &Outcome) -> Vec<Point> {
    let trips: Histogram =
        outcome.trips.iter_recorded().map(|trip| (trip.value_iterated_to(), trip.count_at_value())).collect();
    let all = (0, u64::try_from(Duration::from_secs_f64(outcome.trips_seconds).as_nanos()).unwrap_or(u64::MAX));
    let point = |histogram| Point::new("all", all, Vec::new(), Some(histogram)).of(&["latency_us"]);
    hdr::encoded(&trips).map(point).into_iter().collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds far below 2^53")]
fn samples(order: &Order, outcome: &Outcome) -> Vec<Sample> {
    let per_s = |count: u64| count as f64 / outcome.seconds;
    let receiver = (outcome.cpu.receiving + outcome.cpu.ksoftirqd) / outcome.seconds;
    let mut values = vec![
        ("gbit_per_s", outcome.gbit_per_s()),
        ("gbit_per_cpu", outcome.gbit_per_s() / outcome.cpus()),
        ("gbit_per_receiver_cpu", outcome.gbit_per_s() / receiver),
        ("cpus", outcome.cpus()),
        ("softirq_cpus", outcome.cpu.softirq / outcome.seconds),
        ("packets_per_s", per_s(outcome.receiving.received)),
        ("packet_bytes", outcome.receiving.received_bytes as f64 / outcome.receiving.received as f64),
        ("retransmits_per_s", per_s(outcome.retransmits)),
    ];
    match order.pattern {
        Pattern::Stream => {}
        Pattern::Datagrams => values.push(("lost", 100.0 * outcome.lost)),
        Pattern::RequestResponse | Pattern::ConnectClose => {
            values.push(("transactions_per_s", outcome.trips.len() as f64 / outcome.trips_seconds));
            for (metric, share) in [("latency_p50_us", 0.5), ("latency_p99_us", 0.99), ("latency_p99_9_us", 0.999)] {
                if sample_floor(share, 0.95).is_some_and(|floor| outcome.trips.len() >= floor) {
                    values.push((metric, outcome.trips.value_at_quantile(share) as f64 / 1e3));
                }
            }
        }
    }
    values.into_iter().map(|(metric, value)| Sample::new(metric, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{CpuTime, Protocols};

    /// An arm of its own of these parameters, with the defaults of the others.
    fn settings(parameters: &[(&str, &str)]) -> Settings {
        let mut arm = ResolvedArm::native(1, baremark_model::page_size::PageSize::Small);
        for knob in &PARAMETERS {
            let default = if let Default::Typed(text) = knob.default { Some(text) } else { None };
            let typed = parameters.iter().find(|(key, _)| *key == knob.key).map(|(_, text)| *text);
            if let Some(text) = typed.or(default) {
                arm.parameters.insert(knob.key.to_owned(), knob.read_text(text).expect("a value"));
            }
        }
        Settings::of(&arm).expect("values that fit each other")
    }

    /// Of two ends that both send, one sent with the offloads of every link: what was said to be without was half with them.
    #[test]
    fn offloads_are_switched_at_each_end_that_sends_or_receives() {
        let without = [("path", "veth"), ("tso", "false"), ("gro", "true")];
        let forward = [(0, Offload::Gso, true), (0, Offload::Tso, false), (1, Offload::Gro, true)];
        assert_eq!(settings(&without).offloads, forward);
        let back = forward.map(|(end, offload, on)| (1 - end, offload, on));
        let both = settings(&[&without[..], &[("direction", "both")]].concat());
        assert_eq!(both.offloads, [forward, back].concat());
    }

    /// Reading the counters of many threads takes a while, in which round trips end that are not in the counters' time.
    #[test]
    fn round_trips_are_over_the_time_in_which_they_were_counted() {
        let mut trips = hdrhistogram::Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds");
        trips.record_n(10_000_000, 400).expect("within them");
        let outcome = Outcome {
            seconds: 4.4,
            bytes: 1,
            cpu: CpuTime::default(),
            receiving: Protocols::default(),
            retransmits: 0,
            trips,
            trips_seconds: 4.0,
            lost: 0.0,
        };
        let order = Order { pattern: Pattern::RequestResponse, ..settings(&[]).order };
        let samples = samples(&order, &outcome);
        let rate = samples.iter().find(|sample| sample.metric == "transactions_per_s").map(|sample| sample.value);
        assert_eq!(rate, Some(100.0));
        assert_eq!(points(&outcome)[0].end_ns, 4_000_000_000);
    }
}
