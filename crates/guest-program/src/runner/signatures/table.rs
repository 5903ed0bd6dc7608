//! The table of calls: what of each is a descriptor number.

/// A call's descriptors: the arguments that are always descriptors, and what else may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) arguments: &'static [usize],
    pub(crate) more: More,
}

/// Descriptors that depend on other arguments or lie in the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    /// There are none.
    None,
    /// The fifth argument, but of memory of no file.
    Mapping,
    /// A list of `pollfd`.
    Poll,
    /// Sets of bits.
    Select,
    /// Rights in a message's control data.
    Message,
    /// The same in each of several messages.
    Messages,
    /// Operations of asynchronous I/O.
    Operations,
    /// By the request.
    Control,
    /// By the command.
    FileControl,
    /// The value of some options.
    Option,
    /// Some families of addresses.
    Address,
    /// The second argument, where the first is P_PIDFD.
    Wait,
    /// The second argument, where it is a control group.
    Counter,
    /// The fourth and fifth argument, by the type.
    Comparison,
    /// The socket that a signal event names.
    Notification,
    /// Options of file systems, as text.
    Mount,
}

/// Calls later than libc's names.
const IO_PGETEVENTS: i64 = 333;
const CACHESTAT: i64 = 451;
const FCHMODAT2: i64 = 452;
const MAP_SHADOW_STACK: i64 = 453;
const FUTEX_WAKE: i64 = 454;
const FUTEX_WAIT: i64 = 455;
const FUTEX_REQUEUE: i64 = 456;
const SETXATTRAT: i64 = 463;
const GETXATTRAT: i64 = 464;
const LISTXATTRAT: i64 = 465;
const REMOVEXATTRAT: i64 = 466;
const FILE_GETATTR: i64 = 468;
const FILE_SETATTR: i64 = 469;

/// Numbers that have a row or can have one.
pub(crate) const ROWS: usize = 512;

/// The table, by number.
static TABLE: [Option<Signature>; ROWS] = table();

/// The row of a call; `None` where it has none.
pub(crate) fn signature(call: i64) -> Option<Signature> {
    *TABLE.get(usize::try_from(call).ok()?)?
}

const fn table() -> [Option<Signature>; ROWS] {
    let mut table = [None; ROWS];
    enter(&mut table, NONE, &[]);
    enter(&mut table, FIRST, &[0]);
    enter(&mut table, SECOND, &[1]);
    enter(&mut table, FIRST_AND_SECOND, &[0, 1]);
    enter(&mut table, FIRST_AND_THIRD, &[0, 2]);
    enter(&mut table, FIRST_AND_FOURTH, &[0, 3]);
    let mut at = 0;
    while at < OTHERS.len() {
        let (call, arguments, more) = OTHERS[at];
        assert!(table[call as usize].is_none(), "a call has two rows");
        table[call as usize] = Some(Signature { arguments, more });
        at += 1;
    }
    table
}

const fn enter(table: &mut [Option<Signature>; ROWS], calls: &[i64], arguments: &'static [usize]) {
    let mut at = 0;
    while at < calls.len() {
        assert!(table[calls[at] as usize].is_none(), "a call has two rows");
        table[calls[at] as usize] = Some(Signature { arguments, more: More::None });
        at += 1;
    }
}

/// Calls whose descriptors depend on more than their place.
const OTHERS: &[(i64, &[usize], More)] = &[
    (libc::SYS_mmap, &[], More::Mapping),
    (libc::SYS_poll, &[], More::Poll),
    (libc::SYS_ppoll, &[], More::Poll),
    (libc::SYS_select, &[], More::Select),
    (libc::SYS_pselect6, &[], More::Select),
    (libc::SYS_sendmsg, &[0], More::Message),
    (libc::SYS_sendmmsg, &[0], More::Messages),
    (libc::SYS_io_submit, &[], More::Operations),
    (libc::SYS_ioctl, &[0], More::Control),
    (libc::SYS_fcntl, &[0], More::FileControl),
    (libc::SYS_setsockopt, &[0], More::Option),
    (libc::SYS_bind, &[0], More::Address),
    (libc::SYS_connect, &[0], More::Address),
    (libc::SYS_waitid, &[], More::Wait),
    (libc::SYS_perf_event_open, &[3], More::Counter),
    (libc::SYS_kcmp, &[], More::Comparison),
    (libc::SYS_mq_notify, &[0], More::Notification),
    (libc::SYS_mount, &[], More::Mount),
];

const FIRST_AND_SECOND: &[i64] = &[libc::SYS_sendfile, libc::SYS_tee, libc::SYS_pidfd_getfd, libc::SYS_kexec_file_load];

const FIRST_AND_THIRD: &[i64] = &[
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    libc::SYS_epoll_ctl,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
];

const FIRST_AND_FOURTH: &[i64] = &[libc::SYS_fanotify_mark];

const SECOND: &[i64] = &[libc::SYS_symlinkat];

