//! What a runner is told by whoever starts it: the launcher, or another runner whose program executes a new one.
//!
//! It travels as the second argument, one word such as `1,page=2m,vcpus=64,kvm=1024`, and is written without allocating,
//! because a runner writes it on the threads of its program.

use baremark_model::page_size::PageSize;
use std::fmt::{self, Write};

/// The first argument of a process that is to be a runner, by which it is recognised before anything else runs.
pub(crate) const RUNNER_NAME: &str = "baremark-guest-runner";
/// The format of the options.
const FORMAT: &str = "1";

/// A limit as `getrlimit` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// What a runner is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Page size of the guest's leaf entries.
    pub(crate) page: PageSize,
    /// Page size of the host's backing of the program's memory; without it the kernel and the program choose.
    pub(crate) backing: Option<PageSize>,
    /// The most virtual processors of one process.
    pub(crate) vcpus: u32,
    /// Whether a polling thread answers system calls without an exit.
    pub(crate) exitless: bool,
    /// Whether memory is given to the program when it is mapped.
    pub(crate) prefault: bool,
    /// `/dev/kvm`, where it is open already.
    pub(crate) kvm: Option<i32>,
    /// The runner's own file, where it is open already.
    pub(crate) runner: Option<i32>,
    /// The shared counters.
    pub(crate) counters: Option<i32>,
    /// The program's file; without it the third argument is looked up.
    pub(crate) program: Option<i32>,
    /// The page of counters that this process has already.
    pub(crate) image: Option<u32>,
    /// Limits as the program sees them, where the runner has raised them for its own needs.
    pub(crate) files: Option<Limit>,
    pub(crate) address_space: Option<Limit>,
    pub(crate) data: Option<Limit>,
    /// The record of a protected program.
    pub(crate) snapshot: Option<i32>,
    /// The image of the program that is continued.
    pub(crate) restored: Option<i32>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            page: PageSize::Large,
            backing: None,
            vcpus: u32::MAX,
            exitless: false,
            prefault: false,
            kvm: None,
            runner: None,
            counters: None,
            program: None,
            image: None,
            files: None,
            address_space: None,
            data: None,
            snapshot: None,
            restored: None,
        }
    }
}

impl Options {
    /// Reads what [`fmt::Display`] writes; `None` when it is anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(',');
        if words.next() != Some(FORMAT) {
            return None;
        }
        let mut options = Options::default();
        for word in words {
            let (key, value) = word.split_once('=')?;
            options.set(key, value)?;
        }
        Some(options)
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "page" => self.page = PageSize::from_label(value)?,
            "backing" => self.backing = Some(PageSize::from_label(value)?),
            "vcpus" => self.vcpus = value.parse().ok()?,
            "exitless" => self.exitless = value.parse().ok()?,
            "prefault" => self.prefault = value.parse().ok()?,
            "kvm" => self.kvm = Some(value.parse().ok()?),
            "runner" => self.runner = Some(value.parse().ok()?),
            "counters" => self.counters = Some(value.parse().ok()?),
            "program" => self.program = Some(value.parse().ok()?),
            "image" => self.image = Some(value.parse().ok()?),
            "files" => self.files = Some(limit(value)?),
            "address-space" => self.address_space = Some(limit(value)?),
            "data" => self.data = Some(limit(value)?),
            "snapshot" => self.snapshot = Some(value.parse().ok()?),
            "restored" => self.restored = Some(value.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

fn limit(text: &str) -> Option<Limit> {
    let (soft, hard) = text.split_once(':')?;
    Some(Limit { soft: soft.parse().ok()?, hard: hard.parse().ok()? })
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FORMAT},page={},vcpus={},exitless={}", self.page, self.vcpus, self.exitless)?;
        let descriptors = [
            ("kvm", self.kvm),
            ("runner", self.runner),
            ("counters", self.counters),
            ("program", self.program),
            ("snapshot", self.snapshot),
            ("restored", self.restored),
        ];
        for (name, value) in descriptors {
            if let Some(value) = value {
                write!(f, ",{name}={value}")?;
            }
        }
        if let Some(backing) = self.backing {
            write!(f, ",backing={backing}")?;
        }
        if self.prefault {
            write!(f, ",prefault=true")?;
        }
        if let Some(image) = self.image {
            write!(f, ",image={image}")?;
        }
        for (name, value) in [("files", self.files), ("address-space", self.address_space), ("data", self.data)] {
            if let Some(Limit { soft, hard }) = value {
                write!(f, ",{name}={soft}:{hard}")?;
            }
        }
        Ok(())
    }
}

/// A text of bounded length in memory of its own, ending in NUL.
#[derive(Clone, Copy)]
pub(crate) struct Line<const N: usize> {
    bytes: [u8; N],
    used: usize,
}

impl<const N: usize> Line<N> {
    /// No text.
    pub(crate) const fn new() -> Self {
        Line { bytes: [0; N], used: 0 }
    }

    /// `bytes` as they are, cut where there is no room for more.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let mut line = Line::new();
        line.used = bytes.len().min(N - 1);
        line.bytes[..line.used].copy_from_slice(&bytes[..line.used]);
        line
    }

    /// `value` as text, cut where there is no room for more.
    pub(crate) fn of(value: impl fmt::Display) -> Self {
        let mut line = Line::new();
        // What is cut is lost; `write_str` has kept what fitted.
        let _ = write!(line, "{value}");
        line
    }

    /// The text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// The text, or as much of it as is UTF-8.
    pub(crate) fn as_str(&self) -> &str {
        match std::str::from_utf8(self.as_bytes()) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&self.bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// The address of the text, which ends in NUL.
    pub(crate) fn address(&self) -> u64 {
        self.bytes.as_ptr() as u64
    }
}

impl<const N: usize> fmt::Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = N - 1 - self.used;
        let part = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.used..self.used + part.len()].copy_from_slice(part);
        self.used += part.len();
        if part.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let bare = Options::default();
        assert_eq!(Options::parse(&bare.to_string()), Some(bare));
        let full = Options {
            page: PageSize::Small,
            backing: Some(PageSize::Large),
            vcpus: 4,
            exitless: true,
            prefault: true,
            kvm: Some(1024),
            runner: Some(1025),
            counters: Some(1026),
            program: Some(3),
            image: Some(7),
            files: Some(Limit { soft: 1024, hard: u64::MAX }),
            address_space: Some(Limit { soft: 1 << 40, hard: u64::MAX }),
            data: Some(Limit { soft: 1, hard: 2 }),
            snapshot: Some(1027),
            restored: Some(4),
        };
        assert_eq!(Options::parse(&full.to_string()), Some(full));
        let line = Line::<256>::of(full);
        assert_eq!(Options::parse(line.as_str()), Some(full));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "2,page=2m", "1,page=3m", "1,colour=red", "1,kvm", "1,files=3"] {
            assert_eq!(Options::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_line_keeps_what_fits() {
        let line = Line::<6>::of("abcdefgh");
        assert_eq!((line.as_str(), line.bytes), ("abcde", *b"abcde\0"));
    }
}
