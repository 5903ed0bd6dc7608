//! The disks on which files are: what a partition, a volume or a file system is finally on.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Volumes on volumes, at most.
const DEEPEST: usize = 8;

/// The names below `root`/sys/block of the disks that hold `data`, a file, folder or block device, or of the nearest folder above it that
/// exists; none where it is on a file system without a disk.
pub(crate) fn disks_under(root: &Path, data: &Path) -> Vec<String> {
    let Some(device) = data.ancestors().find_map(|path| device_of(root, path)) else { return Vec::new() };
    let Ok(block) = fs::canonicalize(root.join(format!("sys/dev/block/{device}"))) else { return Vec::new() };
    disks_of(block, DEEPEST)
}

/// `8:1` of what holds a path; `None` where the path does not exist, `0:0` where no block device does.
fn device_of(root: &Path, path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    let number = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
    let of = |(major, minor): (u64, u64)| format!("{major}:{minor}");
    let own = parts(number);
    // File systems of several devices, such as btrfs, have a number of their own.
    Some(of(if own.0 == 0 { source_of(root, path).map_or((0, 0), parts) } else { own }))
}

/// Major and minor number, as `stat(2)` packs them.
fn parts(number: u64) -> (u64, u64) {
    let major = (number >> 8) & 0xfff | (number >> 32) & !0xfff;
    let minor = number & 0xff | (number >> 12) & !0xff & 0xffff_ffff;
    (major, minor)
}

/// The number of the block device that is mounted where a path is.
fn source_of(root: &Path, path: &Path) -> Option<u64> {
    let path = fs::canonicalize(path).ok()?;
    let text = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let mounts = text.lines().filter_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        Some((PathBuf::from(mount.split(' ').nth(4)?), source.split(' ').nth(1)?.to_owned()))
    });
    let above = mounts.filter(|(place, _)| path.starts_with(place));
    let (_, source) = above.max_by_key(|(place, _)| place.components().count())?;
    let found = fs::metadata(source).ok()?;
    found.file_type().is_block_device().then(|| found.rdev())
}

/// The disks under a folder of sysfs: the whole of a partition, and what a volume is on.
fn disks_of(block: PathBuf, depth: usize) -> Vec<String> {
    if block.join("partition").exists() {
        return block.parent().map_or_else(Vec::new, |whole| disks_of(whole.to_owned(), depth));
    }
    let slaves: Vec<PathBuf> =
        fs::read_dir(block.join("slaves")).into_iter().flatten().flatten().map(|of| of.path()).collect();
    if slaves.is_empty() || depth == 0 {
        return block.file_name().and_then(|name| name.to_str()).map(str::to_owned).into_iter().collect();
    }
    let each = slaves.into_iter().filter_map(|slave| fs::canonicalize(slave).ok());
    each.flat_map(|slave| disks_of(slave, depth - 1)).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn numbers_are_those_of_the_kernel() {
        assert_eq!([parts(0xfe00), parts(0x801), parts(0x10_0803)], [(254, 0), (8, 1), (8, 259)]);
    }

    #[test]
    fn a_partition_of_a_volume_leads_to_the_disks_below() {
        let root = tempfile::tempdir().unwrap();
        let devices = root.path().join("sys/devices");
        // A file system without a block device, such as tmpfs, is looked up as 0:0 where no mount says what it is on.
        let number =
            Some(parts(fs::metadata(root.path()).unwrap().dev())).filter(|(major, _)| *major != 0).unwrap_or((0, 0));
        for name in ["sda", "sdb"] {
            fs::create_dir_all(devices.join(name).join("queue")).unwrap();
        }
        let volume = devices.join("virtual/dm-0");
        fs::create_dir_all(volume.join("slaves")).unwrap();
        fs::create_dir_all(devices.join("sdb/sdb1")).unwrap();
        fs::write(devices.join("sdb/sdb1/partition"), "1").unwrap();
        symlink(devices.join("sda"), volume.join("slaves/sda")).unwrap();
        symlink(devices.join("sdb/sdb1"), volume.join("slaves/sdb1")).unwrap();
        let blocks = root.path().join("sys/dev/block");
        fs::create_dir_all(&blocks).unwrap();
        symlink(&volume, blocks.join(format!("{}:{}", number.0, number.1))).unwrap();
        let mut found = disks_under(root.path(), &root.path().join("not/yet/made"));
        found.sort();
        assert_eq!(found, ["sda", "sdb"]);
    }

    #[test]
    fn what_is_on_no_disk_has_none() {
        assert_eq!(disks_under(Path::new("/"), Path::new("/proc/self")), [""; 0]);
    }
}
