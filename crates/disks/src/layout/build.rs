//! Makes a layout: files without a name, loop devices over them, file systems that are mounted nowhere or devices of device-mapper, LUNs in those.
//!
//! Nothing of it outlives this process, however it ends: the kernel unmounts a file system with its last descriptor, removes or detaches a device
//! with its last user, and removes a file without a name with its last user.

use super::arrangement::{Arrangement, Layout};
use super::file_system::Format;
use super::mapped::{self, Pool};
use crate::error::EngineError;
use crate::io::calls;
use crate::io::detached::Detached;
use crate::io::loops::LoopDevice;
use crate::io::mapper::{self, MappedDevice};
use crate::target::{Cache, RESERVE, Target};
use crate::writable::Writable;
use baremark_model::units::Bytes;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a block of a loop device: what file systems use, and what direct I/O on every disk below satisfies.
const BLOCK: u32 = 4096;

/// A layout that exists. Its parts end in this order: LUNs, file systems, pools, devices.
pub struct Built {
    luns: Vec<Target>,
    file_systems: Vec<Detached>,
    pools: Vec<Pool>,
    devices: Vec<LoopDevice>,
    lun_bytes: u64,
}

impl Built {
    /// Makes it of files in `folder`. LUNs have their blocks reserved and no data yet.
    ///
    /// # Errors
    /// Too little space, a kernel or user that can make no loop device or mount, a program that is missing, or an interrupt.
    pub fn new(arrangement: &Arrangement, folder: &Path, interrupt: &AtomicBool) -> Result<Built, EngineError> {
        let parts = arrangement.parts();
        let mut built = Built {
            luns: Vec::new(),
            file_systems: Vec::new(),
            pools: Vec::new(),
            devices: Vec::new(),
            lun_bytes: parts.bytes,
        };
        if arrangement.layout.is_mapped() {
            mapper::remove_left();
        }
        for _ in 0..parts.count {
            if arrangement.layout.is_plain() {
                built.lun_of_its_own(arrangement, (parts.bytes, folder))?;
                continue;
            }
            let first = built.devices.len();
            for _ in 0..parts.devices {
                if interrupt.load(Ordering::Acquire) {
                    return Err(EngineError::Interrupted);
                }
                let backing = backing(parts.bytes, folder)?;
                built.devices.push(device(&backing)?);
            }
            match arrangement.layout.format() {
                Some(format) => built.luns_of_file_system(arrangement, format, first)?,
                None => built.luns_of_raid(arrangement, first)?,
            }
        }
        Ok(built)
    }

    /// A LUN without a file system.
    fn lun_of_its_own(&mut self, arrangement: &Arrangement, (bytes, folder): (u64, &Path)) -> Result<(), EngineError> {
        let backing = backing(bytes, folder)?;
        if arrangement.layout == Layout::File {
            self.luns.push(Target::over(backing, bytes.min(arrangement.span), Cache::Direct)?);
            return Ok(());
        }
        let device = device(&backing)?;
        let file = Writable::of_loop(&device).map_err(|why| EngineError::io("duplicating a descriptor", why))?;
        self.luns.push(Target::over(file, bytes.min(arrangement.span), Cache::Direct)?);
        self.devices.push(device);
        Ok(())
    }

    /// A file system on the devices from `first` on, and its LUNs.
    fn luns_of_file_system(
        &mut self,
        arrangement: &Arrangement,
        format: Format,
        first: usize,
    ) -> Result<(), EngineError> {
        let paths: Vec<&Path> = self.devices[first..].iter().map(LoopDevice::path).collect();
        format.make(&paths)?;
        let mounted = format.mount(&paths)?;
        let free = calls::free_bytes(mounted.root()).map_err(|why| EngineError::io("asking for free space", why))?;
        self.lun_bytes = arrangement.lun_bytes(free);
        for lun in 0..arrangement.luns_of_each() {
            let path = mounted.path(&format!("lun{lun}"));
            let file = Writable::new_file(&path).map_err(|why| EngineError::io("creating a LUN", why))?;
            calls::reserve(file.open(), self.lun_bytes)
                .map_err(|why| EngineError::io(format!("reserving {} for a LUN", Bytes(self.lun_bytes)), why))?;
            self.luns.push(Target::over(file, self.lun_bytes.min(arrangement.span), Cache::Direct)?);
        }
        self.file_systems.push(mounted);
        Ok(())
    }

