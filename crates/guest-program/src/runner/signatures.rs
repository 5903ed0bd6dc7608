//! Which values of each system call are descriptor numbers: one table, from which the runner's descriptors are kept.
//!
//! The program's numbers are the host's, for the kernel follows them in more places than calls; the runner's own numbers begin where the program's
//! limit ends. Natively none of them is open. So before any call is carried out, in whatever way, each value of it that is a descriptor is held
//! against the runner's numbers, and a call that names one is answered as the kernel answers a number that is not open. A call without a row here
//! does not exist inside (ENOSYS), nor does a request of `ioctl` (ENOTTY): what is new in a kernel has no way to the runner's descriptors until it
//! is entered.
//!
//! Numbers in memory are read before the call. A program whose other threads change them meanwhile on purpose, and numbers inside messages to the
//! kernel by netlink, are not found.

mod controls;
mod memory;
mod table;
mod wrong;

use crate::runner::descriptors::Descriptors;
use crate::runner::signatures::controls::control;
use crate::runner::signatures::memory::{for_each_row, number_at, read, word32, word64};
pub(crate) use crate::runner::signatures::table::signature;
use crate::runner::signatures::table::{More, Signature};
use crate::runner::signatures::wrong::BAD;
pub(crate) use crate::runner::signatures::wrong::Wrong;
use crate::runner::sys::Errno;
use crate::runner::thread::Process;
use crate::runner::user;

const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
const PID_OF_DESCRIPTOR: u64 = libc::P_PIDFD as u64;
/// `PERF_FLAG_PID_CGROUP`.
const GROUP: u64 = 4;
/// `KCMP_FILE` and `KCMP_EPOLL_TFD`.
const FILES: u64 = 0;
const EPOLL_TARGET: u64 = 7;
/// `F_DUPFD_QUERY`.
const SAME_FILE: u64 = 1027;
/// `SO_ATTACH_BPF` and `SO_ATTACH_REUSEPORT_EBPF`.
const PROGRAMS: [u64; 2] = [50, 52];
/// Bytes of `struct pollfd`, `struct msghdr`, `struct mmsghdr`, `struct iocb` and the head of control data.
const POLL: usize = 8;
const MESSAGE: usize = 56;
const MESSAGES: u64 = 64;
const OPERATION: usize = 64;
/// What the kernel takes at most of messages and of control data.
const MOST_MESSAGES: u64 = libc::UIO_MAXIOV as u64;
const MOST_CONTROL: u64 = i32::MAX as u64;
const HEAD: u64 = 16;
/// Bytes of the options of a mount that are looked at: the kernel takes a page.
const OPTIONS: usize = 4095;

/// What is wrong with the descriptors of a call, if anything is: `own` are the runner's.
pub(crate) fn wrong(process: &Process, own: &Descriptors, number: u64, arguments: &[u64; 6]) -> Option<Wrong> {
    let Some(signature) = signature(number.cast_signed()) else { return Some(Wrong::Unlisted) };
    if names(own, signature, arguments) {
        return Some(Wrong::Fails(BAD));
    }
    let [a, b, c, d, e, _] = *arguments;
    let bad = |is_bad: bool| is_bad.then_some(Wrong::Fails(BAD));
    match signature.more {
        More::None => None,
        More::Mapping => bad(d & MAP_ANONYMOUS == 0 && own.is_own(e)),
        More::Poll => polled(process, own, a, b & u64::from(u32::MAX)),
        More::Select => bad(selected(process, own, [a & u64::from(u32::MAX), b, c, d])),
        More::Message => bad(in_message(process, own, b)),
        More::Messages => bad((0..(c & u64::from(u32::MAX)).min(MOST_MESSAGES))
            .any(|index| in_message(process, own, b.wrapping_add(index * MESSAGES)))),
        More::Operations => bad(in_operations(process, own, b, c)),
        More::Control => control(process, own, b & u64::from(u32::MAX), c),
        More::FileControl => bad(b & u64::from(u32::MAX) == SAME_FILE && own.is_own(c)),
        More::Option => {
            let is_program = b == libc::SOL_SOCKET as u64 && PROGRAMS.contains(&c);
            bad(is_program && number_at(process, d).is_some_and(|fd| own.is_own(fd)))
        }
        More::Address => in_address(process, b),
        More::Wait => bad(a & u64::from(u32::MAX) == PID_OF_DESCRIPTOR && own.is_own(b)),
        More::Counter => bad(e & GROUP != 0 && own.is_own(b)),
        More::Comparison => {
            let kind = c & u64::from(u32::MAX);
            bad((kind == FILES && own.is_own(e)) || ([FILES, EPOLL_TARGET].contains(&kind) && own.is_own(d)))
        }
        More::Notification => {
            let event = read::<16>(process, b).map(|event| (word32(&event, 8), word32(&event, 12)));
            bad(event.is_some_and(|(socket, how)| how == libc::SIGEV_THREAD as u64 && own.is_own(socket)))
        }
        More::Mount => bad(in_options(process, own, e)),
    }
}

