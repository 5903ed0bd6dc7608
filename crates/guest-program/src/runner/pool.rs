//! Virtual processors: made when one is needed, kept for whoever needs one next, and taken from threads that the host
//! keeps waiting when there are no more.
//!
//! A virtual processor cannot be destroyed before its machine, and a machine has a bounded number of them (1,024 here), but
//! a program may have more threads. A thread needs one only while it computes, so one that waits in a call of the host can
//! lose it: whoever needs it saves its state into the waiting thread's record. Where all are computing, a thread waits in a
//! queue, and those that compute are made to give theirs up in turn.

use crate::runner::answers;
use crate::runner::arena::{ARENA, VCPUS};
use crate::runner::descriptors::DESCRIPTORS;
use crate::runner::fatal::{self, Fatal};
use crate::runner::handler;
use crate::runner::kvm;
use crate::runner::lock::Lock;
use crate::runner::machine::MACHINE;
use crate::runner::mailbox::{self, Mailbox};
use crate::runner::space::Space;
use crate::runner::sys::{self, Errno, Mapping};
use crate::runner::thread::{NO_VCPU, Ring, State, Thread};
use crate::shared::{Count, Doing};
use baremark_microvm::{layout, registers};
use kvm_bindings::{KVM_SYNC_X86_REGS, kvm_msr_entry, kvm_run};
use std::arch::x86_64::_rdtsc;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// How long a thread computes while others wait for a virtual processor.
const TURN_MS: u64 = 10;

/// Descriptors of the virtual processors.
static FDS: [AtomicI32; VCPUS] = [const { AtomicI32::new(-1) }; VCPUS];
/// Threads in the queue. Whoever computes looks here when it comes out of the guest.
static WAITING: AtomicU32 = AtomicU32::new(0);
static POOL: Lock<Pool> =
    Lock::new(Pool { made: 0, most: 0, free: [0; VCPUS], free_count: 0, first: 0, last: 0, turn: 0 });

/// Which virtual processors there are, and who waits for one.
#[derive(Debug)]
struct Pool {
    made: usize,
    most: usize,
    free: [u16; VCPUS],
    free_count: usize,
    /// Addresses of the first and the last record in the queue.
    first: u64,
    last: u64,
    /// Whose turn it is to give its virtual processor up.
    turn: u64,
}

/// Begins anew with at most `most` virtual processors, for a machine that has none yet.
pub(crate) fn begin(most: u32) {
    POOL.forget_holder();
    WAITING.store(0, Ordering::Relaxed);
    let most = usize::try_from(most.clamp(1, MACHINE.most_vcpus())).unwrap_or(1);
    POOL.with(|pool| {
        (pool.made, pool.most, pool.free_count) = (0, most, 0);
        (pool.first, pool.last, pool.turn) = (0, 0, 0);
    });
}

/// Whether a thread waits for a virtual processor.
pub(crate) fn is_wanted() -> bool {
    WAITING.load(Ordering::Relaxed) != 0
}

/// The descriptor of `thread`'s virtual processor, which it must have.
pub(crate) fn fd_of(thread: &Thread) -> i32 {
    let index = usize::try_from(thread.vcpu.load(Ordering::Relaxed));
    index.ok().and_then(|index| FDS.get(index)).map_or(-1, |fd| fd.load(Ordering::Relaxed))
}

/// The mailbox of `thread`'s virtual processor, where it has one.
pub(crate) fn mailbox_of(thread: &Thread) -> Option<&'static Mailbox> {
    usize::try_from(thread.vcpu.load(Ordering::Relaxed)).ok().and_then(mailbox::of)
}

/// Gives the calling thread a virtual processor with its saved state.
pub(crate) fn acquire(thread: &'static Thread) {
    let granted = POOL.with(|pool| match pool.take(thread) {
        Ok(Some(index)) => Some(index),
        Ok(None) => {
            pool.queue(thread);
            None
        }
        Err(error) => fatal::end(error),
    });
    let index = granted.unwrap_or_else(|| wait_for_one(thread));
    if let Err(error) = install(thread, index) {
        fatal::end(error);
    }
}

