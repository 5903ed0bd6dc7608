//! Loaded data that is kept for reuse: a folder of a stopped database, with the length and checksum of every file.
//!
//! Each run works on a copy, which is checked against that list while it is made. Data that is not as it was loaded is
//! refused and loaded anew, and so is data of another schema or generator: the list has a digest of what made it.
//!
//! The folder is the user's own ([`Directory::own`]): no one else can put data there. What the list names is opened below it,
//! by no symbolic link, and the superuser hands a copy over to a server's user once it is complete.

use baremark_sys::private_folder::directory::{self, Directory, Kind};
use baremark_sys::registry::random_secret;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The list's format; data of another is loaded anew.
const FORMAT: u32 = 2;
/// How often a waiting run looks again.
const GLANCE: Duration = Duration::from_millis(50);
const LIST: &str = "list.json";
const DATA: &str = "data";
const SECRET: &str = "secret";
const LOCK: &str = "lock";

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
    /// A digest of what made the data.
    made_by: String,
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

/// A digest of the texts, or of their fingerprints, that decide what data is made: 128 bits in hexadecimal.
#[must_use]
pub fn digest<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut sum = Sha256::new();
    for text in texts {
        sum.update((text.len() as u64).to_le_bytes());
        sum.update(text);
    }
    sum.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A place for loaded data.
#[derive(Debug)]
pub struct Kept {
    folder: Directory,
    /// What made the data has this digest; absent, any.
    made_by: Option<String>,
}

/// A place that nobody else reads or writes until this is dropped, however this process ends.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "locked while it lives")] File);

impl Kept {
    /// The place `name` below `root`, for data of any schema and generator.
    ///
    /// # Errors
    /// A root that others control, with the remedy; when the folder cannot be made.
    pub fn open(root: &Path, name: &str) -> Result<Kept, KeptError> {
        let folder = Directory::own(root).and_then(|root| root.make_folder(Path::new(name)));
        Ok(Kept { folder: folder.map_err(at(&root.join(name)))?, made_by: None })
    }

    /// For data whose schema and generator have this digest: other data counts as absent.
    #[must_use]
    pub fn made_by(self, digest: String) -> Kept {
        Kept { made_by: Some(digest), ..self }
    }

    /// Whether there is data of this digest in the place `name` below `root`, which is not made.
    #[must_use]
    pub fn is_at(root: &Path, name: &str, digest: &str) -> bool {
        let folder = Directory::open_own(root).and_then(|root| root.folder(Path::new(name)));
        folder.is_ok_and(|folder| Kept { folder, made_by: Some(digest.to_owned()) }.is_there())
    }

