//! An io_uring of one thread with registered buffers and one registered file.
//!
//! One `io_uring_enter` submits everything that is queued and waits for completions, so a busy queue needs one system call
//! for several I/Os. Completions are processed by the waiting thread itself (`DEFER_TASKRUN`), without interrupting it.
#![expect(unsafe_code, reason = "the kernel reads and writes the buffers between submission and completion")]

use crate::io::buffers::Buffers;
use io_uring::{IoUring, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// What one submission does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read into the slot's buffer.
    Read,
    /// Write the slot's buffer.
    Write,
    /// `fdatasync` of the file.
    Sync,
}

/// A queue with a buffer for each slot. The file stays open as long as this.
pub(crate) struct Ring {
    ring: IoUring,
    buffers: Buffers,
    file: File,
    busy: Vec<bool>,
    in_flight: usize,
    fixed_buffers: bool,
    fixed_file: bool,
}

impl Ring {
    /// A queue of `depth` slots with a buffer of `size` bytes each. It is used by the thread that makes it.
    ///
    /// # Errors
    /// What `io_uring_setup(2)` gives: `PermissionDenied` or `Unsupported` where it is forbidden or absent.
    pub(crate) fn new(file: File, depth: usize, size: usize) -> io::Result<Ring> {
        let entries = u32::try_from(depth.max(1)).unwrap_or(u32::MAX);
        // DEFER_TASKRUN needs Linux 6.1; older kernels get the plain queue.
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_submit_all().build(entries);
        let ring = match ring {
            Err(why) if why.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
            other => other,
        }?;
        let buffers = Buffers::new(depth, size);
        let vectors: Vec<libc::iovec> = (0..buffers.count())
            .map(|slot| libc::iovec { iov_base: buffers.at(slot).cast(), iov_len: buffers.size() })
            .collect();
        // SAFETY: the buffers live in this value, whose `drop` waits for everything in flight before they are freed.
        let fixed_buffers = unsafe { ring.submitter().register_buffers(&vectors) }.is_ok();
        let fixed_file = ring.submitter().register_files(&[file.as_raw_fd()]).is_ok();
        let busy = vec![false; buffers.count()];
        Ok(Ring { ring, buffers, file, busy, in_flight: 0, fixed_buffers, fixed_file })
    }

    /// Whether buffers and file are registered; a limit on locked memory can forbid that.
    pub(crate) fn registered(&self) -> bool {
        self.fixed_buffers && self.fixed_file
    }

    /// I/Os submitted and not completed.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The buffer of an idle slot.
    ///
    /// # Panics
    /// When the slot is in flight.
    pub(crate) fn buffer(&self, slot: usize) -> &[u8] {
        assert!(!self.busy[slot], "slot {slot} is in flight");
        self.buffers.of(slot)
    }

    /// The buffer of an idle slot.
    ///
    /// # Panics
    /// When the slot is in flight.
    pub(crate) fn buffer_mut(&mut self, slot: usize) -> &mut [u8] {
        assert!(!self.busy[slot], "slot {slot} is in flight");
        self.buffers.of_mut(slot)
    }

    /// Queues an I/O of `length` bytes at `offset` for an idle slot; [`Ring::enter`] submits it.
    ///
    /// # Errors
    /// When the queue is full, which slots prevent.
    ///
    /// # Panics
    /// When the slot is in flight, or `length` exceeds its buffer.
    pub(crate) fn queue(&mut self, slot: usize, action: Action, offset: u64, length: usize) -> io::Result<()> {
        assert!(!self.busy[slot] && length <= self.buffers.size(), "slot {slot}, {length} bytes");
        let entry = self.entry(slot, action, offset, length).user_data(slot as u64);
        // SAFETY: the buffer is `length` bytes or longer, belongs to `self`, and is not touched until the completion clears
        // `busy` (`buffer` and `buffer_mut` assert it); `drop` waits for it. The file is open as long as `self`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|full| io::Error::other(full.to_string()))?;
        self.busy[slot] = true;
        self.in_flight += 1;
        Ok(())
    }

    fn entry(&self, slot: usize, action: Action, offset: u64, length: usize) -> squeue::Entry {
        let (at, length) = (self.buffers.at(slot), u32::try_from(length).unwrap_or(u32::MAX));
        let index = u16::try_from(slot).unwrap_or(u16::MAX);
        // A macro, for the two kinds of descriptor are two types.
        macro_rules! for_kind {
            ($descriptor:expr) => {
                match action {
                    Action::Read if self.fixed_buffers => {
                        opcode::ReadFixed::new($descriptor, at, length, index).offset(offset).build()
                    }
                    Action::Read => opcode::Read::new($descriptor, at, length).offset(offset).build(),
                    Action::Write if self.fixed_buffers => {
                        opcode::WriteFixed::new($descriptor, at, length, index).offset(offset).build()
                    }
                    Action::Write => opcode::Write::new($descriptor, at, length).offset(offset).build(),
                    Action::Sync => opcode::Fsync::new($descriptor).flags(types::FsyncFlags::DATASYNC).build(),
                }
            };
        }
        if self.fixed_file { for_kind!(types::Fixed(0)) } else { for_kind!(types::Fd(self.file.as_raw_fd())) }
    }

    /// Submits what is queued and waits until `least` I/Os have completed, or `timeout` is over.
    ///
    /// # Errors
    /// What `io_uring_enter(2)` gives; a timeout and a signal are none.
    pub(crate) fn enter(&mut self, least: usize, timeout: Option<Duration>) -> io::Result<()> {
        let entered = match timeout {
            None => self.ring.submit_and_wait(least),
            Some(timeout) => {
                let time = types::Timespec::new().sec(timeout.as_secs()).nsec(timeout.subsec_nanos());
                let arguments = types::SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(least.max(1), &arguments)
            }
        };
        match entered {
            Ok(_) => Ok(()),
            Err(why) if matches!(why.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {
                Ok(())
            }
            Err(why) => Err(why),
        }
    }

    /// Appends each completion to `into`: the slot, which is idle now, and the bytes transferred or the error.
    pub(crate) fn completions(&mut self, into: &mut Vec<(usize, io::Result<usize>)>) {
        for entry in self.ring.completion() {
            let slot = usize::try_from(entry.user_data()).unwrap_or(usize::MAX);
            let code = entry.result();
            let result = usize::try_from(code).or(Err(code)).map_err(|code| io::Error::from_raw_os_error(-code));
            self.busy[slot] = false;
            self.in_flight -= 1;
            into.push((slot, result));
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.in_flight > 0 {
            self.completions(&mut done);
            if self.in_flight > 0 && self.enter(1, None).is_err() {
                // The kernel may still write to the buffers: they must outlive this.
                std::mem::forget(std::mem::replace(&mut self.buffers, Buffers::new(1, 1)));
                return;
            }
        }
    }
}
