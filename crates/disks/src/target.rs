//! What is read and written: a file without a name, a file of the user's, or a block device that may be destroyed.

use crate::error::EngineError;
use crate::io::buffers::Buffers;
use crate::io::calls;
use crate::verify::Ledger;
use crate::writable::{Consent, Writable};
use baremark_model::units::Bytes;
use baremark_stats::Rng;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that a fill writes at once.
const CHUNK: usize = 4 << 20;
/// What is left free on the file system.
pub(crate) const RESERVE: u64 = 64 << 20;

/// Whether the page cache is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// `O_DIRECT`: no.
    Direct,
    /// Yes.
    Buffered,
}

/// Where the data are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file without a name in this folder: the kernel removes it when its last user is gone, however that ended.
    Folder(PathBuf),
    /// A regular file, made where it is missing, and kept.
    File(PathBuf),
    /// A block device, whose content is lost.
    Device(PathBuf),
}

impl Place {
    /// The folder, file or device.
    #[must_use]
    pub fn path(&self) -> &Path {
        let (Place::Folder(path) | Place::File(path) | Place::Device(path)) = self;
        path
    }
}

/// An open target of a known size.
pub struct Target {
    keeper: Writable,
    size: u64,
    cache: Cache,
}

impl Target {
    /// Opens it and makes sure that `size` bytes fit. Data are not written yet.
    ///
    /// # Errors
    /// A block device that `consent` does not cover, too little space, a folder or device that cannot be used, or a file system without
    /// `O_DIRECT`.
    pub fn open(place: &Place, size: u64, cache: Cache, consent: Consent<'_>) -> Result<Target, EngineError> {
        let keeper = match place {
            Place::Folder(folder) => Writable::nameless(folder)?,
            Place::File(path) => Writable::file(path)?,
            Place::Device(path) => Writable::device(path, consent)?,
        };
        match place {
            Place::Device(path) => fits(&keeper, size, path)?,
            _ => room(keeper.open(), size, place)?,
        }
        Target::over(keeper, size, cache)
    }

    /// The first `size` bytes of an open file or device.
    ///
    /// # Errors
    /// A file system without `O_DIRECT`.
    pub(crate) fn over(keeper: Writable, size: u64, cache: Cache) -> Result<Target, EngineError> {
        let target = Target { keeper, size, cache };
        target.handle(false)?;
        Ok(target)
    }

