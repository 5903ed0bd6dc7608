//! Threads, forks, vforks, programs that follow, and ends.
//!
//! A thread is a host thread made by the program's own `clone` flags, so the kernel keeps its number, its tid pointers and
//! its robust list as for any program. The child of a fork opens a virtual machine over its copy of the memory. The child
//! of a vfork shares memory and machine, and continues with its parent's virtual processor, which waits in the kernel.

use crate::options::{Line, RUNNER_NAME};
use crate::runner::arena::{ARENA, Block};
use crate::runner::backing;
use crate::runner::calls::outcome::{Outcome, refuse, refuse_by_name};
use crate::runner::calls::own::{self, Named};
use crate::runner::calls::{files, limits, memory};
use crate::runner::checkpoint;
use crate::runner::config::CONFIG;
use crate::runner::counters;
use crate::runner::descriptors::DESCRIPTORS;
use crate::runner::fatal;
use crate::runner::handler;
use crate::runner::machine::MACHINE;
use crate::runner::poller;
use crate::runner::pool;
use crate::runner::program::{self, Found, Unfit};
use crate::runner::signals;
use crate::runner::sys::{self, Errno, Mapping, descriptor};
use crate::runner::thread::{self, NO_VCPU, Process, State, Thread};
use crate::runner::user;
use crate::shared::{Count, UnsupportedKind};
use crate::snapshot::Reason;
use std::arch::global_asm;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

// `clone` onto another stack: RDI flags, RSI stack, RDX and RCX tid pointers, R8 the first function of the child, which does
// not return. Only the parent comes back.
global_asm!(
    ".globl baremark_guest_clone",
    "baremark_guest_clone:",
    "mov r10, rcx",
    "mov r9, r8",
    "xor r8d, r8d",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "ret",
    "2:",
    "xor ebp, ebp",
    "call r9",
    "ud2",
);

// The end of a thread that gives back the stack it runs on: RDI status, RSI the word of its block, EDX the other bits.
global_asm!(
    ".globl baremark_guest_exit",
    "baremark_guest_exit:",
    "mov eax, 60",
    "lock and dword ptr [rsi], edx",
    "syscall",
    "ud2",
);

unsafe extern "C" {
    fn baremark_guest_clone(
        flags: u64,
        stack: u64,
        parent_tid: u64,
        child_tid: u64,
        first: extern "C" fn() -> !,
    ) -> i64;
    fn baremark_guest_exit(status: u64, word: u64, others: u32) -> !;
}

const CLONE_VM: u64 = libc::CLONE_VM as u64;
const CLONE_FILES: u64 = libc::CLONE_FILES as u64;
const CLONE_THREAD: u64 = libc::CLONE_THREAD as u64;
const CLONE_VFORK: u64 = libc::CLONE_VFORK as u64;
const CLONE_SETTLS: u64 = libc::CLONE_SETTLS as u64;
const EXIT_SIGNAL: u64 = libc::SIGCHLD as u64;
const AT_EMPTY_PATH: u64 = libc::AT_EMPTY_PATH as u64;
/// The most arguments of a program that are passed on: as many pointers as the kernel's limit has room for.
const MOST_ARGUMENTS: u64 = 1 << 20;

/// What a `clone` requests.
#[derive(Clone, Copy, Debug)]
struct Request {
    flags: u64,
    stack: u64,
    parent_tid: u64,
    child_tid: u64,
    tls: u64,
}

/// `clone`.
pub(crate) fn clone(thread: &'static Thread, [flags, stack, parent_tid, child_tid, tls, _]: [u64; 6]) -> Outcome {
    let request = Request { flags, stack, parent_tid, child_tid, tls };
    if flags & CLONE_THREAD != 0 {
        begin_thread(thread, request)
    } else if flags & CLONE_VM == 0 {
        fork(thread, request)
    } else if flags & CLONE_VFORK != 0 {
        vfork(thread, request)
    } else {
        refuse_by_name(UnsupportedKind::MemorySharingProcess, flags, libc::ENOSYS)
    }
}

/// `fork`.
pub(crate) fn fork_plainly(thread: &'static Thread) -> Outcome {
    fork(thread, Request { flags: EXIT_SIGNAL, stack: 0, parent_tid: 0, child_tid: 0, tls: 0 })
}