/// Saves the calling thread's state and lets another thread have its virtual processor.
pub(crate) fn give_up(thread: &'static Thread) {
    if let Err(error) = save(thread) {
        fatal::end(error);
    }
    release(thread);
    thread.count(Count::VcpuSwitches);
}

/// Gives the calling thread's virtual processor to whoever needs one; its state is lost unless it was saved.
pub(crate) fn release(thread: &Thread) {
    thread.shared.store(ptr::null_mut(), Ordering::Release);
    if let Ok(index) = usize::try_from(thread.vcpu.swap(NO_VCPU, Ordering::AcqRel)) {
        POOL.with(|pool| pool.pass_on(index));
    }
}

/// Reads what the virtual processor of `thread` has in addition to the general registers into its record. The caller owns the
/// record's saved state, see [`Thread::saved`].
pub(crate) fn save(thread: &Thread) -> Result<(), Fatal> {
    let vcpu = fd_of(thread);
    let special = kvm::special_registers(vcpu)?;
    // SAFETY: this function's contract.
    let saved = unsafe { thread.saved() };
    kvm::extended_state(vcpu, &mut saved.extended)?;
    (saved.fs, saved.gs, saved.valid) = (special.fs.base, special.gs.base, true);
    Ok(())
}

/// Makes virtual processor `index` the calling thread's: in ring 3, with its saved state.
pub(crate) fn install(thread: &Thread, index: usize) -> Result<(), Fatal> {
    let vcpu = FDS[index].load(Ordering::Relaxed);
    // SAFETY: the calling thread is the record's own.
    let saved = unsafe { thread.saved() };
    let initial = kvm::special_registers(vcpu)?;
    let mut special = registers::special(initial, ARENA.area(), index, MACHINE.cpuid().entries());
    special.cr3 = Space::root();
    (special.fs.base, special.gs.base) = (saved.fs, saved.gs);
    kvm::set_special_registers(vcpu, &special)?;
    if saved.valid {
        kvm::set_extended_state(vcpu, &saved.extended)?;
    } else {
        kvm::reset_floating_point(vcpu)?;
    }
    thread.ring.set(Ring::Program);
    thread.vcpu.store(i32::try_from(index).unwrap_or(NO_VCPU), Ordering::Relaxed);
    let shared = ptr::with_exposed_provenance_mut::<kvm_run>(ARENA.shared_page(index) as usize);
    thread.shared.store(shared, Ordering::Release);
    Ok(())
}

/// Closes the descriptors of virtual processors that a fork has copied from the parent.
pub(crate) fn close_inherited() {
    for fd in FDS.iter().map(|fd| fd.swap(-1, Ordering::Relaxed)).take_while(|fd| *fd >= 0) {
        DESCRIPTORS.close(fd);
    }
}

/// Takes the virtual processor back that the child of a vfork has left, whatever became of the child.
pub(crate) fn take_back(parent: &Thread, child: &Thread) {
    while !child.change_state(State::Running, State::Vacant) && !child.change_state(State::Blocked, State::Vacant) {
        if child.state.load(Ordering::Acquire) == State::Lost as u32 {
            break;
        }
        sys::wait_while(&child.state, State::Losing as u32, Some(1));
    }
    let granted = POOL.with(|pool| {
        pool.leave_queue(child);
        child.granted.swap(0, Ordering::AcqRel).checked_sub(1).and_then(|index| i32::try_from(index).ok())
    });
    let own = child.vcpu.swap(NO_VCPU, Ordering::AcqRel);
    let left = if own == NO_VCPU { granted.unwrap_or(NO_VCPU) } else { own };
    parent.vcpu.store(left, Ordering::Relaxed);
}

