//! Whether a block device is in use or holds something: only one that nothing uses and that holds nothing known may be overwritten.

use crate::error::EngineError;
use crate::io::calls;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn refused(what: String, remedy: &str) -> EngineError {
    EngineError::Missing { what, remedy: remedy.to_owned() }
}

/// Refuses a device that another device holds, or that has partitions; `number` is its device number.
///
/// # Errors
/// Which of these it is.
pub(crate) fn unused(path: &Path, number: u64) -> Result<(), EngineError> {
    let name = path.display();
    let sys = Path::new("/sys/dev/block").join(format!("{}:{}", libc::major(number), libc::minor(number)));
    if fs::read_dir(sys.join("holders")).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(refused(format!("{name} is held by another device"), "name a device that nothing uses"));
    }
    let parts = fs::read_dir(&sys).into_iter().flatten().flatten().any(|entry| entry.path().join("partition").exists());
    if parts {
        return Err(refused(format!("{name} has partitions"), "name a device without any"));
    }
    Ok(())
}

/// Refuses a device that holds a known file system, volume or partition table.
///
/// # Errors
/// What it holds, or that it cannot be read.
pub(crate) fn empty(path: &Path, file: &File) -> Result<(), EngineError> {
    let name = path.display();
    let found = calls::device_bytes(file).and_then(|bytes| signature(file, bytes));
    match found.map_err(|why| EngineError::io(format!("reading what {name} holds"), why))? {
        Some(what) => Err(refused(
            format!("{name} holds {what}"),
            &format!("if it is not needed, erase it first: wipefs --all {name}"),
        )),
        None => Ok(()),
    }
}

/// Where a signature is on a device.
#[derive(Clone, Copy, Debug)]
enum At {
    /// So many bytes from the start.
    Start(u64),
    /// So many bytes before the end, which is first rounded down to a multiple of the second number.
    End(u64, u64),
    /// From each of the first and last two labels of ZFS on, in any slot of its uberblocks.
    Uberblock,
    /// At the same offset in each of the four labels of ZFS.
    Label(u64),
}

/// Bytes of a label of ZFS, of which a device has two at its start and two at its end.
const LABEL: u64 = 256 << 10;
/// The uberblocks are in the second half of a label, each in a slot of this size or a multiple of it.
const SLOT: u64 = 1 << 10;
const MD: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
const MD_BIG: [u8; 4] = [0xa9, 0x2b, 0x4e, 0xfc];

/// Where known formats write what, and their names (blkid's tables).
const SIGNATURES: &[(At, &[u8], &str)] = &[
    (At::Start(0x438), &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    (At::Start(0), b"XFSB", "an XFS file system"),
    (At::Start(0x10040), b"_BHRfS_M", "a btrfs file system"),
    (At::Start(0x1018), &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca], "a bcache device or bcachefs file system"),
    (At::Start(0x1018), &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9], "a bcachefs file system"),
    (At::Start(0x400), &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    (At::Start(0x400), &[0xe2, 0xe1, 0xf5, 0xe0], "an EROFS file system"),
    (At::Start(0x8000), b"JFS1", "a JFS file system"),
    (At::Start(0x10034), b"ReIsEr", "a ReiserFS file system"),
    (At::Start(0), b"hsqs", "a squashfs file system"),
    (At::Start(0x8001), b"CD001", "an ISO 9660 file system"),
    (At::Start(3), b"NTFS    ", "an NTFS file system"),
    (At::Start(3), b"EXFAT   ", "an exFAT file system"),
    (At::Start(0x36), b"FAT", "a FAT file system"),
    (At::Start(0x52), b"FAT32", "a FAT file system"),
    (At::Start(0xff6), b"SWAPSPACE2", "a swap area"),
    (At::Start(0), b"LUKS\xba\xbe", "a LUKS volume"),
    (At::Start(0x4000), b"SKUL\xba\xbe", "a LUKS volume"),
    (At::Start(0), b"bluestore block device", "a Ceph OSD"),
    (At::Start(0), b"LABELONE", "an LVM physical volume"),
    (At::Start(0x200), b"LABELONE", "an LVM physical volume"),
    (At::Start(0x400), b"LABELONE", "an LVM physical volume"),
    (At::Start(0x600), b"LABELONE", "an LVM physical volume"),
    // md's superblock: 1.2 and 1.1 at the start, 1.0 and 0.90 at the end.
    (At::Start(0x1000), &MD, "a member of an md array"),
    (At::Start(0), &MD, "a member of an md array"),
    (At::End(8 << 10, 4 << 10), &MD, "a member of an md array"),
    (At::End(64 << 10, 64 << 10), &MD, "a member of an md array"),
    (At::End(64 << 10, 64 << 10), &MD_BIG, "a member of an md array"),
    (At::Uberblock, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0], "a member of a ZFS pool"),
    (At::Uberblock, &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c], "a member of a ZFS pool"),
    // The checksum behind the list of names and values, whose magic is 0x0210da7ab10c7a11.
    (At::Label((128 << 10) - 40), &[0x11, 0x7a, 0x0c, 0xb1, 0x7a, 0xda, 0x10, 0x02], "a member of a ZFS pool"),
    (At::Label((128 << 10) - 40), &[0x02, 0x10, 0xda, 0x7a, 0xb1, 0x0c, 0x7a, 0x11], "a member of a ZFS pool"),
    // The primary header in the second sector of 512 or 4096 bytes, and the backup in the last.
    (At::Start(0x200), b"EFI PART", "a GPT partition table"),
    (At::Start(0x1000), b"EFI PART", "a GPT partition table"),
    (At::End(0x200, 0x200), b"EFI PART", "a GPT partition table"),
    (At::End(0x1000, 0x1000), b"EFI PART", "a GPT partition table"),
    (At::Start(0x1fe), &[0x55, 0xaa], "a partition table or boot sector"),
];

