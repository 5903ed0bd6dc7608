//! Every target: its name, which its corpus and its file in fuzz_targets/ have, and what must hold for any bytes.

use crate::{bodies, files, traces};
use baremark_load::fuzz_invariants;

/// A target.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What must hold.
    pub body: fn(&[u8]),
    /// Cases of a test: a second or two.
    pub tested: u64,
}

const fn target(name: &'static str, body: fn(&[u8]), tested: u64) -> Target {
    Target { name, body, tested }
}

/// All of them.
pub const ALL: &[Target] = &[
    target("study", bodies::study, 20_000),
    target("bundle", files::bundle, 1_000),
    target("import", files::import, 2_000),
    target("job", files::job, 20_000),
    target("histogram", files::histogram, 20_000),
    target("frame", bodies::frame, 20_000),
    target("http1", fuzz_invariants::http1, 40_000),
    target("http2", fuzz_invariants::http2, 20_000),
    target("scenario", fuzz_invariants::scenario, 4_000),
    target("trace", traces::trace, 10_000),
    target("machine", traces::machine, 4_000),
];

/// Runs a target.
///
/// # Panics
/// When what must hold does not, and for a name that no target has.
pub fn run(name: &str, data: &[u8]) {
    let target = ALL.iter().find(|target| target.name == name).expect("a target of the list");
    (target.body)(data);
}
