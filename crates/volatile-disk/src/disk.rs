//! The file system: names of the stored folder, and files with what is pending of them.

use crate::operation::{Operation, set_mode};
use crate::pending::Pending;
use crate::replication::{Kept, Replication};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Everything goes through one kernel, so that what it remembers stays true.
const REMEMBERED: Duration = Duration::from_secs(3600);
const GENERATION: Generation = Generation(0);
const BLOCK: u32 = 4096;
/// Blocks that the disk says to have: 64 GiB.
const BLOCKS: u64 = 1 << 24;
const NAME_LENGTH: u32 = 255;

/// A file, a folder or a link.
#[derive(Default)]
struct Node {
    /// Where it is stored; several of a file with several names, none once the last is removed.
    names: Vec<PathBuf>,
    /// Handles of a file that is open.
    handles: u64,
    /// Open while it has handles or something is pending.
    file: Option<File>,
    pending: Option<Pending>,
}

impl Node {
    fn path(&self) -> io::Result<&Path> {
        self.names.last().map(PathBuf::as_path).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }
}

#[derive(Default)]
struct State {
    nodes: HashMap<u64, Node>,
    /// Nodes by number of the stored file.
    by_stored: HashMap<u64, u64>,
    next_node: u64,
    /// Entries of the folders that are being read.
    folders: HashMap<u64, Vec<(u64, FileType, OsString)>>,
    next_folder: u64,
    /// What keeps what is synced; without it that is stored where a loss of power is simulated.
    replication: Option<Arc<Replication>>,
}

/// The file system over a stored folder.
pub(crate) struct Disk {
    state: Mutex<State>,
    replication: Option<Arc<Replication>>,
}

impl Disk {
    pub(crate) fn of(stored: &Path, replication: Option<Arc<Replication>>) -> io::Result<Disk> {
        let mut state = State { next_node: INodeNo::ROOT.0, replication: replication.clone(), ..State::default() };
        let found = fs::metadata(stored)?;
        state.node_of(stored.to_owned(), &found);
        Ok(Disk { state: Mutex::new(state), replication })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores what is pending of a file and answers once that is kept.
    fn sync(&self, number: INodeNo, answer: impl FnOnce(io::Result<()>) + Send + 'static) {
        let begun = Instant::now();
        let synced = self.state().sync(number);
        match (synced, &self.replication) {
            (Ok(Some(kept)), Some(replication)) => replication.once_kept(kept, begun, answer),
            (synced, _) => answer(synced.map(drop)),
        }
    }
}

impl State {
    /// The node of a stored file at this path; a new one, if it has none.
    fn node_of(&mut self, path: PathBuf, found: &Metadata) -> u64 {
        let next = &mut self.next_node;
        let number = *self.by_stored.entry(found.ino()).or_insert_with(|| {
            *next += 1;
            *next - 1
        });
        let names = &mut self.nodes.entry(number).or_default().names;
        if !names.contains(&path) {
            names.push(path);
        }
        number
    }

    fn node(&mut self, number: INodeNo) -> io::Result<&mut Node> {
        self.nodes.get_mut(&number.0).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }

    fn child(&mut self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.node(parent)?.path()?.join(name))
    }

