//! A thread of the program: its record, and its life between the guest and the host.
//!
//! Each has a host thread of its own with the same number. While it computes it holds a virtual processor; while the host
//! carries out a call for it, another thread may take that one away (`pool`). Its general registers are always here, as the
//! program sees them; all other state is in the virtual processor or, when that is gone, in `saved`.

use crate::runner::arena::{ARENA, BLOCK, Block};
use crate::runner::backoff::Backoff;
use crate::runner::counters;
use crate::runner::lock::Lock;
use crate::runner::machine::EXTENDED_STATE;
use crate::runner::own_limits::OwnLimits;
use crate::runner::sys::{self, Action, Errno};
use crate::shared::{Count, Doing, PLACES, Page, Place, Tally};
use crate::snapshot::Slot;
use kvm_bindings::{kvm_regs, kvm_run, kvm_xsave};
use std::arch::asm;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What a thread is doing, as far as its virtual processor is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// Nobody's record.
    Vacant,
    /// In the guest, or in the runner's code.
    Running,
    /// In a call that the host carries out: its virtual processor may be taken.
    Blocked,
    /// Its virtual processor is being taken.
    Losing,
    /// Its virtual processor was taken; `saved` has its state.
    Lost,
}

/// The ring in which a virtual processor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// In the program.
    Program,
    /// In a stub, from which it must return.
    Stub,
}

/// A program's signal stack, as `sigaltstack` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct SignalStack {
    pub(crate) start: u64,
    pub(crate) flags: u64,
    pub(crate) bytes: u64,
}

impl SignalStack {
    /// None.
    pub(crate) const NONE: SignalStack = SignalStack { start: 0, flags: libc::SS_DISABLE as u64, bytes: 0 };
}

/// A signal that the host has given to a thread and the program has not got yet. One at most: from the moment at which it
/// is caught all others stay blocked, until the program's handler has its frame.
#[derive(Debug, Default)]
pub(crate) struct Caught {
    pub(crate) signal: AtomicU32,
    /// The signal mask at that moment.
    pub(crate) mask: AtomicU64,
    pub(crate) info: [AtomicU64; 16],
}

/// State of a virtual processor in addition to the general registers.
#[repr(C, align(64))]
pub(crate) struct Saved {
    pub(crate) extended: kvm_xsave,
    pub(crate) fs: u64,
    pub(crate) gs: u64,
    /// Whether there is any; a new program has none.
    pub(crate) valid: bool,
}

/// What a native step found out, see `step`.
#[derive(Debug, Default)]
pub(crate) struct Stepping {
    /// The host stack to come back to; 0 when no step is under way.
    pub(crate) stack: AtomicU64,
    pub(crate) signal: AtomicU32,
    pub(crate) error: AtomicU64,
    pub(crate) trap: AtomicU64,
    pub(crate) address: AtomicU64,
    pub(crate) info: [AtomicU64; 16],
    /// The registers afterwards, in the order of a signal frame.
    pub(crate) registers: [AtomicU64; 18],
}

/// What the threads of a process share.
pub(crate) struct Process {
    /// The program's signal actions, by number.
    pub(crate) actions: Lock<[Action; 65]>,
    /// The program's limits that differ from the real ones.
    pub(crate) limits: Lock<OwnLimits>,
    /// Signals that the program ignores, as bits.
    pub(crate) ignored: AtomicU64,
    /// Its page of counters.
    pub(crate) page: AtomicUsize,
    /// Its number.
    pub(crate) pid: AtomicU32,
    /// Threads that live.
    pub(crate) threads: AtomicU32,
    /// Whether a call came from a virtual processor yet.
    pub(crate) in_guest: AtomicU32,
}

impl Process {
    /// A process that has done nothing.
    pub(crate) const fn new() -> Self {
        const DEFAULT: Action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
        Process {
            actions: Lock::new([DEFAULT; 65]),
            limits: Lock::new(OwnLimits::NONE),
            ignored: AtomicU64::new(0),
            page: AtomicUsize::new(0),
            pid: AtomicU32::new(0),
            threads: AtomicU32::new(1),
            in_guest: AtomicU32::new(0),
        }
    }

    /// Begins to count for the calling process on a page of its own.
    pub(crate) fn begin(&self) {
        let pid = sys::process_id();
        self.pid.store(pid, Ordering::Relaxed);
        self.page.store(counters::shared().claim(pid), Ordering::Relaxed);
        self.in_guest.store(0, Ordering::Relaxed);
    }

