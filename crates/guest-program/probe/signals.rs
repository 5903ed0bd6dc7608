//! Signals: when handlers run, on which stack, under which mask, and what becomes of interrupted calls.

use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

static TAKEN: AtomicU64 = AtomicU64::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);
static SAVED: AtomicU64 = AtomicU64::new(0);
static ON_STACK: AtomicU64 = AtomicU64::new(0);
static VALUE: AtomicI64 = AtomicI64::new(0);
static ORDER: AtomicU64 = AtomicU64::new(0);

fn mask_now() -> u64 {
    let mut mask = 0u64;
    super::call(libc::SYS_rt_sigprocmask, &[0, 0, (&raw mut mask) as u64, 8]);
    mask
}

fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let how = libc::SIG_SETMASK as u64;
    super::call(libc::SYS_rt_sigprocmask, &[how, (&raw const mask) as u64, (&raw mut before) as u64, 8]);
    before
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

unsafe extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    TAKEN.fetch_add(1, Ordering::SeqCst);
    ORDER.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |order| Some(order * 100 + signal as u64)).unwrap();
    MASK.store(mask_now(), Ordering::SeqCst);
    let mut stack = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: the kernel passes both structures, and writes the third.
    unsafe {
        SAVED.store(*(&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast(), Ordering::SeqCst);
        VALUE.store((*info).si_value().sival_ptr as i64, Ordering::SeqCst);
        libc::sigaltstack(ptr::null(), &raw mut stack);
    }
    ON_STACK.store(stack.ss_flags as u64, Ordering::SeqCst);
}

fn handle(signal: i32, flags: i32, mask: u64) {
    // SAFETY: a handler that only uses atomic numbers; the mask is the first eight bytes of libc's.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        *(&raw mut action.sa_mask).cast::<u64>() = mask;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

fn report(name: &str) {
    let take = |word: &AtomicU64| word.swap(0, Ordering::SeqCst);
    println!(
        "{name}: {} taken, order {}, mask {:#x}, saved {:#x}, stack {}",
        take(&TAKEN),
        take(&ORDER),
        take(&MASK),
        take(&SAVED),
        take(&ON_STACK)
    );
}

fn raise(signal: i32) {
    // SAFETY: sends a signal to this process.
    unsafe { libc::raise(signal) };
}

/// Microseconds until an alarm that is to find a call begun.
const LATER: i64 = 50_000;

fn set_timer(micros: i64, again: i64) {
    let time = |micros| libc::timeval { tv_sec: 0, tv_usec: micros };
    let timer = libc::itimerval { it_interval: time(again), it_value: time(micros) };
    // SAFETY: the kernel reads the structure.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
}

/// A signal to this process in `micros`.
fn alarm(micros: i64) {
    set_timer(micros, 0);
}

/// A call that alarms interrupt: another one follows where a busy machine let the first come before the call.
fn alarmed(call: impl FnOnce() -> i64) -> i64 {
    set_timer(LATER, LATER);
    let result = call();
    set_timer(0, 0);
    // How many came does not count.
    TAKEN.fetch_min(1, Ordering::SeqCst);
    ORDER.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |order| Some(order % 100)).unwrap();
    result
}

pub fn run() {
    let (usr1, usr2) = (libc::SIGUSR1, libc::SIGUSR2);
    handle(usr1, 0, bit(usr2));
    raise(usr1);
    report("raised");
    handle(usr1, libc::SA_NODEFER, 0);
    raise(usr1);
    report("not deferred");
    handle(usr1, libc::SA_RESETHAND, 0);
    raise(usr1);
    // SAFETY: asks for an action.
    let handler = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(usr1, ptr::null(), &raw mut action);
        action.sa_sigaction
    };
    report(&format!("reset to {handler}"));
    blocked(usr1, usr2);
    stacks(usr1);
    queued();
    interrupted();
    computing();
    errors();
}

fn blocked(usr1: i32, usr2: i32) {
    handle(usr1, 0, 0);
    handle(usr2, 0, 0);
    let before = set_mask(bit(usr1) | bit(usr2));
    raise(usr2);
    raise(usr1);
    raise(usr1);
    report("while blocked");
    set_mask(before);
    report("unblocked");
    // A mask for the duration of a wait.
    let before = set_mask(bit(libc::SIGALRM) | bit(usr1));
    handle(libc::SIGALRM, 0, 0);
    raise(usr1);
    let during = bit(libc::SIGALRM);
    println!("suspend {}", super::call(libc::SYS_rt_sigsuspend, &[(&raw const during) as u64, 8]));
    report("suspended");
    alarm(2000);
    let during = 0u64;
    let mut poll = libc::pollfd { fd: -1, events: 0, revents: 0 };
    let result = super::call(libc::SYS_ppoll, &[(&raw mut poll) as u64, 1, 0, (&raw const during) as u64, 8]);
    println!("ppoll {result}, mask {:#x}", mask_now());
    report("polled");
    set_mask(before);
}