/// Other calls whose first argument is a descriptor, or the folder that a path is relative to.
const FIRST: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_vmsplice,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fchdir,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fsetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_fremovexattr,
    libc::SYS_fstatfs,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_getdents,
    libc::SYS_getdents64,
    libc::SYS_getsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_signalfd,
    libc::SYS_signalfd4,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_fchownat,
    libc::SYS_futimesat,
    libc::SYS_newfstatat,
    libc::SYS_unlinkat,
    libc::SYS_readlinkat,
    libc::SYS_fchmodat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_utimensat,
    libc::SYS_statx,
    libc::SYS_execveat,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    libc::SYS_finit_module,
    libc::SYS_quotactl_fd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_getsetattr,
    CACHESTAT,
    FCHMODAT2,
    SETXATTRAT,
    GETXATTRAT,
    LISTXATTRAT,
    REMOVEXATTRAT,
    FILE_GETATTR,
    FILE_SETATTR,
];

/// Calls without a descriptor among their values. `close_range` leaves the runner's out (`files`).
const NONE: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_brk,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_access,
    libc::SYS_pipe,
    libc::SYS_sched_yield,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_madvise,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_pause,
    libc::SYS_nanosleep,
    libc::SYS_getitimer,
    libc::SYS_alarm,
    libc::SYS_setitimer,
    libc::SYS_getpid,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_clone,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_execve,
    libc::SYS_exit,
    libc::SYS_wait4,
    libc::SYS_kill,
    libc::SYS_uname,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_shmdt,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_truncate,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_rename,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_creat,
    libc::SYS_link,
    libc::SYS_unlink,
    libc::SYS_symlink,
    libc::SYS_readlink,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_umask,
    libc::SYS_gettimeofday,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_ptrace,
    libc::SYS_getuid,
    libc::SYS_syslog,
    libc::SYS_getgid,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_geteuid,
    libc::SYS_getegid,
    libc::SYS_setpgid,
    libc::SYS_getppid,
    libc::SYS_getpgrp,
    libc::SYS_setsid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_getgroups,
    libc::SYS_setgroups,
    libc::SYS_setresuid,
    libc::SYS_getresuid,
    libc::SYS_setresgid,
    libc::SYS_getresgid,
    libc::SYS_getpgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_getsid,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_sigsuspend,
    libc::SYS_sigaltstack,
    libc::SYS_utime,
    libc::SYS_mknod,
    libc::SYS_personality,
    libc::SYS_ustat,
    libc::SYS_statfs,
    libc::SYS_sysfs,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_sched_setparam,
    libc::SYS_sched_getparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_rr_get_interval,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_mlockall,
    libc::SYS_munlockall,
    libc::SYS_vhangup,
    libc::SYS_modify_ldt,
    libc::SYS_pivot_root,
    libc::SYS_prctl,
    libc::SYS_arch_prctl,
    libc::SYS_adjtimex,
    libc::SYS_setrlimit,
    libc::SYS_chroot,
    libc::SYS_sync,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_umount2,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_init_module,
    libc::SYS_delete_module,
    libc::SYS_quotactl,
    libc::SYS_gettid,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_tkill,
    libc::SYS_time,
    libc::SYS_futex,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_thread_area,
    libc::SYS_io_setup,
    libc::SYS_io_destroy,
    libc::SYS_io_getevents,
    libc::SYS_io_cancel,
    libc::SYS_get_thread_area,
    libc::SYS_epoll_create,
    libc::SYS_remap_file_pages,
    libc::SYS_set_tid_address,
    libc::SYS_restart_syscall,
    libc::SYS_semtimedop,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    libc::SYS_clock_settime,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit_group,
    libc::SYS_tgkill,
    libc::SYS_utimes,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_get_mempolicy,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_kexec_load,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_ioprio_set,
    libc::SYS_ioprio_get,
    libc::SYS_inotify_init,
    libc::SYS_migrate_pages,
    libc::SYS_unshare,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_move_pages,
    libc::SYS_timerfd_create,
    libc::SYS_eventfd,
    libc::SYS_eventfd2,
    libc::SYS_epoll_create1,
    libc::SYS_pipe2,
    libc::SYS_inotify_init1,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_fanotify_init,
    libc::SYS_prlimit64,
    libc::SYS_clock_adjtime,
    libc::SYS_getcpu,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_sched_setattr,
    libc::SYS_sched_getattr,
    libc::SYS_seccomp,
    libc::SYS_getrandom,
    libc::SYS_memfd_create,
    libc::SYS_userfaultfd,
    libc::SYS_membarrier,
    libc::SYS_mlock2,
    libc::SYS_pkey_mprotect,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pidfd_open,
    libc::SYS_clone3,
    libc::SYS_memfd_secret,
    libc::SYS_futex_waitv,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_close_range,
    libc::SYS_rseq,
    IO_PGETEVENTS,
    libc::SYS_mseal,
    MAP_SHADOW_STACK,
    FUTEX_WAKE,
    FUTEX_WAIT,
    FUTEX_REQUEUE,
];
