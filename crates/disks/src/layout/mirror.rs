//! A disk of two copies: a mirror of device-mapper over a file here and an NBD server's. A write ends when both copies have it, reads are answered
//! here.
//!
//! As with every layout nothing outlives the process, however it ends: the kernel ends the network block device with the thread that serves it,
//! then removes the mirror and detaches the loop device with their last users.

use super::file_system::{Format, found};
use super::mapped;
use crate::error::EngineError;
use crate::io::calls;
use crate::io::loops::LoopDevice;
use crate::io::mapper::{self, MappedDevice};
use crate::io::nbd::NetworkDevice;
use crate::nbd::{Replica, client};
use crate::target::{Cache, Target};
use crate::writable::Writable;
use baremark_model::units::Bytes;
use baremark_sys::confine::is_root;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a block: what file systems use, and what direct I/O on every disk below satisfies.
const BLOCK: u32 = 4096;
/// Sizes are multiples of this.
const UNIT: u64 = 1 << 20;
/// How long the kernel may take to remove a mirror after its last user.
const REMOVAL_LIMIT: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(1);

/// Reads and writes of a mirror's users, and the time that they took, from the kernel's counters; those count time in ticks of its timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Reads.
    pub reads: u64,
    /// Time of all of them, in ns.
    pub read_ns: u64,
    /// Writes, each of which waited for both copies.
    pub writes: u64,
    /// Time of all of them, in ns.
    pub write_ns: u64,
}

/// A block device whose writes wait for a second copy, or the same with its first copy alone.
pub struct Mirror {
    device: Option<MappedDevice>,
    path: PathBuf,
    bytes: u64,
    // After the mirror: what is below it.
    remote: Option<NetworkDevice>,
    _nothing: Option<MappedDevice>,
    here: LoopDevice,
    backing: fs::File,
}

impl Mirror {
    /// Why this machine cannot make one; `None` where nothing is known to be missing. No module is loaded for that.
    #[must_use]
    pub fn missing() -> Option<String> {
        if !is_root() {
            return Some("loop devices and mounts need the superuser; run it as root".to_owned());
        }
        missing_below(Path::new("/"))
    }

    /// A mirror of `bytes` of zeros, whose first copy is a file without a name in `folder`. The second is reached at the address, which may be that of
    /// a proxy before it; without one it is a device that takes writes at once and keeps nothing, for what the layers themselves cost.
    ///
    /// # Errors
    /// Too little space, what the kernel lacks, or a replica that cannot be reached.
    pub fn new(folder: &Path, bytes: u64, second: Option<(&Replica, SocketAddr)>) -> Result<Mirror, EngineError> {
        if let Some((replica, _)) = second.filter(|(replica, _)| replica.bytes() != bytes) {
            let why = format!("{} of {}", Bytes(replica.bytes()), Bytes(bytes));
            return Err(EngineError::io("a second copy of another size", io::Error::other(why)));
        }
        mapper::remove_left();
        let backing = Writable::nameless(folder)?.into_file();
        calls::reserve(&backing, bytes)
            .map_err(|why| EngineError::io(format!("reserving {} in {}", Bytes(bytes), folder.display()), why))?;
        let here = LoopDevice::over(&backing, BLOCK).map_err(|why| EngineError::io("making a loop device", why))?;
        let remote = second.map(|(replica, address)| reach(replica, address)).transpose()?;
        let failed = |why| EngineError::Missing {
            what: format!("a mirror cannot be made (dm-mirror): {why}"),
            remedy: "load the modules dm-mirror and dm-zero".to_owned(),
        };
        let nothing = if remote.is_none() { Some(mapped::nothing(bytes).map_err(failed)?) } else { None };
        let elsewhere = remote.as_ref().map(NetworkDevice::path).map(Path::to_owned);
        let elsewhere = elsewhere.or_else(|| nothing.as_ref().map(MappedDevice::path)).unwrap_or_default();
        let device = mapper::numbers_of(&[here.path().to_owned(), elsewhere])
            .and_then(|members| mapped::mirror(&members[0], &members[1], bytes))
            .map_err(failed)?;
        Ok(Mirror { path: device.path(), device: Some(device), bytes, remote, _nothing: nothing, here, backing })
    }

    /// The size of a mirror that holds at least so many bytes.
    #[must_use]
    pub fn size_for(bytes: u64) -> u64 {
        bytes.next_multiple_of(UNIT)
    }

    /// Such as `/dev/dm-0`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of it, to read and write past the page cache.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn target(&self) -> Result<Target, EngineError> {
        let file = self.device.as_ref().map(Writable::of_mapped).transpose();
        let file = file.map_err(|why| EngineError::io("duplicating a descriptor", why))?;
        let file = file.ok_or_else(|| EngineError::io("opening a mirror", io::ErrorKind::NotFound.into()))?;
        Target::over(file, self.bytes, Cache::Direct)
    }

    /// Makes an ext4 file system on it and gives that kind's name.
    ///
    /// # Errors
    /// When the program is missing or fails.
    pub fn format(&self) -> Result<&'static str, EngineError> {
        Format::Ext4.make(&[self.path()])?;
        Ok(Format::Ext4.kind())
    }

    /// Whether the first copy is read and written without the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.here.is_direct()
    }

    /// What its users have done so far.
    #[must_use]
    pub fn counted(&self) -> DiskCounts {
        let name = self.path.file_name().unwrap_or_default();
        let text = fs::read_to_string(Path::new("/sys/block").join(name).join("stat")).unwrap_or_default();
        counted(&text)
    }

    /// Compares both copies, byte by byte, once nobody writes any more: how many bytes are equal, or the first place at which they differ. `None` of a
    /// mirror without a second copy.
    ///
    /// # Errors
    /// A copy that cannot be read.
    pub fn compare(&self, replica: &Replica) -> io::Result<Option<Result<u64, u64>>> {
        if self.remote.is_none() {
            return Ok(None);
        }
        let differing = first_difference(&self.backing, replica.file(), self.bytes)?;
        Ok(Some(differing.map_or(Ok(self.bytes), Err)))
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.device = None;
        // The kernel removes it a moment after its last user; what is below it must be there until then.
        let there = Path::new("/sys/block").join(self.path.file_name().unwrap_or_default());
        let deadline = Instant::now() + REMOVAL_LIMIT;
        while there.exists() && Instant::now() < deadline {
            thread::sleep(GLANCE);
        }
    }
}