    /// Adds what was counted to the totals; the process ends now, or becomes another program.
    pub(crate) fn finish(&self) {
        counters::shared().finish(self.page.load(Ordering::Relaxed));
    }

    /// Its page of counters.
    pub(crate) fn counters(&self) -> &'static Page {
        counters::shared().page(self.page.load(Ordering::Relaxed))
    }

    /// The program's action for `signal`.
    pub(crate) fn action(&self, signal: u32) -> Action {
        self.actions.with(|actions| actions.get(signal as usize).copied().unwrap_or_default())
    }
}

/// A thread's record, at the start of its block.
#[repr(C, align(64))]
pub(crate) struct Thread {
    pub(crate) state: AtomicU32,
    /// A virtual processor that was given to it while it waited, plus one.
    pub(crate) granted: AtomicU32,
    /// The next in the queue for a virtual processor.
    pub(crate) next: AtomicU64,
    /// Not 0 while a caught signal waits.
    pub(crate) pending: AtomicU32,
    /// Not 0 when it shall give its virtual processor to another.
    pub(crate) yielding: AtomicU32,
    /// Signals of the runner's own that are on their way to it, and whether one has come during a call.
    pub(crate) interrupters: AtomicU32,
    pub(crate) interrupted: AtomicU32,
    /// What its virtual processor shares; null while it has none.
    pub(crate) shared: AtomicPtr<kvm_run>,
    /// Its number.
    pub(crate) id: AtomicU32,
    /// Its virtual processor; -1 is none.
    pub(crate) vcpu: AtomicI32,
    pub(crate) caught: Caught,
    pub(crate) stepping: Stepping,
    pub(crate) registers: Cell<kvm_regs>,
    pub(crate) ring: Cell<Ring>,
    pub(crate) signal_stack: Cell<SignalStack>,
    /// The mask that the interrupted call had set for its own duration.
    pub(crate) call_mask: Cell<Option<u64>>,
    /// Exits in a row without a system call, and where they began.
    pub(crate) stuck: Cell<(u64, u32)>,
    pub(crate) backoff: Backoff,
    pub(crate) block: Block,
    /// Of a protected program's thread: its part of the record.
    pub(crate) slot: Cell<Option<&'static Slot>>,
    process: Cell<&'static Process>,
    place: Cell<&'static Place>,
    /// What its host thread does for the rest of its life, once it has begun.
    pub(crate) live: fn(&'static Thread) -> !,
    pub(crate) saved: UnsafeCell<Saved>,
    /// Room for a process of its own, which the child of a vfork is.
    own_process: UnsafeCell<Process>,
}

// SAFETY: cells belong to the host thread that the record is of. Before it begins they belong to whoever makes it, and
// `saved` belongs, while the state is `Losing`, to whoever has set that; both hand over by a release and an acquire.
unsafe impl Sync for Thread {}

const _: () = assert!(size_of::<Thread>() <= 16 << 10 && size_of::<kvm_xsave>() >= EXTENDED_STATE);

static MAKING: Lock<()> = Lock::new(());

/// A block of its own for a host thread that is none of the program's.
pub(crate) fn take_block() -> Result<Block, Errno> {
    MAKING.with(|()| ARENA.take_block())
}

/// In the child of a fork, nobody takes a block.
pub(crate) fn forget_holder() {
    MAKING.forget_holder();
}

impl Thread {
    /// A record in a block of its own, for a thread of `process` that does not run yet and will `live`.
    pub(crate) fn new(process: &'static Process, live: fn(&'static Thread) -> !) -> Result<&'static Thread, Errno> {
        let block = take_block()?;
        let record = ptr::with_exposed_provenance_mut::<Thread>(block.start as usize);
        let thread = Thread {
            state: AtomicU32::new(State::Running as u32),
            granted: AtomicU32::new(0),
            next: AtomicU64::new(0),
            pending: AtomicU32::new(0),
            yielding: AtomicU32::new(0),
            interrupters: AtomicU32::new(0),
            interrupted: AtomicU32::new(0),
            shared: AtomicPtr::new(ptr::null_mut()),
            id: AtomicU32::new(0),
            vcpu: AtomicI32::new(NO_VCPU),
            caught: Caught::default(),
            stepping: Stepping::default(),
            registers: Cell::new(kvm_regs::default()),
            ring: Cell::new(Ring::Program),
            signal_stack: Cell::new(SignalStack::NONE),
            call_mask: Cell::new(None),
            stuck: Cell::new((0, 0)),
            backoff: Backoff::default(),
            block,
            slot: Cell::new(None),
            process: Cell::new(process),
            place: Cell::new(&process.counters().places[PLACES - 1]),
            live,
            saved: UnsafeCell::new(Saved { extended: kvm_xsave::default(), fs: 0, gs: 0, valid: false }),
            own_process: UnsafeCell::new(Process::new()),
        };
        // SAFETY: the block was just taken, so nobody else uses it; it is readable, writable, aligned and large enough.
        unsafe {
            record.write(thread);
            Ok(&*record)
        }
    }

    /// A record for the child of a vfork: a process of its own with a copy of its parent's actions and limits, and a page of counters.
    pub(crate) fn of_new_process(parent: &Thread) -> Result<&'static Thread, Errno> {
        let thread = Thread::new(parent.process(), parent.live)?;
        let parent = parent.process();
        // SAFETY: the record was just made, nobody else knows it, and it lives as long as its block is taken, which is
        // longer than the child runs on it.
        let process: &'static Process = unsafe { &*thread.own_process.get() };
        process.actions.with(|actions| *actions = parent.actions.with(|actions| *actions));
        process.limits.with(|limits| *limits = parent.limits.with(|limits| *limits));
        process.ignored.store(parent.ignored.load(Ordering::Relaxed), Ordering::Relaxed);
        thread.process.set(process);
        Ok(thread)
    }

    /// The record of the calling host thread, which must run on a stack or signal stack of the runner's.
    pub(crate) fn current() -> &'static Thread {
        let stack: u64;
        // SAFETY: reads a register.
        unsafe { asm!("mov {}, rsp", out(reg) stack, options(nomem, nostack)) };
        let record = ptr::with_exposed_provenance::<Thread>((stack & !(BLOCK - 1)) as usize);
        // SAFETY: blocks lie on multiples of their size and begin with a record, which lives longer than its thread.
        unsafe { &*record }
    }

    /// The stack on which the host's signals come: frames of the host must not depend on where a thread's own stack is.
    #[inline]
    pub(crate) fn host_stack(&self) -> SignalStack {
        let Range { start, end } = self.block.signal_stack();
        SignalStack { start, flags: 0, bytes: end - start }
    }

    /// Its process.
    pub(crate) fn process(&self) -> &'static Process {
        self.process.get()
    }

    /// The counters of its process.
    pub(crate) fn tally(&self) -> &'static Tally {
        &self.process().counters().tally
    }

    /// Counts one more.
    pub(crate) fn count(&self, what: Count) {
        self.tally().add(what, 1);
    }

    /// Takes a free place on the page of its process, by its own number.
    pub(crate) fn settle(&self) {
        let id = sys::thread_id();
        self.id.store(id, Ordering::Relaxed);
        let places = &self.process().counters().places;
        let free =
            |place: &&'static Place| place.thread.compare_exchange(0, id, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.place.set(places.iter().find(free).unwrap_or(&places[PLACES - 1]));
    }

    /// Leaves its place to another thread.
    pub(crate) fn leave_place(&self) {
        self.place.get().thread.store(0, Ordering::Release);
    }

    /// Notes what it does, for whoever asks why nothing continues.
    pub(crate) fn note(&self, doing: Doing, number: u64) {
        let place = self.place.get();
        place.number.store(number, Ordering::Relaxed);
        place.rip.store(self.registers.get().rip, Ordering::Relaxed);
        place.doing.store(doing as u32, Ordering::Relaxed);
    }

    /// Changes the registers that the program sees.
    pub(crate) fn change(&self, change: impl FnOnce(&mut kvm_regs)) {
        let mut registers = self.registers.get();
        change(&mut registers);
        self.registers.set(registers);
    }

    /// Sets its state.
    pub(crate) fn enter_state(&self, state: State) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// Moves from one state to another, unless another thread was faster.
    pub(crate) fn change_state(&self, from: State, to: State) -> bool {
        self.state.compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The state in addition to the general registers, while it has no virtual processor.
    ///
    /// # Safety
    /// The calling thread is the record's own, or has set its state to `Losing`, or makes it.
    #[expect(clippy::mut_from_ref, reason = "one owner at a time, by the contract")]
    pub(crate) unsafe fn saved(&self) -> &mut Saved {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.saved.get() }
    }
}

/// The value of a record's `vcpu` when it has none.
pub(crate) const NO_VCPU: i32 = -1;

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread of the parent that was taking a block at the fork held the lock for ever: the child's first thread waited without end.
    #[test]
    fn nobody_takes_a_block_in_the_child_of_a_fork() {
        let free = MAKING.with(|()| {
            forget_holder();
            MAKING.with(|()| true)
        });
        assert!(free);
    }
}
