//! `ping-pong`: latency and bandwidth between two sites by message size, over TCP or UDP.
//!
//! Half a phase sends one message to and fro: half of the round trip is the latency, its percentiles come from an HDR
//! histogram. The other half sends one way as fast as it can, and the receiver reports what came. Both ends check every byte.
//! Datagrams that are lost are counted, not sent again.

use crate::echo::{DATAGRAM_HEAD, Echo, LONGEST, Mode, PATIENCE, Payload, datagram_head, head, u64_at};
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::hdr;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::peer;
use baremark_model::seam::Sample;
use baremark_model::units::{Bytes, Nanos};
use baremark_model::wire::Point;
use baremark_stats::percentile::sample_floor;
use baremark_sys::calls::again_after_signals;
use hdrhistogram::Histogram;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// The longest payload of a UDP datagram over IPv4.
const LONGEST_DATAGRAM: u64 = 65_507;
/// How long a lost datagram is waited for before the next one is sent.
const LOST_AFTER: Duration = Duration::from_millis(200);
/// So many answers in a row that are late are a peer that does not answer. They are counted, not timed: this process may be stopped meanwhile.
const MOST_LATE: u128 = PATIENCE.as_millis() / LOST_AFTER.as_millis();
/// How long datagrams that may still be under way are waited for between two questions, and so many questions at most.
const UNDER_WAY: Duration = Duration::from_millis(10);
const MOST_ASKED: u32 = 500;
/// Round trips that warm up a connection and count for nothing.
const WARM_IN: u32 = 10;

const TRANSPORT: Knob =
    Knob::new("transport", Kind::Choice(&["tcp", "udp"]), Default::Typed("tcp")).help("transport of the messages");

const MESSAGE: Knob = Knob::new("message", Kind::Size { min: 1, max: LONGEST }, Default::Typed("64 B"))
    .help("bytes of a message; 16 to 65507 of them in a datagram");

const PEER: Knob = Knob::new(peer::KEY, Kind::Text, Default::Typed("loopback")).help(
    "the other end: site:ENVIRONMENT, where the lab starts it, or address:port, where `baremark echo` \
     listens; loopback is a server of the site's own",
);

const LATENCIES: [(&str, f64); 4] =
    [("latency_p50_us", 0.5), ("latency_p95_us", 0.95), ("latency_p99_us", 0.99), ("latency_p99_9_us", 0.999)];

static METRICS: [Metric; 8] = [
    Metric::lower("latency_p50_us", "us", Aggregate::Mean).help("half of the round trip, median"),
    Metric::lower("latency_p95_us", "us", Aggregate::Most).help("half of the round trip, 95th percentile"),
    Metric::lower("latency_p99_us", "us", Aggregate::Most).help("half of the round trip, 99th percentile"),
    Metric::lower("latency_p99_9_us", "us", Aggregate::Most).help("half of the round trip, 99.9th percentile"),
    Metric::lower("latency_mean_us", "us", Aggregate::Mean).help("half of the round trip, mean"),
    Metric::higher("bandwidth", "MB/s", Aggregate::Sum)
        .help("10^6 bytes each second that reached the other end, one way"),
    Metric::higher("messages_per_s", "messages/s", Aggregate::Sum).help("messages that reached the other end, one way"),
    Metric::lower("lost", "%", Aggregate::Mean).help("datagrams sent one way that did not arrive"),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "ping-pong",
    help: "latency and bandwidth of messages between two sites",
    source: "this program",
    parameters: &[TRANSPORT, MESSAGE, PEER],
    metrics: &METRICS,
    // A server of the site's own waits for the next message; another end is not stopped.
    alternates: |arm| peer::of_arm(arm).is_none() && Settings::of(arm).is_ok_and(|settings| settings.peer.is_none()),
    check: |arm| Settings::of(arm).map(drop),
    ..Descriptor::JOB
};

/// Latency and bandwidth between two sites.
#[derive(Clone, Copy, Debug)]
pub struct PingPong;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settings {
    datagrams: bool,
    message: usize,
    /// `None` for a server of our own.
    peer: Option<SocketAddr>,
}

