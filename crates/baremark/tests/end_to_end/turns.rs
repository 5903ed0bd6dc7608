//! Turns: which tests run at the same time.
//!
//! scripts/test-systems has the runner start every test at once, and each waits here before it works. So none holds a place of the
//! runner while it waits for a system that another test has, and what takes longest comes first. A test has as many places
//! as it needs of those that there are, six for every CPU: most tests wait two thirds of their time, and some wait all of it.
//!
//! What needs the whole machine comes last of all. Before, it would wait until nothing else runs, and hold up what could run
//! at the same time.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

/// What one test at a time uses, each to find that nothing of it is left. The first to be given has the longest tests.
/// Places are what its tests take of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// QEMU: emulation takes whole CPUs.
    Guests,
    /// Slurm.
    Clusters,
    /// Engines of containers.
    Containers,
}

impl System {
    fn places(self) -> usize {
        match self {
            System::Guests => CPU,
            System::Clusters => IDLE,
            System::Containers => THIRD,
        }
    }
}

/// The places of one CPU, of a test that waits two thirds of its time, and of one that waits nearly all of it.
const CPU: usize = 6;
const THIRD: usize = 2;
const IDLE: usize = 1;

/// Where each test's name and its seconds are written, a line when it ends.
const TIMES: &str = "BAREMARK_TEST_TIMES";
/// A file that is locked while the tests of other crates run at the same time (scripts/test-systems).
const BESIDE: &str = "BAREMARK_TEST_BESIDE";

static QUEUE: Mutex<Queue> = Mutex::new(Queue { arrived: 0, taken: 0, used: Vec::new(), waiting: Vec::new() });
static CHANGED: Condvar = Condvar::new();

thread_local! {
    static OWN: RefCell<Weak<Turn>> = const { RefCell::new(Weak::new()) };
}

struct Queue {
    arrived: usize,
    /// Places that tests have.
    taken: usize,
    /// Systems that tests have.
    used: Vec<System>,
    waiting: Vec<Waiting>,
}

#[derive(Clone)]
struct Waiting {
    arrival: usize,
    rank: Rank,
    places: usize,
    systems: Vec<System>,
}

/// Which tests come first: those that others wait for, then those that take long without any work, and what needs the whole
/// machine last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Shared(System),
    Idle,
    Usual,
    Sole,
}

impl Queue {
    /// The arrival of the test that is next, if there is room for it. Nobody overtakes one that waits for places, lest it
    /// waits for ever; one that waits for a system is overtaken.
    fn next(&self, all: usize) -> Option<usize> {
        let free = |one: &&Waiting| !one.systems.iter().any(|system| self.used.contains(system));
        let next = self.waiting.iter().filter(free).min_by_key(|one| (one.rank, one.arrival))?;
        (self.taken == 0 || self.taken + next.places <= all).then_some(next.arrival)
    }
}

/// Places and systems of one test, given back when the last that holds it drops it.
pub struct Turn {
    places: usize,
    systems: Vec<System>,
    begun: Instant,
    /// Holds back the tests of other crates while this needs the whole machine.
    _beside: Option<File>,
}

/// This test's turn, which it has already or waits for.
pub fn turn() -> Arc<Turn> {
    of(Rank::Usual, THIRD, &[])
}

/// The same for a test that takes long and hardly a CPU: it waits for clocks, and judges nothing that others could change.
pub fn idle_turn() -> Arc<Turn> {
    of(Rank::Idle, IDLE, &[])
}

/// The same for a test that keeps a CPU busy, or judges what it measures.
pub fn long_turn() -> Arc<Turn> {
    of(Rank::Usual, CPU, &[])
}

/// The same for a test that judges what the whole machine does: it has all places, after everybody else.
pub fn sole_turn() -> Arc<Turn> {
    of(Rank::Sole, all_places(), &[])
}

/// The turn of a test that has these systems to itself.
pub fn turn_with(systems: &[System]) -> Arc<Turn> {
    let first = systems.iter().min().expect("a system");
    of(Rank::Shared(*first), systems.iter().map(|system| system.places()).sum(), systems)
}

fn all_places() -> usize {
    CPU * thread::available_parallelism().map_or(1, usize::from)
}

