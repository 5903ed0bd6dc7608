//! A container of an engine.

use super::kind::{
    Capabilities, EnvironmentKind, FRESH, Holder, INSTEAD_OF, Setting, Short, harmless, identifying, of_target, setting,
};
use crate::arm::ExecutorKind;
use crate::knob::{Default, Kind};
use crate::value::Value;

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "container",
    help: "a container (podman) made of this program alone",
    needs: "podman or docker; an ordinary user also subordinate IDs (/etc/subuid)",
    grant: "apt-get install podman uidmap",
    can: Capabilities {
        executor: ExecutorKind::Direct,
        interleaves: false,
        kernel: Holder::ThisMachine,
        processors: Holder::ThisMachine,
        virtual_machine: false,
        devices: true,
        host_files: false,
        divisible: true,
        network: true,
    },
    settings: SETTINGS,
    elsewhere_by: &[],
    short: Some(Short {
        form: "[:IMAGE|RUNTIME]",
        needs: "",
        image: None,
        named_by: Some("runtime"),
        settings: |target| match target.filter(|target| RUNTIMES.contains(target)) {
            Some(runtime) => Ok(vec![("runtime", Value::Choice(runtime.to_owned()))]),
            None => Ok(of_target("image", target)),
        },
    }),
};

/// What starts a container for an engine; on a command line a target of one of these names is no image.
const RUNTIMES: &[&str] = &["runc", "crun", "runsc"];

const SETTINGS: &[Setting] = &[
    setting("memory", Kind::Size { min: 16 << 20, max: 1 << 46 }, Default::Derived("no limit"))
        .help("the most memory that the container may use"),
    setting("network", Kind::Choice(&["none", "lab", "host", "bridge"]), Default::Typed("none")).help(
        "the network that the container sees: none, a bridge that the run makes with a namespace for each \
         container, this machine's, or a bridge of the engine's",
    ),
    setting("seccomp", Kind::Choice(&["on", "off"]), Default::Typed("on"))
        .help("whether the engine filters the container's system calls"),
    setting("engine", Kind::Choice(&["podman", "docker"]), Default::Typed("podman"))
        .help("the program that makes containers"),
    setting("runtime", Kind::Choice(RUNTIMES), Default::Derived("the engine's own, or runc where that does not work"))
        .help(
            "the runtime that the engine starts containers with; runsc is gVisor, which needs engine podman and \
             network none",
        ),
    setting(
        "platform",
        Kind::Choice(&["ptrace", "systrap", "kvm"]),
        Default::Derived("ptrace with runtime = runsc, else none"),
    )
    .help("how gVisor intercepts system calls; Debian 12's runsc has ptrace and kvm"),
    identifying("image", Kind::Text, Default::Derived("nothing but this program"))
        .help("the container's image; the engine pulls it when it is missing"),
    identifying("rootfs", Kind::Text, Default::Derived("nothing but this program")).help(
        "the folder that is the root of its files, instead of an image; \"host\" is this machine's own files \
         under an overlay, so that the same programs run natively and in the container, and what they write \
         is dropped (needs root); podman alone",
    ),
    setting("layer", Kind::Choice(&["folder", "overlay"]), Default::Typed("folder"))
        .help("without an image: the container writes to a plain folder, or to an overlay over one; podman alone"),
    identifying("volumes", Kind::Words, Default::Derived("none"))
        .help("folders of this machine that the container sees and may write to, as \"HERE:INSIDE\""),
    harmless("cpus", Kind::Words, Default::Derived("all")).help("the numbers of the CPUs that the container may use"),
    INSTEAD_OF,
    FRESH,
];
