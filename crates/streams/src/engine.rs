//! Runs a transfer between two ends and measures a window of it.
//!
//! All connections are made first and run for a while; then counters are read, the window passes, and they are read again. CPU time is of
//! the threads of the transfer and of ksoftirqd, not of the machine, so that other work does not count.

use crate::counters::{CpuTime, Protocols, ksoftirqd, softirq_time, this_thread, time_of};
use crate::ends::Path;
use crate::order::{COUNTED, MEASURED, MEASURING, WAITING, Worker};
pub use crate::order::{Direction, Order, Pattern};
use crate::patterns;
use baremark_sys::affinity;
use hdrhistogram::Histogram;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// What was measured in the window.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its length in seconds.
    pub seconds: f64,
    /// Bytes that receivers took.
    pub bytes: u64,
    /// CPU time.
    pub cpu: CpuTime,
    /// What the protocols of the ends that receive counted; those of both ends on loopback.
    pub receiving: Protocols,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Round trips, of patterns that have them, in ns.
    pub trips: Histogram<u64>,
    /// The time in which they ended, in seconds: it has no reading of counters in it.
    pub trips_seconds: f64,
    /// Share of datagrams that did not arrive, of all that were sent; 0 for TCP.
    pub lost: f64,
}

impl Outcome {
    /// Gigabits per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "bytes below 2^53")]
    pub fn gbit_per_s(&self) -> f64 {
        8.0 * self.bytes as f64 / self.seconds / 1e9
    }

    /// CPUs that both ends and their softirqs kept busy.
    #[must_use]
    pub fn cpus(&self) -> f64 {
        (self.cpu.sending + self.cpu.receiving + self.cpu.ksoftirqd) / self.seconds
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Sending,
    Receiving,
}

/// A thread of a transfer, as the measuring thread sees it.
struct Seen {
    side: Side,
    thread: PathBuf,
    bytes: Arc<AtomicU64>,
}

struct Shared {
    stage: AtomicU8,
    /// Set for senders first, then for receivers, who take what is under way.
    stopped: [AtomicBool; 2],
    trips: Mutex<Histogram<u64>>,
    seen: Mutex<Vec<Seen>>,
}

type Work<'w> = Box<dyn FnOnce(&Worker<'_>) -> io::Result<()> + Send + 'w>;
type Handle<'s> = ScopedJoinHandle<'s, io::Result<()>>;

/// Runs a transfer.
///
/// # Errors
/// What sockets and namespaces give, and when not every byte of a stream arrived.
pub fn run(order: &Order, path: &Path) -> io::Result<Outcome> {
    let trips = Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(io::Error::other)?;
    let shared = Shared {
        stage: AtomicU8::new(WAITING),
        stopped: [AtomicBool::new(false), AtomicBool::new(false)],
        trips: Mutex::new(trips),
        seen: Mutex::default(),
    };
    let measured = thread::scope(|scope| {
        let mut threads = [Vec::new(), Vec::new()];
        let begun = begin(scope, order, path, &shared, &mut threads);
        let window = begun.as_ref().ok().map(|_| measure(order, path, &shared));
        finish(&shared, threads, begun.unwrap_or_default())?;
        window.unwrap_or_else(|| Err(io::Error::other("the ends could not be connected")))
    })?;
    let total = |side| shared.seen().iter().filter(|seen| seen.side == side).map(Seen::count).sum::<u64>();
    let (sent, received) = (total(Side::Sending), total(Side::Receiving));
    if order.pattern == Pattern::Stream && sent != received {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{received} of {sent} bytes arrived")));
    }
    #[expect(clippy::cast_precision_loss, reason = "bytes below 2^53")]
    let lost = match order.pattern {
        Pattern::Datagrams if sent > 0 => 1.0 - received as f64 / sent as f64,
        _ => 0.0,
    };
    let trips = shared.trips.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Outcome { trips, lost, ..measured })
}

