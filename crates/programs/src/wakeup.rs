//! `wakeup`: how long after its time or its signal a thread runs, as cyclictest measures it.
//!
//! By `timer` one thread sleeps until absolute times, one period apart, and reads the clock when it runs. By `futex`, `pipe` and
//! `eventfd` a second thread keeps the times and wakes the first, which takes the difference between the moment just before the waking
//! call and the moment at which it runs. Where several signals meet while the thread is late, its latency is that of the first of them:
//! counted from the last, the longest latencies would be reported as shorter than a period. Timers have no slack. Neighbours are threads
//! that compute all the time on the same CPUs, at the usual priority. A period that began while the thread was still late for an earlier
//! one is counted as missed and has no latency of its own.
//!
//! By `ipi` one virtual CPU interrupts another, which is halted ([`baremark_microvm::Interrupts`]): both moments are read inside the guest, the one
//! before the interrupt is sent, the other in its handler, so that no exit to this program is in the latency.
//!
//! It refuses percentiles for which there are too few wake-ups. Other wake-ups there are none inside the microVM: it has no kernel, so that a
//! thread of it sleeps and wakes in the host's.

use crate::counts::counts;
use baremark_microvm::Interrupts;
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::hdr;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::{Sample, TickRate};
use baremark_model::value::Value;
use baremark_model::wire::{Detail, Point};
use baremark_stats::percentile::sample_floor;
use baremark_sys::affinity::Seat;
use baremark_sys::clock::{monotonic_ns, tick_rate};
use baremark_sys::wake::{Event, no_slack, sleep_until};
use baremark_sys::{affinity, futex};
use hdrhistogram::Histogram;
use serde_json::json;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Wake-ups that count for nothing: caches are filled and threads placed.
const WARM_IN: u64 = 10;
/// What goes over the pipe for each wake-up, and at the end.
const WAKE: u8 = 1;
const END: u8 = 0;

const BY: Knob = Knob::new("by", Kind::Choice(&["timer", "futex", "pipe", "eventfd", "ipi"]), Default::Typed("timer"))
    .help(
        "what wakes the thread: a timer at an absolute time, another thread by a futex, a pipe or an eventfd, \
         or, for a halted virtual CPU, an interrupt of another virtual CPU (ipi; needs /dev/kvm)",
    );

const PERIOD: Knob = Knob::new("period", Kind::Time { min: 50_000, max: 1_000_000_000 }, Default::Typed("1 ms"))
    .help("time between two wake-ups");

const NEIGHBOURS: Knob = Knob::new("neighbours", Kind::Count { min: 0, max: 256 }, Default::Typed("0"))
    .help("threads that compute meanwhile on the same CPUs, at the usual priority");

const fn metric(key: &'static str, together: Aggregate, help: &'static str) -> Metric {
    Metric::lower(key, "us", together).help(help)
}

/// Percentiles by metric.
const LATENCIES: [(&str, f64); 4] =
    [("latency_p50_us", 0.5), ("latency_p95_us", 0.95), ("latency_p99_us", 0.99), ("latency_p99_9_us", 0.999)];

static METRICS: [Metric; 8] = [
    metric("latency_p50_us", Aggregate::Mean, "wake-up latency, median"),
    metric("latency_p95_us", Aggregate::Most, "wake-up latency, 95th percentile"),
    metric("latency_p99_us", Aggregate::Most, "wake-up latency, 99th percentile"),
    metric("latency_p99_9_us", Aggregate::Most, "wake-up latency, 99.9th percentile"),
    metric("latency_mean_us", Aggregate::Mean, "wake-up latency, mean"),
    metric("latency_max_us", Aggregate::Most, "wake-up latency, largest; it grows with the number of wake-ups"),
    metric("jitter_us", Aggregate::Most, "95th percentile less the median"),
    Metric::lower("missed", "%", Aggregate::Mean).help("periods that passed while the thread was late"),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "wakeup",
    help: "wake-up latency and jitter of a thread, by timer, futex, pipe or eventfd, or of a virtual CPU by an interrupt of another, \
           idle or with neighbours; ranks = 2 gives the \
           waking thread a CPU of its own",
    source: "this program; as cyclictest of rt-tests measures it",
    parameters: &[BY, PERIOD, NEIGHBOURS],
    metrics: &METRICS,
    // Arms that take turns have a figure together or none. A program that a place lacks can be installed, virtual CPUs cannot.
    alternates: |arm| !matches!(arm.parameters.get(BY.key), Some(Value::Choice(by)) if by == "ipi"),
    ..Descriptor::JOB
};

