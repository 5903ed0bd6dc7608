//! An assembler for the kernel's small programs: instructions, labels, and the few sequences that ours share.
//!
//! The instruction set is the kernel's (Documentation/bpf/standardization/instruction-set.rst). Programs are written here so that
//! building baremark needs no compiler for them and running it neither: what differs between kernels is the offset of a field, which
//! is a number like any other when a program is made.

use std::collections::HashMap;

/// A register: R0 holds results, R1 to R5 arguments, which calls destroy; R6 to R9 are kept; R10 is the frame's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "numbers")]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How many bytes are loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// One.
    Byte,
    /// Two.
    Half,
    /// Four.
    Word,
    /// Eight.
    Double,
}

impl Size {
    fn code(self) -> u8 {
        match self {
            Size::Word => 0x00,
            Size::Half => 0x08,
            Size::Byte => 0x10,
            Size::Double => 0x18,
        }
    }
}

/// What is computed in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the instruction set's own names")]
pub enum Op {
    Add,
    Sub,
    Mul,
    Or,
    And,
    ShiftLeft,
    ShiftRight,
    Move,
}

impl Op {
    fn code(self) -> u8 {
        match self {
            Op::Add => 0x00,
            Op::Sub => 0x10,
            Op::Mul => 0x20,
            Op::Or => 0x40,
            Op::And => 0x50,
            Op::ShiftLeft => 0x60,
            Op::ShiftRight => 0x70,
            Op::Move => 0xb0,
        }
    }
}

/// When a jump is taken: unsigned comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the instruction set's own names")]
pub enum If {
    Equal,
    NotEqual,
    Greater,
    AtLeast,
    Less,
    AtMost,
    AnyBit,
}

impl If {
    fn code(self) -> u8 {
        match self {
            If::Equal => 0x10,
            If::Greater => 0x20,
            If::AtLeast => 0x30,
            If::AnyBit => 0x40,
            If::NotEqual => 0x50,
            If::Less => 0xa0,
            If::AtMost => 0xb0,
        }
    }
}

/// A function of the kernel's, by its number in `enum bpf_func_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kernel's own names")]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    KtimeGetNs = 5,
    GetCurrentPidTgid = 14,
    GetCurrentTask = 35,
    ProbeReadKernel = 113,
    ProbeReadKernelStr = 115,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(usize);

/// A program that is being written.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<u64>,
    labels: usize,
    places: HashMap<Label, usize>,
    jumps: Vec<(usize, Label)>,
}

const JUMP: u8 = 0x05;
const ALU64: u8 = 0x07;
const FROM_REGISTER: u8 = 0x08;
/// The second register of a wide load that names a map.
const PSEUDO_MAP: u8 = 1;
const FETCH: i32 = 1;
/// `BPF_NOEXIST`: only where there is none.
const NO_EXIST: i32 = 1;
const EXCHANGE: i32 = 0xe1;

impl Assembler {
    fn put(&mut self, op: u8, dst: u8, src: u8, offset: i16, immediate: i32) {
        let [lo, hi] = offset.to_le_bytes();
        let [a, b, c, d] = immediate.to_le_bytes();
        self.code.push(u64::from_le_bytes([op, dst | src << 4, lo, hi, a, b, c, d]));
    }

    /// `dst = dst OP immediate`.
    pub fn op(&mut self, op: Op, dst: Reg, immediate: i32) {
        self.put(ALU64 | op.code(), dst as u8, 0, 0, immediate);
    }

    /// `dst = dst OP src`.
    pub fn op_reg(&mut self, op: Op, dst: Reg, src: Reg) {
        self.put(ALU64 | op.code() | FROM_REGISTER, dst as u8, src as u8, 0, 0);
    }

    /// `dst = src`.
    pub fn copy(&mut self, dst: Reg, src: Reg) {
        self.op_reg(Op::Move, dst, src);
    }

    /// `dst = immediate`, the sign extended.
    pub fn set(&mut self, dst: Reg, immediate: i32) {
        self.op(Op::Move, dst, immediate);
    }

