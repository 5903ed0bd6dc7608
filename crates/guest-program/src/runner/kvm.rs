//! KVM's requests, on bare descriptors.
//!
//! A vCPU's descriptor must have a number that the program does not use, its shared page must lie where the runner wants
//! it, and both must survive a fork of the process only as numbers to close. So the requests are made here and not by a
//! crate that owns what it opens. Numbers and structures are those of `linux/kvm.h`.

use crate::runner::sys::{self, Errno};
use kvm_bindings::{
    KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, kvm_cpuid_entry2, kvm_device_attr, kvm_fpu, kvm_msr_entry, kvm_sregs,
    kvm_userspace_memory_region, kvm_xcrs, kvm_xsave,
};

const GET_API_VERSION: u64 = 0xae00;
const CREATE_VM: u64 = 0xae01;
const CHECK_EXTENSION: u64 = 0xae03;
const GET_VCPU_MMAP_SIZE: u64 = 0xae04;
const GET_SUPPORTED_CPUID: u64 = 0xc008_ae05;
const CREATE_VCPU: u64 = 0xae41;
const SET_USER_MEMORY_REGION: u64 = 0x4020_ae46;
const SET_TSS_ADDR: u64 = 0xae47;
const SET_IDENTITY_MAP_ADDR: u64 = 0x4008_ae48;
const RUN: u64 = 0xae80;
const GET_SREGS: u64 = 0x8138_ae83;
const SET_SREGS: u64 = 0x4138_ae84;
const SET_MSRS: u64 = 0x4008_ae89;
const SET_FPU: u64 = 0x41a0_ae8d;
const SET_CPUID2: u64 = 0x4008_ae90;
const GET_XSAVE: u64 = 0x9000_aea4;
const SET_XSAVE: u64 = 0x5000_aea5;
const SET_XCRS: u64 = 0x4188_aea7;
const SET_DEVICE_ATTR: u64 = 0x4018_aee1;
const MSR_TSC: u32 = 0x10;

/// The interface's version since 2007.
pub(crate) const API_VERSION: i32 = 12;

/// A call to KVM that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    /// The request, by its name in `linux/kvm.h`.
    pub(crate) call: &'static str,
    /// The kernel's error.
    pub(crate) errno: Errno,
}

fn named(call: &'static str) -> impl Fn(Errno) -> Failed {
    move |errno| Failed { call, errno }
}

/// The interface's version.
pub(crate) fn api_version(kvm: i32) -> Result<i32, Failed> {
    sys::ioctl(kvm, GET_API_VERSION, 0).map_err(named("KVM_GET_API_VERSION"))
}

/// What KVM says of extension `capability`; 0 is absent.
pub(crate) fn extension(kvm: i32, capability: u32) -> i32 {
    sys::ioctl(kvm, CHECK_EXTENSION, capability.into()).unwrap_or(0)
}

/// A new machine's descriptor.
pub(crate) fn create_vm(kvm: i32) -> Result<i32, Failed> {
    loop {
        match sys::ioctl(kvm, CREATE_VM, 0) {
            // A tracer that stops this thread interrupts it, whatever signals are blocked.
            Err(Errno(libc::EINTR)) => {}
            made => return made.map_err(named("KVM_CREATE_VM")),
        }
    }
}

/// Bytes that a vCPU shares.
pub(crate) fn shared_bytes(kvm: i32) -> Result<u64, Failed> {
    let bytes = sys::ioctl(kvm, GET_VCPU_MMAP_SIZE, 0).map_err(named("KVM_GET_VCPU_MMAP_SIZE"))?;
    Ok(bytes.unsigned_abs().into())
}

/// The most entries that the kernel has.
pub(crate) const CPUID_ENTRIES: usize = 256;

/// The processor's features, as `struct kvm_cpuid2` with its entries.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Cpuid {
    count: u32,
    padding: u32,
    entries: [kvm_cpuid_entry2; CPUID_ENTRIES],
}

impl Cpuid {
    /// No features.
    pub(crate) const fn new() -> Self {
        // SAFETY: an entry is plain numbers, for which zero is a value.
        Cpuid { count: 0, padding: 0, entries: unsafe { std::mem::zeroed() } }
    }

    /// The features as KVM offers them. Takes tenths of a millisecond where `cpuid` itself is intercepted.
    pub(crate) fn supported(kvm: i32) -> Result<Self, Failed> {
        let mut cpuid = Cpuid { count: CPUID_ENTRIES as u32, ..Cpuid::new() };
        // SAFETY: the structure says how many entries follow, and KVM writes no more.
        unsafe { sys::ioctl_with(kvm, GET_SUPPORTED_CPUID, &raw mut cpuid) }
            .map_err(named("KVM_GET_SUPPORTED_CPUID"))?;
        Ok(cpuid)
    }

    /// The entries that are there.
    pub(crate) fn entries(&self) -> &[kvm_cpuid_entry2] {
        self.entries.get(..self.count as usize).unwrap_or(&self.entries)
    }
}

/// Tells a machine where three pages and one lie that Intel processors without "unrestricted guest" need.
pub(crate) fn set_own_pages(vm: i32) -> Result<(), Failed> {
    let (task_state, mut identity_map) = (0xfffb_d000, 0xfffb_c000u64);
    sys::ioctl(vm, SET_TSS_ADDR, task_state).map_err(named("KVM_SET_TSS_ADDR"))?;
    // SAFETY: KVM reads one word.
    unsafe { sys::ioctl_with(vm, SET_IDENTITY_MAP_ADDR, &raw mut identity_map) }
        .map(drop)
        .map_err(named("KVM_SET_IDENTITY_MAP_ADDR"))
}

