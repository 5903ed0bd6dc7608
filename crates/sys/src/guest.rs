//! What the first process of a guest has to do, because there is nobody else: mount, load, set up a port, bury the dead,
//! switch off.

use crate::calls::{checked, new_descriptor, was_interrupted};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::{io, mem};

/// Mounts a file system that the kernel itself provides, such as `proc`, on a folder; one that is there already is right.
///
/// # Errors
/// What `mount(2)` gives.
pub fn mount(kind: &str, folder: &str) -> io::Result<()> {
    match attach(kind, kind, folder, libc::MS_NOSUID, "") {
        Err(why) if why.raw_os_error() == Some(libc::EBUSY) => Ok(()),
        mounted => mounted,
    }
}

/// Mounts a file system of this kind that is found by its tag, and that nobody may change through this mount.
///
/// # Errors
/// What `mount(2)` gives.
pub fn mount_read_only(kind: &str, tag: &str, folder: &str) -> io::Result<()> {
    attach(kind, tag, folder, libc::MS_RDONLY, "")
}

/// Mounts on `folder` what is in `lower` with a writable layer over it, which `upper` and `work` hold: two empty folders of
/// one file system.
///
/// # Errors
/// What `mount(2)` gives.
pub fn mount_overlay(lower: &str, upper: &str, work: &str, folder: &str) -> io::Result<()> {
    attach("overlay", "overlay", folder, 0, &format!("lowerdir={lower},upperdir={upper},workdir={work}"))
}

fn attach(kind: &str, source: &str, folder: &str, flags: libc::c_ulong, options: &str) -> io::Result<()> {
    let (kind, source, folder) = (CString::new(kind)?, CString::new(source)?, CString::new(folder)?);
    let options = CString::new(options)?;
    // SAFETY: all four strings end in zero and live through the call.
    checked(unsafe { libc::mount(source.as_ptr(), folder.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) })
        .map(drop)
}

/// Makes the file system that is mounted on `folder` the root of this process and of all that it starts from now on. The old
/// root, which a kernel unpacked and nobody can unmount, lies under it.
///
/// # Errors
/// What `chdir(2)`, `mount(2)` or `chroot(2)` give.
pub fn change_root(folder: &str) -> io::Result<()> {
    std::env::set_current_dir(folder)?;
    // SAFETY: both strings end in zero; a mount that is moved looks at neither kind nor options.
    checked(unsafe { libc::mount(c".".as_ptr(), c"/".as_ptr(), std::ptr::null(), libc::MS_MOVE, std::ptr::null()) })?;
    std::os::unix::fs::chroot(".")?;
    std::env::set_current_dir("/")
}

/// Gives a network interface an address of version 4 and switches it on.
///
/// # Errors
/// `InvalidInput` when the name is too long, else what the `ioctl(2)`s of `netdevice(7)` give.
pub fn set_up_interface(name: &str, address: Ipv4Addr, prefix: u32) -> io::Result<()> {
    // SAFETY: an ifreq is plain numbers; all zeros is a valid one.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no interface is called {name}")));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mask = Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0));
    for (number, value) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)] {
        request.ifr_ifru.ifru_addr = as_socket_address(value);
        // SAFETY: the request is a whole ifreq that lives through the call, with the address that these two read.
        checked(unsafe { libc::ioctl(socket.as_raw_fd(), number, &raw mut request) })?;
    }
    request.ifr_ifru.ifru_flags = UP;
    // SAFETY: as above, with the flags that this one reads.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) }).map(drop)
}

/// IFF_UP and IFF_RUNNING.
const UP: libc::c_short = 0x41;

