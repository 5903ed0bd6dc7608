//! Loaded data that is kept for reuse: a folder of a stopped database, with the length and checksum of every file.
//!
//! Each run works on a copy, which is checked against that list while it is made. Data that is not as it was loaded is
//! refused and loaded anew.

use baremark_sys::confine;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The list's format; data of another is loaded anew.
const FORMAT: u32 = 1;
/// How often a waiting run looks again.
const GLANCE: Duration = Duration::from_millis(50);
const LIST: &str = "list.json";
const DATA: &str = "data";
const SECRET: &str = "secret";

/// A file of the data.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    path: PathBuf,
    bytes: u64,
    crc32: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct List {
    format: u32,
    folders: Vec<PathBuf>,
    files: Vec<Entry>,
}

/// Why kept data cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// It is not there, or was cut short.
    #[error("no loaded data in {0}")]
    Absent(PathBuf),
    /// A file is not as it was loaded.
    #[error("{0} is not as it was loaded")]
    Damaged(PathBuf),
    /// The interrupt was raised while another run had the data.
    #[error("interrupted")]
    Interrupted,
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn at(path: &Path) -> impl Fn(io::Error) -> KeptError + '_ {
    move |source| KeptError::Io { path: path.to_owned(), source }
}

/// A place for loaded data.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
}

/// A place that nobody else reads or writes until this is dropped, however this process ends.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "locked while it lives")] File);

