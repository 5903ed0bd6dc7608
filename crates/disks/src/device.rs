//! Whether a block device may be overwritten: only one that nothing uses and that holds no file system.

use crate::error::EngineError;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a block device for writing, exclusively.
///
/// # Errors
/// When it is not a block device, is mounted or held (by the kernel's own books, `O_EXCL`), has partitions, or holds a known
/// file system, volume or partition table.
pub fn open_unused(path: &Path) -> Result<File, EngineError> {
    let name = path.display();
    let refused = |what: String, remedy: &str| EngineError::Missing { what, remedy: remedy.to_owned() };
    let found = fs::metadata(path).map_err(|why| EngineError::io(format!("looking at {name}"), why))?;
    if !found.file_type().is_block_device() {
        return Err(refused(format!("device = '{name}' is not a block device"), "name one such as /dev/sdb"));
    }
    let (major, minor) = (libc::major(found.rdev()), libc::minor(found.rdev()));
    let sys = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    let users = |what: &str| fs::read_dir(sys.join(what)).is_ok_and(|mut entries| entries.next().is_some());
    if users("holders") {
        return Err(refused(format!("{name} is held by another device"), "name a device that nothing uses"));
    }
    let parts = fs::read_dir(&sys).into_iter().flatten().flatten().any(|entry| entry.path().join("partition").exists());
    if parts {
        return Err(refused(format!("{name} has partitions"), "name a device without any"));
    }
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path);
    let file = opened.map_err(|why| match why.raw_os_error() {
        Some(libc::EBUSY) => {
            refused(format!("{name} is mounted or in use"), "unmount it, or name a device that nothing uses")
        }
        _ => EngineError::io(format!("opening {name}"), why),
    })?;
    match signature(&file) {
        Some(what) => Err(refused(
            format!("{name} holds {what}"),
            &format!("if it is not needed, erase it first: wipefs --all {name}"),
        )),
        None => Ok(file),
    }
}

/// Where known formats write what, and their names (blkid's tables).
const SIGNATURES: &[(u64, &[u8], &str)] = &[
    (0x438, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x10040, b"_BHRfS_M", "a btrfs file system"),
    (0x1018, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca], "a bcachefs file system"),
    (0x400, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    (0, b"hsqs", "a squashfs file system"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (0x36, b"FAT", "a FAT file system"),
    (0x52, b"FAT32", "a FAT file system"),
    (0xff6, b"SWAPSPACE2", "a swap area"),
    (0, b"LUKS\xba\xbe", "a LUKS volume"),
    (0x200, b"LABELONE", "an LVM physical volume"),
    (0x1000, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of an md array"),
    (0, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of an md array"),
    (0x200, b"EFI PART", "a GPT partition table"),
    (0x1fe, &[0x55, 0xaa], "a partition table or boot sector"),
];

/// What a device holds, by its signature; `None` for none that is known.
fn signature(file: &File) -> Option<&'static str> {
    let holds = |at: u64, bytes: &[u8]| {
        let mut found = vec![0; bytes.len()];
        file.read_exact_at(&mut found, at).is_ok() && found == bytes
    };
    SIGNATURES.iter().find(|(at, bytes, _)| holds(*at, bytes)).map(|(_, _, what)| *what)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::process::Command;

    /// A loop device over a file; detached when this is dropped.
    struct Loop(String);

    impl Loop {
        fn new(file: &Path) -> Option<Loop> {
            let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
            output.status.success().then(|| Loop(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
        }
    }

    impl Drop for Loop {
        fn drop(&mut self) {
            drop(Command::new("losetup").args(["--detach", &self.0]).status());
        }
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a skip is printed")]
    fn a_device_that_holds_something_or_is_in_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        File::create(&image).and_then(|file| file.set_len(8 << 20)).unwrap();
        let why = open_unused(&image).expect_err("a file").to_string();
        assert!(why.contains("is not a block device"), "{why}");
        let Some(device) = Loop::new(&image) else {
            println!("skipped: no loop device can be made here");
            return;
        };
        let path = Path::new(&device.0);
        let held = open_unused(path).expect("nothing is on it");
        let why = open_unused(path).expect_err("it is open exclusively").to_string();
        assert!(why.contains("in use"), "{why}");
        for (at, bytes, what) in SIGNATURES {
            held.write_all_at(bytes, *at).unwrap();
            let found = signature(&held).unwrap_or_else(|| panic!("{what}"));
            assert_eq!(found, *what);
            held.write_all_at(&vec![0; bytes.len()], *at).unwrap();
        }
        held.write_all_at(b"XFSB", 0).unwrap();
        drop(held);
        let why = open_unused(path).expect_err("a file system").to_string();
        assert!(why.contains("holds an XFS file system; if it is not needed"), "{why}");
    }
}
