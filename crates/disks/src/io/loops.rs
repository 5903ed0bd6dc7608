//! Loop devices that vanish by themselves: the kernel detaches each when its last user has closed it, however that ended.
#![expect(unsafe_code, reason = "requests of the loop driver")]

use baremark_sys::calls::checked;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// `LOOP_CTL_GET_FREE`: the number of a device that nobody uses.
const GET_FREE: libc::c_ulong = 0x4c82;
/// `LOOP_CONFIGURE`: file, block size and flags at once (Linux 5.8).
const CONFIGURE: libc::c_ulong = 0x4c0a;
/// `LO_FLAGS_AUTOCLEAR`: detached with its last user.
const AUTOCLEAR: u32 = 4;
/// `LO_FLAGS_DIRECT_IO`: its file is read and written without the page cache.
const DIRECT_IO: u32 = 16;
/// Free devices that others may take before we can.
const ATTEMPTS: usize = 64;

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    numbers: [u64; 3],
    offset: u64,
    size_limit: u64,
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names: [u8; 128],
    key: [u8; 32],
    initial: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    descriptor: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A block device over a file, as long as this value or another user has it open.
pub(crate) struct LoopDevice {
    path: PathBuf,
    file: File,
}

impl LoopDevice {
    /// A device with blocks of `block_size` bytes over all of `backing`, whose page cache is not used where its file system allows that.
    ///
    /// # Errors
    /// What opening `/dev/loop-control` and the device, and `ioctl(2)`, give.
    pub(crate) fn over(backing: &File, block_size: u32) -> io::Result<LoopDevice> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        let descriptor = u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?;
        let flags = if has_direct(backing) { AUTOCLEAR | DIRECT_IO } else { AUTOCLEAR };
        let mut attempt = 0;
        loop {
            // SAFETY: takes no argument.
            let number = checked(unsafe { libc::ioctl(control.as_raw_fd(), GET_FREE as _) })?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            let config = Config {
                descriptor,
                block_size,
                info: Info {
                    numbers: [0; 3],
                    offset: 0,
                    size_limit: 0,
                    number: 0,
                    encryption: [0; 2],
                    flags,
                    names: [0; 128],
                    key: [0; 32],
                    initial: [0; 2],
                },
                reserved: [0; 8],
            };
            // SAFETY: the request reads one loop_config, which lives through the call; both descriptors are open.
            if unsafe { libc::ioctl(file.as_raw_fd(), CONFIGURE as _, &raw const config) } == 0 {
                return Ok(LoopDevice { path, file });
            }
            let why = io::Error::last_os_error();
            attempt += 1;
            // Somebody else was faster.
            if why.raw_os_error() != Some(libc::EBUSY) || attempt == ATTEMPTS {
                return Err(why);
            }
        }
    }

    /// Such as `/dev/loop7`.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A descriptor of its own.
    ///
    /// # Errors
    /// What `dup(2)` gives.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Whether its file is read and written without the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.attribute("loop/dio").is_some_and(|text| text.trim() == "1")
    }

    /// Reads and writes that it has completed; `None` where the kernel does not count them.
    pub(crate) fn completed(&self) -> Option<[u64; 2]> {
        let text = self.attribute("stat")?;
        let field = |index: usize| text.split_ascii_whitespace().nth(index)?.parse().ok();
        Some([field(0)?, field(4)?])
    }

    fn attribute(&self, name: &str) -> Option<String> {
        let device = self.file.metadata().ok()?.rdev();
        let folder = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
        fs::read_to_string(Path::new(&folder).join(name)).ok()
    }
}

/// Whether a file can be opened past the page cache. The driver does not find out for overlayfs over a file system that cannot: it takes the flag, and
/// every I/O fails.
fn has_direct(file: &File) -> bool {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).is_ok()
}