/// Whether an argument that is always a descriptor is one of the runner's: all that is to be looked at of most calls.
pub(crate) fn names(own: &Descriptors, signature: Signature, arguments: &[u64; 6]) -> bool {
    signature.arguments.iter().any(|at| own.is_own(arguments[*at]))
}

/// A list of `pollfd` that has numbers of the runner's is answered at once: these are not open, and nothing is known of the others.
fn polled(process: &Process, own: &Descriptors, at: u64, count: u64) -> Option<Wrong> {
    let mut found = 0;
    for_each_row::<POLL>(process, at, count, |_, row| {
        found += u64::from(own.is_own(word32(row, 0)));
        true
    });
    if found == 0 {
        return None;
    }
    for_each_row::<POLL>(process, at, count, |at, row| {
        let events = if own.is_own(word32(row, 0)) { libc::POLLNVAL } else { 0 };
        user::write_bytes(process, at.wrapping_add(6), &events.to_ne_bytes()).is_ok()
    });
    Some(Wrong::Reported(found))
}

/// Whether a set has a number of the runner's. Sets below the runner's first number are not read.
fn selected(process: &Process, own: &Descriptors, [count, sets @ ..]: [u64; 4]) -> bool {
    let end = count.min(own.end());
    let first = own.first() / 64;
    let words = end.div_ceil(64).saturating_sub(first);
    if end <= own.first() || i32::try_from(count).is_err() {
        return false;
    }
    let mut found = false;
    for set in sets.into_iter().filter(|set| *set != 0) {
        let mut at = first * 64;
        for_each_row::<8>(process, set.wrapping_add(first * 8), words, |_, row| {
            let word = word64(row, 0);
            found |= (0..64).any(|bit| word >> bit & 1 != 0 && at + bit < end && own.is_own(at + bit));
            at += 64;
            !found
        });
    }
    found
}

/// Whether the control data of a message would hand over one of the runner's.
fn in_message(process: &Process, own: &Descriptors, at: u64) -> bool {
    let Some(message) = read::<MESSAGE>(process, at) else { return false };
    let (control, length) = (word64(&message, 32), word64(&message, 40));
    if length > MOST_CONTROL {
        return false;
    }
    let mut from = 0;
    let mut found = false;
    while !found && length.checked_sub(from).is_some_and(|left| left >= HEAD) {
        let Some(head) = read::<{ HEAD as usize }>(process, control.wrapping_add(from)) else { return false };
        let (bytes, level, kind) = (word64(&head, 0), word32(&head, 8), word32(&head, 12));
        // As the kernel does: a part that does not fit ends the list with an error.
        if bytes < HEAD || bytes > length - from {
            return false;
        }
        if level == libc::SOL_SOCKET as u64 && kind == libc::SCM_RIGHTS as u64 {
            let numbers = control.wrapping_add(from + HEAD);
            for_each_row::<4>(process, numbers, (bytes - HEAD) / 4, |_, row| {
                found |= own.is_own(word32(row, 0));
                !found
            });
        }
        from += bytes.next_multiple_of(8);
    }
    found
}

