//! The way into the guest and out of it, again and again, for one thread.
//!
//! A system call of the program enters a stub, which leaves by an `out`: in ring 3 under PVM, whose SYSCALL does not change
//! the ring, and in ring 0 on a processor's own virtualization. Which of the two holds is found out at the first call. An
//! exception enters a stub in ring 0, which leaves in the same way. From ring 0 a thread comes back by one more stub, an
//! `iretq` from a frame that is written here, so that any register can be set without a call to KVM.

use crate::runner::arena::ARENA;
use crate::runner::checkpoint;
use crate::runner::counters;
use crate::runner::fatal::{self, Fatal};
use crate::runner::kvm;
use crate::runner::machine::RETURN_STUB;
use crate::runner::mailbox::{self, Mailbox, PORT_BEGUN, Position, Settled};
use crate::runner::poller;
use crate::runner::run_page::RunPage;
use crate::runner::sys::Errno;
use crate::runner::thread::{Ring, Thread};
use crate::runner::{calls, faults, pool, signals};
use crate::shared::{Count, Doing};
use baremark_microvm::layout::{self, PORT_SYSCALL, PORT_VECTORS, VECTORS};
use baremark_microvm::{exception, supervisor};
use kvm_bindings::{KVM_EXIT_INTR, KVM_EXIT_IO, KVM_EXIT_MEMORY_FAULT, kvm_regs};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of the stub of an exception.
const STUB_BYTES: u64 = 16;
/// Exits at one instruction without a system call after which nothing can be hoped for.
const MOST_EXITS: u32 = 10_000;
/// How much of a program's flags it may set itself: everything but I/O privilege, virtual interrupts and the like.
const OWN_FLAGS: u64 = 0x5_0dd5;
/// Bit 1 is always set; interrupts on, as any process has them.
const FIXED_FLAGS: u64 = 0x202;

/// Why the guest was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The program calls the operating system.
    Call,
    /// A call has its result, which came after the guest was left.
    Answered,
    /// An exception, with its error code.
    Exception { vector: u8, code: u64 },
    /// The host's memory map does not allow an access.
    Refused,
    /// An `out` of the program's own.
    ForeignPort,
    /// A signal has come, or somebody else needs the virtual processor.
    Interrupted,
}

/// The ring that SYSCALL enters: 0 before the first call, else plus one.
static ROUTE: AtomicU32 = AtomicU32::new(0);

/// Runs `thread` to its end.
pub(crate) fn live(thread: &'static Thread) -> ! {
    loop {
        while thread.pending.load(Ordering::SeqCst) != 0 {
            signals::deliver_caught(thread);
        }
        if checkpoint::is_stopping() {
            stand(thread);
            continue;
        }
        if pool::is_wanted() || thread.yielding.load(Ordering::Relaxed) != 0 {
            thread.yielding.store(0, Ordering::Relaxed);
            if pool::is_wanted() {
                pool::give_up(thread);
                pool::acquire(thread);
                thread.note(Doing::Computing, 0);
            }
        }
        match pass(thread) {
            Exit::Call => {
                thread.stuck.set((0, 0));
                if thread.backoff.is_over() {
                    poller::wake_for(thread.registers.get().rax);
                }
                calls::carry_out(thread);
            }
            Exit::Answered => thread.stuck.set((0, 0)),
            Exit::Interrupted => thread.count(Count::Interruptions),
            Exit::Refused => {
                guard(thread);
                faults::refused(thread);
            }
            Exit::Exception { vector, code } => {
                guard(thread);
                faults::exception(thread, vector, code);
            }
            Exit::ForeignPort => faults::foreign_port(thread),
        }
    }
}

/// Stands while a checkpoint is made.
fn stand(thread: &Thread) {
    let mask = signals::take_mask(thread);
    if let Err(error) = pool::save(thread) {
        fatal::end(error);
    }
    checkpoint::stand(thread, mask, &calls::memory::current_break());
    signals::give_mask(thread, mask);
}

/// Ends the process when one instruction has left the guest again and again with nothing else happening.
fn guard(thread: &Thread) {
    let rip = thread.registers.get().rip;
    let (at, times) = thread.stuck.get();
    let times = if at == rip { times + 1 } else { 1 };
    thread.stuck.set((rip, times));
    if times >= MOST_EXITS {
        let address = kvm::special_registers(pool::fd_of(thread)).map_or(0, |special| special.cr2);
        fatal::end(Fatal::NoProgress { rip, address, exits: times });
    }
}

