//! Network block devices that vanish with their process: the kernel serves one for as long as a thread of ours waits in `NBD_DO_IT`, and ends it,
//! with an error for what is outstanding, when that thread is killed. Requests are those of linux/nbd.h.
#![expect(unsafe_code, reason = "requests of the NBD driver")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const SET_SOCK: libc::c_ulong = 0xab00;
const SET_BLKSIZE: libc::c_ulong = 0xab01;
const DO_IT: libc::c_ulong = 0xab03;
const CLEAR_SOCK: libc::c_ulong = 0xab04;
const SET_SIZE_BLOCKS: libc::c_ulong = 0xab07;
const DISCONNECT: libc::c_ulong = 0xab08;
const SET_TIMEOUT: libc::c_ulong = 0xab09;
const SET_FLAGS: libc::c_ulong = 0xab0a;
/// Seconds after which a request without an answer fails, and the device with it.
const TIMEOUT_S: libc::c_ulong = 60;
/// How long the kernel may take to begin.
const START_LIMIT: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(1);

/// A block device over a connection, as long as this value lives.
pub(crate) struct NetworkDevice {
    path: PathBuf,
    socket: TcpStream,
    file: File,
    served: Option<JoinHandle<()>>,
}

impl NetworkDevice {
    /// A device of `bytes` in blocks of `block` bytes over a connection whose handshake is done; `flags` are the export's.
    ///
    /// # Errors
    /// What opening a device and `ioctl(2)` give; no device that is free.
    pub(crate) fn over(socket: TcpStream, (bytes, block): (u64, u32), flags: u16) -> io::Result<NetworkDevice> {
        let (path, file) = with_socket(&socket)?;
        let begun = begin(&file, (bytes, block), flags);
        let served = begun.inspect_err(|_| drop(request(&file, CLEAR_SOCK, 0)))?;
        let device = NetworkDevice { path, socket, file, served: Some(served) };
        device.wait_until_served()?;
        Ok(device)
    }

    /// Such as `/dev/nbd0`.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel says that a device is served by its size.
    fn wait_until_served(&self) -> io::Result<()> {
        let size = sysfs(&self.path).join("size");
        let deadline = Instant::now() + START_LIMIT;
        while fs::read_to_string(&size)?.trim() == "0" {
            let is_over = self.served.as_ref().is_none_or(JoinHandle::is_finished);
            if is_over || Instant::now() > deadline {
                return Err(io::Error::other(format!("the kernel does not serve {}", self.path.display())));
            }
            thread::sleep(GLANCE);
        }
        Ok(())
    }
}

impl Drop for NetworkDevice {
    fn drop(&mut self) {
        drop(request(&self.file, DISCONNECT, 0));
        // The kernel's end of the connection is this one: a server that does not end it is not waited for.
        drop(self.socket.shutdown(Shutdown::Both));
        drop(self.served.take().map(JoinHandle::join));
    }
}

/// A device that nobody uses, which has the socket now.
fn with_socket(socket: &TcpStream) -> io::Result<(PathBuf, File)> {
    for number in 0_u32.. {
        let path = PathBuf::from(format!("/dev/nbd{number}"));
        if !path.exists() {
            break;
        }
        if sysfs(&path).join("pid").exists() {
            continue;
        }
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let descriptor = libc::c_ulong::try_from(socket.as_raw_fd()).map_err(io::Error::other)?;
        match request(&file, SET_SOCK, descriptor) {
            // Somebody else was faster.
            Err(why) if why.raw_os_error() == Some(libc::EBUSY) => {}
            other => return other.map(|()| (path, file)),
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "no network block device is free (/dev/nbd0 and on)"))
}

fn begin(file: &File, (bytes, block): (u64, u32), flags: u16) -> io::Result<JoinHandle<()>> {
    request(file, SET_BLKSIZE, block.into())?;
    request(file, SET_SIZE_BLOCKS, bytes / u64::from(block))?;
    request(file, SET_FLAGS, flags.into())?;
    request(file, SET_TIMEOUT, TIMEOUT_S)?;
    let serving = file.try_clone()?;
    Ok(thread::spawn(move || {
        // Returns when the connection has ended.
        drop(request(&serving, DO_IT, 0));
        drop(request(&serving, CLEAR_SOCK, 0));
    }))
}

fn sysfs(path: &Path) -> PathBuf {
    Path::new("/sys/block").join(path.file_name().unwrap_or_default())
}

fn request(file: &File, number: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: these requests take a number, or nothing, and touch no memory of ours.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), number as _, argument) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
