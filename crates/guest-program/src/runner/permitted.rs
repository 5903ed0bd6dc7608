//! Which system calls a protected program may make: those whose effect an image has, or that have none outside of the program.
//!
//! Everything else is refused at the call, by name, before any output of the epoch leaves. A call is not looked at more closely than its
//! numbers allow here; what needs the program's memory or the new descriptor is checked where the call is carried out.

use crate::snapshot::Reason;

const ACCESS_MODE: u64 = libc::O_ACCMODE as u64;
/// O_CREAT, O_TRUNC, O_PATH, O_DIRECTORY and O_TMPFILE's own bit.
const OTHER_OPENINGS: u64 = (libc::O_CREAT | libc::O_TRUNC | libc::O_PATH | libc::O_DIRECTORY) as u64 | 0o20_000_000;
const MAP_SHARED: u64 = libc::MAP_SHARED as u64;
const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
const PROT_WRITE: u64 = libc::PROT_WRITE as u64;
const MAP_GROWSDOWN: u64 = libc::MAP_GROWSDOWN as u64;
const MAP_HUGETLB: u64 = libc::MAP_HUGETLB as u64;
const CLONE_THREAD: u64 = libc::CLONE_THREAD as u64;
const FUTEX_COMMAND: u64 = 127;
const TYPE: u64 = 15;
/// Of a pipe: each write is a packet of its own.
const DIRECT: u64 = libc::O_DIRECT as u64;
const OUT_OF_BAND: u64 = libc::MSG_OOB as u64;

/// The argument of a call that names the flags of an opening.
fn flags_of_opening(number: i64, arguments: &[u64; 6]) -> u64 {
    if number == libc::SYS_open { arguments[1] } else { arguments[2] }
}

/// Why a call is refused, if it is.
pub(crate) fn refusal(number: i64, arguments: &[u64; 6]) -> Option<Reason> {
    let [a, b, c, d, e, f] = *arguments;
    let unless = |allowed: bool, reason: Reason| (!allowed).then_some(reason);
    match number {
        libc::SYS_open | libc::SYS_openat => {
            let flags = flags_of_opening(number, arguments);
            unless(flags & ACCESS_MODE == 0 && flags & OTHER_OPENINGS == 0, Reason::OpenForWriting)
        }
        libc::SYS_mmap => {
            // A file that is only read stays as it is.
            let is_shared = d & MAP_SHARED != 0 && (c & PROT_WRITE != 0 || d & MAP_ANONYMOUS != 0);
            unless(!is_shared && d & (MAP_GROWSDOWN | MAP_HUGETLB) == 0, Reason::SharedMapping)
        }
        libc::SYS_clone => unless(a & CLONE_THREAD != 0, Reason::Process),
        libc::SYS_fork | libc::SYS_vfork | libc::SYS_execve | libc::SYS_execveat => Some(Reason::Process),
        libc::SYS_futex => {
            let [wait, wake] = [libc::FUTEX_WAIT, libc::FUTEX_WAKE].map(|command| command as u64);
            let command = b & FUTEX_COMMAND;
            // REQUEUE 3, CMP_REQUEUE 4, WAKE_OP 5, WAIT_BITSET 9, WAKE_BITSET 10.
            unless(command == wait || command == wake || [3, 4, 5, 9, 10].contains(&command), Reason::FutexOwner)
        }
        libc::SYS_socket => {
            let internet = [libc::AF_INET, libc::AF_INET6].into_iter().any(|family| a == family as u64);
            let tcp = c == 0 || c == libc::IPPROTO_TCP as u64;
            unless(internet && b & TYPE == libc::SOCK_STREAM as u64 && tcp, Reason::Socket)
        }
        libc::SYS_connect | libc::SYS_socketpair => Some(Reason::Socket),
        libc::SYS_sendto => unless(e == 0 && d & OUT_OF_BAND == 0, Reason::Message),
        libc::SYS_recvfrom => unless(d & OUT_OF_BAND == 0, Reason::Message),
        libc::SYS_sendmsg | libc::SYS_recvmsg => unless(c & OUT_OF_BAND == 0, Reason::Message),
        libc::SYS_ppoll => unless(d == 0, Reason::Mask),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => unless(e == 0, Reason::Mask),
        libc::SYS_pselect6 => unless(f == 0, Reason::Mask),
        libc::SYS_pipe2 => unless(b & DIRECT == 0, Reason::Packets),
        libc::SYS_fcntl if b == libc::F_SETFL as u64 => unless(c & DIRECT == 0, Reason::Packets),
        libc::SYS_fcntl => fcntl(b),
        libc::SYS_ioctl => {
            // TCGETS and TIOCGWINSZ, which fail on what a program can have open; FIONBIO and FIONREAD.
            unless([0x5401, 0x5413, 0x5421, 0x541b].contains(&(b & u64::from(u32::MAX))), Reason::Control)
        }
        libc::SYS_prctl => {
            // PR_SET_NAME, PR_GET_NAME, and names of memory.
            unless([15, 16, 0x5356_4d41].contains(&a), Reason::Control)
        }
        libc::SYS_prlimit64 => unless(c == 0, Reason::Control),
        _ => unless(HARMLESS.contains(&number), Reason::Call),
    }
}

