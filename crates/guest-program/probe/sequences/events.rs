//! Steps on what is waited for: polls, counters, timers, sockets, words of memory; and questions about the process.

use super::{ARENA, Sequence};
use std::sync::atomic::{AtomicU32, Ordering};

/// Nanoseconds until a timer ends, and milliseconds until it must have.
const SOON_NS: u64 = 200_000;
const LIMIT_MS: u64 = 20_000;

pub fn step(s: &mut Sequence) {
    match s.below(8) {
        0 => polls(s),
        1 => epoll(s),
        2 => counters(s),
        3 => timers(s),
        4 | 5 => sockets(s),
        6 => words(s),
        _ => questions(s),
    }
}

fn polls(s: &mut Sequence) {
    let events = (libc::POLLIN | libc::POLLOUT) as u64;
    // struct pollfd: descriptor, requested and found events.
    let mut list = [0, 1, 2].map(|_| s.fd() & 0xffff_ffff | events << 32);
    let at = list.as_mut_ptr() as u64;
    if s.below(3) > 0 {
        s.call("poll", libc::SYS_poll, &[at, 3, 0]);
        list.into_iter().for_each(|one| s.note("events", (one >> 48).cast_signed()));
    } else {
        let mut set = [0u64; 16];
        // The kernel looks at no bit beyond the process's table of descriptors, which is longer inside.
        for fd in list.map(|one| one & 0xffff_ffff).into_iter().filter(|fd| *fd < 64) {
            set[(fd / 64) as usize] |= 1 << (fd % 64);
        }
        let at_once = [0u64; 2];
        let arguments = [1000, set.as_mut_ptr() as u64, 0, 0, at_once.as_ptr() as u64, 0];
        s.call("pselect6", libc::SYS_pselect6, &arguments);
        s.note("set", set[0].cast_signed());
    }
}

fn epoll(s: &mut Sequence) {
    let (poll, fd, what) = (s.fd(), s.fd(), 1 + s.below(3));
    match s.below(4) {
        0 => {
            let made = s.call("epoll_create1", libc::SYS_epoll_create1, &[0]);
            s.keep(made);
        }
        1 | 2 => {
            let events = s.one_of(&[libc::EPOLLIN, libc::EPOLLOUT, libc::EPOLLIN | libc::EPOLLONESHOT]);
            // struct epoll_event, which is packed: events and data.
            let event = [u64::from(events.cast_unsigned()) | 77 << 32, 0];
            s.call("epoll_ctl", libc::SYS_epoll_ctl, &[poll, what, fd, event.as_ptr() as u64]);
        }
        _ => {
            let to = s.filled(0);
            let found = s.call("epoll_pwait", libc::SYS_epoll_pwait, &[poll, to, 4, 0, 0, 8]);
            s.room_contents("events", found.max(0) * 12);
        }
    }
}

fn counters(s: &mut Sequence) {
    let (value, fd) = (s.one_of(&[0, 1, 5, u64::MAX - 1, u64::MAX]), s.fd());
    if s.below(2) == 0 {
        let flags = (libc::EFD_NONBLOCK | s.one_of(&[0, libc::EFD_SEMAPHORE])) as u64;
        let made = s.call("eventfd2", libc::SYS_eventfd2, &[value & 0xff, flags]);
        s.keep(made);
    } else {
        s.call("write", libc::SYS_write, &[fd, (&raw const value) as u64, 8]);
    }
}

/// A timer of its own that is armed, waited for and read in one step, so that nothing depends on when it ends.
fn timers(s: &mut Sequence) {
    let clock = s.one_of(&[libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME, 99]) as u64;
    let made = s.call("timerfd_create", libc::SYS_timerfd_create, &[clock, libc::TFD_NONBLOCK as u64]);
    let fd = made.cast_unsigned();
    let (soon, mut left) = ([0u64, 0, 0, SOON_NS], [0u64; 4]);
    s.call("timerfd_settime", libc::SYS_timerfd_settime, &[fd, 0, soon.as_ptr() as u64, left.as_mut_ptr() as u64]);
    let list = [fd & 0xffff_ffff | 1 << 32];
    // Waits where there is a timer to wait for.
    let limit = if made > 0 { LIMIT_MS } else { 0 };
    s.call("poll", libc::SYS_poll, &[list.as_ptr() as u64, 1, limit]);
    let mut count = 0u64;
    s.call("read", libc::SYS_read, &[fd, (&raw mut count) as u64, 8]);
    s.call("timerfd_gettime", libc::SYS_timerfd_gettime, &[fd, left.as_mut_ptr() as u64]);
    s.note("ended", (count << 8 | left[3]).cast_signed());
    s.keep(made);
}