impl Pool {
    /// A virtual processor that is free, new, or taken from a thread that does not need it now.
    fn take(&mut self, thread: &Thread) -> Result<Option<usize>, Fatal> {
        if let Some(at) = self.free_count.checked_sub(1) {
            self.free_count = at;
            return Ok(Some(self.free[at].into()));
        }
        if self.made < self.most {
            match make(self.made) {
                Ok(()) => {
                    self.made += 1;
                    thread.count(Count::Vcpus);
                    return Ok(Some(self.made - 1));
                }
                Err(error) if self.made == 0 => return Err(error),
                // No descriptor or no memory for one more: those that there are must do.
                Err(_) => self.most = self.made,
            }
        }
        Ok(take_from_blocked(thread))
    }

    fn queue(&mut self, thread: &Thread) {
        let record = ptr::from_ref(thread).expose_provenance() as u64;
        thread.granted.store(0, Ordering::Relaxed);
        thread.next.store(0, Ordering::Relaxed);
        match record_at(self.last) {
            Some(last) => last.next.store(record, Ordering::Relaxed),
            None => self.first = record,
        }
        self.last = record;
        WAITING.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes `thread` out of the queue, if it is there.
    fn leave_queue(&mut self, thread: &Thread) {
        let record = ptr::from_ref(thread).expose_provenance() as u64;
        let (mut before, mut at): (Option<&'static Thread>, u64) = (None, self.first);
        while let Some(queued) = record_at(at) {
            let next = queued.next.load(Ordering::Relaxed);
            if at == record {
                match before {
                    None => self.first = next,
                    Some(before) => before.next.store(next, Ordering::Relaxed),
                }
                self.last = if next == 0 { before.map_or(0, |before| before.block.start) } else { self.last };
                WAITING.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            (before, at) = (Some(queued), next);
        }
    }

    /// Gives virtual processor `index` to the first in the queue, or keeps it.
    fn pass_on(&mut self, index: usize) {
        let number = u16::try_from(index).unwrap_or(u16::MAX);
        let Some(first) = record_at(self.first) else {
            self.free[self.free_count] = number;
            self.free_count += 1;
            return;
        };
        self.first = first.next.load(Ordering::Relaxed);
        if self.first == 0 {
            self.last = 0;
        }
        WAITING.fetch_sub(1, Ordering::Relaxed);
        first.granted.store(u32::from(number) + 1, Ordering::Release);
        sys::wake(&first.granted, 1);
    }

    /// For the queue: whatever can be taken from threads that wait in the host meanwhile, else one computing thread is
    /// asked to give up its own.
    fn serve_queue(&mut self, thread: &'static Thread) {
        if self.first == 0 {
            return;
        }
        match take_from_blocked(thread) {
            Some(index) => self.pass_on(index),
            None => self.interrupt_next(thread),
        }
    }

    /// Interrupts the computing thread whose turn it is.
    fn interrupt_next(&mut self, thread: &'static Thread) {
        let own = thread.process();
        let computing = |thread: &&Thread| {
            thread.state.load(Ordering::Relaxed) == State::Running as u32
                && thread.vcpu.load(Ordering::Relaxed) != NO_VCPU
                && ptr::eq(thread.process(), own)
        };
        let records = || ARENA.blocks().filter_map(record_at);
        let after = |thread: &&Thread| thread.block.start > self.turn;
        let Some(next) = records().filter(computing).find(after).or_else(|| records().find(computing)) else { return };
        self.turn = next.block.start;
        handler::interrupt(next);
    }
}

/// Sleeps until a virtual processor is given to `thread`, which is in the queue.
fn wait_for_one(thread: &'static Thread) -> usize {
    thread.note(Doing::Waiting, 0);
    loop {
        sys::wait_while(&thread.granted, 0, Some(TURN_MS));
        if let Some(index) = thread.granted.load(Ordering::Acquire).checked_sub(1) {
            return index as usize;
        }
        POOL.with(|pool| pool.serve_queue(thread));
    }
}

/// The virtual processor of a thread that the host keeps waiting, after its state was saved.
fn take_from_blocked(taker: &Thread) -> Option<usize> {
    let blocked = |thread: &&Thread| thread.change_state(State::Blocked, State::Losing);
    let loser = ARENA.blocks().filter_map(record_at).find(blocked)?;
    let index = usize::try_from(loser.vcpu.load(Ordering::Relaxed)).ok();
    if index.is_some() {
        // The record's saved state is ours while the state is `Losing`.
        if let Err(error) = save(loser) {
            fatal::end(error);
        }
        loser.shared.store(ptr::null_mut(), Ordering::Release);
        loser.vcpu.store(NO_VCPU, Ordering::Relaxed);
        taker.count(Count::VcpuSwitches);
    }
    loser.enter_state(State::Lost);
    sys::wake(&loser.state, u32::MAX >> 1);
    index
}

/// Makes virtual processor `index`.
fn make(index: usize) -> Result<(), Fatal> {
    MACHINE.install_vcpu(index, &answers::list())?;
    let fd = kvm::create_vcpu(MACHINE.vm.load(Ordering::Relaxed), index as u64)?;
    let fd = DESCRIPTORS.take(fd)?;
    let prepared = prepare(index, fd);
    match prepared {
        Ok(()) => FDS[index].store(fd, Ordering::Relaxed),
        Err(_) => DESCRIPTORS.close(fd),
    }
    prepared
}

fn prepare(index: usize, fd: i32) -> Result<(), Fatal> {
    let bytes = MACHINE.shared_bytes.load(Ordering::Relaxed);
    if bytes > crate::runner::arena::SHARED_STRIDE {
        return Err(Fatal::Memory { errno: Errno(libc::E2BIG) });
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let mapping = Mapping { protection, flags: libc::MAP_SHARED | libc::MAP_FIXED, fd, offset: 0 };
    let at = ARENA.shared_page(index);
    // SAFETY: room of the arena that is set aside for this virtual processor.
    unsafe { sys::map(at, bytes, mapping) }?;
    sys::advise(at, bytes, libc::MADV_DONTFORK)?;
    kvm::set_cpuid(fd, MACHINE.cpuid())?;
    kvm::set_xcr0(fd, MACHINE.xcr0.load(Ordering::Relaxed))?;
    kvm::set_msrs(fd, syscall_msrs(index))?;
    // SAFETY: RDTSC touches no memory.
    kvm::share_time_stamps(fd, unsafe { _rdtsc() })?;
    let shared = ptr::with_exposed_provenance_mut::<kvm_run>(at as usize);
    // SAFETY: the page was mapped above and is shared with KVM, which reads it when the virtual processor runs.
    unsafe { (*shared).kvm_valid_regs = KVM_SYNC_X86_REGS.into() };
    Ok(())
}

/// The registers by which SYSCALL finds the stub of virtual processor `index`: its own, or the one that all share.
fn syscall_msrs(index: usize) -> [kvm_msr_entry; 3] {
    let shared = ARENA.area() + layout::SYSCALL_STUB;
    let own = mailbox::stub_of(index).unwrap_or(shared);
    let entry =
        |entry: kvm_msr_entry| kvm_msr_entry { data: if entry.data == shared { own } else { entry.data }, ..entry };
    registers::syscall_msrs(ARENA.area()).map(entry)
}

/// The record at `address`, if that is not 0.
fn record_at(address: u64) -> Option<&'static Thread> {
    let record = ptr::with_exposed_provenance::<Thread>(address as usize);
    // SAFETY: null, or the start of a block that was taken; its memory stays mapped, zero at first, for which a record's
    // atomic fields have values, and those that are not atomic are used of records whose state says that they live.
    unsafe { record.as_ref() }
}
