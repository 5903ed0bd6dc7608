//! An initial file system for a Linux kernel, in the format that it unpacks: cpio, "newc".
//!
//! Format: Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's source.

use crate::calls::new_descriptor;
use std::fs::File;
use std::io::{self, Write};

/// A nameless file for an archive, gone with its last user.
///
/// # Errors
/// What `memfd_create(2)` gives.
pub fn in_memory() -> io::Result<File> {
    // SAFETY: the name ends in zero and lives through the call; the descriptor that it makes is nobody else's.
    unsafe { new_descriptor(libc::memfd_create(c"baremark-initial".as_ptr(), libc::MFD_CLOEXEC)) }.map(File::from)
}

/// Writes entries one after the other.
#[derive(Debug)]
pub struct Cpio<W> {
    out: W,
    next: u32,
}

/// What an entry is.
enum Node<'c> {
    Folder,
    Program(&'c [u8]),
    File(&'c [u8]),
    CharacterDevice { major: u32, minor: u32 },
}

impl<W: Write> Cpio<W> {
    /// An archive that is written to `out`.
    pub fn new(out: W) -> Self {
        Cpio { out, next: 1 }
    }

    /// A folder; its parent must be there.
    ///
    /// # Errors
    /// What writing gives.
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, &Node::Folder)
    }

    /// A file that can be run.
    ///
    /// # Errors
    /// What writing gives.
    pub fn program(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        self.entry(path, &Node::Program(content))
    }

    /// A file.
    ///
    /// # Errors
    /// What writing gives.
    pub fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        self.entry(path, &Node::File(content))
    }

    /// A character device.
    ///
    /// # Errors
    /// What writing gives.
    pub fn character_device(&mut self, path: &str, major: u32, minor: u32) -> io::Result<()> {
        self.entry(path, &Node::CharacterDevice { major, minor })
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// What writing gives.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", &Node::File(&[]))?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, node: &Node<'_>) -> io::Result<()> {
        let (mode, content, (major, minor)): (u32, &[u8], _) = match *node {
            Node::Folder => (0o040_755, &[], (0, 0)),
            Node::Program(content) => (0o100_755, content, (0, 0)),
            Node::File(content) => (0o100_644, content, (0, 0)),
            Node::CharacterDevice { major, minor } => (0o020_600, &[], (major, minor)),
        };
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        let name_length = u32::try_from(path.len() + 1).map_err(io::Error::other)?;
        write!(self.out, "070701")?;
        // inode, mode, owner, group, links, time, length, the file's own device twice, the device's numbers, name, check
        for field in [self.next, mode, 0, 0, 1, 0, length, 0, 0, major, minor, name_length, 0] {
            write!(self.out, "{field:08X}")?;
        }
        self.next += 1;
        self.out.write_all(path.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(110 + path.len() + 1)?;
        self.out.write_all(content)?;
        self.pad(content.len())
    }

    /// Zeros up to a multiple of four.
    fn pad(&mut self, length: usize) -> io::Result<()> {
        self.out.write_all(&[0; 3][..length.next_multiple_of(4) - length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_what_the_kernels_format_says() {
        let mut cpio = Cpio::new(Vec::new());
        cpio.program("init", b"12345").expect("memory takes all");
        let bytes = cpio.finish().expect("memory takes all");
        let text = String::from_utf8(bytes).expect("text");
        let file = "07070100000001000081ED0000000000000000000000010000000000000005\
                    00000000000000000000000000000000000000050000000";
        assert!(text.starts_with(file), "{text}");
        assert_eq!(&text[110..128], "init\0\0".to_owned() + "12345\0\0\0" + "0707");
        assert!(text.contains("TRAILER!!!") && text.len().is_multiple_of(4));
    }
}
