//! Devices by device-mapper, as LVM makes them: RAID5 of md (`dm-raid`), thin volumes of a pool on one (`dm-thin-pool`), and mirrors (`dm-mirror`).
//!
//! Devices are full of zeros, whose parity is zero as well: a RAID begins in sync and writes no parity of its own while somebody measures. No
//! member has a superblock, so that nothing else on the machine takes it for a part of an array.

use crate::io::mapper::{CONTROL, MappedDevice, SECTOR};
use std::fs;
use std::io;
use std::path::Path;

/// Sectors of a chunk of RAID5: those of mdadm and LVM by default are 512 KiB and 64 KiB.
const CHUNK: u64 = 128;
/// Sectors of the smallest block of a pool, LVM's default.
const LEAST_BLOCK: u64 = 128;
/// Bytes of metadata for each block, as LVM reckons, and those of an empty pool.
const BLOCK_METADATA: u64 = 64;
const OWN_METADATA: u64 = 8 << 20;
/// The most metadata that a pool uses is a little less than 16 GiB.
const MOST_METADATA: u64 = 15 << 30;

/// A RAID, and its bytes.
type Raid = (MappedDevice, u64);

/// Sectors of a mirror's region, LVM's default.
const REGION: u64 = 4096;

/// Modules with the targets of a RAID, of a pool on one, and of a mirror.
pub(super) const RAID: &[&str] = &["dm-raid"];
pub(super) const POOL: &[&str] = &["dm-raid", "dm-thin-pool"];
pub(super) const MIRROR: &[&str] = &["dm-mirror", "dm-zero"];

/// Why device-mapper cannot make what takes these modules, below the folder `root` of a machine; `None` where nothing is known to be missing. No
/// module is loaded for that.
pub(super) fn missing(root: &Path, modules: &[&str]) -> Option<String> {
    if !root.join(CONTROL.trim_start_matches('/')).exists() {
        let what = format!("this kernel has no device-mapper ({CONTROL})");
        return Some(format!("{what}; load the module dm-mod, or use a kernel that has it"));
    }
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    let folder = root.join("lib/modules").join(release.trim());
    let listed =
        ["modules.dep", "modules.builtin"].map(|list| fs::read_to_string(folder.join(list)).unwrap_or_default());
    let has = |module: &&str| {
        root.join("sys/module").join(module.replace('-', "_")).exists()
            || listed.iter().any(|list| list.contains(&format!("/{module}.ko")))
    };
    let lacks = modules.iter().find(|module| !has(module))?;
    Some(format!("this kernel has no module {lacks}, by which device-mapper makes it; use a kernel that has it"))
}

/// RAID5 of devices of `bytes` each, named as tables name them.
///
/// # Errors
/// What device-mapper gives.
pub(super) fn raid5(devices: &[String], bytes: u64) -> io::Result<Raid> {
    let each = bytes / SECTOR / CHUNK * CHUNK;
    let bytes = each * SECTOR * (devices.len() as u64).saturating_sub(1);
    // A dash is where a device of metadata would be.
    let members: Vec<String> = devices.iter().map(|device| format!("- {device}")).collect();
    let parameters = format!("raid5_ls 2 {CHUNK} nosync {} {}", devices.len(), members.join(" "));
    MappedDevice::new(bytes, ("raid", &parameters)).map(|device| (device, bytes))
}

/// A mirror of a device here, which answers reads, and one elsewhere, named as tables name them: a write ends when both have it. Both must hold the
/// same. Its log is in memory. After an error of one it continues with the other; RAID1 of md without metadata would then wait for ever, also with its
/// removal.
///
/// # Errors
/// What device-mapper gives.
pub(super) fn mirror(here: &str, elsewhere: &str, bytes: u64) -> io::Result<MappedDevice> {
    let parameters = format!("core 2 {REGION} nosync 2 {here} 0 {elsewhere} 0");
    MappedDevice::new(bytes, ("mirror", &parameters))
}

/// A device that takes writes at once and keeps nothing.
///
/// # Errors
/// What device-mapper gives.
pub(super) fn nothing(bytes: u64) -> io::Result<MappedDevice> {
    MappedDevice::new(bytes, ("zero", ""))
}

/// A pool of thin volumes.
pub(super) struct Pool {
    pool: MappedDevice,
    /// Bytes for data.
    pub(super) bytes: u64,
    // The kernel removes each after what is on it.
    _parts: Vec<MappedDevice>,
}

impl Pool {
    /// A pool on all of a device.
    ///
    /// # Errors
    /// What device-mapper gives.
    pub(super) fn on((raid, bytes): Raid) -> io::Result<Pool> {
        let (block, metadata) = split(bytes);
        let data = (bytes - metadata) / (block * SECTOR) * block * SECTOR;
        let number = raid.number();
        let part = |from: u64, bytes: u64| MappedDevice::new(bytes, ("linear", &format!("{number} {}", from / SECTOR)));
        let mut parts = vec![part(0, metadata)?, part(metadata, data)?];
        // A full pool is an error and not a wait.
        let parameters = format!("{} {} {block} 0 1 error_if_no_space", parts[0].number(), parts[1].number());
        let pool = MappedDevice::new(data, ("thin-pool", &parameters))?;
        parts.push(raid);
        Ok(Pool { pool, bytes: data, _parts: parts })
    }

    /// Its thin volume of this number and size, made.
    ///
    /// # Errors
    /// What device-mapper gives.
    pub(super) fn volume(&self, number: u64, bytes: u64) -> io::Result<MappedDevice> {
        self.pool.message(&format!("create_thin {number}"))?;
        MappedDevice::new(bytes, ("thin", &format!("{} {number}", self.pool.number())))
    }
}

/// Sectors of a block of a pool of `bytes`, and bytes of its metadata.
fn split(bytes: u64) -> (u64, u64) {
    let mut block = LEAST_BLOCK;
    let metadata = |block: u64| bytes / (block * SECTOR) * BLOCK_METADATA + OWN_METADATA;
    while metadata(block) > MOST_METADATA {
        block *= 2;
    }
    (block, metadata(block).next_multiple_of(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_lacks_is_named_and_a_module_that_can_be_loaded_is_enough() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        let why = |modules: &[&str]| missing(root.path(), modules).unwrap_or_default();
        assert!(why(RAID).contains("no device-mapper (/dev/mapper/control); load the module dm-mod"), "{}", why(RAID));
        write("dev/mapper/control", "");
        assert!(why(RAID).contains("no module dm-raid"), "{}", why(RAID));
        write("proc/sys/kernel/osrelease", "6.1.0-test\n");
        write("lib/modules/6.1.0-test/modules.dep", "kernel/drivers/md/dm-raid.ko.xz: kernel/drivers/md/raid456.ko\n");
        assert!(why(RAID).is_empty() && why(POOL).contains("no module dm-thin-pool"), "{}", why(POOL));
        write("sys/module/dm_thin_pool/refcnt", "0");
        assert_eq!(why(POOL), "", "one that is loaded");
    }

    #[test]
    fn metadata_grow_with_the_pool_until_its_blocks_do() {
        assert_eq!(split(1 << 30), (128, 9 << 20), "64 B for each 64 KiB");
        let (block, metadata) = split(64 << 40);
        assert!(block == 1024 && metadata <= MOST_METADATA, "{block} {metadata}");
    }
}
