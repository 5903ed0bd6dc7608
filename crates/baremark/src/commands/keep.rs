//! `baremark keep`: the program as the keeper of other programs. Started by agents, not by people.

use crate::exit::{Exit, Refusal};

/// Keeps programs for the agent at the other end of standard input and output.
pub fn run() -> Result<Exit, Refusal> {
    baremark_programs::keeper::keep().map_err(Refusal::failure)?;
    Ok(Exit::Success)
}
