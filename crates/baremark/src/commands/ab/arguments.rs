//! The arguments of `baremark ab` and `baremark run --in`.

use crate::named_places::{self, HEADING};
use crate::overrides::{Spending, percent};
use baremark_model::units::{Nanos, Share};
use std::path::PathBuf;

const MEASUREMENT: &str = "Measurement";
const OUTPUT: &str = "Output";

/// The command's arguments.
#[derive(clap::Args)]
pub struct Arguments {
    /// Commands to compare; the others are compared with the first
    #[arg(value_name = "COMMAND", required = true)]
    pub(super) commands: Vec<String>,
    /// Take each command as NAME=COMMAND; reports show NAME
    #[arg(short = 'n', long = "name", action = clap::ArgAction::Count)]
    pub(super) named: u8,
    /// Arguments that are appended to every command
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(super) arguments: Vec<String>,
    #[command(flatten)]
    pub(super) spending: Spending,
    /// Run both commands of a pair at the same time, a CPU each, and swap the CPUs in the next run; needs --by cpu_s
    #[arg(long, help_heading = MEASUREMENT)]
    pub(super) duet: bool,
    #[arg(long = "in", value_name = "ENVIRONMENTS", value_delimiter = ',', help_heading = HEADING, help = named_places::help())]
    pub(super) places: Vec<String>,
    #[command(flatten)]
    pub(super) options: Options,
}

impl Arguments {
    /// With all that is given for the commands in their options.
    pub(super) fn joined(mut self) -> Self {
        self.options.spending = self.spending.clone();
        self.options.places.clone_from(&self.places);
        self.options.duet = self.duet;
        self
    }
}

/// What can be said of commands, wherever they run.
#[derive(clap::Args)]
#[command(next_help_heading = "Commands and programs")]
pub struct Options {
    /// Image of the pods of kubernetes, which must have a shell [default: docker.io/library/busybox:stable]
    #[arg(long, value_name = "IMAGE", help_heading = HEADING)]
    pub(super) image: Option<String>,
    /// File or folder that the program needs elsewhere, in addition to its libraries and the files that its arguments name
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(super) with: Vec<PathBuf>,
    /// Values of a placeholder {NAME} in the commands: a list A,B,C or a range FIRST..LAST[..STEP]
    #[arg(short = 'L', long, value_name = "NAME=VALUES")]
    pub(super) parameter: Vec<String>,
    /// Run once before the first run; given several times, once for each command
    #[arg(short, long, value_name = "COMMAND")]
    pub(super) setup: Vec<String>,
    /// Run before each timed run; given several times, one for each command
    #[arg(short, long, value_name = "COMMAND")]
    pub(super) prepare: Vec<String>,
    /// Run once after the last run; given several times, once for each command
    #[arg(short, long, value_name = "COMMAND")]
    pub(super) cleanup: Vec<String>,
    /// Untimed runs of each command before the first timed one
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub(super) warmup: u64,
    /// Run commands by a shell; its own start is then part of every time
    #[arg(long, value_name = "SHELL", num_args = 0..=1, require_equals = true, default_missing_value = "/bin/sh")]
    pub(super) shell: Option<String>,
    /// Count runs that end with any exit code, or with one of CODES
    #[arg(short, long, value_name = "CODES", num_args = 0..=1, require_equals = true, default_missing_value = "", value_delimiter = None)]
    pub(super) ignore_exit: Option<String>,
    /// File that each run reads as standard input
    #[arg(long, value_name = "FILE")]
    pub(super) stdin: Option<String>,
    /// Standard output of the commands: drop it (/dev/null), or keep it for patterns (a pipe)
    #[arg(long, value_name = "WHAT", value_parser = ["drop", "keep"])]
    pub(super) output: Option<String>,
    /// Take a metric from the output: the number in the pattern's parentheses
    #[arg(short, long, value_name = "NAME=PATTERN")]
    pub(super) metric: Vec<String>,
    /// Time after which one run is ended and has failed
    #[arg(long, value_name = "TIME", default_value = "10min")]
    pub(super) timeout: Nanos,
    /// Exit 4 if another command or environment is worse than the first by more than PERCENT, 5 if that is undecided
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(super) fail_above: Option<Share>,
    /// Print comma-separated values instead of text
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    pub(super) csv: bool,
    /// Write a table in Markdown to FILE
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(super) export_markdown: Option<PathBuf>,
    /// Given next to these; arguments of their own, since a group of arguments has no other in it.
    #[arg(skip)]
    pub spending: Spending,
    /// Given for studies as well.
    #[arg(skip)]
    pub places: Vec<String>,
    /// Of several commands alone.
    #[arg(skip)]
    pub(super) duet: bool,
}
