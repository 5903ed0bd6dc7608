//! `baremark completions`: what a shell needs to complete this program's command line.

use crate::exit::{Exit, Refusal};
use clap::Command;
use clap_complete::Shell;

/// The script for `shell`, to be sourced or put where the shell looks for completions.
pub fn run(mut command: Command, shell: Shell) -> Result<(String, Exit), Refusal> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "baremark", &mut script);
    Ok((String::from_utf8(script).map_err(Refusal::failure)?, Exit::Success))
}