    /// RAID5 of md on the devices from `first` on, and its LUNs: a part of it, or thin volumes of a pool on it.
    fn luns_of_raid(&mut self, arrangement: &Arrangement, first: usize) -> Result<(), EngineError> {
        let making = |what: &'static str| move |why: io::Error| EngineError::io(format!("making {what}"), why);
        let paths: Vec<PathBuf> = self.devices[first..].iter().map(|device| device.path().to_owned()).collect();
        let members = mapper::numbers_of(&paths).map_err(making("a RAID"))?;
        let raid = mapped::raid5(&members, arrangement.device_bytes).map_err(making("RAID5 (dm-raid)"))?;
        if arrangement.layout == Layout::MdGroups {
            self.lun_bytes = arrangement.lun_bytes(raid.1);
            return self.mapped_lun(arrangement, &raid.0);
        }
        let pool = Pool::on(raid).map_err(making("a pool (dm-thin-pool)"))?;
        self.lun_bytes = arrangement.lun_bytes(pool.bytes);
        for lun in 0..arrangement.luns_of_each() {
            let volume = pool.volume(lun, self.lun_bytes).map_err(making("a thin volume (dm-thin)"))?;
            self.mapped_lun(arrangement, &volume)?;
        }
        self.pools.push(pool);
        Ok(())
    }

    /// A LUN that is a device of device-mapper, which lives as long as the LUN.
    fn mapped_lun(&mut self, arrangement: &Arrangement, device: &MappedDevice) -> Result<(), EngineError> {
        let file = Writable::of_mapped(device).map_err(|why| EngineError::io("duplicating a descriptor", why))?;
        self.luns.push(Target::over(file, self.lun_bytes.min(arrangement.span), Cache::Direct)?);
        Ok(())
    }

    /// Its LUNs.
    #[must_use]
    pub fn luns(&self) -> &[Target] {
        &self.luns
    }

    /// Bytes of each LUN.
    #[must_use]
    pub fn lun_bytes(&self) -> u64 {
        self.lun_bytes
    }

    /// The paths of its devices.
    pub fn device_paths(&self) -> impl Iterator<Item = &Path> {
        self.devices.iter().map(LoopDevice::path)
    }

    /// Whether all devices are over files that they read and write without the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.devices.iter().all(LoopDevice::is_direct)
    }

    /// Reads and writes that all devices together have completed; `None` without devices.
    #[must_use]
    pub fn completed(&self) -> Option<[u64; 2]> {
        if self.devices.is_empty() {
            return None;
        }
        self.devices.iter().try_fold([0, 0], |[reads, writes], device| {
            let [more_reads, more_writes] = device.completed()?;
            Some([reads + more_reads, writes + more_writes])
        })
    }
}

/// A file without a name whose blocks are reserved.
fn backing(bytes: u64, folder: &Path) -> Result<Writable, EngineError> {
    let file = Writable::nameless(folder)?;
    let free = calls::free_bytes(file.open()).map_err(|why| EngineError::io("asking for free space", why))?;
    if bytes + RESERVE > free {
        return Err(EngineError::Missing {
            what: format!("{} needs {} more and {} are free", folder.display(), Bytes(bytes + RESERVE), Bytes(free)),
            remedy: "write fewer devices or a smaller device_size, or name a folder on another disk (path)".to_owned(),
        });
    }
    calls::reserve(file.open(), bytes)
        .map_err(|why| EngineError::io(format!("reserving {} in {}", Bytes(bytes), folder.display()), why))?;
    Ok(file)
}

fn device(backing: &Writable) -> Result<LoopDevice, EngineError> {
    LoopDevice::over(backing.open(), BLOCK).map_err(|why| EngineError::Missing {
        what: format!("a loop device cannot be made: {why}"),
        remedy: "run it as root; in a container loop devices have to be allowed".to_owned(),
    })
}