fn sockets(s: &mut Sequence) {
    let (fd, bytes) = (s.fd(), s.bytes());
    let nonblock = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    match s.below(10) {
        0..=2 => {
            let kind = s.one_of(&[libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET]);
            let kind = (kind | libc::SOCK_NONBLOCK) as u64;
            let mut ends = [0i32; 2];
            if s.call("socketpair", libc::SYS_socketpair, &[1, kind, 0, ends.as_mut_ptr() as u64]) == 0 {
                ends.into_iter().for_each(|end| s.keep(end.into()));
            }
        }
        3 => {
            let from = s.filled(3);
            s.call("sendto", libc::SYS_sendto, &[fd, from, bytes, nonblock as u64, 0, 0]);
        }
        4 => {
            let (to, peek) = (s.filled(0), s.one_of(&[0, libc::MSG_PEEK, libc::MSG_TRUNC]));
            let read = s.call("recvfrom", libc::SYS_recvfrom, &[fd, to, bytes, (nonblock | peek) as u64, 0, 0]);
            s.room_contents("received", read.min(bytes.cast_signed()));
        }
        5 => {
            let from = s.filled(4);
            let parts = [from, 3, from, bytes];
            // struct msghdr: name and its length, parts and their number, control and its length, flags.
            let message = [0, 0, parts.as_ptr() as u64, 2, 0, 0, 0];
            s.call("sendmsg", libc::SYS_sendmsg, &[fd, message.as_ptr() as u64, nonblock as u64]);
        }
        6 => {
            let how = s.below(4);
            s.call("shutdown", libc::SYS_shutdown, &[fd, how]);
        }
        7 => {
            let (mut value, mut room) = (0u32, 4u32);
            let what = s.one_of(&[libc::SO_TYPE, libc::SO_ERROR, libc::SO_DOMAIN, libc::SO_ACCEPTCONN]) as u64;
            let arguments = [fd, 1, what, (&raw mut value) as u64, (&raw mut room) as u64];
            s.call("getsockopt", libc::SYS_getsockopt, &arguments);
            s.note("option", value.into());
        }
        8 => {
            let family = s.one_of(&[1, 2, 10, 99]);
            let made = s.call("socket", libc::SYS_socket, &[family, (1 | libc::SOCK_NONBLOCK) as u64, 0]);
            s.keep(made);
        }
        _ => listen(s, fd),
    }
}

/// Any address of the machine, which is in a network namespace of its own.
fn listen(s: &mut Sequence, fd: u64) {
    let port = 5000 + s.below(3);
    // struct sockaddr_in: family, port, address.
    let name = [2 | (port >> 8) << 16 | (port & 0xff) << 24, 0];
    match s.below(4) {
        0 => s.call("bind", libc::SYS_bind, &[fd, name.as_ptr() as u64, 16]),
        1 => s.call("listen", libc::SYS_listen, &[fd, 4]),
        2 => s.call("accept4", libc::SYS_accept4, &[fd, 0, 0, libc::SOCK_NONBLOCK as u64]),
        _ => {
            let (to, mut room) = (s.filled(0), 16u32);
            let named = s.call("getsockname", libc::SYS_getsockname, &[fd, to, (&raw mut room) as u64]);
            s.room_contents("name", if named == 0 { 2 } else { 0 });
            named
        }
    };
}

/// Words of memory that are waited for, with a value that they do not have or a time that is over.
fn words(s: &mut Sequence) {
    static WORD: AtomicU32 = AtomicU32::new(7);
    let (value, at_once) = (s.one_of(&[7, 8]), [0u64; 2]);
    let at = s.one_of(&[WORD.as_ptr() as u64, WORD.as_ptr() as u64 + 1, ARENA, 8, 1 << 47]);
    let what = s.one_of(&[libc::FUTEX_WAIT, libc::FUTEX_WAKE, libc::FUTEX_WAIT_BITSET, libc::FUTEX_CMP_REQUEUE, 99]);
    let private = s.one_of(&[0, libc::FUTEX_PRIVATE_FLAG]);
    let time = if what == libc::FUTEX_CMP_REQUEUE { 1 } else { at_once.as_ptr() as u64 };
    let arguments = [at, (what | private) as u64, value, time, WORD.as_ptr() as u64, value];
    s.call("futex", libc::SYS_futex, &arguments);
    s.note("word", WORD.load(Ordering::Relaxed).into());
}

fn questions(s: &mut Sequence) {
    let to = s.filled(0);
    match s.below(12) {
        0 => {
            let name = s.one_of(&[c"one", c"another-long-name", c""]).as_ptr() as u64;
            s.call("prctl set", libc::SYS_prctl, &[libc::PR_SET_NAME as u64, name]);
            s.call("prctl get", libc::SYS_prctl, &[libc::PR_GET_NAME as u64, to]);
            s.room_contents("name", 16);
        }
        1 => {
            let asked = s.call("uname", libc::SYS_uname, &[to]);
            s.room_contents("system", if asked == 0 { 65 } else { 0 });
        }
        2 => {
            let resource = s.one_of(&[0, 1, 3, 4, 7, 9, 20]);
            let asked = s.call("getrlimit", libc::SYS_getrlimit, &[resource, to]);
            s.room_contents("limit", if asked == 0 { 16 } else { 0 });
        }
        3 => drop(s.call("sched_yield", libc::SYS_sched_yield, &[])),
        4 => {
            let (clock, at) = (s.one_of(&[0, 1, 2, 3, 7, 99]), s.private_pointer());
            s.call("clock_gettime", libc::SYS_clock_gettime, &[clock, at]);
        }
        5 => {
            let time = [0u64, s.one_of(&[0, 1000, 2_000_000_000])];
            s.call("nanosleep", libc::SYS_nanosleep, &[time.as_ptr() as u64, 0]);
        }
        6 => {
            let (at, bytes) = (s.private_pointer(), s.bytes());
            s.call("getrandom", libc::SYS_getrandom, &[at, bytes, 0]);
        }
        7 => drop(s.call("getuid", libc::SYS_getuid, &[])),
        8 => drop(s.call("personality", libc::SYS_personality, &[0xffff_ffff])),
        9 => {
            let at = s.private_pointer();
            s.call("getrusage", libc::SYS_getrusage, &[0, at]);
        }
        10 => drop(s.call("wait4", libc::SYS_wait4, &[u64::MAX, 0, 1, 0])),
        _ => drop(s.call("membarrier", libc::SYS_membarrier, &[99, 0, 0])),
    }
}