/// One passage through the guest.
fn pass(thread: &'static Thread) -> Exit {
    let shared = RunPage(&thread.shared);
    shared.set_registers(&outgoing(thread));
    shared.clear_immediate_exit();
    if let Some(mailbox) = pool::mailbox_of(thread) {
        mailbox.enable(thread.backoff.enter() && poller::serves(thread.process()));
    }
    // Looked at after the flag was cleared: a signal from here on sets it again, so that none is slept over.
    let is_awaited = thread.pending.load(Ordering::SeqCst) != 0 || thread.yielding.load(Ordering::SeqCst) != 0;
    if is_awaited || checkpoint::is_stopping() {
        return Exit::Interrupted;
    }
    loop {
        if let Some(exit) = enter(thread, &shared) {
            return exit;
        }
        // The stub must come to its `out` before the signal is looked at.
        shared.clear_immediate_exit();
    }
}

/// Enters the guest once. `None` where it stopped inside a stub and has to go on before anything else.
fn enter(thread: &'static Thread, shared: &RunPage<'_>) -> Option<Exit> {
    shared.forget_reason();
    let result = kvm::run(pool::fd_of(thread));
    thread.count(Count::Exits);
    let (reason, registers) = (shared.reason(), shared.registers());
    match (result, reason) {
        (Ok(()), KVM_EXIT_IO) => Some(port(thread, shared.port(), registers)),
        (Err(Errno(libc::EINTR | libc::EAGAIN)), _) | (Ok(()), KVM_EXIT_INTR) => interrupted(thread, registers),
        (Err(Errno(libc::EFAULT | libc::EHWPOISON)), 0 | KVM_EXIT_MEMORY_FAULT) => {
            in_program(thread, registers);
            Some(Exit::Refused)
        }
        (Ok(()), reason) => fatal::end(Fatal::Exit { reason, suberror: shared.suberror(), rip: registers.rip }),
        (Err(errno), _) => fatal::end(Fatal::Kvm { call: "KVM_RUN", errno }),
    }
}

/// An `out` has left the guest.
fn port(thread: &Thread, port: Option<u16>, registers: kvm_regs) -> Exit {
    let at = registers.rip.wrapping_sub(ARENA.area());
    match port {
        Some(PORT_SYSCALL) if is_syscall_stub(at) => {
            from_call(thread, registers);
            Exit::Call
        }
        Some(PORT_SYSCALL) if position(thread, registers.rip).is_some() => returned(thread, registers),
        Some(PORT_BEGUN) if position(thread, registers.rip).is_some() => settled(thread, registers),
        Some(port @ PORT_VECTORS..) if port < PORT_VECTORS + VECTORS && is_exception_stub(at) => {
            let vector = u8::try_from(port - PORT_VECTORS).unwrap_or(u8::MAX);
            let with_code = exception::has_error_code(vector);
            let code = if with_code { word_at(registers.rsp) } else { 0 };
            from_frame(thread, registers, registers.rsp + if with_code { 8 } else { 0 });
            Exit::Exception { vector, code }
        }
        _ => {
            in_program(thread, registers);
            Exit::ForeignPort
        }
    }
}

/// A signal has stopped the guest, perhaps inside a stub. Where its `out` is still to come that happens first: it leaves
/// at once. Where it is over, the program's registers are those to which the stub would have returned.
fn interrupted(thread: &Thread, registers: kvm_regs) -> Option<Exit> {
    let at = registers.rip.wrapping_sub(ARENA.area());
    if is_syscall_stub(at) {
        if at == layout::SYSCALL_STUB {
            return None;
        }
        from_call(thread, registers);
    } else if let Some(position) = position(thread, registers.rip) {
        return Some(match position {
            Position::Before => returned(thread, registers),
            Position::Within => settled(thread, registers),
        });
    } else if at == RETURN_STUB {
        from_frame(thread, registers, registers.rsp);
    } else if is_exception_stub(at) {
        // Only the instructions before the `out` can be met: what follows is never executed, see `outgoing`.
        return None;
    } else {
        in_program(thread, registers);
    }
    Some(Exit::Interrupted)
}

/// Where a thread stands in the stub of its virtual processor, where that has one of its own.
fn position(thread: &Thread, rip: u64) -> Option<Position> {
    let index = usize::try_from(thread.vcpu.load(Ordering::Relaxed)).ok()?;
    mailbox::position(index, rip)
}

/// A call has left the guest from a stub of its virtual processor's own, or has not yet been handed over there.
fn returned(thread: &Thread, registers: kvm_regs) -> Exit {
    if let Some(mailbox) = pool::mailbox_of(thread).filter(|mailbox| mailbox.came_back()) {
        missed(thread, mailbox);
    }
    from_call(thread, registers);
    Exit::Call
}

/// A thread was taken out of the guest while its call was in the mailbox.
fn settled(thread: &Thread, mut registers: kvm_regs) -> Exit {
    let Some(mailbox) = pool::mailbox_of(thread) else { return returned(thread, registers) };
    let kept = mailbox.kept();
    (registers.rax, registers.rcx, registers.r11, registers.rsp) = (kept.rax, kept.rcx, kept.r11, kept.rsp);
    match mailbox.settle() {
        Settled::Answered(result) => {
            from_call(thread, kvm_regs { rax: result, ..registers });
            Exit::Answered
        }
        Settled::Returned => {
            missed(thread, mailbox);
            from_call(thread, registers);
            Exit::Call
        }
    }
}