impl Settings {
    fn of(arm: &ResolvedArm) -> Result<Self, InvalidValue> {
        let datagrams = TRANSPORT.get::<String>(arm)? == "udp";
        let Bytes(message) = MESSAGE.get(arm)?;
        if datagrams && !(DATAGRAM_HEAD as u64..=LONGEST_DATAGRAM).contains(&message) {
            let what = format!("message = {message} B does not fit a datagram");
            return Err(InvalidValue::new(what, "write 16 B to 65507 B with transport = \"udp\""));
        }
        let peer = match PEER.get::<String>(arm)? {
            // The lab puts an address there before the job is prepared.
            peer if peer::environment(&peer).is_some() => {
                peer::check(arm)?;
                None
            }
            peer if peer != "loopback" => Some(peer.parse::<SocketAddr>().map_err(|why| {
                let what = format!("peer = '{peer}' is not an address and port: {why}");
                InvalidValue::new(
                    what,
                    "write site:ENVIRONMENT, or numbers, such as \"192.0.2.7:7007\": names are not resolved at a site",
                )
            })?),
            _ => None,
        };
        let message =
            usize::try_from(message).map_err(|why| InvalidValue::new(why.to_string(), "write a smaller message"))?;
        Ok(Settings { datagrams, message, peer })
    }
}

impl Job for PingPong {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let settings = Settings::of(arm).map_err(|misfit| JobError::failed(misfit.to_string()))?;
        if let Some(name) = peer::of_arm(arm) {
            return Err(JobError::failed(format!("the other end is not running at a site of {name}")));
        }
        let peer = match settings.peer {
            Some(peer) => peer,
            None => own_server().map_err(|why| JobError::failed(format!("a server on loopback: {why}")))?,
        };
        Ok(Box::new(PreparedPingPong { settings, peer, phase: around.phase, session: around.seed }))
    }
}

/// A server in this process, which lives as long as that.
fn own_server() -> io::Result<SocketAddr> {
    let server = Echo::bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = server.address()?;
    thread::spawn(move || server.serve());
    Ok(address)
}

struct PreparedPingPong {
    settings: Settings,
    peer: SocketAddr,
    phase: Duration,
    session: u64,
}

/// What one way brought.
struct OneWay {
    sent: u64,
    came: u64,
    wrong: u64,
    seconds: f64,
}

impl ReadyJob for PreparedPingPong {
    fn run(&mut self) -> Result<JobRun, JobError> {
        let half = self.phase / 2;
        self.session = self.session.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let datagrams = self.settings.datagrams;
        let trips = if datagrams { self.datagram_trips(half) } else { self.stream_trips(half) };
        // A peer that does not answer is not waited for a second time.
        let (trips, lost_trips) = trips.map_err(|why| self.trouble(&why))?;
        let one_way = if datagrams { self.datagrams_one_way(half) } else { self.stream_one_way(half) };
        let one_way = one_way.map_err(|why| self.trouble(&why))?;
        if one_way.wrong > 0 {
            let what = format!("{} of {} messages arrived with wrong bytes", one_way.wrong, one_way.came);
            return Err(JobError::failed(what));
        }
        let checked = format!(
            "{} round trips ({lost_trips} lost) and {} of {} messages one way, every byte as sent",
            trips.len(),
            one_way.came,
            one_way.sent
        );
        // Half of a round trip is a latency.
        let halves = trips.iter_recorded().map(|trip| (trip.value_iterated_to() / 2, trip.count_at_value())).collect();
        let whole = (0, nanos(half));
        let point = |histogram| Point::new("all", whole, Vec::new(), Some(histogram)).of(&["latency_us"]);
        let points = hdr::encoded(&halves).map(point).into_iter().collect();
        Ok(JobRun { samples: self.samples(&trips, &one_way), checked, points, ..JobRun::default() })
    }
}

