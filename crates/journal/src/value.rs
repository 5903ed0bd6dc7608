//! Values of sysctl, sysfs, interrupts and debugfs: files that hold one setting.
//!
//! A value is undone only while it is what was written: if somebody else has changed it since, theirs stays. A file that lists its choices
//! and marks one (`none [mq-deadline] kyber`, `none voluntary (full)`) has the marked word as its value. A file that lists switches
//! (`NEXT_BUDDY NO_HRTICK`) has one value for each of them ([`Setting::switch`]).
//!
//! Values below /sys/kernel/debug are reached by a mount of this process alone where debugfs is not mounted there. It is detached, in no
//! namespace's tree, so that nothing is left of it when its files are closed or this process is killed.

use crate::change::{Kind, Undone, details_of};
use crate::error::MakeError;
use crate::journal::{Held, Journal};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};

const KIND: &str = "value";
/// Where debugfs is mounted, if it is.
const DEBUGFS: &str = "/sys/kernel/debug";

/// The kind of changes to values.
#[derive(Clone, Debug)]
pub struct Values {
    roots: Vec<PathBuf>,
}

impl Values {
    /// Values below /sys, /proc/sys and /proc/irq.
    #[must_use]
    pub fn system() -> Values {
        Values { roots: ["/sys", "/proc/sys", "/proc/irq"].map(PathBuf::from).to_vec() }
    }

    /// Values below another folder, for tests.
    #[must_use]
    pub fn within(root: impl Into<PathBuf>) -> Values {
        Values { roots: vec![root.into()] }
    }

    /// The real path of a value, which must be below a root: a record is not obeyed elsewhere.
    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        let real = match fs::canonicalize(path) {
            // debugfs is not mounted there, and none of its files is a link.
            Err(why) if why.kind() == io::ErrorKind::NotFound && in_debugfs(path).is_some() => path.to_owned(),
            real => real?,
        };
        if self.roots.iter().any(|root| real.starts_with(root)) {
            return Ok(real);
        }
        let what = format!("{} is not a value of sysctl or sysfs", path.display());
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }
}

/// One setting of the kernel: the value of a file, or one of the switches that a file lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The file.
    pub path: PathBuf,
    /// The switch, whose value is `NAME` when it is on and `NO_NAME` when it is off; `None` for the value of the whole file.
    pub switch: Option<String>,
}

impl Setting {
    /// The value of a file.
    pub fn of(path: impl Into<PathBuf>) -> Setting {
        Setting { path: path.into(), switch: None }
    }

    /// One of the switches of a file.
    pub fn switch(path: impl Into<PathBuf>, name: impl Into<String>) -> Setting {
        Setting { path: path.into(), switch: Some(name.into()) }
    }

    /// What it is now.
    ///
    /// # Errors
    /// What reading gives, or `InvalidData` when the file has no such switch.
    pub fn read(&self) -> io::Result<String> {
        let Some(name) = &self.switch else { return read(&self.path) };
        let text = text(&self.path)?;
        let is = |word: &&str| *word == name || word.strip_prefix(OFF) == Some(name.as_str());
        text.split_whitespace().find(is).map(str::to_owned).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{} has no switch {name}", self.path.display()))
        })
    }

    /// Sets it until the hold on it is dropped. The kernel must take it: what is read afterwards has to be `value`, or what was there is written back.
    ///
    /// # Errors
    /// When it cannot be recorded, written, or the kernel made another value of it.
    pub fn set(&self, journal: &Journal, value: &str) -> Result<Held, MakeError<io::Error>> {
        let look = || {
            let (path, switch, previous) = (self.path.clone(), self.switch.clone(), self.read()?);
            Ok(serde_json::to_value(Details { path, switch, previous, value: value.to_owned() })?)
        };
        let make = |details: &Value| {
            write(&self.path, value)?;
            let found = self.read()?;
            if found == value {
                return Ok(());
            }
            // By its record it would be somebody else's.
            let Details { previous, .. } = details_of(details)?;
            write(&self.path, &previous)?;
            let restored = self.read()?;
            Err(if restored == previous { not_taken(value, &found) } else { not_taken(&previous, &restored) })
        };
        let target = match &self.switch {
            Some(name) => format!("{} {name}", self.path.display()),
            None => self.path.display().to_string(),
        };
        journal.make_from(KIND.to_owned(), target, look, make).map(|((), held)| held)
    }
}

/// How a switch that is off begins.
pub const OFF: &str = "NO_";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    path: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    switch: Option<String>,
    previous: String,
    value: String,
}

impl Kind for Values {
    fn name(&self) -> &'static str {
        KIND
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { path, switch, previous, value } = details_of(details)?;
        let there = self.real(&path).and_then(|path| {
            let setting = Setting { path, switch };
            Ok((setting.read()?, setting))
        });
        let (found, setting) = match there {
            // The device or its module is gone, and the value with it.
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Undone::Absent),
            there => there?,
        };
        if found == previous {
            return Ok(Undone::Absent);
        }
        if found != value {
            return Ok(Undone::Foreign(format!("{found}, not {value}")));
        }
        write(&setting.path, &previous)?;
        let found = setting.read()?;
        if found == previous { Ok(Undone::Done) } else { Err(not_taken(&previous, &found)) }
    }
}

/// Opens the file of a value; one below /sys/kernel/debug also where debugfs is not mounted there.
///
/// # Errors
/// What opening gives, or mounting debugfs.
pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let opened = options.open(path);
    let absent = opened.as_ref().is_err_and(|why| why.kind() == io::ErrorKind::NotFound);
    let Some(inside) = in_debugfs(path).filter(|_| absent) else { return opened };
    let context = fsopen("debugfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    // The file that is opened keeps the mount; the mount goes with it.
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    options.open(Path::new("/proc/self/fd").join(mount.as_raw_fd().to_string()).join(inside))
}

/// The path inside of debugfs, if it is in it and leads nowhere else.
fn in_debugfs(path: &Path) -> Option<&Path> {
    let inside = path.strip_prefix(DEBUGFS).ok()?;
    inside.components().all(|part| matches!(part, Component::Normal(_))).then_some(inside)
}

/// All that is in the file of a value.
///
/// # Errors
/// What reading gives.
pub fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path, OpenOptions::new().read(true))?.read_to_string(&mut text)?;
    Ok(text)
}

/// Reads a value: the marked word of a list of choices, else the whole text without blanks at its ends.
///
/// # Errors
/// What reading gives.
pub fn read(path: &Path) -> io::Result<String> {
    let text = text(path)?;
    let marked = text.split_whitespace().find_map(|word| between(word, '[', ']').or_else(|| between(word, '(', ')')));
    Ok(marked.unwrap_or(text.trim()).to_owned())
}

fn between(word: &str, first: char, last: char) -> Option<&str> {
    word.strip_prefix(first)?.strip_suffix(last)
}

/// Writes a value into a file that is there. Such files take each write whole: nothing is to be cut off first.
fn write(path: &Path, value: &str) -> io::Result<()> {
    open(path, OpenOptions::new().write(true))?.write_all(value.as_bytes())
}

/// Sets the value of a file, as [`Setting::set`].
///
/// # Errors
/// As [`Setting::set`].
pub fn set(journal: &Journal, path: &Path, value: &str) -> Result<Held, MakeError<io::Error>> {
    Setting::of(path).set(journal, value)
}

fn not_taken(value: &str, found: &str) -> io::Error {
    io::Error::other(format!("'{value}' was written and '{found}' is read"))
}