/// `vfork`.
pub(crate) fn vfork_plainly(thread: &'static Thread) -> Outcome {
    let flags = CLONE_VM | CLONE_VFORK | EXIT_SIGNAL;
    vfork(thread, Request { flags, stack: 0, parent_tid: 0, child_tid: 0, tls: 0 })
}

/// The state with which a new thread or process goes on behind the call, in `child`'s record.
fn inherit(thread: &Thread, child: &Thread, request: Request) {
    if let Err(error) = pool::save(thread) {
        fatal::end(error);
    }
    // SAFETY: the calling thread owns its own record, and makes the other.
    let (own, other) = unsafe { (thread.saved(), child.saved()) };
    other.extended.region = own.extended.region;
    (other.gs, other.valid) = (own.gs, true);
    other.fs = if request.flags & CLONE_SETTLS != 0 { request.tls } else { own.fs };
    let mut registers = thread.registers.get();
    registers.rax = 0;
    if request.stack != 0 {
        registers.rsp = request.stack;
    }
    child.registers.set(registers);
}

/// A thread of the same process.
fn begin_thread(thread: &'static Thread, request: Request) -> Outcome {
    let child = match Thread::new(thread.process(), thread.live) {
        Ok(child) => child,
        Err(_) => return refuse(libc::EAGAIN),
    };
    let (request, id) = match number(thread, child, request) {
        Ok(numbered) => numbered,
        Err(outcome) => {
            free(child);
            return outcome;
        }
    };
    inherit(thread, child, request);
    let mask = signals::take_mask(thread);
    child.caught.mask.store(mask, Ordering::Relaxed);
    thread.process().threads.fetch_add(1, Ordering::AcqRel);
    let Request { flags, parent_tid, child_tid, .. } = request;
    // SAFETY: the new thread runs on the stack of its own block, and shares everything else as the program requests.
    // Without CLONE_SETTLS it has the thread pointer of this one, which all threads of the runner share.
    let result = unsafe {
        let stack = child.block.stack_top();
        baremark_guest_clone(flags & !CLONE_SETTLS, stack, parent_tid, child_tid, live_as_thread)
    };
    if result < 0 {
        thread.process().threads.fetch_sub(1, Ordering::AcqRel);
        checkpoint::forget(child);
        free(child);
    } else {
        thread.count(Count::Threads);
    }
    signals::give_mask(thread, mask);
    Outcome::Returns(id.filter(|_| result >= 0).map_or(result, i64::from))
}

/// A thread of a protected program has a number of our own, which survives a failover; the kernel is not asked to write its own one. Gives
/// the request without that, and the number.
fn number(thread: &Thread, child: &Thread, mut request: Request) -> Result<(Request, Option<u32>), Outcome> {
    const PARENT: u64 = libc::CLONE_PARENT_SETTID as u64;
    const CHILD: u64 = libc::CLONE_CHILD_SETTID as u64;
    const CLEAR: u64 = libc::CLONE_CHILD_CLEARTID as u64;
    if !checkpoint::is_on() {
        return Ok((request, None));
    }
    let Ok(slot) = checkpoint::join(child, false) else {
        checkpoint::refuse(libc::SYS_clone.cast_unsigned(), Reason::Threads);
        return Err(refuse(libc::EAGAIN));
    };
    let id = slot.id.load(Ordering::Relaxed);
    for (flag, word) in [(PARENT, request.parent_tid), (CHILD, request.child_tid)] {
        if request.flags & flag != 0 && user::write_bytes(thread.process(), word, &id.to_ne_bytes()).is_err() {
            checkpoint::forget(child);
            return Err(refuse(libc::EFAULT));
        }
    }
    if request.flags & CLEAR != 0 {
        slot.clear_id.store(request.child_tid, Ordering::Relaxed);
    }
    request.flags &= !(PARENT | CHILD | CLEAR);
    Ok((request, Some(id)))
}

/// Begins a thread of a program that is continued, whose record has its state already.
pub(crate) fn begin_restored(thread: &'static Thread) -> Result<(), Errno> {
    let flags = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND;
    let flags = (flags | libc::CLONE_THREAD | libc::CLONE_SYSVSEM) as u64;
    thread.process().threads.fetch_add(1, Ordering::AcqRel);
    let mask = sys::mask_signals(sys::MaskChange::Block, sys::ALL_SIGNALS);
    // SAFETY: the new thread runs on the stack of its own block, and shares everything else, as threads of the program do.
    let result = unsafe { baremark_guest_clone(flags, thread.block.stack_top(), 0, 0, live_as_thread) };
    sys::mask_signals(sys::MaskChange::Set, mask);
    sys::checked(result).map(drop)
}

