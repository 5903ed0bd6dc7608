//! This machine itself.

use super::kind::{Capabilities, EnvironmentKind, Holder, Short};
use crate::arm::ExecutorKind;

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "native",
    help: "this machine itself",
    needs: "",
    grant: "",
    can: Capabilities {
        executor: ExecutorKind::Direct,
        interleaves: true,
        kernel: Holder::ThisMachine,
        processors: Holder::ThisMachine,
        virtual_machine: false,
        devices: true,
        host_files: true,
        divisible: false,
        network: true,
    },
    settings: &[],
    elsewhere_by: &[],
    short: Some(Short::ALONE),
};
