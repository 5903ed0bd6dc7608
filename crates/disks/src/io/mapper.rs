//! Devices of device-mapper that vanish by themselves: each is removed by the kernel with its last user, however that ended.
//!
//! A device is made, opened and then marked for removal on its last close (`DM_DEFERRED_REMOVE`). Until it is marked, its name has the process that made it, so
//! that one of a process that was killed in between is removed by the next. Requests are those of linux/dm-ioctl.h.
#![expect(unsafe_code, reason = "requests of device-mapper")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const CONTROL: &str = "/dev/mapper/control";
/// How names of devices begin; the process that made one and a number follow.
const PREFIX: &str = "baremark-";
/// Numbers of requests.
const LIST_DEVICES: u8 = 2;
const CREATE: u8 = 3;
const REMOVE: u8 = 4;
/// Suspends with a flag, and without one resumes.
const RESUME: u8 = 6;
const LOAD: u8 = 9;
const MESSAGE: u8 = 14;
/// `DM_DEFERRED_REMOVE`.
const DEFERRED: u32 = 1 << 17;
/// Bytes of `struct dm_ioctl`, and of a request with what follows it.
const HEADER: usize = 312;
const ROOM: usize = 16 << 10;
/// Places of its fields.
const SIZE: usize = 12;
const START: usize = 16;
const TARGETS: usize = 20;
const FLAGS: usize = 28;
const DEVICE: usize = 40;
const NAME: usize = 48;
/// Bytes of a name, with its end.
const NAME_ROOM: usize = 128;
/// Bytes of `struct dm_target_spec`, and of the name of a target in it.
const SPEC: usize = 40;
const TARGET_ROOM: usize = 16;
/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 512;

/// A request, and its answer in the same place.
struct Request(Vec<u8>);

impl Request {
    fn of(name: &str) -> Request {
        let mut bytes = vec![0; ROOM];
        // Interface 4.27, which first had deferred removal (Linux 3.13).
        bytes[0..4].copy_from_slice(&4_u32.to_ne_bytes());
        bytes[4..8].copy_from_slice(&27_u32.to_ne_bytes());
        let mut request = Request(bytes);
        request.put(SIZE, u32::try_from(ROOM).unwrap_or(u32::MAX));
        request.put(START, u32::try_from(HEADER).unwrap_or(u32::MAX));
        request.text(NAME, name, NAME_ROOM);
        request
    }

    fn put(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// A text and its end, as far as it fits.
    fn text(&mut self, at: usize, text: &str, room: usize) {
        let length = text.len().min(room - 1);
        self.0[at..at + length].copy_from_slice(&text.as_bytes()[..length]);
    }

    fn number(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
    }

    fn long(&self, at: usize) -> u64 {
        self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }

    /// The text that begins here.
    fn text_at(&self, at: usize) -> String {
        let bytes = self.0.get(at..).unwrap_or_default();
        String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
    }

    /// One target over all of a device.
    fn target(&mut self, sectors: u64, (kind, parameters): (&str, &str)) -> io::Result<()> {
        // Start, sectors, status, next and the target's name; the parameters follow, with their end.
        let next = SPEC + (parameters.len() + 1).next_multiple_of(8);
        if HEADER + next > ROOM || kind.len() >= TARGET_ROOM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many devices for one table"));
        }
        self.put(TARGETS, 1);
        self.0[HEADER + 8..HEADER + 16].copy_from_slice(&sectors.to_ne_bytes());
        self.put(HEADER + 20, u32::try_from(next).map_err(io::Error::other)?);
        self.text(HEADER + 24, kind, TARGET_ROOM);
        self.text(HEADER + SPEC, parameters, ROOM - HEADER - SPEC);
        Ok(())
    }

