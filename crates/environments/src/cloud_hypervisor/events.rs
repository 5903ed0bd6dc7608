//! What Cloud Hypervisor reports of a guest by itself, over a pipe: JSON objects one after the other (`--event-monitor`).
//!
//! A guest whose kernel panics restarts, for Cloud Hypervisor has no option against that. The lab hears of it here.

use serde::Deserialize;
use std::io::{self, BufReader, PipeReader, PipeWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// One event, as far as it is read.
#[derive(Deserialize)]
struct VmmEvent {
    source: String,
    event: String,
}

/// Hears the events of one process.
pub struct Events {
    restarted: Arc<AtomicBool>,
}

impl Events {
    /// The events that come from the other end, which the process is to have.
    ///
    /// # Errors
    /// What making a pipe gives.
    pub fn heard() -> io::Result<(Events, PipeWriter)> {
        let (from, theirs) = io::pipe()?;
        let restarted = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&restarted);
        // It ends with the process, or with the last copy of the other end.
        thread::spawn(move || hear(from, &noted));
        Ok((Events { restarted }, theirs))
    }

    /// Whether the guest has restarted itself, as one does whose kernel panicked.
    pub fn restarted(&self) -> bool {
        self.restarted.load(Ordering::Relaxed)
    }
}

fn hear(from: PipeReader, restarted: &AtomicBool) {
    let events = serde_json::Deserializer::from_reader(BufReader::new(from)).into_iter::<VmmEvent>();
    for event in events.map_while(Result::ok) {
        if event.source == "vm" && event.event == "rebooting" {
            restarted.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_restart_is_heard_among_other_events() {
        let (from, mut theirs) = io::pipe().expect("a pipe");
        let event = |source: &str, event: &str| {
            format!(
                "{{\n  \"timestamp\": {{\n    \"secs\": 0,\n    \"nanos\": 1\n  }},\n  \"source\": \"{source}\",\n  \
                 \"event\": \"{event}\",\n  \"properties\": null\n}}\n\n"
            )
        };
        let heard = |from| {
            let restarted = AtomicBool::new(false);
            hear(from, &restarted);
            restarted.into_inner()
        };
        let usual = event("vmm", "starting") + &event("vm", "booting") + &event("vm", "booted");
        theirs.write_all(usual.as_bytes()).expect("it is read later");
        drop(theirs);
        assert!(!heard(from));
        let (from, mut theirs) = io::pipe().expect("a pipe");
        theirs.write_all((usual + &event("vm", "rebooting")).as_bytes()).expect("it is read later");
        drop(theirs);
        assert!(heard(from));
    }
}
