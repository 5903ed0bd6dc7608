//! The four programs of [`super::DiskTrace`].
//!
//! In each, R6 is the request's address and the frame has its first bytes (`REQUEST`). Their tables are [`Maps`].
//! Counts that CPUs share are added to atomically. The last places of a device (for seeks) are not locked: two I/Os that are issued at
//! the same moment on two CPUs can each miss the other.

use super::maps::{BEGAN_BEFORE, ENTRY_HISTOGRAMS, Maps, NOT_KEPT, RING};
use crate::assembler::{Assembler, Helper, If, Op, Reg, Size};
use crate::btf::{Btf, BtfError};
use crate::error::TraceError;
use crate::histogram::BINS;
use crate::owner::{COMM_BYTES, GROUP_BYTES};

const DEVICE_OUTSTANDING: i16 = 0;
const DEVICE_ARRIVAL: i16 = 8;
const DEVICE_ISSUED: i16 = 16;
const DEVICE_END: i16 = 24;
const DEVICE_RING: i16 = 32;

const STATE_START: i16 = 0;
const STATE_ISSUE: i16 = 8;
const STATE_BYTES_AT: i16 = 16;
const STATE_KEY: i16 = 24;
const STATE_INTER_ARRIVAL: i16 = 40;
const STATE_OUTSTANDING: i16 = 48;
const STATE_SEEK_LAST: i16 = 56;
const STATE_SEEK_NEAR: i16 = 64;

/// Places in the frame, all below R10.
const STATE: i16 = -72;
const KEY: i16 = -88;
const ADDRESS: i16 = -96;
const DISK: i16 = -128;
const DISK_MOST: u32 = 32;
const REQUEST: i16 = -256;
const REQUEST_MOST: u32 = 128;
const OWNER: i16 = -464;
const INDEX: i16 = -472;

/// No such value, as of the distance to the last I/O of the first one.
const NONE: i32 = -1;
/// `REQ_OP_DRV_IN` and `REQ_OP_DRV_OUT`: commands of drivers, which are no I/O.
const DRIVER_OPS: [i32; 2] = [34, 35];
const OP_DISCARD: i32 = 3;

/// Places in the kernel's structures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    queue: i16,
    command: i16,
    flags: i16,
    bytes: i16,
    sector: i16,
    /// How much of a request has all of the above.
    request: i32,
    queue_disk: i32,
    major: i16,
    minor: i16,
    /// How much of a disk has both numbers.
    disk: i32,
    /// Bits of `rq_flags`.
    counted: i32,
    sequence: i32,
    /// In a task: its process's first thread, and its name.
    leader: i32,
    comm: i32,
    groups: Option<Groups>,
}

/// The way from a task to the names of its control groups.
#[derive(Clone, Copy, Debug)]
struct Groups {
    task: i32,
    v2: i32,
    /// The group of the pids controller: by its state.
    pids: Option<(i32, i32)>,
    node: i32,
    name: i32,
}