    fn send(&mut self, number: u8) -> io::Result<()> {
        let control = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        // _IOWR(0xfd, number, struct dm_ioctl)
        let code = (3 << 30) | ((HEADER as libc::c_ulong) << 16) | (0xfd << 8) | libc::c_ulong::from(number);
        // SAFETY: the request reads and writes as many bytes of the buffer as its header says, which is all of it.
        let rc = unsafe { libc::ioctl(control.as_raw_fd(), code, self.0.as_mut_ptr()) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// A device with one target, as long as this value or another user has it open.
pub(crate) struct MappedDevice {
    name: String,
    number: (u32, u32),
    file: File,
}

impl MappedDevice {
    /// A device of `bytes` with this target and these parameters.
    ///
    /// # Errors
    /// What `ioctl(2)` and opening the device give.
    pub(crate) fn new(bytes: u64, target: (&str, &str)) -> io::Result<MappedDevice> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let mut made = Request::of(&name);
        made.send(CREATE)?;
        let device = made.long(DEVICE);
        MappedDevice::begun(name.clone(), device, bytes, target).inspect_err(|_| drop(Request::of(&name).send(REMOVE)))
    }

    fn begun(name: String, device: u64, bytes: u64, target: (&str, &str)) -> io::Result<MappedDevice> {
        let mut table = Request::of(&name);
        table.target(bytes / SECTOR, target)?;
        table.send(LOAD)?;
        Request::of(&name).send(RESUME)?;
        // As the kernel encodes it for programs (new_encode_dev).
        let device = u32::try_from(device).map_err(io::Error::other)?;
        let number = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0x000f_ff00));
        let file = OpenOptions::new().read(true).write(true).open(format!("/dev/dm-{}", number.1))?;
        let mut end = Request::of(&name);
        end.put(FLAGS, DEFERRED);
        end.send(REMOVE)?;
        Ok(MappedDevice { name, number, file })
    }

    /// Sends its target a message.
    ///
    /// # Errors
    /// What `ioctl(2)` gives.
    pub(crate) fn message(&self, message: &str) -> io::Result<()> {
        let mut request = Request::of(&self.name);
        // struct dm_target_msg: a sector, then the text.
        request.text(HEADER + 8, message, NAME_ROOM);
        request.send(MESSAGE)
    }

    /// As tables of other devices name it, such as `254:3`.
    pub(crate) fn number(&self) -> String {
        format!("{}:{}", self.number.0, self.number.1)
    }

    /// Such as `/dev/dm-3`.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/dm-{}", self.number.1))
    }

    /// A descriptor of its own.
    ///
    /// # Errors
    /// What `dup(2)` gives.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

/// Removes devices that a process of this program was making when it was killed.
pub(crate) fn remove_left() {
    let mut list = Request::of("");
    if list.send(LIST_DEVICES).is_err() {
        return;
    }
    // struct dm_name_list: device, place of the next one from here, name.
    let mut at = HEADER;
    while list.long(at) != 0 {
        let name = list.text_at(at + 12);
        let made_by = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let gone = |pid: &str| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists();
        if made_by.is_some_and(gone) {
            // One that is in use stays.
            drop(Request::of(&name).send(REMOVE));
        }
        match list.number(at + 8) {
            0 => return,
            next => at += next as usize,
        }
    }
}

/// Paths of devices as tables name them.
///
/// # Errors
/// What asking for a file gives.
pub(crate) fn numbers_of(paths: &[PathBuf]) -> io::Result<Vec<String>> {
    use std::os::unix::fs::MetadataExt;
    let number = |path: &PathBuf| {
        let device = std::fs::metadata(path)?.rdev();
        Ok(format!("{}:{}", libc::major(device), libc::minor(device)))
    };
    paths.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_laid_out_as_the_kernel_reads_it() {
        let mut request = Request::of("baremark-1-2");
        request.target(2048, ("linear", "7:1 0")).expect("it fits");
        assert_eq!((request.number(SIZE), request.number(START), request.number(TARGETS)), (16384, 312, 1));
        assert_eq!(request.text_at(NAME), "baremark-1-2");
        // struct dm_target_spec: sector_start, length, status, next, target_type[16].
        assert_eq!((request.long(312), request.long(320), request.number(328)), (0, 2048, 0));
        assert_eq!(request.number(332), 48, "40 bytes and the parameters, in steps of 8");
        assert_eq!((request.text_at(336), request.text_at(352)), ("linear".to_owned(), "7:1 0".to_owned()));
        let long = "7:1 ".repeat(5000);
        assert!(request.target(1, ("raid", &long)).is_err(), "no more than there is room for");
    }
}
