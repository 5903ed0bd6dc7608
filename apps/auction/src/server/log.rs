//! What goes wrong, as lines on standard error, at most one of a kind a second.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

static LAST: LazyLock<Mutex<HashMap<String, Instant>>> = LazyLock::new(Mutex::default);

/// Writes one line. Never a password, token or body: callers give what they made themselves.
pub(crate) fn line(text: &str) {
    let kind: String = text.chars().take(40).collect();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.len() > 1000 {
        last.clear();
    }
    let now = Instant::now();
    if last.get(&kind).is_some_and(|&before| now.duration_since(before) < Duration::from_secs(1)) {
        return;
    }
    last.insert(kind, now);
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(std::io::stderr(), "auction: {text}");
}
