//! Machines that are not at hand: their files of `/proc` and `/sys`, as a folder or in one text.
//!
//! A text holds the files one after another: a line `== PATH`, then the file's lines; what is before the first is a note. Paths are relative to the root. Of files
//! with equal text one is enough: a PATH may have one list in braces, such as `sys/devices/system/cpu/cpu{0-3,8}/online`.

use crate::private_folder::PrivateFolder;
use rustix::fs::{Access, Mode, OFlags};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// What starts the line of a file's path.
const FILE: &str = "== ";
/// Bytes of one text. Those of this project's own machines are below 100 KiB.
const MOST_BYTES: u64 = 64 << 20;
/// Files that one text may stand for. A machine of 512 CPUs has 20,000.
const MOST_FILES: usize = 200_000;

/// How names of folders with the files of a text begin, and where in them these are.
const PREFIX: &str = "baremark-machine-";
const FILES: &str = "files";

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
            let folder = unpacked(&text(path)?)?;
            (folder.path().join(FILES), Some(folder))
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

/// The text of a regular file. A pipe is not waited for, and of a device nothing is read.
fn text(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(odd(format!("{} is neither a file nor a folder", path.display())));
    }
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(odd(format!("{} has more than {MOST_BYTES} bytes", path.display()))),
        false => Ok(text),
    }
}

/// A private folder with the files of a text in [`FILES`]: in memory where that can be, since 10,000 files take seconds on a disk. Those of
/// killed processes are removed first.
fn unpacked(text: &str) -> io::Result<PrivateFolder> {
    let (in_memory, temporary) = (Path::new("/dev/shm"), std::env::temp_dir());
    for place in [in_memory, &temporary] {
        drop(PrivateFolder::orphans(place, PREFIX));
    }
    let at = |place: &Path| -> io::Result<PrivateFolder> {
        let folder = PrivateFolder::create(place, PREFIX)?;
        unpack(text, &folder.path().join(FILES))?;
        Ok(folder)
    };
    let is_memory = rustix::fs::statfs(in_memory).is_ok_and(|of| of.f_type == libc::TMPFS_MAGIC);
    if is_memory && rustix::fs::access(in_memory, Access::WRITE_OK).is_ok() {
        // That of a container has 64 MiB, of which each file takes a page at least.
        match at(in_memory) {
            Err(why) if why.kind() != io::ErrorKind::InvalidData => {}
            done => return done,
        }
    }
    at(&temporary)
}

/// Writes the files of a recorded text below `root`.
///
/// # Errors
/// `InvalidData` for a text of another form; what making the files gave.
pub fn unpack(text: &str, root: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for (names, content) in files_of(text)? {
        for name in expanded(names, MOST_FILES - files.len())? {
            files.push((below(root, &name)?, content));
        }
    }
    // Nothing is made of a text of which a part is wrong.
    let mut made = HashSet::new();
    for (path, content) in files {
        let folder = path.parent().unwrap_or(root);
        if !made.contains(folder) {
            fs::create_dir_all(folder)?;
            made.insert(folder.to_owned());
        }
        fs::write(path, content)?;
    }
    Ok(())
}

/// Each path, not yet expanded, with its text.
fn files_of(text: &str) -> io::Result<Vec<(&str, &str)>> {
    // What is before the first path is a note.
    let files = match text.strip_prefix(FILE) {
        Some(first) => first,
        None => text.split_once("\n== ").map_or("", |(_, files)| files),
    };
    if files.is_empty() {
        return Err(odd(format!("a recorded machine has a line \"{FILE}PATH\" before each file")));
    }
    Ok(files.split("\n== ").map(|part| part.split_once('\n').unwrap_or((part, ""))).collect())
}

/// The paths that `names` stands for, at most `most`: one, or as many as its list in braces has numbers.
fn expanded(names: &str, most: usize) -> io::Result<Vec<String>> {
    let too_many = || odd(format!("more than {MOST_FILES} files"));
    let Some((before, rest)) = names.split_once('{') else {
        return if most > 0 { Ok(vec![names.to_owned()]) } else { Err(too_many()) };
    };
    let wrong = || odd(format!("{names}: a list is numbers and ranges, such as {{0-3,8}}"));
    let (list, after) = rest.split_once('}').ok_or_else(wrong)?;
    let mut paths = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = first.parse().ok().zip(last.parse().ok()).ok_or_else(wrong)?;
        let count = last.checked_sub(first).ok_or_else(wrong)?;
        if count >= most - paths.len() {
            return Err(too_many());
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
    fn the_files_of_a_text_go_with_their_folder() {
        let folder = unpacked("== proc/a\n1\n== proc/b\n2\n").expect("a record");
        let root = folder.path().join(FILES);
        assert_eq!(["proc/a", "proc/b"].map(|name| fs::read_to_string(root.join(name)).expect("a file")), ["1", "2\n"]);
        drop(folder);
        assert!(!root.exists());
        assert!(unpacked("no record").is_err());
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
            "== a{0-18446744073709551615}\n1\n",
            "== a{0-150000,0-150000}\n1\n",
            "== a{0-199999}\n1\n== b\n1\n",
        ] {
            let why = unpack(text, &root).expect_err(text);
            assert_eq!(why.kind(), io::ErrorKind::InvalidData, "{text}: {why}");
        }
        assert!(!dir.path().join("x").exists() && !root.exists());
    }

    #[test]
    fn what_is_no_file_is_neither_waited_for_nor_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).expect("made");
        let large = dir.path().join("large");
        File::create(&large).and_then(|file| file.set_len(MOST_BYTES + 1)).expect("a file with a hole");
        for path in [&pipe, Path::new("/dev/zero"), &large] {
            let why = text(path).expect_err("no text of a machine");
            assert_eq!(why.kind(), io::ErrorKind::InvalidData, "{}: {why}", path.display());
        }
    }
}
