//! The virtual machine of this process: KVM's handle, the guest's memory, and what all virtual processors have in common.
//!
//! A machine belongs to one address space. The child of a fork opens another over its copy of the memory; the child of a
//! vfork shares its parent's. A machine is opened while no other thread exists, or none that enters the guest.

use crate::runner::arena::{ARENA, SLOT_BYTES, VCPUS};
use crate::runner::descriptors::DESCRIPTORS;
use crate::runner::fatal::Fatal;
use crate::runner::kvm::{self, Cpuid, Failed};
use crate::runner::lock::Lock;
use crate::runner::mailbox::{self, Calls};
use crate::runner::space::{self, Filled, Space};
use crate::runner::sys::{self, Errno};
use baremark_microvm::supervisor::{self, Area};
use baremark_microvm::{layout, registers};
use baremark_model::page_size::PageSize;
use std::arch::x86_64::__cpuid_count;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Where in the supervisor area the instruction lies that returns to ring 3: behind the exception stubs.
pub(crate) const RETURN_STUB: u64 = layout::STUBS + layout::VECTORS as u64 * 16;
/// `iretq`.
const IRETQ: [u8; 2] = [0x48, 0xcf];
/// Bytes of extended state that the runner's records have room for.
pub(crate) const EXTENDED_STATE: usize = 4096;
/// The extensions without which no program can run, by their numbers and names in `linux/kvm.h`.
const NEEDED: [(u32, &str); 6] = [
    (kvm_bindings::KVM_CAP_USER_MEMORY, "KVM_CAP_USER_MEMORY"),
    (kvm_bindings::KVM_CAP_SYNC_MMU, "KVM_CAP_SYNC_MMU"),
    (kvm_bindings::KVM_CAP_SYNC_REGS, "KVM_CAP_SYNC_REGS"),
    (kvm_bindings::KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT"),
    (kvm_bindings::KVM_CAP_XCRS, "KVM_CAP_XCRS"),
    (kvm_bindings::KVM_CAP_XSAVE, "KVM_CAP_XSAVE"),
];

/// The machine.
pub(crate) struct Machine {
    pub(crate) kvm: AtomicI32,
    pub(crate) vm: AtomicI32,
    /// Bytes that a virtual processor shares.
    pub(crate) shared_bytes: AtomicU64,
    pub(crate) xcr0: AtomicU64,
    /// Bytes of extended state with the parts that are on.
    extended_bytes: AtomicU32,
    most_vcpus: AtomicU32,
    small_pages: AtomicBool,
    cpuid: UnsafeCell<Cpuid>,
    space: Lock<Space>,
}

// SAFETY: `cpuid` is written by `start` alone, before there is a second thread; all else is atomic or under a lock.
unsafe impl Sync for Machine {}

/// The process's own.
pub(crate) static MACHINE: Machine = Machine {
    kvm: AtomicI32::new(-1),
    vm: AtomicI32::new(-1),
    shared_bytes: AtomicU64::new(0),
    xcr0: AtomicU64::new(0),
    extended_bytes: AtomicU32::new(0),
    most_vcpus: AtomicU32::new(0),
    small_pages: AtomicBool::new(false),
    cpuid: UnsafeCell::new(Cpuid::new()),
    space: Lock::new(Space::new()),
};

impl Machine {
    /// Learns from `kvm` what it offers. Once, before there is a second thread.
    pub(crate) fn start(&self, kvm: i32, page: PageSize) -> Result<(), Fatal> {
        match kvm::api_version(kvm)? {
            kvm::API_VERSION => {}
            found => return Err(Fatal::ApiVersion { found }),
        }
        if let Some((_, name)) = NEEDED.iter().find(|(number, _)| kvm::extension(kvm, *number) == 0) {
            return Err(Fatal::Capability { name });
        }
        let cpuid = Cpuid::supported(kvm)?;
        self.kvm.store(kvm, Ordering::Relaxed);
        self.shared_bytes.store(kvm::shared_bytes(kvm)?, Ordering::Relaxed);
        self.xcr0.store(registers::xcr0(cpuid.entries()), Ordering::Relaxed);
        self.extended_bytes.store(extended_bytes(self.xcr0.load(Ordering::Relaxed)), Ordering::Relaxed);
        self.small_pages.store(page == PageSize::Small, Ordering::Relaxed);
        let most = kvm::extension(kvm, kvm_bindings::KVM_CAP_MAX_VCPUS).unsigned_abs();
        self.most_vcpus.store(most.clamp(1, VCPUS as u32), Ordering::Relaxed);
        let state = kvm::extension(kvm, kvm_bindings::KVM_CAP_XSAVE2).unsigned_abs();
        if state as usize > EXTENDED_STATE || self.extended_bytes() > EXTENDED_STATE {
            return Err(Fatal::ExtendedState { bytes: state.max(self.extended_bytes.load(Ordering::Relaxed)) });
        }
        // SAFETY: no other thread exists yet, by this function's contract.
        unsafe { *self.cpuid.get() = cpuid };
        Ok(())
    }

    /// Opens a virtual machine over this process's memory, with a fresh supervisor area and no virtual processor.
    pub(crate) fn open(&self) -> Result<(), Fatal> {
        self.space.forget_holder();
        mailbox::begin();
        let vm = DESCRIPTORS.take(kvm::create_vm(self.kvm.load(Ordering::Relaxed))?)?;
        self.vm.store(vm, Ordering::Relaxed);
        kvm::set_own_pages(vm)?;
        let area = area()?;
        area.install_shared();
        area.put(RETURN_STUB, &IRETQ);
        self.space.with(|space| {
            space.begin(vm, self.page(), registers::physical_bits(self.cpuid().entries()))?;
            supervisor::shared_pages().try_for_each(|page| space.map_own(page, false))?;
            space.map_own(layout::SYSCALL_STUB, true)
        })?;
        Ok(())
    }

    /// Prepares the supervisor area for virtual processor `index`, which may leave these calls to a polling thread.
    pub(crate) fn install_vcpu(&self, index: usize, calls: &Calls) -> Result<(), Fatal> {
        area()?.install_rank(index);
        self.space.with(|space| supervisor::rank_pages(index).try_for_each(|page| space.map_own(page, false)))?;
        if mailbox::is_chosen() { self.install_mailbox(index, calls) } else { Ok(()) }
    }

    /// Prepares a stub of its own for virtual processor `index`, and the mailbox behind it.
    fn install_mailbox(&self, index: usize, calls: &Calls) -> Result<(), Fatal> {
        let stub = self.space.with(|space| {
            let stub = space.take_pages(mailbox::PAGES)?;
            (0..mailbox::PAGES).try_for_each(|page| space.map_own(stub + page * mailbox::PAGE, true))?;
            Ok::<_, space::Refusal>(stub)
        })?;
        area()?.put(stub, mailbox::code());
        mailbox::open(index, ARENA.area() + stub, calls);
        Ok(())
    }

    /// Gives the guest every page of `range`.
    pub(crate) fn cover(&self, range: &Range<u64>) -> Result<Filled, Fatal> {
        Ok(self.space.with(|space| space.cover(range))?)
    }

    /// Gives the guest a range that was just mapped, unless it has it, or it is so large that most of it may never be used.
    pub(crate) fn cover_new(&self, range: &Range<u64>) -> Result<(), Fatal> {
        let small = range.end - range.start <= SLOT_BYTES && self.page() == PageSize::Large;
        if small && !(space::has_block(range.start) && space::has_block(range.end - 1)) {
            self.cover(range)?;
        }
        Ok(())
    }

    /// What the guest's processor reports.
    pub(crate) fn cpuid(&self) -> &Cpuid {
        // SAFETY: written by `start` alone, which is over.
        unsafe { &*self.cpuid.get() }
    }

    /// Whether the program may set its thread pointer by an instruction.
    pub(crate) fn has_fsgsbase(&self) -> bool {
        self.cpuid().entries().iter().any(|leaf| leaf.function == 7 && leaf.index == 0 && leaf.ebx & 1 != 0)
    }

    /// Bytes of extended state.
    pub(crate) fn extended_bytes(&self) -> usize {
        self.extended_bytes.load(Ordering::Relaxed) as usize
    }

    /// The most virtual processors that KVM gives one machine.
    pub(crate) fn most_vcpus(&self) -> u32 {
        self.most_vcpus.load(Ordering::Relaxed)
    }

    /// Page size of the guest's leaf entries.
    pub(crate) fn page(&self) -> PageSize {
        if self.small_pages.load(Ordering::Relaxed) { PageSize::Small } else { PageSize::Large }
    }
}

/// The supervisor area, to be written.
fn area() -> Result<Area, Fatal> {
    let start = ptr::with_exposed_provenance_mut::<u8>(ARENA.area() as usize);
    let start = NonNull::new(start).ok_or(Fatal::Memory { errno: Errno(libc::ENOMEM) })?;
    // SAFETY: the area is mapped readable and writable for the life of the process; what a virtual processor reads of it
    // was written before that processor was made, and is not written again.
    Ok(unsafe { Area::new(start, ARENA.area_bytes() as usize) })
}

impl From<Failed> for Fatal {
    fn from(failed: Failed) -> Self {
        Fatal::Kvm { call: failed.call, errno: failed.errno }
    }
}

impl From<space::Refusal> for Fatal {
    fn from(refusal: space::Refusal) -> Self {
        match refusal {
            space::Refusal::TablesFull => Fatal::TablesFull,
            space::Refusal::PhysicalFull => Fatal::PhysicalFull,
            space::Refusal::Kvm(failed) => failed.into(),
        }
    }
}

impl From<Errno> for Fatal {
    fn from(errno: Errno) -> Self {
        Fatal::Memory { errno }
    }
}

/// Bytes of the standard format of XSAVE with the parts in `xcr0` (Intel SDM volume 1, 13.4.3): leaf 0xd gives size and
/// place of each part from the third on.
fn extended_bytes(xcr0: u64) -> u32 {
    const LEGACY_AND_HEADER: u32 = 576;
    let parts = (2..63u32).filter(|part| xcr0 >> part & 1 != 0).map(|part| __cpuid_count(0xd, part));
    parts.map(|leaf| leaf.eax + leaf.ebx).fold(LEGACY_AND_HEADER, u32::max)
}

/// Opens the device of every KVM.
pub(crate) fn open_device() -> Result<i32, Errno> {
    sys::open(c"/dev/kvm", libc::O_RDWR | libc::O_CLOEXEC)
}
