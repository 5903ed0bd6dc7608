//! One instruction of the program, executed natively, to learn which signal it causes.
//!
//! Where the host's memory map refuses an access of the guest, KVM reports that it failed and, depending on the back end
//! and the kernel, neither the address nor the kind. An exception of the guest names its number and not the code that a
//! handler is told. Both are known to the kernel when the same instruction, at the same address and with the same
//! registers, fails in this process outside of the guest: memory is the same, so the fault is. The thread goes there by
//! `rt_sigreturn` with the trap flag set, and comes back by the signal that the instruction causes, or by the trap after it.
//!
//! It comes back by the trap where another thread has made the access possible meanwhile; then the instruction has been
//! executed, and its results are the program's. When a step is made, and what becomes of its signal, is in `faults`.

use crate::runner::frame::{self, Context, Places, WORDS};
use crate::runner::machine::MACHINE;
use crate::runner::sys::{self, ALL_SIGNALS, bit};
use crate::runner::thread::Thread;
use std::arch::global_asm;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

// Leaves by `rt_sigreturn` to the frame at RDI, after the stack pointer went to [RSI]; comes back at `resume` on that stack.
global_asm!(
    ".globl baremark_guest_step",
    ".globl baremark_guest_step_resume",
    "baremark_guest_step:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "stmxcsr [rsp]",
    "fnstcw [rsp + 4]",
    "mov [rsi], rsp",
    "lea rsp, [rdi + 8]",
    "mov eax, 15",
    "syscall",
    "ud2",
    "baremark_guest_step_resume:",
    "fninit",
    "fldcw [rsp + 4]",
    "ldmxcsr [rsp]",
    "cld",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
);

unsafe extern "C" {
    fn baremark_guest_step(frame: u64, stack: *const AtomicU64);
    fn baremark_guest_step_resume();
}

const TRAP_FLAG: u64 = 0x100;
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
/// The word of a frame's context where the registers begin, counted from the context.
const REGISTERS: usize = 18;

/// The host's thread pointer, which all threads share.
static HOST_FS: AtomicU64 = AtomicU64::new(0);

/// Memory of a frame on the host's stack.
#[repr(C, align(64))]
struct Room([u8; 6144]);

/// Notes the host's thread pointer; once, at the start.
pub(crate) fn start() {
    let mut fs = 0u64;
    // SAFETY: the kernel writes one word.
    unsafe { sys::raw(libc::SYS_arch_prctl, [ARCH_GET_FS, (&raw mut fs) as u64, 0, 0, 0, 0]) };
    HOST_FS.store(fs, Ordering::Relaxed);
}

/// Goes there and comes back; `thread.stepping` has the signal by which, and the registers. All signals must be blocked, and the
/// record's saved state that of the virtual processor.
pub(crate) fn execute(thread: &Thread) {
    let mut room = Room([0; 6144]);
    let room_end = (&raw mut room) as u64 + size_of::<Room>() as u64;
    let bytes = MACHINE.extended_bytes();
    let Places { state, frame } = frame::places(room_end, bytes);
    let mut registers = thread.registers.get();
    registers.rflags |= TRAP_FLAG;
    let faults = [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV];
    let faults = faults.iter().fold(0, |mask, signal| mask | bit(signal.cast_unsigned()));
    let mask = ALL_SIGNALS & !faults;
    let context = Context { registers, error: 0, trap: 0, address: 0, mask, stack: thread.host_stack() };
    // SAFETY: the calling thread is the record's own.
    let saved = unsafe { thread.saved() };
    let extended = frame::state(&saved.extended, bytes, MACHINE.xcr0.load(Ordering::Relaxed));
    let words = frame::words(&context, state, 0, &[0; 16]);
    // SAFETY: both places lie inside `room`: a frame and its state take less than 440 + 4096 + 4 bytes and their alignment.
    unsafe {
        let bytes = bytes + 4;
        ptr::with_exposed_provenance_mut::<u8>(state as usize).copy_from_nonoverlapping(extended.as_ptr(), bytes);
        ptr::with_exposed_provenance_mut::<[u64; WORDS]>(frame as usize).write_unaligned(words);
    }
    set_bases(saved.fs, saved.gs);
    // SAFETY: the kernel takes the frame that was just written; the program's instruction is one that could not be executed
    // in the guest, and acts on memory as it would have done there. It comes back through `finish`, on this stack.
    unsafe { baremark_guest_step(frame, &raw const thread.stepping.stack) };
}

/// Called by the signal handler: notes what has happened and lets it return to the runner.
pub(crate) fn finish(thread: &Thread, signal: u32, info: &[u64; 16], context: &mut libc::ucontext_t) {
    set_bases(HOST_FS.load(Ordering::Relaxed), 0);
    let stepping = &thread.stepping;
    let registers = &mut context.uc_mcontext.gregs;
    stepping.registers.iter().zip(registers.iter()).take(REGISTERS).for_each(|(to, from)| {
        to.store(from.cast_unsigned(), Ordering::Relaxed);
    });
    let word = |at: i32| registers[at as usize].cast_unsigned();
    stepping.error.store(word(libc::REG_ERR), Ordering::Relaxed);
    stepping.trap.store(word(libc::REG_TRAPNO), Ordering::Relaxed);
    stepping.address.store(word(libc::REG_CR2), Ordering::Relaxed);
    stepping.signal.store(signal, Ordering::Relaxed);
    stepping.info.iter().zip(info).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
    let state: *const frame::State = context.uc_mcontext.fpregs.cast();
    if !state.is_null() {
        // SAFETY: the calling thread is the record's own, and `execute` does not use its reference while this runs.
        let saved = unsafe { thread.saved() };
        let bytes = MACHINE.extended_bytes();
        // SAFETY: the kernel has written as much extended state behind this pointer, and the word after it, on this stack.
        let extended = unsafe { ptr::read(state) };
        frame::restore(&extended, bytes, &mut saved.extended);
    }
    registers[libc::REG_RSP as usize] = stepping.stack.swap(0, Ordering::Relaxed).cast_signed();
    registers[libc::REG_RIP as usize] = baremark_guest_step_resume as *const () as i64;
    registers[libc::REG_EFL as usize] &= !(TRAP_FLAG.cast_signed());
    let mask: *mut u64 = (&raw mut context.uc_sigmask).cast();
    // SAFETY: the kernel's mask is the first eight bytes of libc's.
    unsafe { mask.write(ALL_SIGNALS) };
}

/// The registers afterwards are the program's, where its instruction was executed.
pub(crate) fn take_registers(thread: &Thread) {
    let mut words = [0; REGISTERS];
    words.iter_mut().zip(&thread.stepping.registers).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    let mut registers = frame::registers_of(&words);
    registers.rflags &= !TRAP_FLAG;
    thread.registers.set(registers);
}

/// The host thread's FS and GS bases.
fn set_bases(fs: u64, gs: u64) {
    // SAFETY: nothing between the two calls of this function uses thread-local storage but the program's instruction.
    unsafe {
        sys::raw(libc::SYS_arch_prctl, [ARCH_SET_FS, fs, 0, 0, 0, 0]);
        sys::raw(libc::SYS_arch_prctl, [ARCH_SET_GS, gs, 0, 0, 0, 0]);
    }
}