/// Gives a machine one more region of this process's memory.
pub(crate) fn add_memory(vm: i32, mut region: kvm_userspace_memory_region) -> Result<(), Failed> {
    // SAFETY: the region is this process's own, and stays so whatever is mapped there; what the guest does to it is done
    // by the program that this process carries.
    unsafe { sys::ioctl_with(vm, SET_USER_MEMORY_REGION, &raw mut region) }
        .map(drop)
        .map_err(named("KVM_SET_USER_MEMORY_REGION"))
}

/// A new vCPU's descriptor.
pub(crate) fn create_vcpu(vm: i32, id: u64) -> Result<i32, Failed> {
    sys::ioctl(vm, CREATE_VCPU, id).map_err(named("KVM_CREATE_VCPU"))
}

/// Lets a vCPU run until it leaves.
pub(crate) fn run(vcpu: i32) -> Result<(), Errno> {
    sys::ioctl(vcpu, RUN, 0).map(drop)
}

/// Segments and control registers.
pub(crate) fn special_registers(vcpu: i32) -> Result<kvm_sregs, Failed> {
    let mut sregs = kvm_sregs::default();
    // SAFETY: KVM writes the structure.
    unsafe { sys::ioctl_with(vcpu, GET_SREGS, &raw mut sregs) }.map_err(named("KVM_GET_SREGS"))?;
    Ok(sregs)
}

/// Sets segments and control registers.
pub(crate) fn set_special_registers(vcpu: i32, sregs: &kvm_sregs) -> Result<(), Failed> {
    let mut sregs = *sregs;
    // SAFETY: KVM reads the structure.
    unsafe { sys::ioctl_with(vcpu, SET_SREGS, &raw mut sregs) }.map(drop).map_err(named("KVM_SET_SREGS"))
}

/// The extended state: x87, SSE, AVX and so on, in the processor's standard format.
pub(crate) fn extended_state(vcpu: i32, xsave: &mut kvm_xsave) -> Result<(), Failed> {
    // SAFETY: KVM writes 4096 bytes; `machine` has checked that the guest's state fits.
    unsafe { sys::ioctl_with(vcpu, GET_XSAVE, std::ptr::from_mut(xsave)) }.map(drop).map_err(named("KVM_GET_XSAVE"))
}

/// Sets the extended state; KVM refuses what the processor would.
pub(crate) fn set_extended_state(vcpu: i32, xsave: &kvm_xsave) -> Result<(), Failed> {
    let state = std::ptr::from_ref(xsave).cast_mut();
    // SAFETY: KVM reads 4096 bytes, see above, and writes none.
    unsafe { sys::ioctl_with(vcpu, SET_XSAVE, state) }.map(drop).map_err(named("KVM_SET_XSAVE"))
}

/// The state of a new process's x87 and SSE.
pub(crate) fn reset_floating_point(vcpu: i32) -> Result<(), Failed> {
    let mut fpu = kvm_fpu { fcw: 0x37f, mxcsr: 0x1f80, ..kvm_fpu::default() };
    // SAFETY: KVM reads the structure.
    unsafe { sys::ioctl_with(vcpu, SET_FPU, &raw mut fpu) }.map(drop).map_err(named("KVM_SET_FPU"))
}

/// Which parts of the extended state are on.
pub(crate) fn set_xcr0(vcpu: i32, value: u64) -> Result<(), Failed> {
    let mut xcrs = kvm_xcrs { nr_xcrs: 1, ..kvm_xcrs::default() };
    xcrs.xcrs[0].value = value;
    // SAFETY: KVM reads the structure.
    unsafe { sys::ioctl_with(vcpu, SET_XCRS, &raw mut xcrs) }.map(drop).map_err(named("KVM_SET_XCRS"))
}

/// Sets up to three model-specific registers.
pub(crate) fn set_msrs<const N: usize>(vcpu: i32, entries: [kvm_msr_entry; N]) -> Result<(), Failed> {
    #[repr(C)]
    struct Msrs<const N: usize> {
        count: u32,
        pad: u32,
        entries: [kvm_msr_entry; N],
    }
    let call = "KVM_SET_MSRS";
    let count = u32::try_from(N).unwrap_or(0);
    let mut msrs = Msrs { count, pad: 0, entries };
    // SAFETY: the structure says how many entries follow, and has them.
    let set = unsafe { sys::ioctl_with(vcpu, SET_MSRS, &raw mut msrs) }.map_err(named(call))?;
    if set.unsigned_abs() == count { Ok(()) } else { Err(named(call)(Errno(libc::ENOTSUP))) }
}

/// What a vCPU reports of the processor.
pub(crate) fn set_cpuid(vcpu: i32, cpuid: &Cpuid) -> Result<(), Failed> {
    let cpuid = std::ptr::from_ref(cpuid).cast_mut();
    // SAFETY: the structure says how many entries follow; KVM reads them.
    unsafe { sys::ioctl_with(vcpu, SET_CPUID2, cpuid) }.map(drop).map_err(named("KVM_SET_CPUID2"))
}

/// Makes the guest's time-stamp counter the host's: exactly by its offset (Linux 5.16), else by writing the counter.
pub(crate) fn share_time_stamps(vcpu: i32, now: u64) -> Result<(), Failed> {
    let offset = 0u64;
    let mut attribute = kvm_device_attr {
        group: KVM_VCPU_TSC_CTRL,
        attr: KVM_VCPU_TSC_OFFSET.into(),
        addr: (&raw const offset) as u64,
        flags: 0,
    };
    // SAFETY: the attribute names a word that lives through the call and that KVM reads.
    if unsafe { sys::ioctl_with(vcpu, SET_DEVICE_ATTR, &raw mut attribute) }.is_ok() {
        return Ok(());
    }
    set_msrs(vcpu, [kvm_msr_entry { index: MSR_TSC, data: now, ..kvm_msr_entry::default() }])
}
