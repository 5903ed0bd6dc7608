//! Signals: caught on the host, given to the program's handlers in the guest.
//!
//! The host's mask is the program's. A signal for which the program has a handler interrupts whatever its thread does: the
//! guest is left, or a call of the host ends with EINTR or is abandoned before it began. The runner's handler (`handler`) only notes
//! the signal and lets everything stay blocked; the thread then builds, on the program's stack, the frame that Linux would
//! have built, sets the mask that Linux would have set, and goes on in the program's handler. Whether an interrupted call
//! is restarted the host's kernel decides: the host's action restarts where the program's does, and a call that would
//! begin again is abandoned and begun again by the program, after its handler.
//!
//! Faults of the program come as exceptions of the guest and not as signals of the host (`faults`), except in a native step
//! (`step`). A fault in the runner's own code ends the process with a message.

use crate::runner::checkpoint;
use crate::runner::fatal;
use crate::runner::frame::{self, Context, Places};
use crate::runner::handler::{
    AGAIN, DEFAULT, IGNORE, SA_ONSTACK, SA_RESTORER, baremark_guest_call, publish, set_host_action,
};
use crate::runner::kvm;
use crate::runner::machine::MACHINE;
use crate::runner::pool;
use crate::runner::sys::{self, ALL_SIGNALS, Action, Errno, MaskChange, bit};
use crate::runner::thread::{SignalStack, State, Thread};
use crate::runner::user;
use crate::shared::{Count, Doing};
use std::sync::atomic::Ordering;

const SA_NODEFER: u64 = libc::SA_NODEFER as u64;
const SA_RESETHAND: u64 = 0x8000_0000;
const SS_AUTODISARM: u64 = 1 << 31;
/// Flags that a handler starts without: direction, single step, resume.
const CLEARED_FLAGS: u64 = 0x1_0500;
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
    fn a_stack_is_used_from_its_second_byte_to_its_end() {
        let stack = SignalStack { start: 0x1000, flags: 0, bytes: 0x100 };
        assert!(!is_on(&stack, 0x1000) && is_on(&stack, 0x1001) && is_on(&stack, 0x1100) && !is_on(&stack, 0x1101));
        assert!(!is_on(&SignalStack::NONE, 0));
        assert_eq!(reported(&stack, 0x1080).flags, libc::SS_ONSTACK as u64);
        assert_eq!(reported(&SignalStack::NONE, 0x1080), SignalStack::NONE);
    }
}
