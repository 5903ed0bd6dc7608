//! What a process of the program sees of its limits where that is not the real one.

use crate::options::Limit;

/// A process's limits that differ from the real ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnLimits {
    pub(crate) files: Option<Limit>,
    pub(crate) address_space: Option<Limit>,
    pub(crate) data: Option<Limit>,
}

impl OwnLimits {
    /// None that differs.
    pub(crate) const NONE: OwnLimits = OwnLimits { files: None, address_space: None, data: None };

    /// That of a resource, where it may differ.
    pub(crate) fn of(&mut self, resource: u64) -> Option<&mut Option<Limit>> {
        match u32::try_from(resource).ok()? {
            libc::RLIMIT_NOFILE => Some(&mut self.files),
            libc::RLIMIT_AS => Some(&mut self.address_space),
            libc::RLIMIT_DATA => Some(&mut self.data),
            _ => None,
        }
    }
}
