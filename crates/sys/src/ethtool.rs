//! Offloads of a network interface, by the requests of ethtool (`SIOCETHTOOL`), and TAP interfaces.

use crate::calls::checked;
use std::ffi::c_char;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// From linux/sockios.h and linux/if_tun.h.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETPERSIST: libc::c_ulong = 0x4004_54cb;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
/// Checksums and segmentation of TCP over IPv4 and IPv6 are left to whoever reads the frames (`TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6`).
const TUN_F_ALL: libc::c_ulong = 1 | 2 | 4;

/// What an interface may do in place of the protocol stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offload {
    /// TCP segmentation offload: the stack hands over segments of up to 64 KiB.
    Tso,
    /// Generic segmentation offload: segments are cut just before the driver.
    Gso,
    /// Generic receive offload: received frames are merged before the stack.
    Gro,
    /// Checksums are made by the interface.
    TxChecksum,
}

impl Offload {
    /// All of them.
    pub const ALL: [Offload; 4] = [Offload::Tso, Offload::Gso, Offload::Gro, Offload::TxChecksum];

    /// Its name, as ethtool(8) has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Offload::Tso => "tso",
            Offload::Gso => "gso",
            Offload::Gro => "gro",
            Offload::TxChecksum => "tx",
        }
    }

    /// The request that reads it; the next number sets it.
    fn request(self) -> u32 {
        match self {
            Offload::TxChecksum => 0x16,
            Offload::Tso => 0x1e,
            Offload::Gso => 0x23,
            Offload::Gro => 0x2b,
        }
    }
}

#[repr(C)]
struct EthtoolValue {
    request: u32,
    data: u32,
}

#[repr(C)]
struct InterfaceRequest {
    name: [c_char; libc::IFNAMSIZ],
    data: [u8; 24],
}

impl InterfaceRequest {
    fn of(link: &str) -> io::Result<InterfaceRequest> {
        if link.is_empty() || link.len() >= libc::IFNAMSIZ || link.contains('\0') {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("'{link}' is not an interface name")));
        }
        let mut name = [0; libc::IFNAMSIZ];
        #[expect(clippy::cast_possible_wrap, reason = "bytes of a name")]
        link.bytes().zip(&mut name).for_each(|(byte, place)| *place = byte as c_char);
        Ok(InterfaceRequest { name, data: [0; 24] })
    }
}

/// Whether an offload of the interface `link`, in this thread's network namespace, is on.
///
/// # Errors
/// What `ioctl(2)` gives.
pub fn is_on(link: &str, offload: Offload) -> io::Result<bool> {
    ask(link, EthtoolValue { request: offload.request(), data: 0 }).map(|data| data != 0)
}

/// Switches an offload of the interface `link` on or off, in this thread's network namespace.
///
/// # Errors
/// What `ioctl(2)` gives, and when the interface kept what it had: some offloads are fixed, or need another one.
pub fn switch(link: &str, offload: Offload, on: bool) -> io::Result<()> {
    ask(link, EthtoolValue { request: offload.request() + 1, data: u32::from(on) })?;
    if is_on(link, offload)? == on {
        return Ok(());
    }
    Err(io::Error::other(format!("{link} keeps {} {}", offload.name(), if on { "off" } else { "on" })))
}

fn ask(link: &str, mut value: EthtoolValue) -> io::Result<u32> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut request = InterfaceRequest::of(link)?;
    let place = &raw mut value;
    request.data[..size_of::<usize>()].copy_from_slice(&(place as usize).to_ne_bytes());
    // SAFETY: `request` is an ifreq whose data points to `value`; both live through the call, and the kernel writes within `value`.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) })?;
    // SAFETY: points to `value`, which lives; read through the pointer that the kernel wrote through.
    Ok(unsafe { (*place).data })
}

/// Makes a TAP interface in this thread's network namespace, which lives as long as the descriptor. Frames are read and written whole; with
/// `header` each has a virtio header of 10 bytes before it.
///
/// # Errors
/// What opening /dev/net/tun and `ioctl(2)` give.
pub fn tap(link: &str, header: TapHeader) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    let mut request = InterfaceRequest::of(link)?;
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    if header == TapHeader::Virtio {
        flags |= libc::IFF_VNET_HDR;
    }
    #[expect(clippy::cast_possible_truncation, reason = "flags of 16 bits, as ifreq has them")]
    request.data[..2].copy_from_slice(&(flags as i16).to_ne_bytes());
    // SAFETY: `request` is an ifreq that lives through the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) })?;
    Ok(file)
}

/// Makes a TAP interface that stays until it is removed, for a program that opens it by its name, such as QEMU.
///
/// # Errors
/// What opening /dev/net/tun and `ioctl(2)` give.
pub fn lasting_tap(link: &str) -> io::Result<()> {
    let file = tap(link, TapHeader::Virtio)?;
    // SAFETY: the request takes a number; the descriptor is open.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETPERSIST, 1) }).map(drop)
}

/// The longest frame of a TAP interface of [`tap_of_segments`], with its virtio header.
pub const LONGEST_FRAME: usize = 10 + 14 + 65_535;

/// Makes a TAP interface as [`tap`] does, with virtio headers, over which segments of up to 64 KiB pass whole and without checksums. Reads and
/// writes of the file do not wait.
///
/// # Errors
/// What opening /dev/net/tun, `ioctl(2)` and `fcntl(2)` give.
pub fn tap_of_segments(link: &str) -> io::Result<File> {
    let file = tap(link, TapHeader::Virtio)?;
    let descriptor = file.as_raw_fd();
    // SAFETY: the request takes a number; the descriptor is open.
    checked(unsafe { libc::ioctl(descriptor, TUNSETOFFLOAD, TUN_F_ALL) })?;
    // SAFETY: fcntl(2) with these commands takes numbers; the descriptor is open.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// What is before each frame of a TAP interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapHeader {
    /// Nothing.
    None,
    /// A virtio header, which carries offloads.
    Virtio,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_none_are_refused() {
        for name in ["", "a\0b", "sixteen-letters!"] {
            assert_eq!(is_on(name, Offload::Gro).expect_err(name).kind(), io::ErrorKind::InvalidInput);
        }
        assert!(is_on("no-such-link", Offload::Gro).is_err());
    }
}
