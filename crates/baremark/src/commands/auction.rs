//! `baremark auction`: the auction application, handed its arguments as they are.

use crate::exit::Exit;
use clap::Subcommand;
use std::ffi::OsString;
use std::io;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark auction run --quick
  baremark auction serve --help";

/// What to do with the application; each has its own `--help`.
#[derive(Subcommand)]
pub enum Action {
    /// Run the application with its tiers and users as a study: the most users within the limits, or a fixed load
    Run(super::auction_run::RunArgs),
    /// Serve the site; prints one line of JSON with its address when it is ready
    #[command(disable_help_flag = true)]
    Serve(Rest),
    /// Make the tables and fill them from a seed
    #[command(disable_help_flag = true)]
    Load(Rest),
    /// Say whether no bid was lost, nothing sold twice, and the money adds up; exit code 4 if not
    #[command(disable_help_flag = true)]
    Check(Rest),
    /// Put live auctions back to where the load left them, without loading again
    #[command(disable_help_flag = true)]
    Reset(Rest),
    /// Make a database on a server that is there, which `auction run` does where `database.on` is external
    #[command(disable_help_flag = true)]
    Create(Rest),
    /// Remove a database that `create` made
    #[command(disable_help_flag = true)]
    Remove(Rest),
}

/// What the application parses itself.
#[derive(clap::Args)]
pub struct Rest {
    /// Settings; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SETTINGS")]
    arguments: Vec<OsString>,
}

/// Runs the application in this process until it is done.
pub fn run(action: Action) -> Exit {
    let (name, rest) = match action {
        // Conducts processes like this one; see `auction_run`.
        Action::Run(_) => return Exit::BadInput,
        Action::Serve(rest) => ("serve", rest),
        Action::Load(rest) => ("load", rest),
        Action::Check(rest) => ("check", rest),
        Action::Reset(rest) => ("reset", rest),
        Action::Create(rest) => ("create", rest),
        Action::Remove(rest) => ("remove", rest),
    };
    let arguments: Vec<OsString> = std::iter::once(name.into()).chain(rest.arguments).collect();
    match baremark_auction::run(&arguments, &mut io::stdout(), &mut io::stderr()) {
        0 => Exit::Success,
        2 => Exit::BadInput,
        4 => Exit::Regression,
        _ => Exit::Failure,
    }
}
