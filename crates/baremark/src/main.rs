//! The binary: command line, composition root, and the only part of baremark that prints.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::allow_attributes,
    reason = "this is where printing is done"
)]

mod auction_places;
mod bundled;
mod calibrate;
mod changes;
mod commands;
mod context;
mod counted;
mod data;
mod exit;
mod help;
mod json;
mod kept;
mod kinds;
mod lab_network;
mod message;
mod named_places;
mod overrides;
mod part_of_run;
mod places;
mod planning;
mod predicted;
mod quiet;
mod record;
mod sides;
mod source;
mod tracer;
mod watch;

use baremark_model::plan::Mode;
use baremark_model::units::{Nanos, Share};
use baremark_sys::clock::Calibration;
use baremark_sys::secrets;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use commands::{
    ab, at, auction, auction_run, bundle, carry, check, compare, completions, doctor, echo, explain, histograms,
    history, import, list, load, man, net_stats, nodes, plan, predict, report, resume, run, setup, show, site, tend,
    top, verify, verify_host, verify_scale,
};
use context::Context;
use exit::{Exit, Refusal};
use overrides::{Changes, Spending};
use part_of_run::PartOfRun;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How much of bare metal do I keep when my work runs in a VM, a container or a cloud, why, and what should I change?
///
/// Without a command, baremark runs the standard study on this machine.
#[derive(Parser)]
#[command(version = env!("BAREMARK_VERSION"), after_help = Exit::table(), disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
#[command(next_help_heading = "Common options")]
struct Common {
    /// The store of all runs [default: baremark/baremark.db in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, global = true, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Print one JSON document to standard output instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Show no progress; warnings and errors are shown
    #[arg(long, global = true)]
    quiet: bool,
    /// Wait until no other run of the store measures on this machine
    #[arg(long, global = true)]
    wait: bool,
    /// Wait for idle CPUs, at most TIME [default: 10min]
    #[arg(long, global = true, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10 min")]
    wait_quiet: Option<Nanos>,
}

#[derive(Args, Clone, Copy)]
struct ModeArgs {
    /// Fewest blocks and smallest sizes, for a first impression
    #[arg(long)]
    quick: bool,
    /// A/A: every treatment against itself; shows the noise floor
    #[arg(long)]
    aa: bool,
}

impl ModeArgs {
    fn mode(self) -> Mode {
        Mode { quick: self.quick, self_check: self.aa }
    }
}

#[derive(Args)]
struct RunArgs {
    /// The study file or the shipped study's name
    #[arg(conflicts_with_all = ["Options", "program"])]
    study: Option<String>,
    #[command(flatten)]
    mode: ModeArgs,
    /// Let `block` overwrite this device or file (repeat for several)
    #[arg(long, value_name = "PATH", conflicts_with = "program")]
    allow_destructive: Vec<std::path::PathBuf>,
    /// Allow a study to set features of this host (factors `host.*`); they are undone at the end
    #[arg(long, conflicts_with = "program")]
    allow_host_changes: bool,
    /// Instead of a study: a program and its arguments, after --
    #[arg(last = true, value_name = "PROGRAM", conflicts_with_all = ["quick", "aa", "set", "vary"])]
    program: Vec<String>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    spending: Spending,
    #[command(flatten)]
    options: ab::Options,
}