/// The first place at which two files of so many bytes, whole units, differ.
fn first_difference(ours: &fs::File, theirs: &fs::File, bytes: u64) -> io::Result<Option<u64>> {
    let chunk = usize::try_from(UNIT).unwrap_or(1);
    let (mut here, mut there) = (vec![0; chunk], vec![0; chunk]);
    for at in (0..bytes).step_by(chunk) {
        ours.read_exact_at(&mut here, at)?;
        theirs.read_exact_at(&mut there, at)?;
        if let Some(place) = here.iter().zip(&there).position(|(here, there)| here != there) {
            return Ok(Some(at + place as u64));
        }
    }
    Ok(None)
}

fn reach(replica: &Replica, address: SocketAddr) -> Result<NetworkDevice, EngineError> {
    let failed = |why| EngineError::io("reaching the second copy by NBD", why);
    let (socket, flags) = client::connect(address, replica.name(), replica.bytes()).map_err(failed)?;
    NetworkDevice::over(socket, (replica.bytes(), BLOCK), flags).map_err(failed)
}

/// What the kernel below the folder `root` of a machine lacks.
fn missing_below(root: &Path) -> Option<String> {
    let has = |path: &str| root.join(path).exists();
    if !has("dev/loop-control") {
        return Some("this machine has no loop devices (/dev/loop-control); load the module loop".to_owned());
    }
    if !has("dev/nbd0") {
        let what = "this kernel has no network block devices (/dev/nbd0)";
        return Some(format!("{what}; load the module nbd, or use a kernel that has it"));
    }
    if let Some(why) = mapped::missing(root, mapped::MIRROR) {
        return Some(why);
    }
    let (program, _, package) = Format::Ext4.maker();
    found(program).is_none().then(|| format!("{program} was not found; install it: apt-get install {package}"))
}

/// The kernel's counters of a device (Documentation/block/stat.rst).
fn counted(text: &str) -> DiskCounts {
    let field =
        |index: usize| text.split_ascii_whitespace().nth(index).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let ns = |index: usize| field(index).saturating_mul(1_000_000);
    DiskCounts { reads: field(0), read_ns: ns(3), writes: field(4), write_ns: ns(7) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_lacks_is_named_in_the_order_of_its_layers() {
        let root = tempfile::tempdir().expect("a folder");
        let why = || missing_below(root.path()).unwrap_or_default();
        let add = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        assert!(why().contains("no loop devices (/dev/loop-control); load the module loop"), "{}", why());
        add("dev/loop-control", "");
        assert!(why().contains("no network block devices (/dev/nbd0); load the module nbd"), "{}", why());
        add("dev/nbd0", "");
        assert!(why().contains("no device-mapper (/dev/mapper/control)"), "{}", why());
        add("dev/mapper/control", "");
        assert!(why().contains("no module dm-mirror"), "{}", why());
        add("sys/module/dm_mirror/refcnt", "0");
        assert!(why().contains("no module dm-zero"), "{}", why());
        add("sys/module/dm_zero/refcnt", "0");
        let made = found("mkfs.ext4").is_some();
        assert_eq!(why().is_empty(), made, "{}", why());
    }

    #[test]
    fn counters_of_a_device_are_read_by_their_places() {
        let text = "     17        0      136        4      100        3     8000       52        0       48       56        0\n";
        let expected = DiskCounts { reads: 17, read_ns: 4_000_000, writes: 100, write_ns: 52_000_000 };
        assert_eq!(counted(text), expected);
        assert_eq!(counted(""), DiskCounts::default());
    }

    #[test]
    fn a_byte_that_one_copy_lacks_is_found_at_its_place() {
        let (ours, theirs) = (tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file"));
        for file in [&ours, &theirs] {
            file.set_len(3 * UNIT).expect("room");
            file.write_all_at(&[1; 8192], UNIT).expect("written");
        }
        assert_eq!(first_difference(&ours, &theirs, 3 * UNIT).expect("both are there"), None);
        ours.write_all_at(&[2], 2 * UNIT + 77).expect("written");
        assert_eq!(first_difference(&ours, &theirs, 3 * UNIT).expect("both are there"), Some(2 * UNIT + 77));
        theirs.write_all_at(&[2], 2 * UNIT + 77).expect("written");
        assert!(first_difference(&ours, &theirs, 4 * UNIT).is_err(), "copies that are too short");
    }

    #[test]
    fn sizes_are_whole_units() {
        assert_eq!((Mirror::size_for(1), Mirror::size_for(2 << 20)), (1 << 20, 2 << 20));
    }
}
