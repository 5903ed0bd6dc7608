//! What a protected program's threads do for checkpoints: they write their registers into the shared record, and stand.
//!
//! The maker of checkpoints sets `stop` in the record and signals every thread that does not stand yet. A thread stands between two
//! instructions of the program: a call that it was waiting in has been abandoned and is made again.

use crate::options::Line;
use crate::record;
use crate::runner::arena::ARENA;
use crate::runner::sys::{self, Action, Errno, Mapping};
use crate::runner::thread::{Process, Saved, SignalStack, Thread};
use crate::runner::user;
use crate::snapshot::{self, BYTES, EXTENDED_WORDS, Reason, Slot, Snapshot};
use kvm_bindings::kvm_regs;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

static SNAPSHOT: AtomicPtr<Snapshot> = AtomicPtr::new(ptr::null_mut());
/// How far the runner's own stack may grow downwards, and its heap upwards.
const STACK_GROWTH: u64 = 1 << 20;
const HEAP_GROWTH: u64 = 16 << 20;
/// Bits of the signal by which threads are made to look, which the program must not block.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// Maps the record of a protected program. Once, before there is a second thread.
pub(crate) fn start(fd: i32) -> Result<(), Errno> {
    let mapping = Mapping { protection: libc::PROT_READ | libc::PROT_WRITE, flags: libc::MAP_SHARED, fd, offset: 0 };
    // SAFETY: a new mapping where the kernel has room.
    let start = unsafe { sys::map(0, BYTES as u64, mapping) }?;
    ARENA.own(start..start + BYTES as u64);
    // What the runner allocates lies in its heap, never among mappings, where a program that is continued needs its places.
    // SAFETY: sets a limit of the allocator of this process, which has one thread.
    unsafe { libc::mallopt(libc::M_MMAP_MAX, 0) };
    SNAPSHOT.store(ptr::with_exposed_provenance_mut(start as usize), Ordering::Release);
    if snapshot().is_some_and(Snapshot::is_valid) { Ok(()) } else { Err(Errno(libc::EINVAL)) }
}

/// The record; `None` where the program is not protected.
pub(crate) fn snapshot() -> Option<&'static Snapshot> {
    // SAFETY: null, or a mapping as long and as aligned as a record, which is never unmapped; any content is a value.
    unsafe { SNAPSHOT.load(Ordering::Acquire).as_ref() }
}

/// Whether the program is protected.
pub(crate) fn is_on() -> bool {
    snapshot().is_some()
}

/// Whether threads shall stand.
pub(crate) fn is_stopping() -> bool {
    snapshot().is_some_and(|snapshot| snapshot.stop.load(Ordering::SeqCst) != 0)
}

/// Keeps a signal, by its number and its bit, for this.
pub(crate) fn reserve(signal: u32, bit: u64) {
    if let Some(snapshot) = snapshot() {
        snapshot.signal.store(signal, Ordering::Release);
        RESERVED.store(bit, Ordering::Relaxed);
    }
}

/// A mask without the reserved signal.
pub(crate) fn allowed_mask(mask: u64) -> u64 {
    mask & !RESERVED.load(Ordering::Relaxed)
}

/// Enters everything that is mapped already into the list of what is the runner's, but the kernel's own pages. While memory can be
/// allocated.
pub(crate) fn own_everything() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut whole: Option<Range<u64>> = None;
    for line in maps.lines() {
        let Some(mut range) = range_of(line) else { continue };
        if line.ends_with("[stack]") {
            range.start -= STACK_GROWTH;
        } else if line.ends_with("[heap]") {
            range.end += HEAP_GROWTH;
        }
        let kernels = ["[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]"].iter().any(|name| line.ends_with(name));
        if kernels {
            continue;
        }
        match &mut whole {
            Some(whole) if whole.end == range.start => whole.end = range.end,
            _ => {
                whole.replace(range).into_iter().for_each(|range| ARENA.own(range));
            }
        }
    }
    whole.into_iter().for_each(|range| ARENA.own(range));
}

/// The addresses of a line of `/proc/PID/maps`.
fn range_of(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

/// Where the vDSO begins, by which its functions' addresses follow.
pub(crate) fn vdso() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().find(|line| line.ends_with("[vdso]")).and_then(range_of).map_or(0, |range| range.start)
}

/// Begins the record of a program's process: with its own number or, where it is continued, with those that it had.
pub(crate) fn begin(before: Option<&Snapshot>, path: &[u8], first_own: u64) {
    let Some(snapshot) = snapshot() else { return };
    let own = sys::process_id();
    let (pid, last) = before
        .map_or((own, own), |before| (before.pid.load(Ordering::Relaxed), before.last_id.load(Ordering::Relaxed)));
    snapshot.pid.store(pid, Ordering::Relaxed);
    snapshot.last_id.store(last, Ordering::Relaxed);
    snapshot.first_own.store(u32::try_from(first_own).unwrap_or(u32::MAX), Ordering::Relaxed);
    snapshot.set_path(path);
}