    fn attributes(&mut self, number: u64) -> io::Result<FileAttr> {
        let node = self.node(INodeNo(number))?;
        let found = match &node.file {
            Some(file) => file.metadata()?,
            None => fs::symlink_metadata(node.path()?)?,
        };
        let size = node.pending.as_ref().map_or(found.len(), Pending::size);
        let time = |seconds: io::Result<SystemTime>| seconds.unwrap_or(SystemTime::UNIX_EPOCH);
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: time(found.accessed()),
            mtime: time(found.modified()),
            ctime: time(found.modified()),
            crtime: SystemTime::UNIX_EPOCH,
            kind: FileType::from_std(found.file_type()).unwrap_or(FileType::RegularFile),
            perm: u16::try_from(found.mode() & 0o7777).unwrap_or(0),
            nlink: u32::try_from(found.nlink()).unwrap_or(1),
            uid: found.uid(),
            gid: found.gid(),
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        })
    }

    fn entry(&mut self, path: PathBuf) -> io::Result<FileAttr> {
        let found = fs::symlink_metadata(&path)?;
        let number = self.node_of(path, &found);
        self.attributes(number)
    }

    /// The file of a node with what is pending of it.
    fn opened(&mut self, number: INodeNo) -> io::Result<(&File, &mut Pending)> {
        let node = self.node(number)?;
        let file = match node.file.take() {
            Some(file) => file,
            None => OpenOptions::new().read(true).write(true).open(node.path()?)?,
        };
        let length = file.metadata()?.len();
        let file: &File = node.file.insert(file);
        Ok((file, node.pending.get_or_insert_with(|| Pending::of(length))))
    }

    /// Stores what is pending of a file; what has to be waited for until it is kept, where the disk keeps anything.
    fn sync(&mut self, number: INodeNo) -> io::Result<Option<Kept>> {
        let replication = self.replication.clone();
        let path = self.node(number)?.path().ok().map(Path::to_owned);
        let (file, pending) = self.opened(number)?;
        let changes = pending.sync(file)?;
        let kept = replication.map(|replication| replication.store(file, path.as_deref(), changes)).transpose()?;
        self.close_if_idle(number);
        Ok(kept)
    }

    /// Sends a change of names to the second site; its paths are made relative by what is passed.
    fn send(&self, operation: impl FnOnce(&dyn Fn(&Path) -> PathBuf) -> Operation) {
        if let Some(replication) = &self.replication {
            replication.send(operation);
        }
    }

    /// Closes the file of a node without handles, once everything is stored.
    fn close_if_idle(&mut self, number: INodeNo) {
        let Some(node) = self.nodes.get_mut(&number.0) else { return };
        if node.handles > 0 {
            return;
        }
        if node.names.is_empty() {
            self.nodes.remove(&number.0);
        } else if node.pending.as_ref().is_some_and(Pending::is_stored) {
            (node.file, node.pending) = (None, None);
        }
    }

    /// The stored file at `path` has one name less; what is pending of it goes with the last.
    fn unname(&mut self, path: &Path) -> io::Result<()> {
        let found = fs::symlink_metadata(path)?;
        let is_last = found.is_dir() || found.nlink() == 1;
        let known =
            if is_last { self.by_stored.remove(&found.ino()) } else { self.by_stored.get(&found.ino()).copied() };
        let Some(number) = known else { return Ok(()) };
        if let Some(node) = self.nodes.get_mut(&number) {
            node.names.retain(|name| !is_last && name != path);
        }
        // Handles that are open keep the stored file, whose last name is removed.
        if is_last {
            self.close_if_idle(INodeNo(number));
        }
        Ok(())
    }

    fn create(&mut self, path: PathBuf, mode: u32, request: &Request) -> io::Result<FileAttr> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(mode).open(&path)?;
        file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
        let owner = (request.uid(), request.gid());
        std::os::unix::fs::fchown(&file, Some(owner.0), Some(owner.1))?;
        self.send(|below| Operation::File { path: below(&path), mode, owner });
        let number = self.node_of(path, &file.metadata()?);
        let node = self.node(INodeNo(number))?;
        (node.file, node.handles) = (Some(file), node.handles + 1);
        self.attributes(number)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let same = |a: &Metadata, b: &Metadata| a.ino() == b.ino();
        if let (Ok(old), Ok(moved)) = (fs::symlink_metadata(to), fs::symlink_metadata(from))
            && !same(&old, &moved)
        {
            self.unname(to)?;
        }
        fs::rename(from, to)?;
        self.send(|below| Operation::Rename { from: below(from), to: below(to) });
        for name in self.nodes.values_mut().flat_map(|node| &mut node.names) {
            if let Ok(below) = name.strip_prefix(from) {
                *name = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
            }
        }
        Ok(())
    }

    fn list(&mut self, number: INodeNo) -> io::Result<u64> {
        let path = self.node(number)?.path()?.to_owned();
        let mut entries = vec![
            (number.0, FileType::Directory, OsString::from(".")),
            (number.0, FileType::Directory, OsString::from("..")),
        ];
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let found = entry.metadata()?;
            let kind = FileType::from_std(found.file_type()).unwrap_or(FileType::RegularFile);
            entries.push((self.node_of(entry.path(), &found), kind, entry.file_name()));
        }
        self.next_folder += 1;
        self.folders.insert(self.next_folder, entries);
        Ok(self.next_folder)
    }

    fn change(&mut self, number: INodeNo, change: &Change) -> io::Result<FileAttr> {
        let path = self.node(number)?.names.last().cloned().unwrap_or_default();
        if change.uid.is_some() || change.gid.is_some() {
            match &self.node(number)?.file {
                Some(file) => std::os::unix::fs::fchown(file, change.uid, change.gid)?,
                None => std::os::unix::fs::lchown(&path, change.uid, change.gid)?,
            }
        }
        if let Some(mode) = change.mode {
            match &self.node(number)?.file {
                Some(file) => file.set_permissions(Permissions::from_mode(mode & 0o7777))?,
                None => set_mode(&path, mode)?,
            }
        }
        let Change { mode, uid, gid, size } = *change;
        if !path.as_os_str().is_empty() && (mode.is_some() || uid.is_some() || gid.is_some()) {
            self.send(|below| Operation::Attributes { path: below(&path), mode, uid, gid });
        }
        if let Some(size) = size {
            self.opened(number)?.1.resize(size);
        }
        self.attributes(number.0)
    }
}

