//! What passes between whoever changes the level of a running load and the threads that make it: levels and windows one way, what was seen in a
//! window the other.

use crate::record::Part;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// A window's number and what one thread has seen of it.
pub(crate) type NumberedPart = (u64, Box<Part>);

/// What the rate control tells the threads, and they it. All times are of the load's own clock, which begins at `begin`.
pub(crate) struct Control {
    begin: u64,
    version: AtomicU64,
    orders: Mutex<Orders>,
    flying: Vec<AtomicU64>,
    sender: Mutex<Sender<NumberedPart>>,
}

#[derive(Default)]
struct Orders {
    changes: Vec<(u64, f64)>,
    window: Option<Order>,
}

/// A window as the threads know it.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) close: u64,
}

impl Control {
    /// Of a load that begins at `begin` of this machine's monotonic clock on so many threads. What they see of windows goes to `sender`.
    pub(crate) fn new(begin: u64, threads: usize, sender: Sender<NumberedPart>) -> Control {
        Control {
            begin,
            version: AtomicU64::new(0),
            orders: Mutex::default(),
            flying: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            sender: Mutex::new(sender),
        }
    }

    /// Changes the level from a moment of this machine's monotonic clock on.
    pub(crate) fn change(&self, at: u64, level: f64) {
        self.order(|orders| orders.changes.push((self.own(at), level)));
    }

    /// Opens a window, whose times are of this machine's monotonic clock.
    pub(crate) fn open(&self, Order { id, begin, end, close }: Order) {
        let window = Order { id, begin: self.own(begin), end: self.own(end), close: self.own(close) };
        self.order(|orders| orders.window = Some(window));
    }

    /// Operations on their way, as last told by each thread.
    pub(crate) fn in_flight(&self) -> u64 {
        self.flying.iter().map(|flying| flying.load(Ordering::Relaxed)).sum()
    }

    /// A moment of this machine's monotonic clock by the load's own.
    fn own(&self, at: u64) -> u64 {
        at.saturating_sub(self.begin)
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        // An order is pushed or replaced as a whole: one that a panic cut short was not given.
        change(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner));
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// One thread's end of the control.
pub(crate) struct Listener {
    control: Arc<Control>,
    thread: usize,
    version: u64,
    heard: usize,
    coming: VecDeque<(u64, f64)>,
    sender: Sender<NumberedPart>,
    last_window: u64,
    /// The level that holds now.
    pub(crate) level: f64,
    /// Users with numbers below this have been hired.
    pub(crate) hired: u64,
}

impl Listener {
    pub(crate) fn new(control: &Arc<Control>, thread: usize) -> Listener {
        let sender = control.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Listener {
            control: Arc::clone(control),
            thread,
            version: 0,
            heard: 0,
            coming: VecDeque::new(),
            sender,
            last_window: 0,
            level: 0.0,
            hired: 0,
        }
    }

    /// Hears of new orders and says how much is on its way; a new window, if one was requested.
    pub(crate) fn listen(&mut self, flying: usize) -> Option<Order> {
        self.control.flying[self.thread].store(flying as u64, Ordering::Relaxed);
        let version = self.control.version.load(Ordering::Acquire);
        if version == self.version {
            return None;
        }
        self.version = version;
        let orders = self.control.orders.lock().unwrap_or_else(PoisonError::into_inner);
        self.coming.extend(&orders.changes[self.heard..]);
        self.heard = orders.changes.len();
        let window = orders.window.filter(|window| window.id != self.last_window);
        self.last_window = window.map_or(self.last_window, |window| window.id);
        window
    }

    /// The change that is due by `now`, if any.
    pub(crate) fn due(&mut self, now: u64) -> Option<(u64, f64)> {
        let due = self.coming.pop_front_if(|(at, _)| *at <= now)?;
        self.level = due.1;
        Some(due)
    }

    /// When the next change is due.
    pub(crate) fn next_change(&self) -> u64 {
        self.coming.front().map_or(u64::MAX, |(at, _)| *at)
    }

    pub(crate) fn tell(&self, id: u64, part: Part) {
        // A dial that is gone asks for nothing any more.
        let _ = self.sender.send((id, Box::new(part)));
    }
}