/// The process's number as the program knows it.
pub(crate) fn process_id() -> u32 {
    snapshot().map_or(0, |snapshot| snapshot.pid.load(Ordering::Relaxed))
}

/// Gives a thread, which does not run yet, a part of the record and a number of its own.
pub(crate) fn join(thread: &Thread, is_first: bool) -> Result<&'static Slot, Errno> {
    let snapshot = snapshot().ok_or(Errno(libc::EINVAL))?;
    let free = |slot: &&Slot| slot.used.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let slot = snapshot.slots.iter().find(free).ok_or(Errno(libc::EAGAIN))?;
    let id = match is_first {
        true => snapshot.pid.load(Ordering::Relaxed),
        false => snapshot.last_id.fetch_add(1, Ordering::AcqRel) + 1,
    };
    slot.standing.store(0, Ordering::Relaxed);
    slot.host_id.store(0, Ordering::Relaxed);
    slot.id.store(id, Ordering::Relaxed);
    slot.clear_id.store(0, Ordering::Relaxed);
    snapshot::store(&slot.robust, [0; 2]);
    snapshot::store(&slot.deadline, [0; 2]);
    snapshot.living.fetch_add(1, Ordering::SeqCst);
    thread.slot.set(Some(slot));
    Ok(slot)
}

/// Takes the part back of a thread that could not begin.
pub(crate) fn forget(thread: &Thread) {
    if let (Some(snapshot), Some(slot)) = (snapshot(), thread.slot.take()) {
        slot.used.store(0, Ordering::Release);
        snapshot.living.fetch_sub(1, Ordering::SeqCst);
        changed(snapshot);
    }
}

/// Ends a thread for the program: whoever waits for it is woken. What the kernel does for others is done here, so that no image has a
/// thread that is gone and still awaited.
pub(crate) fn leave(thread: &Thread) {
    let Some(slot) = thread.slot.get() else { return };
    let word = slot.clear_id.load(Ordering::Relaxed);
    if word != 0 && user::write_bytes(thread.process(), word, &[0; 4]).is_ok() {
        let arguments = [word, libc::FUTEX_WAKE as u64, 1, 0, 0, 0];
        // SAFETY: only the word's address is used.
        unsafe { sys::raw(libc::SYS_futex, arguments) };
    }
    forget(thread);
}

/// Notes the kernel's number of the calling thread.
pub(crate) fn settle(thread: &Thread) {
    if let Some(slot) = thread.slot.get() {
        slot.host_id.store(thread.id.load(Ordering::Relaxed), Ordering::Release);
    }
}

/// The kernel's number of the thread that the program knows by this one.
pub(crate) fn host_id(id: u64) -> Option<u32> {
    let known = |slot: &&Slot| u64::from(slot.id.load(Ordering::Relaxed)) == id & u64::from(u32::MAX);
    snapshot()?.threads().find(known).map(|slot| slot.host_id.load(Ordering::Acquire))
}

/// Notes a refused call.
pub(crate) fn refuse(number: u64, reason: Reason) {
    if let Some(snapshot) = snapshot() {
        snapshot.refuse(number, reason);
    }
}

/// Writes the calling thread's state into the record and stands as long as threads shall. Its virtual processor's state was saved, and
/// all signals are blocked; the program's mask is `mask`.
pub(crate) fn stand(thread: &Thread, mask: u64, program_break: &Range<u64>) {
    let (Some(snapshot), Some(slot)) = (snapshot(), thread.slot.get()) else { return };
    // SAFETY: the calling thread is the record's own.
    put(slot, &thread.registers.get(), unsafe { thread.saved() });
    slot.mask.store(mask, Ordering::Relaxed);
    let SignalStack { start, flags, bytes } = thread.signal_stack.get();
    snapshot::store(&slot.signal_stack, [start, flags, bytes]);
    let process = thread.process();
    snapshot.ignored.store(process.ignored.load(Ordering::Relaxed), Ordering::Relaxed);
    snapshot::store(&snapshot.program_break, [program_break.start, program_break.end]);
    process.actions.with(|actions| {
        for (to, from) in snapshot.actions.iter().zip(actions.iter()) {
            snapshot::store(to, [from.handler, from.flags, from.restorer, from.mask]);
        }
    });
    snapshot.own(ARENA.owned());
    // Where threads shall stand again before this one has gone on, it says so: that it could.
    loop {
        let asked = snapshot.stop.load(Ordering::SeqCst);
        slot.standing.store(asked, Ordering::SeqCst);
        if asked == 0 {
            return;
        }
        changed(snapshot);
        sys::wait_while(&snapshot.stop, asked, None);
    }
}