/// The fields' places and how many bytes have all of them, at most `most`.
fn reach<const N: usize>(
    btf: &Btf,
    structure: &str,
    fields: [(&'static str, u32); N],
    most: u32,
) -> Result<([i16; N], i32), TraceError> {
    let (mut places, mut end) = ([0; N], 0);
    for (place, (field, bytes)) in places.iter_mut().zip(fields) {
        let from = btf.offset(structure, field)?;
        end = end.max(from + bytes);
        *place = i16::try_from(from).ok().filter(|_| end <= most).ok_or(TraceError::Layout(field))?;
    }
    Ok((places, i32::try_from(end).unwrap_or(0)))
}

impl Fields {
    /// Those of a kernel.
    pub(super) fn of(btf: &Btf) -> Result<Self, TraceError> {
        let request = [("q", 8), ("cmd_flags", 4), ("rq_flags", 4), ("__data_len", 4), ("__sector", 8)];
        let ([queue, command, flags, bytes, sector], request) = reach(btf, "request", request, REQUEST_MOST)?;
        let ([major, minor], disk) = reach(btf, "gendisk", [("major", 4), ("first_minor", 4)], DISK_MOST)?;
        // Before Linux 6.12 these were macros, which no kernel describes: include/linux/blk-mq.h had bits 13 and 4.
        let bit = |name: &str, before: u64| 1_i32 << btf.constant(name).unwrap_or(before).min(30);
        Ok(Fields {
            queue,
            command,
            flags,
            bytes,
            sector,
            request,
            queue_disk: btf.place("request_queue", "disk")?,
            major,
            minor,
            disk,
            counted: bit("__RQF_IO_STAT", 13),
            sequence: bit("__RQF_FLUSH_SEQ", 4),
            leader: btf.place("task_struct", "group_leader")?,
            comm: btf.place("task_struct", "comm")?,
            groups: Groups::of(btf).ok(),
        })
    }
}

impl Groups {
    fn of(btf: &Btf) -> Result<Self, BtfError> {
        let pids = |number: u64| {
            let states = btf.place("css_set", "subsys").ok()?;
            let number = i32::try_from(number).ok()?;
            Some((states + 8 * number, btf.place("cgroup_subsys_state", "cgroup").ok()?))
        };
        Ok(Groups {
            task: btf.place("task_struct", "cgroups")?,
            v2: btf.place("css_set", "dfl_cgrp")?,
            pids: btf.constant("pids_cgrp_id").ok().and_then(pids),
            node: btf.place("cgroup", "kn")?,
            name: btf.place("kernfs_node", "name")?,
        })
    }
}

fn at(place: i16, field: i16) -> i16 {
    place + field
}

fn bytes(count: usize) -> i16 {
    i16::try_from(count).unwrap_or(i16::MAX)
}

/// Begins a program: R6 = the request, whose address is in the frame, too.
fn begin(code: &mut Assembler) {
    code.load(Size::Double, Reg::R6, Reg::R1, 0);
    code.store(Size::Double, Reg::R10, ADDRESS, Reg::R6);
}

/// Reads the request's first bytes into the frame; to `fail` where they cannot be read.
fn read_request(code: &mut Assembler, fields: &Fields, fail: crate::assembler::Label) {
    code.copy(Reg::R3, Reg::R6);
    code.read_kernel(REQUEST, fields.request);
    code.jump_if(If::NotEqual, Reg::R0, 0, fail);
}

/// Counts what is in no histogram.
fn count_missed(code: &mut Assembler, maps: &Maps, index: u32) {
    let none = code.label();
    code.store_immediate(Size::Word, Reg::R10, INDEX, i32::try_from(index).unwrap_or(0));
    code.lookup(maps.missed.number(), INDEX);
    code.jump_if(If::Equal, Reg::R0, 0, none);
    code.set(Reg::R1, 1);
    code.atomic_add(Reg::R0, 0, Reg::R1);
    code.place(none);
}

/// Writes the key of the request into the frame: device, process and direction. Needs the request's bytes.
fn make_key(code: &mut Assembler, fields: &Fields, fail: crate::assembler::Label) {
    let (discard, known) = (code.label(), code.label());
    code.load(Size::Word, Reg::R8, Reg::R10, at(REQUEST, fields.command));
    code.op(Op::And, Reg::R8, 0xff);
    for op in DRIVER_OPS {
        code.jump_if(If::Equal, Reg::R8, op, fail);
    }
    code.jump_if(If::Equal, Reg::R8, OP_DISCARD, discard);
    code.op(Op::And, Reg::R8, 1);
    code.jump(known);
    code.place(discard);
    code.set(Reg::R8, 2);
    code.place(known);
    code.store(Size::Word, Reg::R10, at(KEY, 8), Reg::R8);
    code.load(Size::Double, Reg::R3, Reg::R10, at(REQUEST, fields.queue));
    code.follow(DISK, fields.queue_disk, fail);
    code.read_kernel(DISK, fields.disk);
    code.jump_if(If::NotEqual, Reg::R0, 0, fail);
    code.load(Size::Word, Reg::R1, Reg::R10, at(DISK, fields.major));
    code.load(Size::Word, Reg::R2, Reg::R10, at(DISK, fields.minor));
    code.op(Op::ShiftLeft, Reg::R1, 20);
    code.op_reg(Op::Or, Reg::R1, Reg::R2);
    code.store(Size::Word, Reg::R10, KEY, Reg::R1);
    code.call(Helper::GetCurrentPidTgid);
    code.op(Op::ShiftRight, Reg::R0, 32);
    code.store(Size::Word, Reg::R10, at(KEY, 4), Reg::R0);
}

/// Records the current process and its control groups under its number, which is in the frame's key.
fn record_owner(code: &mut Assembler, fields: &Fields, maps: &Maps) {
    for word in 0..bytes(COMM_BYTES + 2 * GROUP_BYTES) / 8 {
        code.store_immediate(Size::Double, Reg::R10, OWNER + 8 * word, 0);
    }
    let unnamed = code.label();
    code.call(Helper::GetCurrentTask);
    code.copy(Reg::R3, Reg::R0);
    code.follow(DISK, fields.leader, unnamed);
    code.op(Op::Add, Reg::R3, fields.comm);
    code.read_kernel(OWNER, i32::try_from(COMM_BYTES).unwrap_or(0));
    code.place(unnamed);
    if let Some(groups) = fields.groups {
        let ways = [groups.pids.map(|(state, group)| vec![state, group]), Some(vec![groups.v2])];
        for (number, way) in ways.into_iter().enumerate() {
            let Some(way) = way else { continue };
            let none = code.label();
            code.call(Helper::GetCurrentTask);
            code.copy(Reg::R3, Reg::R0);
            for step in [groups.task].into_iter().chain(way).chain([groups.node, groups.name]) {
                code.follow(DISK, step, none);
            }
            let size = i32::try_from(GROUP_BYTES).unwrap_or(0);
            code.frame(Reg::R1, OWNER + bytes(COMM_BYTES + number * GROUP_BYTES));
            code.set(Reg::R2, size);
            code.call(Helper::ProbeReadKernelStr);
            code.place(none);
        }
    }
    code.map(Reg::R1, maps.owners.number());
    code.frame(Reg::R2, at(KEY, 4));
    code.frame(Reg::R3, OWNER);
    code.set(Reg::R4, 0);
    code.call(Helper::MapUpdate);
}

/// `block_io_start`: the request is made.
pub(super) fn start(fields: &Fields, maps: &Maps) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let (leave, full) = (code.label(), code.label());
    begin(&mut code);
    read_request(&mut code, fields, leave);
    make_key(&mut code, fields, leave);
    // The owner of a new entry.
    let known = code.label();
    code.lookup(maps.entries.number(), KEY);
    code.jump_if(If::NotEqual, Reg::R0, 0, known);
    record_owner(&mut code, fields, maps);
    code.lookup_or_make(INDEX, maps.entries.number(), maps.entry_template.number(), KEY);
    code.place(known);
    code.lookup_or_make(INDEX, maps.devices.number(), maps.device_template.number(), KEY);
    code.jump_if(If::Equal, Reg::R0, 0, full);
    code.copy(Reg::R7, Reg::R0);
    begin_state(&mut code);
    // A request of this address whose end was not seen counts no longer, so that the number under way does not grow.
    let (again, keep) = (code.label(), code.label());
    code.lookup(maps.in_flight.number(), ADDRESS);
    code.jump_if(If::NotEqual, Reg::R0, 0, again);
    code.set(Reg::R1, 1);
    code.atomic_fetch_add(Reg::R7, DEVICE_OUTSTANDING, Reg::R1);
    code.store(Size::Double, Reg::R10, at(STATE, STATE_OUTSTANDING), Reg::R1);
    code.jump(keep);
    code.place(again);
    code.load(Size::Double, Reg::R1, Reg::R7, DEVICE_OUTSTANDING);
    code.store(Size::Double, Reg::R10, at(STATE, STATE_OUTSTANDING), Reg::R1);
    code.place(keep);
    code.map(Reg::R1, maps.in_flight.number());
    code.frame(Reg::R2, ADDRESS);
    code.frame(Reg::R3, STATE);
    code.set(Reg::R4, 0);
    code.call(Helper::MapUpdate);
    code.jump_if(If::Equal, Reg::R0, 0, leave);
    code.set(Reg::R1, -1);
    code.atomic_add(Reg::R7, DEVICE_OUTSTANDING, Reg::R1);
    code.place(full);
    count_missed(&mut code, maps, NOT_KEPT);
    code.place(leave);
    code.exit();
    code.finish()
}

/// Fills the frame's state but for the number outstanding. R7 is the device.
fn begin_state(code: &mut Assembler) {
    let (first, known) = (code.label(), code.label());
    code.call(Helper::KtimeGetNs);
    code.copy(Reg::R8, Reg::R0);
    code.store(Size::Double, Reg::R10, at(STATE, STATE_START), Reg::R8);
    for field in [STATE_ISSUE, STATE_BYTES_AT] {
        code.store_immediate(Size::Double, Reg::R10, at(STATE, field), 0);
    }
    for field in [STATE_INTER_ARRIVAL, STATE_SEEK_LAST, STATE_SEEK_NEAR] {
        code.store_immediate(Size::Double, Reg::R10, at(STATE, field), NONE);
    }
    for part in [0, 4, 8] {
        code.load(Size::Word, Reg::R1, Reg::R10, at(KEY, part));
        code.store(Size::Word, Reg::R10, at(STATE, STATE_KEY + part), Reg::R1);
    }
    code.store_immediate(Size::Word, Reg::R10, at(STATE, STATE_KEY + 12), 0);
    code.copy(Reg::R1, Reg::R8);
    code.atomic_exchange(Reg::R7, DEVICE_ARRIVAL, Reg::R1);
    code.jump_if(If::Equal, Reg::R1, 0, first);
    code.copy(Reg::R2, Reg::R8);
    code.op_reg(Op::Sub, Reg::R2, Reg::R1);
    // Another CPU's arrival can be a little later than this one.
    code.jump_if_reg(If::AtLeast, Reg::R8, Reg::R1, known);
    code.set(Reg::R2, 0);
    code.place(known);
    code.store(Size::Double, Reg::R10, at(STATE, STATE_INTER_ARRIVAL), Reg::R2);
    code.place(first);
}

/// `block_rq_issue`: the request is handed to the driver.
pub(super) fn issue(fields: &Fields, maps: &Maps) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let leave = code.label();
    begin(&mut code);
    code.lookup(maps.in_flight.number(), ADDRESS);
    code.jump_if(If::Equal, Reg::R0, 0, leave);
    code.copy(Reg::R7, Reg::R0);
    code.call(Helper::KtimeGetNs);
    code.store(Size::Double, Reg::R7, STATE_ISSUE, Reg::R0);
    // Issued again, after the driver gave it back: place and size were seen.
    code.load(Size::Double, Reg::R1, Reg::R7, STATE_BYTES_AT);
    code.jump_if(If::NotEqual, Reg::R1, 0, leave);
    read_request(&mut code, fields, leave);
    code.load(Size::Word, Reg::R1, Reg::R10, at(REQUEST, fields.bytes));
    code.store(Size::Double, Reg::R7, STATE_BYTES_AT, Reg::R1);
    code.load(Size::Word, Reg::R1, Reg::R7, STATE_KEY);
    code.store(Size::Word, Reg::R10, KEY, Reg::R1);
    code.lookup(maps.devices.number(), KEY);
    code.jump_if(If::Equal, Reg::R0, 0, leave);
    code.copy(Reg::R8, Reg::R0);
    code.load(Size::Double, Reg::R9, Reg::R10, at(REQUEST, fields.sector));
    seeks(&mut code);
    code.place(leave);
    code.exit();
    code.finish()
}

