//! What a range of our memory is really made of, from `/proc/self/smaps`.
//!
//! A page size is requested by `madvise` and granted or not. This is where it is looked up, before a measurement that
//! depends on it and after. A range is answered for only when it consists of whole mappings: the kernel counts pages per
//! mapping, and a count that is shared with a neighbour says nothing about either.

use baremark_model::page_size::PageSize;
use baremark_model::units::Bytes;
use std::fs;
use std::io;

/// What a range of memory is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backing {
    /// The size of the range.
    pub mapped_bytes: u64,
    /// The part that is in memory.
    pub rss_bytes: u64,
    /// The part that is in transparent huge pages.
    pub anon_huge_bytes: u64,
    /// The part that is in pages reserved by hugetlb, not shared.
    pub private_hugetlb_bytes: u64,
    /// The page size by which the kernel manages the mapping; transparent huge pages do not change it.
    pub kernel_page_bytes: u64,
    /// The part that is swapped out.
    pub swap_bytes: u64,
}

/// Why nothing can be said of a range.
#[derive(Debug, thiserror::Error)]
pub enum SmapsError {
    /// The file could not be read.
    #[error("cannot read /proc/self/smaps; is /proc mounted?")]
    Read(#[source] io::Error),
    /// The file is not of the form that `proc(5)` gives.
    #[error("line {line} of smaps, '{text}', is not of a form that is known")]
    Form {
        /// Counted from 1.
        line: usize,
        /// What is there.
        text: String,
    },
    /// Not all of the range is mapped.
    #[error("only {found_bytes} of {asked_bytes} bytes at {address:#x} are mapped")]
    Hole {
        /// Start of the range.
        address: u64,
        /// Its size.
        asked_bytes: u64,
        /// What of it is mapped.
        found_bytes: u64,
    },
    /// A mapping reaches beyond the range.
    #[error("the mapping {start:#x}-{end:#x} reaches beyond the range; request complete mappings")]
    Shared {
        /// Start of that mapping.
        start: u64,
        /// Its end.
        end: u64,
    },
}

/// What the `len` bytes at `address` of this process are made of.
///
/// # Errors
/// When smaps cannot be read or understood, or when the range is not made of whole mappings.
pub fn backing_of(address: u64, len: u64) -> Result<Backing, SmapsError> {
    backing_in(&of_this_process()?, address, len)
}

/// This process's smaps, for which the kernel looks at each of its pages: whoever asks of several ranges reads it once.
///
/// # Errors
/// When it cannot be read.
pub fn of_this_process() -> Result<String, SmapsError> {
    fs::read_to_string("/proc/self/smaps").map_err(SmapsError::Read)
}

/// What the `len` bytes at `address` are made of, by the smaps `text`.
///
/// # Errors
/// When the text is not of the known form, or when the range is not made of whole mappings.
pub fn backing_in(text: &str, address: u64, len: u64) -> Result<Backing, SmapsError> {
    let mut backing = Backing::default();
    if len == 0 {
        return Ok(backing);
    }
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let odd = || SmapsError::Form { line: index + 1, text: line.to_owned() };
        if let Some((start, end)) = mapping(line) {
            inside = start < address + len && end > address;
            if inside && (start < address || end > address + len) {
                return Err(SmapsError::Shared { start, end });
            }
            backing.mapped_bytes += if inside { end - start } else { 0 };
        } else {
            let (name, value) = line.split_once(':').ok_or_else(odd)?;
            if inside {
                backing.count(name, value).ok_or_else(odd)?;
            }
        }
    }
    if backing.mapped_bytes == len {
        Ok(backing)
    } else {
        Err(SmapsError::Hole { address, asked_bytes: len, found_bytes: backing.mapped_bytes })
    }
}

/// The addresses of a mapping, when `line` opens one: "7f7944600000-7f7944800000 rw-p ...".
fn mapping(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (start < end).then_some((start, end))
}

