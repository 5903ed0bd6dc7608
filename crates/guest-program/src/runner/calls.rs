//! System calls of the program: most go to the host unchanged; some are about what the runner keeps for the program.
//!
//! Each is decided by its number in one place, [`carry_out`]; what is not named there is forwarded. The parts:
//! - `memory`: the break, and mappings that must not hit the runner's own.
//! - `files`: descriptor numbers that belong to the runner, and `/proc/self/exe`.
//! - `limits`: limits that the runner has raised for its own needs.
//! - `processes`: threads, forks, and the programs that follow.

pub(crate) mod files;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod processes;

use crate::runner::counters;
use crate::runner::fatal;
use crate::runner::kvm;
use crate::runner::pool;
use crate::runner::signals::{self, AGAIN};
use crate::runner::sys::Errno;
use crate::runner::thread::Thread;
use crate::runner::user;
use crate::shared::Refused;
use std::sync::atomic::Ordering;

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;
/// `io_pgetevents`, which libc does not name.
const SYS_IO_PGETEVENTS: i64 = 333;
/// Bytes of the `syscall` instruction.
const INSTRUCTION: u64 = 2;

/// What a call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A result, or a negative error number.
    Returns(i64),
    /// The program makes the call again, after the handler of a signal.
    Repeats,
    /// The program's registers were replaced.
    Jumped,
}

impl From<Result<u64, Errno>> for Outcome {
    fn from(result: Result<u64, Errno>) -> Self {
        Outcome::Returns(result.map_or_else(Errno::result, u64::cast_signed))
    }
}

/// Refuses a call.
pub(crate) fn refuse(errno: i32) -> Outcome {
    Outcome::Returns(-i64::from(errno))
}

/// Refuses a call by name: whoever started the program is told.
pub(crate) fn refuse_by_name(what: Refused, detail: u64, errno: i32) -> Outcome {
    counters::shared().refuse(what, detail);
    refuse(errno)
}

/// Carries out the call that `thread` has just made.
pub(crate) fn carry_out(thread: &'static Thread) {
    let registers = thread.registers.get();
    let number = registers.rax;
    let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
    // A signal that was caught before the call begins comes first, as natively.
    let outcome = if thread.pending.load(Ordering::SeqCst) == 0 {
        thread.tally().call(number);
        dispatch(thread, number, arguments)
    } else {
        Outcome::Repeats
    };
    match outcome {
        Outcome::Returns(result) => thread.change(|registers| registers.rax = result.cast_unsigned()),
        Outcome::Repeats => thread.change(|registers| {
            (registers.rip, registers.rax) = (registers.rip.wrapping_sub(INSTRUCTION), number);
        }),
        Outcome::Jumped => {}
    }
}

/// Has the host carry the call out.
pub(crate) fn forward(thread: &'static Thread, number: u64, arguments: &[u64; 6]) -> Outcome {
    match signals::forward(thread, number, arguments) {
        AGAIN => Outcome::Repeats,
        result => Outcome::Returns(result),
    }
}

fn dispatch(thread: &'static Thread, number: u64, arguments: [u64; 6]) -> Outcome {
    let [a, b, c, d, e, _] = arguments;
    match number.cast_signed() {
        libc::SYS_arch_prctl => thread_bases(thread, a, b).into(),
        libc::SYS_rt_sigaction => signals::action(thread, arguments).into(),
        libc::SYS_rt_sigreturn => go_back(thread),
        libc::SYS_sigaltstack => signals::set_stack(thread, a, b).into(),
        libc::SYS_rt_sigsuspend => with_mask(thread, number, &arguments, Some(a)),
        libc::SYS_ppoll => with_mask(thread, number, &arguments, Some(d)),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => with_mask(thread, number, &arguments, Some(e)),
        libc::SYS_pselect6 | SYS_IO_PGETEVENTS => with_indirect_mask(thread, number, &arguments),

        libc::SYS_brk => memory::set_break(a),
        libc::SYS_mmap => memory::map(thread, &arguments),
        libc::SYS_mremap => memory::remap(thread, &arguments),
        libc::SYS_shmat => memory::attach(thread, &arguments),
        libc::SYS_munmap => memory::unmap(thread, &arguments),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect | libc::SYS_madvise => memory::change(thread, number, &arguments),
        libc::SYS_pkey_alloc => refuse(libc::ENOSPC),

        libc::SYS_close => files::close(thread, &arguments),
        libc::SYS_close_range => files::close_range(thread, &arguments),
        libc::SYS_dup2 | libc::SYS_dup3 => files::duplicate_to(thread, number, &arguments),
        libc::SYS_readlink | libc::SYS_readlinkat => files::read_link(thread, number, &arguments),
        libc::SYS_getdents64 => files::list(thread, &arguments),

        libc::SYS_getrlimit => limits::get(thread, a, b).into(),
        libc::SYS_setrlimit => limits::set(thread, a, b).into(),
        libc::SYS_prlimit64 => limits::get_and_set(thread, &arguments),

        libc::SYS_clone => processes::clone(thread, arguments),
        libc::SYS_fork => processes::fork_plainly(thread),
        libc::SYS_vfork => processes::vfork_plainly(thread),
        libc::SYS_execve => processes::execute(thread, libc::AT_FDCWD, [a, b, c], 0),
        libc::SYS_execveat => processes::execute(thread, descriptor(a), [b, c, d], e),
        libc::SYS_exit => processes::end_thread(thread, a),
        libc::SYS_exit_group => processes::end_process(thread, a),

        libc::SYS_prctl => control(thread, &arguments),
        libc::SYS_seccomp => refuse_by_name(Refused::Seccomp, a, libc::EINVAL),
        libc::SYS_ptrace => refuse_by_name(Refused::Ptrace, a, libc::EPERM),
        libc::SYS_clone3 | libc::SYS_rseq | libc::SYS_modify_ldt | libc::SYS_iopl | libc::SYS_ioperm => {
            refuse(libc::ENOSYS)
        }
        _ => files::forward(thread, number, arguments),
    }
}

