//! Signals: caught on the host, given to the program's handlers in the guest.
//!
//! The host's mask is the program's. A signal for which the program has a handler interrupts whatever its thread does: the
//! guest is left, or a call of the host ends with EINTR or is abandoned before it began. The runner's handler only notes
//! the signal and lets everything stay blocked; the thread then builds, on the program's stack, the frame that Linux would
//! have built, sets the mask that Linux would have set, and goes on in the program's handler. Whether an interrupted call
//! is restarted the host's kernel decides: the host's action restarts where the program's does, and a call that would
//! begin again is abandoned and begun again by the program, after its handler.
//!
//! Faults of the program come as exceptions of the guest and not as signals of the host (`faults`), except in a native step
//! (`step`). A fault in the runner's own code ends the process with a message.

use crate::runner::checkpoint;
use crate::runner::fatal::{self, Fatal};
use crate::runner::frame::{self, Context, Places};
use crate::runner::guest;
use crate::runner::kvm;
use crate::runner::machine::MACHINE;
use crate::runner::pool;
use crate::runner::step;
use crate::runner::sys::{self, ALL_SIGNALS, Action, Errno, MaskChange};
use crate::runner::thread::{Process, SignalStack, State, Thread};
use crate::runner::user;
use crate::shared::{Count, Doing};
use std::arch::global_asm;
use std::ops::Range;
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
    fn baremark_guest_call(number: u64, arguments: *const [u64; 6], flag: *const AtomicU32) -> i64;
    fn baremark_guest_call_check();
    fn baremark_guest_call_instruction();
    fn baremark_guest_call_abandon();
    fn baremark_guest_restore();
}

/// What a call gives that was not begun, or that the kernel would begin again: the kernel's own ERESTARTSYS.
pub(crate) const AGAIN: i64 = -512;

const DEFAULT: u64 = 0;
const IGNORE: u64 = 1;
const SA_NOCLDSTOP: u64 = libc::SA_NOCLDSTOP as u64;
const SA_NOCLDWAIT: u64 = libc::SA_NOCLDWAIT as u64;
const SA_SIGINFO: u64 = libc::SA_SIGINFO as u64;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = libc::SA_ONSTACK as u64;
const SA_RESTART: u64 = libc::SA_RESTART as u64;
const SA_NODEFER: u64 = libc::SA_NODEFER as u64;
const SA_RESETHAND: u64 = 0x8000_0000;
const SS_AUTODISARM: u64 = 1 << 31;
/// Flags that a handler starts without: direction, single step, resume.
const CLEARED_FLAGS: u64 = 0x1_0500;
/// Signals of faults: they are the runner's, whatever the program has.
const FAULTS: [i32; 5] = [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV];
/// Signals that do not end a process by default.
const HARMLESS: [i32; 8] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];
/// The highest signal.
const LAST: u32 = 64;

/// The signal by which a thread is interrupted for the sake of others; 0 as long as none was needed.
static INTERRUPTER: AtomicU32 = AtomicU32::new(0);

/// A signal's bit in a mask.
pub(crate) fn bit(signal: u32) -> u64 {
    1u64.checked_shl(signal.wrapping_sub(1)).unwrap_or(0)
}

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

/// Gives the calling host thread its signal stack: frames of the host must not depend on where a thread's own stack is.
pub(crate) fn use_signal_stack(thread: &Thread) {
    let stack = host_stack(thread);
    // SAFETY: the kernel reads three words; the stack is part of this thread's block and used for nothing else.
    unsafe { sys::raw(libc::SYS_sigaltstack, [(&raw const stack) as u64, 0, 0, 0, 0, 0]) };
}

/// The host's signal stack of `thread`.
pub(crate) fn host_stack(thread: &Thread) -> SignalStack {
    let Range { start, end } = thread.block.signal_stack();
    SignalStack { start, flags: 0, bytes: end - start }
}

/// The host's action that belongs to the program's.
fn set_host_action(signal: u32, action: &Action) {
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
        guest::stop_soon(&thread.shared);
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
    guest::stop_soon(&thread.shared);
}

/// Takes one from a count, if there is any.
fn took_one(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok()
}

