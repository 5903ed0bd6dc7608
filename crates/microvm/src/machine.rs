//! The virtual machine that the ranks of one executor share: KVM's handle and the guest's memory.

use crate::error::{Error, failed};
use crate::layout;
use crate::mapping::Mapping;
use crate::registers;
use crate::space::{Refusal, Space};
use crate::stats::Source;
use crate::supervisor;
use crate::tables::{Ring, Tables};
use baremark_model::arm::GuestTables;
use baremark_model::page_size::PageSize;
use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES};
use kvm_ioctls::{Cap, Kvm, VmFd};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The device of every KVM.
pub(crate) const DEVICE: &str = "/dev/kvm";
/// The interface's version since 2007.
const API_VERSION: i32 = 12;
/// Three pages and one below 4 GiB that Intel processors without "unrestricted guest" need for themselves.
const TSS_ADDRESS: usize = 0xfffb_d000;
const IDENTITY_MAP_ADDRESS: u64 = 0xfffb_c000;

/// What a machine is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) ranks: usize,
    pub(crate) page: PageSize,
    pub(crate) tables: GuestTables,
    pub(crate) seed: u64,
}

/// One virtual machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) vm: Arc<VmFd>,
    pub(crate) space: Space,
    pub(crate) cpuid: CpuId,
    pub(crate) stats: Option<Arc<Source>>,
    pub(crate) xsave_bytes: i32,
}

/// The extensions without which no rank can run, by their names in `linux/kvm.h`.
pub(crate) const NEEDED: [(Cap, &str); 7] = [
    (Cap::UserMemory, "KVM_CAP_USER_MEMORY"),
    (Cap::SyncMmu, "KVM_CAP_SYNC_MMU"),
    (Cap::SyncRegs, "KVM_CAP_SYNC_REGS"),
    (Cap::ImmediateExit, "KVM_CAP_IMMEDIATE_EXIT"),
    (Cap::Xcrs, "KVM_CAP_XCRS"),
    (Cap::Xsave, "KVM_CAP_XSAVE"),
    (Cap::VcpuEvents, "KVM_CAP_VCPU_EVENTS"),
];

/// Opens `device` and checks its version.
pub(crate) fn open(device: &Path) -> Result<Kvm, Error> {
    let path = CString::new(device.as_os_str().as_bytes())
        .map_err(|error| Error::Open { device: device.into(), source: error.into() })?;
    let kvm = Kvm::new_with_path(path).map_err(|error| match error.errno() {
        libc::ENOENT | libc::ENXIO | libc::ENODEV | libc::ENOTDIR => Error::Missing { device: device.into() },
        libc::EACCES | libc::EPERM => Error::Denied { device: device.into() },
        _ => Error::Open { device: device.into(), source: error.into() },
    })?;
    match kvm.get_api_version() {
        API_VERSION => Ok(kvm),
        // The call failed: what is there knows nothing of it.
        ..0 => Err(Error::NotKvm { device: device.into() }),
        found => Err(Error::ApiVersion { found }),
    }
}

/// The first needed extension that is missing.
pub(crate) fn check_needs(kvm: &Kvm) -> Result<(), Error> {
    match NEEDED.iter().find(|(needed, _)| !kvm.check_extension(*needed)) {
        Some((_, capability)) => Err(Error::Capability { capability }),
        None => Ok(()),
    }
}

impl Machine {
    /// A machine without ranks yet, its supervisor area filled for them.
    pub(crate) fn new(shape: Shape) -> Result<Self, Error> {
        let kvm = open(Path::new(DEVICE))?;
        check_needs(&kvm)?;
        if shape.ranks > kvm.get_max_vcpus().min(layout::MAX_RANKS) {
            return Err(Error::Config {
                what: format!("{} ranks", shape.ranks),
                remedy: format!("this machine can have {}", kvm.get_max_vcpus().min(layout::MAX_RANKS)),
            });
        }
        let vm = Arc::new(kvm.create_vm().map_err(failed("KVM_CREATE_VM"))?);
        set_low_addresses(&vm)?;
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(failed("KVM_GET_SUPPORTED_CPUID"))?;
        let stats = Source::open(vm.as_ref()).map_err(|source| Error::Kvm { call: "KVM_GET_STATS_FD", source })?;
        let space = space(&vm, shape, registers::physical_bits(cpuid.as_slice()))?;
        let xsave_bytes = vm.check_extension_int(Cap::Xsave2);
        Ok(Machine { vm, space, cpuid, stats: stats.map(Arc::new), xsave_bytes })
    }
}

/// Gives Intel processors what they need below 4 GiB; others take no notice.
pub(crate) fn set_low_addresses(vm: &VmFd) -> Result<(), Error> {
    vm.set_tss_address(TSS_ADDRESS).map_err(failed("KVM_SET_TSS_ADDR"))?;
    vm.set_identity_map_address(IDENTITY_MAP_ADDRESS).map_err(failed("KVM_SET_IDENTITY_MAP_ADDR"))
}

fn space(vm: &Arc<VmFd>, shape: Shape, physical_bits: u32) -> Result<Space, Error> {
    let memory = |source| Error::Memory { what: "supervisor area", source };
    // The whole block is taken, so that nothing else of the process can come to lie in it; pages beyond the area stay
    // untouched and cost nothing.
    let bytes = usize::try_from(layout::BLOCK).map_err(|error| memory(io::Error::other(error)))?;
    let area = Mapping::aligned(bytes, 1 << layout::BLOCK_SHIFT).map_err(memory)?;
    area.keep_small();
    supervisor::install(&area, shape.ranks);
    let tables = Tables::new(area, shape.page, shape.tables, shape.seed).map_err(memory)?;
    let space = Space::new(vm.clone(), tables, physical_bits)?;
    supervisor::pages(shape.ranks)
        .try_for_each(|page| space.map_own(page, Ring::Zero))
        .and_then(|()| space.map_own(layout::SYSCALL_STUB, Ring::Three))
        .map_err(|refusal| refused("supervisor area", refusal))?;
    Ok(space)
}

/// A refusal of memory while starting, as an error.
pub(crate) fn refused(what: &'static str, refusal: Refusal) -> Error {
    Error::Memory { what, source: io::Error::other(refusal.explain()) }
}
