//! A job of Slurm, of the settings that a study gives.

use super::Slurm;
use super::settings::{Launcher, Settings};
use crate::adapter::{Adapter, Files, MakeArguments};
use crate::values::{count, own_cpus, time, word, words};
use std::path::PathBuf;

/// Its line in the list of adapters.
pub(crate) const ADAPTER: Adapter =
    Adapter { name: "slurm", make: |request| Ok(Box::new(made(request))), files: |_| Files::Unknown };

fn made(request: MakeArguments<'_>) -> Slurm {
    let settings = request.settings;
    let usual = Settings::default();
    let made = Settings {
        launcher: if word(settings, "launcher") == Some("sbatch") { Launcher::Sbatch } else { Launcher::Srun },
        config: word(settings, "config").map(PathBuf::from),
        partition: word(settings, "partition").map(str::to_owned),
        nodes: count(settings, "nodes").unwrap_or(usual.nodes),
        ntasks: count(settings, "ntasks").unwrap_or(usual.ntasks),
        cpus: Some(count(settings, "cpus").unwrap_or_else(own_cpus)),
        time: time(settings, "time"),
        arguments: words(settings, "arguments"),
        folder: word(settings, "folder").map(PathBuf::from),
        pending_limit: time(settings, "pending_limit").unwrap_or(usual.pending_limit),
        start_limit: time(settings, "start_limit").unwrap_or(usual.start_limit),
        ..usual
    };
    Slurm::new(request.program, made)
}
