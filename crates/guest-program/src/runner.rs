//! The process that carries a program: what runs in it alongside the program.
//!
//! A runner is this very executable, started again with a first argument of its own. It is recognised before `main`, so that
//! nothing of Rust's start-up, such as ignoring SIGPIPE, reaches the program.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "x86-64 only: addresses and registers have 64 bits, and the kernel's flags are non-negative"
)]

mod answers;
mod arena;
mod backing;
mod backoff;
mod calls;
mod checkpoint;
mod config;
mod counter_page;
mod counters;
mod deadline;
mod descriptors;
mod elf;
mod fatal;
mod faults;
mod frame;
mod guest;
mod handler;
mod kvm;
mod lock;
mod machine;
mod mailbox;
mod own_limits;
mod permitted;
mod poller;
mod pool;
mod program;
mod restore;
mod run_page;
mod signals;
mod signatures;
mod sockets;
mod space;
mod stack;
mod start;
mod step;
mod sys;
mod thread;
mod user;

use crate::options::RUNNER_NAME;
use std::ffi::{CStr, c_char};

/// Called by libc before `main`, with the process's arguments.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn(i32, *const *const c_char, *const *const c_char) = before_main;

extern "C" fn before_main(count: i32, arguments: *const *const c_char, environment: *const *const c_char) {
    let count = usize::try_from(count).unwrap_or(0);
    if count < 3 {
        return;
    }
    // SAFETY: glibc gives every function of `.init_array` the arguments of `main`, of which there are at least three here.
    let name = unsafe { CStr::from_ptr(*arguments) };
    if name.to_bytes() == RUNNER_NAME.as_bytes() {
        // SAFETY: these are the arguments that the kernel has given, and no second thread exists before `main`.
        unsafe { start::run(count, arguments, environment) }
    }
}
