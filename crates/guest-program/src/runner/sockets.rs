//! Sockets of a protected program: it asks for TCP and gets local streams, whose other end the maker of checkpoints holds.
//!
//! Only so is it known which bytes the program has read and written at a checkpoint: nothing is on its way. A socket's name says what it
//! is: `baremark/OWNER/KIND ID/ADDRESS`, where ADDRESS is the one that the program knows, as hexadecimal digits. Kinds are `l` of a socket
//! that the program has bound, `c` of the other end of a connection, `r` of the program's end of a restored one.

use crate::options::Line;
use crate::runner::checkpoint;
use crate::runner::sys::{self, Errno};
use crate::runner::thread::Process;
use crate::runner::user;
use crate::snapshot::Reason;

const INTERNET: [(u16, usize); 2] = [(libc::AF_INET as u16, 16), (libc::AF_INET6 as u16, 28)];
/// The longest address, and a socket's name with its family.
const LONGEST: usize = 28;
const NAME: usize = 110;
const FAMILY: usize = 2;

/// What a call came to that is carried out here.
pub(crate) type Answer = Result<Result<u64, Errno>, Reason>;

/// Hexadecimal digits.
struct Digits<'a>(&'a [u8]);

impl std::fmt::Display for Digits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// `bind`: to a name that has the address.
pub(crate) fn bind(process: &Process, fd: u64, address: u64, bytes: u64) -> Answer {
    let mut read = [0; LONGEST];
    let length = usize::try_from(bytes & u64::from(u32::MAX)).unwrap_or(0).min(LONGEST);
    if user::read_bytes(process, address, &mut read[..length]).is_err() {
        return Ok(Err(Errno(libc::EFAULT)));
    }
    let family = u16::from_ne_bytes([read[0], read[1]]);
    let known = INTERNET.iter().find(|(known, least)| *known == family && length >= *least);
    let (Some((_, length)), false) = (known, read[2] == 0 && read[3] == 0) else { return Err(Reason::Address) };
    Ok(bind_to(fd, &checkpoint::socket_name('l', 0, Line::<64>::of(Digits(&read[..*length])).as_str())))
}

/// Binds a socket to an abstract name.
pub(crate) fn bind_to(fd: u64, name: &Line<108>) -> Result<u64, Errno> {
    let mut address = [0; NAME];
    address[..FAMILY].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    let text = name.as_bytes();
    let end = FAMILY + 1 + text.len();
    address[FAMILY + 1..end].copy_from_slice(text);
    // SAFETY: the kernel reads the name.
    sys::checked(unsafe { sys::raw(libc::SYS_bind, [fd, address.as_ptr() as u64, end as u64, 0, 0, 0]) })
}

/// `getsockname`, `getpeername`, and what `accept` says of the other end: the address in the name.
pub(crate) fn address(process: &Process, call: i64, fd: u64, to: u64, room: u64) -> Result<u64, Errno> {
    let mut name = [0; NAME];
    let mut length = [NAME as u32];
    let arguments = [fd, name.as_mut_ptr() as u64, length.as_mut_ptr() as u64, 0, 0, 0];
    // SAFETY: the kernel writes as many bytes as the array has, and their number.
    sys::checked(unsafe { sys::raw(call, arguments) })?;
    let mut bytes = [0; LONGEST];
    let mut count = 16;
    bytes[..FAMILY].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    let digits = name[..(length[0] as usize).min(NAME)].rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if digits.len() / 2 <= LONGEST && digits.len() >= 32 {
        count = digits.len() / 2;
        for (to, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *to = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0);
        }
    }
    let mut wanted = [0; 4];
    user::read_bytes(process, room, &mut wanted)?;
    let wanted = (u32::from_ne_bytes(wanted) as usize).min(count);
    user::write_bytes(process, to, &bytes[..wanted])?;
    user::write_bytes(process, room, &u32::try_from(count).unwrap_or(0).to_ne_bytes())?;
    Ok(0)
}

/// The header with which a message is sent or received, from the program's: buffers alone. Addresses of senders are not asked for, since a
/// connection has none.
pub(crate) fn header(programs: &[u64; 7], sends: bool) -> Result<[u64; 7], Reason> {
    let [name, name_bytes, parts, count, _, control_bytes, _] = *programs;
    let has_receiver = sends && name != 0 && name_bytes & u64::from(u32::MAX) != 0;
    if has_receiver || control_bytes != 0 { Err(Reason::Message) } else { Ok([0, 0, parts, count, 0, 0, 0]) }
}