    /// The folder of the place: for what else is kept with the data.
    #[must_use]
    pub fn folder(&self) -> &Directory {
        &self.folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Holds the place, so that two runs do not load the same data at once; waits while another has it.
    ///
    /// # Errors
    /// [`KeptError::Interrupted`], or when it cannot be locked.
    pub fn hold(&self, interrupt: &AtomicBool) -> Result<Held, KeptError> {
        let file = self.lock_file()?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Held(file)),
                Err(TryLockError::Error(why)) => return Err(at(&self.path(LOCK))(why)),
                Err(TryLockError::WouldBlock) if interrupt.load(Ordering::Acquire) => {
                    return Err(KeptError::Interrupted);
                }
                Err(TryLockError::WouldBlock) => thread::sleep(GLANCE),
            }
        }
    }

    fn lock_file(&self) -> Result<File, KeptError> {
        self.folder.open_or_create(Path::new(LOCK)).map_err(at(&self.path(LOCK)))
    }

    /// The password with which the data's database is entered, made with the first use.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn secret(&self) -> Result<String, KeptError> {
        let path = self.path(SECRET);
        match self.folder.read_to_string(Path::new(SECRET)) {
            Ok(secret) if !secret.is_empty() => return Ok(secret),
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(at(&path)(why)),
            _ => {}
        }
        let secret = random_secret().map_err(at(Path::new("/dev/urandom")))?;
        self.folder.replace(Path::new(SECRET), secret.as_bytes(), None).map_err(at(&path))?;
        Ok(secret)
    }

    /// Whether there is data; whether it is sound is seen when it is taken.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.list().is_ok()
    }

    fn list(&self) -> Result<List, KeptError> {
        let text = self.folder.read_to_string(Path::new(LIST)).unwrap_or_default();
        let fits =
            |list: &List| list.format == FORMAT && self.made_by.as_ref().is_none_or(|made_by| *made_by == list.made_by);
        let list = serde_json::from_str::<List>(&text).ok().filter(fits);
        list.ok_or_else(|| KeptError::Absent(self.folder.path().to_owned()))
    }

    /// Keeps the data of a stopped database in place of what was kept.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn put(&self, data: &Path) -> Result<(), KeptError> {
        let before = || self.list().map(|list| list.made_by).unwrap_or_default();
        let made_by = self.made_by.clone().unwrap_or_else(before);
        self.remove()?;
        let into = self.folder.make_folder(Path::new(DATA)).map_err(at(&self.path(DATA)))?;
        let source = Directory::of_others(data).map_err(at(data))?;
        let mut list = List { format: FORMAT, made_by, folders: Vec::new(), files: Vec::new() };
        collect(&source, Path::new(""), &mut list)?;
        for folder in &list.folders {
            into.make_folder(folder).map_err(at(&into.path().join(folder)))?;
        }
        for file in &mut list.files {
            let from = source.read(&file.path).map_err(at(&data.join(&file.path)))?;
            (file.bytes, file.crc32) = copy(from, &into, &file.path, None)?;
        }
        // Written last: data that was cut short has no list.
        let text = serde_json::to_string(&list).map_err(|why| at(&self.path(LIST))(why.into()))?;
        self.folder.replace(Path::new(LIST), text.as_bytes(), None).map_err(at(&self.path(LIST)))
    }

    /// Removes the data.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self) -> Result<(), KeptError> {
        [LIST, DATA].iter().try_for_each(|name| self.folder.remove(OsStr::new(name)).map_err(at(&self.path(name))))
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
        // As long as it is copied: whoever replaces or removes the data holds the place.
        let shared = self.lock_file()?;
        shared.lock_shared().map_err(at(&self.path(LOCK)))?;
        let list = self.list()?;
        match fs::remove_dir_all(into) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(at(into)(why)),
            _ => {}
        }
        let damaged = |path: &Path| KeptError::Damaged(self.path(DATA).join(path));
        let data = self.folder.folder(Path::new(DATA)).map_err(|why| unusable(why, damaged(Path::new("")), into))?;
        let target = Directory::make_new(into).map_err(at(into))?;
        let mut folders = Vec::new();
        for path in &list.folders {
            folders.push(target.make_folder(path).map_err(|why| unusable(why, damaged(path), &into.join(path)))?);
        }
        for file in &list.files {
            let from = data.read(&file.path).map_err(|why| unusable(why, damaged(&file.path), &file.path))?;
            if copy(from, &target, &file.path, owner)? != (file.bytes, file.crc32) {
                return Err(damaged(&file.path));
            }
        }
        // The outermost last: until then no one else gets in, whoever the rest belongs to.
        let mut owned = folders.iter().rev().chain([&target]);
        owner.map_or(Ok(()), |owner| owned.try_for_each(|folder| folder.give_to(owner))).map_err(at(into))
    }
}

/// A path of the list that leads nowhere, elsewhere, or to something else than was kept: the data is damaged. Other errors are the system's.
fn unusable(why: io::Error, damaged: KeptError, path: &Path) -> KeptError {
    let of_list = [
        io::ErrorKind::NotFound,
        io::ErrorKind::NotADirectory,
        io::ErrorKind::InvalidInput,
        io::ErrorKind::InvalidData,
        io::ErrorKind::AlreadyExists,
        io::ErrorKind::PermissionDenied,
    ];
    if of_list.contains(&why.kind()) { damaged } else { at(path)(why) }
}

