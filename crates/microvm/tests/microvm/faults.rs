//! What a body must not do becomes an error, and the machine can be used again.

use crate::bodies::Each;
use crate::support::{one, ranks_on, turn, two, two_cpus};
use baremark_microvm::{Config, Microvm};
use baremark_model::seam::{Executor, Fault};
use baremark_model::team::Team;
use std::arch::asm;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The vector and address of the exception that `fault` ends in; the machine must work afterwards.
fn exception_of(vm: &mut Microvm, fault: impl Fn() + Sync) -> (u8, u64) {
    let error = vm.run(&Each(|_, _: &_, _| fault()), 1).unwrap_err();
    works(vm);
    match error {
        Fault::Exception { vector, address, rip, name, .. } => {
            assert!(rip != 0 && name.starts_with('#'), "{rip:#x} {name}");
            (vector, address)
        }
        other => panic!("not an exception: {other:?}"),
    }
}

/// The machine runs a body on every rank.
pub fn works(vm: &mut Microvm) {
    let count = AtomicU64::new(0);
    let record = vm
        .run(
            &Each(|_, _: &_, reps| {
                count.fetch_add(reps, Ordering::Relaxed);
            }),
            5,
        )
        .unwrap();
    assert_eq!(count.into_inner(), 5 * vm.facts().ranks as u64);
    assert_eq!(record.audit.ranks_inside, vm.facts().ranks);
}

/// One word somewhere, perhaps where nothing is.
#[derive(Clone, Copy)]
struct Place(usize);

impl Place {
    fn mapped(protection: i32) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), 4096, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Place(start.expose_provenance())
    }

    fn unmap(self) {
        // SAFETY: the place comes from `mapped` and no reference to it exists.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.0), 4096) };
    }

    fn read(self) -> u64 {
        // SAFETY: inside the machine a read of what is not there ends the run, which is what is tested.
        unsafe { ptr::read_volatile(ptr::with_exposed_provenance(self.0)) }
    }

    fn look(self) {
        std::hint::black_box(self.read());
    }

    fn write(self) {
        // SAFETY: as in `read`; what is there belongs to the test alone.
        unsafe { ptr::write_volatile(ptr::with_exposed_provenance_mut(self.0), 1u64) };
    }
}

#[test]
fn what_the_processor_refuses_is_an_exception() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    // SAFETY: stops in the guest before anything else is executed, which is what is tested; so do the following.
    assert_eq!(exception_of(&mut vm, || unsafe { asm!("ud2") }).0, 6);
    // SAFETY: as above.
    let divide = || unsafe { asm!("xor edx, edx", "mov eax, 1", "div edx", out("eax") _, out("edx") _) };
    assert_eq!(exception_of(&mut vm, divide).0, 0);
    // SAFETY: as above.
    assert_eq!(exception_of(&mut vm, || unsafe { asm!("hlt") }).0, 13);
    // SAFETY: as above.
    assert_eq!(exception_of(&mut vm, || unsafe { asm!("int3") }).0, 3);
    assert_eq!(exception_of(&mut vm, || Place(1 << 63).look()).0, 13);
    // SAFETY: as above: a port that is ours, which must not be taken for an exception, and one that is nobody's.
    let forged = vm.run(&Each(|_, _: &_, _| unsafe { asm!("out 0x2e, al") }), 1).unwrap_err();
    assert!(matches!(forged, Fault::Executor { .. }), "{forged}");
    works(&mut vm);
    assert_eq!(vm.facts().notes["rebuilt"], "1", "after what no reset is sure to undo, the machine is made anew");
    // SAFETY: as above.
    assert_eq!(exception_of(&mut vm, || unsafe { asm!("out 0x80, al") }).0, 13);
}

#[test]
fn what_is_not_mapped_is_a_page_fault() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    assert_eq!(exception_of(&mut vm, || Place(8).look()), (14, 8));
    assert_eq!(exception_of(&mut vm, || Place(0xffff_ffff_8000_0000).look()).0, 14);
    let gone = Place::mapped(libc::PROT_READ | libc::PROT_WRITE);
    vm.run(&Each(|_, _: &_, _| gone.write()), 1).unwrap();
    gone.unmap();
    assert_eq!(exception_of(&mut vm, || gone.look()).0, 14);
}

#[test]
fn rights_are_the_hosts() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    let constant = Place::mapped(libc::PROT_READ);
    vm.run(&Each(|_, _: &_, _| assert_eq!(constant.read(), 0)), 1).unwrap();
    assert_eq!(exception_of(&mut vm, || constant.write()).0, 14);
    assert_eq!(exception_of(&mut vm, || Place::mapped(libc::PROT_NONE).look()).0, 14);
}

#[test]
fn a_stack_that_overflows_ends_at_its_guard() {
    let Some(_turn) = turn() else { return };
    #[expect(unconditional_recursion, reason = "to overflow the stack")]
    #[inline(never)]
    fn deeper(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 512]);
        deeper(frame[7] + 1) + frame[9]
    }
    let mut vm = one();
    assert_eq!(
        exception_of(&mut vm, || {
            std::hint::black_box(deeper(0));
        })
        .0,
        14
    );
}

#[test]
fn the_next_run_starts_from_clean_registers() {
    let Some(_turn) = turn() else { return };
    let mut vm = one();
    let control: u32 = 0x1f80 | 0x6000;
    // SAFETY: changes registers that the next run must not see, then stops in the guest.
    let spoil = || unsafe { asm!("ldmxcsr [{}]", "std", "fld1", "fld1", "ud2", in(reg) &raw const control) };
    assert_eq!(exception_of(&mut vm, spoil).0, 6);
    let found = Mutex::new((0u32, 0u64, 0u16));
    let look = || {
        let (mut mxcsr, mut flags, mut status) = (0u32, 0u64, 0u16);
        // SAFETY: stores three registers into three locals.
        unsafe {
            asm!("stmxcsr [{}]", "pushfq", "pop {}", "fnstsw [{}]", in(reg) &raw mut mxcsr, inout(reg) flags,
                 in(reg) &raw mut status);
        }
        (mxcsr & 0x6000, flags & 0x400, status & 0x3800)
    };
    vm.run(&Each(|_, _: &_, _| *found.lock().unwrap() = look()), 1).unwrap();
    assert_eq!(*found.lock().unwrap(), (0, 0, 0), "rounding mode, direction flag, top of the x87 stack");
}

#[test]
fn one_ranks_fault_frees_the_others_from_the_barrier() {
    let Some(_turn) = turn() else { return };
    let watchdog = Duration::from_secs(120);
    let mut vm = Microvm::start(&Config { watchdog, ..ranks_on(&two_cpus()) }).unwrap();
    for faulty in [0, 1, 0] {
        let body = Each(|rank, team: &Team, _| {
            if rank == faulty {
                Place(8).write();
            }
            team.barrier();
        });
        let begun = Instant::now();
        let fault = vm.run(&body, 1).unwrap_err();
        assert!(matches!(fault, Fault::Exception { rank, vector: 14, address: 8, .. } if rank == faulty), "{fault}");
        assert!(begun.elapsed() < watchdog, "the watchdog freed them");
        works(&mut vm);
    }
}

#[test]
fn a_panic_is_caught_inside() {
    let Some(_turn) = turn() else { return };
    let mut vm = two();
    let body = Each(|rank, team: &Team, _| {
        assert!(rank != 1, "on purpose, in the machine");
        team.barrier();
    });
    assert_eq!(vm.run(&body, 1).unwrap_err(), Fault::Panicked { rank: 1 });
    works(&mut vm);
}