/// A call that was handed over came back.
fn missed(thread: &Thread, mailbox: &Mailbox) {
    thread.count(Count::ExitlessFallbacks);
    thread.backoff.missed(mailbox.answered());
}

fn is_syscall_stub(at: u64) -> bool {
    (layout::SYSCALL_STUB..layout::SYSCALL_STUB + STUB_BYTES).contains(&at)
}

fn is_exception_stub(at: u64) -> bool {
    (layout::STUBS..RETURN_STUB).contains(&at)
}

/// The program's registers at a system call: RCX has the next instruction, R11 the flags.
fn from_call(thread: &Thread, mut registers: kvm_regs) {
    (registers.rip, registers.rflags) = (registers.rcx, registers.r11);
    thread.registers.set(registers);
    thread.ring.set(match syscall_ring(thread) {
        3 => Ring::Program,
        _ => Ring::Stub,
    });
    if thread.process().in_guest.swap(1, Ordering::Relaxed) == 0 {
        thread.count(Count::ImagesInGuest);
    }
}

/// The program's registers at an exception: the processor has pushed them on ring 0's stack.
fn from_frame(thread: &Thread, mut registers: kvm_regs, frame: u64) {
    (registers.rip, registers.rflags, registers.rsp) = (word_at(frame), word_at(frame + 16), word_at(frame + 24));
    thread.registers.set(registers);
    thread.ring.set(Ring::Stub);
}

/// The program's registers where it was left in the middle.
fn in_program(thread: &Thread, registers: kvm_regs) {
    thread.registers.set(registers);
    thread.ring.set(Ring::Program);
}

/// The registers with which the virtual processor goes on so that the program has its own.
fn outgoing(thread: &Thread) -> kvm_regs {
    let mut registers = thread.registers.get();
    registers.rflags = registers.rflags & OWN_FLAGS | FIXED_FLAGS;
    if thread.ring.get() == Ring::Program {
        return registers;
    }
    let rank = usize::try_from(thread.vcpu.load(Ordering::Relaxed)).unwrap_or(0);
    let top = supervisor::task_state(ARENA.area(), rank) + layout::RANK_BYTES;
    let frame = top - 40;
    let words = [registers.rip, layout::RING3_CODE.into(), registers.rflags, registers.rsp, layout::RING3_DATA.into()];
    let place = ptr::with_exposed_provenance_mut::<[u64; 5]>(frame as usize);
    // SAFETY: the top of this virtual processor's stack for ring 0, which nobody uses while it does not run.
    unsafe { place.write(words) };
    kvm_regs { rip: ARENA.area() + RETURN_STUB, rsp: frame, rflags: 2, ..registers }
}

/// The ring in which SYSCALL's stub runs here; asked once.
fn syscall_ring(thread: &Thread) -> u16 {
    if let Some(ring) = ROUTE.load(Ordering::Relaxed).checked_sub(1) {
        return u16::try_from(ring).unwrap_or(0);
    }
    let ring = match kvm::special_registers(pool::fd_of(thread)) {
        Ok(special) => special.cs.selector & 3,
        Err(failed) => fatal::end(failed.into()),
    };
    ROUTE.store(u32::from(ring) + 1, Ordering::Relaxed);
    counters::shared().route.store(u32::from(ring) + 1, Ordering::Relaxed);
    ring
}

/// A word of the supervisor area, where ring 0's stacks lie.
fn word_at(address: u64) -> u64 {
    let area = ARENA.area()..ARENA.area() + layout::TABLES;
    if !area.contains(&address) || !address.is_multiple_of(8) {
        fatal::end(Fatal::Broken { what: "an exception without a frame", at: address });
    }
    // SAFETY: inside the supervisor area by the line above, which is mapped as long as the process lives.
    unsafe { ptr::with_exposed_provenance::<u64>(address as usize).read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_are_told_from_each_other() {
        assert!(is_syscall_stub(layout::SYSCALL_STUB) && is_syscall_stub(layout::SYSCALL_STUB + 2));
        assert!(!is_syscall_stub(layout::STUBS) && is_exception_stub(layout::STUBS + 14 * STUB_BYTES + 2));
        assert!(!is_exception_stub(RETURN_STUB) && !is_exception_stub(layout::SYSCALL_STUB));
    }

    #[test]
    fn a_program_keeps_its_flags_and_gains_no_privilege() {
        let (carry, io_privilege, direction) = (1, 0x3000, 0x400);
        assert_eq!((carry | io_privilege | direction) & OWN_FLAGS | FIXED_FLAGS, 0x202 | carry | direction);
    }
}