/// `R2 = |R9 - R1|`.
fn distance(code: &mut Assembler) {
    let (forwards, done) = (code.label(), code.label());
    code.jump_if_reg(If::AtLeast, Reg::R9, Reg::R1, forwards);
    code.copy(Reg::R2, Reg::R1);
    code.op_reg(Op::Sub, Reg::R2, Reg::R9);
    code.jump(done);
    code.place(forwards);
    code.copy(Reg::R2, Reg::R9);
    code.op_reg(Op::Sub, Reg::R2, Reg::R1);
    code.place(done);
}

/// How far the I/O at sector R9 is from the device's last; then it is the last. R7 is the state, R8 the device.
fn seeks(code: &mut Assembler) {
    let first = code.label();
    code.set(Reg::R4, 1);
    code.atomic_fetch_add(Reg::R8, DEVICE_ISSUED, Reg::R4);
    code.jump_if(If::Equal, Reg::R4, 0, first);
    code.load(Size::Double, Reg::R1, Reg::R8, DEVICE_END);
    distance(code);
    code.store(Size::Double, Reg::R7, STATE_SEEK_LAST, Reg::R2);
    code.copy(Reg::R3, Reg::R2);
    for place in 0..RING {
        let farther = code.label();
        // Places that were not used yet.
        code.jump_if(If::AtMost, Reg::R4, place.into(), farther);
        code.load(Size::Double, Reg::R1, Reg::R8, DEVICE_RING + 8 * place);
        distance(code);
        code.jump_if_reg(If::AtLeast, Reg::R2, Reg::R3, farther);
        code.copy(Reg::R3, Reg::R2);
        code.place(farther);
    }
    code.store(Size::Double, Reg::R7, STATE_SEEK_NEAR, Reg::R3);
    code.place(first);
    code.load(Size::Double, Reg::R1, Reg::R7, STATE_BYTES_AT);
    code.op(Op::ShiftRight, Reg::R1, 9);
    code.op_reg(Op::Add, Reg::R1, Reg::R9);
    code.store(Size::Double, Reg::R8, DEVICE_END, Reg::R1);
    code.op(Op::And, Reg::R4, i32::from(RING) - 1);
    code.op(Op::ShiftLeft, Reg::R4, 3);
    code.op_reg(Op::Add, Reg::R8, Reg::R4);
    code.store(Size::Double, Reg::R8, DEVICE_RING, Reg::R1);
}

