//! A process of Open MPI, of the settings that a study gives.

use super::{Mpi, Settings};
use crate::adapter::{Adapter, Files, MakeArguments};
use crate::values::{count, time, word, words};
use std::path::PathBuf;

/// Its line in the list of adapters.
pub(crate) const ADAPTER: Adapter =
    Adapter { name: "mpi", make: |request| Ok(Box::new(made(request))), files: |_| Files::Unknown };

fn made(request: MakeArguments<'_>) -> Mpi {
    let settings = request.settings;
    let usual = Settings::default();
    let made = Settings {
        ranks: count(settings, "np").unwrap_or(usual.ranks),
        hosts: word(settings, "hostfile").map(PathBuf::from),
        arguments: words(settings, "arguments"),
        start_limit: time(settings, "start_limit").unwrap_or(usual.start_limit),
    };
    Mpi::new(request.program, made)
}
