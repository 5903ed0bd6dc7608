//! The polling thread: it carries out calls that the program's threads leave in their mailboxes, so that these need no exit.
//!
//! A thread of the process in addition to the program's own. It looks at all mailboxes in turn and needs a processor for itself; without a call for
//! some milliseconds it sleeps until the next call that it could have answered leaves the guest. It blocks all signals, ends with the
//! process, and is ended before the program does something after which it could not act for the others (see `answers`). The child of a
//! fork has one of its own; the child of a vfork shares the memory of its parent, but not its descriptors, and has none.
//!
//! It is one more thread of the program's process: `/proc` shows it, and its processor time is the process's.

use crate::runner::answers;
use crate::runner::arena::Block;
use crate::runner::mailbox;
use crate::runner::sys::{self, Errno};
use crate::runner::thread::{self, Process};
use crate::shared::Count;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

unsafe extern "C" {
    // Both are in `calls::processes`.
    fn baremark_guest_clone(
        flags: u64,
        stack: u64,
        parent_tid: u64,
        child_tid: u64,
        first: extern "C" fn() -> !,
    ) -> i64;
    fn baremark_guest_exit(status: u64, word: u64, others: u32) -> !;
}

/// Processors that a process with a polling thread needs.
pub(crate) const NEEDED_CPUS: u32 = 2;
/// Rounds without a call between two looks at the clock.
const ROUNDS: u32 = 4096;
/// How long it looks for calls when none comes.
const PATIENCE_NS: u64 = 2_000_000;
/// Its name in `/proc`.
const NAME: &[u8; 16] = b"baremark-poll\0\0\0";

/// The process that it acts for; null is none.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());
/// Its number, which the kernel sets to 0 at its end.
static ID: AtomicU32 = AtomicU32::new(0);
/// Whether it shall end.
static ENDING: AtomicBool = AtomicBool::new(false);
/// 1 while it sleeps.
static ASLEEP: AtomicU32 = AtomicU32::new(0);
/// How much of its processor time was counted.
static COUNTED_NS: AtomicU64 = AtomicU64::new(0);
/// The word and the other bits by which its block is given back.
static BLOCK_WORD: AtomicU64 = AtomicU64::new(0);
static BLOCK_OTHERS: AtomicU32 = AtomicU32::new(0);

/// Begins to act for `process`, if mailboxes are chosen and there is a processor for it. In a process with one thread.
pub(crate) fn start(process: &'static Process) -> Result<(), Errno> {
    PROCESS.store(ptr::null_mut(), Ordering::Release);
    if !mailbox::is_chosen() || allowed_cpus() < NEEDED_CPUS || is_cpu_time_limited() {
        return Ok(());
    }
    ENDING.store(false, Ordering::Relaxed);
    ID.store(0, Ordering::Relaxed);
    ASLEEP.store(0, Ordering::Relaxed);
    COUNTED_NS.store(0, Ordering::Relaxed);
    let block = thread::take_block()?;
    let Block { word, others, .. } = block;
    BLOCK_WORD.store(word, Ordering::Relaxed);
    BLOCK_OTHERS.store(others, Ordering::Relaxed);
    PROCESS.store(ptr::from_ref(process).cast_mut(), Ordering::Release);
    let shared = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    let flags = shared | libc::CLONE_SYSVSEM | libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_CLEARTID;
    let mask = sys::mask_signals(sys::MaskChange::Block, sys::ALL_SIGNALS);
    let id = ID.as_ptr() as u64;
    // SAFETY: the new thread runs on the stack of its own block and shares everything else; the kernel writes its number to a word that
    // lives as long as the process.
    let result = unsafe { baremark_guest_clone(flags as u64, block.stack_top(), id, id, live) };
    sys::mask_signals(sys::MaskChange::Set, mask);
    if sys::checked(result).is_err() {
        // Without it, each call leaves the guest.
        PROCESS.store(ptr::null_mut(), Ordering::Release);
        give_back();
        return Ok(());
    }
    process.counters().tally.add(Count::PollingThreads, 1);
    Ok(())
}

/// Whether calls of threads of `process` are answered now.
pub(crate) fn serves(process: &Process) -> bool {
    ptr::eq(PROCESS.load(Ordering::Acquire), process) && ASLEEP.load(Ordering::SeqCst) == 0
}

/// Wakes it for calls to come, after one has left the guest that it could have answered.
pub(crate) fn wake_for(number: u64) {
    if ASLEEP.load(Ordering::SeqCst) != 0 && answers::is_listed(number) && ASLEEP.swap(0, Ordering::SeqCst) != 0 {
        sys::wake(&ASLEEP, 1);
    }
}

/// Before a call of `process` is carried out after which it could not act for the others: ends it.
pub(crate) fn leave_alone(process: &Process, number: u64, arguments: &[u64; 6]) {
    if ptr::eq(PROCESS.load(Ordering::Acquire), process) && answers::ends_polling(number, arguments) {
        stop(process);
    }
}