/// Gives back the block of a record that nobody uses.
fn free(thread: &Thread) {
    let Block { word, others, .. } = thread.block;
    thread.enter_state(State::Vacant);
    let word = ptr::with_exposed_provenance::<AtomicU32>(word as usize);
    // SAFETY: a word of the arena, which lives as long as the process.
    unsafe { &*word }.fetch_and(others, Ordering::AcqRel);
}

/// The first function of a thread's host thread, with all signals blocked.
extern "C" fn live_as_thread() -> ! {
    let thread = Thread::current();
    thread.settle();
    checkpoint::settle(thread);
    checkpoint::restore_robust_list(thread);
    handler::use_signal_stack(thread);
    pool::acquire(thread);
    signals::give_mask(thread, thread.caught.mask.load(Ordering::Relaxed));
    (thread.live)(thread)
}

/// A process with a copy of the memory.
fn fork(thread: &'static Thread, request: Request) -> Outcome {
    if let Err(error) = pool::save(thread) {
        fatal::end(error);
    }
    let mask = signals::take_mask(thread);
    let Request { flags, parent_tid, child_tid, .. } = request;
    let arguments = [flags & !CLONE_SETTLS, 0, parent_tid, child_tid, 0, 0];
    // SAFETY: the child has a copy of this stack and of everything else, and goes on here.
    let result = unsafe { sys::raw(libc::SYS_clone, arguments) };
    if result == 0 {
        become_child(thread, request);
    } else if result > 0 {
        thread.count(Count::Forks);
    }
    signals::give_mask(thread, mask);
    Outcome::Returns(result)
}

/// What the child of a fork does before it continues: nothing of its parent's machine is its own.
fn become_child(thread: &'static Thread, request: Request) {
    let began = sys::monotonic_ns();
    thread.pending.store(0, Ordering::SeqCst);
    thread.shared.store(ptr::null_mut(), Ordering::Release);
    thread.vcpu.store(NO_VCPU, Ordering::Relaxed);
    let process = thread.process();
    process.actions.forget_holder();
    process.threads.store(1, Ordering::Relaxed);
    memory::forget_holder();
    process.limits.forget_holder();
    files::forget_holder();
    thread::forget_holder();
    backing::begin_child();
    process.begin();
    ARENA.keep_only(thread.block);
    thread.settle();
    if request.flags & CLONE_FILES == 0 {
        DESCRIPTORS.close(MACHINE.vm.load(Ordering::Relaxed));
        pool::close_inherited();
    }
    limits::with_room(process, || open_machine(thread, request));
    count_image(thread, began);
}

/// A machine of the calling process's own, and a virtual processor of that for its thread.
fn open_machine(thread: &'static Thread, request: Request) {
    let opened = ARENA.renew_area().map_err(Into::into).and_then(|()| MACHINE.open());
    if let Err(error) = opened {
        fatal::end(error);
    }
    pool::begin(CONFIG.most_vcpus());
    // SAFETY: the calling thread is the record's own.
    let saved = unsafe { thread.saved() };
    if request.flags & CLONE_SETTLS != 0 {
        saved.fs = request.tls;
    }
    if request.stack != 0 {
        thread.change(|registers| registers.rsp = request.stack);
    }
    pool::acquire(thread);
    if let Err(errno) = poller::start(thread.process()) {
        fatal::end(errno.into());
    }
}

/// Counts one more image, which began at `began` and now enters the guest.
pub(crate) fn count_image(thread: &Thread, began: u64) {
    let took = sys::monotonic_ns().saturating_sub(began);
    thread.count(Count::Images);
    thread.tally().add(Count::StartNs, took);
    let shared = counters::shared();
    // Only the first image finds a zero.
    let _ = shared.first_start_ns.compare_exchange(0, took, Ordering::Relaxed, Ordering::Relaxed);
}

