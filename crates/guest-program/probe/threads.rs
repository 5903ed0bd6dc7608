//! Threads: made, joined, more than there are virtual processors, waiting and computing.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;

const STACK: usize = 64 << 10;

fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::Builder::new().stack_size(STACK).spawn(body).unwrap()
}

/// Counting under a lock, thread-local storage, a barrier, and threads that are made again and again.
pub fn run(count: u64) {
    thread_local! { static OWN: Cell<u64> = const { Cell::new(0) }; }
    let (sum, barrier) = (Arc::new(Mutex::new(0)), Arc::new(Barrier::new(count as usize)));
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let (sum, barrier) = (sum.clone(), barrier.clone());
            spawn(move || {
                OWN.set(number);
                (0..50).for_each(|_| *sum.lock().unwrap() += 1);
                barrier.wait();
                OWN.get()
            })
        })
        .collect();
    let own: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("{} {own}", sum.lock().unwrap());
    let again: u64 = (0..50).map(|number| spawn(move || number).join().unwrap()).sum();
    println!("again {again}");
    let floats: Vec<_> =
        (1..5u32).map(|number| spawn(move || (0..1000).fold(1.0, |x, _| x * 1.000_1 + f64::from(number)))).collect();
    println!("{:?}", floats.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<f64>>());
}

/// Threads that all sleep in the host before any of them continues; each that does wakes the next.
pub fn sleepers(count: u64) {
    let state = Arc::new((Mutex::new((0u64, false)), Condvar::new(), Condvar::new()));
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let state = state.clone();
            spawn(move || {
                let (lock, came, over) = &*state;
                let mut now = lock.lock().unwrap();
                now.0 += 1;
                if now.0 == count {
                    came.notify_one();
                }
                while !now.1 {
                    now = over.wait(now).unwrap();
                }
                over.notify_one();
                number
            })
        })
        .collect();
    let (lock, came, over) = &*state;
    let mut now = lock.lock().unwrap();
    while now.0 < count {
        now = came.wait(now).unwrap();
    }
    now.1 = true;
    over.notify_one();
    drop(now);
    println!("{count} slept, {}", threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>());
}

/// Threads that compute without a call until the last of them has begun to.
pub fn spinners(count: u64) {
    let (begun, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let (begun, over) = (begun.clone(), over.clone());
            spawn(move || {
                if begun.fetch_add(1, Ordering::SeqCst) + 1 == count {
                    over.store(true, Ordering::SeqCst);
                }
                let mut x = 0u64;
                while !over.load(Ordering::SeqCst) {
                    x = black_box(x + 1);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{} computed", begun.load(Ordering::SeqCst));
}

/// Waits for what never comes.
pub fn stall() {
    let never = Mutex::new(());
    let held = never.lock().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| drop(never.lock()));
        thread::park();
        drop(held);
    });
}
