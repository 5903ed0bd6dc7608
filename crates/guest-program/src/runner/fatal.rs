//! Why a runner cannot begin or go on, and how it ends then.
//!
//! The message goes to the program's standard error and into the shared record, where the launcher finds it. The runner's
//! threads must not allocate, so texts are built in memory of their own.

use crate::options::Line;
use crate::runner::counter_page;
use crate::runner::sys::{self, Errno};
use std::fmt;

/// A reason to end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fatal {
    /// The options are not of this version.
    Options,
    /// No `/dev/kvm`, or not for us.
    Device { errno: Errno },
    /// Another interface.
    ApiVersion { found: i32 },
    /// KVM does not support an extension.
    Capability { name: &'static str },
    /// The processor's extended state is larger than foreseen.
    ExtendedState { bytes: u32 },
    /// A call to KVM failed.
    Kvm { call: &'static str, errno: Errno },
    /// Copies within this process are forbidden.
    Copies,
    /// Memory or descriptors of the runner's own.
    Memory { errno: Errno },
    /// No page for the guest's tables.
    TablesFull,
    /// No guest-physical address or memory slot.
    PhysicalFull,
    /// KVM left the guest for a reason that nothing here causes.
    Exit { reason: u32, suberror: u32, rip: u64 },
    /// The guest faults again and again where it should not.
    NoProgress { rip: u64, address: u64, exits: u32 },
    /// The runner itself broke.
    Broken { what: &'static str, at: u64 },
}

/// The exit code of a runner that could not continue.
pub(crate) const EXIT_FAILED: i32 = 125;
/// The exit code when the program cannot be executed.
pub(crate) const EXIT_CANNOT_EXECUTE: i32 = 126;
/// The exit code when there is no such program.
pub(crate) const EXIT_NOT_FOUND: i32 = 127;

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fatal::Options => {
                write!(f, "the runner's options are of another version: use one baremark for all of a run")
            }
            Fatal::Device { errno: Errno(libc::ENOENT | libc::ENXIO | libc::ENODEV) } => {
                write!(f, "/dev/kvm does not exist: load kvm_intel or kvm_amd (modprobe)")
            }
            Fatal::Device { errno } => {
                write!(f, "/dev/kvm cannot be opened (error {}): add the user to group kvm", errno.0)
            }
            Fatal::ApiVersion { found: ..0 } => {
                f.write_str("/dev/kvm is not a KVM device, for it does not answer KVM_GET_API_VERSION")
            }
            Fatal::ApiVersion { found } => write!(f, "KVM speaks API version {found}, needed is 12"),
            Fatal::Capability { name } => write!(f, "KVM does not support {name}: use Linux 5.0 or later"),
            Fatal::ExtendedState { bytes } => {
                write!(f, "the processor's extended state has {bytes} bytes, at most 4096 are supported")
            }
            Fatal::Kvm { call, errno } => write!(f, "{call} failed (error {}): see dmesg", errno.0),
            Fatal::Memory { errno } => {
                write!(f, "no memory or descriptors for the microVM (error {}): raise ulimit -v and -n", errno.0)
            }
            Fatal::Copies => {
                write!(f, "process_vm_readv is forbidden here: allow it in the container's seccomp profile")
            }
            Fatal::TablesFull => write!(f, "no page left for guest page tables: use pages of 2 MiB or less memory"),
            Fatal::PhysicalFull => write!(f, "the guest's physical address space is used up: use less memory"),
            Fatal::Exit { reason, suberror, rip } => {
                write!(f, "KVM left the guest for reason {reason}, suberror {suberror}, at {rip:#x}: see dmesg")
            }
            Fatal::NoProgress { rip, address, exits } => {
                write!(f, "no progress: {exits} exits in a row at {rip:#x}, address {address:#x}")
            }
            Fatal::Broken { what, at } => write!(f, "{what} in the runner at {at:#x}: this is a defect of baremark"),
        }
    }
}

/// Ends this process with a message; nothing of the program continues.
pub(crate) fn end(fatal: Fatal) -> ! {
    end_with(EXIT_FAILED, format_args!("{fatal}"))
}

/// Ends this process with `code` and a message.
pub(crate) fn end_with(code: i32, message: fmt::Arguments<'_>) -> ! {
    let text = Line::<512>::of(message);
    if let Some(shared) = counter_page::if_started() {
        shared.fail(code, text.as_str());
    }
    sys::write(2, Line::<600>::of(format_args!("baremark: guest: {}\n", text.as_str())).as_bytes());
    sys::exit_group(code)
}

/// What a panic of the runner does: it ends the process. The default hook would take libc's locks.
pub(crate) fn on_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map_or(("?", 0), |place| (place.file(), place.line()));
    let text = panic.payload_as_str().unwrap_or("panic");
    end_with(EXIT_FAILED, format_args!("{text} ({}:{}): this is a defect of baremark", place.0, place.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_what_helps() {
        let missing = Fatal::Device { errno: Errno(libc::ENOENT) }.to_string();
        assert_eq!(missing, "/dev/kvm does not exist: load kvm_intel or kvm_amd (modprobe)");
        let denied = Fatal::Device { errno: Errno(libc::EACCES) }.to_string();
        assert!(denied.contains("group kvm") && denied.contains("13"), "{denied}");
    }
}