/// Has the host carry out a call, unless a signal is caught before it begins: then [`AGAIN`]. Meanwhile another thread may
/// take this one's virtual processor; it has one again when this returns.
pub(crate) fn forward(thread: &'static Thread, number: u64, arguments: &[u64; 6]) -> i64 {
    thread.note(Doing::Calling, number);
    if pool::is_wanted() {
        pool::give_up(thread);
        thread.enter_state(State::Lost);
    } else {
        thread.enter_state(State::Blocked);
    }
    let result = loop {
        thread.interrupted.store(0, Ordering::SeqCst);
        // SAFETY: the program makes this call, with its own memory and its own rights; what would touch the runner is kept
        // from here by `calls`.
        let result = unsafe { baremark_guest_call(number, arguments, &raw const thread.pending) };
        let by_us = thread.pending.load(Ordering::SeqCst) == 0 && thread.interrupted.load(Ordering::SeqCst) != 0;
        if result != -i64::from(libc::EINTR) || !by_us {
            break result;
        }
        // The program makes the call again, after the checkpoint.
        if checkpoint::is_on() {
            break AGAIN;
        }
    };
    if !thread.change_state(State::Blocked, State::Running) {
        while thread.state.load(Ordering::Acquire) == State::Losing as u32 {
            sys::wait_while(&thread.state, State::Losing as u32, Some(1));
        }
        thread.enter_state(State::Running);
        pool::acquire(thread);
    }
    thread.note(Doing::Computing, number);
    result
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

/// Blocks everything and gives the program's mask.
pub(crate) fn take_mask(thread: &Thread) -> u64 {
    let mask = sys::mask_signals(MaskChange::Block, ALL_SIGNALS);
    match thread.pending.load(Ordering::SeqCst) {
        0 => mask,
        _ => thread.caught.mask.load(Ordering::Relaxed),
    }
}

/// Gives the program its mask, now or when the signal is delivered that was caught meanwhile.
pub(crate) fn give_mask(thread: &Thread, mask: u64) {
    match thread.pending.load(Ordering::SeqCst) {
        0 => drop(sys::mask_signals(MaskChange::Set, checkpoint::allowed_mask(mask))),
        _ => thread.caught.mask.store(mask, Ordering::Relaxed),
    }
}

/// Gives the caught signal to the program. All signals are blocked until its handler has its mask.
pub(crate) fn deliver_caught(thread: &Thread) {
    let signal = thread.caught.signal.load(Ordering::Relaxed);
    let mask = thread.caught.mask.load(Ordering::Relaxed);
    let mut info = [0; 16];
    info.iter_mut().zip(&thread.caught.info).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    thread.pending.store(0, Ordering::SeqCst);
    let during = thread.call_mask.take().unwrap_or(mask);
    match thread.process().action(signal).handler {
        IGNORE => give_mask(thread, mask),
        DEFAULT => act_by_default(thread, signal, mask),
        _ => deliver(thread, &Delivery { signal, info, trap: 0, error: 0, address: 0, mask, during }),
    }
}

/// A signal on its way to a handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) signal: u32,
    pub(crate) info: [u64; 16],
    /// The exception's number, error code and address.
    pub(crate) trap: u64,
    pub(crate) error: u64,
    pub(crate) address: u64,
    /// The mask to which the handler returns, and the one to which its own signals are added.
    pub(crate) mask: u64,
    pub(crate) during: u64,
}

/// A signal that the program's own instruction has caused: to its handler, or, where it has none or blocks it, to its end.
pub(crate) fn deliver_fault(thread: &Thread, mut delivery: Delivery) {
    let mask = take_mask(thread);
    (delivery.mask, delivery.during) = (mask, mask);
    let handled = thread.process().action(delivery.signal).handler > IGNORE;
    if !handled || mask & bit(delivery.signal) != 0 {
        return act_by_default(thread, delivery.signal, mask & !bit(delivery.signal));
    }
    deliver(thread, &delivery);
}