/// Wake-up latency.
#[derive(Clone, Copy, Debug)]
pub struct Wakeup;

impl Job for Wakeup {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let number = |key: &str, usual: u64| match arm.parameters.get(key) {
            Some(Value::Count(number)) => *number,
            Some(Value::TimeNs(time)) => time.0,
            _ => usual,
        };
        let by = match arm.parameters.get(BY.key) {
            Some(Value::Choice(word)) => word.as_str(),
            _ => "timer",
        };
        let (period_ns, neighbours) = (number(PERIOD.key, 1_000_000), number(NEIGHBOURS.key, 0));
        let waker = waker(by).map_err(|why| JobError::failed(format!("{by}: {why}")))?;
        let virtual_cpus = if by == "ipi" { Some(VirtualCpus::start(around.cpus)?) } else { None };
        Ok(Box::new(PreparedWakeups {
            by,
            waker,
            virtual_cpus,
            period_ns,
            neighbours,
            cpus: around.cpus,
            phase: around.phase,
        }))
    }
}

/// Two virtual CPUs of which one interrupts the other.
struct VirtualCpus {
    interrupts: Interrupts,
    rate: TickRate,
}

/// How long the rate of the time-stamp counter is measured.
const RATE_SPAN: Duration = Duration::from_millis(20);

impl VirtualCpus {
    /// The one that is interrupted runs on the first CPU.
    fn start(cpus: &[usize]) -> Result<VirtualCpus, JobError> {
        let seat = cpus.first().map_or(Seat::Anywhere, |cpu| Seat::Cpu(*cpu));
        let interrupts = Interrupts::start(seat).map_err(|why| JobError::Missing {
            what: format!("ipi is not available here: {why}"),
            remedy: "run it where /dev/kvm can be opened and has an interrupt controller; a container may not have it"
                .to_owned(),
        })?;
        let (rate, _) = tick_rate(RATE_SPAN).map_err(JobError::failed)?;
        Ok(VirtualCpus { interrupts, rate })
    }

    /// Interrupts once; the latency in nanoseconds.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds of a latency")]
    fn latency_ns(&mut self) -> io::Result<u64> {
        let ticks = self.interrupts.round().map_err(io::Error::other)?;
        Ok((1e9 * self.rate.seconds(ticks)) as u64)
    }
}

/// One way to wake a thread.
trait Waker: Send + Sync {
    /// Wakes the sleeper; `more` is false at the end.
    fn wake(&self, more: bool) -> io::Result<()>;
    /// Sleeps until it is woken; whether there is more to come.
    fn sleep(&self) -> io::Result<bool>;
}

/// The waker of that name; `None` for the timer, which needs none.
fn waker(by: &str) -> io::Result<Option<Box<dyn Waker>>> {
    Ok(match by {
        "futex" => Some(Box::<Futex>::default()),
        "pipe" => {
            let (from, to) = io::pipe()?;
            Some(Box::new(Pipe(from, to)))
        }
        "eventfd" => Some(Box::new(EventCounter { event: Event::new()?, ended: AtomicBool::new(false) })),
        _ => None,
    })
}

/// A word that counts wake-ups, and the word by which the end is known.
#[derive(std::default::Default)]
struct Futex {
    word: AtomicU32,
    seen: AtomicU32,
    ended: AtomicBool,
}

impl Waker for Futex {
    fn wake(&self, more: bool) -> io::Result<()> {
        self.ended.store(!more, Ordering::Release);
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word);
        Ok(())
    }

    fn sleep(&self) -> io::Result<bool> {
        let seen = self.seen.load(Ordering::Relaxed);
        while self.word.load(Ordering::Acquire) == seen {
            futex::sleep(&self.word, seen);
        }
        self.seen.store(self.word.load(Ordering::Acquire), Ordering::Relaxed);
        Ok(!self.ended.swap(false, Ordering::AcqRel))
    }
}

