//! `baremark supervise`: the program as the supervisor of a container, between whoever wants it and the engine's client.

use crate::changes;
use crate::commands::tend;
use crate::exit::{Exit, Refusal};
use baremark_environments::container::supervisor;
use baremark_programs::small_server::STARTED;
use baremark_sys::clock::monotonic_ns;
use std::ffi::OsString;
use std::io::Write;

/// Which container.
#[derive(clap::Args)]
pub struct SuperviseArgs {
    /// The container's name
    #[arg(long)]
    name: String,
    /// Print a line with the monotonic clock in nanoseconds just before the engine is started
    #[arg(long)]
    announce: bool,
    /// The engine and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

/// Starts the container and ends as the engine's client has ended, when the container is gone.
pub fn run(args: &SuperviseArgs) -> Result<(String, Exit), Refusal> {
    let journal = changes::journal().map_err(Refusal::failure)?;
    let begins = || match args.announce {
        true => std::io::stdout().write_all(format!("{}{}\n", STARTED, monotonic_ns()).as_bytes()),
        false => Ok(()),
    };
    let status = supervisor::supervise(&journal, &args.name, &args.command, begins).map_err(Refusal::failure)?;
    tend::end_as(status)
}
