//! Waiting for files that have something to read, and sleeping no longer than was asked for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// The shortest slice that the kernel grants.
const SLICE_NS: u64 = 100_000;

/// Files that are waited for, by `ppoll(2)`. They stay open as long as this, which borrows them.
#[derive(Debug)]
pub struct Ready<'f> {
    watched: Vec<libc::pollfd>,
    _files: Vec<BorrowedFd<'f>>,
}

impl<'f> Ready<'f> {
    /// Waits for these; results are by their places.
    #[must_use]
    pub fn of(files: Vec<BorrowedFd<'f>>) -> Ready<'f> {
        let watch = |file: &BorrowedFd<'_>| libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        Ready { watched: files.iter().map(watch).collect(), _files: files }
    }

    /// Waits until one has something to read or has ended, or `longest` is over.
    ///
    /// # Errors
    /// What `ppoll(2)` gives; a signal is none.
    pub fn wait(&mut self, longest: Option<Duration>) -> io::Result<()> {
        let time = longest.map(|longest| libc::timespec {
            tv_sec: libc::time_t::try_from(longest.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let count = libc::nfds_t::try_from(self.watched.len()).map_err(io::Error::other)?;
        // SAFETY: `watched` is an array of `count` pollfds, `time` is null or a timespec; both live through the call.
        if unsafe { libc::ppoll(self.watched.as_mut_ptr(), count, time, std::ptr::null()) } >= 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            why if why.kind() == io::ErrorKind::Interrupted => {
                self.watched.iter_mut().for_each(|one| one.revents = 0);
                Ok(())
            }
            why => Err(why),
        }
    }

    /// Waits no longer for the file at this place.
    pub fn forget(&mut self, place: usize) {
        if let Some(one) = self.watched.get_mut(place) {
            *one = libc::pollfd { fd: -1, events: 0, revents: 0 };
        }
    }

    /// Whether the file at this place had something to read, or had ended, after the last wait.
    #[must_use]
    pub fn is(&self, place: usize) -> bool {
        self.watched.get(place).is_some_and(|one| one.revents != 0)
    }
}

/// What `sched_setattr(2)` takes, in its first version.
#[repr(C)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Lets the calling thread's waits end when they should: no slack of timers (50 us otherwise), and short slices, with which a thread that
/// runs briefly and often is let in soon alongside others that compute (EEVDF, Linux 6.12; earlier kernels ignore it). It takes no larger
/// share, and needs no privilege. The nice level stays.
pub fn sharpen_waits() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    let size = u32::try_from(size_of::<Scheduling>()).unwrap_or(0);
    let mut wanted = Scheduling { size, policy: 0, flags: 0, nice: 0, priority: 0, runtime: 0, deadline: 0, period: 0 };
    // SAFETY: `wanted` has `size` bytes and lives through the call, which fills it with the thread's settings.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut wanted, size, 0) } == 0;
    if !known || wanted.policy != libc::SCHED_OTHER.cast_unsigned() {
        return;
    }
    wanted.size = size;
    wanted.runtime = SLICE_NS;
    // SAFETY: `wanted` has `size` bytes and lives through the call, which reads it.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn what_has_something_to_read_or_has_ended_is_found_and_nothing_else() {
        let (quiet, _kept) = io::pipe().expect("a pipe");
        let (told, mut tells) = io::pipe().expect("a pipe");
        let (ended, ends) = io::pipe().expect("a pipe");
        let mut ready = Ready::of(vec![quiet.as_fd(), told.as_fd(), ended.as_fd()]);
        let found = |ready: &Ready<'_>| [0, 1, 2, 3].map(|place| ready.is(place));
        ready.wait(Some(Duration::from_micros(10))).expect("it waits");
        assert_eq!(found(&ready), [false; 4]);
        tells.write_all(b"x").expect("written");
        ready.wait(None).expect("it waits");
        assert_eq!(found(&ready), [false, true, false, false]);
        drop(ends);
        ready.wait(None).expect("it waits");
        assert_eq!(found(&ready), [false, true, true, false]);
        ready.forget(2);
        ready.wait(None).expect("it waits");
        assert_eq!(found(&ready), [false, true, false, false]);
    }
}