/// A process that shares this one's memory until it ends or executes another program.
fn vfork(thread: &'static Thread, request: Request) -> Outcome {
    let child = match Thread::of_new_process(thread) {
        Ok(child) => child,
        Err(_) => return refuse(libc::EAGAIN),
    };
    inherit(thread, child, request);
    let mask = signals::take_mask(thread);
    child.caught.mask.store(mask, Ordering::Relaxed);
    child.signal_stack.set(thread.signal_stack.get());
    // The child has the virtual processor now; nobody takes one from the parent, which has none.
    child.vcpu.store(thread.vcpu.swap(NO_VCPU, Ordering::AcqRel), Ordering::Relaxed);
    thread.shared.store(ptr::null_mut(), Ordering::Release);
    let Request { flags, parent_tid, child_tid, .. } = request;
    // SAFETY: as in `begin_thread`; this thread waits in the kernel until the child is gone.
    let result = unsafe {
        let stack = child.block.stack_top();
        baremark_guest_clone(flags & !CLONE_SETTLS, stack, parent_tid, child_tid, live_as_vforked)
    };
    pool::take_back(thread, child);
    if result > 0 {
        thread.count(Count::Vforks);
    }
    free(child);
    match usize::try_from(thread.vcpu.load(Ordering::Relaxed)) {
        Ok(index) => {
            if let Err(error) = pool::install(thread, index) {
                fatal::end(error);
            }
        }
        Err(_) => pool::acquire(thread),
    }
    signals::give_mask(thread, mask);
    Outcome::Returns(result)
}

/// The first function of a vfork's child, with all signals blocked.
extern "C" fn live_as_vforked() -> ! {
    let began = sys::monotonic_ns();
    let thread = Thread::current();
    thread.process().begin();
    thread.settle();
    handler::use_signal_stack(thread);
    let index = usize::try_from(thread.vcpu.load(Ordering::Relaxed)).unwrap_or(0);
    if let Err(error) = pool::install(thread, index) {
        fatal::end(error);
    }
    count_image(thread, began);
    signals::give_mask(thread, thread.caught.mask.load(Ordering::Relaxed));
    (thread.live)(thread)
}

/// `exit`: of one thread, and of the process with its last.
pub(crate) fn end_thread(thread: &'static Thread, status: u64) -> Outcome {
    sys::mask_signals(sys::MaskChange::Block, sys::ALL_SIGNALS);
    let process = thread.process();
    checkpoint::leave(thread);
    if process.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
        // Threads that are not the program's, KVM's and the one that polls, do not end by themselves.
        end_process(thread, status);
    }
    thread.leave_place();
    let own_process = !ptr::eq(process, CONFIG.process());
    if own_process {
        // The child of a vfork: its parent waits, and takes the virtual processor and the block back.
        sys::exit_group(descriptor(status));
    }
    pool::release(thread);
    let Block { word, others, .. } = thread.block;
    thread.enter_state(State::Vacant);
    // SAFETY: nothing on this thread's stack is used any more, whoever takes its block now.
    unsafe { baremark_guest_exit(status, word, others) }
}

/// `exit_group`.
pub(crate) fn end_process(thread: &Thread, status: u64) -> ! {
    poller::count_time(thread.process());
    backing::count(thread.process());
    thread.process().finish();
    sys::exit_group(descriptor(status))
}

/// `execve` and `execveat`: another runner takes this one's place, with the program's file open and its arguments as they
/// lie in the program's memory.
pub(crate) fn execute(
    thread: &'static Thread,
    folder: i32,
    [path, arguments, environment]: [u64; 3],
    flags: u64,
) -> Outcome {
    let process = thread.process();
    let mut name = [0u8; 4096];
    let read = user::read_some(process, path, &mut name);
    let Some(end) = name[..read].iter().position(|byte| *byte == 0) else {
        return refuse(if read < name.len() { libc::EFAULT } else { libc::ENAMETOOLONG });
    };
    let by_descriptor = Line::<32>::of(format_args!("/dev/fd/{folder}"));
    let (path, found) = if end == 0 && flags & AT_EMPTY_PATH != 0 {
        (by_descriptor.address(), program::of_descriptor(folder))
    } else {
        let path = match own::named(process, folder as u64, path) {
            Some(Named::Program) => files::program_address(),
            Some(Named::RunnersDescriptor) => return refuse(libc::ENOENT),
            _ => path,
        };
        (path, program::find(folder, path, flags))
    };
    match found {
        Ok(found) => {
            let outcome = replace(thread, &found, path, [arguments, environment]);
            sys::close(found.file);
            outcome
        }
        Err(Unfit::Errno(errno)) => refuse(errno.0),
        Err(Unfit::Refused(what, errno)) => refuse_by_name(what, path, errno.0),
    }
}

