//! Which CPUs this process may use, and pinning a thread to one of them.

use crate::calls::checked;
use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;

/// The calling thread, in the calls that take a thread's number.
pub(crate) const THIS_THREAD: libc::pid_t = 0;

/// The CPUs on which the calling thread may run, in ascending order.
///
/// # Errors
/// What `sched_getaffinity(2)` gives.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    cpus_of(THIS_THREAD)
}

fn cpus_of(thread: libc::pid_t) -> io::Result<Vec<usize>> {
    // SAFETY: a cpu_set_t is plain bits; all zeros is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is a cpu_set_t of the size that is passed, and lives through the call.
    checked(unsafe { libc::sched_getaffinity(thread, mem::size_of::<libc::cpu_set_t>(), &raw mut set) })?;
    let bits = 8 * mem::size_of::<libc::cpu_set_t>();
    // SAFETY: CPU_ISSET reads the bit `cpu` of `set`, and `cpu` is below the number of its bits.
    Ok((0..bits).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Where a thread may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seat {
    /// On this CPU alone.
    Cpu(usize),
    /// On these CPUs, ascending, such as those of a NUMA node; the operating system moves it among them.
    Among(Arc<[usize]>),
    /// On all that its process may use; the operating system moves it as it likes.
    Anywhere,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seat::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Seat::Among(cpus) => write!(f, "CPUs {cpus:?}"),
            Seat::Anywhere => f.write_str("any CPU"),
        }
    }
}

impl Seat {
    /// The CPU of a seat that has one.
    #[must_use]
    pub fn cpu(&self) -> Option<usize> {
        match self {
            Seat::Cpu(cpu) => Some(*cpu),
            Seat::Among(_) | Seat::Anywhere => None,
        }
    }

    /// Puts the calling thread there and reads back where it may run.
    ///
    /// # Errors
    /// As [`pin_current_thread`], [`restrict_current_thread`] and [`allowed_cpus`].
    pub fn take(&self) -> io::Result<Vec<usize>> {
        match self {
            Seat::Cpu(cpu) => pin_current_thread(*cpu)?,
            Seat::Among(cpus) => restrict_current_thread(cpus)?,
            Seat::Anywhere => {}
        }
        let may = allowed_cpus()?;
        match self {
            Seat::Among(cpus) if may != **cpus => {
                Err(io::Error::other(format!("it was confined to {self} and may run on {may:?}")))
            }
            _ => Ok(may),
        }
    }
}

/// Pins the calling thread to `cpu`, and reads back that it is.
///
/// # Errors
/// As [`pin_thread`].
pub fn pin_current_thread(cpu: usize) -> io::Result<()> {
    pin_thread(THIS_THREAD, cpu)
}

/// Pins the thread of this number, of whichever process, to `cpu`, and reads back that it is.
///
/// # Errors
/// `InvalidInput` when the number is beyond what a cpu_set_t holds, else what `sched_setaffinity(2)` gives; `Other` when the
/// kernel took the call and the thread may run elsewhere all the same.
pub fn pin_thread(thread: libc::pid_t, cpu: usize) -> io::Result<()> {
    restrict(thread, &set_of(&[cpu])?)?;
    match cpus_of(thread)?.as_slice() {
        [only] if *only == cpu => Ok(()),
        others => Err(io::Error::other(format!("it was pinned to CPU {cpu} and may run on {others:?}"))),
    }
}

/// Lets the calling thread, and whatever it starts from now on, run on `cpus` alone.
///
/// # Errors
/// `InvalidInput` when a number is beyond what a cpu_set_t holds, else what `sched_setaffinity(2)` gives.
pub fn restrict_current_thread(cpus: &[usize]) -> io::Result<()> {
    restrict(THIS_THREAD, &set_of(cpus)?)
}

/// These CPUs as the kernel takes them.
pub(crate) fn set_of(cpus: &[usize]) -> io::Result<libc::cpu_set_t> {
    // SAFETY: a cpu_set_t is plain bits; all zeros is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &cpu in cpus {
        if cpu >= 8 * mem::size_of::<libc::cpu_set_t>() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no CPU has the number {cpu}")));
        }
        // SAFETY: CPU_SET writes the bit `cpu`, checked above to be inside `set`.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    Ok(set)
}

/// Lets a thread run on these CPUs alone. Async-signal-safe: a child may call it before it becomes its program.
pub(crate) fn restrict(thread: libc::pid_t, set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `set` is a cpu_set_t of the size that is passed, and lives through the call.
    checked(unsafe { libc::sched_setaffinity(thread, mem::size_of::<libc::cpu_set_t>(), set) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_its_cpu_alone() {
        let cpu = *allowed_cpus().expect("affinity").last().expect("at least one CPU");
        std::thread::spawn(move || {
            pin_current_thread(cpu).expect("an allowed CPU");
            assert_eq!(allowed_cpus().expect("affinity"), [cpu]);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_seat_says_where_its_thread_may_run() {
        let all = allowed_cpus().expect("affinity");
        let cpu = all[0];
        let take =
            move |seat: Seat| std::thread::spawn(move || seat.take().expect("allowed")).join().expect("no panic");
        assert_eq!(take(Seat::Cpu(cpu)), [cpu]);
        assert_eq!(take(Seat::Anywhere), all);
        let among = |cpus: &[usize]| Seat::Among(cpus.into());
        assert_eq!((take(among(&all)), take(among(&[cpu]))), (all.clone(), vec![cpu]));
        assert_eq!((among(&[0, 1, 65]).to_string(), among(&[0]).cpu()), ("CPUs [0, 1, 65]".to_owned(), None));
        assert!(among(&[1 << 20]).take().is_err());
    }

    #[test]
    fn a_cpu_that_cannot_exist_is_refused() {
        assert!(pin_current_thread(1 << 20).is_err());
    }
}
