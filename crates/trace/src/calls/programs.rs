//! The two programs of [`super::CallTrace`].

use super::maps::{Maps, NUMBERS};
use crate::assembler::{Assembler, Helper, If, Op, Reg, Size};
use baremark_sys::paging::EMPTY_CALL;

/// Places in the frame, all below R10.
const PROCESS: i16 = -4;
const INDEX: i16 = -8;
const NUMBER: i16 = -12;
const CHILD: i16 = -16;
const MEMBER: i16 = -24;
const ARGUMENT: i16 = -32;

/// `BPF_NOEXIST`: a thread of the chosen process makes it no descendant of itself.
const NO_EXIST: i32 = 1;

/// The number of the current process into the frame at [`PROCESS`]. Destroys R0 to R5.
fn current(code: &mut Assembler) {
    code.call(Helper::GetCurrentPidTgid);
    code.op(Op::ShiftRight, Reg::R0, 32);
    code.store(Size::Word, Reg::R10, PROCESS, Reg::R0);
}

/// At the entry of a system call: notes who calls `getppid` with this argument, and counts all calls of descendants by number. `register` is the place of the
/// first argument among the registers.
pub(super) fn enter(maps: &Maps, register: i32, argument: u32) -> Option<Vec<u64>> {
    let (mark, argument) = (i32::try_from(EMPTY_CALL).ok()?, i32::try_from(argument).ok()?);
    let mut code = Assembler::default();
    let (other, known, end) = (code.label(), code.label(), code.label());
    code.load(Size::Double, Reg::R6, Reg::R1, 0);
    code.load(Size::Double, Reg::R7, Reg::R1, 8);
    current(&mut code);
    code.jump_if(If::NotEqual, Reg::R7, mark, other);
    code.copy(Reg::R3, Reg::R6);
    code.op(Op::Add, Reg::R3, register);
    code.read_kernel(ARGUMENT, 8);
    code.jump_if(If::NotEqual, Reg::R0, 0, other);
    code.load(Size::Double, Reg::R1, Reg::R10, ARGUMENT);
    code.jump_if(If::NotEqual, Reg::R1, argument, other);
    code.lookup_or_make(INDEX, maps.marks.number(), maps.zero.number(), PROCESS);
    code.place(other);
    code.lookup(maps.members.number(), PROCESS);
    code.jump_if(If::Equal, Reg::R0, 0, end);
    code.load(Size::Double, Reg::R1, Reg::R0, 0);
    code.jump_if(If::Equal, Reg::R1, 0, end);
    let last = i32::try_from(NUMBERS - 1).unwrap_or(i32::MAX);
    code.jump_if(If::AtMost, Reg::R7, last, known);
    code.set(Reg::R7, last);
    code.place(known);
    code.store(Size::Word, Reg::R10, NUMBER, Reg::R7);
    code.lookup(maps.calls.number(), NUMBER);
    code.jump_if(If::Equal, Reg::R0, 0, end);
    code.set(Reg::R1, 1);
    code.atomic_add(Reg::R0, 0, Reg::R1);
    code.place(end);
    code.exit();
    code.finish()
}

/// Where a process or thread is made: what is made by the chosen process or a descendant is a descendant. `group` is the place of a task's process number.
pub(super) fn fork(maps: &Maps, group: i32) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let end = code.label();
    code.load(Size::Double, Reg::R6, Reg::R1, 8);
    current(&mut code);
    code.lookup(maps.members.number(), PROCESS);
    code.jump_if(If::Equal, Reg::R0, 0, end);
    code.copy(Reg::R3, Reg::R6);
    code.op(Op::Add, Reg::R3, group);
    code.read_kernel(CHILD, 4);
    code.jump_if(If::NotEqual, Reg::R0, 0, end);
    code.store_immediate(Size::Double, Reg::R10, MEMBER, 1);
    code.map(Reg::R1, maps.members.number());
    code.frame(Reg::R2, CHILD);
    code.frame(Reg::R3, MEMBER);
    code.set(Reg::R4, NO_EXIST);
    code.call(Helper::MapUpdate);
    code.place(end);
    code.exit();
    code.finish()
}
