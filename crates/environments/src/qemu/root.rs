//! A guest with its host's files: read-only, and shared by virtiofs, so that what is measured natively runs in it as it is.
//!
//! A daemon of QEMU's project, virtiofsd, serves the files. It sees this machine's mounts read-only, so that nothing in
//! the guest, which is its own superuser, can change a file of the host; what the guest writes stays in its own memory. Lab, QEMU and daemon share sockets that
//! have no name by the time any of them runs, and the daemon ends with QEMU or with the lab, whichever goes first.

use super::settings::{Root, Settings};
use crate::child::{Piped, hand_over};
use crate::folder::Folder;
use baremark_model::site::{Missing, SiteError};
use baremark_sys::confine::is_root;
use baremark_sys::mounts::see_read_only;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the daemon lies: by Debian 13 and others, by Debian 12, by Arch.
const DAEMONS: &[&str] = &["/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd"];
/// By which the guest finds the host's files.
pub const TAG: &str = "host";

/// Says what is missing for a root.
pub fn check(root: Root) -> Result<(), Missing> {
    if root == Root::Program {
        return Ok(());
    }
    daemon()?;
    if !is_root() {
        let what = "rootfs = host needs the superuser, who alone may make this machine's files read-only for a guest";
        let remedy = "run it as root, or write rootfs = \"program\"".to_owned();
        return Err(Missing { what: what.to_owned(), remedy });
    }
    Ok(())
}

fn daemon() -> Result<PathBuf, Missing> {
    let found = DAEMONS.iter().map(Path::new).find(|path| path.is_file());
    found.map(Path::to_owned).ok_or_else(|| Missing {
        what: format!("rootfs = host needs virtiofsd, which was not found in {}", DAEMONS.join(", ")),
        remedy: "install it (Debian 12: qemu-system-common, later: virtiofsd)".to_owned(),
    })
}

/// What this root needs of the guest's kernel.
pub fn drivers(root: Root) -> &'static [&'static str] {
    match root {
        Root::Program => &[],
        Root::Host => &["virtio_pci", "virtiofs", "overlay"],
    }
}

/// Starts what serves the root, and tells QEMU of it; `None` where nothing does. QEMU's end of the socket must live until
/// QEMU runs, and is the second.
pub fn serve(settings: &Settings, command: &mut Command) -> Result<Option<(Piped, UnixStream)>, SiteError> {
    if settings.root == Root::Program {
        return Ok(None);
    }
    let (listener, ours) = sockets().map_err(SiteError::io("making a socket for virtiofsd"))?;
    let mut daemon = Command::new(daemon()?);
    daemon.arg("-f").args(["-o", "source=/", "-o", "cache=always", "-o", "sandbox=chroot"]);
    hand_over(&mut daemon, &listener);
    daemon.arg(format!("--fd={}", listener.as_raw_fd()));
    see_read_only(&mut daemon);
    let daemon = Piped::spawn(&mut daemon)?;
    hand_over(command, &ours);
    command.arg("-chardev").arg(format!("socket,id=root,fd={}", ours.as_raw_fd()));
    command.arg("-device").arg(format!("vhost-user-fs-pci,chardev=root,tag={TAG}"));
    Ok(Some((daemon, ours)))
}

/// A listening socket and one that is connected to it; neither has a name any more.
fn sockets() -> io::Result<(UnixListener, UnixStream)> {
    // A lab that was killed at just this place has left its folder.
    drop(Folder::orphans("qemu"));
    let folder = Folder::create("qemu").map_err(io::Error::other)?;
    let path = folder.inner().join("files");
    let listener = UnixListener::bind(&path)?;
    Ok((listener, UnixStream::connect(&path)?))
}