/// Ends it and waits for its end.
pub(crate) fn stop(process: &Process) {
    if !ptr::eq(PROCESS.load(Ordering::Acquire), process) {
        return;
    }
    count_time(process);
    mailbox::all().for_each(|mailbox| mailbox.enable(false));
    ENDING.store(true, Ordering::SeqCst);
    if ASLEEP.swap(0, Ordering::SeqCst) != 0 {
        sys::wake(&ASLEEP, 1);
    }
    let id = ID.load(Ordering::Acquire);
    while id != 0 && ID.load(Ordering::Acquire) != 0 {
        sys::wait_while(&ID, id, None);
    }
    // Its memory is no longer used, but the kernel counts it among the threads of the process until it has no number.
    while id != 0 && sys::send_to_thread(id, 0).is_ok() {
        // SAFETY: takes nothing.
        unsafe { sys::raw(libc::SYS_sched_yield, [0; 6]) };
    }
    PROCESS.store(ptr::null_mut(), Ordering::Release);
}

/// Counts the processor time that it has used since this was called last.
pub(crate) fn count_time(process: &Process) {
    /// The kernel's numbers of clocks of threads: the thread's number, inverted, and three bits.
    const CLOCK_OF_THREAD: i64 = 6;
    let id = ID.load(Ordering::Acquire);
    if id == 0 || !ptr::eq(PROCESS.load(Ordering::Acquire), process) {
        return;
    }
    let mut time = [0u64; 2];
    let clock = (!i64::from(id) << 3 | CLOCK_OF_THREAD).cast_unsigned() & u64::from(u32::MAX);
    // SAFETY: the kernel writes two words.
    let result = unsafe { sys::raw(libc::SYS_clock_gettime, [clock, time.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    let now = time[0] * 1_000_000_000 + time[1];
    let before = COUNTED_NS.fetch_max(now, Ordering::AcqRel);
    if result == 0 && now > before {
        process.counters().tally.add(Count::PollingNs, now - before);
    }
}

/// Its life.
extern "C" fn live() -> ! {
    let name = [libc::PR_SET_NAME as u64, NAME.as_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: the kernel reads sixteen bytes.
    unsafe { sys::raw(libc::SYS_prctl, name) };
    // SAFETY: null, or the process that `start` was given, which lives as long as this thread.
    if let Some(process) = unsafe { PROCESS.load(Ordering::Acquire).as_ref() } {
        poll(process);
    }
    let (word, others) = (BLOCK_WORD.load(Ordering::Relaxed), BLOCK_OTHERS.load(Ordering::Relaxed));
    // SAFETY: nothing on this stack is used any more.
    unsafe { baremark_guest_exit(0, word, others) }
}

/// Answers calls until it shall end.
fn poll(process: &Process) {
    let (mut idle, mut last) = (0, sys::monotonic_ns());
    while !ENDING.load(Ordering::Acquire) {
        if serve_all(process) {
            idle = 0;
            last = 0;
            continue;
        }
        std::hint::spin_loop();
        idle += 1;
        if idle % ROUNDS != 0 {
            continue;
        }
        let now = sys::monotonic_ns();
        // The time of the last call is that of the first reading after it.
        last = if last == 0 { now } else { last };
        count_time(process);
        if now - last > PATIENCE_NS {
            sleep();
            last = 0;
        }
    }
}

/// Carries out the calls that wait; whether there were any.
fn serve_all(process: &Process) -> bool {
    let mut served = false;
    for mailbox in mailbox::all() {
        let Some((number, arguments)) = mailbox.take() else { continue };
        let result = if ENDING.load(Ordering::Acquire) { None } else { answers::answer(process, number, &arguments) };
        if result.is_some() {
            process.counters().tally.add(Count::ExitlessCalls, 1);
        }
        mailbox.end(result);
        served = true;
    }
    served
}

/// Sleeps until a call leaves the guest that it could have answered.
fn sleep() {
    ASLEEP.store(1, Ordering::SeqCst);
    mailbox::all().for_each(|mailbox| mailbox.enable(false));
    if mailbox::all().any(mailbox::Mailbox::has_call) || ENDING.load(Ordering::SeqCst) {
        ASLEEP.store(0, Ordering::SeqCst);
        return;
    }
    while ASLEEP.load(Ordering::SeqCst) != 0 {
        sys::wait_while(&ASLEEP, 1, None);
    }
}

fn give_back() {
    let word = ptr::with_exposed_provenance::<AtomicU32>(BLOCK_WORD.load(Ordering::Relaxed) as usize);
    // SAFETY: a word of the arena, which lives as long as the process.
    unsafe { &*word }.fetch_and(BLOCK_OTHERS.load(Ordering::Relaxed), Ordering::AcqRel);
}

/// Processors on which the calling thread may run.
pub(crate) fn allowed_cpus() -> u32 {
    let mut set = [0u64; 128];
    let arguments = [0, size_of_val(&set) as u64, set.as_mut_ptr() as u64, 0, 0, 0];
    // SAFETY: the kernel writes at most as many bytes as the set has.
    let written = unsafe { sys::raw(libc::SYS_sched_getaffinity, arguments) };
    if written > 0 { set.iter().map(|word| word.count_ones()).sum() } else { 1 }
}

/// Whether the processor time of this process is limited, of which the polling thread would use a part.
fn is_cpu_time_limited() -> bool {
    let mut limit = [u64::MAX; 2];
    let arguments = [0, u64::from(libc::RLIMIT_CPU), 0, limit.as_mut_ptr() as u64, 0, 0];
    // SAFETY: the kernel writes two words.
    unsafe { sys::raw(libc::SYS_prlimit64, arguments) };
    limit[0] != u64::MAX
}
