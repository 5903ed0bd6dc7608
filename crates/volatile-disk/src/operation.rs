//! What the second site is sent: changes of names at once, contents when they are synced, and how both are written on the wire.
//!
//! All numbers are little-endian; texts and bytes have their length before them. Paths are relative to the stored folder.

use crate::pending::Changes;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// The longest text or run of bytes that is read from the wire: more than the kernel passes to a file system in one sync of ours.
const LONGEST: u64 = 1 << 32;

/// A change of the stored folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An empty file.
    File {
        path: PathBuf,
        mode: u32,
        owner: (u32, u32),
    },
    Folder {
        path: PathBuf,
        mode: u32,
        owner: (u32, u32),
    },
    Symlink {
        path: PathBuf,
        target: PathBuf,
    },
    Link {
        from: PathBuf,
        to: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    RemoveFile {
        path: PathBuf,
    },
    RemoveFolder {
        path: PathBuf,
    },
    Attributes {
        path: PathBuf,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    /// Contents of a file, which are on the disk once this is acknowledged.
    Store {
        path: PathBuf,
        changes: Changes,
    },
    /// Nothing but an acknowledgement of everything before.
    Barrier,
}

impl Operation {
    /// Makes the change below `root`.
    pub(crate) fn apply(&self, root: &Path) -> io::Result<()> {
        let at = |path: &Path| inside(root, path);
        match self {
            Operation::File { path, mode, owner } => {
                let path = at(path)?;
                let file = OpenOptions::new().write(true).create(true).truncate(false).mode(*mode).open(&path)?;
                file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
                std::os::unix::fs::fchown(&file, Some(owner.0), Some(owner.1))
            }
            Operation::Folder { path, mode, owner } => {
                let path = at(path)?;
                DirBuilder::new().mode(*mode).create(&path)?;
                fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
                std::os::unix::fs::chown(&path, Some(owner.0), Some(owner.1))
            }
            Operation::Symlink { path, target } => symlink(target, at(path)?),
            Operation::Link { from, to } => fs::hard_link(at(from)?, at(to)?),
            Operation::Rename { from, to } => fs::rename(at(from)?, at(to)?),
            Operation::RemoveFile { path } => fs::remove_file(at(path)?),
            Operation::RemoveFolder { path } => fs::remove_dir(at(path)?),
            Operation::Attributes { path, mode, uid, gid } => {
                let path = at(path)?;
                if uid.is_some() || gid.is_some() {
                    std::os::unix::fs::lchown(&path, *uid, *gid)?;
                }
                mode.map_or(Ok(()), |mode| set_mode(&path, mode))
            }
            Operation::Store { path, changes } => {
                let file = File::options().write(true).open(at(path)?)?;
                changes.apply(&file)?;
                file.sync_data()
            }
            Operation::Barrier => Ok(()),
        }
    }

    /// Writes it on the wire.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut wire = Encoder(Vec::new());
        match self {
            Operation::File { path, mode, owner } => {
                wire.tag(0).path(path).number(*mode).number(owner.0).number(owner.1)
            }
            Operation::Folder { path, mode, owner } => {
                wire.tag(1).path(path).number(*mode).number(owner.0).number(owner.1)
            }
            Operation::Symlink { path, target } => wire.tag(2).path(path).path(target),
            Operation::Link { from, to } => wire.tag(3).path(from).path(to),
            Operation::Rename { from, to } => wire.tag(4).path(from).path(to),
            Operation::RemoveFile { path } => wire.tag(5).path(path),
            Operation::RemoveFolder { path } => wire.tag(6).path(path),
            Operation::Attributes { path, mode, uid, gid } => {
                wire.tag(7).path(path).maybe(*mode).maybe(*uid).maybe(*gid)
            }
            Operation::Store { path, changes } => {
                wire.tag(8).path(path).number(changes.floor).number(changes.size).number(changes.runs.len() as u64);
                for (offset, bytes) in &changes.runs {
                    wire.number(*offset).bytes(bytes);
                }
                &mut wire
            }
            Operation::Barrier => wire.tag(9),
        };
        wire.0
    }

    /// Reads one from the wire; `None` at its end.
    pub(crate) fn decode(wire: &mut impl Read) -> io::Result<Option<Operation>> {
        let mut tag = [0];
        if wire.read(&mut tag)? == 0 {
            return Ok(None);
        }
        let mut wire = Decoder(wire);
        let operation = match tag[0] {
            0 => Operation::File { path: wire.path()?, mode: wire.short()?, owner: (wire.short()?, wire.short()?) },
            1 => Operation::Folder { path: wire.path()?, mode: wire.short()?, owner: (wire.short()?, wire.short()?) },
            2 => Operation::Symlink { path: wire.path()?, target: wire.path()? },
            3 => Operation::Link { from: wire.path()?, to: wire.path()? },
            4 => Operation::Rename { from: wire.path()?, to: wire.path()? },
            5 => Operation::RemoveFile { path: wire.path()? },
            6 => Operation::RemoveFolder { path: wire.path()? },
            7 => Operation::Attributes {
                path: wire.path()?,
                mode: wire.maybe()?,
                uid: wire.maybe()?,
                gid: wire.maybe()?,
            },
            8 => {
                let (path, floor, size) = (wire.path()?, wire.number()?, wire.number()?);
                let runs =
                    (0..wire.number()?).map(|_| Ok((wire.number()?, wire.bytes()?))).collect::<io::Result<_>>()?;
                Operation::Store { path, changes: Changes { floor, size, runs } }
            }
            9 => Operation::Barrier,
            other => return Err(io::Error::new(io::ErrorKind::InvalidData, format!("unknown operation {other}"))),
        };
        Ok(Some(operation))
    }
}

