//! Where observers read: files below a root folder.

use baremark_model::observer::Absence;
use baremark_model::quantity::{self, Quantity};
use baremark_sys::pseudo::Pseudo;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder that has `proc` and `sys`: `/`, or a recording of another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    /// This machine.
    fn default() -> Self {
        Root(PathBuf::from("/"))
    }
}

impl Root {
    /// A recording in this folder.
    #[must_use]
    pub fn recorded(folder: impl Into<PathBuf>) -> Self {
        Root(folder.into())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names in a folder, in order; none where it cannot be read.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether counters of the processor, which are in no file, are those of this root.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.0 == Path::new("/")
    }
}

/// What the kernel itself refuses, whoever asks; EACCES is that permissions do.
const EPERM: i32 = 1;

/// One file that an observer reads again and again.
#[derive(Debug)]
pub(crate) struct Source {
    observer: &'static str,
    name: String,
    file: Option<Pseudo>,
}

impl Source {
    pub(crate) fn new(observer: &'static str, name: impl Into<String>) -> Self {
        Source { observer, name: name.into(), file: None }
    }

    pub(crate) fn open(&mut self, root: &Root) -> Result<(), Absence> {
        let file = Pseudo::open(&root.path(&self.name)).map_err(|why| self.absence(&why))?;
        self.file = Some(file);
        Ok(())
    }

    pub(crate) fn close(&mut self) {
        self.file = None;
    }

    /// What the file says now, as text; what is not text in it stands as a mark.
    pub(crate) fn read(&mut self) -> Result<String, Absence> {
        let Some(file) = &mut self.file else {
            return Err(Absence::new(self.observer, "it was read before it was started"));
        };
        match file.read() {
            Ok(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            Err(why) => Err(self.absence(&why)),
        }
    }

    fn absence(&self, why: &io::Error) -> Absence {
        let name = &self.name;
        let reason = match why.kind() {
            io::ErrorKind::NotFound => format!("/{name} does not exist"),
            io::ErrorKind::PermissionDenied if why.raw_os_error() == Some(EPERM) => {
                format!("/{name} cannot be read by any user")
            }
            io::ErrorKind::PermissionDenied => format!("/{name} may not be read; run as root"),
            _ => format!("reading /{name}: {why}"),
        };
        Absence::new(self.observer, reason)
    }

    /// That the file has nothing in it that we know.
    pub(crate) fn unreadable(&self) -> Absence {
        Absence::new(self.observer, format!("/{} has nothing that is known to us", self.name))
    }
}

/// The row of that key in the table.
///
/// # Panics
/// When there is none; a test starts every observer, and each looks up its rows when it is made.
pub(crate) fn row(key: &str) -> &'static Quantity {
    quantity::find(key).unwrap_or_else(|| panic!("no quantity '{key}' in the table"))
}

/// The numbers of a line, up to the first word that is none.
pub(crate) fn numbers<'t>(words: impl Iterator<Item = &'t str>) -> Vec<u64> {
    words.map_while(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_the_first_word() {
        let of = |line: &'static str| numbers(line.split_whitespace());
        assert_eq!(of("1 2 x 3"), [1, 2]);
        assert_eq!(of("18446744073709551615 18446744073709551616"), [u64::MAX]);
        assert!(of("-1").is_empty());
    }

    #[test]
    fn a_file_that_is_not_there_says_its_name() {
        let mut source = Source::new("cpu", "proc/no-such-file");
        let absence = source.open(&Root::default()).expect_err("not there");
        assert_eq!(absence.to_string(), "cpu is absent: /proc/no-such-file does not exist");
        assert!(source.read().is_err());
    }

    #[test]
    fn what_the_kernel_keeps_to_itself_is_told_from_what_root_may_read() {
        let source = Source::new("kvm", "sys/kernel/debug/kvm/exits");
        let of = |number| source.absence(&io::Error::from_raw_os_error(number)).reason;
        assert_eq!(of(EPERM), "/sys/kernel/debug/kvm/exits cannot be read by any user");
        assert_eq!(of(13), "/sys/kernel/debug/kvm/exits may not be read; run as root");
    }
}