impl At {
    /// The offsets on a device of `bytes`.
    fn offsets(self, bytes: u64) -> Vec<u64> {
        let end = bytes - bytes % LABEL;
        let labels = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
        let labels = labels.into_iter().flatten();
        match self {
            At::Start(offset) => vec![offset],
            At::End(before, multiple) => (bytes - bytes % multiple).checked_sub(before).into_iter().collect(),
            At::Label(offset) => labels.map(|label| label + offset).collect(),
            At::Uberblock => {
                labels.flat_map(|label| (0..128).map(move |slot| label + LABEL / 2 + slot * SLOT)).collect()
            }
        }
    }
}

/// What a device of `bytes` holds, by its signature; `None` for none that is known.
fn signature(file: &File, bytes: u64) -> io::Result<Option<&'static str>> {
    for (at, expected, what) in SIGNATURES {
        let mut found = vec![0; expected.len()];
        for offset in at.offsets(bytes) {
            match file.read_exact_at(&mut found, offset) {
                Ok(()) if found == *expected => return Ok(Some(what)),
                Ok(()) => {}
                // A device that ends before has no such signature.
                Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(why) => return Err(why),
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A multiple of no label, so that rounding shows.
    const BYTES: u64 = (8 << 20) + (68 << 10) + 512;

    #[test]
    fn each_signature_is_found_where_its_format_has_it() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES).unwrap();
        assert_eq!(signature(&file, BYTES).unwrap(), None, "nothing is on it");
        for (at, bytes, what) in SIGNATURES {
            let offsets = at.offsets(BYTES);
            assert!(!offsets.is_empty(), "{what}");
            for offset in offsets {
                file.write_all_at(bytes, offset).unwrap();
                let found = signature(&file, BYTES).unwrap();
                assert_eq!(found, Some(*what), "{at:?} at {offset}");
                file.write_all_at(&vec![0; bytes.len()], offset).unwrap();
            }
        }
        assert_eq!(signature(&file, BYTES).unwrap(), None);
    }

    #[test]
    fn offsets_at_the_end_are_those_of_the_formats() {
        // As mdadm and the kernel compute them: 1.0 is at least 8 KiB before the end, on 4 KiB; 0.90 64 KiB before the last whole 64 KiB.
        let sectors = BYTES / 512;
        assert_eq!(At::End(8 << 10, 4 << 10).offsets(BYTES), [((sectors - 16) & !7) * 512]);
        assert_eq!(At::End(64 << 10, 64 << 10).offsets(BYTES), [(BYTES & !((64 << 10) - 1)) - (64 << 10)]);
        assert_eq!(At::End(0x200, 0x200).offsets(BYTES), [BYTES - 512]);
        // ZFS: the first two labels at the start, the others behind the last whole label but two.
        assert_eq!(At::Label(0).offsets(BYTES), [0, 256 << 10, (8 << 20) - (512 << 10), (8 << 20) - (256 << 10)]);
        assert_eq!(At::Uberblock.offsets(BYTES).len(), 4 * 128);
        assert_eq!(At::Uberblock.offsets(1000).len(), 2 * 128, "a small device has no labels at its end");
        assert!(At::End(8 << 10, 4 << 10).offsets(1000).is_empty());
    }
}
