//! Threads of other processes that are stopped, asked to carry out a system call, and let go, by `ptrace(2)`.
//!
//! A tracer is one thread: what it has seized, nobody else can stop, and the kernel kills what it traces when it ends. Programs are
//! started here so that they are traced from their first instruction on, with all threads and processes that they make.

use crate::affinity;
use crate::calls::{checked, new_descriptor, was_interrupted};
use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::Duration;

/// The kernel's numbers of stops (`linux/ptrace.h`).
const EVENT_STOP: i32 = 128;
/// Bytes of the instruction SYSCALL.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// What a traced thread has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It stopped because it was interrupted, or because it is new.
    Interrupted,
    /// Its process was stopped by a signal such as SIGSTOP.
    Group,
    /// It is about to get a signal.
    Signal(i32),
    /// It made a thread or a process.
    Made,
    /// It made a process that runs in its memory, and waits until that has executed a program or ended.
    Lent,
    /// It has its memory back.
    Returned,
    /// Its process executes another program; all its other threads are gone.
    Executed,
    /// It is gone, with this exit code.
    Exited(i32),
    /// A signal has ended it.
    Killed(i32),
}

/// A thread and what it has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The thread.
    pub thread: i32,
    /// What happened.
    pub stop: Stop,
}

/// One request that takes numbers alone.
fn request(what: libc::c_uint, thread: i32, data: usize) -> io::Result<()> {
    // SAFETY: none of the requests that this file makes through here reads or writes memory of this process.
    checked(unsafe { libc::ptrace(what, thread, ptr::null_mut::<libc::c_void>(), data) }).map(drop)
}

/// Asks a thread to stop.
///
/// # Errors
/// What `ptrace(2)` gives; ESRCH for one that is gone.
pub fn interrupt(thread: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, thread, 0)
}

/// Lets a stopped thread go on, with a signal; 0 for none.
///
/// # Errors
/// What `ptrace(2)` gives; ESRCH for one that was killed.
pub fn resume(thread: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, thread, usize::try_from(signal).unwrap_or(0))
}

/// Leaves a thread stopped whose process was stopped by a signal, until it gets SIGCONT.
///
/// # Errors
/// What `ptrace(2)` gives.
pub fn leave_stopped(thread: i32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, thread, 0)
}

/// The next event of a traced thread; `None` when there is none yet and `wait` is false.
///
/// # Errors
/// What `waitpid(2)` gives; ECHILD when no thread is left.
pub fn next_event(wait: bool) -> io::Result<Option<Event>> {
    loop {
        let mut status = 0;
        let options = libc::__WALL | if wait { 0 } else { libc::WNOHANG };
        // SAFETY: `status` lives through the call.
        let thread = unsafe { libc::waitpid(-1, &raw mut status, options) };
        match thread {
            0 => return Ok(None),
            -1 => was_interrupted()?,
            _ => {
                if let Some(stop) = stop_of(status) {
                    return Ok(Some(Event { thread, stop }));
                }
            }
        }
    }
}

fn stop_of(status: i32) -> Option<Stop> {
    if libc::WIFEXITED(status) {
        return Some(Stop::Exited(libc::WEXITSTATUS(status)));
    }
    if libc::WIFSIGNALED(status) {
        return Some(Stop::Killed(libc::WTERMSIG(status)));
    }
    if !libc::WIFSTOPPED(status) {
        return None;
    }
    let signal = libc::WSTOPSIG(status);
    Some(match status >> 16 {
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_CLONE => Stop::Made,
        libc::PTRACE_EVENT_VFORK => Stop::Lent,
        libc::PTRACE_EVENT_VFORK_DONE => Stop::Returned,
        libc::PTRACE_EVENT_EXEC => Stop::Executed,
        EVENT_STOP if matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => Stop::Group,
        _ => Stop::Interrupted,
    })
}

