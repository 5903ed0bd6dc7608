//! `baremark report`: show a stored run again, worked out anew from its trials.

use crate::commands::run::show;
use crate::context::{Context, descriptor_of};
use crate::exit::{Exit, Refusal};
use crate::record;
use baremark_lab::analysis;
use std::path::Path;

/// Shows the named run, or the latest; with `html`, writes it there as one page and says where.
pub fn run(context: &Context, named: Option<&str>, html: Option<&Path>) -> Result<(String, Exit), Refusal> {
    let store = record::open_existing(context)?;
    let run = record::load(&store, &record::find(&store, named)?)?;
    let Some(file) = html else {
        return Ok((show(context, &run)?, Exit::Success));
    };
    let page = baremark_report::html::render(&analysis::document(&run, descriptor_of(&run)?));
    std::fs::write(file, page).map_err(|why| Refusal::failure(format!("writing {}: {why}", file.display())))?;
    Ok((format!("{}\n", file.display()), Exit::Success))
}
