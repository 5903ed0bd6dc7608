//! System calls of the program: most go to the host unchanged; some are about what the runner keeps for the program.
//!
//! Each is held against the table of `signatures` and then decided by its number in one place, [`carry_out`]; what is not named there is forwarded.
//! The parts:
//! - `outcome`: what a call comes to, and a call that goes to the host unchanged.
//! - `memory`: the break, and mappings that must not hit the runner's own.
//! - `files`: descriptor numbers that belong to the runner, and paths.
//! - `own`: the process's own files in `/proc`, and copies between its memory and itself.
//! - `limits`: limits that the runner has raised for its own needs.
//! - `processes`: threads, forks, and the programs that follow.

pub(crate) mod files;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod outcome;
pub(crate) mod own;
pub(crate) mod processes;

use crate::runner::calls::outcome::{Outcome, forward, refuse, refuse_by_name};
use crate::runner::checkpoint;
use crate::runner::deadline;
use crate::runner::descriptors::DESCRIPTORS;
use crate::runner::fatal;
use crate::runner::handler;
use crate::runner::kvm;
use crate::runner::permitted;
use crate::runner::poller;
use crate::runner::pool;
use crate::runner::signals;
use crate::runner::signatures::{self, Wrong};
use crate::runner::sockets::{self, Answer};
use crate::runner::sys::{self, Errno, descriptor};
use crate::runner::thread::Thread;
use crate::runner::user;
use crate::shared::UnsupportedKind;
use crate::snapshot::{self, Reason, Slot};
use std::sync::atomic::Ordering;

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;
/// `io_pgetevents`, which libc does not name.
const SYS_IO_PGETEVENTS: i64 = 333;
/// Bytes of the `syscall` instruction.
const INSTRUCTION: u64 = 2;

