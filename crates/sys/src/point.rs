//! Named points: where a test may stop a process, to kill it just there.
//!
//! A test that kills a process after some time, or after a line of its output, kills it at a moment that nobody chose. A process started
//! with BAREMARK_STOP_AT=NAME stops itself (SIGSTOP) when it reaches the point of that name, or with NAME:N when it does so for the
//! N-th time; the test sees it stopped, and decides. Without the variable a point costs one relaxed load.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The environment variable that names the point at which a process stops.
pub const STOP_AT: &str = "BAREMARK_STOP_AT";

/// The point at which this process stops, and after how many more arrivals.
struct Wanted {
    name: OsString,
    left: AtomicU32,
}

static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();

/// Stops this process if it was started to be stopped at this point.
pub fn reached(name: &str) {
    let Some(wanted) = WANTED.get_or_init(|| std::env::var_os(STOP_AT).map(parsed)) else { return };
    if wanted.name == name && wanted.left.fetch_sub(1, Ordering::Relaxed) == 1 {
        // SAFETY: raise takes a number and touches no memory of ours.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
}

/// `NAME` or `NAME:N`.
fn parsed(value: OsString) -> Wanted {
    let counted = value.to_str().and_then(|text| text.rsplit_once(':'));
    match counted.and_then(|(name, count)| Some((name, count.parse().ok()?))) {
        Some((name, count)) => Wanted { name: name.into(), left: AtomicU32::new(count) },
        None => Wanted { name: value, left: AtomicU32::new(1) },
    }
}

#[cfg(test)]
mod tests {
    use super::parsed;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_point_has_a_name_and_may_have_a_number() {
        for (value, name, count) in [("undone", "undone", 1), ("undone:3", "undone", 3), ("a:b", "a:b", 1)] {
            let wanted = parsed(value.into());
            assert_eq!((wanted.name.to_str(), wanted.left.load(Ordering::Relaxed)), (Some(name), count));
        }
    }
}