/// Whether an operation of asynchronous I/O is on one of the runner's, or reports to one.
fn in_operations(process: &Process, own: &Descriptors, count: u64, list: u64) -> bool {
    const REPORTS: u64 = 1;
    let mut found = false;
    for_each_row::<8>(process, list, count, |_, pointer| {
        let Some(operation) = read::<OPERATION>(process, word64(pointer, 0)) else { return false };
        let reports = word32(&operation, 56) & REPORTS != 0 && own.is_own(word32(&operation, 60));
        found = reports || own.is_own(word32(&operation, 20));
        !found
    });
    found
}

/// Addresses of families that name sockets by descriptors (AF_XDP, AF_PPPOX), which do not exist inside.
fn in_address(process: &Process, at: u64) -> Option<Wrong> {
    const FAMILIES: [u16; 2] = [libc::AF_XDP as u16, libc::AF_PPPOX as u16];
    let family = read::<2>(process, at).map(u16::from_ne_bytes)?;
    FAMILIES.contains(&family).then_some(Wrong::Fails(Errno(libc::EAFNOSUPPORT)))
}

/// Whether the options of a mount name one of the runner's, as `fd=7` does.
fn in_options(process: &Process, own: &Descriptors, at: u64) -> bool {
    let mut bytes = [0; OPTIONS];
    let read = if at == 0 { 0 } else { user::read_some(process, at, &mut bytes) };
    let text = bytes[..read].split(|byte| *byte == 0).next().unwrap_or_default();
    text.split(|byte| *byte == b',').any(|option| {
        let mut parts = option.splitn(2, |byte| *byte == b'=');
        let is_descriptor = parts.next().is_some_and(|key| key.ends_with(b"fd") || key.ends_with(b"fdno"));
        let value = parts.next().and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
        is_descriptor && value.is_some_and(|fd| own.is_own(fd))
    })
}

#[cfg(test)]
mod tests {
    use super::controls::{CONTROLS, Holds};
    use super::table::ROWS;
    use super::*;
    use crate::call_names;
    use crate::runner::sys;
    use std::sync::atomic::Ordering;

    const FIRST_OWN: i32 = 700;
    /// Calls that exist and have no row: they do not exist inside.
    const ABSENT: &[i64] = &[
        425, // io_uring_setup
        426, // io_uring_enter
        427, // io_uring_register
        321, // bpf
        428, // open_tree
        429, // move_mount
        430, // fsopen
        431, // fsconfig
        432, // fsmount
        433, // fspick
        442, // mount_setattr
        444, // landlock_create_ruleset
        445, // landlock_add_rule
        446, // landlock_restrict_self
        134, // uselib
        156, // _sysctl
        174, // create_module
        177, // get_kernel_syms
        178, // query_module
        180, // nfsservctl
        181, // getpmsg
        182, // putpmsg
        183, // afs_syscall
        184, // tuxcall
        185, // security
        214, // epoll_ctl_old
        215, // epoll_wait_old
        236, // vserver
        212, // lookup_dcookie
    ];

    fn process() -> Process {
        let process = Process::new();
        process.pid.store(std::process::id(), Ordering::Relaxed);
        process
    }

    /// One number of the runner's, as the kernel takes it.
    fn runners() -> (Descriptors, u64) {
        let own = Descriptors::new();
        own.begin(FIRST_OWN);
        let fd = own.take(sys::open(c"/dev/null", libc::O_RDONLY).expect("a descriptor")).expect("room");
        (own, fd.unsigned_abs().into())
    }

    fn fails(found: Option<Wrong>) -> bool {
        found == Some(Wrong::Fails(BAD))
    }

