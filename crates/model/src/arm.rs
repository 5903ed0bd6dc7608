//! One arm, resolved: everything an agent needs to know to run one treatment.

use crate::page_size::PageSize;
use crate::placement::{MemoryPolicy, Placement};
use crate::value::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How a body is run inside an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ExecutorKind {
    /// On threads of the agent, with nothing between.
    Direct,
    /// On vCPUs of a virtual machine that shares the agent's address space.
    Microvm,
    /// Not at all: an empty region, which measures the floor of our own timing.
    Null,
}

impl fmt::Display for ExecutorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExecutorKind::Direct => "direct",
            ExecutorKind::Microvm => "microvm",
            ExecutorKind::Null => "null",
        })
    }
}

/// How the frames behind an arm's small pages lie in physical memory. Large pages are contiguous by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Frames {
    /// As the kernel gives them.
    #[default]
    #[serde(rename = "default")]
    AsGiven,
    /// One after the other within each 2 MiB: frames of large pages, which are mapped by small ones. So lies the memory of a guest that uses
    /// small pages and is backed by large ones.
    Contiguous,
    /// In random order: neighbours in the address space are none in physical memory.
    Scattered,
}

impl Frames {
    /// All of them as a study types them, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["default", "contiguous", "scattered"];

    /// From the word of a study.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        use Frames::{AsGiven, Contiguous, Scattered};
        [AsGiven, Contiguous, Scattered].into_iter().find(|frames| frames.to_string() == word)
    }

    fn is_as_given(&self) -> bool {
        *self == Frames::AsGiven
    }
}

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS[*self as usize])
    }
}

/// How the leaf tables of a microVM's guest page tables lie in guest-physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuestTables {
    /// One after the other, as they were filled: kinder than a real kernel's.
    #[default]
    Contiguous,
    /// In random order over their region, as a kernel's come to lie after long use.
    Scattered,
}

impl fmt::Display for GuestTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GuestTables::Contiguous => "contiguous",
            GuestTables::Scattered => "scattered",
        })
    }
}

/// Every arm that was stored before work could be divided was whole.
fn one() -> usize {
    1
}

/// One treatment as an agent executes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResolvedArm {
    /// The executor that runs the body.
    pub executor: ExecutorKind,
    /// Ranks in the team, one pinned thread (and one vCPU) each.
    pub ranks: usize,
    /// The page size that the application sees: the process's own (direct) or the guest's (microvm).
    pub page: PageSize,
    /// What the virtual machine's memory is made of; `None` where there is none.
    pub host_backing: Option<PageSize>,
    /// How the frames of small pages lie; see [`ResolvedArm::lies`].
    #[serde(default, skip_serializing_if = "Frames::is_as_given")]
    pub frames: Frames,
    /// Layout of the guest's page tables; `None` where there is none.
    pub guest_tables: Option<GuestTables>,
    /// Into how many equal parts the work is divided, of which this arm does one: `ranks` are its own, sizes in
    /// `parameters` are those of all parts together. 1 is the common case.
    #[serde(default = "one")]
    pub parts: usize,
    /// Which CPUs its ranks get.
    #[serde(default)]
    pub placement: Placement,
    /// On which nodes its memory lies.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// The workload's own parameters, resolved against its descriptor, by key.
    pub parameters: BTreeMap<String, Value>,
}

impl ResolvedArm {
    /// The plain arm: `ranks` threads of the agent, their memory in pages of `page`, every parameter at its default.
    #[must_use]
    pub fn native(ranks: usize, page: PageSize) -> Self {
        ResolvedArm {
            executor: ExecutorKind::Direct,
            ranks,
            page,
            host_backing: None,
            frames: Frames::AsGiven,
            guest_tables: None,
            parts: 1,
            placement: Placement::default(),
            memory: MemoryPolicy::default(),
            parameters: BTreeMap::new(),
        }
    }

    /// The same with a parameter set.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.parameters.insert(key.to_owned(), value);
        self
    }

    /// The ranks of all parts together.
    #[must_use]
    pub fn all_ranks(&self) -> usize {
        self.ranks.saturating_mul(self.parts.max(1))
    }

    /// The page size with which the *process* must back this arm's memory: the guest's page does not matter to the
    /// host, whose own choice is `host_backing`.
    #[must_use]
    pub fn buffer_page(&self) -> PageSize {
        self.host_backing.unwrap_or(self.page)
    }

    /// How this arm's memory lies in physical memory: contiguous wherever it is made of large pages.
    #[must_use]
    pub fn lies(&self) -> Frames {
        match self.buffer_page() {
            PageSize::Large => Frames::Contiguous,
            PageSize::Small => self.frames,
        }
    }
}
