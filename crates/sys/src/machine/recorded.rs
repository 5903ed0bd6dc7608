//! Machines that are not at hand: their files of `/proc` and `/sys`, as a folder or in one text.
//!
//! A text holds the files one after another: a line `== PATH`, then the file's lines; what is before the first is a note. Paths are relative to the root. Of files
//! with equal text one is enough: a PATH may have one list in braces, such as `sys/devices/system/cpu/cpu{0-3,8}/online`.

use crate::private_folder::PrivateFolder;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// What starts the line of a file's path.
const FILE: &str = "== ";
/// Files that one text may stand for. A machine of 512 CPUs has 20,000.
const MOST_FILES: usize = 200_000;

static ROOT: OnceLock<PathBuf> = OnceLock::new();

/// The root of the files of the machine that is planned for: `/`, or that of a recorded one.
#[must_use]
pub fn root() -> &'static Path {
    ROOT.get().map_or(Path::new("/"), PathBuf::as_path)
}

/// Whether plans are for a recorded machine.
#[must_use]
pub fn is_recorded() -> bool {
    ROOT.get().is_some()
}

/// A recorded machine that this process plans for.
#[derive(Debug)]
pub struct Recorded {
    /// Where the files of a text are; removed with this.
    _unpacked: Option<PrivateFolder>,
}

impl Recorded {
    /// Has this process plan for the machine whose files are in the folder, or the text, `path`.
    ///
    /// # Errors
    /// What reading it gave; `InvalidData` for a text of another form, and `AlreadyExists` where a machine was chosen before.
    pub fn choose(path: &Path) -> io::Result<Recorded> {
        let (root, unpacked) = if path.is_dir() {
            (path.to_owned(), None)
        } else {
            let text = fs::read_to_string(path)?;
            let folder = PrivateFolder::create(&std::env::temp_dir(), "baremark-machine-")?;
            let root = folder.path().join("files");
            unpack(&text, &root)?;
            (root, Some(folder))
        };
        if !root.join("proc").is_dir() {
            return Err(odd(format!("{} has no folder proc", path.display())));
        }
        match ROOT.set(root) {
            Ok(()) => Ok(Recorded { _unpacked: unpacked }),
            Err(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "a machine was chosen before")),
        }
    }
}

/// Writes the files of a recorded text below `root`.
///
/// # Errors
/// `InvalidData` for a text of another form; what making the files gave.
pub fn unpack(text: &str, root: &Path) -> io::Result<()> {
    let mut files = 0;
    for (names, content) in files_of(text)? {
        for name in expanded(names)? {
            files += 1;
            if files > MOST_FILES {
                return Err(odd(format!("more than {MOST_FILES} files")));
            }
            let path = below(root, &name)?;
            fs::create_dir_all(path.parent().unwrap_or(root))?;
            fs::write(path, content)?;
        }
    }
    Ok(())
}

/// Each path, not yet expanded, with its text.
fn files_of(text: &str) -> io::Result<Vec<(&str, &str)>> {
    let mut parts = text.split("\n== ");
    // What is before the first path is a note.
    if let Some(first) = text.strip_prefix(FILE) {
        parts = first.split("\n== ");
    } else {
        parts.next();
    }
    let files: Vec<_> = parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).collect();
    if files.is_empty() {
        return Err(odd(format!("a recorded machine has a line \"{FILE}PATH\" before each file")));
    }
    Ok(files)
}

/// The paths that `names` stands for: one, or as many as its list in braces has numbers.
fn expanded(names: &str) -> io::Result<Vec<String>> {
    let Some((before, rest)) = names.split_once('{') else { return Ok(vec![names.to_owned()]) };
    let wrong = || odd(format!("{names}: a list is numbers and ranges, such as {{0-3,8}}"));
    let (list, after) = rest.split_once('}').ok_or_else(wrong)?;
    let mut paths = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = first.parse().ok().zip(last.parse().ok()).ok_or_else(wrong)?;
        if last < first || last - first >= MOST_FILES {
            return Err(wrong());
        }
        paths.extend((first..=last).map(|number| format!("{before}{number}{after}")));
    }
    Ok(paths)
}

/// The path of a file below `root`, which its name may not leave.
fn below(root: &Path, name: &str) -> io::Result<PathBuf> {
    let path = Path::new(name);
    let is_below = !name.is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)));
    if is_below { Ok(root.join(path)) } else { Err(odd(format!("{name}: a path is relative, without '..'"))) }
}

fn odd(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_numbers_stands_for_a_file_each() {
        let dir = tempfile::tempdir().expect("a directory");
        unpack("== proc/a\n1\n2\n== sys/cpu{0-1,9}/online\n1\n", dir.path()).expect("a record");
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect("a file");
        assert_eq!(read("proc/a"), "1\n2");
        for cpu in [0, 1, 9] {
            assert_eq!(read(&format!("sys/cpu{cpu}/online")).trim(), "1");
        }
        assert_eq!(fs::read_dir(dir.path().join("sys")).expect("a folder").count(), 3);
    }

    #[test]
    fn a_text_that_leaves_its_folder_or_has_another_form_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("root");
        for text in [
            "proc/a\n1\n",
            "== /etc/x\n1\n",
            "== ../x\n1\n",
            "== a/../../x\n1\n",
            "== a{0-}\n1\n",
            "== a{3-1}\n1\n",
            "== a{0-9999999}\n1\n",
        ] {
            let why = unpack(text, &root).expect_err(text);
            assert_eq!(why.kind(), io::ErrorKind::InvalidData, "{text}: {why}");
        }
        assert!(!dir.path().join("x").exists());
    }
}