/// Files and folders of a stopped server's data; what is neither, such as its socket, is left out.
fn collect(source: &Directory, below: &Path, list: &mut List) -> Result<(), KeptError> {
    for (name, kind) in source.entries(below).map_err(at(&source.path().join(below)))? {
        let path = below.join(name);
        match kind {
            Kind::Folder => {
                list.folders.push(path.clone());
                collect(source, &path, list)?;
            }
            Kind::File => list.files.push(Entry { path, bytes: 0, crc32: 0 }),
            Kind::Other => {}
        }
    }
    Ok(())
}

/// Copies a file, syncs the copy so that nothing is written back later, and returns its length and checksum.
fn copy(mut source: File, into: &Directory, below: &Path, owner: Option<(u32, u32)>) -> Result<(u64, u32), KeptError> {
    let to = into.path().join(below);
    let failed = at(&to);
    let mut target = into.create_new(below).map_err(&failed)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut bytes, mut sum) = (0, crc32fast::Hasher::new());
    loop {
        let read = source.read(&mut buffer).map_err(&failed)?;
        if read == 0 {
            break;
        }
        sum.update(&buffer[..read]);
        target.write_all(&buffer[..read]).map_err(&failed)?;
        bytes += read as u64;
    }
    target.sync_data().map_err(&failed)?;
    if let Some(owner) = owner {
        directory::give(&target, owner).map_err(&failed)?;
    }
    Ok((bytes, sum.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

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

    /// The lock was given up before the first file was copied: another run removed the data meanwhile, which was then damaged for this one.
    #[test]
    fn nobody_replaces_data_while_it_is_copied() {
        let root = tempfile::tempdir().expect("a folder");
        let data = root.path().join("in");
        fs::create_dir(&data).expect("a folder");
        // Listed in any order: of each some are copied after others.
        (0..16).for_each(|file| fs::write(data.join(file.to_string()), vec![7; 1 << 20]).expect("a file"));
        let kept = Kept::open(root.path(), "it").expect("a place");
        kept.put(&data).expect("it is kept");
        let copied = |out: &Path| fs::read_dir(out).map_or(0, Iterator::count);
        let out = root.path().join("out");
        loop {
            let begun = thread::scope(|scope| {
                let copying = scope.spawn(|| kept.take(&out, None));
                while copied(&out) == 0 && !copying.is_finished() {
                    thread::yield_now();
                }
                let held = kept.hold(&AtomicBool::new(true)).map(drop);
                // Whether the copy goes on after that.
                let is_part = copied(&out) < 16;
                copying.join().expect("a thread").expect("it is sound");
                is_part.then_some(held)
            });
            if let Some(held) = begun {
                assert!(matches!(held, Err(KeptError::Interrupted)), "{held:?}");
                return;
            }
            // It was copied before anybody looked.
            fs::remove_dir_all(&out).expect("removed");
        }
    }

    #[test]
    fn the_secret_stays_with_the_data() {
        let root = tempfile::tempdir().expect("a folder");
        let secret = Kept::open(root.path(), "it").and_then(|kept| kept.secret()).expect("a secret");
        assert_eq!(secret.len(), 32);
        assert_eq!(Kept::open(root.path(), "it").and_then(|kept| kept.secret()).expect("the same"), secret);
    }

    /// A place with one file, and its folder.
    fn with_a_file(root: &Path) -> (Kept, PathBuf) {
        let data = root.join("in");
        fs::create_dir(&data).expect("a folder");
        fs::write(data.join("file"), "content").expect("a file");
        let kept = Kept::open(root, "it").expect("a place");
        kept.put(&data).expect("it is kept");
        let folder = kept.folder().path().to_owned();
        (kept, folder)
    }

    /// A list with such a path made the superuser write a stranger's bytes to /etc/cron.d.
    #[test]
    fn a_path_of_the_list_that_leads_out_is_refused_and_nothing_is_written_there() {
        let root = tempfile::tempdir().expect("a folder");
        let (kept, folder) = with_a_file(root.path());
        let target = root.path().join("planted");
        let list = fs::read_to_string(folder.join(LIST)).expect("a list");
        let out = root.path().join("out");
        let through = root.path().join("elsewhere");
        fs::create_dir(&through).expect("a folder");
        symlink(&through, folder.join("data/link")).expect("a link");
        fs::copy(folder.join("data/file"), through.join("file")).expect("the same bytes");
        fs::copy(folder.join("data/file"), folder.join("planted")).expect("the same bytes");
        let absolute = target.display().to_string();
        for path in ["../planted", "a/../../planted", &absolute, "link/file", "."] {
            let crafted = list.replace("\"file\"", &serde_json::to_string(path).expect("text"));
            assert_ne!(crafted, list);
            fs::write(folder.join(LIST), crafted).expect("it is ours");
            let taken = kept.take(&out, None);
            assert!(matches!(taken, Err(KeptError::Damaged(_))), "{path}: {taken:?}");
            assert!(!target.exists(), "{path}");
        }
        for crafted in ["../made", "/tmp/../made", "link/made"] {
            let folders = format!("\"folders\":[{}]", serde_json::to_string(crafted).expect("text"));
            fs::write(folder.join(LIST), list.replace("\"folders\":[]", &folders)).expect("it is ours");
            let taken = kept.take(&out, None);
            assert!(matches!(taken, Err(KeptError::Damaged(_))), "{crafted}: {taken:?}");
            assert!(!root.path().join("made").exists() && !through.join("made").exists(), "{crafted}");
        }
        fs::write(folder.join(LIST), list).expect("it is ours");
        fs::remove_file(folder.join("data/file"))
            .and_then(|()| symlink("/etc/hostname", folder.join("data/file")))
            .expect("a link");
        assert!(matches!(kept.take(&out, None), Err(KeptError::Damaged(_))), "a link in place of a file");
    }

    #[test]
    fn a_root_that_others_may_write_is_refused() {
        let root = tempfile::tempdir().expect("a folder");
        drop(with_a_file(root.path()));
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        let why = Kept::open(root.path(), "it").expect_err("anyone could have put it there").to_string();
        assert!(why.contains("others may write") && why.contains("; chmod go-w "), "{why}");
        assert!(!Kept::is_at(root.path(), "it", ""), "nothing is read there");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        fs::set_permissions(root.path().join("it"), fs::Permissions::from_mode(0o750)).expect("it is ours");
        let why = Kept::open(root.path(), "it").expect_err("others may enter").to_string();
        assert!(why.contains("; chmod 700 "), "{why}");
    }

    #[test]
    fn data_of_another_schema_or_generator_is_absent_and_replaced() {
        let root = tempfile::tempdir().expect("a folder");
        let (_, folder) = with_a_file(root.path());
        let [old, new] = [["create table a"], ["create table b"]].map(digest);
        let open = |digest: &str| Kept::open(root.path(), "it").expect("a place").made_by(digest.to_owned());
        let data = root.path().join("in");
        open(&old).put(&data).expect("it is kept");
        assert!(open(&old).is_there() && Kept::is_at(root.path(), "it", &old));
        assert!(!open(&new).is_there() && !Kept::is_at(root.path(), "it", &new));
        assert!(matches!(open(&new).take(&root.path().join("out"), None), Err(KeptError::Absent(_))));
        fs::write(data.join("file"), "anew").expect("it is ours");
        open(&new).put(&data).expect("in its place");
        assert!(!open(&old).is_there() && fs::read_to_string(folder.join("data/file")).expect("a file") == "anew");
        // Whoever asks for none in particular keeps it what it is.
        Kept::open(root.path(), "it").expect("a place").put(&data).expect("it is kept");
        assert!(open(&new).is_there());
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
    }
}
