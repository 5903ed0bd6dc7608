//! Exceptions of the guest and accesses that the host refuses: what they mean for the program.
//!
//! A page fault of the guest's own tables asks for another block of memory, if there is anything at the address. Everything
//! else is a signal to the program, which a native step finds out, but for a few that need none: traps, which come after
//! their instruction, and accesses to the runner's memory, which is not there for the program.

use crate::runner::arena::ARENA;
use crate::runner::counters;
use crate::runner::fatal;
use crate::runner::kvm;
use crate::runner::machine::MACHINE;
use crate::runner::pool;
use crate::runner::signals::{self, Delivery};
use crate::runner::space::Filled;
use crate::runner::step;
use crate::runner::sys;
use crate::runner::thread::Thread;
use crate::runner::user;
use crate::shared::{Count, UnsupportedKind};
use baremark_microvm::layout::USER_END;
use std::sync::atomic::Ordering;

const DEBUG: u8 = 1;
const BREAKPOINT: u8 = 3;
const OVERFLOW: u8 = 4;
const PAGE_FAULT: u8 = 14;
/// The program's own page-fault error code bit.
const USER: u64 = 4;
const PRESENT: u64 = 1;
const SEGV_MAPERR: u64 = 1;
/// `si_code` of the trap after one instruction.
const TRAP_TRACE: u64 = 2;
/// `int 0x80`.
const LEGACY_CALL: [u8; 2] = [0xcd, 0x80];

/// The host's memory map does not allow an access of the program.
pub(crate) fn refused(thread: &Thread) {
    thread.count(Count::HostFaults);
    // A caught signal comes first; the program then meets its fault again.
    if thread.pending.load(Ordering::SeqCst) == 0 {
        step_natively(thread);
    }
}

/// An exception of the guest.
pub(crate) fn exception(thread: &Thread, vector: u8, code: u64) {
    match vector {
        PAGE_FAULT => page_fault(thread, code),
        DEBUG => trap(thread, TRAP_TRACE, vector),
        BREAKPOINT => {
            thread.count(Count::Exceptions);
            signals::deliver_kernel_fault(thread, libc::SIGTRAP, vector.into(), 0);
        }
        OVERFLOW => {
            thread.count(Count::Exceptions);
            signals::deliver_kernel_fault(thread, libc::SIGSEGV, vector.into(), 0);
        }
        _ => instruction_fault(thread),
    }
}

/// A page that the guest's tables do not have.
fn page_fault(thread: &Thread, code: u64) {
    let address = match kvm::special_registers(pool::fd_of(thread)) {
        Ok(special) => special.cr2,
        Err(failed) => fatal::end(failed.into()),
    };
    if code & PRESENT == 0 && address < USER_END {
        if ARENA.overlap(&(address..address + 1)).is_some() {
            thread.count(Count::Exceptions);
            return not_there(thread, code, address);
        }
        if sys::is_mapped(address) {
            match MACHINE.cover(&(address..address + 1)) {
                Ok(Filled::Added) => return thread.count(Count::GuestFaults),
                Ok(Filled::Nothing) => {}
                Err(error) => fatal::end(error),
            }
        }
    }
    instruction_fault(thread);
}

/// A fault at an instruction that has not been executed.
fn instruction_fault(thread: &Thread) {
    thread.count(Count::Exceptions);
    if thread.pending.load(Ordering::SeqCst) != 0 {
        return;
    }
    let mut code = [0; 2];
    user::read_some(thread.process(), thread.registers.get().rip, &mut code);
    if code == LEGACY_CALL {
        counters::shared().refuse(UnsupportedKind::LegacyCall, thread.registers.get().rax);
        return signals::deliver_kernel_fault(thread, libc::SIGSEGV, 13, 0x402);
    }
    step_natively(thread);
}

/// A trap: its instruction is over.
fn trap(thread: &Thread, code: u64, vector: u8) {
    thread.count(Count::Exceptions);
    let mut info = [0; 16];
    let signal = libc::SIGTRAP.cast_unsigned();
    (info[0], info[1], info[2]) = (signal.into(), code, thread.registers.get().rip);
    let trap = vector.into();
    signals::deliver_fault(thread, Delivery { signal, info, trap, error: 0, address: 0, mask: 0, during: 0 });
}

/// An access to memory that only the runner has.
fn not_there(thread: &Thread, code: u64, address: u64) {
    let mut info = [0; 16];
    let signal = libc::SIGSEGV.cast_unsigned();
    (info[0], info[1], info[2]) = (signal.into(), SEGV_MAPERR, address);
    let (trap, error) = (PAGE_FAULT.into(), code | USER);
    signals::deliver_fault(thread, Delivery { signal, info, trap, error, address, mask: 0, during: 0 });
}

/// An `in` or `out` of the program's own, which natively is a fault. The virtual processor stands behind it.
pub(crate) fn foreign_port(thread: &Thread) {
    thread.count(Count::Exceptions);
    let rip = thread.registers.get().rip;
    let mut code = [0; 2];
    user::read_some(thread.process(), rip.wrapping_sub(2), &mut code);
    let length = if matches!(code, [0xe4..=0xe7, _]) { 2 } else { 1 };
    thread.change(|registers| registers.rip = rip.wrapping_sub(length));
    step_natively(thread);
}

/// Executes the program's next instruction natively. Its registers go on behind it, or the signal that it causes is on its
/// way to the program. Signals must not be pending. It is counted: no other code of the program is executed natively.
fn step_natively(thread: &Thread) {
    thread.count(Count::NativeSteps);
    let mask = signals::take_mask(thread);
    if let Err(error) = pool::save(thread) {
        fatal::end(error);
    }
    step::execute(thread);
    let stepping = &thread.stepping;
    let signal = stepping.signal.load(Ordering::Relaxed);
    let mut info = [0; 16];
    info.iter_mut().zip(&stepping.info).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    signals::give_mask(thread, mask);
    if signal == libc::SIGTRAP.cast_unsigned() && info[1] & u64::from(u32::MAX) == TRAP_TRACE {
        return go_on(thread);
    }
    let [trap, error, address] =
        [&stepping.trap, &stepping.error, &stepping.address].map(|word| word.load(Ordering::Relaxed));
    signals::deliver_fault(thread, Delivery { signal, info, trap, error, address, mask: 0, during: 0 });
}

/// The instruction was executed: its results are the program's.
fn go_on(thread: &Thread) {
    step::take_registers(thread);
    // SAFETY: the calling thread is the record's own.
    let saved = unsafe { thread.saved() };
    if let Err(failed) = kvm::set_extended_state(pool::fd_of(thread), &saved.extended) {
        fatal::end(failed.into());
    }
}
