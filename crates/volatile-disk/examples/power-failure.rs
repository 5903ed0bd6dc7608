//! Two files, one of them synced, and a power failure; needs /dev/fuse and the right to mount.
#![expect(clippy::print_stdout, reason = "an example's output")]

use std::fs::{self, File};
use std::io::{Result, Write};

fn main() -> Result<()> {
    let (stored, at) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let disk = baremark_volatile_disk::mount(stored.path(), at.path())?;
    let mut synced = File::create(at.path().join("synced"))?;
    synced.write_all(b"kept")?;
    synced.sync_all()?;
    File::create(at.path().join("written"))?.write_all(b"lost")?;
    drop((synced, disk));
    for name in ["synced", "written"] {
        println!("{name}: {:?}", fs::read_to_string(stored.path().join(name))?);
    }
    Ok(())
}
