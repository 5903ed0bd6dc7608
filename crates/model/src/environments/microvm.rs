//! A virtual machine that shares the agent's memory.

use super::kind::{Capabilities, EnvironmentKind, Holder, Short};
use crate::arm::ExecutorKind;

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "microvm",
    help: "this machine, inside a virtual machine that shares the agent's memory: the CPU and MMU part alone. Runs kernels, and \
               any 64-bit x86 program with the host's kernel behind it: good for what paging, page sizes and exits cost your \
               own code within a minute; device and kernel work runs natively, so it is a lower bound for a virtual machine. With exitless = \"on\" a \
               polling thread answers the system calls of a program without exits, which takes a CPU of its own",
    needs: "read and write access to /dev/kvm",
    grant: "usermod -aG kvm USER",
    can: Capabilities {
        executor: ExecutorKind::Microvm,
        interleaves: true,
        kernel: Holder::ThisMachine,
        processors: Holder::ThisMachine,
        virtual_machine: true,
        devices: false,
        host_files: true,
        divisible: true,
        network: false,
    },
    settings: &[],
    elsewhere_by: &[],
    short: Some(Short::ALONE),
};
