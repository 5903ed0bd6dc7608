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
    fn the_second_number_is_the_wait() {
        assert_eq!(parse("283253 164535 2\n"), Some(164_535));
        assert_eq!((parse(""), parse("283253"), parse("283253 x 2")), (None, None, None));
    }

    /// How long it takes until it has waited so long depends on the machine; that it waits, and no longer than it has run and waited, does not.
    #[test]
    #[expect(clippy::print_stdout, reason = "a skip is counted")]
    fn a_thread_that_shares_its_cpu_is_seen_to_wait() {
        if waited_ns().is_none() {
            return println!("skipped: this kernel has no schedstat");
        }
        let cpu = allowed_cpus().expect("affinity")[0];
        let stop = AtomicBool::new(false);
        let (waited, elapsed) = thread::scope(|scope| {
            scope.spawn(|| {
                pin_current_thread(cpu).expect("pinned");
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let measured = scope.spawn(|| {
                pin_current_thread(cpu).expect("pinned");
                let (began, before) = (Instant::now(), waited_ns().expect("an account"));
                let waited = || Duration::from_nanos(waited_ns().expect("an account") - before);
                while waited() < Duration::from_millis(20) && began.elapsed() < Duration::from_secs(60) {
                    std::hint::spin_loop();
                }
                (waited(), began.elapsed())
            });
            let measured = measured.join();
            stop.store(true, Ordering::Relaxed);
            measured.expect("measured")
        });
        assert!(waited >= Duration::from_millis(20), "{waited:?} in {elapsed:?}");
        // Two clocks, which need not go alike to the last part in a hundred.
        assert!(waited <= elapsed.mul_f64(1.01) + Duration::from_millis(1), "{waited:?} in {elapsed:?}");
    }
}
