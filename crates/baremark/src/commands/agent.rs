//! `baremark agent`: the program as its own agent. Started by environments, not by people.

use crate::exit::{Exit, Refusal};
use std::io::stdin;

/// Serves the lab at the other end of standard input and output.
pub fn run() -> Result<Exit, Refusal> {
    // From here on whatever prints to standard output lands in the log; only frames go to the lab.
    let mut frames = baremark_sys::process::take_stdout()
        .map_err(|why| Refusal::failure(format!("setting standard output apart for frames: {why}")))?;
    baremark_agent::serve::serve(&mut stdin().lock(), &mut frames).map_err(Refusal::failure)?;
    Ok(Exit::Success)
}
