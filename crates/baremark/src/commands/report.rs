//! `baremark report`: show a stored run again, worked out anew from its trials.

use crate::commands::run::show;
use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::predicted;
use crate::record;
use std::path::PathBuf;

/// As what the run is shown; as text where nothing is said.
#[derive(clap::Args)]
#[group(multiple = false)]
pub struct Form {
    /// Write the report as one HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print comma-separated values: estimates and ratios, or with --csv=trials every value of every trial
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "results")]
    csv: Option<Rows>,
}

/// What the lines of comma-separated values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rows {
    /// Estimates and ratios.
    Results,
    /// Values of trials.
    Trials,
}

/// Shows the named run, or the latest; a page is written to its file, and its name is printed.
pub fn run(context: &Context, named: Option<&str>, form: &Form) -> Result<(String, Exit), Refusal> {
    let store = record::open_existing(context)?;
    let run = record::load(&store, &record::find(&store, named)?)?;
    let document = || Ok(predicted::document(&run, &descriptors_of(&run)?));
    if let Some(rows) = form.csv {
        let document = document()?;
        let text = match rows {
            Rows::Results => baremark_report::csv::results(&document),
            Rows::Trials => baremark_report::csv::trials(&document),
        };
        return Ok((text, Exit::Success));
    }
    let Some(file) = &form.html else {
        return Ok((show(context, &run)?, Exit::Success));
    };
    let page = baremark_report::html::render(&document()?);
    std::fs::write(file, page).map_err(|why| Refusal::failure(format!("writing {}: {why}", file.display())))?;
    Ok((format!("{}\n", file.display()), Exit::Success))
}