/// Forgets the I/O in R9 whose device is in its key: one less is under way. Its memory may not be used any more.
fn forget(code: &mut Assembler, maps: &Maps) {
    let none = code.label();
    code.load(Size::Word, Reg::R1, Reg::R9, STATE_KEY);
    code.store(Size::Word, Reg::R10, KEY, Reg::R1);
    code.map(Reg::R1, maps.in_flight.number());
    code.frame(Reg::R2, ADDRESS);
    code.call(Helper::MapDelete);
    code.lookup(maps.devices.number(), KEY);
    code.jump_if(If::Equal, Reg::R0, 0, none);
    code.set(Reg::R1, -1);
    code.atomic_add(Reg::R0, DEVICE_OUTSTANDING, Reg::R1);
    code.place(none);
}

/// `block_rq_merge`: the request has become a part of another and ends here.
pub(super) fn merge(maps: &Maps) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let leave = code.label();
    begin(&mut code);
    code.lookup(maps.in_flight.number(), ADDRESS);
    code.jump_if(If::Equal, Reg::R0, 0, leave);
    code.copy(Reg::R9, Reg::R0);
    forget(&mut code, maps);
    code.place(leave);
    code.exit();
    code.finish()
}

/// `block_io_done`: the kernel counts the request.
pub(super) fn done(fields: &Fields, maps: &Maps) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let (leave, unseen, over) = (code.label(), code.label(), code.label());
    begin(&mut code);
    read_request(&mut code, fields, leave);
    code.load(Size::Word, Reg::R7, Reg::R10, at(REQUEST, fields.flags));
    // A part of a flush sequence is not counted, and the request goes on.
    code.jump_if(If::AnyBit, Reg::R7, fields.sequence, leave);
    code.lookup(maps.in_flight.number(), ADDRESS);
    code.jump_if(If::Equal, Reg::R0, 0, unseen);
    code.copy(Reg::R9, Reg::R0);
    code.op(Op::And, Reg::R7, fields.counted);
    code.jump_if(If::Equal, Reg::R7, 0, over);
    for part in [0, 4, 8] {
        code.load(Size::Word, Reg::R1, Reg::R9, STATE_KEY + part);
        code.store(Size::Word, Reg::R10, at(KEY, part), Reg::R1);
    }
    let found = code.label();
    code.lookup(maps.entries.number(), KEY);
    code.jump_if(If::NotEqual, Reg::R0, 0, found);
    code.store_immediate(Size::Word, Reg::R10, KEY, 0);
    code.store_immediate(Size::Word, Reg::R10, at(KEY, 4), -1);
    code.lookup(maps.entries.number(), KEY);
    code.jump_if(If::Equal, Reg::R0, 0, over);
    code.place(found);
    code.copy(Reg::R8, Reg::R0);
    fill(&mut code);
    code.place(over);
    forget(&mut code, maps);
    code.jump(leave);
    code.place(unseen);
    code.op(Op::And, Reg::R7, fields.counted);
    code.jump_if(If::Equal, Reg::R7, 0, leave);
    count_missed(&mut code, maps, BEGAN_BEFORE);
    code.place(leave);
    code.exit();
    code.finish()
}

