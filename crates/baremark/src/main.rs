//! The binary: command line, composition root, and the only part of baremark that prints.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::allow_attributes,
    reason = "this is where printing is done"
)]

mod commands;
mod context;
mod exit;
mod record;
mod source;
mod watch;

use clap::{Args, Parser, Subcommand};
use commands::{agent, doctor, history, list, plan, report, resume, run};
use context::Context;
use exit::{Exit, Refusal};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How much of bare metal do I keep when my work runs in a VM, why, and what should I change?
///
/// Without a command, baremark runs the standard study on this machine.
#[derive(Parser)]
#[command(version, after_help = Exit::TABLE)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// The store of all runs [default: baremark/baremark.db in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, global = true, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Print one JSON document to standard output instead of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Args, Clone, Copy)]
struct ModeArgs {
    /// Fewest blocks, smallest sizes: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// A/A: every treatment against itself, through the identical path; shows the noise floor
    #[arg(long)]
    aa: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run a study: a file, or the name of a shipped one
    Run {
        /// The study file or the shipped study's name
        study: String,
        #[command(flatten)]
        mode: ModeArgs,
    },
    /// Go on with a run that was interrupted or killed
    Resume {
        /// The run; a unique beginning will do [default: the latest unfinished one]
        run: Option<String>,
    },
    /// Show what a study would do on this machine, without doing it
    Plan {
        /// The study file or the shipped study's name
        study: String,
        #[command(flatten)]
        mode: ModeArgs,
    },
    /// List what there is to choose from
    List {
        /// What to list
        what: list::What,
    },
    /// Say whether this machine is fit to measure, what is noisy and what to change
    Doctor,
    /// List the runs in the store
    History,
    /// Show a stored run again
    Report {
        /// The run; a unique beginning will do [default: the latest one]
        run: Option<String>,
        /// Write the report as one HTML page that needs nothing else
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Serve a lab over standard input and output (environments start this)
    #[command(hide = true)]
    Agent {
        /// Be the first process of a guest and serve the lab over this serial port
        #[arg(long, value_name = "PORT")]
        guest: Option<PathBuf>,
    },
}

fn main() -> Exit {
    let cli = Cli::parse();
    match dispatch(cli) {
        Ok((text, exit)) => match io::stdout().write_all(text.as_bytes()) {
            // A reader that has seen enough, such as `head`, is no failure.
            Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
                eprintln!("error: writing the output: {why}");
                Exit::Failure
            }
            _ => exit,
        },
        Err(Refusal { exit, message }) => {
            eprintln!("error: {message}");
            exit
        }
    }
}

fn dispatch(cli: Cli) -> Result<(String, Exit), Refusal> {
    if let Some(Command::Agent { guest }) = &cli.command {
        let served = guest.as_deref().map_or_else(agent::run, agent::run_guest);
        return Ok((String::new(), served?));
    }
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The first asks the run to stop cleanly; a second one, while it is stopping, ends the program at once.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&interrupt))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt)))
            .map_err(|why| Refusal::failure(format!("catching signals: {why}")))?;
    }
    let context = Context { store: cli.common.store, json: cli.common.json, interrupt };
    let mode = |args: ModeArgs| baremark_model::plan::Mode { quick: args.quick, self_check: args.aa };
    match cli.command {
        None => run::run(&context, &source::shipped(&source::SHIPPED[0]), mode(ModeArgs { quick: false, aa: false })),
        Some(Command::Run { study, mode: args }) => run::run(&context, &source::find(&study)?, mode(args)),
        Some(Command::Resume { run }) => resume::run(&context, run.as_deref()),
        Some(Command::Plan { study, mode: args }) => plan::run(&source::find(&study)?, mode(args), context.json),
        Some(Command::List { what }) => list::run(what, context.json),
        Some(Command::Doctor) => doctor::run(context.json),
        Some(Command::History) => history::run(&context),
        Some(Command::Report { run, html }) => report::run(&context, run.as_deref(), html.as_deref()),
        Some(Command::Agent { .. }) => unreachable!("handled above"),
    }
}