#[derive(Subcommand)]
enum Command {
    /// Run a study, or one program in several environments: run --in native,microvm -- PROGRAM
    #[command(after_help = ab::RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Compare commands by interleaved runs
    #[command(after_help = ab::EXAMPLES)]
    Ab(Box<ab::Arguments>),
    /// Print a shipped study with its comments, or the study of a run, to be read, changed and run
    #[command(after_help = show::EXAMPLES)]
    Show {
        /// The shipped study's name, that of a published table which a study measures, or a run
        study: String,
        #[command(flatten)]
        changes: Changes,
    },
    /// Print a complete study of two programs, to be changed and run
    #[command(after_help = show::INIT_EXAMPLES)]
    Init,
    /// Continue a run that was interrupted or killed, or extend a finished one
    #[command(after_help = resume::EXAMPLES)]
    Resume {
        /// Run ID or unique prefix [default: the latest unfinished one that is no load; with --budget or --precision the latest]
        run: Option<String>,
        #[command(flatten)]
        more: resume::More,
        /// Let `block` overwrite this device or file (repeat for several)
        #[arg(long, value_name = "PATH")]
        allow_destructive: Vec<std::path::PathBuf>,
        /// Allow the study to set features of this host (factors `host.*`); they are undone at the end
        #[arg(long)]
        allow_host_changes: bool,
    },
    /// Show what a study would do on this machine and how long each precision takes
    #[command(after_help = plan::EXAMPLES)]
    Plan {
        /// The study file or the shipped study's name
        study: String,
        #[command(flatten)]
        mode: ModeArgs,
        /// Measure for TIME, stored as a run of its own, to find how long each precision takes
        #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "15 s")]
        pilot: Option<Nanos>,
        /// Plan for the recorded machine PATH (scripts/record-machine, or a folder with its proc and sys), with all programs installed
        #[arg(long, value_name = "PATH", conflicts_with = "pilot")]
        machine: Option<std::path::PathBuf>,
        #[command(flatten)]
        changes: Changes,
        #[command(flatten)]
        spending: Spending,
    },
    /// Predict what MMU virtualization and page sizes would cost, of a study or of any program
    #[command(after_help = predict::EXAMPLES)]
    Predict(predict::Arguments),
    /// List workloads, environments, studies, keys and exit codes
    #[command(after_help = list::EXAMPLES)]
    List {
        /// What to list [default: the names of everything]
        what: Option<list::What>,
        /// With workloads: this one alone
        kind: Option<String>,
    },
    /// Check whether this machine is fit to measure, and show what is noisy and what to change
    #[command(after_help = doctor::EXAMPLES)]
    Doctor {
        /// Judge the recorded machine PATH (scripts/record-machine, or a folder with its proc and sys) by its files
        #[arg(long, value_name = "PATH")]
        machine: Option<std::path::PathBuf>,
    },
    /// Name the saturated layer (CPU, memory, disk, network ...) of a stored run, or with --now of this machine
    ///
    /// Of each layer utilization, saturation and errors are shown. A layer is saturated where the lower end of the 95 % interval of the
    /// waiting for it is above the layer's limit; the first such layer, from the hypervisor to the application, is named.
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::ExplainArgs),
    /// List the runs in the store
    #[command(after_help = history::EXAMPLES)]
    History {
        /// Detect change points in the history of each study (8 runs or more)
        #[arg(long)]
        changes: bool,
    },
    /// Show a stored run again
    #[command(after_help = report::EXAMPLES)]
    Report {
        /// Run ID or unique prefix [default: the latest one]
        run: Option<String>,
        /// Divide the ratios of other runs by those of RUN1: releases of a database, boots or MMU modes of the host; as `compare --join`
        ///
        /// Each is a run, or RUN,RUN,RUN for an interval from the spread between runs; levels are picked as in `compare`. Rows that one
        /// run alone has are named with the reason, and what differs between the runs is listed.
        #[arg(long, num_args = 2..=8, value_names = ["RUN1", "RUN2"], conflicts_with_all = ["run", "Form", "without_damaged"])]
        join: Option<Vec<String>>,
        #[command(flatten)]
        form: report::Form,
        #[command(flatten)]
        damage: report::Damage,
    },
    /// Write a run as one file for others: trials, machine, versions, study, result and a script that derives it again
    ///
    /// Names of hosts and users, addresses, paths and environment variables are removed unless --identify is given.
    #[command(after_help = bundle::EXAMPLES)]
    Bundle(bundle::Arguments),
    /// Compute the numbers of a bundle again and compare, and check who signed it: exit 4 where one does not follow from its trials
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::Arguments),
    /// Write static pages of the store's runs or of bundles, or serve them: an index that can be sorted and a report of each run
    #[command(after_help = site::EXAMPLES)]
    Site(site::Arguments),
    /// Compare two sides: runs with runs, or two levels of one run
    ///
    /// A side is RUN[,RUN ...][:FACTOR=LEVEL[+FACTOR=LEVEL ...]]. Each RUN is a stored run, the name of imported runs, a file that
    /// --json or another program (hyperfine, fio, k6 ...) wrote, or a folder of such files. Levels of one run are compared block by block; runs share no block, so that at least three a
    /// side are needed. Whatever else differs between the sides is named.
    #[command(after_help = compare::EXAMPLES, override_usage = compare::USAGE)]
    Compare {
        /// Baseline side
        base: String,
        /// Side that is compared with the baseline
        other: String,
        /// With --join: further sides, eight at most with the baseline
        #[arg(value_name = "MORE", requires = "join")]
        more: Vec<String>,
        /// Divide the ratios of each side by those of the baseline: boots, releases or MMU modes, which cannot share a run
        ///
        /// A ratio within a run, such as that of a guest to native, does not change with what slows both. Rows that one run alone has are
        /// named with the reason, and what differs between the runs is listed as a possible cause.
        #[arg(long, conflicts_with_all = ["delta", "factor"])]
        join: bool,
        #[command(flatten)]
        args: compare::CompareArgs,
    },
    /// Exit non-zero on a performance regression: 4 slower than the baseline, 5 a loss could have been missed
    #[command(after_help = check::EXAMPLES)]
    Check {
        /// The baseline, named as in `compare`
        #[arg(long, value_name = "BASELINE")]
        against: String,
        /// Loss that must not go unnoticed: exit 5 unless it would have been found with a power of 80 %
        #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = compare::share)]
        margin: Share,
        /// Write a summary in Markdown to FILE
        #[arg(long, value_name = "FILE")]
        summary: Option<PathBuf>,
        /// Confirm an alarm: run the study of the checked runs again, three times, before a loss is reported with exit 4
        #[arg(long)]
        confirm: bool,
        /// Runs to check, named as in `compare` [default: all runs of that study since the baseline]
        run: Option<String>,
        #[command(flatten)]
        args: compare::CompareArgs,
    },
    /// Try every part of baremark on this machine and show which work: microVM, containers, guests, networks, disks, databases
    ///
    /// Each part is measured briefly, within a time limit; features of the host are listed and not changed. Takes a minute or two.
    #[command(after_help = verify_host::EXAMPLES)]
    VerifyHost(verify_host::Arguments),
    /// Check the method: measure known slow-downs of 0, 1, 2 and 5 % under random labels
    ///
    /// Costs of 0, 1, 2 and 5 % pass through every step, from the timed loop to the interval, on arms of which the
    /// analysis knows only a random label. Takes about one minute with --quick, else about five.
    #[command(after_help = verify_scale::EXAMPLES)]
    VerifyScale {
        /// The study whose workload and first native treatment carries the costs [default: fma on one rank]
        study: Option<String>,
        /// Two arms of each overhead and ten blocks
        #[arg(long)]
        quick: bool,
        /// Open a stored run again instead of measuring
        #[arg(long, value_name = "RUN", conflicts_with_all = ["study", "quick"])]
        run: Option<String>,
    },
    /// Import results of another program as runs, or its monitoring data to a run
    ///
    /// Each file becomes a run, which compare, check, history and report take as any other. Monitoring data (esxtop) is shown, or
    /// with --run added to a run that overlaps it.
    #[command(after_help = import::EXAMPLES)]
    Import(Box<import::ImportArgs>),
    /// Show live system activity; --rows by process, --cost measures the overhead
    #[command(after_help = top::EXAMPLES)]
    Top(top::TopArgs),
    /// Trace each I/O of block devices, or packet of interfaces: sizes, seeks, latency in queue and device, as histograms
    #[command(after_help = histograms::EXAMPLES)]
    Histograms(histograms::HistogramsArgs),
    /// Fetch what environments need: the kernel of guests
    #[command(subcommand, after_help = setup::EXAMPLES)]
    Setup(setup::Setup),
    /// Print the completions of a shell
    #[command(after_help = completions::EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(after_help = man::EXAMPLES)]
    Man {
        /// Write the pages of all commands into this folder instead
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
    /// Run a program over several network namespaces, with a delay between them
    ///
    /// The namespaces are the nodes of a cluster on one machine: on a bridge of their own, each with an address. The program runs on the first;
    /// it starts others by '{launch} ADDRESS COMMAND', as by ssh. Placeholders in its arguments: {hosts} for the addresses of all nodes with commas
    /// between, {host1}, {host2} and so on for one, {subnet} for their subnet, {launch} for the command that runs another on a node.
    #[command(after_help = nodes::EXAMPLES)]
    Nodes(nodes::NodesArgs),
    /// Generate HTTP load, measure latency and check limits
    Load(Box<load::LoadArgs>),
    /// Run the peer of the workload ping-pong on another machine
    #[command(after_help = echo::EXAMPLES)]
    Echo(echo::EchoArgs),
    /// The auction application: an auction site to be put under load
    #[command(after_help = auction::EXAMPLES)]
    Auction {
        #[command(subcommand)]
        action: auction::Action,
    },
    /// Run a program until it ends or standard input does (containers of an application are started so)
    #[command(hide = true)]
    Tend {
        /// Instead: remove this folder when standard input ends and the process of --of, which started this, is gone
        #[arg(long, value_name = "FOLDER", requires = "of")]
        folder: Option<PathBuf>,
        /// The process whose folder it is
        #[arg(long, value_name = "PID", requires = "folder")]
        of: Option<u32>,
        #[command(flatten)]
        within: tend::Within,
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Run a program at a site of its own until it ends or standard input does (applications' instances elsewhere are started so)
    #[command(hide = true)]
    At {
        /// The file that says what and where
        orders: PathBuf,
    },
    /// Carry out an application's instance at this site (whoever attends to it from elsewhere starts this)
    #[command(hide = true)]
    Carry {
        /// The file that says which
        file: PathBuf,
    },
    /// Describe a command, or with `all` every one and the exit codes
    #[command(after_help = help::EXAMPLES)]
    Help {
        /// The command and, if it has any, its own command
        command: Vec<String>,
    },
    /// As `auction run`
    #[command(hide = true)]
    AuctionRun(auction_run::RunArgs),
    #[command(flatten)]
    Part(PartOfRun),
}

/// A part of a run, read without the tables of all other commands, which take about as long as the rest of a process's start.
#[derive(Parser)]
#[command(name = "baremark", version = env!("BAREMARK_VERSION"), disable_help_subcommand = true)]
struct OnePart {
    #[command(subcommand)]
    part: PartOfRun,
    #[command(flatten)]
    common: Common,
}

/// What was typed. Where that is wrong, or asks for help, this ends the process with what is to be said.
fn typed() -> Cli {
    let first = std::env::args_os().nth(1);
    let is_part = first.as_deref().and_then(OsStr::to_str).is_some_and(PartOfRun::has_subcommand);
    let read = if is_part {
        OnePart::try_parse().map(|OnePart { part, common }| Cli { command: Some(Command::Part(part)), common })
    } else {
        Cli::try_parse()
    };
    // Help is arranged where it is shown alone.
    read.unwrap_or_else(|_why| {
        let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let matches = help::arranged(Cli::command()).try_get_matches();
        let read = matches.and_then(|matches| Cli::from_arg_matches(&matches));
        read.unwrap_or_else(|why| help::of_typed(why, &words).exit())
    })
}

fn main() -> Exit {
    let cli = typed();
    let json = cli.common.json;
    match dispatch(cli) {
        Ok((text, exit)) => match print(&text, json) {
            // A reader that has seen enough, such as `head`, is not a failure; a terminal that hung up interrupted the run.
            Err(why) if why.kind() != io::ErrorKind::BrokenPipe && exit != Exit::Interrupted => {
                watch::say(format_args!("error: writing the output: {why}"));
                Exit::Failure
            }
            _ => exit,
        },
        Err(Refusal { exit, message }) => {
            watch::say(format_args!("error: {message}"));
            exit
        }
    }
}

/// Prints a result. What is not a document for programs may hold texts of others, whose control characters are shown.
fn print(text: &str, json: bool) -> io::Result<()> {
    let shown = if json { text.into() } else { baremark_report::printable(text, watch::style().color) };
    io::stdout().write_all(shown.as_bytes())
}

/// A flag that is set when the user wants an end, or the terminal has hung up.
fn on_signals() -> io::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The first asks the run to stop cleanly; a second one, while it is stopping, ends the program at once.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&interrupt))?;
        signal_hook::flag::register(signal, Arc::clone(&interrupt))?;
    }
    // Whoever started this with `nohup` wants it to continue. A hang-up may come twice, from the kernel and from the shell.
    if !baremark_sys::process::ignores(SIGHUP) {
        signal_hook::flag::register(SIGHUP, Arc::clone(&interrupt))?;
    }
    Ok(interrupt)
}

