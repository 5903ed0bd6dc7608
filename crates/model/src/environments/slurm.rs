//! A job of a Slurm cluster.

use super::kind::{
    EnvironmentKind, FRESH, INSTEAD_OF, ON_OTHER_MACHINES, START_HELP, START_LIMIT, Setting, Short, identifying,
    of_target, setting,
};
use crate::knob::{Default, Kind};
use crate::units::{HOUR, SECOND};

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "slurm",
    help: "a job of a Slurm cluster, by srun or sbatch",
    needs: "srun or sbatch, and an account of the cluster",
    grant: "apt-get install slurm-client",
    can: ON_OTHER_MACHINES,
    settings: SETTINGS,
    elsewhere_by: &[],
    short: Some(Short {
        form: "[:PARTITION]",
        needs: "",
        image: None,
        named_by: None,
        settings: |target| Ok(of_target("partition", target)),
    }),
};

const SETTINGS: &[Setting] = &[
    setting("launcher", Kind::Choice(&["srun", "sbatch"]), Default::Typed("srun"))
        .help("srun talks with the job directly, sbatch by files, for clusters that let in batch jobs alone"),
    identifying("partition", Kind::Text, Default::Derived("the cluster's default")).help("the partition of the job"),
    setting("nodes", Kind::Count { min: 1, max: 100_000 }, Default::Typed("1"))
        .help("nodes of the job; the agent runs on the first, and its processes may use all"),
    setting("ntasks", Kind::Count { min: 1, max: 10_000_000 }, Default::Typed("1"))
        .help("tasks of the job; the agent is the first, and its processes may use the slots of the others"),
    setting("cpus", Kind::Count { min: 1, max: 4096 }, Default::Derived("one for each CPU that the process may use"))
        .help("CPUs of each task"),
    setting("time", Kind::Time { min: 60 * SECOND, max: 8784 * HOUR }, Default::Derived("the partition's limit"))
        .help("the job's time limit, rounded up to minutes"),
    setting("pending_limit", Kind::Time { min: SECOND, max: 8784 * HOUR }, Default::Typed("10 min"))
        .help("how long a job may wait in the queue before it is cancelled and its trial fails"),
    setting("start_limit", START_LIMIT, Default::Typed("60 s")).help(START_HELP),
    identifying("folder", Kind::Text, Default::Derived("the working directory"))
        .help("where batch jobs keep their files: a folder that all nodes see"),
    identifying("config", Kind::Text, Default::Derived("from Slurm's commands")).help("the cluster's slurm.conf"),
    identifying("arguments", Kind::Words, Default::Derived("none"))
        .help("further arguments of srun or sbatch, passed on unchanged"),
    INSTEAD_OF,
    FRESH,
];
