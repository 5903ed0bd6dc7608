//! The command line of `baremark load`.

use baremark_load::profile::Profile;
use baremark_model::qos::Limit;
use baremark_model::units::{Nanos, Share, UnitError};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  baremark load http://127.0.0.1:8080/  # 64 connections for 10 s
  baremark load URL --rate 2000 --duration 30s --limit 'p99<50ms'
  baremark load URL --scenario shop.toml --users 'ramp from=0 to=500 over=60s'
  baremark load URL --find-max --limit 'p99<50ms'   # the highest rate";

/// Headings of the options in help.
const LOAD: &str = "Load";
const REQUESTS: &str = "Connections and requests";
const GENERATOR: &str = "Generator and output";
const LIMITS: &str = "Limits";

/// What the command line asks for.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LoadArgs {
    /// Server URL, such as http://127.0.0.1:8080/; overrides the scenario's base URL
    #[arg(required_unless_present = "scenario")]
    pub(super) url: Option<String>,
    /// Scenario file with what users do (format: docs/load-scenario.md)
    #[arg(help_heading = LOAD, long, value_name = "FILE")]
    pub(super) scenario: Option<PathBuf>,
    /// Open loop: start operations at this rate per second, as a number or a profile ('ramp from=0 to=2000 over=30s')
    #[arg(help_heading = LOAD, long, value_name = "PROFILE", conflicts_with = "users", value_parser = profile)]
    pub(super) rate: Option<String>,
    /// Closed loop: number of users who repeat the scenario's cycle, as a number or a profile
    #[arg(help_heading = LOAD, long, value_name = "PROFILE", value_parser = profile)]
    pub(super) users: Option<String>,
    /// Inter-arrival time distribution of --rate
    #[arg(help_heading = LOAD, long, value_enum, default_value = "constant")]
    pub(super) arrival: Gaps,
    /// Open loop: replay recorded arrival times, one time in seconds per line
    #[arg(help_heading = LOAD, long, value_name = "FILE", conflicts_with_all = ["users", "arrival"])]
    pub(super) replay: Option<PathBuf>,
    /// Open loop: read the rate profile from a file with 'seconds,rate' per line
    #[arg(help_heading = LOAD, long, value_name = "FILE", conflicts_with_all = ["rate", "users"])]
    pub(super) trace: Option<PathBuf>,
    /// Repeat the trace when it ends
    #[arg(help_heading = LOAD, long, requires = "trace")]
    pub(super) repeat: bool,
    /// Number of connections; with --rate or --users the maximum [default: 64, or as many as needed]
    #[arg(help_heading = REQUESTS, long, value_name = "N")]
    pub(super) connections: Option<usize>,
    /// Share connections among users instead of one connection per user
    #[arg(help_heading = REQUESTS, long)]
    pub(super) shared: bool,
    /// Use HTTP/2
    #[arg(help_heading = REQUESTS, long)]
    pub(super) http2: bool,
    /// Concurrent requests per HTTP/2 connection
    #[arg(help_heading = REQUESTS, long, value_name = "N", default_value_t = 10, requires = "http2")]
    pub(super) streams: usize,
    /// Generate load from this site: native, container or ssh:HOST[:PORT]; repeat for several [default: this process]
    #[arg(help_heading = GENERATOR, long, value_name = "SITE")]
    pub(super) site: Vec<String>,
    /// ssh configuration file for ssh sites [default: ssh's own]
    #[arg(help_heading = GENERATOR, long, value_name = "FILE", requires = "site")]
    pub(super) ssh_config: Option<PathBuf>,
    /// Do not store the result
    #[arg(help_heading = GENERATOR, long)]
    pub(super) no_record: bool,
    /// Print the study of the load, for `baremark run`, and run nothing
    #[arg(help_heading = GENERATOR, long, conflicts_with_all = ["site", "find_max"])]
    pub(super) print_study: bool,
    /// Number of generator threads, each on its own CPU
    #[arg(help_heading = GENERATOR, long, value_name = "N", default_value_t = 1)]
    pub(super) threads: usize,
    /// CPUs for the generator threads, such as 2,3 [default: all CPUs of this process]
    #[arg(help_heading = GENERATOR, long, value_name = "LIST", value_delimiter = ',')]
    pub(super) cpus: Vec<usize>,
    /// Test duration
    #[arg(help_heading = LOAD, long, value_name = "TIME", default_value = "10s", conflicts_with = "count")]
    pub(super) duration: Nanos,
    /// Stop after N operations
    #[arg(help_heading = LOAD, long, value_name = "N")]
    pub(super) count: Option<u64>,
    /// Request timeout
    #[arg(help_heading = REQUESTS, long, value_name = "TIME", default_value = "10s")]
    pub(super) timeout: Nanos,
    /// Mean time between the intended starts of a user's operations; overrides the scenario's cycle
    #[arg(help_heading = LOAD, long, value_name = "TIME")]
    pub(super) cycle: Option<Nanos>,
    /// Random seed
    #[arg(help_heading = LOAD, long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Add a header to every request, such as 'accept: text/html'
    #[arg(help_heading = REQUESTS, long, value_name = "NAME: VALUE")]
    pub(super) header: Vec<String>,
    /// Trust the certificate authorities in this PEM file
    #[arg(help_heading = REQUESTS, long, value_name = "FILE", conflicts_with = "insecure")]
    pub(super) ca: Option<PathBuf>,
    /// Skip TLS certificate verification
    #[arg(help_heading = REQUESTS, long)]
    pub(super) insecure: bool,
    /// Local source address (repeat for round-robin)
    #[arg(help_heading = REQUESTS, long, value_name = "ADDRESS")]
    pub(super) source: Vec<IpAddr>,
    /// Exit 4 unless this limit is met, such as 'p99<50ms', 'login:p95<2s', 'failures<0.5%', 'delay.p99<500ms', 'mix<20%' or
    /// 'utilization.cpu<80%' [default: the limits of the scenario]
    #[arg(help_heading = LIMITS, long, value_name = "LIMIT")]
    pub(super) limit: Vec<Limit>,
    /// Exit 1 when more than this share of the operations fails [default: 1 %, or none with --limit 'failures<...']
    #[arg(help_heading = LIMITS, long, value_name = "SHARE", value_parser = error_share, conflicts_with = "find_max")]
    pub(super) error_limit: Option<Share>,
    #[command(flatten)]
    pub(super) search: SearchArgs,
}

