//! Signals on the host: which of them the runner handles there, and what its handler notes for the program.
//!
//! The host's action of a signal follows the program's; where the program has a handler, the host has the runner's, which gives nothing to the
//! program itself (`signals` does). What it interrupts is the guest, which is left, or a call of the host, which ends with EINTR or is abandoned before it
//! began. One signal that the program leaves alone is the runner's own, by which threads interrupt each other.

use crate::runner::checkpoint;
use crate::runner::fatal::{self, Fatal};
use crate::runner::run_page::RunPage;
use crate::runner::step;
use crate::runner::sys::{self, ALL_SIGNALS, Action, Errno, bit};
use crate::runner::thread::{Process, Thread};
use crate::runner::user;
use std::arch::global_asm;
use std::sync::atomic::{AtomicU32, Ordering};

// A system call that is not begun once a signal was caught: RDI number, RSI arguments, RDX flag. The handler moves a thread
// that it finds between `check` and `instruction` to `abandon`; there it also is when the kernel restarts the call.
global_asm!(
    ".globl baremark_guest_call",
    ".globl baremark_guest_call_check",
    ".globl baremark_guest_call_instruction",
    ".globl baremark_guest_call_abandon",
    ".globl baremark_guest_restore",
    "baremark_guest_call:",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rcx, rdx",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "baremark_guest_call_check:",
    "cmp dword ptr [rcx], 0",
    "jne baremark_guest_call_abandon",
    "baremark_guest_call_instruction:",
    "syscall",
    "ret",
    "baremark_guest_call_abandon:",
    "mov rax, -512",
    "ret",
    "baremark_guest_restore:",
    "mov eax, 15",
    "syscall",
    "ud2",
);

unsafe extern "C" {
    /// A system call, unless `flag` is not 0 by then: [`AGAIN`].
    pub(crate) fn baremark_guest_call(number: u64, arguments: *const [u64; 6], flag: *const AtomicU32) -> i64;
    fn baremark_guest_call_check();
    fn baremark_guest_call_instruction();
    fn baremark_guest_call_abandon();
    fn baremark_guest_restore();
}

/// What a call gives that was not begun, or that the kernel would begin again: the kernel's own ERESTARTSYS.
pub(crate) const AGAIN: i64 = -512;

/// The handler of a signal for which the program has none.
pub(crate) const DEFAULT: u64 = 0;
/// That of one that it ignores.
pub(crate) const IGNORE: u64 = 1;
const SA_NOCLDSTOP: u64 = libc::SA_NOCLDSTOP as u64;
const SA_NOCLDWAIT: u64 = libc::SA_NOCLDWAIT as u64;
const SA_SIGINFO: u64 = libc::SA_SIGINFO as u64;
/// As the kernel has it; libc hides it.
pub(crate) const SA_RESTORER: u64 = 0x0400_0000;
pub(crate) const SA_ONSTACK: u64 = libc::SA_ONSTACK as u64;
const SA_RESTART: u64 = libc::SA_RESTART as u64;
/// Signals of faults: they are the runner's, whatever the program has.
const FAULTS: [i32; 5] = [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV];
/// The highest signal.
const LAST: u32 = 64;

/// The signal by which a thread is interrupted for the sake of others; 0 as long as none was needed.
static INTERRUPTER: AtomicU32 = AtomicU32::new(0);

fn is_fault(signal: u32) -> bool {
    FAULTS.contains(&signal.cast_signed())
}

/// Whether the host's handler is the runner's, whatever the program has.
fn is_kept(signal: u32) -> bool {
    is_fault(signal) || INTERRUPTER.load(Ordering::Relaxed) == signal
}

/// Takes over the signals that the program starts with: those that were ignored stay so.
pub(crate) fn start(process: &Process) {
    process.actions.with(|actions| {
        for signal in 1..=LAST {
            if sys::action_of(signal).handler == IGNORE {
                actions[signal as usize].handler = IGNORE;
                process.ignored.fetch_or(bit(signal), Ordering::Relaxed);
            }
        }
    });
    for signal in FAULTS {
        let signal = signal.cast_unsigned();
        set_host_action(signal, &process.action(signal));
    }
    reserve(process);
}

