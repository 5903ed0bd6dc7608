//! A program that was stopped, as another process continues it: its record, what is mapped, its descriptors, and its pages.
//!
//! An image is a file: the length of the description and the description as JSON, then the record, the ranges of pages and their bytes.
//! A runner reads it while it has one thread and may allocate.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// A mapping of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// Rights, as `mmap(2)` takes them.
    pub protection: i32,
    /// The file of which it is a private copy, and where it begins there.
    pub file: Option<(String, u64)>,
}

/// What a descriptor leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A file that is open for reading.
    File {
        /// Its path.
        path: String,
        /// Where it is read next.
        offset: u64,
    },
    /// A connection or a standard stream, which the maker of checkpoints holds the other end of.
    Channel(u64),
    /// A socket with an address; the address is as the program gave it, in hexadecimal digits.
    Bound {
        /// The address.
        address: String,
        /// Whether it listens.
        listens: bool,
    },
    /// A socket without an address.
    Fresh,
    /// An end of a pipe within the program.
    Pipe {
        /// Which pipe.
        id: u64,
        /// Whether this end is written to.
        writes: bool,
    },
    /// A set of descriptors, of `epoll_create(2)`.
    Set(Vec<Watched>),
    /// A counter, of `eventfd(2)`.
    Counter {
        /// Its value.
        count: u64,
        /// Whether reading takes one from it.
        is_semaphore: bool,
    },
    /// A timer, of `timerfd_create(2)`.
    Timer(Timer),
}

/// A descriptor in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Its number.
    pub number: i32,
    /// What is waited for, as `epoll_ctl(2)` has it.
    pub events: u32,
    /// What the program gets with an event.
    pub data: u64,
}

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// Its clock, as `timerfd_create(2)` has it.
    pub clock: i32,
    /// Nanoseconds until it expires; 0 for a timer that does not run.
    pub left_ns: u64,
    /// Nanoseconds between later expirations; 0 for none.
    pub every_ns: u64,
    /// When that was so, by `CLOCK_MONOTONIC`.
    pub at_ns: u64,
}

impl Timer {
    /// Nanoseconds that are left at another time: at least 1 for a timer that runs.
    pub(crate) fn left_at(&self, now_ns: u64) -> u64 {
        let left = self.left_ns.saturating_sub(now_ns.saturating_sub(self.at_ns));
        left.max(self.left_ns.min(1))
    }
}

/// An open descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Its number.
    pub number: i32,
    /// Its flags, as `fcntl(2)` has them.
    pub flags: i32,
    /// Whether it is closed when the program executes another.
    pub close_on_exec: bool,
    /// What it leads to.
    pub target: Target,
}

/// Everything of a stopped program but its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// What is mapped.
    pub mappings: Vec<Mapping>,
    /// What is open.
    pub descriptors: Vec<Descriptor>,
    /// Contents of pipes, by their numbers.
    pub pipes: Vec<(u64, Vec<u8>)>,
    /// Where the kernel's own page of code lies, whose addresses the program may have kept.
    pub vdso: u64,
    /// Of channels: the descriptor that the next runner inherits as the program's end.
    pub inherited: Vec<(u64, i32)>,
}

/// What a runner reads of an image's file before the pages.
pub(crate) struct Head {
    pub(crate) description: Description,
    pub(crate) snapshot: Vec<u8>,
    pub(crate) ranges: Vec<(u64, u64)>,
    /// Where the bytes of the first range begin.
    pub(crate) pages_at: u64,
}

/// Writes an image; pages are in the order of their addresses.
///
/// # Errors
/// What writing gives.
pub fn write(mut file: &File, description: &Description, snapshot: &[u8], pages: &[(u64, &[u8])]) -> io::Result<()> {
    let json = serde_json::to_vec(description)?;
    let mut head = Vec::new();
    for part in [json.as_slice(), snapshot] {
        head.extend_from_slice(&(part.len() as u64).to_le_bytes());
        head.extend_from_slice(part);
    }
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (start, bytes) in pages {
        let end = start + bytes.len() as u64;
        match ranges.last_mut() {
            Some(last) if last.1 == *start => last.1 = end,
            _ => ranges.push((*start, end)),
        }
    }
    head.extend_from_slice(&(ranges.len() as u64).to_le_bytes());
    ranges
        .iter()
        .flat_map(|(start, end)| [start, end])
        .for_each(|number| head.extend_from_slice(&number.to_le_bytes()));
    file.write_all(&head)?;
    pages.iter().try_for_each(|(_, bytes)| file.write_all(bytes))
}

/// Reads the head of an image.
pub(crate) fn read(file: &File) -> io::Result<Head> {
    let mut at = 0;
    let number = |at: &mut u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, *at)?;
        *at += 8;
        Ok::<u64, io::Error>(u64::from_le_bytes(bytes))
    };
    let most = file.metadata()?.len();
    let part = |at: &mut u64| {
        let length = number(at)?;
        if length > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, *at)?;
        *at += length;
        Ok::<Vec<u8>, io::Error>(bytes)
    };
    let description = serde_json::from_slice(&part(&mut at)?)?;
    let snapshot = part(&mut at)?;
    let count = number(&mut at)?;
    let ranges = (0..count).map(|_| Ok((number(&mut at)?, number(&mut at)?))).collect::<io::Result<Vec<_>>>()?;
    Ok(Head { description, snapshot, ranges, pages_at: at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_goes_on_while_nobody_has_it_and_one_that_stands_does_not_begin() {
        let timer = Timer { clock: 1, left_ns: 500, every_ns: 0, at_ns: 1000 };
        assert_eq!([1000, 1300, 1500, 9000].map(|now| timer.left_at(now)), [500, 200, 1, 1]);
        assert_eq!(Timer { left_ns: 0, ..timer }.left_at(1300), 0);
    }

    #[test]
    fn an_image_is_read_as_it_was_written_and_a_torn_one_is_an_error() {
        let descriptor = Descriptor {
            number: 5,
            flags: 2048,
            close_on_exec: true,
            target: Target::File { path: "/etc/passwd".into(), offset: 7 },
        };
        let mapping = Mapping { start: 4096, end: 8192, protection: 3, file: Some(("/bin/x".into(), 4096)) };
        let description = Description {
            mappings: vec![mapping],
            descriptors: vec![descriptor],
            pipes: vec![(3, b"abc".to_vec())],
            vdso: 1 << 46,
            inherited: vec![(0, 9)],
        };
        let file = tempfile::tempfile().expect("a file");
        write(&file, &description, b"record", &[(4096, &[7; 4096])]).expect("written");
        let head = read(&file).expect("an image");
        assert_eq!((head.description, head.snapshot.as_slice()), (description, b"record".as_slice()));
        assert_eq!(head.ranges, [(4096, 8192)]);
        let mut page = [0; 4096];
        file.read_exact_at(&mut page, head.pages_at).expect("a page");
        assert_eq!(page, [7; 4096]);
        for length in [0, 3, 20, head.pages_at - 1] {
            file.set_len(length).expect("cut");
            assert!(read(&file).is_err(), "{length}");
        }
    }
}
