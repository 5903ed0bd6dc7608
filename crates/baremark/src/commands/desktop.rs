//! `baremark desktop`: the program as the users of the workload `sessions`. Started by agents, not by people.

use crate::exit::{Exit, Refusal};
use std::path::Path;

/// Drives users, is one, or opens a document.
pub fn run(arguments: &[String]) -> Result<Exit, Refusal> {
    baremark_programs::desktop::main(Path::new("/proc/self/exe"), arguments).map_err(Refusal::failure)?;
    Ok(Exit::Success)
}