struct Pipe(PipeReader, PipeWriter);

impl Waker for Pipe {
    fn wake(&self, more: bool) -> io::Result<()> {
        (&self.1).write_all(&[if more { WAKE } else { END }])
    }

    fn sleep(&self) -> io::Result<bool> {
        // Signals that met are read at once, as the other two wakers merge them; the end is the last of them.
        let mut bytes = [END; 64];
        let count = (&self.0).read(&mut bytes)?;
        Ok(count > 0 && bytes[count - 1] == WAKE)
    }
}

struct EventCounter {
    event: Event,
    ended: AtomicBool,
}

impl Waker for EventCounter {
    fn wake(&self, more: bool) -> io::Result<()> {
        self.ended.store(!more, Ordering::Release);
        self.event.signal()
    }

    fn sleep(&self) -> io::Result<bool> {
        self.event.wait()?;
        Ok(!self.ended.swap(false, Ordering::AcqRel))
    }
}

/// When the first signal was sent that the sleeper has not answered; 0 for none.
#[derive(std::default::Default)]
struct Unanswered(AtomicU64);

impl Unanswered {
    /// Notes a signal that is sent at `now_ns`, unless an earlier one is unanswered.
    fn signal(&self, now_ns: u64) {
        // A failure means that an earlier signal is there, which is the one to keep.
        let _kept = self.0.compare_exchange(0, now_ns, Ordering::AcqRel, Ordering::Acquire);
    }

    /// When the first of the unanswered signals was sent. `None` where a wake-up before has answered all.
    fn answer(&self) -> Option<u64> {
        Some(self.0.swap(0, Ordering::AcqRel)).filter(|at_ns| *at_ns != 0)
    }
}

struct PreparedWakeups<'s> {
    by: &'s str,
    waker: Option<Box<dyn Waker>>,
    virtual_cpus: Option<VirtualCpus>,
    period_ns: u64,
    neighbours: u64,
    cpus: &'s [usize],
    phase: Duration,
}

/// What one phase gave.
struct Woken {
    latencies: Histogram<u64>,
    missed: u64,
}

impl Woken {
    /// Room for one nanosecond to one minute, three digits.
    fn new() -> Woken {
        let latencies = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("1 ns to 1 min at 3 digits are bounds");
        Woken { latencies, missed: 0 }
    }
}

impl ReadyJob for PreparedWakeups<'_> {
    fn run(&mut self) -> Result<JobRun, JobError> {
        let stop = AtomicBool::new(false);
        let begin_ns = monotonic_ns();
        let woken = thread::scope(|scope| {
            for index in 0..self.neighbours {
                let (stop, cpu) = (&stop, self.cpu(usize::try_from(index).unwrap_or(0)));
                scope.spawn(move || compute(stop, cpu));
            }
            let woken = scope.spawn(|| self.woken()).join();
            stop.store(true, Ordering::Release);
            woken
        });
        let woken = woken.map_err(|_panic| JobError::failed("the thread that is woken has ended"))?;
        let woken = woken.map_err(|why| JobError::failed(format!("waking by {}: {why}", self.by)))?;
        let took = monotonic_ns() - begin_ns;
        Ok(JobRun {
            samples: samples(&woken),
            checked: format!("{} wake-ups, {} periods missed", woken.latencies.len(), woken.missed),
            points: vec![point(&woken, took)],
            detail: Some(detail(&woken)),
            ..JobRun::default()
        })
    }
}

