//! Files of `/proc` and `/sys` that are read again and again: opened once, read from the beginning into one buffer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// More than any of these files has on any machine; one that is longer is not what we think it is.
const MOST_BYTES: usize = 64 << 20;
const FIRST_BYTES: usize = 16 << 10;

/// One such file.
#[derive(Debug)]
pub struct Pseudo {
    file: File,
    buffer: Vec<u8>,
}

impl Pseudo {
    /// Opens it.
    ///
    /// # Errors
    /// What `open(2)` gives.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Pseudo { file: File::open(path)?, buffer: vec![0; FIRST_BYTES] })
    }

    /// What it says now.
    ///
    /// # Errors
    /// What `pread(2)` gives, or `InvalidData` when it does not end.
    pub fn read(&mut self) -> io::Result<&[u8]> {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                if length >= MOST_BYTES {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "the file does not end"));
                }
                self.buffer.resize(2 * length, 0);
            }
            match self.file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => return Ok(&self.buffer[..length]),
                Ok(more) => length += more,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_longer_than_the_buffer_comes_whole_and_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("long");
        let text = "x".repeat(5 * FIRST_BYTES + 3);
        std::fs::write(&path, &text).expect("a file");
        let mut file = Pseudo::open(&path).expect("open");
        assert_eq!(file.read().expect("read"), text.as_bytes());
        std::fs::write(&path, "short").expect("a file");
        assert_eq!(file.read().expect("read again"), b"short");
    }

    #[test]
    fn the_kernels_own_files_can_be_read_twice() {
        let mut file = Pseudo::open(Path::new("/proc/stat")).expect("every Linux has it");
        for _ in 0..2 {
            assert!(file.read().expect("read").starts_with(b"cpu "));
        }
    }
}