impl Kept {
    /// The place `name` below `root`.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn open(root: &Path, name: &str) -> Result<Kept, KeptError> {
        let folder = root.join(name);
        make_private(&folder).map_err(at(&folder))?;
        Ok(Kept { folder })
    }

    /// Whether there is data in the place `name` below `root`, which is not made.
    #[must_use]
    pub fn is_at(root: &Path, name: &str) -> bool {
        Kept { folder: root.join(name) }.is_there()
    }

    /// Holds the place, so that two runs do not load the same data at once; waits while another has it.
    ///
    /// # Errors
    /// [`KeptError::Interrupted`], or when it cannot be locked.
    pub fn hold(&self, interrupt: &AtomicBool) -> Result<Held, KeptError> {
        let (path, file) = self.lock_file()?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Held(file)),
                Err(TryLockError::Error(why)) => return Err(at(&path)(why)),
                Err(TryLockError::WouldBlock) if interrupt.load(Ordering::Acquire) => {
                    return Err(KeptError::Interrupted);
                }
                Err(TryLockError::WouldBlock) => thread::sleep(GLANCE),
            }
        }
    }

    fn lock_file(&self) -> Result<(PathBuf, File), KeptError> {
        let path = self.folder.join("lock");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(at(&path))?;
        Ok((path, file))
    }

    /// The password with which the data's database is entered, made with the first use.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn secret(&self) -> Result<String, KeptError> {
        let path = self.folder.join(SECRET);
        match fs::read_to_string(&path) {
            Ok(secret) if !secret.is_empty() => return Ok(secret),
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(at(&path)(why)),
            _ => {}
        }
        let secret = random().map_err(at(Path::new("/dev/urandom")))?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(secret.as_bytes())).map_err(at(&path))?;
        Ok(secret)
    }

    /// Whether there is data; whether it is sound is seen when it is taken.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.list().is_ok()
    }

    fn list(&self) -> Result<List, KeptError> {
        let text = fs::read_to_string(self.folder.join(LIST)).unwrap_or_default();
        let list = serde_json::from_str::<List>(&text).ok().filter(|list| list.format == FORMAT);
        list.ok_or_else(|| KeptError::Absent(self.folder.clone()))
    }

    /// Keeps the data of a stopped database in place of what was kept.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn put(&self, data: &Path) -> Result<(), KeptError> {
        self.remove()?;
        let into = self.folder.join(DATA);
        let mut list = List { format: FORMAT, folders: Vec::new(), files: Vec::new() };
        make_private(&into).map_err(at(&into))?;
        collect(data, Path::new(""), &mut list)?;
        for folder in &list.folders {
            make_private(&into.join(folder)).map_err(at(folder))?;
        }
        for file in &mut list.files {
            (file.bytes, file.crc32) = copy(&data.join(&file.path), &into.join(&file.path), None)?;
        }
        // Written last: data that was cut short has no list.
        let text = serde_json::to_string(&list).unwrap_or_default();
        let path = self.folder.join(LIST);
        fs::write(&path, text).map_err(at(&path))
    }

    /// Removes the data.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self) -> Result<(), KeptError> {
        for path in [self.folder.join(LIST), self.folder.join(DATA)] {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match removed {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(at(&path)(why)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Bytes of the data.
    ///
    /// # Errors
    /// When there is none.
    pub fn bytes(&self) -> Result<u64, KeptError> {
        Ok(self.list()?.files.iter().map(|file| file.bytes).sum())
    }

    /// Copies the data to `into`, which is made anew and belongs to `owner`, and checks every file.
    ///
    /// # Errors
    /// [`KeptError::Absent`] and [`KeptError::Damaged`] when it has to be loaded anew.
    pub fn take(&self, into: &Path, owner: Option<(u32, u32)>) -> Result<(), KeptError> {
        let (path, lock) = self.lock_file()?;
        lock.lock_shared().map_err(at(&path))?;
        let list = self.list()?;
        if into.exists() {
            fs::remove_dir_all(into).map_err(at(into))?;
        }
        make_private(into).map_err(at(into))?;
        let own = |path: &Path| owner.map_or(Ok(()), |owner| confine::give_to(path, owner)).map_err(at(path));
        own(into)?;
        for folder in list.folders.iter().map(|folder| into.join(folder)) {
            make_private(&folder).map_err(at(&folder))?;
            own(&folder)?;
        }
        for file in &list.files {
            let (from, to) = (self.folder.join(DATA).join(&file.path), into.join(&file.path));
            let found = copy(&from, &to, owner)?;
            if found != (file.bytes, file.crc32) {
                return Err(KeptError::Damaged(from));
            }
        }
        Ok(())
    }
}

fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Files and folders below `root`; what is neither, such as a socket of a stopped server, is left out.
fn collect(root: &Path, below: &Path, list: &mut List) -> Result<(), KeptError> {
    let folder = root.join(below);
    let mut entries: Vec<_> = fs::read_dir(&folder).map_err(at(&folder))?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = below.join(entry.file_name());
        let kind = entry.file_type().map_err(at(&path))?;
        if kind.is_dir() {
            list.folders.push(path.clone());
            collect(root, &path, list)?;
        } else if kind.is_file() {
            list.files.push(Entry { path, bytes: 0, crc32: 0 });
        }
    }
    Ok(())
}

/// Copies a file, syncs the copy so that nothing is written back later, and returns its length and checksum.
fn copy(from: &Path, to: &Path, owner: Option<(u32, u32)>) -> Result<(u64, u32), KeptError> {
    let mut source = match File::open(from) {
        Ok(source) => source,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Err(KeptError::Damaged(from.to_owned())),
        Err(why) => return Err(at(from)(why)),
    };
    let target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let mut target = target.map_err(at(to))?;
    let mut buffer = vec![0; 1 << 20];
    let (mut bytes, mut sum) = (0, crc32fast::Hasher::new());
    loop {
        let read = source.read(&mut buffer).map_err(at(from))?;
        if read == 0 {
            break;
        }
        sum.update(&buffer[..read]);
        target.write_all(&buffer[..read]).map_err(at(to))?;
        bytes += read as u64;
    }
    target.sync_data().map_err(at(to))?;
    if let Some(owner) = owner {
        confine::give_to(to, owner).map_err(at(to))?;
    }
    Ok((bytes, sum.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_taken_as_it_was_put_and_damage_is_seen() {
        let root = tempfile::tempdir().expect("a folder");
        let (data, out) = (root.path().join("in"), root.path().join("out"));
        fs::create_dir_all(data.join("a/empty")).expect("a folder");
        fs::write(data.join("a/file"), "content").expect("a file");
        let kept = Kept::open(root.path(), "it").expect("a place");
        assert!(!kept.is_there());
        kept.put(&data).expect("it is kept");
        assert_eq!(kept.bytes().expect("there is data"), 7);
        for _ in 0..2 {
            kept.take(&out, None).expect("it is sound");
            assert_eq!(fs::read_to_string(out.join("a/file")).expect("a file"), "content");
            assert!(out.join("a/empty").is_dir());
        }
        let file = root.path().join("it/data/a/file");
        fs::write(&file, "c0ntent").expect("it is ours");
        assert!(matches!(kept.take(&out, None), Err(KeptError::Damaged(path)) if path == file));
        fs::remove_file(&file).expect("it is ours");
        assert!(matches!(kept.take(&out, None), Err(KeptError::Damaged(_))));
        kept.put(&data).expect("it is kept anew");
        kept.take(&out, None).expect("it is sound");
    }

    #[test]
    fn one_at_a_time_holds_a_place() {
        let root = tempfile::tempdir().expect("a folder");
        let kept = Kept::open(root.path(), "it").expect("a place");
        let held = kept.hold(&AtomicBool::new(false)).expect("nobody has it");
        assert!(matches!(kept.hold(&AtomicBool::new(true)), Err(KeptError::Interrupted)));
        drop(held);
        kept.hold(&AtomicBool::new(true)).expect("nobody has it");
    }

    #[test]
    fn the_secret_stays_with_the_data() {
        let root = tempfile::tempdir().expect("a folder");
        let secret = Kept::open(root.path(), "it").and_then(|kept| kept.secret()).expect("a secret");
        assert_eq!(secret.len(), 32);
        assert_eq!(Kept::open(root.path(), "it").and_then(|kept| kept.secret()).expect("the same"), secret);
    }
}
