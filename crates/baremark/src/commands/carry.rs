//! `baremark carry`: an application's instance at its site, for whoever attends to it from elsewhere.

use crate::exit::{Exit, Refusal};
use baremark_services::remote_instance::carry;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Carries out the instance that a file describes, until it ends or is asked to.
pub fn run(file: &Path, stop: &AtomicBool) -> Result<(String, Exit), Refusal> {
    carry(file, stop, &mut |line| eprintln!("{line}")).map_err(Refusal::failure)?;
    Ok((String::new(), Exit::Success))
}
