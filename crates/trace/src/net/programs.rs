//! The four programs of [`super::NetTrace`].
//!
//! In each, R6 is the context with the event's arguments and R8 the interface's entry, once that was found.

use super::maps::{ENTRY_HISTOGRAMS, ENTRY_NAMESPACE, ENTRY_SUMS, Maps};
use crate::assembler::{Assembler, If, Label, Op, Reg, Size};
use crate::btf::Btf;
use crate::error::TraceError;
use crate::histogram::BINS;

/// Numbers of sums.
const RECEIVED: usize = 0;
const RECEIVED_BYTES: usize = 1;
const MERGED: usize = 2;
const SENT: usize = 3;
const SENT_BYTES: usize = 4;
const REFUSED: usize = 5;
const POLLS: usize = 6;
const FULL_POLLS: usize = 7;
/// Numbers of histograms.
const RECEIVED_SIZE: usize = 0;
const SENT_SIZE: usize = 1;
const POLL: usize = 2;

/// Places in the frame, all below R10.
const KEY: i16 = -16;
const POINTER: i16 = -24;
const INDEX: i16 = -32;
const NAME: i16 = -48;
const REASON: i16 = -56;

/// Places in the kernel's structures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    packet_device: i32,
    packet_bytes: i32,
    packet_head: i32,
    packet_end: i32,
    segments: i32,
    poll_device: i32,
    number: i32,
    name: i32,
    namespace: i32,
    namespace_number: i32,
}

impl Fields {
    /// Those of a kernel.
    pub(super) fn of(btf: &Btf) -> Result<Self, TraceError> {
        Ok(Fields {
            packet_device: btf.place("sk_buff", "dev")?,
            packet_bytes: btf.place("sk_buff", "len")?,
            packet_head: btf.place("sk_buff", "head")?,
            packet_end: btf.place("sk_buff", "end")?,
            segments: btf.place("skb_shared_info", "gso_segs")?,
            poll_device: btf.place("napi_struct", "dev")?,
            number: btf.place("net_device", "ifindex")?,
            name: btf.place("net_device", "name")?,
            // `nd_net` is a structure with the pointer as its only member.
            namespace: btf.place("net_device", "nd_net")?,
            namespace_number: btf.place("net", "ns")? + btf.place("ns_common", "inum")?,
        })
    }
}

fn sum(number: usize) -> i16 {
    i16::try_from(ENTRY_SUMS + 8 * number).unwrap_or(i16::MAX)
}

/// `R8.sum += value`.
fn add(code: &mut Assembler, number: usize, value: Reg) {
    code.atomic_add(Reg::R8, sum(number), value);
}

fn count(code: &mut Assembler, number: usize) {
    code.set(Reg::R1, 1);
    add(code, number, Reg::R1);
}

/// Adds `value`, which is destroyed with R0, R1, R4 and R5, to a histogram of the entry.
fn fill(code: &mut Assembler, histogram: usize, value: Reg) {
    code.bin(Reg::R4, value, Reg::R5);
    code.op(Op::ShiftLeft, Reg::R4, 3);
    code.op_reg(Op::Add, Reg::R4, Reg::R8);
    code.set(Reg::R1, 1);
    let at = i16::try_from(ENTRY_HISTOGRAMS + histogram * BINS * 8).unwrap_or(i16::MAX);
    code.atomic_add(Reg::R4, at, Reg::R1);
}

/// R3 + `offset` in the kernel's memory: `bytes` into the frame at `to`; to `fail` where it cannot be read.
fn read(code: &mut Assembler, offset: i32, to: i16, bytes: i32, fail: Label) {
    code.op(Op::Add, Reg::R3, offset);
    code.read_kernel(to, bytes);
    code.jump_if(If::NotEqual, Reg::R0, 0, fail);
}

/// R8 = the entry of the interface at R3, made where there is none. Destroys R7.
fn entry(code: &mut Assembler, fields: &Fields, maps: &Maps, fail: Label) {
    let (known, unnamed) = (code.label(), code.label());
    code.copy(Reg::R7, Reg::R3);
    code.store(Size::Double, Reg::R10, KEY, Reg::R7);
    code.store_immediate(Size::Double, Reg::R10, KEY + 8, 0);
    read(code, fields.number, KEY + 8, 4, fail);
    code.lookup(maps.interfaces.number(), KEY);
    code.jump_if(If::NotEqual, Reg::R0, 0, known);
    code.lookup_or_make(INDEX, maps.interfaces.number(), maps.interface_template.number(), KEY);
    code.jump_if(If::Equal, Reg::R0, 0, fail);
    code.copy(Reg::R8, Reg::R0);
    code.copy(Reg::R3, Reg::R7);
    read(code, fields.name, NAME, 16, fail);
    for part in [0, 8] {
        code.load(Size::Double, Reg::R1, Reg::R10, NAME + part);
        code.store(Size::Double, Reg::R8, part, Reg::R1);
    }
    code.copy(Reg::R3, Reg::R7);
    code.follow(POINTER, fields.namespace, unnamed);
    read(code, fields.namespace_number, POINTER, 4, unnamed);
    code.load(Size::Word, Reg::R1, Reg::R10, POINTER);
    code.store(Size::Double, Reg::R8, i16::try_from(ENTRY_NAMESPACE).unwrap_or(0), Reg::R1);
    code.place(unnamed);
    code.copy(Reg::R0, Reg::R8);
    code.place(known);
    code.copy(Reg::R8, Reg::R0);
}

