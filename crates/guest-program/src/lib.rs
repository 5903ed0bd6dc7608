//! Any x86-64 Linux program in ring 3 of a virtual machine, without an image and without a guest kernel.
//!
//! A *runner* process loads the program into its own address space and enters it on a virtual processor whose page tables
//! map every address to itself. System calls leave the guest and are carried out by the host's kernel, for the same process,
//! with the same memory, descriptors and signals. So the program computes under CPU and MMU virtualization, while its
//! devices and its kernel are the host's: the result is a lower bound on what a virtual machine costs, and is labelled so.
//!
//! It is a measuring device and not a sandbox: a program has the rights that it would have natively, and could reach the
//! runner's memory if it meant to. By accident it does not: what belongs to the runner is kept apart (see below).
//!
//! # Use
//! [`Command`] starts a program, [`Child`] waits for it, [`Report`] has its exit status and [`Counters`]. The executable that
//! calls this crate is the runner: it is started again, and recognised before its `main`. [`Costs`] are the measured costs of
//! a forwarded call and of an exit here, from which the share of the run time follows that exits explain.
//!
//! # What works, and what is refused by name
//! Static and dynamic programs, threads (more than there are virtual processors), signals, fork, vfork, exec, pipes, scripts.
//! Refused, and reported in [`Counters::unsupported`]: processes that share memory other than by vfork, tracing, programs
//! that are not 64-bit x86, set-user-ID programs, filters of system calls. `clone3` and restartable sequences do not exist,
//! which libraries expect of older kernels.
//!
//! # How it is built
//! - `command`, `record`, `counters`, `costs`: the launcher's side.
//! - `options`, `shared`: what both sides know.
//! - `runner`: the process that carries the program. In it: `start`, `program`, `elf`, `stack` begin; `machine`, `space`,
//!   `pool` are the virtual machine; `guest`, `faults`, `step`, `signals`, `calls` are a thread's life.
//!
//! # What was not tried
//! All tests ran on a PVM back end, whose SYSCALL stays in ring 3. The other route, for a processor's own virtualization
//! (VMX, SVM), is built by the manuals: SYSCALL's stub in ring 0, and `iretq` from a frame written by the runner. It is
//! chosen by a look at the ring at the first call and is labelled untried in [`Counters::route`].
#![expect(unsafe_code, reason = "a virtual machine monitor and a loader: system calls, shared memory, machine code")]

mod command;
mod costs;
mod counters;
mod error;
mod options;
mod record;
mod runner;
mod shared;
pub mod workload;

pub use command::{Child, Command, Output, Report};
pub use costs::{Cost, Costs, Explained};
pub use counters::{Counters, FORMAT, FORMAT_VERSION, Route, Unsupported, UnsupportedKind};
pub use error::{Activity, Error, Stand};