    /// `dst` = the address of `R10 + offset`, a place in the frame.
    pub fn frame(&mut self, dst: Reg, offset: i16) {
        self.copy(dst, Reg::R10);
        self.op(Op::Add, dst, offset.into());
    }

    /// `dst = *(src + offset)`.
    pub fn load(&mut self, size: Size, dst: Reg, src: Reg, offset: i16) {
        self.put(0x61 | size.code(), dst as u8, src as u8, offset, 0);
    }

    /// `*(dst + offset) = src`.
    pub fn store(&mut self, size: Size, dst: Reg, offset: i16, src: Reg) {
        self.put(0x63 | size.code(), dst as u8, src as u8, offset, 0);
    }

    /// `*(dst + offset) = immediate`.
    pub fn store_immediate(&mut self, size: Size, dst: Reg, offset: i16, immediate: i32) {
        self.put(0x62 | size.code(), dst as u8, 0, offset, immediate);
    }

    /// `*(dst + offset) += src`, eight bytes, at once for all CPUs.
    pub fn atomic_add(&mut self, dst: Reg, offset: i16, src: Reg) {
        self.put(0xdb, dst as u8, src as u8, offset, 0);
    }

    /// As [`Assembler::atomic_add`]; `src` is then what was there before.
    pub fn atomic_fetch_add(&mut self, dst: Reg, offset: i16, src: Reg) {
        self.put(0xdb, dst as u8, src as u8, offset, FETCH);
    }

    /// Exchanges eight bytes at `dst + offset` with `src`.
    pub fn atomic_exchange(&mut self, dst: Reg, offset: i16, src: Reg) {
        self.put(0xdb, dst as u8, src as u8, offset, EXCHANGE);
    }

    /// `dst` = the map with that descriptor.
    pub fn map(&mut self, dst: Reg, descriptor: i32) {
        self.put(0x18, dst as u8, PSEUDO_MAP, 0, descriptor);
        self.put(0, 0, 0, 0, 0);
    }

    /// Calls the kernel's function: arguments in R1 to R5, result in R0.
    pub fn call(&mut self, helper: Helper) {
        self.put(0x85, 0, 0, 0, helper as i32);
    }

    /// Ends the program with the result 0.
    pub fn exit(&mut self) {
        self.set(Reg::R0, 0);
        self.put(0x95, 0, 0, 0, 0);
    }

    /// A label, to be placed once.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    /// The label is here.
    pub fn place(&mut self, label: Label) {
        self.places.insert(label, self.code.len());
    }

    /// Jumps where `left IF immediate` holds.
    pub fn jump_if(&mut self, condition: If, left: Reg, immediate: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(JUMP | condition.code(), left as u8, 0, 0, immediate);
    }

    /// Jumps where `left IF right` holds.
    pub fn jump_if_reg(&mut self, condition: If, left: Reg, right: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(JUMP | condition.code() | FROM_REGISTER, left as u8, right as u8, 0, 0);
    }

