//! Files that a user or a scenario names, read up to a limit.
//!
//! Only regular files are read: a device may go on for ever, and opening a pipe waits for somebody who writes to it.

use std::fs::{File, OpenOptions, metadata};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be opened or read.
    #[error("cannot read {path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A device, a pipe, a socket or a folder.
    #[error("not a regular file: {0}; name a file on disk")]
    NotRegular(PathBuf),
    /// Longer than what is read.
    #[error("{path} is longer than {most} MiB; make it shorter")]
    TooLong {
        /// Which.
        path: PathBuf,
        /// The limit, in MiB.
        most: u64,
    },
}

/// The bytes of a regular file of at most `most_mib` MiB. Never reads more than that, and never waits for a pipe.
///
/// # Errors
/// When it is not a regular file, is longer, or cannot be read.
pub fn read(path: &Path, most_mib: u64) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::Io { path: path.to_owned(), source };
    // A device is not even opened; between this and the next look somebody may have put one there.
    if !metadata(path).map_err(failed)?.is_file() {
        return Err(FileError::NotRegular(path.to_owned()));
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(FileError::NotRegular(path.to_owned()));
    }
    let most = most_mib << 20;
    let bytes = up_to(&file, most).map_err(failed)?;
    match bytes.len() as u64 > most {
        true => Err(FileError::TooLong { path: path.to_owned(), most: most_mib }),
        false => Ok(bytes),
    }
}

/// At most one byte more than `most`.
fn up_to(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;
    use std::fs;
    use std::process::Command;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, vec![b'x'; 1 << 20]).expect("room");
        assert_eq!(read(&path, 1).map(|bytes| bytes.len()).ok(), Some(1 << 20));
        fs::write(&path, vec![b'x'; (1 << 20) + 1]).expect("room");
        let why = read(&path, 1).expect_err("too long").to_string();
        assert!(why.ends_with("file is longer than 1 MiB; make it shorter"), "{why}");
        let why = read(&folder.path().join("none"), 1).expect_err("not there");
        assert!(why.source().is_some_and(|why| why.to_string().contains("No such file")), "{why}");
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo of coreutils").success());
        for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
            let why = read(path, 1).expect_err("no file").to_string();
            assert_eq!(why, format!("not a regular file: {}; name a file on disk", path.display()));
        }
    }
}
