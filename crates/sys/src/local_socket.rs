//! Local streams whose two ends have names, and what waits in them unread.
//!
//! Names are abstract: they are no files, and are gone with their sockets. What one end has written lies at the other end at once, so
//! that the unread bytes there are all that is on its way.

use crate::calls::{checked, new_descriptor};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

/// Bytes of `sockaddr_un` before the name.
const FAMILY: usize = 2;

/// An abstract name as the kernel takes it, and its length.
fn address(name: &str) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: plain numbers, for which zero is a value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).map_err(io::Error::other)?;
    let places = address.sun_path.get_mut(1..=name.len()).ok_or(io::ErrorKind::InvalidInput)?;
    places.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte.cast_signed());
    let length = libc::socklen_t::try_from(FAMILY + 1 + name.len()).map_err(io::Error::other)?;
    Ok((address, length))
}

/// Gives a socket an abstract name.
///
/// # Errors
/// What `bind(2)` gives: `AddrInUse` where another socket has the name.
pub fn set_name(socket: &impl AsFd, name: &str) -> io::Result<()> {
    let (address, length) = address(name)?;
    // SAFETY: the address lives through the call, which reads it.
    checked(unsafe { libc::bind(socket.as_fd().as_raw_fd(), (&raw const address).cast(), length) }).map(drop)
}

/// Connects to an abstract name from a socket that has one. Waits for nothing.
///
/// # Errors
/// What `connect(2)` gives: `ConnectionRefused` where nobody listens, `WouldBlock` where too many wait to be accepted.
pub fn connect(from: &str, to: &str) -> io::Result<UnixStream> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: makes a descriptor, which is nobody else's, or fails.
    let socket = unsafe { new_descriptor(libc::socket(libc::AF_UNIX, kind, 0)) }?;
    set_name(&socket, from)?;
    let (address, length) = address(to)?;
    // SAFETY: as in `set_name`.
    checked(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(UnixStream::from(socket))
}

/// Bytes that wait to be read from a socket or a pipe.
///
/// # Errors
/// What `ioctl(2)` gives.
pub fn unread(file: &impl AsFd) -> io::Result<u64> {
    let mut bytes = 0;
    // SAFETY: the kernel writes one number.
    checked(unsafe { libc::ioctl(file.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut bytes) })?;
    u64::try_from(bytes).map_err(io::Error::other)
}

/// Whether a socket accepts connections.
///
/// # Errors
/// What `getsockopt(2)` gives.
pub fn is_listening(socket: &impl AsFd) -> io::Result<bool> {
    let mut value: i32 = 0;
    let mut length = libc::socklen_t::try_from(size_of::<i32>()).map_err(io::Error::other)?;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most as many bytes as `length` says.
    checked(unsafe {
        libc::getsockopt(descriptor, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, (&raw mut value).cast(), &raw mut length)
    })?;
    Ok(value != 0)
}

/// What waits in a pipe, without taking it out.
///
/// # Errors
/// What `tee(2)` and reading give.
pub fn contents(pipe: &impl AsFd) -> io::Result<Vec<u8>> {
    let waiting = usize::try_from(unread(pipe)?).map_err(io::Error::other)?;
    let mut bytes = vec![0; waiting];
    if waiting == 0 {
        return Ok(bytes);
    }
    let (mut reader, writer) = io::pipe()?;
    // The copy has room for as much as any pipe has.
    // SAFETY: takes numbers.
    unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 1 << 20) };
    // SAFETY: takes descriptors and numbers; what is copied lies in the kernel.
    let copied = unsafe { libc::tee(pipe.as_fd().as_raw_fd(), writer.as_raw_fd(), waiting, libc::SPLICE_F_NONBLOCK) };
    if usize::try_from(copied).ok() != Some(waiting) {
        return Err(io::Error::last_os_error());
    }
    drop(writer);
    io::Read::read_exact(&mut reader, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    #[test]
    fn both_ends_have_names_and_what_was_sent_is_counted_until_it_is_read() {
        let own = std::process::id();
        let (server, client) = (format!("baremark-test/{own}/s"), format!("baremark-test/{own}/c"));
        // Under a name of its own: a program that another thread starts right now has a copy of the socket for a moment.
        let early = format!("{client}/early");
        assert_eq!(connect(&early, &server).expect_err("nobody").kind(), io::ErrorKind::ConnectionRefused);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&server).expect("a name"));
        let listener = listener.expect("a listener");
        assert!(is_listening(&listener).expect("an answer"));
        let mut connected = connect(&client, &server).expect("a connection");
        let (mut accepted, address) = listener.accept().expect("a client");
        assert_eq!(address.as_abstract_name(), Some(client.as_bytes()));
        assert!(!is_listening(&accepted).expect("an answer"));
        connected.write_all(b"abc").expect("written");
        assert_eq!(unread(&accepted).expect("a number"), 3);
        accepted.read_exact(&mut [0]).expect("a byte");
        assert_eq!(unread(&accepted).expect("a number"), 2);
    }

    #[test]
    fn a_pipes_contents_stay_in_it() {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        assert_eq!(contents(&reader).expect("nothing"), b"");
        writer.write_all(b"abc").expect("written");
        assert_eq!(contents(&reader).expect("bytes"), b"abc");
        let mut bytes = [0; 3];
        reader.read_exact(&mut bytes).expect("bytes");
        assert_eq!(&bytes, b"abc");
    }
}
