//! A virtual machine that runs this process's own machine code.
//!
//! The guest has no kernel and no image. Its page tables map guest-virtual to host-virtual addresses one to one, each
//! rank's thread owns one vCPU, and a vCPU starts directly in 64-bit ring 3 with the thread's own thread pointer and
//! extended state. So the same bytes of code, over the same data, can be timed natively and virtually in one process, and
//! the ratio holds the cost of CPU and MMU virtualization and nothing else: no tick, no devices, no guest kernel. It is a
//! lower bound on the cost of a virtual machine and is labelled so.
//!
//! # Use
//! ```no_run
//! use baremark_microvm::{Config, Microvm, check_clean};
//! use baremark_model::seam::{Body, Executor};
//! # fn demo(body: &dyn Body, memory: &mut [u64]) -> Result<(), Box<dyn std::error::Error>> {
//! let mut vm = Microvm::start(&Config::new(vec![0, 1]))?;
//! vm.touch(memory)?; // entries on both levels, before anything is timed
//! vm.run(body, 1)?; // warm-in, untimed
//! let record = vm.run(body, 100)?;
//! check_clean(&record, 2, 0.01)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What a body may do
//! Compute, touch memory, and wait at its team's barrier. A rank may wait only for ranks of the same machine: a thread
//! pool, a lock or a channel would silently move the work to threads outside. That a rank was inside is proved by a token
//! that only a guest can send; system calls are forwarded, so that a body that makes one is seen in the audit instead of
//! ending the process; a fault, a panic or a timeout is an error, after which the executor works again. What a body left
//! behind when it was abandoned in the middle (a lock of the allocator, say) stays as it is: a reason to allocate nothing.
//!
//! A rank that its watchdog stops is brought out by a realtime signal (the first from `SIGRTMIN + 8` that has no handler;
//! ours does nothing and restarts no call), repeated every millisecond until the rank has reported. `run` waits for that
//! without limit, because until then the rank may use what it was lent.
//!
//! # How it is built
//! - `layout`, `mapping`, `tables`, `pool`, `space`, `maps`, `image`: memory. Virtual space becomes memslots of 1 GiB.
//! - `supervisor`, `registers`, `tsc`, `exception`: ring 0's few instructions and the state in which a vCPU starts. They and
//!   `layout` are public for `baremark-guest-program`, whose guests are built alike.
//! - `guest`, `vcpu`, `syscall`: what runs inside, and the exit handler around it.
//! - `machine`, `rank`, `kick`, `microvm`: one VM, its threads, the watchdog, the executor.
//! - `ipi`: a machine of its own in which one virtual CPU interrupts another.
//! - `stats`, `clean`, `leaves`, `touch`, `mmu`, `probe`: what was counted, and what the machine is.
//!
//! # What is walked
//! Under nested paging (EPT, NPT) the processor walks the guest's tables and KVM's: guest page size, layout of the guest's
//! tables and host backing all play a part. Under shadow paging it walks one merged table whose leaf is the smaller of
//! both pages; the layout of the guest's tables plays none, and the facts say so (`guest_tables_walked`). The guest's
//! tables themselves lie in host pages of 4 KiB in either case. A native arm to compare with must have the same leaf size
//! *and the same physical memory*: `figures_of_random_access_by_leaf` shows that small entries over contiguous memory of
//! 2 MiB can cost differently from small entries over scattered pages, natively as in the machine.
//!
//! # What was not tried
//! Tests ran on a PVM back end (shadow paging, no hardware virtualization) on a processor with AVX-512. The following
//! holds by architecture and by the kernel's source, and no such host was at hand: `kvm_intel` and `kvm_amd` with EPT or
//! NPT on and off; SYSCALL's stub in ring 0 with SMEP and SMAP off, and SYSRET from it; kernels without
//! `KVM_CAP_MEMORY_FAULT_INFO`, statistics files or `KVM_VCPU_TSC_OFFSET`; processors with AMX (whose state the guest does
//! not get); more than two ranks; more than one NUMA node; guest-physical widths below 40 bits.
//!
//! # Figures
//! `cargo test --release -p baremark-microvm --test measured -- --ignored --nocapture --test-threads=1 figures` prints
//! start-up, empty run, cost of exits, leaves by page size, and random access by leaf. `soak` in `--test microvm` runs everything at once.
#![expect(unsafe_code, reason = "a virtual machine monitor: system calls, shared memory, machine code")]

mod clean;
mod error;
pub mod exception;
mod guest;
mod image;
mod ipi;
mod kick;
mod latch;
pub mod layout;
mod leaves;
mod machine;
mod mapping;
mod maps;
mod microvm;
mod mmu;
mod pool;
mod probe;
mod rank;
pub mod registers;
mod space;
mod stats;
pub mod supervisor;
mod syscall;
mod tables;
mod touch;
mod tsc;
mod vcpu;

pub use clean::{Unclean, check_clean};
pub use error::Error;
pub use ipi::Interrupts;
pub use leaves::{ExpectedLeaves, expected_leaves};
pub use microvm::{Config, Microvm};
pub use mmu::{MmuMode, MmuVirtualization, mmu_virtualization, mmu_virtualization_in};
pub use probe::{Probe, probe, probe_at};
pub use touch::Touch;
