//! The files of a sandbox: this machine's, read-only, with private folders where programs expect to write, and few devices.

use crate::calls::checked;
use baremark_model::order;
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::ptr;

/// A file or folder of this machine that a sandbox sees where something else would hide it, or may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its path, absolute.
    pub path: PathBuf,
    /// Whether it may be written.
    pub writable: bool,
}

/// Folders that a sandbox has of its own; the first one unless it is shown itself.
pub(super) const HIDDEN: [&str; 2] = ["/tmp", "/dev"];
/// The devices that it has.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Links of /dev.
const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
];
/// Files of the kernel's own that stay read-only in a new /proc, where the superuser could write to some of them without a capability.
const OF_THE_KERNEL: [&str; 5] = ["/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger"];

/// What was tried, and what came of it.
type Failed = (String, io::Error);

/// `struct mount_attr` of `mount_setattr(2)`.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Everything that must be opened before anything hides it.
pub(super) struct Tree<'t> {
    devices: Vec<(&'static str, File)>,
    shown: Vec<(&'t Shown, File)>,
}

impl<'t> Tree<'t> {
    /// Opens the devices and what is to be shown, in this process's own mounts.
    pub(super) fn prepare(shown: &'t [Shown]) -> Result<Self, Failed> {
        // Not every container has all of them.
        let open = |name: &'static str| Some((name, handle(&Path::new("/dev").join(name)).ok()?));
        let devices = DEVICES.into_iter().filter_map(open).collect();
        let mut sorted: Vec<&Shown> = shown.iter().filter(|of| of.path.parent().is_some()).collect();
        // What is above comes first, or it would hide what is below.
        order::by_key(&mut sorted, |of| of.path.components().count());
        let open = |of: &'t Shown| {
            let file = handle(&of.path).map_err(|why| (format!("opening {}", of.path.display()), why))?;
            Ok((of, file))
        };
        Ok(Tree { devices, shown: sorted.into_iter().map(open).collect::<Result<_, Failed>>()? })
    }

    /// Makes everything read-only and puts folders of its own in the place of [`HIDDEN`]. A /tmp that is shown stays: one that hid it would be
    /// mounted in what is shown as well.
    pub(super) fn hide(&self) -> Result<(), Failed> {
        all_read_only().map_err(|why| ("making files read-only".to_owned(), why))?;
        let is_shown = self.shown.iter().any(|(of, _)| of.path == Path::new("/tmp"));
        if Path::new("/tmp").is_dir() && !is_shown {
            temporary("/tmp", "mode=1777")?;
        }
        if !Path::new("/dev").is_dir() {
            return Ok(());
        }
        temporary("/dev", "mode=755")?;
        for (name, device) in &self.devices {
            let path = Path::new("/dev").join(name);
            let made = File::create(&path).and_then(|_| also(device, &path));
            made.map_err(|why| (format!("the device {}", path.display()), why))?;
        }
        let made = folders_of_dev().and_then(|()| LINKS.into_iter().try_for_each(|(to, at)| symlink(to, at)));
        made.map_err(|why| ("filling /dev".to_owned(), why))
    }

    /// Shows what is to be shown, writable where it shall be.
    pub(super) fn show(&self) -> Result<(), Failed> {
        for (of, file) in &self.shown {
            let is_seen = same(&of.path, file);
            if is_seen && !of.writable {
                continue;
            }
            let shown = place_for(&of.path, file).and_then(|()| also(file, &of.path));
            shown.map_err(|why| (format!("showing {}", of.path.display()), why))?;
            let changed = change(&of.path, if of.writable { Change::Writable } else { Change::ReadOnly });
            match changed {
                // A folder that is read-only on this machine stays so.
                Err(why) if of.writable && why.kind() == io::ErrorKind::PermissionDenied => {}
                other => other.map_err(|why| (format!("mounting {}", of.path.display()), why))?,
            }
        }
        Ok(())
    }
}

/// A /proc of the processes of this PID namespace.
pub(super) fn own_proc() -> Result<(), Failed> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None).map_err(|why| ("mounting /proc".to_owned(), why))?;
    for path in OF_THE_KERNEL.into_iter().filter(|path| Path::new(path).exists()) {
        let kept = mount(Some(path), path, None, libc::MS_BIND | libc::MS_REC, None);
        kept.and_then(|()| change(Path::new(path), Change::ReadOnly))
            .map_err(|why| (format!("keeping {path}"), why))?;
    }
    Ok(())
}

/// Terminals and shared memory. Kernels without pseudoterminals in namespaces do without the former.
fn folders_of_dev() -> io::Result<()> {
    fs::create_dir("/dev/shm")?;
    fs::set_permissions("/dev/shm", Permissions::from_mode(0o1777))?;
    fs::create_dir("/dev/pts")?;
    drop(mount(
        Some("devpts"),
        "/dev/pts",
        Some("devpts"),
        libc::MS_NOSUID | libc::MS_NOEXEC,
        Some("newinstance,ptmxmode=0666,mode=620"),
    ));
    Ok(())
}

fn temporary(at: &str, options: &str) -> Result<(), Failed> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some(options)).map_err(|why| (format!("a private {at}"), why))
}

/// A descriptor that stands for a file and does not read it.
fn handle(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_PATH).open(path)
}

/// Whether the file at `path` is this one.
fn same(path: &Path, file: &File) -> bool {
    let (there, own) = (fs::metadata(path), file.metadata());
    there.ok().zip(own.ok()).is_some_and(|(there, own)| (there.dev(), there.ino()) == (own.dev(), own.ino()))
}