    #[test]
    fn every_call_has_a_row_or_does_not_exist_inside() {
        let (own, _) = runners();
        for number in 0..u32::try_from(ROWS).expect("few") + 100 {
            let call = i64::from(number);
            let unlisted = wrong(&process(), &own, number.into(), &[0; 6]) == Some(Wrong::Unlisted);
            assert_eq!(unlisted, signature(call).is_none(), "{number}");
            if let Some(name) = call_names::name(number) {
                assert_eq!(unlisted, ABSENT.contains(&call), "{name}: enter it, or name it as absent");
            }
        }
        assert!(wrong(&process(), &own, u64::MAX, &[0; 6]) == Some(Wrong::Unlisted));
    }

    #[test]
    fn each_descriptor_of_each_call_that_is_the_runners_is_not_open() {
        let (own, fd) = runners();
        let mut tried = 0;
        for call in 0..ROWS as i64 {
            let Some(signature) = signature(call) else { continue };
            for at in signature.arguments {
                // The kernel looks at 32 bits of a number.
                for value in [fd, fd | 7 << 32] {
                    let mut arguments = [0; 6];
                    arguments[*at] = value;
                    assert!(fails(wrong(&process(), &own, call.cast_unsigned(), &arguments)), "{call}, argument {at}");
                    arguments[*at] = value + 1;
                    assert!(!fails(wrong(&process(), &own, call.cast_unsigned(), &arguments)), "{call}, argument {at}");
                    tried += 1;
                }
            }
        }
        assert!(tried > 2 * 100, "{tried}");
    }

    #[test]
    fn descriptors_that_depend_on_other_arguments_are_found() {
        let (own, fd) = runners();
        let of = |call: i64, arguments: [u64; 6]| fails(wrong(&process(), &own, call.cast_unsigned(), &arguments));
        assert!(of(libc::SYS_mmap, [0, 4096, 3, libc::MAP_SHARED as u64, fd, 0]));
        assert!(!of(libc::SYS_mmap, [0, 4096, 3, MAP_ANONYMOUS | 2, fd, 0]), "the kernel does not look at it");
        assert!(of(libc::SYS_fcntl, [0, SAME_FILE, fd, 0, 0, 0]));
        assert!(!of(libc::SYS_fcntl, [0, libc::F_DUPFD as u64, fd, 0, 0, 0]), "the lowest number that is requested");
        assert!(of(libc::SYS_waitid, [PID_OF_DESCRIPTOR, fd, 0, 4, 0, 0]));
        assert!(!of(libc::SYS_waitid, [libc::P_PID.into(), fd, 0, 4, 0, 0]));
        assert!(of(libc::SYS_perf_event_open, [0, fd, 0, u64::MAX, GROUP, 0]));
        assert!(!of(libc::SYS_perf_event_open, [0, fd, 0, u64::MAX, 0, 0]));
        assert!(of(libc::SYS_kcmp, [1, 1, FILES, fd, 0, 0]) && of(libc::SYS_kcmp, [1, 1, FILES, 0, fd, 0]));
        assert!(!of(libc::SYS_kcmp, [1, 1, 1, fd, fd, 0]), "another kind of resource");
    }