/// A fault without an address, which the kernel itself reports.
pub(crate) fn deliver_kernel_fault(thread: &Thread, signal: i32, trap: u64, error: u64) {
    const SI_KERNEL: u64 = 0x80;
    let mut info = [0; 16];
    (info[0], info[1]) = (u64::from(signal.cast_unsigned()), SI_KERNEL);
    let signal = signal.cast_unsigned();
    deliver_fault(thread, Delivery { signal, info, trap, error, address: 0, mask: 0, during: 0 });
}

/// Builds the frame on the program's stack and points the program at its handler.
fn deliver(thread: &Thread, delivery: &Delivery) {
    let action = thread.process().actions.with(|actions| {
        let action = actions[delivery.signal as usize];
        if action.flags & SA_RESETHAND != 0 {
            actions[delivery.signal as usize] = Action::default();
            publish(thread.process(), delivery.signal, &Action::default());
        }
        action
    });
    let Some(frame) = build_frame(thread, delivery, &action) else {
        // No room for a frame: a segmentation fault, and when that was it, the end.
        let segv = libc::SIGSEGV;
        if delivery.signal == segv.cast_unsigned() {
            return act_by_default(thread, delivery.signal, delivery.during & !bit(delivery.signal));
        }
        give_mask(thread, delivery.mask);
        return deliver_kernel_fault(thread, segv, 0, 0);
    };
    thread.count(Count::Signals);
    thread.change(|registers| {
        (registers.rdi, registers.rsi) = (delivery.signal.into(), frame + frame::INFO);
        (registers.rdx, registers.rax) = (frame + frame::CONTEXT, 0);
        (registers.rsp, registers.rip) = (frame, action.handler);
        registers.rflags &= !CLEARED_FLAGS;
    });
    let own = if action.flags & SA_NODEFER == 0 { bit(delivery.signal) } else { 0 };
    give_mask(thread, delivery.during | action.mask | own);
}

/// Writes the frame; gives where it is.
fn build_frame(thread: &Thread, delivery: &Delivery, action: &Action) -> Option<u64> {
    let (registers, stack) = (thread.registers.get(), thread.signal_stack.get());
    let on_it = is_on(&stack, registers.rsp);
    let enters = action.flags & SA_ONSTACK != 0 && stack.bytes != 0 && (!on_it || stack.flags & SS_AUTODISARM != 0);
    let top = if enters { stack.start.wrapping_add(stack.bytes) } else { registers.rsp.wrapping_sub(frame::RED_ZONE) };
    let bytes = MACHINE.extended_bytes();
    let Places { state, frame } = frame::places(top, bytes);
    if on_it && !enters && !is_on(&stack, frame) {
        return None;
    }
    let context = Context {
        registers,
        error: delivery.error,
        trap: delivery.trap,
        address: delivery.address,
        mask: delivery.mask,
        stack,
    };
    // SAFETY: the calling thread is the record's own.
    let saved = unsafe { thread.saved() };
    if let Err(failed) = kvm::extended_state(pool::fd_of(thread), &mut saved.extended) {
        fatal::end(failed.into());
    }
    let extended = frame::state(&saved.extended, bytes, MACHINE.xcr0.load(Ordering::Relaxed));
    let words = frame::words(&context, state, action.restorer, &delivery.info);
    let process = thread.process();
    user::write_bytes(process, state, &extended[..bytes + 4]).ok()?;
    user::write_words(process, frame, &words).ok()?;
    if stack.flags & SS_AUTODISARM != 0 {
        thread.signal_stack.set(SignalStack::NONE);
    }
    Some(frame)
}

/// What happens to a process without a handler.
fn act_by_default(thread: &Thread, signal: u32, mask: u64) {
    let process = thread.process();
    let ends = !HARMLESS.contains(&signal.cast_signed());
    if ends {
        process.finish();
    }
    let default = Action { handler: DEFAULT, flags: SA_RESTORER, ..Action::default() };
    // SAFETY: the default needs no handler.
    let _ = unsafe { sys::set_action(signal, &default) };
    // A signal that cannot be sent is one that has no effect.
    let _ = sys::send_to_thread(sys::thread_id(), signal);
    give_mask(thread, mask);
    // Whoever comes here lives on: it was stopped and continued, or the signal is ignored by default, or it is a first
    // process, which no signal ends.
    if ends {
        process.begin();
    }
    set_host_action(signal, &process.action(signal));
}