/// Writes what `recvmsg` gives into the program's header at `to`: flags, and that there is no address.
pub(crate) fn received(process: &Process, to: u64, name: u64, header: &[u64; 7]) -> Result<(), Errno> {
    const NAME_BYTES: u64 = 8;
    const FLAGS: u64 = 48;
    if name != 0 {
        user::write_bytes(process, to + NAME_BYTES, &[0; 4])?;
    }
    user::write_bytes(process, to + FLAGS, &header[6].to_ne_bytes()[..4])
}

/// `setsockopt`: options of TCP have no effect here and need none; others that would change what the program sees are refused.
pub(crate) fn set_option(level: u64, option: u64) -> Answer {
    let known =
        [libc::SO_REUSEADDR, libc::SO_KEEPALIVE, libc::SO_REUSEPORT, libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_LINGER];
    let is = |value: i32| level == value as u64;
    let harmless = is(libc::IPPROTO_TCP)
        || is(libc::SOL_SOCKET) && known.iter().any(|known| option == *known as u64)
        || is(libc::IPPROTO_IPV6) && option == libc::IPV6_V6ONLY as u64;
    if harmless { Ok(Ok(0)) } else { Err(Reason::SocketOption) }
}

/// `getsockopt`: `None` where the kernel answers.
pub(crate) fn option(process: &Process, level: u64, option: u64, to: u64, room: u64) -> Option<Answer> {
    let is = |value: i32| option == value as u64;
    if level != libc::SOL_SOCKET as u64 {
        return Some(Err(Reason::SocketOption));
    }
    if is(libc::SO_DOMAIN) {
        let written = user::write_bytes(process, to, &libc::AF_INET.to_ne_bytes());
        return Some(Ok(written.and_then(|()| user::write_bytes(process, room, &4u32.to_ne_bytes())).map(|()| 0)));
    }
    let known =
        [libc::SO_ERROR, libc::SO_TYPE, libc::SO_ACCEPTCONN, libc::SO_REUSEADDR, libc::SO_SNDBUF, libc::SO_RCVBUF];
    if known.into_iter().any(is) { None } else { Some(Err(Reason::SocketOption)) }
}

/// The type of an open file, as its mode has it, and its device's number.
fn type_of(fd: i32) -> Option<(u32, u64)> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes the structure, which is plain numbers and was zeroed.
    let status = unsafe {
        if sys::raw(libc::SYS_fstat, [i64::from(fd).cast_unsigned(), status.as_mut_ptr() as u64, 0, 0, 0, 0]) != 0 {
            return None;
        }
        status.assume_init()
    };
    Some((status.st_mode & libc::S_IFMT, status.st_rdev))
}

/// Whether copies of a descriptor would have to share what an image keeps by descriptor: the offset of a file, or the state of a set, a
/// counter or a timer, which are files of no type.
pub(crate) fn has_own_state(fd: i32) -> bool {
    is_permitted_file(fd) || type_of(fd).is_some_and(|(of_type, _)| of_type == 0)
}

/// Whether an open file is a regular one, or gives random numbers.
pub(crate) fn is_permitted_file(fd: i32) -> bool {
    // The numbers of /dev/null, /dev/zero, /dev/random and /dev/urandom.
    let devices = [0x103, 0x105, 0x108, 0x109];
    match type_of(fd) {
        Some((libc::S_IFREG, _)) => true,
        Some((libc::S_IFCHR, device)) => devices.contains(&device),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn messages_have_buffers_alone_and_what_was_received_has_flags() {
        let plain = [0, 0, 4096, 2, 0, 0, 0];
        assert_eq!((header(&plain, true), header(&plain, false)), (Ok(plain), Ok(plain)));
        let with_name = [8192, 16, 4096, 2, 0, 0, 7];
        assert_eq!((header(&with_name, true), header(&with_name, false)), (Err(Reason::Message), Ok(plain)));
        for sends in [true, false] {
            assert_eq!(header(&[0, 0, 4096, 2, 8192, 16, 0], sends), Err(Reason::Message));
        }
        let process = Process::new();
        process.pid.store(std::process::id(), Ordering::Relaxed);
        let mut programs: [u64; 7] = [8192, 7 << 32 | 16, 4096, 2, 0, 0, 7 << 32 | 7];
        received(&process, programs.as_mut_ptr() as u64, 8192, &[0, 0, 0, 0, 0, 0, 32]).expect("written");
        assert_eq!(programs, [8192, 7 << 32, 4096, 2, 0, 0, 7 << 32 | 32]);
    }
}