/// What is to be changed of a file's attributes.
struct Change {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
}

/// Answers with what came of a request, or its error.
macro_rules! answer {
    ($reply:ident, $outcome:expr, $value:pat => $ok:expr) => {
        match $outcome {
            Ok($value) => $ok,
            Err(why) => $reply.error(Errno::from(why)),
        }
    };
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.state();
        let found = state.child(parent, name).and_then(|path| state.entry(path));
        answer!(reply, found, attr => reply.entry(&REMEMBERED, &attr, GENERATION));
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.state().attributes(number.0), attr => reply.attr(&REMEMBERED, &attr));
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, uid, gid, size };
        answer!(reply, self.state().change(number, &change), attr => reply.attr(&REMEMBERED, &attr));
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let target = self.state().node(number).and_then(|node| fs::read_link(node.path()?));
        answer!(reply, target, target => reply.data(target.as_os_str().as_bytes()));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let mut state = self.state();
        let made = state.child(parent, name).and_then(|path| {
            DirBuilder::new().mode(mode).create(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
            let owner = (request.uid(), request.gid());
            std::os::unix::fs::chown(&path, Some(owner.0), Some(owner.1))?;
            state.send(|below| Operation::Folder { path: below(&path), mode, owner });
            state.entry(path)
        });
        answer!(reply, made, attr => reply.entry(&REMEMBERED, &attr, GENERATION));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        let removed = state.child(parent, name).and_then(|path| {
            state.unname(&path)?;
            fs::remove_file(&path)?;
            state.send(|below| Operation::RemoveFile { path: below(&path) });
            Ok(())
        });
        answer!(reply, removed, () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        let removed = state.child(parent, name).and_then(|path| {
            let found = fs::symlink_metadata(&path)?;
            fs::remove_dir(&path)?;
            state.send(|below| Operation::RemoveFolder { path: below(&path) });
            if let Some(number) = state.by_stored.remove(&found.ino()) {
                state.nodes.remove(&number);
            }
            Ok(())
        });
        answer!(reply, removed, () => reply.ok());
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let mut state = self.state();
        let made = state.child(parent, name).and_then(|path| {
            std::os::unix::fs::symlink(target, &path)?;
            state.send(|below| Operation::Symlink { path: below(&path), target: target.to_owned() });
            state.entry(path)
        });
        answer!(reply, made, attr => reply.entry(&REMEMBERED, &attr, GENERATION));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let mut state = self.state();
        let renamed = state.child(parent, name).and_then(|from| {
            let to = state.child(to_parent, to_name)?;
            state.rename(&from, &to)
        });
        answer!(reply, renamed, () => reply.ok());
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.state();
        let linked = state.child(parent, name).and_then(|path| {
            let from = state.node(number)?.path()?.to_owned();
            fs::hard_link(&from, &path)?;
            state.send(|below| Operation::Link { from: below(&from), to: below(&path) });
            state.entry(path)
        });
        answer!(reply, linked, attr => reply.entry(&REMEMBERED, &attr, GENERATION));
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut state = self.state();
        let opened = state.opened(number).map(drop).and_then(|()| state.node(number)).map(|node| node.handles += 1);
        answer!(reply, opened, () => reply.opened(FileHandle(number.0), FopenFlags::FOPEN_KEEP_CACHE));
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        let mut state = self.state();
        let made = state.child(parent, name).and_then(|path| state.create(path, mode, request));
        answer!(reply, made, attr => {
            let handle = FileHandle(attr.ino.0);
            reply.created(&REMEMBERED, &attr, GENERATION, handle, FopenFlags::FOPEN_KEEP_CACHE);
        });
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (begun, length) = (Instant::now(), usize::try_from(size).unwrap_or(usize::MAX));
        let mut state = self.state();
        let read = state.opened(number).and_then(|(file, pending)| pending.read(file, offset, length));
        if let Some(replication) = &self.replication {
            replication.meter.read(begun.elapsed());
        }
        answer!(reply, read, bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let written = self.state().opened(number).and_then(|(file, pending)| pending.write(file, offset, data));
        // Where a disk keeps anything, a write past the page cache is on it once it is answered. After one of a file that was opened with
        // O_DSYNC or O_SYNC the kernel asks for a sync by itself: waiting here too would be a second round trip.
        let at_once = match self.replication {
            None => flags.0 & libc::O_DSYNC != 0,
            Some(_) => flags.0 & (libc::O_DIRECT | libc::O_DSYNC) == libc::O_DIRECT,
        };
        match written {
            Err(why) => reply.error(Errno::from(why)),
            Ok(()) if !at_once => reply.written(length),
            Ok(()) => self.sync(number, move |synced| answer!(reply, synced, () => reply.written(length))),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let mut state = self.state();
        if let Ok(node) = state.node(number) {
            node.handles = node.handles.saturating_sub(1);
        }
        state.close_if_idle(number);
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(number, move |synced| answer!(reply, synced, () => reply.ok()));
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.state().list(number), handle => reply.opened(FileHandle(handle), FopenFlags::empty()));
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let state = self.state();
        let entries = state.folders.get(&handle.0).map(Vec::as_slice).unwrap_or_default();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, (number, kind, name)) in entries.iter().enumerate().skip(from) {
            if reply.add(INodeNo(*number), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.state().folders.remove(&handle.0);
        reply.ok();
    }

    /// Names are stored at once, here; at the second site once that has answered.
    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let Some(replication) = &self.replication else { return reply.ok() };
        let state = self.state();
        let (begun, barrier) = (Instant::now(), replication.barrier());
        drop(state);
        replication.once_kept(barrier, begun, move |kept| answer!(reply, kept, () => reply.ok()));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS / 2, BLOCKS / 2, BLOCKS, BLOCKS / 2, BLOCK, NAME_LENGTH, BLOCK);
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let grown = self.state().opened(number).map(|(_, pending)| pending.resize(pending.size().max(offset + length)));
        answer!(reply, grown, () => reply.ok());
    }
}