impl Backing {
    /// Adds one line of a mapping; lines that are not counted pass. `None` when a counted line has no size.
    fn count(&mut self, name: &str, value: &str) -> Option<()> {
        let field = match name {
            "Rss" => &mut self.rss_bytes,
            "AnonHugePages" => &mut self.anon_huge_bytes,
            "Private_Hugetlb" => &mut self.private_hugetlb_bytes,
            "KernelPageSize" => &mut self.kernel_page_bytes,
            "Swap" => &mut self.swap_bytes,
            _ => return Some(()),
        };
        let bytes = value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)?;
        *field = if name == "KernelPageSize" { bytes.max(*field) } else { field.checked_add(bytes)? };
        Some(())
    }

    /// The bytes in pages of 2 MiB, whichever way they came.
    #[must_use]
    pub fn large_bytes(&self) -> u64 {
        let hugetlb = if self.kernel_page_bytes == PageSize::Large.bytes() { self.private_hugetlb_bytes } else { 0 };
        self.anon_huge_bytes + hugetlb
    }

    /// Whether the whole range is in memory and made of pages of this size and no other.
    ///
    /// # Errors
    /// What was asked and what was got instead, with the remedy.
    pub fn is(&self, page: PageSize) -> Result<(), OtherPages> {
        let resident = self.rss_bytes + self.private_hugetlb_bytes;
        let (mapped, large) = (Bytes(self.mapped_bytes), Bytes(self.large_bytes()));
        if self.swap_bytes > 0 {
            return Err(OtherPages::Swapped { mapped, swapped: Bytes(self.swap_bytes) });
        }
        if resident != self.mapped_bytes {
            return Err(OtherPages::Absent { mapped, resident: Bytes(resident) });
        }
        match page {
            PageSize::Small if large.0 > 0 => Err(OtherPages::Large { mapped, large }),
            PageSize::Large if large.0 != self.mapped_bytes => Err(OtherPages::Small { mapped, large }),
            _ => Ok(()),
        }
    }
}

/// Memory that is not in pages of the size that was requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherPages {
    /// Some of it is on a disk.
    #[error("{swapped} of {mapped} are swapped out; free memory or make it smaller")]
    Swapped {
        /// All of it.
        mapped: Bytes,
        /// What is on a disk.
        swapped: Bytes,
    },
    /// Some of it has no page yet.
    #[error("requested {mapped} in memory, got {resident}; touch all of it first")]
    Absent {
        /// All of it.
        mapped: Bytes,
        /// What has a page.
        resident: Bytes,
    },
    /// Some of it is in large pages.
    #[error("requested {mapped} in pages of 4k, got {large} in pages of 2m")]
    Large {
        /// All of it.
        mapped: Bytes,
        /// What is in large pages.
        large: Bytes,
    },
    /// Not all of it is in large pages.
    #[error("requested {mapped} in pages of 2m, got {large}; free memory, or set {THP_ENABLED} to madvise or always")]
    Small {
        /// All of it.
        mapped: Bytes,
        /// What is in large pages.
        large: Bytes,
    },
}