/// Wakes whoever waits for all threads to stand.
fn changed(snapshot: &Snapshot) {
    snapshot.standing.fetch_add(1, Ordering::SeqCst);
    sys::wake(&snapshot.standing, u32::MAX >> 1);
}

fn put(slot: &Slot, registers: &kvm_regs, saved: &Saved) {
    let kvm_regs { rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags } =
        *registers;
    let all = [rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags];
    snapshot::store(&slot.registers, all);
    slot.fs.store(saved.fs, Ordering::Relaxed);
    slot.gs.store(saved.gs, Ordering::Relaxed);
    for (to, pair) in slot.extended.iter().zip(saved.extended.region.chunks_exact(2)) {
        to.store(u64::from(pair[0]) | u64::from(pair[1]) << 32, Ordering::Relaxed);
    }
}

/// Gives a thread that does not run yet, and has a part of the record already, the state that another had.
pub(crate) fn become_as(thread: &Thread, before: &Slot) {
    let [rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags] =
        snapshot::load(&before.registers);
    let registers =
        kvm_regs { rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags };
    thread.registers.set(registers);
    let [start, flags, bytes] = snapshot::load(&before.signal_stack);
    thread.signal_stack.set(SignalStack { start, flags, bytes });
    thread.caught.mask.store(before.mask.load(Ordering::Relaxed), Ordering::Relaxed);
    // SAFETY: the calling thread makes the record, which nobody else uses yet.
    let saved = unsafe { thread.saved() };
    saved.fs = before.fs.load(Ordering::Relaxed);
    saved.gs = before.gs.load(Ordering::Relaxed);
    saved.valid = true;
    let words: [u64; EXTENDED_WORDS] = snapshot::load(&before.extended);
    for (pair, word) in saved.extended.region.chunks_exact_mut(2).zip(words) {
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        (pair[0], pair[1]) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    }
    let Some(slot) = thread.slot.get() else { return };
    slot.id.store(before.id.load(Ordering::Relaxed), Ordering::Relaxed);
    slot.clear_id.store(before.clear_id.load(Ordering::Relaxed), Ordering::Relaxed);
    snapshot::store(&slot.robust, snapshot::load(&before.robust));
    snapshot::store(&slot.deadline, snapshot::load(&before.deadline));
}

/// Tells the kernel of the calling thread's list of robust locks, which a thread does itself.
pub(crate) fn restore_robust_list(thread: &Thread) {
    let Some(slot) = thread.slot.get() else { return };
    let [list, bytes] = snapshot::load(&slot.robust);
    if list != 0 {
        // SAFETY: notes an address of the program's, which the kernel checks when it uses it.
        unsafe { sys::raw(libc::SYS_set_robust_list, [list, bytes, 0, 0, 0, 0]) };
    }
}

/// The program's signal actions that a record has.
pub(crate) fn actions_of(before: &Snapshot) -> impl Iterator<Item = Action> {
    before.actions.iter().map(|action| {
        let [handler, flags, restorer, mask] = snapshot::load(action);
        Action { handler, flags, restorer, mask }
    })
}

/// Opens the descriptor by which written pages are found, among the runner's own.
pub(crate) fn open_faults(take: impl FnOnce(i32) -> Result<i32, Errno>) -> Result<(), Errno> {
    const USER_MODE_ONLY: u64 = 1;
    let Some(snapshot) = snapshot() else { return Ok(()) };
    let flags = u64::from((libc::O_CLOEXEC | libc::O_NONBLOCK).unsigned_abs()) | USER_MODE_ONLY;
    // SAFETY: makes a descriptor or fails.
    let fd = sys::checked(unsafe { sys::raw(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]) })?;
    let fd = take(i32::try_from(fd).unwrap_or(-1))?;
    snapshot.faults.store(fd.unsigned_abs() + 1, Ordering::Release);
    Ok(())
}

/// The name of one of this runner's sockets, of a kind, with the address that the program knows.
pub(crate) fn socket_name(kind: char, id: u64, address: &str) -> Line<108> {
    let owner = snapshot().map_or(0, |snapshot| snapshot.owner.load(Ordering::Relaxed));
    Line::of(format_args!("baremark/{owner}/{kind}{id}/{address}"))
}

/// A record from the bytes of an image.
pub(crate) fn of_bytes(bytes: &[u8]) -> Box<Snapshot> {
    record::of_bytes(bytes)
}

/// Whether the process's part of a call for another process means this one.
pub(crate) fn is_self(pid: u64) -> bool {
    pid & u64::from(u32::MAX) == u64::from(process_id())
}

/// What `process` has as its own number is the kernel's; copies within it go by that.
pub(crate) fn own_id(process: &Process) -> u64 {
    process.pid.load(Ordering::Relaxed).into()
}
