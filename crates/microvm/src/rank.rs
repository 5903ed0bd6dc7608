//! A rank: a pinned thread that owns one vCPU, waits without spinning for an order, carries it out in the machine, and
//! reports.
//!
//! Between executor and rank lies a desk: a slot under a lock, so that neither an order nor a report allocates (a rank
//! whose guest was abandoned in the middle of `malloc` must still be able to report). The thread that makes a vCPU runs it.

use crate::error::Error;
use crate::guest::{Order, Passage, Return};
use crate::kick;
use crate::machine::Machine;
use crate::stats::{Meter, Source};
use crate::vcpu::{Counts, Stop, Vcpu};
use baremark_model::seam::RankTime;
use baremark_sys::affinity::Seat;
use baremark_sys::clock::ticks;
use baremark_sys::run_queue;
use std::os::unix::thread::JoinHandleExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// How a rank's run ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) counts: Counts,
    pub(crate) result: Result<RankTime, Ending>,
    /// How long the rank's thread was ready to run while somebody else had its CPU; `None` where the kernel does not report it.
    pub(crate) queued_ns: Option<u64>,
}

/// Why there are no times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The machine stopped.
    Stopped(Stop),
    /// The body panicked and the rank left in good order.
    Panicked,
}

impl Report {
    /// Whether the machine may be in a state that resetting the vCPU does not undo.
    pub(crate) fn spoils(&self) -> bool {
        matches!(
            self.result,
            Err(Ending::Stopped(Stop::Failed(_) | Stop::Unexpected { .. } | Stop::Broken(_) | Stop::NoMemory(_)))
        )
    }
}

enum Slot {
    Empty,
    Ordered(Order),
    Reported(Report),
    Quit,
}

/// Where orders and reports are laid.
struct Desk {
    slot: Mutex<Slot>,
    changed: Condvar,
    stop: AtomicBool,
}

/// What the executor keeps of a rank.
pub(crate) struct Rank {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    signal: libc::c_int,
    immediate_exit: NonNull<u8>,
    /// The vCPU's statistics, where the kernel has them.
    pub(crate) stats: Option<Arc<Source>>,
    /// What is read when the tokens come.
    pub(crate) meters: Vec<Arc<Mutex<Meter>>>,
    /// The offset of the guest's clock, as read back.
    pub(crate) tsc_offset: Option<u64>,
}

// SAFETY: the pointer leads to one byte in memory that the vCPU shares with the kernel; it is only accessed atomically,
// and only while the rank's thread, and with it the vCPU, lives (it ends in `drop`, by `&mut`).
unsafe impl Send for Rank {}

/// What a rank's thread says once its vCPU is ready.
struct Ready {
    immediate_exit: usize,
    stats: Option<Arc<Source>>,
    meters: Vec<Arc<Mutex<Meter>>>,
    tsc_offset: Option<u64>,
}

/// A rank that has been told to start.
pub(crate) struct Starting {
    number: usize,
    desk: Arc<Desk>,
    thread: JoinHandle<()>,
    signal: libc::c_int,
    ready: mpsc::Receiver<Result<Ready, Error>>,
}

impl Starting {
    /// Starts the thread of rank `number` at `seat`.
    pub(crate) fn spawn(machine: Arc<Machine>, number: usize, seat: Seat) -> Result<Self, Error> {
        let signal = kick::signal()?;
        let desk =
            Arc::new(Desk { slot: Mutex::new(Slot::Empty), changed: Condvar::new(), stop: AtomicBool::new(false) });
        let (tell, ready) = mpsc::sync_channel(1);
        let own = desk.clone();
        let thread = thread::Builder::new()
            .name(format!("rank {number}"))
            .spawn(move || live(machine, number, seat, &own, tell))
            .map_err(|source| Error::Thread { rank: number, source })?;
        Ok(Starting { number, desk, thread, signal, ready })
    }

    /// Waits until its vCPU is ready.
    pub(crate) fn ready(self) -> Result<Rank, Error> {
        let gone = |error| Error::Thread { rank: self.number, source: std::io::Error::other(error) };
        let ready = match self.ready.recv().map_err(gone).flatten() {
            Ok(ready) => ready,
            Err(error) => {
                // It has said why it cannot continue, or is gone: either way it ends.
                drop(self.thread.join());
                return Err(error);
            }
        };
        let flag = std::ptr::with_exposed_provenance_mut(ready.immediate_exit);
        Ok(Rank {
            desk: self.desk,
            thread: Some(self.thread),
            signal: self.signal,
            immediate_exit: NonNull::new(flag).ok_or(Error::NoSignal)?,
            stats: ready.stats,
            meters: ready.meters,
            tsc_offset: ready.tsc_offset,
        })
    }
}

impl Rank {
    /// Lays down an order. The rank must not have one already; [`Rank::report_by`] must be called until it gives a report
    /// before anything that the order refers to goes away.
    pub(crate) fn order(&self, order: Order) {
        self.desk.stop.store(false, Ordering::SeqCst);
        self.desk.put(Slot::Ordered(order));
    }