/// Executes a runner for `found`. Comes back only when that fails.
fn replace(thread: &'static Thread, found: &Found, path: u64, [arguments, environment]: [u64; 2]) -> Outcome {
    let process = thread.process();
    let list = match limits::with_room(process, || Arguments::read(process, arguments)) {
        Ok(list) => list,
        Err(errno) => return refuse(errno.0),
    };
    let mut options = CONFIG.options();
    options.program = Some(found.file);
    options.image = u32::try_from(process.page.load(Ordering::Relaxed)).ok();
    limits::tell(process, &mut options);
    let options_text = Line::<512>::of(options);
    let runner = Line::<32>::of(RUNNER_NAME);
    let list_address = list.put_before(found, [runner.address(), options_text.address(), path], path);
    thread.count(Count::Execs);
    poller::count_time(process);
    let inherited = [options.kvm, options.runner, options.counters, options.program];
    keep_open(inherited, true);
    handler::leave_to_next(process, true);
    let empty = c"".as_ptr() as u64;
    let arguments = [CONFIG.runner() as u64, empty, list_address, environment, AT_EMPTY_PATH, 0];
    // SAFETY: on success nothing of this process continues; the kernel checks every address.
    let result = unsafe { sys::raw(libc::SYS_execveat, arguments) };
    handler::leave_to_next(process, false);
    keep_open(inherited, false);
    Outcome::Returns(result)
}

/// Whether descriptors outlive an exec.
fn keep_open(descriptors: [Option<i32>; 4], keep: bool) {
    for fd in descriptors.into_iter().flatten() {
        // A descriptor that is there takes its flag.
        let _ = sys::fcntl(fd, libc::F_SETFD, if keep { 0 } else { libc::FD_CLOEXEC });
    }
}

/// A list of addresses of arguments, with room before it, in memory of its own.
struct Arguments {
    start: u64,
    bytes: u64,
}

/// Places before the program's own arguments: the runner's three, and those of scripts.
const ROOM: u64 = 3 + program::SCRIPT_ARGUMENTS as u64;
/// Addresses that are read at once.
const PART: usize = 256;

impl Arguments {
    /// The list at `from`, which ends with a 0.
    fn read(process: &Process, from: u64) -> Result<Self, Errno> {
        let bytes = ((ROOM + MOST_ARGUMENTS + 1) * 8).next_multiple_of(4096);
        let mapping = Mapping::anonymous(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_NORESERVE);
        // SAFETY: new memory where the kernel has room.
        let start = unsafe { sys::map(0, bytes, mapping) }?;
        let list = Arguments { start, bytes };
        let mut count = 0;
        if from == 0 {
            return Ok(list);
        }
        loop {
            let mut part = [0u8; PART * 8];
            let read = user::read_some(process, from + count * 8, &mut part);
            let words = part[..read].chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
            let mut ended = false;
            for word in words.take_while(|word| {
                ended = *word == 0;
                !ended
            }) {
                list.put(ROOM + count, word);
                count += 1;
            }
            match () {
                () if ended => break,
                () if count >= MOST_ARGUMENTS - PART as u64 => return Err(Errno(libc::E2BIG)),
                () if read < 8 => return Err(Errno(libc::EFAULT)),
                () => {}
            }
        }
        Ok(list)
    }

    /// Sets place `index`, of which the memory has room for `ROOM` and [`MOST_ARGUMENTS`] and one.
    fn put(&self, index: u64, word: u64) {
        assert!(index * 8 < self.bytes, "a place in the list");
        let place = ptr::with_exposed_provenance_mut::<u64>((self.start + index * 8) as usize);
        // SAFETY: inside the list's memory by the line above, which is nobody else's.
        unsafe { place.write(word) };
    }

    /// Puts the runner's arguments and those of scripts before the program's own, of which the path of a script replaces
    /// the first. Gives the address of the whole.
    fn put_before(&self, found: &Found, fixed: [u64; 3], path: u64) -> u64 {
        let scripts = found.scripts();
        let path = if scripts.is_empty() { None } else { Some(path) };
        let count = fixed.len() + scripts.len();
        let first = ROOM - count as u64;
        let words = fixed.into_iter().chain(scripts.iter().map(Line::address)).chain(path);
        (first..).zip(words).for_each(|(index, word)| self.put(index, word));
        self.start + first * 8
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        // SAFETY: the memory mapped in `read`; an exec that has failed does not use it any more.
        unsafe { sys::unmap(self.start, self.bytes) };
    }
}