/// Carries out the call that `thread` has just made.
pub(crate) fn carry_out(thread: &'static Thread) {
    let registers = thread.registers.get();
    let number = registers.rax;
    let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
    // A signal that was caught before the call begins comes first, as natively.
    let outcome = if thread.pending.load(Ordering::SeqCst) == 0 {
        thread.tally().call(number);
        poller::leave_alone(thread.process(), number, &arguments);
        wrong(thread, number, &arguments)
            .or_else(|| thread.slot.get().and_then(|slot| dispatch_protected(thread, slot, number, arguments)))
            .unwrap_or_else(|| dispatch(thread, number, arguments))
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

/// What a call comes to that names a descriptor of the runner's, or is not in the table of signatures: no call is carried out before this. A
/// protected program may make fewer calls, which are refused by a name of their own.
fn wrong(thread: &Thread, number: u64, arguments: &[u64; 6]) -> Option<Outcome> {
    match signatures::wrong(thread.process(), &DESCRIPTORS, number, arguments)? {
        Wrong::Fails(errno) => Some(Outcome::Returns(errno.result())),
        Wrong::Reported(entries) => Some(Outcome::Returns(entries.cast_signed())),
        Wrong::Unlisted | Wrong::UnlistedControl if thread.slot.get().is_some() => None,
        Wrong::Unlisted => Some(refuse_by_name(UnsupportedKind::UnlistedCall, number, libc::ENOSYS)),
        // The kernel looks at the descriptor before the request.
        Wrong::UnlistedControl if sys::fcntl(sys::descriptor(arguments[0]), libc::F_GETFD, 0).is_err() => {
            Some(Outcome::Returns(Errno(libc::EBADF).result()))
        }
        Wrong::UnlistedControl => Some(refuse_by_name(UnsupportedKind::UnlistedControl, arguments[1], libc::ENOTTY)),
    }
}

fn dispatch(thread: &'static Thread, number: u64, arguments: [u64; 6]) -> Outcome {
    let [a, b, c, d, e, _] = arguments;
    match number.cast_signed() {
        libc::SYS_arch_prctl => thread_bases(thread, a, b).into(),
        libc::SYS_rt_sigaction => handler::action(thread, arguments).into(),
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
        libc::SYS_mprotect
        | libc::SYS_pkey_mprotect
        | libc::SYS_madvise
        | libc::SYS_mlock
        | libc::SYS_mlock2
        | libc::SYS_munlock
        | libc::SYS_mincore
        | libc::SYS_msync
        | libc::SYS_mseal => memory::change(thread, number, &arguments),
        libc::SYS_remap_file_pages => memory::remap_file(thread, &arguments),
        libc::SYS_process_vm_readv | libc::SYS_process_vm_writev
            if own::copy_hits_runner(thread.process(), &arguments) =>
        {
            refuse(libc::EFAULT)
        }
        libc::SYS_pkey_alloc => refuse(libc::ENOSPC),

        libc::SYS_close_range => files::close_range(thread, &arguments),
        libc::SYS_dup2 | libc::SYS_dup3 => files::duplicate_to(thread, number, &arguments),
        libc::SYS_readlink | libc::SYS_readlinkat => files::read_link(thread, number, &arguments),
        libc::SYS_getdents64 | libc::SYS_getdents => files::list(thread, number, &arguments),

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
        libc::SYS_seccomp => refuse_by_name(UnsupportedKind::Seccomp, a, libc::EINVAL),
        libc::SYS_ptrace => refuse_by_name(UnsupportedKind::Ptrace, a, libc::EPERM),
        libc::SYS_clone3 | libc::SYS_rseq | libc::SYS_modify_ldt | libc::SYS_iopl | libc::SYS_ioperm => {
            refuse(libc::ENOSYS)
        }
        _ => files::forward(thread, number, arguments),
    }
}

/// A call of a protected program; `None` where it is carried out as any other.
fn dispatch_protected(thread: &'static Thread, slot: &Slot, number: u64, arguments: [u64; 6]) -> Option<Outcome> {
    let call = number.cast_signed();
    if let Some(reason) = permitted::refusal(call, &arguments) {
        return Some(refuse_protected(number, reason));
    }
    let [a, b, c, d, e, _] = arguments;
    let process = thread.process();
    Some(match call {
        libc::SYS_getpid => Outcome::Returns(checkpoint::process_id().into()),
        // Whoever has started the program is another process after a failover: as if that were in another namespace.
        libc::SYS_getppid => Outcome::Returns(0),
        libc::SYS_gettid => Outcome::Returns(slot.id.load(Ordering::Relaxed).into()),
        libc::SYS_set_tid_address => {
            slot.clear_id.store(a, Ordering::Relaxed);
            Outcome::Returns(slot.id.load(Ordering::Relaxed).into())
        }
        libc::SYS_set_robust_list => {
            snapshot::store(&slot.robust, [a, b]);
            return None;
        }
        libc::SYS_kill if checkpoint::is_self(a) => {
            forward(thread, number, &[checkpoint::own_id(process), b, 0, 0, 0, 0])
        }
        libc::SYS_tkill => send(thread, a, b),
        libc::SYS_tgkill if checkpoint::is_self(a) => send(thread, b, c),
        libc::SYS_kill | libc::SYS_tgkill => refuse_protected(number, Reason::OtherProcess),
        libc::SYS_rt_sigprocmask if b != 0 => change_mask(thread, &arguments),

        libc::SYS_open | libc::SYS_openat => open(thread, number, arguments),
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => return refuse_copy(number, a),
        libc::SYS_fcntl if [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].iter().any(|copy| b == *copy as u64) => {
            return refuse_copy(number, a);
        }

        libc::SYS_socket => files::forward(thread, number, [libc::AF_UNIX as u64, b, 0, 0, 0, 0]),
        libc::SYS_bind => answer(number, sockets::bind(process, a, b, c)),
        libc::SYS_accept | libc::SYS_accept4 => accept(thread, number, [a, b, c, d]),
        libc::SYS_getsockname | libc::SYS_getpeername => sockets::address(process, call, a, b, c).into(),
        libc::SYS_setsockopt => answer(number, sockets::set_option(b, c)),
        libc::SYS_getsockopt => return sockets::option(process, b, c, d, e).map(|given| answer(number, given)),
        libc::SYS_recvfrom => files::forward(thread, number, [a, b, c, d, 0, 0]),
        libc::SYS_sendmsg | libc::SYS_recvmsg => message(thread, number, [a, b, c]),
        _ => return with_deadline(thread, slot, number, arguments),
    })
}

fn refuse_protected(number: u64, reason: Reason) -> Outcome {
    checkpoint::refuse(number, reason);
    refuse(permitted::errno(reason))
}

fn answer(number: u64, answer: Answer) -> Outcome {
    match answer {
        Ok(result) => result.into(),
        Err(reason) => refuse_protected(number, reason),
    }
}

/// A signal to a thread, by the number that the program knows.
fn send(thread: &'static Thread, id: u64, signal: u64) -> Outcome {
    let Some(host_id) = checkpoint::host_id(id) else { return refuse(libc::ESRCH) };
    let arguments = [checkpoint::own_id(thread.process()), host_id.into(), signal, 0, 0, 0];
    forward(thread, libc::SYS_tgkill.cast_unsigned(), &arguments)
}

/// `rt_sigprocmask` without the signal that stops threads.
fn change_mask(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    let [how, new, old, bytes, ..] = *arguments;
    let mask = match user::read_words::<1>(thread.process(), new) {
        Ok([mask]) => [checkpoint::allowed_mask(mask)],
        Err(errno) => return refuse(errno.0),
    };
    forward(thread, libc::SYS_rt_sigprocmask.cast_unsigned(), &[how, mask.as_ptr() as u64, old, bytes, 0, 0])
}

/// `open`, `openat`: the process's own folder in `/proc` has the number that the kernel knows.
fn open(thread: &'static Thread, number: u64, mut arguments: [u64; 6]) -> Outcome {
    let path = usize::from(number.cast_signed() == libc::SYS_openat);
    let own = files::of_own_folder(thread.process(), checkpoint::process_id(), arguments[path]);
    if let Some(own) = &own {
        arguments[path] = own.address();
    }
    keep_if_permitted(number, files::forward(thread, number, arguments))
}

/// Closes what was opened where a secondary could not open it again.
fn keep_if_permitted(number: u64, outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Returns(fd @ 0..) if !sockets::is_permitted_file(descriptor(fd.cast_unsigned())) => {
            sys::close(descriptor(fd.cast_unsigned()));
            refuse_protected(number, Reason::NoRegularFile)
        }
        outcome => outcome,
    }
}

/// A copy of a descriptor would share the offset of a file or the state of a timer, which a secondary could not restore.
fn refuse_copy(number: u64, fd: u64) -> Option<Outcome> {
    sockets::has_own_state(descriptor(fd)).then(|| refuse_protected(number, Reason::Duplicate))
}

/// `accept`, `accept4`: the client's address is the one that the proxy knows.
fn accept(thread: &'static Thread, number: u64, [fd, to, room, flags]: [u64; 4]) -> Outcome {
    let outcome = files::forward(thread, number, [fd, 0, 0, flags, 0, 0]);
    let Outcome::Returns(connection @ 0..) = outcome else { return outcome };
    if to == 0 {
        return outcome;
    }
    let connection = connection.cast_unsigned();
    match sockets::address(thread.process(), libc::SYS_getpeername, connection, to, room) {
        Ok(_) => outcome,
        Err(errno) => {
            sys::close(descriptor(connection));
            refuse(errno.0)
        }
    }
}

/// `sendmsg`, `recvmsg`: as `writev` and `readv` are. The kernel gets a copy of the header, which the program cannot change meanwhile.
fn message(thread: &'static Thread, number: u64, [fd, at, flags]: [u64; 3]) -> Outcome {
    let programs = match user::read_words::<7>(thread.process(), at) {
        Ok(programs) => programs,
        Err(errno) => return refuse(errno.0),
    };
    let sends = number.cast_signed() == libc::SYS_sendmsg;
    let mut header = match sockets::header(&programs, sends) {
        Ok(header) => header,
        Err(reason) => return refuse_protected(number, reason),
    };
    let outcome = files::forward(thread, number, [fd, header.as_mut_ptr() as u64, flags, 0, 0, 0]);
    let (false, Outcome::Returns(0..)) = (sends, outcome) else { return outcome };
    match sockets::received(thread.process(), at, programs[0], &header) {
        Ok(()) => outcome,
        Err(errno) => refuse(errno.0),
    }
}

/// A call with a time limit, which is made again after a checkpoint and ends when it would have ended.
fn with_deadline(thread: &'static Thread, slot: &Slot, number: u64, mut arguments: [u64; 6]) -> Option<Outcome> {
    let mut room = [0; 2];
    let rip = thread.registers.get().rip;
    let call = (number.cast_signed(), &mut arguments);
    if !deadline::adapt(thread.process(), slot, rip, call, &mut room) {
        return None;
    }
    let outcome = forward(thread, number, &arguments);
    if outcome != Outcome::Repeats {
        deadline::forget(slot);
    }
    Some(outcome)
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
    // Names memory of the process, and the file that it runs by a descriptor.
    const PR_SET_MM: u64 = libc::PR_SET_MM as u64;
    match arguments[0] {
        PR_SET_SECCOMP => refuse_by_name(UnsupportedKind::Seccomp, arguments[1], libc::EINVAL),
        what @ (PR_SET_TSC | PR_SET_SYSCALL_USER_DISPATCH) => {
            refuse_by_name(UnsupportedKind::ThreadControl, what, libc::EINVAL)
        }
        PR_SET_MM => refuse_by_name(UnsupportedKind::ThreadControl, PR_SET_MM, libc::EPERM),
        _ => forward(thread, libc::SYS_prctl.cast_unsigned(), arguments),
    }
}