/// Where the kernel says whether it gives transparent huge pages.
pub(crate) const THP_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 writes it: a heap, 4 MiB of which half is huge, and a file, shortened.
    const RECORDED: &str = "\
557158264000-5571582a6000 rw-p 00000000 00:00 0                          [heap]
Size:                264 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                  44 kB
AnonHugePages:         0 kB
Private_Hugetlb:       0 kB
Swap:                  0 kB
THPeligible:           0
VmFlags: rd wr mr mw me ac 
7f7944400000-7f7944600000 rw-p 00000000 00:00 0 
Size:               2048 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                2048 kB
Anonymous:          2048 kB
AnonHugePages:      2048 kB
Private_Hugetlb:       0 kB
Swap:                  0 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac sd hg 
7f7944600000-7f7944800000 rw-p 00000000 00:00 0 
Size:               2048 kB
KernelPageSize:        4 kB
Rss:                1024 kB
AnonHugePages:         0 kB
Private_Hugetlb:       0 kB
Swap:                 16 kB
VmFlags: rd wr mr mw me ac sd nh 
7f794486b000-7f79448c2000 r--p 00000000 fe:00 316526                     /usr/lib/locale/C.utf8/a-b: c
Size:                348 kB
Rss:                 300 kB
";
    const HUGE: u64 = 0x7f79_4440_0000;
    const MIB: u64 = 1 << 20;

    #[test]
    fn a_range_of_whole_mappings_is_summed() {
        let both = backing_in(RECORDED, HUGE, 4 * MIB).expect("whole mappings");
        let expected = Backing {
            mapped_bytes: 4 * MIB,
            rss_bytes: 3 * MIB,
            anon_huge_bytes: 2 * MIB,
            private_hugetlb_bytes: 0,
            kernel_page_bytes: 4096,
            swap_bytes: 16 << 10,
        };
        assert_eq!(both, expected);
        let first = backing_in(RECORDED, HUGE, 2 * MIB).expect("whole mappings");
        assert_eq!(first.is(PageSize::Large), Ok(()));
        assert_eq!(
            first.is(PageSize::Small).expect_err("huge").to_string(),
            "requested 2 MiB in pages of 4k, got 2 MiB in pages of 2m"
        );
    }

    #[test]
    fn what_is_missing_or_swapped_is_said() {
        let both = backing_in(RECORDED, HUGE, 4 * MIB).expect("whole mappings");
        assert!(both.is(PageSize::Large).expect_err("swap").to_string().starts_with("16 KiB of 4 MiB are swapped out"));
        let half = Backing { swap_bytes: 0, ..both };
        assert_eq!(
            half.is(PageSize::Small).expect_err("not in").to_string(),
            "requested 4 MiB in memory, got 3 MiB; touch all of it first"
        );
        let mixed = Backing { rss_bytes: 4 * MIB, ..half };
        let text = mixed.is(PageSize::Large).expect_err("half huge").to_string();
        assert!(text.starts_with("requested 4 MiB in pages of 2m, got 2 MiB;") && text.contains(THP_ENABLED), "{text}");
    }

    #[test]
    fn hugetlb_pages_count_by_their_own_size() {
        let text = "7f7944400000-7f7944600000 rw-p 00000000 00:0f 1 /anon_hugepage (deleted)\n\
                    KernelPageSize:     2048 kB\nRss:                   0 kB\nAnonHugePages:         0 kB\n\
                    Private_Hugetlb:    2048 kB\nSwap:                  0 kB\n";
        assert_eq!(backing_in(text, HUGE, 2 * MIB).expect("whole").is(PageSize::Large), Ok(()));
    }

    #[test]
    fn a_part_of_a_mapping_and_a_hole_are_refused() {
        let part = backing_in(RECORDED, HUGE, MIB).expect_err("half a mapping");
        assert!(matches!(part, SmapsError::Shared { start: HUGE, .. }), "{part}");
        let hole = backing_in(RECORDED, HUGE, 4 * MIB + 4096).expect_err("beyond the end");
        assert!(matches!(hole, SmapsError::Hole { found_bytes, .. } if found_bytes == 4 * MIB), "{hole}");
        assert!(backing_in("", HUGE, 4096).is_err());
    }

    #[test]
    fn torn_and_odd_input_is_refused_where_it_matters() {
        let torn = &RECORDED[..RECORDED.find("2048 kB\nAnonymous").expect("there") + 6];
        let error = backing_in(torn, HUGE, 2 * MIB).expect_err("'Rss: 2048 k'");
        assert!(matches!(error, SmapsError::Form { line: 15, .. }), "{error}");
        assert!(backing_in("rubbish\n", HUGE, 4096).is_err());
        let elsewhere = RECORDED.replace("264 kB", "many");
        assert!(backing_in(&elsewhere, HUGE, 2 * MIB).is_ok());
        for cut in 0..RECORDED.len() {
            drop(backing_in(&RECORDED[..cut], HUGE, 4 * MIB));
        }
    }
}
