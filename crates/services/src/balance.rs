//! What changes when the servers behind a balancer change.

use crate::service::Upstream;

/// Servers that come and go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Not there before.
    pub added: Vec<Upstream>,
    /// Not wanted any more.
    pub removed: Vec<Upstream>,
}

impl Change {
    /// From `before` to `after`.
    #[must_use]
    pub fn between(before: &[Upstream], after: &[Upstream]) -> Change {
        let without =
            |some: &[Upstream], others: &[Upstream]| some.iter().filter(|one| !others.contains(one)).cloned().collect();
        Change { added: without(after, before), removed: without(before, after) }
    }
}