/// Events of children, as a descriptor that can be waited for together with another one.
#[derive(Debug)]
pub struct ChildSignals {
    descriptor: OwnedFd,
    /// The mask of this thread before, which programs that it starts get.
    before: libc::sigset_t,
}

impl ChildSignals {
    /// Blocks SIGCHLD in this thread and in those that it starts from now on. To be called before any other thread is started.
    ///
    /// # Errors
    /// What `signalfd(2)` gives.
    pub fn watch() -> io::Result<ChildSignals> {
        // SAFETY: all zeros are an empty set on Linux; the sets live through the calls, and the descriptor is new and nobody else's.
        unsafe {
            let (mut set, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
            libc::sigaddset(&raw mut set, libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            let opened = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            Ok(ChildSignals { descriptor: new_descriptor(opened)?, before })
        }
    }

    /// Sleeps until a child has an event, `other` can be read, or `limit` has passed.
    ///
    /// # Errors
    /// What `ppoll(2)` gives.
    pub fn sleep(&self, other: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
        let poll = |descriptor: i32| libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        let mut polled = [poll(self.descriptor.as_raw_fd()), poll(other.as_raw_fd())];
        let limit = libc::timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // SAFETY: two entries and the time live through the call.
        let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), 2, &raw const limit, ptr::null()) };
        if let Err(why) = checked(ready)
            && why.kind() != io::ErrorKind::Interrupted
        {
            return Err(why);
        }
        let mut taken = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        // SAFETY: as many bytes are written as the place has. The descriptor does not block; what is read is of no interest.
        unsafe {
            let length = size_of::<libc::signalfd_siginfo>();
            libc::read(self.descriptor.as_raw_fd(), taken.as_mut_ptr().cast(), length);
        }
        Ok(())
    }

    /// Starts a program, found along the search path, on these CPUs (none for those of this thread), with this process's streams, folder
    /// and environment, and traces it from its first instruction. The kernel kills it, and all that it starts, when this thread ends. A program that cannot be executed exits with the
    /// error's number before any [`Stop::Executed`].
    ///
    /// # Errors
    /// What `fork(2)` and `ptrace(2)` give; a word with a zero byte.
    pub fn start(&self, argv: &[CString], cpus: &[usize]) -> io::Result<i32> {
        let mut words: Vec<*const libc::c_char> = argv.iter().map(|word| word.as_ptr()).collect();
        let program = *words.first().ok_or(io::ErrorKind::InvalidInput)?;
        words.push(ptr::null());
        let (go, going) = io::pipe()?;
        // SAFETY: between fork and exec the child makes async-signal-safe calls alone, with what was made before.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // The child's own copy of the writing end would keep it waiting if this process died.
            // SAFETY: as above; `words` ends in a null pointer, and each word in a zero byte.
            unsafe {
                libc::close(going.as_raw_fd());
                let mut byte = 0_u8;
                if libc::read(go.as_raw_fd(), ptr::from_mut(&mut byte).cast(), 1) == 1 {
                    libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
                    // Rust ignores SIGPIPE; programs do not expect that.
                    libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                    libc::execvp(program, words.as_ptr());
                    libc::_exit(*libc::__errno_location());
                }
                libc::_exit(libc::EIO);
            }
        }
        checked(child)?;
        let options = libc::PTRACE_O_EXITKILL
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACEVFORKDONE
            | libc::PTRACE_O_TRACEEXEC;
        drop(go);
        request(libc::PTRACE_SEIZE, child, usize::try_from(options).unwrap_or(0))?;
        if !cpus.is_empty() {
            affinity::restrict(child, &affinity::set_of(cpus)?)?;
        }
        io::Write::write_all(&mut &going, &[1])?;
        Ok(child)
    }
}

