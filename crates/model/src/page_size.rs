//! Page sizes, as studies and arms name them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A page size of x86-64 that baremark can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PageSize {
    /// 4 KiB.
    #[serde(rename = "4k")]
    Small,
    /// 2 MiB.
    #[serde(rename = "2m")]
    Large,
}

impl PageSize {
    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            PageSize::Small => 4096,
            PageSize::Large => 2 << 20,
        }
    }

    /// From the label used in studies, `4k` or `2m`.
    #[must_use]
    pub fn from_label(label: &str) -> Option<Self> {
        match label {
            "4k" => Some(PageSize::Small),
            "2m" => Some(PageSize::Large),
            _ => None,
        }
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PageSize::Small => "4k",
            PageSize::Large => "2m",
        })
    }
}