impl Seen {
    fn count(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn seen(&self) -> std::sync::MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts all threads. Servers may still wait for a connection when the transfer ends, as those of an end that failed do: the addresses at which
/// they are woken.
fn begin<'s, 'e: 's>(
    scope: &'s Scope<'s, 'e>,
    order: &'e Order,
    path: &'e Path,
    shared: &'e Shared,
    threads: &mut [Vec<Handle<'s>>; 2],
) -> io::Result<Vec<(SocketAddr, &'e Path, usize)>> {
    let mut wake = Vec::new();
    let ways: &[(usize, usize)] = if order.direction == Direction::Both { &[(0, 1), (1, 0)] } else { &[(0, 1)] };
    for &(from, to) in ways {
        for _ in 0..order.streams {
            let at = SocketAddr::new(path.address(to), 0);
            let (address, receive): (SocketAddr, Work<'e>) = match order.pattern {
                Pattern::Datagrams => {
                    let socket = path.at(to, || bound(order, at)).map_err(io::Error::other)??;
                    let address = socket.local_addr()?;
                    (address, Box::new(move |worker| patterns::receive_datagrams(order, worker, &socket)))
                }
                _ => {
                    let listener = path.at(to, || listening(order, at)).map_err(io::Error::other)??;
                    let address = listener.local_addr()?;
                    wake.push((address, path, from));
                    (address, Box::new(move |worker| served(order, worker, &listener)))
                }
            };
            let send: Work<'e> = Box::new(move |worker| sending(order, worker, address));
            threads[1].push(start(scope, order, path, shared, (to, Side::Receiving), receive)?);
            threads[0].push(start(scope, order, path, shared, (from, Side::Sending), send)?);
        }
    }
    Ok(wake)
}

fn sending(order: &Order, worker: &Worker<'_>, to: SocketAddr) -> io::Result<()> {
    match order.pattern {
        Pattern::Stream => patterns::send(order, worker, to),
        Pattern::RequestResponse => patterns::request(order, worker, to),
        Pattern::ConnectClose => patterns::connect_and_close(order, worker, to),
        Pattern::Datagrams => patterns::send_datagrams(order, worker, to),
    }
}

fn served(order: &Order, worker: &Worker<'_>, listener: &TcpListener) -> io::Result<()> {
    match order.pattern {
        Pattern::ConnectClose => patterns::answer_connections(order, worker, listener),
        Pattern::RequestResponse => patterns::answer(order, worker, listener.accept()?.0, false),
        _ => patterns::receive(order, worker, listener.accept()?.0),
    }
}

fn listening(order: &Order, at: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(at), socket2::Type::STREAM, None)?;
    if let Some(bytes) = order.buffer {
        // Before listening: connections inherit it, and the window's scale is agreed on with the first segment.
        socket.set_recv_buffer_size(bytes)?;
        socket.set_send_buffer_size(bytes)?;
    }
    socket.bind(&at.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

fn bound(order: &Order, at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(at), socket2::Type::DGRAM, None)?;
    if let Some(bytes) = order.buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&at.into())?;
    Ok(socket.into())
}

/// Starts a thread at an end and waits until the measuring thread can see it.
fn start<'s, 'e: 's>(
    scope: &'s Scope<'s, 'e>,
    order: &'e Order,
    path: &'e Path,
    shared: &'e Shared,
    (end, side): (usize, Side),
    work: Work<'e>,
) -> io::Result<Handle<'s>> {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let handle = scope.spawn(move || {
        if let Some(namespace) = path.namespace(end) {
            namespace.enter().map_err(io::Error::other)?;
        }
        if let Some(cpus) = order.cpus {
            affinity::pin_current_thread(cpus[end])?;
        }
        let bytes = Arc::new(AtomicU64::new(0));
        shared.seen().push(Seen { side, thread: this_thread()?, bytes: Arc::clone(&bytes) });
        drop(ready);
        let stopped = &shared.stopped[usize::from(side == Side::Receiving)];
        let worked = work(&Worker { stage: &shared.stage, stopped, bytes, trips: &shared.trips });
        // A thread that has ended has no times to be read: it stays until they were.
        while shared.stage.load(Ordering::Acquire) != MEASURED {
            thread::sleep(Duration::from_millis(1));
        }
        worked
    });
    // The sender of the channel is dropped when the thread is ready or has failed, which its handle will say.
    let _: Result<(), _> = is_ready.recv();
    Ok(handle)
}