    /// The report, if it comes by `deadline`.
    pub(crate) fn report_by(&self, deadline: Instant) -> Option<Report> {
        let mut slot = self.desk.lock();
        loop {
            if let Slot::Reported(report) = *slot {
                *slot = Slot::Empty;
                return Some(report);
            }
            let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            slot = self.desk.changed.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Brings the rank out of the machine, or out of a system call made for it. To be repeated until it reports.
    pub(crate) fn kick(&self) {
        self.desk.stop.store(true, Ordering::SeqCst);
        // SAFETY: see `Send` above: the byte is there as long as the thread, which ends in `drop` only.
        unsafe { AtomicU8::from_ptr(self.immediate_exit.as_ptr()) }.store(1, Ordering::SeqCst);
        if let Some(thread) = &self.thread {
            // SAFETY: the thread has not been joined, so its handle is valid; the signal has a handler (`kick::signal`).
            unsafe { libc::pthread_kill(thread.as_pthread_t(), self.signal) };
        }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.desk.put(Slot::Quit);
        if let Some(thread) = self.thread.take() {
            // A rank's thread catches what panics in it, so there is nothing to pass on.
            drop(thread.join());
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, slot: Slot) {
        *self.lock() = slot;
        self.changed.notify_all();
    }

    /// The next order; `None` to quit.
    fn next(&self) -> Option<Order> {
        let mut slot = self.lock();
        loop {
            match *slot {
                Slot::Ordered(order) => {
                    *slot = Slot::Empty;
                    return Some(order);
                }
                Slot::Quit => return None,
                Slot::Empty | Slot::Reported(_) => {
                    slot = self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// A rank's thread.
fn live(machine: Arc<Machine>, number: usize, seat: Seat, desk: &Desk, tell: mpsc::SyncSender<Result<Ready, Error>>) {
    let (mut vcpu, ready) = match settle(machine, number, seat) {
        Ok(settled) => settled,
        Err(error) => return drop(tell.send(Err(error))),
    };
    // The other side waits for exactly this message, or is gone and then quits us through the desk.
    let told = tell.send(Ok(ready));
    drop(tell);
    if told.is_err() {
        return;
    }
    while let Some(order) = desk.next() {
        let report = catch_unwind(AssertUnwindSafe(|| carry_out(&mut vcpu, order, &desk.stop))).unwrap_or_else(|_| {
            vcpu.distrust();
            order.team.break_up();
            Report {
                counts: Counts::default(),
                result: Err(Ending::Stopped(Stop::Broken("the rank's thread panicked"))),
                queued_ns: None,
            }
        });
        desk.put(Slot::Reported(report));
    }
}

/// Pins the thread and makes its vCPU.
fn settle(machine: Arc<Machine>, number: usize, seat: Seat) -> Result<(Vcpu, Ready), Error> {
    seat.take().map_err(|source| Error::Pin { seat, source })?;
    kick::unblock(kick::signal()?);
    let whole = if number == 0 { machine.stats.clone() } else { None };
    let mut vcpu = Vcpu::new(machine, number)?;
    let stats = vcpu.stats()?.map(Arc::new);
    let meters: Vec<_> =
        [whole, stats.clone()].into_iter().flatten().map(|s| Arc::new(Mutex::new(Meter::new(s)))).collect();
    vcpu.watch(meters.clone());
    let immediate_exit = vcpu.immediate_exit().expose_provenance();
    let tsc_offset = vcpu.tsc_offset;
    Ok((vcpu, Ready { immediate_exit, stats, meters, tsc_offset }))
}

/// One order, from entry to report. Whoever cannot finish breaks the team, so that nobody waits for it.
fn carry_out(vcpu: &mut Vcpu, order: Order, stop: &AtomicBool) -> Report {
    let mut passage = Passage::new(order);
    if let Err(refusal) = vcpu.populate(&raw const passage) {
        order.team.break_up();
        let result = Err(Ending::Stopped(Stop::NoMemory(refusal)));
        return Report { counts: Counts::default(), result, queued_ns: None };
    }
    let queued_before = run_queue::waited_ns();
    let before = ticks();
    let (counts, left) = vcpu.run(&mut passage, stop);
    let after = ticks();
    let queued_after = run_queue::waited_ns();
    let result = match (left, passage.outcome()) {
        (Err(stop), _) => Err(Ending::Stopped(stop)),
        (Ok(()), Return::Panicked) => Err(Ending::Panicked),
        (Ok(()), Return::Never) => Err(Ending::Stopped(Stop::Broken("the rank left without a result"))),
        (Ok(()), Return::Whole(times)) if before <= times.start_ticks && times.end_ticks <= after => Ok(times),
        (Ok(()), Return::Whole(_)) => Err(Ending::Stopped(Stop::Broken("the guest's clock is not the host's"))),
    };
    if result.is_err() {
        order.team.break_up();
    }
    let queued_ns = queued_after.zip(queued_before).map(|(after, before)| after.saturating_sub(before));
    Report { counts, result, queued_ns }
}