fn of(rank: Rank, places: usize, systems: &[System]) -> Arc<Turn> {
    if let Some(own) = OWN.with(|own| own.borrow().upgrade()) {
        let has = systems.iter().all(|system| own.systems.contains(system));
        assert!(has, "a test that has its turn already would wait for {systems:?} with what others wait for");
        return own;
    }
    let mut queue = locked();
    queue.arrived += 1;
    let own = Waiting { arrival: queue.arrived, rank, places, systems: systems.to_vec() };
    queue.waiting.push(own.clone());
    while queue.next(all_places()) != Some(own.arrival) {
        queue = CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
    queue.waiting.retain(|one| one.arrival != own.arrival);
    queue.taken += places;
    queue.used.extend(systems);
    drop(queue);
    // There may be room for the one after it.
    CHANGED.notify_all();
    let _beside = (rank == Rank::Sole).then(nothing_beside).flatten();
    let turn = Arc::new(Turn { places, systems: own.systems, begun: Instant::now(), _beside });
    OWN.with(|own| *own.borrow_mut() = Arc::downgrade(&turn));
    turn
}

/// Waits until the tests of other crates are over; where none run, nothing.
fn nothing_beside() -> Option<File> {
    let file = File::options().append(true).create(true).open(std::env::var_os(BESIDE)?).expect(BESIDE);
    file.lock().expect(BESIDE);
    Some(file)
}

fn locked() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = locked();
        queue.taken -= self.places;
        queue.used.retain(|system| !self.systems.contains(system));
        drop(queue);
        CHANGED.notify_all();
        let written = std::env::var_os(TIMES).map(|path| {
            let line =
                format!("{:.1} {}\n", self.begun.elapsed().as_secs_f64(), thread::current().name().unwrap_or("?"));
            File::options().create(true).append(true).open(path)?.write_all(line.as_bytes())
        });
        if let Some(Err(why)) = written {
            eprintln!("no time of this test: {why}");
        }
    }
}

#[test]
fn a_test_waits_for_its_system_and_its_places_and_not_for_others() {
    let usual = |arrival, places| Waiting { arrival, rank: Rank::Usual, places, systems: Vec::new() };
    let with = |arrival, places, systems: &[System]| Waiting {
        rank: Rank::Shared(systems[0]),
        systems: systems.to_vec(),
        ..usual(arrival, places)
    };
    let mut queue = Queue { arrived: 0, taken: 0, used: Vec::new(), waiting: Vec::new() };
    assert_eq!(queue.next(4), None);
    queue.waiting = vec![usual(1, 1), with(2, 1, &[System::Clusters]), with(3, 2, &[System::Guests])];
    assert_eq!(queue.next(4), Some(3), "what takes longest is first");
    (queue.used, queue.taken) = (vec![System::Guests], 2);
    assert_eq!(queue.next(4), Some(2), "a system that is taken is not waited for by the others");
    (queue.used, queue.taken) = (vec![System::Guests, System::Clusters], 3);
    assert_eq!(queue.next(4), Some(1));
    queue.waiting = vec![usual(4, 2), usual(5, 1)];
    assert_eq!(queue.next(4), None, "one that needs two places is not overtaken for ever");
    queue.waiting = vec![with(6, 3, &[System::Guests, System::Clusters])];
    assert_eq!(queue.next(4), None);
    (queue.used, queue.taken) = (Vec::new(), 0);
    assert_eq!(queue.next(2), Some(6), "on a small machine one runs at least");
}

#[test]
fn what_needs_the_whole_machine_holds_up_nobody() {
    let one = |arrival, rank, places| Waiting { arrival, rank, places, systems: Vec::new() };
    let all = 2 * CPU;
    let mut queue = Queue { arrived: 0, taken: CPU, used: vec![System::Guests], waiting: Vec::new() };
    queue.waiting = vec![one(1, Rank::Sole, all), one(2, Rank::Usual, THIRD), one(3, Rank::Idle, IDLE)];
    assert_eq!(queue.next(all), Some(3), "what takes long without work begins before the others");
    queue.waiting.retain(|one| one.rank != Rank::Idle);
    assert_eq!(queue.next(all), Some(2), "the rest of the machine would be idle");
    queue.waiting.retain(|one| one.rank == Rank::Sole);
    assert_eq!(queue.next(all), None);
    queue.taken = 0;
    assert_eq!(queue.next(all), Some(1));
}
