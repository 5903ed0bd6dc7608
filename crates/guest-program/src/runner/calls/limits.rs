//! Limits that the program sees and sets as if the runner were not there.
//!
//! The runner needs descriptors and address space alongside the program's. So the real limits of open files, address space
//! and data are raised by what it needs, where the hard limit allows that, and the program sees them without. The child of
//! a vfork has the real ones of its own, so it has its own of these (`Process::limits`).

use crate::options::{Limit, Options};
use crate::runner::arena::ARENA;
use crate::runner::calls::outcome::{Outcome, forward};
use crate::runner::config::CONFIG;
use crate::runner::descriptors::{DESCRIPTORS, ROOM};
use crate::runner::own_limits::OwnLimits;
use crate::runner::sys::{self, Errno};
use crate::runner::thread::{Process, Thread};
use crate::runner::user;
use std::ptr;
use std::sync::atomic::Ordering;

/// Above this a program's own limit of open files is so high that numbers behind it would make the kernel's tables large.
const HIGHEST_FIRST: u64 = 4096;
const INFINITY: u64 = u64::MAX;

/// Lets those know of the program's limit of open files who hold no lock: they know of one process alone.
fn publish(limits: &OwnLimits, process: &Process) {
    if ptr::eq(process, CONFIG.process()) {
        DESCRIPTORS.set_end_of_program(limits.files.map_or(INFINITY, |files| files.soft));
    }
}

/// Makes room for the runner's descriptors, before it opens any that are to stay.
pub(crate) fn start(options: &Options) {
    let own = real(libc::RLIMIT_NOFILE);
    let files = options.files.unwrap_or(own);
    let first = files.soft.min(HIGHEST_FIRST);
    let raised = Limit { soft: own.soft.max(first + ROOM as u64), hard: own.hard.max(first + ROOM as u64) };
    let set = raised == own || set_real(libc::RLIMIT_NOFILE, raised).is_ok();
    // Without the right to more, the highest numbers of the program's own are taken.
    let first = if set { first } else { own.soft.saturating_sub(64) };
    DESCRIPTORS.begin(i32::try_from(first).unwrap_or(0));
    CONFIG.process().limits.with(|limits| {
        limits.files = (set && raised != files).then_some(files);
        (limits.address_space, limits.data) = (options.address_space, options.data);
        publish(limits, CONFIG.process());
    });
}

/// Enters what the next runner must know.
pub(crate) fn tell(process: &Process, options: &mut Options) {
    let limits = process.limits.with(|limits| *limits);
    (options.files, options.address_space, options.data) = (limits.files, limits.address_space, limits.data);
}

/// The lowest number that a descriptor of the program must not have; `None` where the kernel sees to it.
pub(crate) fn end_of_files(process: &Process) -> Option<u64> {
    if !ptr::eq(process, CONFIG.process()) {
        return process.limits.with(|limits| limits.files).map(|files| files.soft);
    }
    Some(DESCRIPTORS.end_of_program()).filter(|end| *end != INFINITY)
}

/// How long a program's first stack may be.
pub(crate) fn stack() -> u64 {
    real(libc::RLIMIT_STACK).soft
}

/// Whether the size of the program's files is limited.
pub(crate) fn has_file_size() -> bool {
    real(libc::RLIMIT_FSIZE).soft != INFINITY
}

/// Does the runner's own `work` on memory, for which a program that has more than its limit by now leaves no room.
pub(crate) fn with_room<R>(process: &Process, work: impl FnOnce() -> R) -> R {
    let limited = process.limits.with(|limits| limits.address_space.is_some() || limits.data.is_some());
    if !limited {
        return work();
    }
    let resources = [libc::RLIMIT_AS, libc::RLIMIT_DATA];
    let before = resources.map(real);
    for (resource, Limit { hard, .. }) in resources.into_iter().zip(before) {
        // What may not be raised is not; the work finds out.
        let _ = set_real(resource, Limit { soft: hard, hard });
    }
    let result = work();
    for (resource, limit) in resources.into_iter().zip(before) {
        let _ = set_real(resource, limit);
    }
    result
}

/// `getrlimit`.
pub(crate) fn get(thread: &Thread, resource: u64, to: u64) -> Result<u64, Errno> {
    let limit = seen(thread.process(), resource)?;
    user::write_words(thread.process(), to, &[limit.soft, limit.hard]).map(|()| 0)
}

/// `setrlimit`.
pub(crate) fn set(thread: &Thread, resource: u64, from: u64) -> Result<u64, Errno> {
    let [soft, hard] = user::read_words(thread.process(), from)?;
    change(thread.process(), resource, Limit { soft, hard }).map(|()| 0)
}