/// Enters a signal's action into what the runner's handler looks at, which takes no lock, and the host's action after it.
fn publish(process: &Process, signal: u32, action: &Action) {
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

/// `sigaltstack`.
pub(crate) fn set_stack(thread: &Thread, new: u64, old: u64) -> Result<u64, Errno> {
    const LEAST: u64 = libc::MINSIGSTKSZ as u64;
    let process = thread.process();
    let (now, stack) = (thread.signal_stack.get(), thread.registers.get().rsp);
    if new != 0 {
        let [start, flags, bytes] = user::read_words::<3>(process, new)?;
        let flags = flags & u64::from(u32::MAX);
        if is_on(&now, stack) && now.flags & SS_AUTODISARM == 0 {
            return Err(Errno(libc::EPERM));
        }
        match flags & !SS_AUTODISARM {
            disable if disable == libc::SS_DISABLE as u64 => thread.signal_stack.set(SignalStack::NONE),
            0 | 1 if bytes < LEAST => return Err(Errno(libc::ENOMEM)),
            0 | 1 => thread.signal_stack.set(SignalStack { start, flags, bytes }),
            _ => return Err(Errno(libc::EINVAL)),
        }
    }
    if old != 0 {
        let SignalStack { start, flags, bytes } = reported(&now, stack);
        user::write_words(process, old, &[start, flags, bytes])?;
    }
    Ok(0)
}

/// `rt_sigreturn`: everything as the frame has it. False when there is no frame, which is a fault.
pub(crate) fn go_back(thread: &Thread) -> bool {
    let process = thread.process();
    let Ok(words) = user::read_words(process, thread.registers.get().rsp.wrapping_sub(8)) else { return false };
    let (context, state) = frame::read(&words);
    let mut extended = [0; size_of::<frame::State>()];
    let bytes = MACHINE.extended_bytes();
    let readable = state == 0 || user::read_bytes(process, state, &mut extended[..bytes + 4]).is_ok();
    if !readable || context.registers.rip >> 47 != 0 {
        return false;
    }
    // SAFETY: the calling thread is the record's own.
    let saved = unsafe { thread.saved() };
    match state {
        0 => saved.extended = frame::initial(),
        _ => frame::restore(&extended, bytes, &mut saved.extended),
    }
    if kvm::set_extended_state(pool::fd_of(thread), &saved.extended).is_err() {
        return false;
    }
    take_mask(thread);
    thread.registers.set(context.registers);
    if context.stack.flags & libc::SS_DISABLE as u64 == 0 && context.stack.bytes != 0 {
        thread.signal_stack.set(context.stack);
    }
    give_mask(thread, context.mask);
    true
}

fn is_on(stack: &SignalStack, pointer: u64) -> bool {
    stack.bytes != 0 && pointer.wrapping_sub(stack.start).wrapping_sub(1) < stack.bytes
}

/// A signal stack as the kernel reports it: whether it is in use by `pointer`, and how it is kept.
fn reported(stack: &SignalStack, pointer: u64) -> SignalStack {
    let state = match stack.bytes {
        0 => libc::SS_DISABLE,
        _ if is_on(stack, pointer) && stack.flags & SS_AUTODISARM == 0 => libc::SS_ONSTACK,
        _ => 0,
    };
    SignalStack { flags: state as u64 | stack.flags & SS_AUTODISARM, ..*stack }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_kernels_masks() {
        assert_eq!((bit(1), bit(9), bit(64)), (1, 1 << 8, 1 << 63));
        assert_eq!((bit(0), bit(65)), (0, 0));
    }

    #[test]
    fn a_stack_is_used_from_its_second_byte_to_its_end() {
        let stack = SignalStack { start: 0x1000, flags: 0, bytes: 0x100 };
        assert!(!is_on(&stack, 0x1000) && is_on(&stack, 0x1001) && is_on(&stack, 0x1100) && !is_on(&stack, 0x1101));
        assert!(!is_on(&SignalStack::NONE, 0));
        assert_eq!(reported(&stack, 0x1080).flags, libc::SS_ONSTACK as u64);
        assert_eq!(reported(&SignalStack::NONE, 0x1080), SignalStack::NONE);
    }
}