/// Stops senders, then receivers; the first failure of any.
fn finish(shared: &Shared, threads: [Vec<Handle<'_>>; 2], wake: Vec<(SocketAddr, &Path, usize)>) -> io::Result<()> {
    shared.stage.store(MEASURED, Ordering::Release);
    let mut outcome = Ok(());
    for (stopped, threads) in shared.stopped.iter().zip(threads) {
        stopped.store(true, Ordering::Relaxed);
        if std::ptr::eq(stopped, &raw const shared.stopped[1]) {
            for (address, path, from) in &wake {
                drop(path.at(*from, || TcpStream::connect_timeout(address, Duration::from_secs(1))));
            }
        }
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(ended);
        }
    }
    outcome
}

/// Counters at one moment.
struct Moment {
    at: Instant,
    bytes: u64,
    cpu: CpuTime,
    protocols: [Protocols; 2],
}

fn measure(order: &Order, path: &Path, shared: &Shared) -> io::Result<Outcome> {
    let cpus = order.cpus.map_or(Vec::new(), |cpus| cpus.to_vec());
    let softirqs = ksoftirqd(&cpus);
    thread::sleep(order.warm_up);
    let before = moment(path, shared, &softirqs, &cpus)?;
    let counting = Instant::now();
    shared.stage.store(MEASURING, Ordering::Release);
    thread::sleep(order.duration);
    shared.stage.store(COUNTED, Ordering::Release);
    let trips_seconds = counting.elapsed().as_secs_f64();
    let after = moment(path, shared, &softirqs, &cpus)?;
    let protocols = |end: usize| {
        let (before, after) = (before.protocols[end], after.protocols[end]);
        Protocols {
            received: after.received - before.received,
            received_bytes: after.received_bytes - before.received_bytes,
            retransmits: after.retransmits - before.retransmits,
        }
    };
    let (cpu, earlier) = (after.cpu, before.cpu);
    let receiving = match (path, order.direction) {
        (Path::Loopback, _) | (_, Direction::Forward) => protocols(1),
        (_, Direction::Both) => protocols(0).and(protocols(1)),
    };
    let retransmits = match path {
        Path::Loopback => protocols(0).retransmits,
        _ => protocols(0).retransmits + protocols(1).retransmits,
    };
    Ok(Outcome {
        seconds: (after.at - before.at).as_secs_f64(),
        bytes: after.bytes - before.bytes,
        cpu: CpuTime {
            sending: cpu.sending - earlier.sending,
            receiving: cpu.receiving - earlier.receiving,
            ksoftirqd: cpu.ksoftirqd - earlier.ksoftirqd,
            softirq: cpu.softirq - earlier.softirq,
        },
        receiving,
        retransmits,
        trips: Histogram::new(3).map_err(io::Error::other)?,
        trips_seconds,
        lost: 0.0,
    })
}

fn moment(path: &Path, shared: &Shared, softirqs: &[PathBuf], cpus: &[usize]) -> io::Result<Moment> {
    let protocols = |end| path.at(end, Protocols::read).map_err(io::Error::other)?;
    let protocols = [protocols(0)?, protocols(1)?];
    let seen = shared.seen();
    let times = |side| seen.iter().filter(|seen| seen.side == side).map(|seen| time_of(&seen.thread)).sum();
    let receiving = seen.iter().filter(|seen| seen.side == Side::Receiving);
    Ok(Moment {
        at: Instant::now(),
        bytes: receiving.map(Seen::count).sum(),
        cpu: CpuTime {
            sending: sum(times(Side::Sending))?,
            receiving: sum(times(Side::Receiving))?,
            ksoftirqd: softirqs.iter().filter_map(|thread| time_of(thread).ok()).sum(),
            softirq: softirq_time(cpus),
        },
        protocols,
    })
}

/// A sum of times, or the first failure: a thread that has ended early.
fn sum(times: io::Result<f64>) -> io::Result<f64> {
    times.map_err(|why| io::Error::new(why.kind(), format!("an end stopped early: {why}")))
}