    /// Jumps.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(JUMP, 0, 0, 0, 0);
    }

    /// The program's instructions; `None` where a label was not placed or is too far.
    #[must_use]
    pub fn finish(mut self) -> Option<Vec<u64>> {
        for (at, label) in &self.jumps {
            let to = i64::try_from(*self.places.get(label)?).ok()?;
            let distance = i16::try_from(to - i64::try_from(*at).ok()? - 1).ok()?;
            self.code[*at] |= u64::from(u16::from_le_bytes(distance.to_le_bytes())) << 16;
        }
        Some(self.code)
    }

    /// Reads `bytes` of the kernel's memory at `R3` into the frame at `to`; R0 is 0 where it could be read. Destroys R1 to R5.
    pub fn read_kernel(&mut self, to: i16, bytes: i32) {
        self.frame(Reg::R1, to);
        self.set(Reg::R2, bytes);
        self.call(Helper::ProbeReadKernel);
    }

    /// R0 = the address of the value in `map` whose key is in the frame at `key`, or 0. Destroys R1 to R5.
    pub fn lookup(&mut self, map: i32, key: i16) {
        self.map(Reg::R1, map);
        self.frame(Reg::R2, key);
        self.call(Helper::MapLookup);
    }

    /// R0 = as by [`Assembler::lookup`]; where there is no value, one is made from the only element of `template`. 0 where the map is full.
    /// The frame's four bytes at `index` and R1 to R5 are destroyed.
    pub fn lookup_or_make(&mut self, index: i16, map: i32, template: i32, key: i16) {
        let there = self.label();
        self.lookup(map, key);
        self.jump_if(If::NotEqual, Reg::R0, 0, there);
        self.store_immediate(Size::Word, Reg::R10, index, 0);
        self.lookup(template, index);
        self.jump_if(If::Equal, Reg::R0, 0, there);
        self.copy(Reg::R3, Reg::R0);
        self.map(Reg::R1, map);
        self.frame(Reg::R2, key);
        self.set(Reg::R4, NO_EXIST);
        self.call(Helper::MapUpdate);
        self.lookup(map, key);
        self.place(there);
    }

    /// R3 = the pointer in the kernel's memory at `R3 + offset`, by way of the frame's eight bytes at `to`; jumps to `fail` where it cannot be
    /// read or is null. Destroys R0 to R5.
    pub fn follow(&mut self, to: i16, offset: i32, fail: Label) {
        self.op(Op::Add, Reg::R3, offset);
        self.read_kernel(to, 8);
        self.jump_if(If::NotEqual, Reg::R0, 0, fail);
        self.load(Size::Double, Reg::R3, Reg::R10, to);
        self.jump_if(If::Equal, Reg::R3, 0, fail);
    }

    /// `index` = the bin of `value` ([`crate::histogram::bin`]), below [`crate::histogram::BINS`]. Destroys `value` and `work`.
    pub fn bin(&mut self, index: Reg, value: Reg, work: Reg) {
        let (small, end) = (self.label(), self.label());
        self.jump_if(If::Less, value, 4, small);
        // The number of the highest bit, by halving.
        self.copy(work, value);
        self.set(index, 0);
        for shift in [32, 16, 8, 4, 2, 1] {
            let below = self.label();
            // A comparison takes an immediate of 32 bits whose sign is extended, so that the upper half is looked at by shifting.
            self.copy(Reg::R0, work);
            self.op(Op::ShiftRight, Reg::R0, shift);
            self.jump_if(If::Equal, Reg::R0, 0, below);
            self.copy(work, Reg::R0);
            self.op(Op::Add, index, shift);
            self.place(below);
        }
        // The two bits behind it, and four bins for each power of two.
        self.copy(Reg::R0, index);
        self.op(Op::Sub, Reg::R0, 2);
        self.op_reg(Op::ShiftRight, value, Reg::R0);
        self.op(Op::And, value, 3);
        self.op(Op::Sub, index, 1);
        self.op(Op::ShiftLeft, index, 2);
        self.op_reg(Op::Add, index, value);
        let last = i32::try_from(crate::histogram::BINS - 1).unwrap_or(i32::MAX);
        self.jump_if(If::AtMost, index, last, end);
        self.set(index, last);
        self.jump(end);
        self.place(small);
        self.copy(index, value);
        self.place(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_the_kernels() {
        let mut code = Assembler::default();
        let end = code.label();
        code.load(Size::Double, Reg::R1, Reg::R2, 8); // r1 = *(u64 *)(r2 + 8)
        code.jump_if(If::Equal, Reg::R1, 5, end);
        code.store(Size::Word, Reg::R10, -4, Reg::R1); // *(u32 *)(r10 - 4) = r1
        code.place(end);
        code.exit();
        let code = code.finish().expect("placed");
        assert_eq!(code, [0x8_21_79, 0x5_0001_0115, 0xfffc_1a63, 0xb7, 0x95]);
        let mut lost = Assembler::default();
        let nowhere = lost.label();
        lost.jump(nowhere);
        assert!(lost.finish().is_none());
    }
}