/// Makes a file or folder, in a folder of the sandbox's own, over which this one can be mounted.
fn place_for(path: &Path, file: &File) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    if file.metadata()?.is_dir() {
        return fs::create_dir_all(path);
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    File::create(path).map(drop)
}

/// Mounts a file or folder, with what is mounted in it, at another path as well.
fn also(file: &File, at: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    let at = CString::new(at.as_os_str().as_bytes())?;
    let from = CString::new(from)?;
    let flags = libc::MS_BIND | libc::MS_REC;
    // SAFETY: both texts end in zero and live through the call; a mount of what is there looks at neither kind nor options.
    checked(unsafe { libc::mount(from.as_ptr(), at.as_ptr(), ptr::null(), flags, ptr::null()) }).map(drop)
}

fn mount(
    source: Option<&str>,
    at: &str,
    kind: Option<&str>,
    flags: libc::c_ulong,
    options: Option<&str>,
) -> io::Result<()> {
    let text = |text: Option<&str>| text.map(CString::new).transpose();
    let (source, at, kind, options) = (text(source)?, CString::new(at)?, text(kind)?, text(options)?);
    let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    // SAFETY: all texts end in zero and live through the call; null is what a mount without them has.
    checked(unsafe {
        libc::mount(pointer(&source), at.as_ptr(), pointer(&kind), flags, pointer(&options).cast::<libc::c_void>())
    })
    .map(drop)
}

/// What becomes of a mount.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Writable,
    ReadOnly,
    /// With all that is mounted in it.
    AllReadOnly,
}

fn attributes(path: &Path, change: Change) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let (set, clear) =
        if change == Change::Writable { (0, libc::MOUNT_ATTR_RDONLY) } else { (libc::MOUNT_ATTR_RDONLY, 0) };
    let wanted = Attributes { set, clear, propagation: 0, user_namespace: 0 };
    let flags = if change == Change::AllReadOnly { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the text ends in zero; the attributes are of the size that is passed, and both live through the call.
    checked(unsafe {
        let (wanted, size) = (&raw const wanted, size_of::<Attributes>());
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, path.as_ptr(), flags, wanted, size)
    })
    .map(drop)
}

fn change(path: &Path, change: Change) -> io::Result<()> {
    match attributes(path, change) {
        Err(why) if why.raw_os_error() == Some(libc::ENOSYS) => remount(path, change),
        changed => changed,
    }
}

fn all_read_only() -> io::Result<()> {
    match attributes(Path::new("/"), Change::AllReadOnly) {
        // Linux before 5.12: one by one.
        Err(why) if why.raw_os_error() == Some(libc::ENOSYS) => {
            let listed = fs::read_to_string("/proc/self/mountinfo")?;
            let paths = listed.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
            for path in paths {
                match remount(Path::new(&path), Change::ReadOnly) {
                    // Hidden by another mount: nobody can write there.
                    Err(why) if matches!(why.raw_os_error(), Some(libc::EINVAL | libc::ENOENT | libc::EACCES)) => {}
                    other => other?,
                }
            }
            Ok(())
        }
        changed => changed,
    }
}

/// Changes one mount as kernels without `mount_setattr(2)` do, which takes all of its other options as well.
fn remount(path: &Path, change: Change) -> io::Result<()> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    let mut of = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the text ends in zero; the place for the answer lives through the call.
    checked(unsafe { libc::statvfs(text.as_ptr(), of.as_mut_ptr()) })?;
    // SAFETY: the call that has just succeeded has filled it.
    let has = unsafe { of.assume_init() }.f_flag;
    let options = [
        (libc::ST_NOSUID, libc::MS_NOSUID),
        (libc::ST_NODEV, libc::MS_NODEV),
        (libc::ST_NOEXEC, libc::MS_NOEXEC),
        (libc::ST_NOATIME, libc::MS_NOATIME),
        (libc::ST_NODIRATIME, libc::MS_NODIRATIME),
        (libc::ST_RELATIME, libc::MS_RELATIME),
    ];
    let kept = options.into_iter().filter(|(flag, _)| has & flag != 0).fold(0, |flags, (_, flag)| flags | flag);
    let read_only = if change == Change::Writable { 0 } else { libc::MS_RDONLY };
    let flags = libc::MS_BIND | libc::MS_REMOUNT | read_only | kept;
    // SAFETY: the text ends in zero and lives through the call; a remount looks at neither source nor kind.
    checked(unsafe { libc::mount(ptr::null(), text.as_ptr(), ptr::null(), flags, ptr::null()) }).map(drop)
}

/// A path of mountinfo(5), in which blanks and the like are octal numbers after a backslash.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal = || {
            let digits = std::str::from_utf8(after.get(..3)?).ok()?;
            u8::from_str_radix(digits, 8).ok()
        };
        match (byte, octal()) {
            (b'\\', Some(character)) => {
                bytes.push(character);
                rest = &after[3..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mounts_are_read_with_their_blanks() {
        assert_eq!(unescaped("/mnt/a\\040b\\134c"), "/mnt/a b\\c");
        assert_eq!(unescaped("/plain\\"), "/plain\\");
    }

    #[test]
    fn a_file_is_known_again_by_what_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, "1").expect("written");
        fs::write(&other, "2").expect("written");
        let file = handle(&one).expect("opened");
        assert!(same(&one, &file) && !same(&other, &file) && !same(&folder.path().join("none"), &file));
    }
}