/// Adds the I/O in R9 to the entry in R8.
fn fill(code: &mut Assembler) {
    const SIZE: usize = 0;
    const QUEUE: usize = 3;
    const DEVICE: usize = 4;
    const TOTAL: usize = 5;
    let plain = [(1, STATE_SEEK_LAST), (2, STATE_SEEK_NEAR), (6, STATE_OUTSTANDING), (7, STATE_INTER_ARRIVAL)];
    code.set(Reg::R1, 1);
    code.atomic_add(Reg::R8, 0, Reg::R1);
    code.call(Helper::KtimeGetNs);
    code.copy(Reg::R7, Reg::R0);
    code.load(Size::Double, Reg::R1, Reg::R9, STATE_START);
    code.copy(Reg::R2, Reg::R7);
    code.op_reg(Op::Sub, Reg::R2, Reg::R1);
    code.atomic_add(Reg::R8, 16, Reg::R2);
    add(code, TOTAL, Reg::R2);
    let not_issued = code.label();
    code.load(Size::Double, Reg::R3, Reg::R9, STATE_ISSUE);
    code.jump_if(If::Equal, Reg::R3, 0, not_issued);
    code.op_reg(Op::Sub, Reg::R7, Reg::R3);
    code.atomic_add(Reg::R8, 32, Reg::R7);
    add(code, DEVICE, Reg::R7);
    code.load(Size::Double, Reg::R2, Reg::R9, STATE_ISSUE);
    code.load(Size::Double, Reg::R1, Reg::R9, STATE_START);
    code.op_reg(Op::Sub, Reg::R2, Reg::R1);
    code.atomic_add(Reg::R8, 24, Reg::R2);
    add(code, QUEUE, Reg::R2);
    code.load(Size::Double, Reg::R2, Reg::R9, STATE_BYTES_AT);
    code.atomic_add(Reg::R8, 8, Reg::R2);
    add(code, SIZE, Reg::R2);
    code.place(not_issued);
    for (histogram, field) in plain {
        let none = code.label();
        code.load(Size::Double, Reg::R2, Reg::R9, field);
        code.jump_if(If::Equal, Reg::R2, NONE, none);
        add(code, histogram, Reg::R2);
        code.place(none);
    }
}

/// Adds `value`, which is destroyed with R0, R1, R4 and R5, to a histogram of the entry in R8.
fn add(code: &mut Assembler, histogram: usize, value: Reg) {
    code.bin(Reg::R4, value, Reg::R5);
    code.op(Op::ShiftLeft, Reg::R4, 3);
    code.op_reg(Op::Add, Reg::R4, Reg::R8);
    code.set(Reg::R1, 1);
    code.atomic_add(Reg::R4, bytes(ENTRY_HISTOGRAMS + histogram * BINS * 8), Reg::R1);
}
