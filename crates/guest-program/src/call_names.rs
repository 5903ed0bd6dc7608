//! Names of system calls on x86-64, by their numbers (`asm/unistd_64.h`).

/// The name of a call; `None` for a number without one.
pub(crate) fn name(number: u32) -> Option<&'static str> {
    let after = CALLS.partition_point(|(first, _)| *first <= number);
    let (first, names) = CALLS.get(after.checked_sub(1)?)?;
    names.split(' ').nth((number - first) as usize)
}

/// Numbers, each with the names of the calls from it on.
const CALLS: &[(u32, &str)] = &[
    (0, "read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask"),
    (15, "rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore"),
    (28, "madvise shmget shmat shmctl dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile socket"),
    (42, "connect accept sendto recvfrom sendmsg recvmsg shutdown bind listen getsockname getpeername socketpair"),
    (54, "setsockopt getsockopt clone fork vfork execve exit wait4 kill uname semget semop semctl shmdt msgget"),
    (69, "msgsnd msgrcv msgctl fcntl flock fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir rename"),
    (83, "mkdir rmdir creat link unlink symlink readlink chmod fchmod chown fchown lchown umask gettimeofday"),
    (97, "getrlimit getrusage sysinfo times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid"),
    (110, "getppid getpgrp setsid setreuid setregid getgroups setgroups setresuid getresuid setresgid getresgid"),
    (121, "getpgid setfsuid setfsgid getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo"),
    (130, "rt_sigsuspend sigaltstack utime mknod uselib personality ustat statfs fstatfs sysfs getpriority"),
    (141, "setpriority sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max"),
    (147, "sched_get_priority_min sched_rr_get_interval mlock munlock mlockall munlockall vhangup modify_ldt"),
    (155, "pivot_root _sysctl prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday mount umount2"),
    (167, "swapon swapoff reboot sethostname setdomainname iopl ioperm create_module init_module delete_module"),
    (177, "get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg afs_syscall tuxcall security gettid"),
    (187, "readahead setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr"),
    (197, "removexattr lremovexattr fremovexattr tkill time futex sched_setaffinity sched_getaffinity"),
    (205, "set_thread_area io_setup io_destroy io_getevents io_submit io_cancel get_thread_area lookup_dcookie"),
    (213, "epoll_create epoll_ctl_old epoll_wait_old remap_file_pages getdents64 set_tid_address restart_syscall"),
    (220, "semtimedop fadvise64 timer_create timer_settime timer_gettime timer_getoverrun timer_delete"),
    (227, "clock_settime clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes"),
    (236, "vserver mbind set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify"),
    (245, "mq_getsetattr kexec_load waitid add_key request_key keyctl ioprio_set ioprio_get inotify_init"),
    (254, "inotify_add_watch inotify_rm_watch migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat"),
    (263, "unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list"),
    (274, "get_robust_list splice tee sync_file_range vmsplice move_pages utimensat epoll_pwait signalfd"),
    (283, "timerfd_create eventfd fallocate timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2"),
    (291, "epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg"),
    (300, "fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg"),
    (308, "setns getcpu process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2"),
    (317, "seccomp getrandom memfd_create kexec_file_load bpf execveat userfaultfd membarrier mlock2"),
    (326, "copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq"),
    (424, "pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig"),
    (432, "fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2"),
    (442, "mount_setattr quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret"),
    (448, "process_mrelease futex_waitv set_mempolicy_home_node"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_names_of_the_manual() {
        let known = [(0, "read"), (41, "socket"), (56, "clone"), (334, "rseq"), (425, "io_uring_setup")];
        known.into_iter().for_each(|(number, expected)| assert_eq!(name(number), Some(expected)));
        assert_eq!([335, 400, 423, 451].map(name), [None; 4]);
        let ends = |(first, names): &(u32, &str)| first + u32::try_from(names.split(' ').count()).expect("few");
        assert!(CALLS.windows(2).all(|pair| ends(&pair[0]) <= pair[1].0));
    }
}
