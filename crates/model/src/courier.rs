//! Frames that are carried by files, where nothing else leads from one side to the other.
//!
//! Each side appends to a file that the other reads as it grows, and the lab rewrites a third as its sign of life. A file
//! is opened anew for each look: only so does a network file system show what was written elsewhere.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// From the lab to the agent.
pub const TO_AGENT: &str = "to-agent";
/// From the agent to the lab.
pub const FROM_AGENT: &str = "from-agent";
/// The lab's sign of life: whatever it holds changes while the lab lives.
pub const LAB: &str = "lab";

/// A file that only grows, read from its beginning; 0 bytes mean that it has no more *yet*.
pub struct Grown {
    path: PathBuf,
    place: u64,
}

impl Grown {
    /// From its beginning.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Grown { path, place: 0 }
    }
}

impl Read for Grown {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.place))?;
        let count = file.read(buffer)?;
        self.place += count as u64;
        Ok(count)
    }
}