/// Of a protected program: sets aside the signal by which its threads are stopped.
fn reserve(process: &Process) {
    if checkpoint::is_on() {
        let signal = choose_interrupter(process);
        checkpoint::reserve(signal, bit(signal));
    }
}

/// Sets the actions of a program that is continued, and those signals that it ignores.
pub(crate) fn restore(process: &Process, before: impl Iterator<Item = Action>) {
    process.actions.with(|actions| actions.iter_mut().zip(before).for_each(|(to, from)| *to = from));
    for signal in 1..=LAST {
        publish(process, signal, &process.action(signal));
    }
    reserve(process);
}

/// Gives the calling host thread its signal stack.
pub(crate) fn use_signal_stack(thread: &Thread) {
    let stack = thread.host_stack();
    // SAFETY: the kernel reads three words; the stack is part of this thread's block and used for nothing else.
    unsafe { sys::raw(libc::SYS_sigaltstack, [(&raw const stack) as u64, 0, 0, 0, 0, 0]) };
}

/// The host's action that belongs to the program's.
pub(crate) fn set_host_action(signal: u32, action: &Action) {
    let restorer = baremark_guest_restore as *const () as u64;
    let kept = action.flags & (SA_NOCLDSTOP | SA_NOCLDWAIT);
    let host = if action.handler > IGNORE || is_kept(signal) {
        let restart = if action.handler > IGNORE { action.flags & SA_RESTART } else { SA_RESTART };
        let flags = SA_SIGINFO | SA_ONSTACK | SA_RESTORER | restart | kept;
        Action { handler: on_signal as *const () as u64, flags, restorer, mask: ALL_SIGNALS }
    } else {
        Action { handler: action.handler, flags: SA_RESTORER | kept, restorer, mask: 0 }
    };
    // SAFETY: the handler notes what came and may run at any moment; signals that cannot be handled fail, without effect.
    let _ = unsafe { sys::set_action(signal, &host) };
}

/// What the host does when a signal comes for which the program has a handler, or for a fault.
///
/// # Safety
/// Called by the kernel alone, on a thread's signal stack.
unsafe extern "C" fn on_signal(signal: u32, info: *const [u64; 16], context: *mut libc::ucontext_t) {
    let thread = Thread::current();
    // SAFETY: the kernel passes both, on this stack, and they are this handler's while it runs.
    let (info, context) = unsafe { (&*info, &mut *context) };
    let code = (info[1] as u32).cast_signed();
    let call = baremark_guest_call_check as *const () as i64..=baremark_guest_call_instruction as *const () as i64;
    let by_instruction = is_fault(signal) && code > 0 && !(signal == libc::SIGBUS.cast_unsigned() && code == 5);
    let rip = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    if by_instruction {
        if thread.stepping.stack.load(Ordering::Relaxed) != 0 {
            return step::finish(thread, signal, info, context);
        }
        fatal::end(Fatal::Broken { what: "a fault", at: rip.cast_unsigned() });
    }
    let is_interrupter = INTERRUPTER.load(Ordering::Relaxed) == signal && code == libc::SI_TKILL;
    if is_interrupter && (took_one(&thread.interrupters) || checkpoint::is_on()) {
        // Ours: nothing for the program. Before a checkpoint, a call that would wait is not begun.
        if checkpoint::is_stopping() && call.contains(rip) {
            *rip = baremark_guest_call_abandon as *const () as i64;
        }
        thread.interrupted.store(1, Ordering::SeqCst);
        RunPage(&thread.shared).set_immediate_exit();
        return;
    }
    if is_kept(signal) && thread.process().ignored.load(Ordering::Relaxed) & bit(signal) != 0 {
        return;
    }
    if call.contains(rip) {
        *rip = baremark_guest_call_abandon as *const () as i64;
    }
    let mask: *mut u64 = (&raw mut context.uc_sigmask).cast();
    // SAFETY: the kernel's mask is the first eight bytes of libc's.
    let before = unsafe { mask.replace(ALL_SIGNALS) };
    thread.caught.signal.store(signal, Ordering::Relaxed);
    thread.caught.mask.store(before, Ordering::Relaxed);
    thread.caught.info.iter().zip(info).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
    thread.pending.store(1, Ordering::SeqCst);
    RunPage(&thread.shared).set_immediate_exit();
}

