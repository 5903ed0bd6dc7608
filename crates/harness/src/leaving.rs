//! Instances that get no more requests and finish what they have begun, while everybody else goes on.

use baremark_services::card::Tier;
use baremark_services::service::Instance;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long an instance may take to finish what it has begun: longer than any long poll.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(40);
/// How long a reload of those before it takes at most to be followed.
const RELOAD_PAUSE: Duration = Duration::from_millis(500);

/// Those who leave, each with a thread that sees it to its end.
#[derive(Default)]
pub(crate) struct Leaving {
    hurry: Arc<AtomicBool>,
    threads: Vec<(Tier, JoinHandle<u64>)>,
}

impl Leaving {
    /// Lets an instance leave whom nobody sends anything any more; what it has used so far is added to `gone_ns` at once, so that
    /// no sum goes back.
    pub(crate) fn add(&mut self, tier: Tier, mut instance: Instance, gone_ns: &mut BTreeMap<Tier, u64>) {
        let before = instance.usage().cpu_ns;
        *gone_ns.entry(tier).or_default() += before;
        let hurry = Arc::clone(&self.hurry);
        let thread = thread::spawn(move || {
            thread::sleep(RELOAD_PAUSE);
            instance.stop_unless(STOP_LIMIT, &hurry);
            instance.usage().cpu_ns - before
        });
        self.threads.push((tier, thread));
    }

    /// Adds what those have used since who are gone by now.
    pub(crate) fn reap(&mut self, gone_ns: &mut BTreeMap<Tier, u64>) {
        for (tier, thread) in self.threads.extract_if(.., |(_, thread)| thread.is_finished()) {
            *gone_ns.entry(tier).or_default() += thread.join().unwrap_or(0);
        }
    }

    /// Ends all of them now.
    pub(crate) fn end(&mut self, gone_ns: &mut BTreeMap<Tier, u64>) {
        self.hurry.store(true, Ordering::Relaxed);
        for (tier, thread) in self.threads.drain(..) {
            *gone_ns.entry(tier).or_default() += thread.join().unwrap_or(0);
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.end(&mut BTreeMap::new());
    }
}
