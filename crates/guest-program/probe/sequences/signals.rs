//! Steps on signals: actions, masks, signal stacks, and signals that are sent, waited for and read.

use super::{Sequence, signal_bit};
use crate::call;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Signals with a handler at the start, which end a process by default: they are never set back to that.
const HANDLED: [i32; 4] = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM, 40];
/// Signals that are ignored by default.
const HARMLESS: [i32; 3] = [libc::SIGURG, libc::SIGWINCH, libc::SIGCHLD];
const FAULTS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Microseconds until a timer ends, and seconds until it must have.
const SOON_US: u64 = 300;
const LIMIT_S: u64 = 20;

/// Signals that handlers were given, since they were last entered into a trace.
static TAKEN: [AtomicI64; 64] = [const { AtomicI64::new(0) }; 64];
static COUNT: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes both. A fault comes from an instruction of `memory` alone, whose length is in R15.
    let detail = unsafe {
        if FAULTS.contains(&signal) {
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            registers[libc::REG_RIP as usize] += registers[libc::REG_R15 as usize];
            ((*info).si_addr() as i64 - super::ARENA as i64) << 8 | i64::from((*info).si_code)
        } else if (*info).si_code == libc::SI_QUEUE {
            (*info).si_value().sival_ptr as i64
        } else {
            (*info).si_code.into()
        }
    };
    let at = COUNT.fetch_add(1, Ordering::SeqCst);
    if let Some(place) = TAKEN.get(at) {
        place.store(i64::from(signal) << 56 ^ detail, Ordering::SeqCst);
    }
}

/// Enters what handlers were given into the trace.
pub fn enter_taken(s: &mut Sequence) {
    let count = COUNT.swap(0, Ordering::SeqCst);
    let taken: Vec<u8> = TAKEN.iter().take(count).flat_map(|one| one.load(Ordering::SeqCst).to_ne_bytes()).collect();
    if count > 0 {
        s.contents("signals", &taken);
    }
}

/// Sets the actions with which every sequence starts.
pub fn install() {
    FAULTS.iter().chain(&HANDLED).for_each(|signal| reset(*signal, on_signal as *const () as usize));
    HARMLESS.iter().for_each(|signal| reset(*signal, libc::SIG_DFL));
}

/// Sets everything back; what waits is discarded.
pub fn undo() {
    HANDLED.iter().for_each(|signal| reset(*signal, libc::SIG_IGN));
    let none = 0u64;
    call(libc::SYS_rt_sigprocmask, &[libc::SIG_SETMASK as u64, (&raw const none) as u64, 0, 8]);
    let no_stack = [0, libc::SS_DISABLE as u64, 0];
    call(libc::SYS_sigaltstack, &[no_stack.as_ptr() as u64, 0]);
    install();
    COUNT.store(0, Ordering::SeqCst);
}

fn reset(signal: i32, handler: usize) {
    assert_eq!(set(signal, handler, 0, 0).0, 0);
}

/// Sets an action, and gives the one before: what it was, its flags and its mask.
fn set(signal: i32, handler: usize, flags: i32, mask: u64) -> (i64, [i64; 3]) {
    // SAFETY: a handler that only uses numbers of its own; the mask is the first eight bytes of libc's.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_SIGINFO;
        *(&raw mut action.sa_mask).cast::<u64>() = mask;
        let result = libc::sigaction(signal, &raw const action, &raw mut before);
        let was = before.sa_sigaction.min(2) as i64;
        (result.into(), [was, before.sa_flags.into(), *(&raw const before.sa_mask).cast::<i64>()])
    }
}

fn bits(s: &mut Sequence) -> u64 {
    let chosen = s.below(64);
    let all = HANDLED.iter().chain(&HARMLESS).enumerate();
    all.filter(|(at, _)| chosen >> at & 1 != 0).map(|(_, signal)| 1u64 << (signal - 1)).sum()
}

