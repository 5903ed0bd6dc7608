//! Values of sysctl and sysfs: files that hold one setting.
//!
//! A value is undone only while it is what was written: if somebody else has changed it since, theirs stays. A file that lists its choices
//! and marks one (`none [mq-deadline] kyber`) has the marked word as its value.

use crate::change::{Kind, Undone, details_of};
use crate::error::MakeError;
use crate::journal::{Held, Journal};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const KIND: &str = "value";

/// The kind of changes to values.
#[derive(Clone, Debug)]
pub struct Values {
    roots: Vec<PathBuf>,
}

impl Values {
    /// Values below /sys and /proc/sys.
    #[must_use]
    pub fn system() -> Values {
        Values { roots: vec![PathBuf::from("/sys"), PathBuf::from("/proc/sys")] }
    }

    /// Values below another folder, for tests.
    #[must_use]
    pub fn within(root: impl Into<PathBuf>) -> Values {
        Values { roots: vec![root.into()] }
    }

    /// The real path of a value, which must be below a root: a record is not obeyed elsewhere.
    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        let real = fs::canonicalize(path)?;
        if self.roots.iter().any(|root| real.starts_with(root)) {
            return Ok(real);
        }
        let what = format!("{} is not a value of sysctl or sysfs", path.display());
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    path: PathBuf,
    previous: String,
    value: String,
}

impl Kind for Values {
    fn name(&self) -> &'static str {
        KIND
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { path, previous, value } = details_of(details)?;
        let real = match self.real(&path) {
            // The device or its module is gone, and the value with it.
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Undone::Absent),
            real => real?,
        };
        match read(&real)? {
            found if found == previous => Ok(Undone::Absent),
            found if found != value => Ok(Undone::Foreign(format!("{found}, not {value}"))),
            _ => {
                write(&real, &previous)?;
                let found = read(&real)?;
                if found == previous { Ok(Undone::Done) } else { Err(not_taken(&previous, &found)) }
            }
        }
    }
}

/// Reads a value: the marked word of a list of choices, else the whole text without blanks at its ends.
///
/// # Errors
/// What reading gives.
pub fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let marked = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Ok(marked.unwrap_or(text.trim()).to_owned())
}

/// Writes a value into a file that is there. Such files take each write whole: nothing is to be cut off first.
fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// Sets a value until the hold on it is dropped. The kernel must take it: what is read afterwards has to be `value`.
///
/// # Errors
/// When it cannot be recorded, written, or the kernel made another value of it.
pub fn set(journal: &Journal, path: &Path, value: &str) -> Result<Held, MakeError<io::Error>> {
    let look = || {
        let details = Details { path: path.to_owned(), previous: read(path)?, value: value.to_owned() };
        Ok(serde_json::to_value(details)?)
    };
    let make = |_: &Value| {
        write(path, value)?;
        let found = read(path)?;
        if found == value { Ok(()) } else { Err(not_taken(value, &found)) }
    };
    journal.make_from(KIND.to_owned(), path.display().to_string(), look, make).map(|((), held)| held)
}

fn not_taken(value: &str, found: &str) -> io::Error {
    io::Error::other(format!("'{value}' was written and '{found}' is read"))
}