/// What commands do that handle their signals themselves, as parts of a run do; `None` for all others.
fn part_of_a_run(command: &Command) -> Option<Result<(String, Exit), Refusal>> {
    match command {
        Command::Part(part) => Some(part.run()),
        Command::Echo(args) => Some(echo::run(args)),
        _ => None,
    }
}

/// Whether a command begins with undoing what runs left that were killed: all do but those that print what is built in, that a run starts, and that
/// report what they undo themselves.
fn recovers(command: &Command) -> bool {
    let own = matches!(command, Command::Doctor { .. });
    let built_in = matches!(
        command,
        Command::Init | Command::Show { .. } | Command::Help { .. } | Command::Completions { .. } | Command::Man { .. }
    );
    let of_a_run = matches!(command, Command::Tend { .. } | Command::At { .. } | Command::Carry { .. });
    !(own || built_in || of_a_run)
}

/// `baremark run`: a study, or a program in several environments.
fn run_study(context: &mut Context, mut args: RunArgs) -> Result<(String, Exit), Refusal> {
    let Some(study) = &args.study else {
        if args.program.is_empty() {
            let what = "neither a study nor a program is named";
            let remedy = "write run STUDY (`baremark list studies`), or run --in native,microvm -- PROGRAM";
            return Err(Refusal::bad_input(format!("{what}; {remedy}")));
        }
        args.options.spending = args.spending;
        args.options.places = args.changes.places;
        return ab::places(context, &args.options, &args.program);
    };
    context.allow_destructive.clone_from(&args.allow_destructive);
    context.allow_host_changes = args.allow_host_changes;
    let study = overrides::applied(source::find(study)?, &args.changes, &args.spending)?;
    if args.spending.print_study { show::print(context, &study) } else { run::run(context, &study, args.mode.mode()) }
}