fn as_socket_address(address: Ipv4Addr) -> libc::sockaddr {
    /// AF_INET, in the type of an address's family.
    const INTERNET: libc::sa_family_t = 2;
    let inet = libc::sockaddr_in {
        sin_family: INTERNET,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: address.to_bits().to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: both are plain numbers of the same size; the family says which one it is.
    unsafe { mem::transmute(inet) }
}

/// Loads a kernel module from a file; one that is there already is right.
///
/// # Errors
/// What opening the file or `finit_module(2)` gives.
pub fn load_module(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: an open descriptor, no parameters (an empty string that ends in zero), no flags.
    let rc = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    match (rc, io::Error::last_os_error()) {
        (0, _) => Ok(()),
        (_, why) if why.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        (_, why) => Err(why),
    }
}

/// Opens a port for bytes as they are. A serial port is a terminal: no echo, no signals, no line editing, and what came
/// before is thrown away. A virtio port carries nothing but bytes anyway.
///
/// # Errors
/// What opening, `tcgetattr(3)` or `tcsetattr(3)` give.
pub fn open_raw(port: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(port)?;
    // SAFETY: a termios is plain numbers; all zeros is a valid one.
    let mut settings: libc::termios = unsafe { mem::zeroed() };
    // SAFETY: an open descriptor and a termios that lives through the call.
    if unsafe { libc::tcgetattr(file.as_raw_fd(), &raw mut settings) } != 0 {
        let why = io::Error::last_os_error();
        return if why.raw_os_error() == Some(libc::ENOTTY) { Ok(file) } else { Err(why) };
    }
    // SAFETY: changes only the termios that it is given.
    unsafe { libc::cfmakeraw(&raw mut settings) };
    // A virtual port is as fast as it is, but waits some characters' time before it reports a few.
    settings.c_cflag = (settings.c_cflag & !libc::CBAUD) | libc::B115200 | libc::CLOCAL | libc::CREAD;
    // SAFETY: an open descriptor and a termios that lives through the call.
    checked(unsafe { libc::tcsetattr(file.as_raw_fd(), libc::TCSAFLUSH, &raw const settings) })?;
    Ok(file)
}

/// Connects to a port of the machine below, by the socket of its hypervisor (`vsock(7)`). Waits at most 20 s for an answer.
///
/// # Errors
/// What `socket(2)` and `connect(2)` give: `ENODEV` before a driver has found the hypervisor's device, `ECONNRESET` where
/// nobody listens.
pub fn connect_to_host(port: u32) -> io::Result<File> {
    // SAFETY: takes numbers; the descriptor that it makes is nobody else's.
    let socket = unsafe { new_descriptor(libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)) }?;
    let limit = libc::timeval { tv_sec: CONNECT_LIMIT_S, tv_usec: 0 };
    let length = libc::socklen_t::try_from(size_of_val(&limit)).map_err(io::Error::other)?;
    let descriptor = socket.as_raw_fd();
    // SAFETY: the timeval lives through the call, which reads as many bytes as it has.
    checked(unsafe {
        libc::setsockopt(descriptor, libc::AF_VSOCK, CONNECT_TIMEOUT, (&raw const limit).cast(), length)
    })?;
    // SAFETY: plain numbers, for which zero is a value.
    let mut address: libc::sockaddr_vm = unsafe { mem::zeroed() };
    address.svm_family = libc::sa_family_t::try_from(libc::AF_VSOCK).map_err(io::Error::other)?;
    address.svm_cid = libc::VMADDR_CID_HOST;
    address.svm_port = port;
    let length = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
    // SAFETY: the address lives through the call, which reads as many bytes as it has.
    checked(unsafe { libc::connect(descriptor, (&raw const address).cast(), length) })?;
    Ok(File::from(socket))
}

/// `SO_VM_SOCKETS_CONNECT_TIMEOUT` of linux/vm_sockets.h, with a timeval of this machine's own form.
const CONNECT_TIMEOUT: i32 = 6;
/// How long a hypervisor on a busy machine may take to answer; the kernel's own limit is 2 s.
const CONNECT_LIMIT_S: libc::time_t = 20;
/// How long the other end of a socket may take to have read everything, in ms.
const READ_LIMIT_MS: i32 = 2000;

/// Waits until everything written to the port has left; what a virtio port has taken has left. Of a socket no more can be
/// written, and its other end has read everything when it closes, for which this waits at most 2 s.
///
/// # Errors
/// What `tcdrain(3)` gives.
pub fn drain(port: &File) -> io::Result<()> {
    let descriptor = port.as_raw_fd();
    // SAFETY: an open descriptor and a number; fails where it is no socket.
    if unsafe { libc::shutdown(descriptor, libc::SHUT_WR) } == 0 {
        let mut watched = libc::pollfd { fd: descriptor, events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: one pollfd, which lives through the call.
        unsafe { libc::poll(&raw mut watched, 1, READ_LIMIT_MS) };
        return Ok(());
    }
    // SAFETY: an open descriptor; no memory is touched.
    let rc = unsafe { libc::tcdrain(descriptor) };
    match (rc, io::Error::last_os_error()) {
        (0, _) => Ok(()),
        (_, why) if why.raw_os_error() == Some(libc::ENOTTY) => Ok(()),
        (_, why) => Err(why),
    }
}

/// Buries every process that ends, our own children and orphans, until `child` does; its exit status, or 128 and the
/// number of the signal that ended it.
///
/// # Errors
/// What `waitpid(2)` gives.
pub fn reap_until(child: u32) -> io::Result<i32> {
    loop {
        let mut status = 0;
        // SAFETY: -1 is "any child"; the status lives through the call.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        match u32::try_from(pid) {
            Ok(pid) if pid == child && libc::WIFEXITED(status) => return Ok(libc::WEXITSTATUS(status)),
            Ok(pid) if pid == child => return Ok(128 + libc::WTERMSIG(status)),
            Ok(_) => {}
            Err(_) => was_interrupted()?,
        }
    }
}

/// Switches the machine off.
///
/// # Errors
/// What `reboot(2)` gives; it returns for no other reason. Nothing happens unless the caller is the first process.
pub fn power_off() -> io::Result<()> {
    if std::process::id() != 1 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "only the first process may switch the machine off",
        ));
    }
    // SAFETY: a number; no memory of ours is touched.
    unsafe { libc::sync() };
    // SAFETY: a number; it does not return unless it fails.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    #[test]
    fn a_socket_is_drained_when_its_other_end_has_read_all_and_closed() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let mut port = File::from(OwnedFd::from(ours));
        port.write_all(b"the last frame").expect("written");
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).expect("the end of what was written comes by the drain");
            all
        });
        drain(&port).expect("a socket is drained");
        assert_eq!(reader.join().expect("no panic"), b"the last frame");
        assert_eq!(port.write(b"more").expect_err("closed for writing").kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_is_no_socket_and_no_terminal_has_left_when_it_is_written() {
        let (_reader, writer) = io::pipe().expect("a pipe");
        drain(&File::from(OwnedFd::from(writer))).expect("nothing to wait for");
    }
}
