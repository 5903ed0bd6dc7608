//! `baremark report`: show a stored run again, worked out anew from its trials.

use crate::commands::run::show;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record;

/// Shows the named run, or the latest.
pub fn run(context: &Context, named: Option<&str>) -> Result<(String, Exit), Refusal> {
    let store = record::open_existing(context)?;
    let run = record::load(&store, &record::find(&store, named)?)?;
    Ok((show(context, &run)?, Exit::Success))
}