pub fn step(s: &mut Sequence) {
    s.has_signals = true;
    let own = u64::from(std::process::id());
    let any = s.one_of(&[HANDLED.as_slice(), HARMLESS.as_slice()].concat());
    let signal = any as u64;
    let mask = bits(s);
    match s.below(12) {
        0 | 1 => action(s, any, mask),
        2 | 3 => {
            let (how, mut before) = (s.below(4), 0u64);
            let arguments = [how, (&raw const mask) as u64, (&raw mut before) as u64, 8];
            s.call("rt_sigprocmask", libc::SYS_rt_sigprocmask, &arguments);
            s.note("mask", before.cast_signed());
        }
        4 => {
            s.note("kill", call(libc::SYS_kill, &[own, signal]));
        }
        5 => {
            let thread = call(libc::SYS_gettid, &[]).cast_unsigned();
            s.note("tgkill", call(libc::SYS_tgkill, &[own, thread, signal]));
        }
        6 => {
            let value = s.below(1000);
            // siginfo: number, error, code; process and user; value.
            let info = [signal, 0xffff_ffff, own, value, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            s.note("rt_sigqueueinfo", call(libc::SYS_rt_sigqueueinfo, &[own, signal, info.as_ptr() as u64]));
        }
        7 => {
            let mut waiting = 0u64;
            s.call("rt_sigpending", libc::SYS_rt_sigpending, &[(&raw mut waiting) as u64, 8]);
            s.note("waiting", waiting.cast_signed());
        }
        8 => {
            let at_once = [0u64; 2];
            let arguments = [(&raw const mask) as u64, 0, at_once.as_ptr() as u64, 8];
            s.call("rt_sigtimedwait", libc::SYS_rt_sigtimedwait, &arguments);
        }
        9 => {
            let flags = libc::SFD_NONBLOCK as u64;
            let fd = s.call("signalfd4", libc::SYS_signalfd4, &[u64::MAX, (&raw const mask) as u64, 8, flags]);
            s.keep(fd);
            s.signal_fds |= signal_bit(fd.cast_unsigned());
        }
        10 => stack(s),
        _ => timer(s),
    }
}

fn action(s: &mut Sequence, signal: i32, mask: u64) {
    let (handler, ignore) = (on_signal as *const () as usize, libc::SIG_IGN);
    let other = if HARMLESS.contains(&signal) { libc::SIG_DFL } else { ignore };
    let handler = s.one_of(&[handler, handler, handler, ignore, other]);
    let flags = [libc::SA_NODEFER, libc::SA_RESTART, libc::SA_ONSTACK, libc::SA_NOCLDSTOP, libc::SA_NOCLDWAIT];
    let flags = s.one_of(&flags) | s.one_of(&flags);
    let (result, before) = set(signal, handler, flags, mask);
    s.note("sigaction", result);
    before.into_iter().for_each(|part| s.note("before", part));
}

/// A signal stack in the middle of the room for one, or one that is too small.
fn stack(s: &mut Sequence) {
    static ROOM: [AtomicI64; 8192] = [const { AtomicI64::new(0) }; 8192];
    let (start, bytes) = (ROOM.as_ptr() as u64, s.one_of(&[size_of_val(&ROOM) as u64, 100]));
    let flags = s.one_of(&[0, 0, libc::SS_DISABLE as u64, 77]);
    let (new, mut old) = ([start, flags, bytes], [0u64; 3]);
    s.call("sigaltstack", libc::SYS_sigaltstack, &[new.as_ptr() as u64, old.as_mut_ptr() as u64]);
    s.note("stack", old[1..].iter().sum::<u64>().cast_signed());
}

/// A timer that is waited for.
fn timer(s: &mut Sequence) {
    let (mut before, alarm) = (0u64, 1u64 << (libc::SIGALRM - 1));
    call(libc::SYS_rt_sigprocmask, &[0, (&raw const alarm) as u64, (&raw mut before) as u64, 8]);
    let (soon, limit) = ([0, 0, 0, SOON_US], [LIMIT_S, 0]);
    let arguments = [(&raw const alarm) as u64, 0, limit.as_ptr() as u64, 8];
    // An ignored signal would not come, and one that waits already would come instead.
    let (_, [handler, flags, mask]) = set(libc::SIGALRM, on_signal as *const () as usize, 0, 0);
    let at_once = [0u64; 2];
    while call(libc::SYS_rt_sigtimedwait, &[arguments[0], 0, at_once.as_ptr() as u64, 8]) > 0 {}
    s.call("setitimer", libc::SYS_setitimer, &[0, soon.as_ptr() as u64, 0]);
    s.call("rt_sigtimedwait", libc::SYS_rt_sigtimedwait, &arguments);
    let handler = if handler == 1 { libc::SIG_IGN } else { on_signal as *const () as usize };
    set(libc::SIGALRM, handler, flags as i32, mask.cast_unsigned());
    call(libc::SYS_rt_sigprocmask, &[2, (&raw const before) as u64, 0, 8]);
}
