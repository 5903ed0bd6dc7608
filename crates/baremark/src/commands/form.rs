//! As what a stored run is shown: the options of `baremark report`.

use crate::context::Context;
use crate::exit::Refusal;
use std::path::{Path, PathBuf};

/// As what the run is shown; as text where nothing is said.
#[derive(clap::Args)]
#[group(multiple = false)]
pub struct Form {
    /// Show tables, causes, system activity, flags and provenance too
    #[arg(long)]
    pub details: bool,
    /// Write the report as one HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print comma-separated values: estimates and ratios, or with --csv=trials every value of every trial and of the parts of
    /// its phases, with --csv=observations and --csv=series system activity
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "results")]
    pub csv: Option<Rows>,
    /// Print the tables of a published study, filled from this run
    #[arg(long, value_name = "STUDY")]
    pub tables: Option<Tables>,
    /// Check what must hold of every result (units, orders, sums, intervals, verdicts) and print what does not; exit 4 if anything
    #[arg(long)]
    pub verify_document: bool,
}

/// What is done about damage to the store.
#[derive(clap::Args)]
pub struct Damage {
    /// Leave damaged trials out instead of refusing the run; the report names them
    #[arg(long)]
    pub without_damaged: bool,
}

/// Published studies whose tables can be filled from any run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Tables {
    /// Order-Entry on a 64-vCPU virtual machine: what the host did for each throughput, and what the guest saw.
    #[value(alias = "d1")]
    OrderEntry,
}

/// What the lines of comma-separated values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rows {
    /// Estimates and ratios.
    Results,
    /// Values of trials.
    Trials,
    /// System activity.
    Observations,
    /// What was observed over the time of the run.
    Series,
}

impl Form {
    /// Refuses what asks for two texts on one standard output.
    pub fn check(&self, context: &Context) -> Result<(), Refusal> {
        let other = match (&self.csv, &self.tables) {
            (Some(_), _) => "--csv",
            (_, Some(_)) => "--tables",
            _ => return Ok(()),
        };
        match context.json {
            true => {
                Err(Refusal::bad_input(format!("--json and {other} both print to standard output; write one of them")))
            }
            false => Ok(()),
        }
    }
}

/// Writes a report's page.
pub fn write_page(file: &Path, page: &str) -> Result<(), Refusal> {
    std::fs::write(file, page).map_err(|why| Refusal::failure(format!("writing {}: {why}", file.display())))
}