fn dispatch(cli: Cli) -> Result<(String, Exit), Refusal> {
    // The application's own commands read theirs from the environment, and start no program.
    if !matches!(&cli.command, Some(Command::Auction { action }) if !matches!(action, auction::Action::Run(_))) {
        secrets::take().map_err(|why| Refusal::failure(format!("taking secrets out of the environment: {why}")))?;
    }
    changes::record_all();
    // What commands and agents do first takes longer than the calibration that some need.
    Calibration::begin_ahead();
    if let Some(ended) = cli.command.as_ref().and_then(part_of_a_run) {
        return ended;
    }
    if cli.command.as_ref().is_none_or(recovers) {
        changes::recover_in_passing();
    }
    // The application is a process of its own that handles its signals.
    let command = match cli.command {
        Some(Command::Auction { action: auction::Action::Run(args) }) => Some(Command::AuctionRun(args)),
        Some(Command::Auction { action }) => return Ok((String::new(), auction::run(action))),
        command => command,
    };
    let interrupt = on_signals().map_err(|why| Refusal::failure(format!("catching signals: {why}")))?;
    let mut context = Context {
        store: cli.common.store,
        json: cli.common.json,
        quiet: cli.common.quiet,
        wait: cli.common.wait,
        wait_quiet: cli.common.wait_quiet,
        interrupt,
        allow_destructive: Vec::new(),
        allow_host_changes: false,
    };
    match command {
        None => run::run(&context, &source::shipped(&source::SHIPPED[0]), Mode::default()),
        Some(Command::Run(args)) => run_study(&mut context, *args),
        Some(Command::Ab(arguments)) => ab::run(&context, *arguments),
        Some(Command::Init) => Ok((source::EXAMPLE.to_owned(), Exit::Success)),
        Some(Command::Resume { run, more, allow_destructive, allow_host_changes }) => {
            context.allow_destructive = allow_destructive;
            context.allow_host_changes = allow_host_changes;
            resume::run(&context, run.as_deref(), &more)
        }
        Some(Command::Plan { study, mode: args, pilot, machine, changes, spending }) => {
            let _machine = machine.as_deref().map(source::machine).transpose()?;
            let study = overrides::applied(source::find(&study)?, &changes, &spending)?;
            if spending.print_study {
                show::print(&context, &study)
            } else {
                plan::run(&context, &study, args.mode(), pilot)
            }
        }
        Some(Command::Show { study, changes }) => show::run(&context, &study, &changes),
        Some(Command::Help { command }) => help::run(Cli::command(), &command),
        Some(Command::Predict(arguments)) => predict::run(&context, &arguments),
        Some(Command::Load(args)) => load::run(&context, *args),
        Some(Command::List { what, kind }) => list::run(&context, what, kind.as_deref()),
        Some(Command::Doctor { machine }) => doctor::run(machine.as_deref(), context.json),
        Some(Command::Explain(args)) => explain::run(&context, &args),
        Some(Command::History { changes }) => history::run(&context, changes),
        Some(Command::Report { join: Some(sides), .. }) => report::join(&context, &sides),
        Some(Command::Report { run, join: None, form, damage }) => {
            report::run(&context, run.as_deref(), &form, &damage)
        }
        Some(Command::Bundle(arguments)) => bundle::bundle(&context, &arguments),
        Some(Command::Verify(arguments)) => verify::run(&context, &arguments),
        Some(Command::Site(arguments)) => site::run(context, &arguments),
        Some(Command::Compare { base, other, more, join: true, .. }) => {
            report::join(&context, &[vec![base, other], more].concat())
        }
        Some(Command::Compare { base, other, args, .. }) => compare::run(&context, &base, &other, &args),
        Some(Command::Check { against, margin, summary, confirm, run, args }) => {
            check::run(&context, &against, run.as_deref(), margin, (summary.as_deref(), confirm), &args)
        }
        Some(Command::VerifyHost(arguments)) => verify_host::run(&context, &arguments),
        Some(Command::VerifyScale { study: _, quick: _, run: Some(run) }) => verify_scale::again(&context, &run),
        Some(Command::VerifyScale { study, quick, run: None }) => verify_scale::run(&context, study.as_deref(), quick),
        Some(Command::Import(import)) => import::run(&context, &import),
        Some(Command::Top(args)) => top::run(&context, &args),
        Some(Command::Histograms(args)) if args.net => net_stats::run(&context, &args),
        Some(Command::Histograms(args)) => histograms::run(&context, &args),
        Some(Command::Nodes(args)) => nodes::run(&args, &context.interrupt),
        Some(Command::Setup(what)) => setup::run(&context, &what),
        Some(Command::Completions { shell }) => completions::run(Cli::command(), shell),
        Some(Command::Man { to }) => man::run(Cli::command(), to.as_deref()),
        Some(Command::Tend { folder: Some(folder), of: Some(owner), .. }) => tend::guard(&folder, owner),
        Some(Command::Tend { within, command, .. }) => tend::run(&command, &within, &context.interrupt),
        Some(Command::At { orders }) => at::run(&orders, &context.interrupt),
        Some(Command::Carry { file }) => carry::run(&file, &context.interrupt),
        Some(Command::AuctionRun(args)) => auction_run::run(&context, &args),
        Some(Command::Part(_) | Command::Echo(_) | Command::Auction { .. }) => {
            unreachable!("handled above")
        }
    }
}