/// `netif_receive_skb(skb)`: the stack takes a packet.
pub(super) fn receive(fields: &Fields, maps: &Maps) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let leave = code.label();
    code.copy(Reg::R6, Reg::R1);
    code.load(Size::Double, Reg::R9, Reg::R6, 0);
    code.copy(Reg::R3, Reg::R9);
    code.follow(POINTER, fields.packet_device, leave);
    entry(&mut code, fields, maps, leave);
    count(&mut code, RECEIVED);
    code.copy(Reg::R3, Reg::R9);
    read(&mut code, fields.packet_bytes, POINTER, 4, leave);
    code.load(Size::Word, Reg::R2, Reg::R10, POINTER);
    add(&mut code, RECEIVED_BYTES, Reg::R2);
    fill(&mut code, RECEIVED_SIZE, Reg::R2);
    // The number of segments lies behind the packet's data.
    code.copy(Reg::R3, Reg::R9);
    read(&mut code, fields.packet_end, INDEX, 4, leave);
    code.copy(Reg::R3, Reg::R9);
    code.follow(POINTER, fields.packet_head, leave);
    code.load(Size::Word, Reg::R1, Reg::R10, INDEX);
    code.op_reg(Op::Add, Reg::R3, Reg::R1);
    read(&mut code, fields.segments, POINTER, 2, leave);
    code.load(Size::Half, Reg::R1, Reg::R10, POINTER);
    code.jump_if(If::AtMost, Reg::R1, 1, leave);
    code.op(Op::Sub, Reg::R1, 1);
    add(&mut code, MERGED, Reg::R1);
    code.place(leave);
    code.exit();
    code.finish()
}

/// `net_dev_xmit(skb, rc, dev, bytes)`: the driver was given a packet.
pub(super) fn send(fields: &Fields, maps: &Maps) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let (leave, refused) = (code.label(), code.label());
    code.copy(Reg::R6, Reg::R1);
    code.load(Size::Double, Reg::R3, Reg::R6, 16);
    entry(&mut code, fields, maps, leave);
    code.load(Size::Double, Reg::R1, Reg::R6, 8);
    // NETDEV_TX_BUSY: it is tried again.
    code.op(Op::And, Reg::R1, 0x10);
    code.jump_if(If::NotEqual, Reg::R1, 0, refused);
    count(&mut code, SENT);
    code.load(Size::Double, Reg::R2, Reg::R6, 24);
    code.op(Op::ShiftLeft, Reg::R2, 32);
    code.op(Op::ShiftRight, Reg::R2, 32);
    add(&mut code, SENT_BYTES, Reg::R2);
    fill(&mut code, SENT_SIZE, Reg::R2);
    code.jump(leave);
    code.place(refused);
    count(&mut code, REFUSED);
    code.place(leave);
    code.exit();
    code.finish()
}

/// `napi_poll(napi, work, budget)`: a driver was polled.
pub(super) fn poll(fields: &Fields, maps: &Maps) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let (leave, not_full, no_device, known) = (code.label(), code.label(), code.label(), code.label());
    code.copy(Reg::R6, Reg::R1);
    code.load(Size::Double, Reg::R3, Reg::R6, 0);
    code.follow(POINTER, fields.poll_device, no_device);
    entry(&mut code, fields, maps, leave);
    code.jump(known);
    code.place(no_device);
    code.store_immediate(Size::Double, Reg::R10, KEY, 0);
    code.store_immediate(Size::Double, Reg::R10, KEY + 8, 0);
    code.lookup_or_make(INDEX, maps.interfaces.number(), maps.interface_template.number(), KEY);
    code.jump_if(If::Equal, Reg::R0, 0, leave);
    code.copy(Reg::R8, Reg::R0);
    code.place(known);
    count(&mut code, POLLS);
    code.load(Size::Double, Reg::R2, Reg::R6, 8);
    code.load(Size::Double, Reg::R1, Reg::R6, 16);
    for register in [Reg::R1, Reg::R2] {
        code.op(Op::ShiftLeft, register, 32);
        code.op(Op::ShiftRight, register, 32);
    }
    code.jump_if_reg(If::Less, Reg::R2, Reg::R1, not_full);
    code.set(Reg::R3, 1);
    add(&mut code, FULL_POLLS, Reg::R3);
    code.place(not_full);
    fill(&mut code, POLL, Reg::R2);
    code.place(leave);
    code.exit();
    code.finish()
}

/// `kfree_skb(skb, location, reason, ..)`: a packet is dropped.
pub(super) fn drop_packet(maps: &Maps) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let leave = code.label();
    code.load(Size::Double, Reg::R1, Reg::R1, 16);
    code.store(Size::Word, Reg::R10, REASON, Reg::R1);
    code.lookup_or_make(INDEX, maps.reasons.number(), maps.reason_template.number(), REASON);
    code.jump_if(If::Equal, Reg::R0, 0, leave);
    code.set(Reg::R1, 1);
    code.atomic_add(Reg::R0, 0, Reg::R1);
    code.place(leave);
    code.exit();
    code.finish()
}
