//! `baremark ab`, commands compared by interleaved runs, and `baremark run --in`, one program in several environments. Both
//! write a study and run it as any other.

mod elsewhere;
mod study;
mod words;

use crate::commands::{check, run};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record::{self, Record};
use crate::source::Source;
use crate::{calibrate, commands::plan, context, predicted};
use baremark_lab::{analysis, gates};
use baremark_model::comparison::{Answer, Gate};
use baremark_model::document::Document;
use baremark_model::plan::Mode;
use baremark_model::units::{Nanos, Share};
use baremark_report::commands as report;
use std::path::PathBuf;

/// What `--help` shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  baremark ab 'gzip -1 -c data' 'gzip -6 -c data'
  baremark ab -n old=./a.out -n new=./b.out --fail-above 1%
  baremark ab ./old ./new -- --size 10 file
  baremark ab 'sort --parallel={threads} file' -L threads=1..2";

/// What `baremark run --help` shows at its end.
pub const RUN_EXAMPLES: &str = "\
Examples:
  baremark run standard --quick
  baremark run --in native,microvm -- gzip -9 -c data
  baremark run --in native,container,qemu,ssh:host -- ./prog --size 10 data
  baremark run --in native,microvm --print-study -- ./prog   # the study, to be changed and run";

/// The command's arguments.
#[derive(clap::Args)]
pub struct Arguments {
    /// Commands to compare; the others are compared with the first
    #[arg(value_name = "COMMAND", required = true)]
    commands: Vec<String>,
    /// Take commands as NAME=COMMAND
    #[arg(short = 'n', long = "name", action = clap::ArgAction::Count)]
    named: u8,
    #[command(flatten)]
    options: Options,
    /// Arguments that are appended to every command
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// What can be said of commands, wherever they run.
#[derive(clap::Args)]
#[command(next_help_heading = "Commands and programs")]
pub struct Options {
    /// Environments to run in: native, microvm, container[:IMAGE], qemu[:KERNEL], ssh:HOST[:PORT]
    #[arg(long = "in", value_name = "ENVIRONMENTS", value_delimiter = ',')]
    places: Vec<String>,
    /// File or folder that the program needs elsewhere, in addition to its libraries and the files that its arguments name
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
    /// Values of a placeholder {NAME} in the commands: a list A,B,C or a range FIRST..LAST
    #[arg(short = 'L', long, value_name = "NAME=VALUES")]
    parameter: Vec<String>,
    /// Run once before the first run; given several times, once for each command
    #[arg(short, long, value_name = "COMMAND")]
    setup: Vec<String>,
    /// Run before each timed run; given several times, one for each command
    #[arg(short, long, value_name = "COMMAND")]
    prepare: Vec<String>,
    /// Run once after the last run; given several times, once for each command
    #[arg(short, long, value_name = "COMMAND")]
    cleanup: Vec<String>,
    /// Untimed runs of each command before the first timed one
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    warmup: u64,
    /// Run commands by a shell; its own start is then part of every time
    #[arg(long, value_name = "SHELL", num_args = 0..=1, require_equals = true, default_missing_value = "/bin/sh")]
    shell: Option<String>,
    /// Count runs that end with any exit code, or with one of CODES
    #[arg(short, long, value_name = "CODES", num_args = 0..=1, require_equals = true, default_missing_value = "", value_delimiter = None)]
    ignore_exit: Option<String>,
    /// File that each run reads as standard input
    #[arg(long, value_name = "FILE")]
    stdin: Option<String>,
    /// Standard output of the commands: drop it (/dev/null), or keep it for patterns (a pipe)
    #[arg(long, value_name = "WHAT", value_parser = ["drop", "keep"])]
    output: Option<String>,
    /// Take a metric from the output: the number in the pattern's parentheses
    #[arg(short, long, value_name = "NAME=PATTERN")]
    metric: Vec<String>,
    /// Metric to compare by, with the direction that is better: wall_s, cpu_s, NAME, NAME:higher
    #[arg(long, value_name = "METRIC", default_value = "wall_s")]
    by: String,
    /// Stop when the 95 % interval is this narrow [default: 1 %, or half of --fail-above]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    precision: Option<Share>,
    /// Stop after TIME at the latest
    #[arg(long, value_name = "TIME", default_value = "60s")]
    budget: Nanos,
    /// Time after which one run is ended and has failed
    #[arg(long, value_name = "TIME", default_value = "10min")]
    timeout: Nanos,
    /// Exit 4 if another command or environment is worse than the first by more than PERCENT, 5 if that is undecided
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<Share>,
    /// Print comma-separated values instead of text
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write a table in Markdown to FILE
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
    /// Print the study that would be run, for `baremark run`, and run nothing
    #[arg(long)]
    print_study: bool,
}

/// A percentage with or without its sign.
fn percent(text: &str) -> Result<Share, String> {
    let typed = if text.trim_end().ends_with('%') { text.to_owned() } else { format!("{text} %") };
    let share: Share = typed.parse().map_err(|why| format!("{why}"))?;
    if (0.0002..=0.5).contains(&share.0) { Ok(share) } else { Err("write a percentage from 0.02 to 50".to_owned()) }
}

/// Runs the comparison, or prints its study.
pub fn run(context: &Context, arguments: &Arguments) -> Result<(String, Exit), Refusal> {
    compared(context, study::of_commands(arguments)?, &arguments.options)
}

/// Runs one program in several environments, or prints the study of it.
pub fn places(context: &Context, options: &Options, program: &[String]) -> Result<(String, Exit), Refusal> {
    compared(context, study::of_program(options, program)?, options)
}

fn compared(context: &Context, study: study::Study, options: &Options) -> Result<(String, Exit), Refusal> {
    if options.print_study {
        return Ok((study.text, Exit::Success));
    }
    let source = Source { name: study.name.to_owned(), bytes: study.text.into_bytes() };
    let plan = plan::of(&source, Mode::default(), &context.interrupt)?;
    let store = context.open_store()?;
    let command_line = Source { name: study.command_line, bytes: source.bytes };
    let turn = record::turn(context, &store)?;
    let record = Record::create(&store, &command_line, &plan)?;
    drop(turn);
    let (run, exit) = run::measure(context, record)?;
    let descriptors = context::descriptors_of(&run)?;
    let document = predicted::document(&run, &descriptors, calibrate::of_run(context, &run).as_ref());
    if exit == Exit::Failure && options.ignore_exit.is_none() {
        crate::watch::say("a command that ends with another exit code than 0 is not counted; --ignore-exit counts it");
    }
    if let Some(path) = &options.export_markdown {
        let table = report::markdown(&document, &study.commands);
        std::fs::write(path, table)
            .map_err(|why| Refusal::failure(format!("writing {}: {why}; name another file", path.display())))?;
    }
    let gate = options.fail_above.and_then(|margin| gate_of(&run, &document, margin));
    let answer = match (&gate, options.fail_above) {
        (_, None) => Exit::Success,
        (None, Some(_)) => Exit::Undecided,
        (Some(gate), Some(_)) => check::exit_of(gate.answer),
    };
    let gate = gate.map(|gate| lines(&document, &gate)).unwrap_or_default();
    let text = match (context.json, options.csv) {
        (true, _) => baremark_report::json::render(&document),
        (_, true) => baremark_report::csv::results(&document),
        _ => report::render(&document, &study.commands, &crate::watch::style()) + &gate,
    };
    Ok((text, if exit == Exit::Success { answer } else { exit }))
}

/// The gate of the headline's ratios; `None` where nothing was measured.
fn gate_of(run: &analysis::Run, document: &Document, margin: Share) -> Option<Gate> {
    let estimate = document.estimates.iter().find(|of| of.metric == document.run.metric)?;
    Some(gates::of_run(run, estimate.better, margin))
}

/// The lines of the gate.
fn lines(document: &Document, gate: &Gate) -> String {
    let mut text = String::from("\n");
    let margin = gate.margin;
    let rows = document.ratios.iter().filter(|row| row.metric == document.run.metric);
    for (row, found) in rows.zip(&gate.rows) {
        let power = found.power.map_or_else(String::new, |power| {
            format!("; a loss of {margin} would have been found with power {:.0} %", 100.0 * power)
        });
        let says = match (found.answer, found.needed) {
            (Answer::Loss, _) => format!("FAIL: worse by more than {margin}"),
            (Answer::Passed, _) => format!("ok: not worse by more than {margin}{power}"),
            (Answer::Undecided, Some(blocks)) => {
                format!("undecided within {margin}{power}; about {blocks} blocks would settle it, {} ran", row.blocks)
            }
            (Answer::Undecided, None) => {
                format!("undecided within {margin}{power}; raise --budget, or fail above a larger share")
            }
        };
        text.push_str(&format!("{}  {says}\n", report::pair(row)));
    }
    text
}