/// Where the kernel's own page of code has a SYSCALL instruction, from its beginning: it is the same in every 64-bit process.
///
/// # Errors
/// Where there is no such page, or no such instruction in it.
pub fn syscall_in_vdso() -> io::Result<u64> {
    let missing = || io::Error::new(io::ErrorKind::Unsupported, "the vDSO of this kernel has no SYSCALL instruction");
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let (start, end) = maps.lines().find_map(vdso_of).ok_or_else(missing)?;
    let length = usize::try_from(end - start).map_err(io::Error::other)?;
    let mut code = vec![0; length];
    let memory = std::fs::File::open("/proc/self/mem")?;
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut code, start)?;
    let at = code.windows(2).position(|bytes| bytes == SYSCALL).ok_or_else(missing)?;
    Ok(at as u64)
}

/// Start and end of the vDSO in a line of `/proc/PID/maps`.
#[must_use]
pub fn vdso_of(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    if rest.ends_with("[vdso]") { number(start).zip(number(end)) } else { None }
}

/// Has a stopped thread carry out a system call at a SYSCALL instruction of its own memory, and puts its registers back. Signals that
/// come meanwhile are sent again.
///
/// The thread must have stopped by [`Stop::Interrupted`] or [`Stop::Signal`].
///
/// # Errors
/// What the call gives, or `ptrace(2)`.
pub fn call(thread: i32, instruction: u64, number: i64, arguments: [u64; 3]) -> io::Result<u64> {
    let saved = registers(thread)?;
    let [rdi, rsi, rdx] = arguments;
    let changed = libc::user_regs_struct {
        rip: instruction,
        rax: number.cast_unsigned(),
        // So that the kernel does not take the call in which the thread was interrupted for this one.
        orig_rax: u64::MAX,
        rdi,
        rsi,
        rdx,
        ..saved
    };
    let result = set_registers(thread, &changed).and_then(|()| step(thread));
    let after = registers(thread);
    set_registers(thread, &saved)?;
    result?;
    let value = after?.rax;
    // Error numbers are the last page below zero.
    match -value.cast_signed() {
        error @ 1..=4095 => Err(io::Error::from_raw_os_error(i32::try_from(error).unwrap_or(libc::EIO))),
        _ => Ok(value),
    }
}

/// Executes one instruction of a stopped thread.
fn step(thread: i32) -> io::Result<()> {
    let mut late = Vec::new();
    let stepped = loop {
        if let Err(why) = request(libc::PTRACE_SINGLESTEP, thread, 0) {
            break Err(why);
        }
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        if let Err(why) = checked(unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) }) {
            break Err(why);
        }
        match stop_of(status) {
            Some(Stop::Signal(libc::SIGTRAP)) => break Ok(()),
            Some(Stop::Signal(signal)) => late.push(signal),
            Some(Stop::Interrupted) => {}
            _ => break Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    for signal in late {
        // SAFETY: sends a signal that was taken above; touches no memory.
        unsafe { libc::syscall(libc::SYS_tkill, thread, signal) };
    }
    stepped
}

fn registers(thread: i32) -> io::Result<libc::user_regs_struct> {
    let mut registers = MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: the kernel writes just this structure.
    unsafe {
        checked(libc::ptrace(libc::PTRACE_GETREGS, thread, ptr::null_mut::<libc::c_void>(), registers.as_mut_ptr()))?;
        Ok(registers.assume_init())
    }
}

fn set_registers(thread: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    // SAFETY: the kernel reads just this structure.
    checked(unsafe {
        libc::ptrace(libc::PTRACE_SETREGS, thread, ptr::null_mut::<libc::c_void>(), ptr::from_ref(registers))
    })
    .map(drop)
}

/// A descriptor of another process, as one of this one.
///
/// # Errors
/// What `pidfd_open(2)` and `pidfd_getfd(2)` give.
pub fn take_descriptor(process: i32, descriptor: u64) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers alone; the descriptor that it makes is nobody else's.
    let of = unsafe { new_descriptor(libc::syscall(libc::SYS_pidfd_open, process, 0)) }?;
    // SAFETY: as above.
    unsafe { new_descriptor(libc::syscall(libc::SYS_pidfd_getfd, of.as_raw_fd(), descriptor, 0)) }
}
