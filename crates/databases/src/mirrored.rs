//! A disk of two copies by the kernel at a server's data: ext4 on a mirror of a disk here and one that NBD reaches at the second site.
//!
//! Everything that is written waits for both copies, those of the page cache when it is written back.

use crate::dataset_cache::Kept;
use crate::error::ServerError;
use crate::way::Way;
use baremark_delay::Overhead;
use baremark_disks::layout::{DiskCounts, Mirror};
use baremark_disks::nbd::Replica;
use baremark_sys::mounts::Mounted;
use baremark_sys::private_folder::directory::Directory;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Bytes for what a run adds to its data, and for its log.
const ROOM: u64 = 512 << 20;

/// The disk, mounted; the calling thread has mounts of its own.
pub(crate) struct Mirrored {
    // Each is undone before what it stands on.
    data: Mounted,
    whole: Mounted,
    mirror: Mirror,
    site: Option<(Replica, Way)>,
}

impl Mirrored {
    /// Makes the disk, puts kept data on it and shows them at `data`. Both copies are files without a name in `root`.
    ///
    /// # Errors
    /// As [`Kept::take`]; what the kernel lacks or refuses.
    pub(crate) fn mount(
        kept: &Kept,
        root: &Path,
        (data, owner): (&Path, Option<(u32, u32)>),
        round_trip: Option<Duration>,
        overhead: Overhead,
    ) -> Result<Mirrored, ServerError> {
        let bytes = Mirror::size_for(2 * kept.bytes()? + ROOM);
        let site = round_trip.map(|round_trip| second_site(root, bytes, round_trip, overhead)).transpose()?;
        let mirror = Mirror::new(root, bytes, site.as_ref().map(|(replica, way)| (replica, way.address())))?;
        let (kind, at) = (mirror.format()?, root.join("mirror"));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ServerError::Io { path, source }
        };
        for folder in [&at, data] {
            match Directory::make_new(folder) {
                Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(failed(folder)(why)),
                _ => {}
            }
        }
        let whole = Mounted::device(mirror.path(), kind, &at).map_err(failed(&at))?;
        let inside = at.join("data");
        kept.take(&inside, owner)?;
        let data = Mounted::also(&inside, data).map_err(failed(data))?;
        Ok(Mirrored { data, whole, mirror, site })
    }

    pub(crate) fn way(&self) -> Option<&Way> {
        self.site.as_ref().map(|(_, way)| way)
    }

    pub(crate) fn counted(&self) -> DiskCounts {
        self.mirror.counted()
    }

    /// Unmounts the disk, which nobody may use any more, and compares its copies; see [`Mirror::compare`]. Where they differ comes in words, with the
    /// end of the connection between them, if that is the reason.
    ///
    /// # Errors
    /// A file that is still open, or a copy that cannot be read.
    pub(crate) fn compare(self) -> io::Result<Option<Result<u64, String>>> {
        let Mirrored { data, whole, mirror, site } = self;
        data.unmount()?;
        // All that was written is on both copies once this returns.
        whole.unmount()?;
        let Some((replica, _)) = &site else { return Ok(None) };
        let why = replica.failure().map_or_else(String::new, |why| format!(" (the second copy was lost: {why})"));
        Ok(mirror.compare(replica)?.map(|compared| compared.map_err(|place| format!("byte {place}{why}"))))
    }
}

fn second_site(
    root: &Path,
    bytes: u64,
    round_trip: Duration,
    overhead: Overhead,
) -> Result<(Replica, Way), ServerError> {
    let replica = Replica::serve(root, bytes)?;
    let way = Way::to(replica.address(), round_trip, overhead);
    let way = way.map_err(|source| ServerError::Io { path: root.to_owned(), source })?;
    Ok((replica, way))
}
