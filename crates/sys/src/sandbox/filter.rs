//! The filter of system calls of a sandbox: what container engines refuse by default to a container without capabilities.
//!
//! The set is that of containers-common's `seccomp.json` (podman, buildah) for x86-64. What it refuses by a capability is refused here, for a
//! sandbox has none. Refused calls give EPERM; calls that the engines do not know, and those of other architectures, give ENOSYS, so that
//! programs and the C library take what they took before these calls were there.
//!
//! The kernel keeps for each call whether the filter always permits it (Linux 5.11), so that permitted calls do not run the filter; on older
//! kernels every call runs it. Both are what a container pays.

use crate::calls::checked;
use std::io;
use std::mem::offset_of;

/// One instruction of classic BPF.
pub type Instruction = libc::sock_filter;

/// Calls that need a capability, or that the engines refuse to everybody.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS_vhangup,
    libc::SYS_chroot,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_init_module,
    libc::SYS_delete_module,
    libc::SYS_quotactl,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_clock_settime,
    libc::SYS_kexec_load,
    libc::SYS_migrate_pages,
    libc::SYS_vmsplice,
    libc::SYS_move_pages,
    libc::SYS_perf_event_open,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    libc::SYS_kcmp,
    libc::SYS_finit_module,
    libc::SYS_kexec_file_load,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    IO_PGETEVENTS,
    libc::SYS_process_madvise,
];
/// libc has no name for it on x86-64.
const IO_PGETEVENTS: libc::c_long = 333;

/// Calls of this kernel that the engines do not know.
const UNKNOWN: &[libc::c_long] = &[
    libc::SYS__sysctl,
    libc::SYS_getpmsg,
    libc::SYS_putpmsg,
    libc::SYS_afs_syscall,
    libc::SYS_tuxcall,
    libc::SYS_security,
    libc::SYS_vserver,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_quotactl_fd,
    libc::SYS_set_mempolicy_home_node,
];
/// The last call that is known here; later ones are not known.
const LAST: u32 = 462;
/// Execution domains that `personality(2)` may ask for: Linux, 32-bit addresses, both with UNAME26, and none but to be told.
const PERSONALITIES: [u32; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];
/// `AUDIT_ARCH_X86_64`.
const X86_64: u32 = 0xc000_003e;
/// `NETLINK_AUDIT`, the one protocol of netlink that is refused.
const NETLINK_AUDIT: u32 = 9;

/// What a call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is carried out.
    Permitted,
    /// This error number.
    Error(i32),
}

impl Answer {
    fn word(self) -> u32 {
        match self {
            Answer::Permitted => libc::SECCOMP_RET_ALLOW,
            Answer::Error(number) => libc::SECCOMP_RET_ERRNO | number.unsigned_abs(),
        }
    }
}

const EPERM: Answer = Answer::Error(libc::EPERM);
const ENOSYS: Answer = Answer::Error(libc::ENOSYS);
const EINVAL: Answer = Answer::Error(libc::EINVAL);

/// Has this thread, and all that it starts, pass the filter from now on; needs `no_new_privs` or `CAP_SYS_ADMIN`.
///
/// # Errors
/// What `seccomp(2)` gives: a kernel without filters.
pub fn install() -> io::Result<()> {
    let mut instructions = program();
    let length = u16::try_from(instructions.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: instructions.as_mut_ptr() };
    // SAFETY: the program is of the length that it says, and lives through the call, which copies it.
    checked(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) }).map(drop)
}

/// The filter: the architecture first, then the number of the call, then its arguments where they matter.
#[must_use]
pub fn program() -> Vec<Instruction> {
    let mut code = Vec::new();
    code.push(load(offset_of!(libc::seccomp_data, arch)));
    answer_unless_equal(&mut code, X86_64, ENOSYS);
    code.push(load(offset_of!(libc::seccomp_data, nr)));
    // Numbers of x32 are above it, too.
    answer_if_above(&mut code, LAST, ENOSYS);
    for &number in REFUSED {
        answer_if_equal(&mut code, number_of(number), EPERM);
    }
    for &number in UNKNOWN {
        answer_if_equal(&mut code, number_of(number), ENOSYS);
    }
    let argument = |index: usize| load(offset_of!(libc::seccomp_data, args) + 8 * index);
    let mut personality = vec![argument(0)];
    for domain in PERSONALITIES {
        answer_if_equal(&mut personality, domain, Answer::Permitted);
    }
    personality.push(answer(ENOSYS));
    only_for(&mut code, libc::SYS_personality, personality);
    let mut socket = vec![argument(0)];
    answer_unless_equal(&mut socket, libc::AF_NETLINK.unsigned_abs(), Answer::Permitted);
    socket.push(argument(2));
    answer_if_equal(&mut socket, NETLINK_AUDIT, EINVAL);
    socket.push(answer(Answer::Permitted));
    only_for(&mut code, libc::SYS_socket, socket);
    code.push(answer(Answer::Permitted));
    code
}

