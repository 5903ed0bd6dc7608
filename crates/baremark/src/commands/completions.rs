//! `baremark completions`: what a shell needs to complete this program's command line.

use crate::exit::{Exit, Refusal};
use crate::source::SHIPPED;
use clap::Command;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark completions bash > /usr/share/bash-completion/completions/baremark";

/// Commands whose argument `study` may name a shipped study.
const TAKE_A_STUDY: &[&str] = &["run", "plan", "show", "verify-scale"];

/// The script for `shell`, to be sourced or put where the shell looks for completions. It offers shipped studies by name; files
/// are what a shell completes where nothing else fits.
pub fn run(command: Command, shell: Shell) -> Result<(String, Exit), Refusal> {
    let mut script = Vec::new();
    let studies = || PossibleValuesParser::new(SHIPPED.iter().map(|study| study.name));
    let mut command = TAKE_A_STUDY.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| command.mut_arg("study", |study| study.value_parser(studies())))
    });
    clap_complete::generate(shell, &mut command, "baremark", &mut script);
    Ok((String::from_utf8(script).map_err(Refusal::failure)?, Exit::Success))
}