/// Takes one from a count, if there is any.
fn took_one(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok()
}

/// Interrupts a thread that computes, so that it gives its virtual processor up.
pub(crate) fn interrupt(thread: &Thread) {
    let signal = match INTERRUPTER.load(Ordering::Relaxed) {
        0 => choose_interrupter(thread.process()),
        signal => signal,
    };
    if signal == 0 || thread.yielding.swap(1, Ordering::SeqCst) != 0 {
        return;
    }
    thread.interrupters.fetch_add(1, Ordering::SeqCst);
    if sys::send_to_thread(thread.id.load(Ordering::Relaxed), signal).is_err() {
        took_one(&thread.interrupters);
        thread.yielding.store(0, Ordering::SeqCst);
    }
}

/// The highest signal that the program leaves alone.
fn choose_interrupter(process: &Process) -> u32 {
    process.actions.with(|actions| {
        let free = |signal: &u32| actions[*signal as usize].handler == DEFAULT;
        let signal = (35..=LAST).rev().find(free).unwrap_or(0);
        INTERRUPTER.store(signal, Ordering::Relaxed);
        if signal != 0 {
            set_host_action(signal, &actions[signal as usize]);
        }
        signal
    })
}

/// Enters a signal's action into what the runner's handler looks at, which takes no lock, and the host's action after it.
pub(crate) fn publish(process: &Process, signal: u32, action: &Action) {
    if action.handler == IGNORE {
        process.ignored.fetch_or(bit(signal), Ordering::Relaxed);
    } else {
        process.ignored.fetch_and(!bit(signal), Ordering::Relaxed);
    }
    set_host_action(signal, action);
}

/// Before a program is replaced: signals of the runner's that the program ignores are ignored by the next one too.
pub(crate) fn leave_to_next(process: &Process, leave: bool) {
    for signal in FAULTS.into_iter().map(i32::cast_unsigned).chain([INTERRUPTER.load(Ordering::Relaxed)]) {
        let action = process.action(signal);
        if action.handler != IGNORE || signal == 0 {
            continue;
        }
        if leave {
            let ignore = Action { handler: IGNORE, flags: SA_RESTORER, ..Action::default() };
            // SAFETY: "ignore" needs no handler.
            let _ = unsafe { sys::set_action(signal, &ignore) };
        } else {
            set_host_action(signal, &action);
        }
    }
}

/// `rt_sigaction`.
pub(crate) fn action(thread: &Thread, [signal, new, old, bytes, ..]: [u64; 6]) -> Result<u64, Errno> {
    let process = thread.process();
    let signal = u32::try_from(signal & u64::from(u32::MAX)).unwrap_or(0);
    let untouchable = signal == libc::SIGKILL.cast_unsigned() || signal == libc::SIGSTOP.cast_unsigned();
    if bytes != 8 {
        return Err(Errno(libc::EINVAL));
    }
    let new = match new {
        0 => None,
        new => Some(user::read_words::<4>(process, new)?),
    };
    if signal == 0 || signal > LAST || new.is_some() && untouchable {
        return Err(Errno(libc::EINVAL));
    }
    let before = process.actions.with(|actions| {
        let before = actions[signal as usize];
        if let Some([handler, flags, restorer, mask]) = new {
            let mask = mask & !(bit(libc::SIGKILL.cast_unsigned()) | bit(libc::SIGSTOP.cast_unsigned()));
            actions[signal as usize] = Action { handler, flags, restorer, mask };
            publish(process, signal, &actions[signal as usize]);
        }
        before
    });
    if old != 0 {
        user::write_words(process, old, &[before.handler, before.flags, before.restorer, before.mask])?;
    }
    Ok(0)
}
