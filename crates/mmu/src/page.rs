//! Page sizes of x86-64, and at which level of the tables each has its leaf.

use baremark_model::page_size::PageSize;
use std::fmt;

/// The size of a page, or of the memory beneath one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Page {
    /// 4 KiB: the leaf is an entry of a page table.
    Small,
    /// 2 MiB: the leaf is an entry of a page directory.
    Large,
    /// 1 GiB: the leaf is an entry of a page directory pointer table.
    Huge,
}

/// Every page size, ascending.
pub const PAGES: [Page; 3] = [Page::Small, Page::Large, Page::Huge];

impl Page {
    /// The level of its leaf entry; a page table is level 1.
    #[must_use]
    pub const fn level(self) -> usize {
        match self {
            Page::Small => 1,
            Page::Large => 2,
            Page::Huge => 3,
        }
    }

    /// How many low bits of an address lie within the page.
    #[must_use]
    pub const fn bits(self) -> u32 {
        region_bits(self.level())
    }

    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.bits()
    }

    /// From the label used in studies and machine files, `4k`, `2m` or `1g`.
    #[must_use]
    pub fn from_label(label: &str) -> Option<Self> {
        PAGES.into_iter().find(|page| page.label() == label)
    }

    /// The label used in studies and machine files.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Page::Small => "4k",
            Page::Large => "2m",
            Page::Huge => "1g",
        }
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl From<PageSize> for Page {
    fn from(size: PageSize) -> Self {
        match size {
            PageSize::Small => Page::Small,
            PageSize::Large => Page::Large,
        }
    }
}

/// How many low bits of an address lie within what one entry of a table of `level` covers.
#[must_use]
pub const fn region_bits(level: usize) -> u32 {
    12 + 9 * (level as u32 - 1)
}
