//! How long the calling thread was ready to run while somebody else had its CPU: the kernel's own account, to the nanosecond.
//!
//! `/proc/thread-self/schedstat` has it as its second number (`sched_info.run_delay`, Linux documentation, sched-stats). It is
//! read before and after a measured region by the thread that runs it, so that it is of this region alone. Time that a
//! hypervisor below this kernel takes away is not in it: that is in `/proc/stat` as stolen.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

thread_local! {
    /// The thread's own account, open since it was first read; the inner `None` where there is none.
    static ACCOUNT: RefCell<Option<Option<File>>> = const { RefCell::new(None) };
}

/// Nanoseconds since the calling thread began; `None` where the kernel keeps no account.
#[must_use]
pub fn waited_ns() -> Option<u64> {
    ACCOUNT.with_borrow_mut(|account| {
        let account = account.get_or_insert_with(|| File::open("/proc/thread-self/schedstat").ok());
        let mut text = [0; 96];
        let bytes = account.as_ref()?.read_at(&mut text, 0).ok()?;
        parse(std::str::from_utf8(text.get(..bytes)?).ok()?)
    })
}

fn parse(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::{allowed_cpus, pin_current_thread};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_shares_its_cpu_waits_about_half_of_the_time() {
        assert_eq!(parse("283253 164535 2\n"), Some(164_535));
        assert_eq!(parse(""), None);
        if waited_ns().is_none() {
            // A kernel without schedstat.
            return;
        }
        let cpu = allowed_cpus().expect("affinity")[0];
        let stop = AtomicBool::new(false);
        let waited = thread::scope(|scope| {
            scope.spawn(|| {
                pin_current_thread(cpu).expect("pinned");
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let measured = scope.spawn(|| {
                pin_current_thread(cpu).expect("pinned");
                let (before, began) = (waited_ns().expect("an account"), Instant::now());
                while began.elapsed() < Duration::from_millis(200) {
                    std::hint::spin_loop();
                }
                waited_ns().expect("an account") - before
            });
            let waited = measured.join().expect("measured");
            stop.store(true, Ordering::Relaxed);
            waited
        });
        assert!((20_000_000..=1_000_000_000).contains(&waited), "{waited} ns of 200 ms");
    }
}
