//! This machine's programs in namespaces.

use super::kind::{
    Capabilities, EnvironmentKind, FRESH, Holder, INSTEAD_OF, Setting, Short, harmless, identifying, setting,
};
use crate::arm::ExecutorKind;
use crate::knob::{Default, Kind};

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "sandbox",
    help: "this machine's programs in namespaces and under a seccomp filter, as a container engine's default; made by baremark itself, without \
               an engine, an image or root. What the kernel refuses is left out and recorded",
    needs: "user namespaces or root, and seccomp",
    grant: "sysctl user.max_user_namespaces=15000",
    can: Capabilities {
        executor: ExecutorKind::Direct,
        interleaves: false,
        kernel: Holder::ThisMachine,
        processors: Holder::ThisMachine,
        virtual_machine: false,
        devices: true,
        host_files: true,
        divisible: true,
        network: true,
    },
    settings: SETTINGS,
    elsewhere_by: &[],
    short: Some(Short::ALONE),
};

const SETTINGS: &[Setting] = &[
    harmless("layers", Kind::Words, Default::Derived("all that this machine permits")).help(
        "what separates the sandbox from this machine: control-group, user, mount, ipc, uts, network, pid \
         (namespaces), capabilities, seccomp; without network it has this machine's network",
    ),
    identifying(
        "write",
        Kind::Words,
        Default::Derived("the working folder, where loaded data of databases is kept, and /var/tmp"),
    )
    .help(
        "folders of this machine that programs in the sandbox may write to; all others are read-only, \
         /dev/shm is its own, and so is /tmp unless it is among them",
    ),
    identifying("read", Kind::Words, Default::Derived("none"))
        .help("files and folders in /tmp or /dev/shm that the sandbox sees, read-only"),
    setting("memory", Kind::Size { min: 16 << 20, max: 1 << 46 }, Default::Derived("no limit"))
        .help("the most memory that the sandbox may use; needs a control group"),
    harmless("cpus", Kind::Words, Default::Derived("all")).help("the numbers of the CPUs that the sandbox may use"),
    INSTEAD_OF,
    FRESH,
];
