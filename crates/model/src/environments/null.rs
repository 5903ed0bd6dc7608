//! Nothing at all: an empty region.

use super::kind::{Capabilities, EnvironmentKind, Holder};
use crate::arm::ExecutorKind;

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "null",
    help: "no-op: measures the harness overhead",
    needs: "",
    grant: "",
    can: Capabilities {
        executor: ExecutorKind::Null,
        interleaves: true,
        kernel: Holder::ThisMachine,
        processors: Holder::ThisMachine,
        virtual_machine: false,
        devices: false,
        host_files: true,
        divisible: false,
        network: false,
    },
    settings: &[],
    elsewhere_by: &[],
    short: None,
};
