//! What the suites have in common that hold every implementation of a seam to its contract.

/// What an implementation did that it must not; the first of it ends a suite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

impl From<String> for Violation {
    fn from(found: String) -> Violation {
        Violation(found)
    }
}

/// Demands that something holds; `found` says what was found instead.
///
/// # Errors
/// What was found.
pub fn demand(holds: bool, found: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(found())) }
}