/// A call's number is small and not negative.
fn number_of(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

fn instruction(code: u32, jump: (u8, u8), k: u32) -> Instruction {
    #[expect(clippy::cast_possible_truncation, reason = "codes of instructions have 16 bits")]
    let code = code as u16;
    Instruction { code, jt: jump.0, jf: jump.1, k }
}

fn load(offset: usize) -> Instruction {
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), offset)
}

fn answer(answer: Answer) -> Instruction {
    instruction(libc::BPF_RET | libc::BPF_K, (0, 0), answer.word())
}

fn answer_if_equal(code: &mut Vec<Instruction>, value: u32, with: Answer) {
    code.extend([instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (0, 1), value), answer(with)]);
}

fn answer_unless_equal(code: &mut Vec<Instruction>, value: u32, with: Answer) {
    code.extend([instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (1, 0), value), answer(with)]);
}

fn answer_if_above(code: &mut Vec<Instruction>, value: u32, with: Answer) {
    code.extend([instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, (0, 1), value), answer(with)]);
}

/// These instructions, which end in an answer, for one call alone.
fn only_for(code: &mut Vec<Instruction>, call: libc::c_long, of: Vec<Instruction>) {
    let length = u8::try_from(of.len()).unwrap_or(u8::MAX);
    code.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (0, length), number_of(call)));
    code.extend(of);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter answers, by carrying out its instructions as the kernel does.
    fn answers(arch: u32, call: libc::c_long, arguments: [u64; 6]) -> Answer {
        let code = program();
        let (mut at, mut register) = (0, 0);
        loop {
            let Instruction { code: operation, jt, jf, k } = code[at];
            at += 1;
            let jump = |taken: bool| usize::from(if taken { jt } else { jf });
            match u32::from(operation) {
                of if of == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    register = match usize::try_from(k).expect("small") {
                        0 => number_of(call),
                        4 => arch,
                        offset => u32::try_from(arguments[(offset - 16) / 8] & 0xffff_ffff).expect("masked"),
                    }
                }
                of if of == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => at += jump(register == k),
                of if of == libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K => at += jump(register > k),
                of if of == libc::BPF_RET | libc::BPF_K => {
                    return match k & libc::SECCOMP_RET_ACTION_FULL {
                        libc::SECCOMP_RET_ALLOW => Answer::Permitted,
                        _ => Answer::Error((k & libc::SECCOMP_RET_DATA).cast_signed()),
                    };
                }
                other => panic!("{other:#x}"),
            }
        }
    }

    fn of(call: libc::c_long) -> Answer {
        answers(X86_64, call, [0; 6])
    }

    #[test]
    fn usual_calls_pass_and_those_of_administrators_do_not() {
        for call in
            [libc::SYS_read, libc::SYS_mmap, libc::SYS_clone3, libc::SYS_execve, libc::SYS_futex, libc::SYS_ptrace]
        {
            assert_eq!(of(call), Answer::Permitted, "{call}");
        }
        for call in [libc::SYS_bpf, libc::SYS_kexec_load, libc::SYS_init_module, libc::SYS_swapon, libc::SYS_setns, 333]
        {
            assert_eq!(of(call), EPERM, "{call}");
        }
        for call in [libc::SYS_io_uring_setup, libc::SYS_add_key, 463, 1 << 30 | libc::SYS_read] {
            assert_eq!(of(call), ENOSYS, "{call}");
        }
        assert_eq!(answers(0x4000_0003, 4, [0; 6]), ENOSYS, "a call of i386");
    }

    #[test]
    fn arguments_decide_where_the_engines_look_at_them() {
        let personality = |domain| answers(X86_64, libc::SYS_personality, [domain, 0, 0, 0, 0, 0]);
        assert_eq!((personality(0), personality(0xffff_ffff)), (Answer::Permitted, Answer::Permitted));
        assert_eq!(personality(0x0400_0000), ENOSYS, "without randomised addresses");
        let socket = |family: i32, protocol| {
            answers(X86_64, libc::SYS_socket, [u64::from(family.unsigned_abs()), 3, protocol, 0, 0, 0])
        };
        assert_eq!(socket(libc::AF_INET, 9), Answer::Permitted);
        assert_eq!(socket(libc::AF_NETLINK, 0), Answer::Permitted);
        assert_eq!(socket(libc::AF_NETLINK, 9), EINVAL);
    }
}
