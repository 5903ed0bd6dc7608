//! What hypervisors' guests have alike.

use super::kind::{Capabilities, Holder, Setting, Short, harmless, identifying, of_target, setting};
use crate::arm::ExecutorKind;
use crate::knob::{Default, Kind};

/// What a guest is and can do.
pub(super) const GUEST: Capabilities = Capabilities {
    executor: ExecutorKind::Direct,
    interleaves: false,
    kernel: Holder::Guest,
    processors: Holder::ThisMachine,
    virtual_machine: true,
    devices: true,
    host_files: false,
    divisible: true,
    network: false,
};

/// A target is the guest's kernel.
pub(super) const BY_KERNEL: Short = Short {
    form: "[:KERNEL]",
    needs: "",
    image: None,
    named_by: None,
    settings: |target| Ok(of_target("kernel", target)),
};

pub(super) const SOCKETS: Setting = setting("sockets", Kind::Count { min: 1, max: 256 }, Default::Derived("one"))
    .help("sockets that the guest sees; with cores and threads it must give vcpus");

pub(super) const CORES: Setting =
    setting("cores", Kind::Count { min: 1, max: 4096 }, Default::Derived("vcpus")).help("cores in each socket");

pub(super) const GUEST_PAGES: Setting =
    setting("guest_pages", Kind::Choice(&["always", "madvise", "never"]), Default::Typed("madvise"))
        .help("the guest kernel's transparent huge pages");

pub(super) const MMU: Setting = setting("mmu", Kind::Choice(&["as-is", "nested", "shadow"]), Default::Typed("as-is"))
    .help("how KVM translates addresses; refused where the loaded module does otherwise");

pub(super) const DISKS: Setting = identifying("disks", Kind::Words, Default::Derived("none"))
    .help("files or block devices that the guest sees as virtio disks, raw");

pub(super) const BLOCK_DEVICES: Setting = setting("block_devices", Kind::Switch, Default::Typed("false"))
    .help("true lets disks be block devices, whose contents the guest may overwrite");

pub(super) const MODULES: Setting = harmless("modules", Kind::Words, Default::Derived("none"))
    .help("modules that the guest's kernel loads, by name; their dependencies are loaded first");

pub(super) const KERNEL_OPTIONS: Setting = identifying("kernel_options", Kind::Words, Default::Derived("none"))
    .help("further words of the guest kernel's command line, such as mitigations=off or nohz_full=1-3");
