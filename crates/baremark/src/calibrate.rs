//! The calibrated machine: measured by a shipped study, kept as a file next to the store, used by every prediction of this
//! machine afterwards.
//!
//! The run itself stays in the store, with everything that was recorded of it; the file has what predictions need. It is
//! for the processor that it names: on another one it is left alone.

use crate::context::Context;
use crate::exit::Refusal;
use crate::watch::say;
use baremark_lab::analysis::Run;
use baremark_mmu::calibration::Calibration;
use std::fs;
use std::path::PathBuf;

/// Where the calibration is: alongside the store.
pub fn path(context: &Context) -> Result<PathBuf, Refusal> {
    Ok(context.store_path()?.with_file_name("machine.toml"))
}

/// The calibration of this processor; `None` where there is none, or it is of another.
pub fn load(context: &Context, processor: &str) -> Result<Option<Calibration>, Refusal> {
    let path = path(context)?;
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(Refusal::failure(format!("reading {}: {why}", path.display()))),
    };
    let read = Calibration::parse(&path.display().to_string(), &text);
    let calibration = read.map_err(|why| {
        Refusal::bad_input(format!("{why}\nmeasure again with `baremark predict --calibrate`, or remove the file"))
    })?;
    Ok((calibration.processor == processor).then_some(calibration))
}

/// The calibration that a run's report may use: the run must be of this very machine. A report never fails for lack of one:
/// a file that cannot be read is told, and left alone.
pub fn of_run(context: &Context, run: &Run) -> Option<Calibration> {
    let facts = baremark_sys::machine::at_once();
    if run.machine.fingerprint() != facts.fingerprint() {
        return None;
    }
    load(context, &facts.cpu.model_name.unwrap_or_default()).unwrap_or_else(|why| {
        say(format_args!("predictions do without the calibration: {}", why.message));
        None
    })
}