/// The arrival processes that need no file.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Gaps {
    /// Equal gaps
    Constant,
    /// Exponential gaps, as of many independent clients
    Poisson,
}

/// A profile as typed, which must be one.
fn profile(text: &str) -> Result<String, String> {
    text.parse::<Profile>().map(|_| text.to_owned()).map_err(|why| why.to_string())
}

fn error_share(text: &str) -> Result<Share, String> {
    let share: Share = text.parse().map_err(|why: UnitError| why.to_string())?;
    let sound = (0.0..=1.0).contains(&share.0);
    if sound { Ok(share) } else { Err("out of range; write 0 % to 100 %".to_owned()) }
}

/// What a search needs in addition to a load.
#[derive(Args)]
#[command(next_help_heading = "Search for the highest load")]
pub struct SearchArgs {
    /// Find the highest rate, or number of users, that meets every limit
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "rate",
          conflicts_with_all = ["rate", "users", "trace", "replay", "duration", "count", "site"])]
    pub(super) find_max: Option<Factor>,
    /// Search range, such as 10..5000
    #[arg(long, value_name = "LOW..HIGH", requires = "find_max", value_parser = range)]
    pub(super) between: Option<(f64, f64)>,
    /// Length of a measurement window [default: 2 s to 10 s, as the limits need]
    #[arg(long, value_name = "TIME", requires = "find_max")]
    pub(super) window: Option<Nanos>,
    /// Settling time after each load change [default: window / 6; for users a cycle at least, at most 10 s]
    #[arg(long, value_name = "TIME", requires = "find_max")]
    pub(super) settle: Option<Nanos>,
    /// Number of independent searches; a confidence interval needs three
    #[arg(long, value_name = "N", default_value_t = 3, requires = "find_max", value_parser = trials())]
    pub(super) trials: usize,
    /// Probes at the final step size, per search
    #[arg(long, value_name = "N", default_value_t = 6, requires = "find_max")]
    pub(super) visits: usize,
    /// Final step size, as a share of the load level
    #[arg(long, value_name = "SHARE", default_value = "2.5%", requires = "find_max")]
    pub(super) step: Share,
    /// Count windows that exceed a limit while other programs use the CPUs, else measured again
    #[arg(long, requires = "find_max")]
    pub(super) count_disturbed: bool,
}

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Factor {
    /// Operations per second
    Rate,
    /// Users who repeat the scenario's cycle
    Users,
}

impl Factor {
    /// The metric of a search for the most of it.
    pub(super) fn metric(self) -> &'static str {
        match self {
            Factor::Rate => "maximum_per_s",
            Factor::Users => "maximum_users",
        }
    }

    /// What was varied in a search for this metric; `None` of every other metric.
    pub(super) fn of_metric(metric: &str) -> Option<Factor> {
        Factor::value_variants().iter().copied().find(|factor| factor.metric() == metric)
    }
}

/// The most searches from a fresh start, each of which takes minutes: a week and more.
const MOST_TRIALS: u64 = 1000;

/// Each is a block of the stored study, of which it cannot have any number.
fn trials() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MOST_TRIALS)
}

fn range(text: &str) -> Result<(f64, f64), String> {
    let numbers = text.split_once("..").and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    let sound = numbers.filter(|(low, high): &(f64, f64)| *low > 0.0 && low < high && high.is_finite());
    sound.ok_or_else(|| "write two ascending numbers above 0, such as 10..5000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_load::workload;

    #[test]
    fn what_is_varied_follows_from_the_metric() {
        let table = workload::ALL[0].descriptor();
        for factor in Factor::value_variants() {
            assert_eq!(Factor::of_metric(factor.metric()), Some(*factor));
            assert!(table.metric(factor.metric()).is_some(), "{factor:?}");
        }
        assert_eq!(Factor::of_metric("operations_per_s"), None);
    }
}