impl PreparedPingPong {
    /// What went wrong with the peer, and what would help.
    fn trouble(&self, why: &io::Error) -> JobError {
        let peer = self.peer;
        let what = match why.kind() {
            io::ErrorKind::ConnectionRefused => format!("{peer} refuses: nothing listens there"),
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                format!("{peer} did not answer within {} s", PATIENCE.as_secs())
            }
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                format!("{peer} cannot be reached: {why}")
            }
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
                format!("{peer} broke off: {why}")
            }
            _ => format!("{peer}: {why}"),
        };
        let remedy = format!("start `baremark echo --listen {peer}` there and see that no firewall is between");
        JobError::Missing { what, remedy }
    }

    fn samples(&self, trips: &Histogram<u64>, one_way: &OneWay) -> Vec<Sample> {
        let half_us = |ns: f64| ns / 2.0 / 1e3;
        let mut samples = Vec::new();
        for (metric, p) in LATENCIES {
            if sample_floor(p, 0.95).is_some_and(|floor| trips.len() >= floor) {
                #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a round trip")]
                samples.push(Sample::new(metric, half_us(trips.value_at_quantile(p) as f64)));
            }
        }
        if !trips.is_empty() {
            samples.push(Sample::new("latency_mean_us", half_us(trips.mean())));
        }
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
        let (sent, came, bytes) = (one_way.sent as f64, one_way.came as f64, self.settings.message as f64);
        samples.push(Sample::new("bandwidth", came * bytes / one_way.seconds / 1e6));
        samples.push(Sample::new("messages_per_s", came / one_way.seconds));
        if self.settings.datagrams {
            samples.push(Sample::new("lost", 100.0 * (sent - came) / sent));
        }
        samples
    }

    fn connect(&self, mode: Mode) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.peer, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&head(mode, self.settings.message as u64))?;
        Ok(stream)
    }

    fn stream_trips(&self, time: Duration) -> io::Result<(Histogram<u64>, u64)> {
        let mut stream = self.connect(Mode::Echo)?;
        let mut payload = Payload::new(self.settings.message, 0);
        let mut answer = vec![0_u8; self.settings.message];
        let mut trips = histogram();
        let (mut number, mut until) = (0_u64, None);
        while trips.is_empty() || until.is_none_or(|until| Instant::now() < until) {
            let began = Instant::now();
            stream.write_all(payload.of(number))?;
            stream.read_exact(&mut answer)?;
            let took = began.elapsed();
            if !payload.is(number, &answer) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer has other bytes than were sent"));
            }
            number += 1;
            match until {
                Some(_) => trips.saturating_record(nanos(took)),
                None if number >= u64::from(WARM_IN) => until = Some(Instant::now() + time),
                None => {}
            }
        }
        Ok((trips, 0))
    }

    fn stream_one_way(&self, time: Duration) -> io::Result<OneWay> {
        let mut stream = self.connect(Mode::Count)?;
        let mut payload = Payload::new(self.settings.message, 0);
        let began = Instant::now();
        let mut sent = 0;
        while sent == 0 || began.elapsed() < time {
            stream.write_all(payload.of(sent))?;
            sent += 1;
        }
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut told = [0_u8; 16];
        stream.read_exact(&mut told)?;
        // Until the last byte was taken, and reported.
        let seconds = began.elapsed().as_secs_f64();
        let (came, wrong) = (u64_at(&told, 0), u64_at(&told, 8));
        if came != sent {
            let what = format!("{came} of {sent} messages came over a stream");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(OneWay { sent, came, wrong, seconds })
    }

    fn socket(&self) -> io::Result<UdpSocket> {
        let any: SocketAddr = match self.peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(self.peer)?;
        socket.set_read_timeout(Some(LOST_AFTER))?;
        Ok(socket)
    }

    /// One trip at least, also where a datagram that is lost or late takes the whole time.
    #[expect(clippy::cast_possible_truncation, reason = "sessions and datagrams are numbered by 32 bits")]
    fn datagram_trips(&self, time: Duration) -> io::Result<(Histogram<u64>, u64)> {
        let socket = self.socket()?;
        let mut payload = Payload::new(self.settings.message, DATAGRAM_HEAD);
        let mut answer = vec![0_u8; 1 << 16];
        let mut trips = histogram();
        let (mut lost, mut late) = (0, 0);
        let (mut number, mut until) = (0_u32, None);
        while trips.is_empty() || until.is_none_or(|until| Instant::now() < until) {
            let message = payload.of(u64::from(number));
            message[..DATAGRAM_HEAD].copy_from_slice(&datagram_head(Mode::Echo, self.session as u32, number));
            let began = Instant::now();
            socket.send(message)?;
            match answered(&socket, &mut answer, number) {
                Ok(length) => {
                    let took = began.elapsed();
                    late = 0;
                    if !payload.is(u64::from(number), &answer[..length]) {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "a datagram came back with other bytes",
                        ));
                    }
                    if until.is_some() {
                        trips.saturating_record(nanos(took));
                    }
                }
                Err(why) if is_late(&why) && late < MOST_LATE => {
                    lost += 1;
                    late += 1;
                }
                Err(why) => return Err(why),
            }
            number = number.wrapping_add(1);
            if until.is_none() && number >= WARM_IN {
                until = Some(Instant::now() + time);
            }
        }
        Ok((trips, lost))
    }

    #[expect(clippy::cast_possible_truncation, reason = "sessions and datagrams are numbered by 32 bits")]
    fn datagrams_one_way(&self, time: Duration) -> io::Result<OneWay> {
        let socket = self.socket()?;
        // Another session than that of the run before, also where a peer serves several runs.
        let session = (self.session >> 32) as u32 | 1;
        let mut payload = Payload::new(self.settings.message, DATAGRAM_HEAD);
        let began = Instant::now();
        let mut sent = 0_u64;
        while sent == 0 || began.elapsed() < time && sent < u64::from(u32::MAX) {
            let message = payload.of(sent);
            message[..DATAGRAM_HEAD].copy_from_slice(&datagram_head(Mode::Count, session, sent as u32));
            match socket.send(message) {
                Ok(_) => sent += 1,
                // The queue of the interface is full: what would be lost here is not sent.
                Err(why) if why.raw_os_error() == Some(ENOBUFS) => thread::yield_now(),
                Err(why) => return Err(why),
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        let (came, wrong) = tell(&socket, session)?;
        Ok(OneWay { sent, came, wrong, seconds })
    }
}

const ENOBUFS: i32 = 105;

/// The answer to datagram `number`; answers to earlier ones are passed over.
fn answered(socket: &UdpSocket, answer: &mut [u8], number: u32) -> io::Result<usize> {
    let deadline = Instant::now() + LOST_AFTER;
    loop {
        let length = again_after_signals(|| socket.recv(answer))?;
        if length >= DATAGRAM_HEAD && crate::echo::u32_at(answer, 12) == number {
            return Ok(length);
        }
        if Instant::now() >= deadline {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
    }
}

/// What the peer counted in a session, asked until it answers the same twice: datagrams may still be under way.
fn tell(socket: &UdpSocket, session: u32) -> io::Result<(u64, u64)> {
    let (mut last, mut answer, mut late) = (None, [0_u8; 64], 0);
    for number in 1..=MOST_ASKED {
        socket.send(&datagram_head(Mode::Tell, session, number))?;
        match answered(socket, &mut answer, number) {
            Ok(_) => {
                let told = (u64_at(&answer, DATAGRAM_HEAD), u64_at(&answer, DATAGRAM_HEAD + 8));
                if last == Some(told) {
                    return Ok(told);
                }
                (last, late) = (Some(told), 0);
                thread::sleep(UNDER_WAY);
            }
            Err(why) if is_late(&why) && late < MOST_LATE => late += 1,
            Err(why) => return Err(why),
        }
    }
    Err(io::Error::from(io::ErrorKind::TimedOut))
}

fn is_late(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// One nanosecond to one minute, three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("1 ns to 1 min at 3 digits are bounds")
}

fn nanos(duration: Duration) -> u64 {
    Nanos::from(duration).0.max(1)
}
