//! Files and block devices of this machine that a guest sees as disks.

use baremark_model::site::Missing;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// Says which of them cannot be a guest's disk.
///
/// # Errors
/// The first such path, with the remedy.
pub(crate) fn check(paths: &[PathBuf], block_devices: bool) -> Result<(), Missing> {
    for path in paths {
        let name = path.display();
        let meta = fs::metadata(path).map_err(|why| Missing {
            what: format!("the guest's disk {name} cannot be used: {why}"),
            remedy: "make the file first, such as with truncate".to_owned(),
        })?;
        if meta.file_type().is_block_device() && !block_devices {
            let what = format!("the guest's disk {name} is a block device, whose contents the guest may overwrite");
            return Err(Missing { what, remedy: "write block_devices = true if that is meant".to_owned() });
        }
        if !meta.file_type().is_block_device() && !meta.is_file() {
            let what = format!("the guest's disk {name} is neither a file nor a block device");
            return Err(Missing { what, remedy: "give one of the two".to_owned() });
        }
    }
    Ok(())
}