impl PreparedWakeups<'_> {
    /// A CPU of the arm's, in turn; `None` where it has none of its own.
    fn cpu(&self, index: usize) -> Option<usize> {
        self.cpus.get(index % self.cpus.len().max(1)).copied()
    }

    /// The thread that is woken, on the first CPU, and the one that wakes it, on the last.
    fn woken(&mut self) -> io::Result<Woken> {
        let last = self.cpu(self.cpus.len().saturating_sub(1));
        seat(if self.virtual_cpus.is_some() { last } else { self.cpu(0) })?;
        no_slack()?;
        let periods = (u64::try_from(self.phase.as_nanos()).unwrap_or(u64::MAX) / self.period_ns).max(1) + WARM_IN;
        let mut woken = Woken::new();
        if let Some(virtual_cpus) = &mut self.virtual_cpus {
            woken.missed = times(self.period_ns, periods, |number, _| {
                let latency_ns = virtual_cpus.latency_ns()?;
                if number >= WARM_IN {
                    woken.latencies.saturating_record(latency_ns.max(1));
                }
                Ok(())
            })?;
            return Ok(woken);
        }
        let Some(waker) = &self.waker else {
            let missed = times(self.period_ns, periods, |number, due| {
                record(&mut woken, number, due);
                Ok(())
            })?;
            return Ok(Woken { missed, ..woken });
        };
        let unanswered = Unanswered::default();
        thread::scope(|scope| {
            let times = scope.spawn(|| {
                let kept = seat(last).and_then(|()| no_slack()).and_then(|()| {
                    times(self.period_ns, periods, |_, _| {
                        unanswered.signal(monotonic_ns());
                        waker.wake(true)
                    })
                    .map(drop)
                });
                // The sleeper must hear of the end, whatever happened.
                waker.wake(false).and(kept)
            });
            let mut number = 0;
            let mut more = true;
            while more {
                more = waker.sleep()?;
                // The end may meet the last signal, which is answered as well.
                if let Some(sent) = unanswered.answer() {
                    record(&mut woken, number, sent);
                    number += 1;
                }
            }
            times.join().map_err(|_panic| io::Error::other("the waking thread has ended"))?
        })?;
        // Signals that met have one latency, and times at which the waking thread was late have no signal.
        woken.missed = periods.saturating_sub(WARM_IN).saturating_sub(woken.latencies.len());
        Ok(woken)
    }
}

/// Takes the latency of wake-up `number` since `due`, but for the first.
fn record(woken: &mut Woken, number: u64, due: u64) {
    if number >= WARM_IN {
        woken.latencies.saturating_record(monotonic_ns().saturating_sub(due).max(1));
    }
}

/// Calls `wake` at `periods` times, with its number and the time. Returns how many were missed, those after the last call among them.
fn times(period_ns: u64, periods: u64, mut wake: impl FnMut(u64, u64) -> io::Result<()>) -> io::Result<u64> {
    let mut due = monotonic_ns() + period_ns;
    let (mut number, mut all_missed) = (0, 0);
    while number < periods {
        sleep_until(due);
        wake(number, due)?;
        let late = monotonic_ns().saturating_sub(due) / period_ns;
        due += (late + 1) * period_ns;
        let missed = late.min(periods - number - 1);
        all_missed += missed;
        number += 1 + missed;
    }
    Ok(all_missed)
}

fn seat(cpu: Option<usize>) -> io::Result<()> {
    cpu.map_or(Ok(()), affinity::pin_current_thread)
}