/// `prlimit64`: of this process as above, of others by the host.
pub(crate) fn get_and_set(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    let [pid, resource, new, old, ..] = *arguments;
    let own = thread.process().pid.load(Ordering::Relaxed);
    if pid != 0 && pid != u64::from(own) {
        return forward(thread, libc::SYS_prlimit64.cast_unsigned(), arguments);
    }
    let result = || {
        let before = seen(thread.process(), resource)?;
        if new != 0 {
            set(thread, resource, new)?;
        }
        if old != 0 {
            user::write_words(thread.process(), old, &[before.soft, before.hard])?;
        }
        Ok(0)
    };
    result().into()
}

/// A limit as the program sees it.
fn seen(process: &Process, resource: u64) -> Result<Limit, Errno> {
    let own = process.limits.with(|limits| limits.of(resource).and_then(|limit| *limit));
    match own {
        Some(limit) => Ok(limit),
        None => real_by_number(resource),
    }
}

/// Sets a limit of the program's, and the real one so that the runner keeps what it needs.
fn change(process: &Process, resource: u64, limit: Limit) -> Result<(), Errno> {
    let before = seen(process, resource)?;
    let need = match u32::try_from(resource) {
        Ok(libc::RLIMIT_NOFILE) => ROOM as u64,
        Ok(libc::RLIMIT_AS) => ARENA.bytes(),
        Ok(libc::RLIMIT_DATA) => ARENA.data_bytes(),
        _ => return set_real_by_number(resource, limit),
    };
    if limit.soft > limit.hard {
        return Err(Errno(libc::EINVAL));
    }
    if limit.hard > before.hard && !may_raise_limits() {
        return Err(Errno(libc::EPERM));
    }
    let real = real_by_number(resource)?;
    let raised = |value: u64| value.saturating_add(need);
    let mut wanted = Limit { soft: raised(limit.soft), hard: raised(limit.hard) };
    if resource == u64::from(libc::RLIMIT_NOFILE) {
        // Numbers that the runner has must stay valid.
        let least = DESCRIPTORS.end();
        (wanted.soft, wanted.hard) = (wanted.soft.max(least), wanted.hard.max(least));
    }
    // The real hard limit stays: a runner may need more than the program has set for itself (`with_room`).
    if resource != u64::from(libc::RLIMIT_NOFILE) {
        wanted.hard = wanted.hard.max(real.hard);
    }
    if !may_raise_limits() {
        wanted = Limit { soft: wanted.soft.min(real.hard), hard: wanted.hard.min(real.hard) };
    }
    set_real_by_number(resource, wanted)?;
    process.limits.with(|limits| {
        if let Some(seen) = limits.of(resource) {
            *seen = (wanted != limit).then_some(limit);
        }
        publish(limits, process);
    });
    Ok(())
}

/// Whether this process may raise hard limits: CAP_SYS_RESOURCE.
fn may_raise_limits() -> bool {
    const VERSION: u32 = 0x2008_0522;
    const CAP_SYS_RESOURCE: u32 = 24;
    let header = [VERSION, 0];
    let mut data = [0u32; 6];
    // SAFETY: the kernel reads two words and writes six.
    let result = unsafe { sys::raw(libc::SYS_capget, [header.as_ptr() as u64, data.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    result == 0 && data[0] >> CAP_SYS_RESOURCE & 1 != 0
}

fn real(resource: libc::__rlimit_resource_t) -> Limit {
    real_by_number(resource.into()).unwrap_or(Limit { soft: INFINITY, hard: INFINITY })
}

fn real_by_number(resource: u64) -> Result<Limit, Errno> {
    let mut words = [0u64; 2];
    // SAFETY: the kernel writes two words.
    let result = unsafe { sys::raw(libc::SYS_prlimit64, [0, resource, 0, words.as_mut_ptr() as u64, 0, 0]) };
    sys::checked(result).map(|_| Limit { soft: words[0], hard: words[1] })
}

fn set_real(resource: libc::__rlimit_resource_t, limit: Limit) -> Result<(), Errno> {
    set_real_by_number(resource.into(), limit)
}

fn set_real_by_number(resource: u64, limit: Limit) -> Result<(), Errno> {
    let words = [limit.soft, limit.hard];
    // SAFETY: the kernel reads two words; limits touch no memory.
    sys::checked(unsafe { sys::raw(libc::SYS_prlimit64, [0, resource, words.as_ptr() as u64, 0, 0, 0]) }).map(drop)
}
