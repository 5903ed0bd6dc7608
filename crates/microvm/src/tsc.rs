//! The guest's clock is the host's: a time-stamp counter with offset zero.
//!
//! KVM gives each vCPU an offset that makes its counter start at zero. The device attribute `KVM_VCPU_TSC_OFFSET` sets it
//! exactly (Linux 5.16; Documentation/virt/kvm/devices/vcpu.rst, 4.1); before that kernel the counter can only be written,
//! which is off by the time that the writing takes. kvm-ioctls has no call for a vCPU's attributes on x86.

use crate::error::Error;
use baremark_sys::clock::ticks;
use kvm_bindings::{KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, Msrs, kvm_device_attr, kvm_msr_entry};
use kvm_ioctls::VcpuFd;
use std::io;
use std::os::fd::AsRawFd;

/// `_IOW(KVMIO, 0xe1, struct kvm_device_attr)` and 0xe2.
const KVM_SET_DEVICE_ATTR: libc::c_ulong = 0x4018_aee1;
const KVM_GET_DEVICE_ATTR: libc::c_ulong = 0x4018_aee2;
const MSR_TSC: u32 = 0x10;

/// Makes the guest's counter the host's. The offset read back, or `None` where it could only be set approximately.
pub(crate) fn zero_offset(vcpu: &VcpuFd) -> Result<Option<u64>, Error> {
    let mut offset = 0;
    if attribute(vcpu, KVM_SET_DEVICE_ATTR, &mut offset).is_err() {
        return write_counter(vcpu).map(|()| None);
    }
    offset = u64::MAX;
    attribute(vcpu, KVM_GET_DEVICE_ATTR, &mut offset)
        .map_err(|source| Error::Kvm { call: "KVM_GET_DEVICE_ATTR (KVM_VCPU_TSC_OFFSET)", source })?;
    Ok(Some(offset))
}

fn attribute(vcpu: &VcpuFd, request: libc::c_ulong, offset: &mut u64) -> io::Result<()> {
    let attribute = kvm_device_attr {
        group: KVM_VCPU_TSC_CTRL,
        attr: KVM_VCPU_TSC_OFFSET.into(),
        addr: std::ptr::from_mut(offset).expose_provenance() as u64,
        flags: 0,
    };
    // SAFETY: the attribute names `offset`, which KVM reads or writes as 64 bits and which lives through the call.
    let rc = unsafe { libc::ioctl(vcpu.as_raw_fd(), request, &raw const attribute) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn write_counter(vcpu: &VcpuFd) -> Result<(), Error> {
    let call = "KVM_SET_MSRS (TSC)";
    let entry = kvm_msr_entry { index: MSR_TSC, data: ticks(), ..kvm_msr_entry::default() };
    let msrs = Msrs::from_entries(&[entry])
        .map_err(|error| Error::Kvm { call, source: io::Error::other(format!("{error:?}")) })?;
    vcpu.set_msrs(&msrs).map(drop).map_err(|error| Error::Kvm { call, source: error.into() })
}
