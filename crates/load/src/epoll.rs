//! The engine's system calls: readiness by epoll, connects that do not wait, the thread's own processor time.
//!
//! Sockets are edge-triggered and registered once, so that a request costs one write and one read and nothing else. The
//! wait has nanoseconds (`epoll_pwait2`, Linux 5.11) because a millisecond would be the send lag; older kernels fall back to
//! milliseconds, rounded down. This is the only module of the crate that holds unsafe code.
#![expect(unsafe_code, reason = "epoll, sockets and resource limits by system call")]

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// What became ready: the token given to [`Epoll::add`] and the kernel's event bits.
#[derive(Clone, Copy)]
pub struct Ready {
    /// As given on registration.
    pub token: u64,
    /// Data or an end can be read, or an error fetched.
    pub readable: bool,
    /// The other side has ended: everything up to the end must be read now, no further event will come.
    pub ended: bool,
    /// There is room to write, or a connect has come to an end.
    pub writable: bool,
}

/// An epoll instance with room for a batch of events.
pub struct Epoll {
    fd: OwnedFd,
    batch: Vec<libc::epoll_event>,
    filled: usize,
    /// Cleared when the kernel does not know `epoll_pwait2`.
    exact: bool,
}

impl Epoll {
    /// A new one, which reports at most `batch` sockets at once.
    ///
    /// # Errors
    /// What `epoll_create1(2)` gives.
    pub fn new(batch: usize) -> io::Result<Epoll> {
        // SAFETY: epoll_create1 takes a flag and makes a descriptor; no memory of ours is touched.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made by the kernel for us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Epoll { fd, batch: vec![libc::epoll_event { events: 0, u64: 0 }; batch], filled: 0, exact: true })
    }

    /// Registers a socket once, for both directions, edge-triggered. Closing the socket ends the registration.
    ///
    /// # Errors
    /// What `epoll_ctl(2)` gives.
    pub fn add(&self, socket: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET).cast_unsigned();
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: `event` lives through the call, which copies it; both descriptors are open.
        let rc =
            unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &raw mut event) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits for at most `timeout_ns` and returns how many sockets are ready; [`Epoll::ready`] gives each. An interrupting
    /// signal counts as nothing ready.
    ///
    /// # Errors
    /// What `epoll_wait(2)` gives.
    pub fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        let room = libc::c_int::try_from(self.batch.len()).unwrap_or(libc::c_int::MAX);
        let mut rc = if self.exact { self.wait_exactly(timeout_ns, room) } else { -1 };
        if rc < 0 && (!self.exact || io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS)) {
            self.exact = false;
            let ms = libc::c_int::try_from(timeout_ns / 1_000_000).unwrap_or(libc::c_int::MAX);
            // SAFETY: the batch has `room` events, which the kernel may fill.
            let filled = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), self.batch.as_mut_ptr(), room, ms) };
            rc = i64::from(filled);
        }
        if rc < 0 {
            let why = io::Error::last_os_error();
            self.filled = 0;
            return if why.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(why) };
        }
        self.filled = usize::try_from(rc).unwrap_or(0);
        Ok(self.filled)
    }

    fn wait_exactly(&mut self, timeout_ns: u64, room: libc::c_int) -> i64 {
        let seconds = i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX);
        let nanoseconds = i64::try_from(timeout_ns % 1_000_000_000).unwrap_or(0);
        let timeout = libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        // SAFETY: the batch has `room` events, which the kernel may fill; `timeout` lives through the call; no signal mask
        // is given, and then its size is not read.
        unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.batch.as_mut_ptr(),
                room,
                &raw const timeout,
                ptr::null::<libc::sigset_t>(),
                0,
            )
        }
    }

    /// The event `index` of the last wait.
    #[inline]
    #[must_use]
    pub fn ready(&self, index: usize) -> Ready {
        let event = self.batch[index];
        let has = |bits: libc::c_int| event.events & bits.cast_unsigned() != 0;
        Ready {
            token: event.u64,
            readable: has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR),
            ended: has(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR),
            writable: has(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR),
        }
    }
}

/// Begins to connect without waiting for the end of it; `true` when it is already there. `source` is the address to come
/// from, whose port the kernel picks as late as it can, so that ports run out by pair of addresses only.
pub(crate) fn connect(to: SocketAddr, source: Option<IpAddr>) -> io::Result<(TcpStream, bool)> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: socket takes numbers and makes a descriptor.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just made by the kernel for us alone.
    let stream = TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    stream.set_nodelay(true)?;
    if let Some(address) = source {
        let on: libc::c_int = 1;
        // SAFETY: the option's value is one int that lives through the call. A kernel without the option picks the port
        // early, which works as well; the result does not matter.
        unsafe { libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, (&raw const on).cast(), 4) };
        let (from, length) = raw_address(SocketAddr::new(address, 0));
        // SAFETY: `from` is a socket address of `length` bytes that lives through the call.
        if unsafe { libc::bind(fd, (&raw const from).cast(), length) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let (raw, length) = raw_address(to);
    // SAFETY: `raw` is a socket address of `length` bytes that lives through the call.
    if unsafe { libc::connect(fd, (&raw const raw).cast(), length) } == 0 {
        return Ok((stream, true));
    }
    let why = io::Error::last_os_error();
    if why.raw_os_error() == Some(libc::EINPROGRESS) { Ok((stream, false)) } else { Err(why) }
}

fn family_of(family: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).unwrap_or(0)
}

fn raw_address(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: a sockaddr_storage is plain numbers; all zeros is a valid one.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let length = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: family_of(libc::AF_INET),
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a sockaddr_storage is made to hold, aligned, any socket address.
            unsafe { ptr::write((&raw mut storage).cast(), raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: family_of(libc::AF_INET6),
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: a sockaddr_storage is made to hold, aligned, any socket address.
            unsafe { ptr::write((&raw mut storage).cast(), raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, libc::socklen_t::try_from(length).unwrap_or(0))
}

/// Processor time of the calling thread so far, user and system, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    // SAFETY: a rusage is plain numbers; all zeros is a valid one.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` is a rusage that lives through the call.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
        return 0;
    }
    let ns = |time: libc::timeval| time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_usec.cast_unsigned() * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// The limit on open descriptors, raised to `wanted` as far as this process may; returns what it is now.
///
/// # Errors
/// What `getrlimit(2)` gives. That it could not be raised is not an error: the answer says so.
pub fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is an rlimit that lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur >= wanted {
        return Ok(limit.rlim_cur);
    }
    // The hard limit is raised where that is allowed, else the soft one goes as far as the hard one.
    for most in [limit.rlim_max.max(wanted), limit.rlim_max] {
        let raised = libc::rlimit { rlim_cur: wanted.min(most), rlim_max: most };
        // SAFETY: `raised` is an rlimit that lives through the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return Ok(raised.rlim_cur);
        }
    }
    Ok(limit.rlim_cur)
}