fn stacks(usr1: i32) {
    let mut memory = vec![0u8; 64 << 10];
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    let small = libc::stack_t { ss_size: 100, ..stack };
    let odd = libc::stack_t { ss_flags: 77, ..stack };
    let off = libc::stack_t { ss_flags: libc::SS_DISABLE, ..stack };
    let set = |stack: &libc::stack_t| super::call(libc::SYS_sigaltstack, &[ptr::from_ref(stack) as u64, 0]);
    println!("stacks {} {} {} {}", set(&small), set(&odd), set(&stack), super::call(libc::SYS_sigaltstack, &[8, 0]));
    handle(usr1, libc::SA_ONSTACK, 0);
    raise(usr1);
    report("on its stack");
    handle(usr1, 0, 0);
    raise(usr1);
    report("on the program's");
    println!("off {}", set(&off));
}

/// Signals with values come in order and none is lost.
fn queued() {
    let signal = libc::SIGRTMIN() + 3;
    handle(signal, 0, 0);
    let before = set_mask(bit(signal));
    for value in 1..=5usize {
        let value = libc::sigval { sival_ptr: ptr::without_provenance_mut(value) };
        // SAFETY: a signal to this process.
        unsafe { libc::sigqueue(libc::getpid(), signal, value) };
    }
    set_mask(before);
    println!("last value {}", VALUE.load(Ordering::SeqCst));
    report("queued");
}

fn interrupted() {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    let mut byte = 0u8;
    handle(libc::SIGALRM, 0, 0);
    let read = alarmed(|| super::call(libc::SYS_read, &[ends[0] as u64, (&raw mut byte) as u64, 1]));
    println!("read {read}");
    report("interrupted");
    // The handler of the second alarm finds a byte in the pipe that a thread has put there.
    handle(libc::SIGALRM, libc::SA_RESTART, 0);
    alarm(LATER);
    let writer = std::thread::spawn(move || {
        while TAKEN.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        super::call(libc::SYS_write, &[ends[1] as u64, c"x".as_ptr() as u64, 1])
    });
    let mask = set_mask(0);
    println!("read {} {byte}", super::call(libc::SYS_read, &[ends[0] as u64, (&raw mut byte) as u64, 1]));
    println!("written {}", writer.join().unwrap());
    set_mask(mask);
    println!("restarted: {} taken", TAKEN.swap(0, Ordering::SeqCst).min(1));
    [&ORDER, &MASK, &SAVED].iter().for_each(|word| word.store(0, Ordering::SeqCst));
    handle(libc::SIGALRM, libc::SA_RESTART, 0);
    let long = libc::timespec { tv_sec: 100, tv_nsec: 0 };
    println!("sleep {}", alarmed(|| super::call(libc::SYS_nanosleep, &[(&raw const long) as u64, 0])));
    report("slept");
    // SAFETY: our own descriptors.
    unsafe {
        libc::close(ends[0]);
        libc::close(ends[1]);
    }
}

/// A signal while no call is made: state of the vector registers survives its handler.
fn computing() {
    handle(libc::SIGALRM, 0, 0);
    alarm(LATER);
    let mut sums = [0.0f64; 8];
    let mut rounds = 0u64;
    // The alarm may come before the first round.
    while TAKEN.load(Ordering::SeqCst) == 0 || rounds == 0 || !rounds.is_multiple_of(1000) {
        rounds += 1;
        for (number, sum) in sums.iter_mut().enumerate() {
            *sum = std::hint::black_box(*sum * 0.5 + number as f64);
        }
        if rounds > 20_000_000_000 {
            break;
        }
    }
    println!("computed {sums:?}");
    report("computing");
}

fn errors() {
    let word = 0u64;
    let results = [
        super::call(libc::SYS_rt_sigaction, &[65, 0, 0, 8]),
        super::call(libc::SYS_rt_sigaction, &[0, 0, 0, 8]),
        super::call(libc::SYS_rt_sigaction, &[10, 8, 0, 8]),
        super::call(libc::SYS_rt_sigaction, &[10, 0, 8, 8]),
        super::call(libc::SYS_rt_sigaction, &[10, 0, 0, 4]),
        super::call(libc::SYS_rt_sigaction, &[9, (&raw const word) as u64, 0, 8]),
        super::call(libc::SYS_rt_sigprocmask, &[7, (&raw const word) as u64, 0, 8]),
        super::call(libc::SYS_rt_sigprocmask, &[0, 8, 0, 8]),
        super::call(libc::SYS_tgkill, &[0, 0, 0]),
    ];
    println!("errors {results:?}");
}
