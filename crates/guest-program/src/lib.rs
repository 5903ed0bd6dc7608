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
//! # Calls without an exit
//! With [`Command::exitless`] a system call whose effect does not depend on the calling thread, and that waits for nobody, does not leave
//! the guest: the stub that SYSCALL enters writes it into a page of its virtual processor and waits in a bounded loop with PAUSE; a polling
//! thread of the same process carries it out. Everything else leaves as without: calls about threads, memory, signals and waiting, pipes,
//! sockets and devices, `/proc`, and files of file systems that are not local. A CPU is spent on the thread while calls come, so at least two
//! are needed. The thread ends before the program changes rights, tables or limits that the kernel keeps for each thread. A program can see
//! it: `/proc` lists one more thread, and its CPU time is the process's.
//!
//! # How it is built
//! - `command`, `record`, `counters`, `costs`: the launcher's side.
//! - `options`, `shared`: what both sides know.
//! - `protected`, `snapshot`, `image`: a program that is stopped for checkpoints and continued by another process.
//! - `runner`: the process that carries the program. In it: `start`, `program`, `elf`, `stack` begin; `machine`, `space`,
//!   `pool` are the virtual machine; `guest`, `faults`, `step`, `signals`, `calls` are a thread's life; `mailbox`, `poller`, `answers`
//!   are calls without an exit.
//!
//! # What was not tried
//! All tests ran on a PVM back end, whose SYSCALL stays in ring 3. The other route, for a processor's own virtualization
//! (VMX, SVM), is built by the manuals: SYSCALL's stub in ring 0, and `iretq` from a frame written by the runner. It is
//! chosen by a look at the ring at the first call, which is in [`Counters::route`]; studies label it as untried until `make verify-kvm` has
//! passed on the machine. The stub of calls without an exit works in both rings and was tried in ring 3 alone; in ring 0 a processor may leave
//! the guest for KVM when a loop of PAUSE takes long. Known from the manuals, and not repaired for want of such a processor: there the C library's
//! `sched_getcpu`, which asks the processor (RDPID or LSL), gives CPU 0 or an arbitrary number, as neither TSC_AUX nor its descriptor is set; and of a
//! program that executes `in` or `out` without the right to, KVM may leave RIP at the instruction, from before which the program is then stepped.
#![expect(unsafe_code, reason = "a virtual machine monitor and a loader: system calls, shared memory, machine code")]

mod call_names;
mod command;
mod costs;
mod counters;
mod error;
pub mod image;
mod options;
pub mod protected;
mod record;
mod runner;
mod shared;
mod snapshot;
pub mod workload;

pub use command::{Child, Command, Output, Report};
pub use costs::{Cost, Costs, Explained};
pub use counters::{Counters, FORMAT, FORMAT_VERSION, Route, Unsupported, UnsupportedKind};
pub use error::{Activity, Error, Stand};