    /// Whether the page cache is not used.
    pub(crate) fn is_direct(&self) -> bool {
        self.cache == Cache::Direct
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The device number of what holds the data.
    #[must_use]
    pub fn device(&self) -> Option<u64> {
        let found = self.keeper.open().metadata().ok()?;
        Some(if found.rdev() != 0 { found.rdev() } else { found.dev() })
    }

    /// The share of it that stays in memory although the page cache is not used: of a file system without a disk (tmpfs, or a container's
    /// layer over one), or of what other programs map. 0 where the page cache is used.
    ///
    /// # Errors
    /// When what was written cannot be brought to the disk, or the kernel does not say what it holds.
    #[expect(clippy::cast_precision_loss, reason = "sizes of files")]
    pub(crate) fn in_memory(&self) -> Result<f64, EngineError> {
        if !self.is_direct() || self.size == 0 {
            return Ok(0.0);
        }
        let cached = calls::drop_cached(self.keeper.open(), self.size);
        Ok(cached.map_err(|why| EngineError::io("asking what of the target is in memory", why))? as f64
            / self.size as f64)
    }

    /// A descriptor of its own, with `O_DSYNC` where every write is to be on stable storage before it completes.
    ///
    /// # Errors
    /// When it cannot be opened so.
    pub fn handle(&self, durable: bool) -> Result<File, EngineError> {
        let direct = if self.cache == Cache::Direct { libc::O_DIRECT } else { 0 };
        let flags = direct | if durable { libc::O_DSYNC } else { 0 };
        let path = format!("/proc/self/fd/{}", self.keeper.open().as_raw_fd());
        let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        opened.map_err(|why| match why.raw_os_error() {
            Some(libc::EINVAL) if direct != 0 => EngineError::Missing {
                what: "the file system has no O_DIRECT".to_owned(),
                remedy: "write cache = \"buffered\", or name a folder on another file system".to_owned(),
            },
            _ => EngineError::io("opening the target", why),
        })
    }

    /// Writes all of it once: random data that neither compress nor repeat, or stamped blocks for a ledger.
    ///
    /// # Errors
    /// What writing gives, or an interrupt.
    pub fn fill(&self, seed: u64, mut ledger: Option<&mut Ledger>, interrupt: &AtomicBool) -> Result<(), EngineError> {
        let file = self.handle(false)?;
        let mut buffers = Buffers::new(1, CHUNK);
        let mut rng = Rng::stream(seed, u64::MAX);
        let mut at = 0;
        while at < self.size {
            if interrupt.load(Ordering::Acquire) {
                return Err(EngineError::Interrupted);
            }
            let length = usize::try_from(self.size - at).unwrap_or(CHUNK).min(CHUNK);
            let chunk = &mut buffers.of_mut(0)[..length];
            match ledger.as_deref_mut() {
                None => randomize(chunk, &mut rng),
                Some(ledger) => stamp_chunk(ledger, at, chunk)?,
            }
            file.write_all_at(chunk, at).map_err(|why| EngineError::io("filling the target", why))?;
            if let Some(ledger) = ledger.as_deref_mut() {
                acknowledge(ledger, at, length as u64)?;
            }
            at += length as u64;
        }
        file.sync_data().map_err(|why| EngineError::io("filling the target", why))
    }
}

/// Random words.
pub(crate) fn randomize(bytes: &mut [u8], rng: &mut Rng) {
    for word in bytes.chunks_mut(8) {
        let random = rng.next_u64().to_le_bytes();
        word.copy_from_slice(&random[..word.len()]);
    }
}

fn stamp_chunk(ledger: &mut Ledger, at: u64, chunk: &mut [u8]) -> Result<(), EngineError> {
    let block = ledger.block();
    for (index, bytes) in chunk.chunks_exact_mut(block).enumerate() {
        ledger.fill(at + (index * block) as u64, bytes).map_err(|why| EngineError::io("writing the ledger", why))?;
    }
    Ok(())
}

fn acknowledge(ledger: &mut Ledger, at: u64, length: u64) -> Result<(), EngineError> {
    let block = ledger.block() as u64;
    for index in 0..length / block {
        ledger.end_write(at + index * block, 1).map_err(|why| EngineError::io("writing the ledger", why))?;
    }
    Ok(())
}

/// Refuses a device that is smaller than `size`.
fn fits(device: &Writable, size: u64, path: &Path) -> Result<(), EngineError> {
    let all = calls::device_bytes(device.open());
    let all = all.map_err(|why| EngineError::io(format!("asking {}", path.display()), why))?;
    if size > all {
        return Err(EngineError::Missing {
            what: format!("{} has {}, and size is {}", path.display(), Bytes(all), Bytes(size)),
            remedy: "write a smaller size".to_owned(),
        });
    }
    Ok(())
}

/// Reserves the space, so that a disk that is too small is refused before anything is measured.
fn room(file: &File, size: u64, place: &Place) -> Result<(), EngineError> {
    let path = place.path();
    let found = file.metadata().map_err(|why| EngineError::io("asking for the file's size", why))?;
    let free = calls::free_bytes(file).map_err(|why| EngineError::io("asking for free space", why))?;
    let needed = size.saturating_sub(found.blocks().saturating_mul(512));
    let refused = |free: u64| EngineError::Missing {
        what: format!("{} needs {} of disk and {} are free", path.display(), Bytes(needed + RESERVE), Bytes(free)),
        remedy: "write a smaller size, or name a folder on another disk (path)".to_owned(),
    };
    if needed > 0 && needed + RESERVE > free {
        return Err(refused(free));
    }
    calls::reserve(file, size).map_err(|why| match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => refused(free),
        _ => EngineError::io(format!("reserving {} for {}", Bytes(size), path.display()), why),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_too_small_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::Folder(folder.path().to_owned());
        let why =
            Target::open(&place, 1 << 60, Cache::Buffered, Consent::NONE).err().expect("an exbibyte does not fit");
        let said = why.to_string();
        assert!(said.contains("of disk and") && said.contains("write a smaller size"), "{said}");
    }

    #[test]
    fn the_file_has_no_name_from_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::Folder(folder.path().to_owned());
        let target = Target::open(&place, 1 << 20, Cache::Buffered, Consent::NONE).unwrap();
        target.fill(1, None, &AtomicBool::new(false)).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut bytes = [0; 4096];
        target.handle(false).unwrap().read_exact_at(&mut bytes, (1 << 20) - 4096).unwrap();
        assert!(bytes.iter().collect::<std::collections::BTreeSet<_>>().len() > 200, "random to its end");
    }
}