fn fcntl(command: u64) -> Option<Reason> {
    let allowed = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL];
    (!allowed.iter().any(|known| command == *known as u64)).then_some(Reason::Control)
}

/// The error that the program gets.
pub(crate) fn errno(reason: Reason) -> i32 {
    match reason {
        Reason::Call => libc::ENOSYS,
        Reason::OpenForWriting | Reason::NoRegularFile => libc::EROFS,
        Reason::Socket => libc::EAFNOSUPPORT,
        Reason::Address => libc::EADDRNOTAVAIL,
        Reason::SocketOption => libc::ENOPROTOOPT,
        Reason::Threads => libc::EAGAIN,
        Reason::Packets => libc::EINVAL,
        _ => libc::EPERM,
    }
}

/// Calls that are allowed whatever their arguments.
const HARMLESS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_lseek,
    libc::SYS_sendfile,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_fadvise64,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_pipe,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_times,
    libc::SYS_getrusage,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getrlimit,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_arch_prctl,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Without effect, since no file can be made.
    libc::SYS_umask,
    // These do not exist inside anyway, which libraries know how to live with.
    libc::SYS_clone3,
    libc::SYS_rseq,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_secondary_cannot_continue_is_refused_by_name() {
        let none = |number, arguments: &[u64]| {
            let mut all = [0; 6];
            all[..arguments.len()].copy_from_slice(arguments);
            refusal(number, &all)
        };
        let (inet, stream) = (libc::AF_INET as u64, libc::SOCK_STREAM as u64);
        assert_eq!(none(libc::SYS_socket, &[inet, stream | libc::SOCK_CLOEXEC as u64]), None);
        assert_eq!(none(libc::SYS_socket, &[inet, libc::SOCK_DGRAM as u64]), Some(Reason::Socket));
        assert_eq!(none(libc::SYS_socket, &[libc::AF_UNIX as u64, stream]), Some(Reason::Socket));
        assert_eq!(none(libc::SYS_connect, &[3]), Some(Reason::Socket));
        assert_eq!(none(libc::SYS_openat, &[0, 0, libc::O_CLOEXEC as u64]), None);
        assert_eq!(none(libc::SYS_openat, &[0, 0, libc::O_WRONLY as u64]), Some(Reason::OpenForWriting));
        assert_eq!(none(libc::SYS_open, &[0, libc::O_CREAT as u64]), Some(Reason::OpenForWriting));
        assert_eq!(none(libc::SYS_mmap, &[0, 4096, 3, MAP_SHARED]), Some(Reason::SharedMapping));
        assert_eq!(none(libc::SYS_mmap, &[0, 4096, 1, MAP_SHARED | MAP_ANONYMOUS]), Some(Reason::SharedMapping));
        assert_eq!(none(libc::SYS_mmap, &[0, 4096, 1, MAP_SHARED]), None);
        assert_eq!(none(libc::SYS_mmap, &[0, 4096, 3, libc::MAP_PRIVATE as u64]), None);
        assert_eq!(none(libc::SYS_fork, &[]), Some(Reason::Process));
        assert_eq!(none(libc::SYS_clone, &[CLONE_THREAD]), None);
        assert_eq!(none(libc::SYS_futex, &[0, libc::FUTEX_LOCK_PI as u64]), Some(Reason::FutexOwner));
        assert_eq!(none(libc::SYS_epoll_pwait, &[3, 4096, 8, 100]), None);
        assert_eq!(none(libc::SYS_epoll_pwait, &[3, 4096, 8, 100, 4096]), Some(Reason::Mask));
        for call in [libc::SYS_sendmsg, libc::SYS_recvmsg] {
            assert_eq!(none(call, &[3, 4096, libc::MSG_NOSIGNAL as u64]), None);
            assert_eq!(none(call, &[3, 4096, OUT_OF_BAND]), Some(Reason::Message));
        }
        assert_eq!((none(libc::SYS_sendfile, &[1, 3, 0, 7]), none(libc::SYS_getppid, &[])), (None, None));
        let no_wait = libc::O_NONBLOCK as u64;
        assert_eq!(none(libc::SYS_pipe2, &[4096, no_wait]), None);
        assert_eq!(none(libc::SYS_pipe2, &[4096, no_wait | DIRECT]), Some(Reason::Packets));
        let set_flags = libc::F_SETFL as u64;
        assert_eq!(none(libc::SYS_fcntl, &[3, set_flags, no_wait]), None);
        assert_eq!(none(libc::SYS_fcntl, &[3, set_flags, no_wait | DIRECT]), Some(Reason::Packets));
        assert_eq!(none(libc::SYS_fcntl, &[3, libc::F_GETFL as u64, DIRECT]), None);
        assert_eq!(none(libc::SYS_io_uring_setup, &[]), Some(Reason::Call));
        assert_eq!(none(libc::SYS_signalfd4, &[]), Some(Reason::Call));
        assert_eq!((errno(Reason::Call), errno(Reason::Process)), (libc::ENOSYS, libc::EPERM));
    }
}