/// Computes until `stop` is set. Where it cannot be pinned it computes wherever it is put.
fn compute(stop: &AtomicBool, cpu: Option<usize>) {
    drop(seat(cpu));
    let mut number = 1_u64;
    while !stop.load(Ordering::Acquire) {
        for _ in 0..1000 {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a latency, and counts far below 2^53")]
fn samples(woken: &Woken) -> Vec<Sample> {
    let latencies = &woken.latencies;
    let us = |ns: u64| ns as f64 / 1e3;
    let enough = |p: f64| sample_floor(p, 0.95).is_some_and(|floor| latencies.len() >= floor);
    let mut samples: Vec<Sample> = LATENCIES
        .iter()
        .filter(|(_, p)| enough(*p))
        .map(|(metric, p)| Sample::new(*metric, us(latencies.value_at_quantile(*p))))
        .collect();
    if enough(0.95) {
        let spread = latencies.value_at_quantile(0.95) - latencies.value_at_quantile(0.5);
        samples.push(Sample::new("jitter_us", us(spread)));
    }
    if !latencies.is_empty() {
        samples.push(Sample::new("latency_mean_us", latencies.mean() / 1e3));
        samples.push(Sample::new("latency_max_us", us(latencies.max())));
    }
    let all = latencies.len() + woken.missed;
    samples.push(Sample::new("missed", 100.0 * woken.missed as f64 / all.max(1) as f64));
    samples
}

fn point(woken: &Woken, took_ns: u64) -> Point {
    Point::new("all", (0, took_ns), Vec::new(), hdr::encoded(&counts(&woken.latencies))).of(&["latency_us"])
}

/// The histogram by powers of two: upper ends in ns, and how many wake-ups were at or below each and above the one before.
fn detail(woken: &Woken) -> Detail {
    let rows: Vec<_> = woken
        .latencies
        .iter_log(256, 2.0)
        .map(|of| json!({ "to_ns": of.value_iterated_to(), "count": of.count_since_last_iteration() }))
        .collect();
    Detail { format: "baremark-wakeup/1".to_owned(), document: json!({ "histogram": rows, "missed": woken.missed }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use std::path::Path;
    use std::sync::Arc;

    /// Prints why a test is skipped; a macro's output would be captured.
    fn skipped(why: &str) {
        drop(io::stderr().write_all(format!("skipped: {why}\n").as_bytes()));
    }

    fn run(by: &str, neighbours: u64, cpus: &[usize]) -> JobRun {
        let mut arm = ResolvedArm::native(1, PageSize::Small);
        arm.parameters.insert("by".to_owned(), Value::Choice(by.to_owned()));
        arm.parameters.insert("neighbours".to_owned(), Value::Count(neighbours));
        let interrupt = Arc::new(AtomicBool::new(false));
        let phase = Duration::from_millis(150);
        let keeper = Path::new("/");
        let around = JobContext { keeper, cpus, seed: 1, phase, overwritable: &[], interrupt: &interrupt };
        Wakeup.prepare(&arm, around).expect("it can be").run().expect("it runs")
    }

    /// The latencies that there were enough wake-ups for, which a busy machine may have none of, are in order, and the histogram has all of
    /// those that counted.
    fn is_sound(run: &JobRun) {
        let order = ["latency_p50_us", "latency_p95_us", "latency_p99_us", "latency_p99_9_us", "latency_max_us"];
        let value =
            |metric: &&str| run.samples.iter().find(|sample| sample.metric == **metric).map(|found| found.value);
        let found: Vec<f64> = order.iter().filter_map(value).collect();
        assert!(found.is_sorted() && found.iter().all(|latency| *latency > 0.0), "{run:?}");
        let rows = &run.detail.as_ref().expect("a histogram").document["histogram"];
        let rows = rows.as_array().expect("rows").iter();
        let counted: u64 = rows.map(|row| row["count"].as_u64().expect("a count")).sum();
        assert!(run.checked.starts_with(&format!("{counted} wake-ups")), "{run:?}");
        assert_eq!(value(&"latency_max_us").is_some(), counted > 0, "{run:?}");
    }

    /// Where one of two arms cannot run, the other has no figure either.
    #[test]
    fn places_take_turns_but_with_virtual_cpus_which_one_may_lack() {
        let alternates = |by: &str| {
            let mut arm = ResolvedArm::native(1, PageSize::Small);
            arm.parameters.insert("by".to_owned(), Value::Choice(by.to_owned()));
            (DESCRIPTOR.alternates)(&arm)
        };
        assert_eq!(["timer", "futex", "ipi"].map(alternates), [true, true, false]);
    }

    #[test]
    fn every_way_of_waking_has_latencies_in_order() {
        let cpus = affinity::allowed_cpus().expect("affinity");
        for by in ["timer", "futex", "pipe", "eventfd"] {
            for cpus in [&cpus[..1], &cpus[..cpus.len().min(2)]] {
                is_sound(&run(by, 0, cpus));
            }
        }
    }

    /// The latency is below the time between two interrupts, and every interrupt has one.
    #[test]
    fn an_interrupted_virtual_cpu_has_latencies() {
        let mut virtual_cpus = match VirtualCpus::start(&[]) {
            Ok(virtual_cpus) => virtual_cpus,
            Err(why) => {
                assert!(why.to_string().contains("ipi is not available here: "), "{why}");
                return skipped(&why.to_string());
            }
        };
        let before = monotonic_ns();
        let latencies: Vec<u64> = (0..20).map(|_| virtual_cpus.latency_ns().expect("it arrives")).collect();
        let took = monotonic_ns() - before;
        assert!(latencies.iter().all(|ns| *ns > 0) && latencies.iter().sum::<u64>() < took, "{latencies:?} of {took}");
        is_sound(&run("ipi", 0, &[]));
    }

    /// A thread that must wait for its CPU is later than one that has it for itself.
    #[test]
    fn neighbours_are_there_while_it_runs_and_gone_afterwards() {
        // Threads without a name of their own have that of their parent, which tells them from those of other tests.
        const NAME: &str = "with-neighbours";
        let named = || {
            let threads = std::fs::read_dir("/proc/self/task").expect("/proc").flatten();
            let name = |path: std::path::PathBuf| std::fs::read_to_string(path.join("comm")).unwrap_or_default();
            threads.filter(|thread| name(thread.path()).trim_end() == NAME).count()
        };
        let runs = thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            let cpus = affinity::allowed_cpus().expect("affinity");
            is_sound(&run("timer", 3, &cpus[..1]));
            // A thread is still listed for a moment after it was waited for.
            let deadline = monotonic_ns() + 60_000_000_000;
            while named() > 1 {
                assert!(monotonic_ns() < deadline, "of {} threads one is not a neighbour", named());
                thread::sleep(Duration::from_millis(5));
            }
        });
        runs.expect("a thread").join().expect("neighbours have ended");
    }

    /// A sleeper that is late after each wake-up: it does not run before four more signals were sent, or the last.
    struct Late {
        inner: Box<dyn Waker>,
        sent: AtomicU64,
        ended: AtomicBool,
    }

    impl Waker for Late {
        fn wake(&self, more: bool) -> io::Result<()> {
            self.ended.fetch_or(!more, Ordering::Release);
            self.sent.fetch_add(1, Ordering::Release);
            self.inner.wake(more)
        }

        fn sleep(&self) -> io::Result<bool> {
            let more = self.inner.sleep();
            let until = self.sent.load(Ordering::Acquire) + 4;
            while self.sent.load(Ordering::Acquire) < until && !self.ended.load(Ordering::Acquire) {
                thread::sleep(Duration::from_micros(50));
            }
            more
        }
    }

    /// Signals are due a millisecond apart, so that of four that meet the last was sent two milliseconds after the first at least: counted from
    /// the last, the latency would be next to nothing.
    #[test]
    fn signals_that_meet_have_the_latency_of_the_first() {
        for by in ["futex", "pipe", "eventfd"] {
            let late = |inner| Late { inner, sent: AtomicU64::new(0), ended: AtomicBool::new(false) };
            let waker = waker(by).expect("it can be made").map(|inner| Box::new(late(inner)) as Box<dyn Waker>);
            let phase = Duration::from_millis(500);
            let mut ready = PreparedWakeups {
                by,
                waker,
                virtual_cpus: None,
                period_ns: 1_000_000,
                neighbours: 0,
                cpus: &[],
                phase,
            };
            let woken = ready.woken().expect("it runs");
            let count = woken.latencies.len();
            assert_eq!(count + woken.missed, 500, "{by}");
            // The end may come before four more.
            let short = woken.latencies.count_between(0, 1_990_000);
            assert!(short <= 1, "{by}: {short} of {count} are below 2 ms");
        }
    }

    #[test]
    fn periods_that_passed_while_a_wake_up_was_late_are_missed() {
        let mut seen = Vec::new();
        let missed = times(1_000_000, 200, |number, _| {
            seen.push(number);
            // A busy machine may miss others too, that after the first is in any case.
            if seen.len() == 1 {
                thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        })
        .expect("it keeps time");
        assert!(seen[0] == 0 && seen.get(1).is_none_or(|second| *second > 4), "{seen:?}");
        assert!(seen.is_sorted() && seen.iter().all(|number| *number < 200), "{seen:?}");
        assert_eq!(seen.len() as u64 + missed, 200, "each is kept or missed: {seen:?}");
    }

    #[test]
    fn periods_after_the_last_wake_up_are_missed_too() {
        let mut calls = 0;
        let missed = times(1_000_000, 20, |_, _| {
            calls += 1;
            // All that are left pass meanwhile.
            thread::sleep(Duration::from_millis(30));
            Ok(())
        });
        assert_eq!((calls, missed.expect("it keeps time")), (1, 19));
    }
}