    #[test]
    fn polled_numbers_of_the_runner_are_reported_as_not_open() {
        let (own, fd) = runners();
        let fd = i32::try_from(fd).expect("small");
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 99 };
        for call in [libc::SYS_poll, libc::SYS_ppoll] {
            // More than are read at once.
            let mut list: Vec<libc::pollfd> = (0..200).map(|_| entry(0)).collect();
            let found = |list: &mut [libc::pollfd]| {
                let arguments = [list.as_mut_ptr() as u64, list.len() as u64, 0, 0, 0, 0];
                wrong(&process(), &own, call.cast_unsigned(), &arguments)
            };
            assert_eq!(found(&mut list), None);
            assert_eq!(list[150].revents, 99, "the kernel's answer");
            (list[3], list[150]) = (entry(fd), entry(fd));
            assert_eq!(found(&mut list), Some(Wrong::Reported(2)));
            let marked: Vec<usize> = (0..200).filter(|at| list[*at].revents == libc::POLLNVAL).collect();
            assert_eq!(marked, [3, 150]);
            assert_eq!((list[0].revents, list[3].fd), (0, fd));
        }
        assert_eq!(
            wrong(&process(), &own, libc::SYS_poll.cast_unsigned(), &[8, 3, 0, 0, 0, 0]),
            None,
            "EFAULT is the kernel's"
        );
    }

    #[test]
    fn selected_numbers_of_the_runner_are_not_open() {
        let (own, fd) = runners();
        let mut set = [0u64; 64];
        let of = |set: &[u64; 64], at: usize, count: u64| {
            let mut arguments = [count, 0, 0, 0, 0, 0];
            arguments[at] = set.as_ptr() as u64;
            fails(wrong(&process(), &own, libc::SYS_select.cast_unsigned(), &arguments))
        };
        set[usize::try_from(fd / 64).expect("small")] |= 1 << (fd % 64);
        for at in 1..4 {
            assert!(of(&set, at, fd + 1) && of(&set, at, 4096));
            assert!(!of(&set, at, fd), "beyond what is looked at");
            assert!(!of(&[0; 64], at, 4096) && !of(&[1; 64], at, 600));
        }
    }

    /// Control data with parts of these types and numbers.
    fn control_data(parts: &[(i32, i32, &[u64])]) -> Vec<u8> {
        let mut data = Vec::new();
        for (level, kind, numbers) in parts {
            data.extend((16 + 4 * numbers.len() as u64).to_ne_bytes());
            data.extend(level.to_ne_bytes());
            data.extend(kind.to_ne_bytes());
            numbers.iter().for_each(|number| data.extend(u32::try_from(*number).expect("small").to_ne_bytes()));
            data.resize(data.len().next_multiple_of(8), 0);
        }
        data
    }

    #[test]
    fn rights_to_the_runners_descriptors_are_not_handed_over() {
        let (own, fd) = runners();
        fn rights(numbers: &[u64]) -> (i32, i32, &[u64]) {
            (libc::SOL_SOCKET, libc::SCM_RIGHTS, numbers)
        }
        let many: Vec<u64> = (0..250).chain([fd]).collect();
        let of = |parts: &[(i32, i32, &[u64])]| {
            let data = control_data(parts);
            let message = [0, 0, 0, 0, data.as_ptr() as u64, data.len() as u64, 0, 0];
            let one = [1, message.as_ptr() as u64, 0, 0, 0, 0];
            let single = fails(wrong(&process(), &own, libc::SYS_sendmsg.cast_unsigned(), &one));
            let messages = [[0; 8], message];
            let two = [1, messages.as_ptr() as u64, 2, 0, 0, 0];
            assert_eq!(fails(wrong(&process(), &own, libc::SYS_sendmmsg.cast_unsigned(), &two)), single);
            single
        };
        assert!(of(&[rights(&[fd])]) && of(&[rights(&[0, 1, fd])]) && of(&[rights(&many)]));
        assert!(of(&[(1, 2, &[7]), rights(&[1]), rights(&[fd])]), "in a later part");
        assert!(!of(&[rights(&[0, 1])]) && !of(&[(41, 1, &[fd])]) && !of(&[]));
    }

    #[test]
    fn asynchronous_operations_do_not_reach_the_runner() {
        let (own, fd) = runners();
        let operation = |fildes: u64, flags: u64, reports: u64| [0, 0, fildes << 32, 0, 0, 0, 0, flags | reports << 32];
        let of = |operation: [u64; 8]| {
            let fine = [0u64; 8];
            let list = [fine.as_ptr() as u64, operation.as_ptr() as u64];
            let arguments = [1, 2, list.as_ptr() as u64, 0, 0, 0];
            fails(wrong(&process(), &own, libc::SYS_io_submit.cast_unsigned(), &arguments))
        };
        assert!(of(operation(fd, 0, 0)) && of(operation(1, 1, fd)));
        assert!(!of(operation(1, 0, fd)), "without the flag it is not a descriptor");
        assert!(!of(operation(1, 1, 2)));
    }

    #[test]
    fn requests_of_ioctl_are_listed_with_their_descriptors() {
        let (own, fd) = runners();
        let of = |request: u64, argument: u64| {
            wrong(&process(), &own, libc::SYS_ioctl.cast_unsigned(), &[1, request, argument, 0, 0, 0])
        };
        // TCGETS, FIONREAD, FIOCLEX, SIOCGIFCONF, FS_IOC_GETFLAGS, BLKGETSIZE64, RNDGETENTCNT.
        for known in [0x5401, 0x541b, 0x5451, 0x8912, 0x8008_6601, 0x8008_1272, 0x8004_5200] {
            assert_eq!(of(known, fd), None, "{known:x}");
        }
        // KVM_RUN, KVM_IRQFD, LOOP_SET_FD, SIOCKCMATTACH, BTRFS_IOC_SNAP_CREATE, NBD_SET_SOCK, DRM_IOCTL_PRIME_FD_TO_HANDLE.
        for unknown in [0xae80, 0x4020_ae76, 0x4c00, 0x89e0, 0x5000_9401, 0xab00, 0xc00c_642e] {
            assert_eq!(of(unknown, 0), Some(Wrong::UnlistedControl), "{unknown:x}");
        }
        let word = |at: usize| {
            let mut memory = [0u64; 16];
            memory[at / 8] = fd << (at % 8 * 8);
            memory
        };
        for (request, holds) in CONTROLS {
            let memory = match holds {
                Holds::Value => {
                    assert!(fails(of(*request, fd)) && of(*request, 0).is_none(), "{request:x}");
                    continue;
                }
                Holds::At(offset) => word(usize::try_from(*offset).expect("small")),
                // The second of two ranges.
                Holds::Ranges => {
                    let mut memory = word(24 + 32);
                    memory[2] = 2;
                    memory
                }
            };
            assert!(fails(of(*request, memory.as_ptr() as u64)), "{request:x}");
            assert_eq!(of(*request, [0u64; 16].as_ptr() as u64), None, "{request:x}");
        }
    }

    #[test]
    fn options_addresses_and_events_that_name_descriptors_are_found() {
        let (own, fd) = runners();
        let of = |call: i64, arguments: [u64; 6]| wrong(&process(), &own, call.cast_unsigned(), &arguments);
        let number = [u32::try_from(fd).expect("small")];
        for option in PROGRAMS {
            let set = |level: i32| [1, level as u64, option, number.as_ptr() as u64, 4, 0];
            assert!(fails(of(libc::SYS_setsockopt, set(libc::SOL_SOCKET))));
            assert_eq!(of(libc::SYS_setsockopt, set(libc::IPPROTO_TCP)), None);
        }
        for (family, refused) in
            [(libc::AF_XDP, true), (libc::AF_PPPOX, true), (libc::AF_INET, false), (libc::AF_UNIX, false)]
        {
            let address = [family as u16; 8];
            for call in [libc::SYS_bind, libc::SYS_connect] {
                let found = of(call, [1, address.as_ptr() as u64, 16, 0, 0, 0]);
                assert_eq!(found, refused.then_some(Wrong::Fails(Errno(libc::EAFNOSUPPORT))));
            }
        }
        let event = |how: i32| [0u32, 0, number[0], how as u32];
        for (how, bad) in [(libc::SIGEV_THREAD, true), (libc::SIGEV_SIGNAL, false)] {
            let event = event(how);
            assert_eq!(fails(of(libc::SYS_mq_notify, [1, event.as_ptr() as u64, 0, 0, 0, 0])), bad);
        }
        for (options, bad) in [
            (format!("rootmode=40000,fd={fd},user_id=0\0"), true),
            (format!("rfdno={fd}\0"), true),
            ("fd=5\0".into(), false),
            (format!("size={fd}\0"), false),
        ] {
            assert_eq!(fails(of(libc::SYS_mount, [0, 0, 0, 0, options.as_ptr() as u64, 0])), bad, "{options}");
        }
        assert_eq!(of(libc::SYS_mount, [0; 6]), None);
    }
}