/// Sets the mode of a file or folder. A link has none of its own, and what it leads to may be anybody's: Linux before 6.6 hands such a request on.
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))
}

/// A path below `root`; one that leads out of it is refused.
fn inside(root: &Path, path: &Path) -> io::Result<PathBuf> {
    if path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(root.join(path));
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("the path {} leads out of the folder", path.display())))
}

struct Encoder(Vec<u8>);

impl Encoder {
    fn tag(&mut self, tag: u8) -> &mut Self {
        self.0.push(tag);
        self
    }

    fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        self.0.extend_from_slice(&number.into().to_le_bytes());
        self
    }

    fn maybe(&mut self, number: Option<u32>) -> &mut Self {
        self.number(number.map_or(u64::MAX, u64::from))
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn path(&mut self, path: &Path) -> &mut Self {
        self.bytes(path.as_os_str().as_bytes())
    }
}

struct Decoder<'r, R>(&'r mut R);

impl<R: Read> Decoder<'_, R> {
    fn number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn short(&mut self) -> io::Result<u32> {
        u32::try_from(self.number()?).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
    }

    fn maybe(&mut self) -> io::Result<Option<u32>> {
        Ok(u32::try_from(self.number()?).ok())
    }

    fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let length = self.number()?;
        if length > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{length} bytes in one operation")));
        }
        let mut bytes = Vec::new();
        if self.0.by_ref().take(length).read_to_end(&mut bytes)? as u64 == length {
            return Ok(bytes);
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn path(&mut self) -> io::Result<PathBuf> {
        Ok(PathBuf::from(OsStr::from_bytes(&self.bytes()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// Of files that this user owns: nobody but the superuser can give one away.
    fn examples(owner: (u32, u32)) -> Vec<Operation> {
        let path = |text: &str| PathBuf::from(text);
        let changes = Changes { floor: 3, size: 9, runs: vec![(3, b"abc".to_vec()), (8, b"z".to_vec())] };
        vec![
            Operation::Folder { path: path("a"), mode: 0o755, owner },
            Operation::File { path: path("a/f"), mode: 0o640, owner },
            Operation::Store { path: path("a/f"), changes },
            Operation::Symlink { path: path("s"), target: path("/elsewhere") },
            Operation::Link { from: path("a/f"), to: path("l") },
            Operation::Rename { from: path("l"), to: path("m") },
            Operation::Attributes { path: path("a/f"), mode: Some(0o600), uid: None, gid: None },
            Operation::RemoveFile { path: path("m") },
            Operation::Barrier,
        ]
    }

    #[test]
    fn operations_are_read_as_they_were_written_and_change_a_folder() {
        let root = tempfile::tempdir().expect("a folder");
        let facts = fs::metadata(root.path()).expect("it is there");
        let examples = examples((facts.uid(), facts.gid()));
        let wire: Vec<u8> = examples.iter().flat_map(Operation::encode).collect();
        let mut rest = wire.as_slice();
        let mut read = Vec::new();
        while let Some(operation) = Operation::decode(&mut rest).expect("it was written by us") {
            operation.apply(root.path()).unwrap_or_else(|why| panic!("{operation:?}: {why}"));
            read.push(operation);
        }
        assert_eq!(read, examples);
        assert_eq!(fs::read(root.path().join("a/f")).expect("a file"), b"\0\0\0abc\0\0z");
        assert!(!root.path().join("m").exists() && root.path().join("s").is_symlink());
        for cut in [1, 10, wire.len() - 20] {
            let mut rest = &wire[..cut];
            let read = std::iter::from_fn(|| Operation::decode(&mut rest).transpose()).last();
            assert!(cut > 20 || read.is_none_or(|read| read.is_err()), "{cut} bytes");
        }
    }

    #[test]
    fn a_path_that_leads_out_of_the_folder_is_refused() {
        let root = tempfile::tempdir().expect("a folder");
        for path in ["../outside", "/tmp/outside", "a/../../outside"] {
            let operation = Operation::File { path: PathBuf::from(path), mode: 0o600, owner: (0, 0) };
            let refused = operation.apply(root.path()).map_err(|why| why.kind());
            assert_eq!(refused, Err(io::ErrorKind::InvalidData), "{path}");
        }
    }

    /// Whoever may make links on the disk chose the mode of any file of the superuser's.
    #[test]
    fn a_link_has_no_mode_and_what_it_leads_to_keeps_its_own() {
        let (root, outside) = (tempfile::tempdir().expect("a folder"), tempfile::NamedTempFile::new().expect("a file"));
        let mode = || fs::metadata(outside.path()).expect("it is there").mode() & 0o7777;
        let (link, before) = (PathBuf::from("link"), mode());
        symlink(outside.path(), root.path().join(&link)).expect("made");
        let operation = Operation::Attributes { path: link, mode: Some(0o666), uid: None, gid: None };
        let why = operation.apply(root.path()).expect_err("a link");
        assert_eq!((why.raw_os_error(), mode()), (Some(libc::EOPNOTSUPP), before));
    }
}
