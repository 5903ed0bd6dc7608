//! A process of Open MPI.

use super::kind::{
    EnvironmentKind, FRESH, INSTEAD_OF, ON_OTHER_MACHINES, START_HELP, START_LIMIT, Setting, Short, identifying,
    setting,
};
use crate::knob::{Default, Kind};

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "mpi",
    help: "a process that Open MPI has launched",
    needs: "mpirun of Open MPI",
    grant: "apt-get install openmpi-bin",
    can: ON_OTHER_MACHINES,
    settings: SETTINGS,
    elsewhere_by: &["hostfile", "arguments"],
    short: Some(Short::ALONE),
};

const SETTINGS: &[Setting] = &[
    setting("np", Kind::Count { min: 1, max: 10_000_000 }, Default::Typed("1"))
        .help("processes of the job; the agent is the first, and its processes may use the slots of the others"),
    identifying("hostfile", Kind::Text, Default::Derived("this machine, or the batch system's"))
        .help("the hosts and their slots, as mpirun takes them"),
    setting("start_limit", START_LIMIT, Default::Typed("60 s")).help(START_HELP),
    identifying("arguments", Kind::Words, Default::Derived("none"))
        .help("further arguments of mpirun, passed on unchanged"),
    INSTEAD_OF,
    FRESH,
];
