//! System calls that code inside the machine makes, forwarded to the kernel by the thread that owns the vCPU.
//!
//! A measured body must make none; that it did is counted and voids its sample, but must not kill the process, so the
//! call is carried out as if the thread had made it itself. Calls that would change what the thread *is* (its existence,
//! its thread pointer, its signal stack) are refused softly, as a kernel without them would: abandoning the guest instead
//! would leave its frames un-unwound.

use std::arch::asm;

/// Carries out system call `number`, or refuses it; the result is what the kernel would put into RAX.
pub(crate) fn forward(number: u64, arguments: [u64; 6]) -> u64 {
    match refusal(number) {
        Some(errno) => u64::from(errno.cast_unsigned()).wrapping_neg(),
        // SAFETY: the code inside the machine is code of this process and could have made the same call itself, with the
        // same consequences for memory; what differs for a thread of ours is refused above.
        None => unsafe { raw(number, arguments) },
    }
}

/// The error with which `number` is refused. `clone3` is said not to exist, so that callers fall back.
fn refusal(number: u64) -> Option<i32> {
    match i64::try_from(number).ok()? {
        libc::SYS_clone3 => Some(libc::ENOSYS),
        libc::SYS_clone
        | libc::SYS_fork
        | libc::SYS_vfork
        | libc::SYS_execve
        | libc::SYS_execveat
        | libc::SYS_exit
        | libc::SYS_exit_group
        | libc::SYS_rt_sigreturn
        | libc::SYS_arch_prctl
        | libc::SYS_modify_ldt
        | libc::SYS_iopl
        | libc::SYS_ioperm
        | libc::SYS_set_thread_area
        | libc::SYS_set_tid_address
        | libc::SYS_rseq
        | libc::SYS_unshare
        | libc::SYS_sigaltstack
        | libc::SYS_set_robust_list => Some(libc::EPERM),
        _ => None,
    }
}

/// The error in a system call's result.
pub(crate) fn errno(result: u64) -> Option<i32> {
    i32::try_from(result.cast_signed()).ok().filter(|result| (-4095..0).contains(result)).map(|result| -result)
}

/// A system call as the kernel's ABI has it; libc's errno is not involved.
///
/// # Safety
/// The caller answers for what the call does.
pub(crate) unsafe fn raw(number: u64, [a, b, c, d, e, f]: [u64; 6]) -> u64 {
    let result;
    // SAFETY: the caller's promise; the registers are those of the ABI, and RCX and R11 are lost.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_calls_are_carried_out_and_others_refused() {
        assert_eq!(forward(libc::SYS_getpid.cast_unsigned(), [0; 6]), u64::from(std::process::id()));
        assert_eq!(forward(libc::SYS_exit_group.cast_unsigned(), [0; 6]).cast_signed(), -i64::from(libc::EPERM));
        assert_eq!(forward(libc::SYS_clone3.cast_unsigned(), [0; 6]).cast_signed(), -i64::from(libc::ENOSYS));
        assert_eq!(errno(forward(libc::SYS_close.cast_unsigned(), [u64::MAX; 6])), Some(libc::EBADF));
        assert_eq!((errno(0), errno(7), errno(1 << 63)), (None, None, None));
    }
}