/// A descriptor number in a register: the kernel looks at 32 bits.
pub(crate) fn descriptor(value: u64) -> i32 {
    (value as u32).cast_signed()
}

/// `arch_prctl`.
fn thread_bases(thread: &Thread, what: u64, value: u64) -> Result<u64, Errno> {
    let vcpu = pool::fd_of(thread);
    let mut special = kvm::special_registers(vcpu).unwrap_or_else(|failed| fatal::end(failed.into()));
    match what {
        ARCH_SET_FS | ARCH_SET_GS if value >> 47 != 0 => return Err(Errno(libc::EPERM)),
        ARCH_SET_FS => special.fs.base = value,
        ARCH_SET_GS => special.gs.base = value,
        ARCH_GET_FS => return user::write_words(thread.process(), value, &[special.fs.base]).map(|()| 0),
        ARCH_GET_GS => return user::write_words(thread.process(), value, &[special.gs.base]).map(|()| 0),
        _ => return Err(Errno(libc::EINVAL)),
    }
    kvm::set_special_registers(vcpu, &special).unwrap_or_else(|failed| fatal::end(failed.into()));
    Ok(0)
}

/// `rt_sigreturn`.
fn go_back(thread: &Thread) -> Outcome {
    if !signals::go_back(thread) {
        signals::deliver_kernel_fault(thread, libc::SIGSEGV, 0, 0);
    }
    Outcome::Jumped
}

/// A call that sets a signal mask for its own duration, which is at `mask`: a handler that interrupts it starts with that.
fn with_mask(thread: &'static Thread, number: u64, arguments: &[u64; 6], mask: Option<u64>) -> Outcome {
    let during = mask.filter(|mask| *mask != 0).and_then(|mask| user::read_words(thread.process(), mask).ok());
    let outcome = forward(thread, number, arguments);
    let interrupted = outcome == refuse(libc::EINTR) && thread.pending.load(Ordering::SeqCst) != 0;
    thread.call_mask.set(during.filter(|_| interrupted).map(|[during]| during));
    outcome
}

/// As [`with_mask`], where the sixth argument has the mask's address and length.
fn with_indirect_mask(thread: &'static Thread, number: u64, arguments: &[u64; 6]) -> Outcome {
    let mask = match arguments[5] {
        0 => None,
        pair => user::read_words::<2>(thread.process(), pair).ok().map(|[mask, _]| mask),
    };
    with_mask(thread, number, arguments, mask)
}

/// `prctl`: what would change how the runner's own calls or clock work is refused.
fn control(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    const PR_SET_SECCOMP: u64 = libc::PR_SET_SECCOMP as u64;
    const PR_SET_TSC: u64 = libc::PR_SET_TSC as u64;
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    match arguments[0] {
        PR_SET_SECCOMP => refuse_by_name(Refused::Seccomp, arguments[1], libc::EINVAL),
        what @ (PR_SET_TSC | PR_SET_SYSCALL_USER_DISPATCH) => {
            refuse_by_name(Refused::ThreadControl, what, libc::EINVAL)
        }
        _ => forward(thread, libc::SYS_prctl.cast_unsigned(), arguments),
    }
}
