//! `baremark load`: requests to a server, by connections, a rate or users, and what became of them.

pub mod find_max;
mod others;
mod page;
pub mod record;
mod sites;
mod study;
mod summary;
mod view;
mod words;

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch;
use baremark_lab::conduct::Ending;
use baremark_load::document::{Document, Ended};
use baremark_load::limits::Verdict;
use baremark_load::load::{Engine, LoadError};
use baremark_load::profile::Profile;
use baremark_load::requirements::Requirements;
use baremark_model::problem::chain;
use baremark_model::qos::Limit;
use baremark_model::units::{Nanos, Share, UnitError};
use baremark_sys::cpu_time::CpuTime;
use clap::{Args, ValueEnum};
use record::Recorder;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use study::Secrets;
use view::View;

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
    url: Option<String>,
    /// Scenario file with what users do (format: docs/load-scenario.md)
    #[arg(help_heading = LOAD, long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Open loop: start operations at this rate per second, as a number or a profile ('ramp from=0 to=2000 over=30s')
    #[arg(help_heading = LOAD, long, value_name = "PROFILE", conflicts_with = "users", value_parser = profile)]
    rate: Option<String>,
    /// Closed loop: number of users who repeat the scenario's cycle, as a number or a profile
    #[arg(help_heading = LOAD, long, value_name = "PROFILE", value_parser = profile)]
    users: Option<String>,
    /// Inter-arrival time distribution of --rate
    #[arg(help_heading = LOAD, long, value_enum, default_value = "constant")]
    arrival: Gaps,
    /// Open loop: replay recorded arrival times, one time in seconds per line
    #[arg(help_heading = LOAD, long, value_name = "FILE", conflicts_with_all = ["users", "arrival"])]
    replay: Option<PathBuf>,
    /// Open loop: read the rate profile from a file with 'seconds,rate' per line
    #[arg(help_heading = LOAD, long, value_name = "FILE", conflicts_with_all = ["rate", "users"])]
    trace: Option<PathBuf>,
    /// Repeat the trace when it ends
    #[arg(help_heading = LOAD, long, requires = "trace")]
    repeat: bool,
    /// Number of connections; with --rate or --users the maximum [default: 64, or as many as needed]
    #[arg(help_heading = REQUESTS, long, value_name = "N")]
    connections: Option<usize>,
    /// Share connections among users instead of one connection per user
    #[arg(help_heading = REQUESTS, long)]
    shared: bool,
    /// Use HTTP/2
    #[arg(help_heading = REQUESTS, long)]
    http2: bool,
    /// Concurrent requests per HTTP/2 connection
    #[arg(help_heading = REQUESTS, long, value_name = "N", default_value_t = 10, requires = "http2")]
    streams: usize,
    /// Generate load from this site: native, container or ssh:HOST[:PORT]; repeat for several [default: this process]
    #[arg(help_heading = GENERATOR, long, value_name = "SITE")]
    site: Vec<String>,
    /// ssh configuration file for ssh sites [default: ssh's own]
    #[arg(help_heading = GENERATOR, long, value_name = "FILE", requires = "site")]
    ssh_config: Option<PathBuf>,
    /// Do not store the result
    #[arg(help_heading = GENERATOR, long)]
    no_record: bool,
    /// Print the study of the load, for `baremark run`, and run nothing
    #[arg(help_heading = GENERATOR, long, conflicts_with_all = ["site", "find_max"])]
    print_study: bool,
    /// Number of generator threads, each on its own CPU
    #[arg(help_heading = GENERATOR, long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// CPUs for the generator threads, such as 2,3 [default: all CPUs of this process]
    #[arg(help_heading = GENERATOR, long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Test duration
    #[arg(help_heading = LOAD, long, value_name = "TIME", default_value = "10s", conflicts_with = "count")]
    duration: Nanos,
    /// Stop after N operations
    #[arg(help_heading = LOAD, long, value_name = "N")]
    count: Option<u64>,
    /// Request timeout
    #[arg(help_heading = REQUESTS, long, value_name = "TIME", default_value = "10s")]
    timeout: Nanos,
    /// Mean time between the intended starts of a user's operations; overrides the scenario's cycle
    #[arg(help_heading = LOAD, long, value_name = "TIME")]
    cycle: Option<Nanos>,
    /// Random seed
    #[arg(help_heading = LOAD, long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Add a header to every request, such as 'accept: text/html'
    #[arg(help_heading = REQUESTS, long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Trust the certificate authorities in this PEM file
    #[arg(help_heading = REQUESTS, long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Skip TLS certificate verification
    #[arg(help_heading = REQUESTS, long)]
    insecure: bool,
    /// Local source address (repeat for round-robin)
    #[arg(help_heading = REQUESTS, long, value_name = "ADDRESS")]
    source: Vec<IpAddr>,
    /// Exit 4 unless this limit is met, such as 'p99<50ms', 'login:p95<2s', 'failures<0.5%', 'delay.p99<500ms', 'mix<20%' or
    /// 'utilization.cpu<80%' [default: the limits of the scenario]
    #[arg(help_heading = LIMITS, long, value_name = "LIMIT")]
    limit: Vec<Limit>,
    /// Exit 1 when more than this share of the operations fails [default: 1 %, or none with --limit 'failures<...']
    #[arg(help_heading = LIMITS, long, value_name = "SHARE", value_parser = error_share, conflicts_with = "find_max")]
    error_limit: Option<Share>,
    #[command(flatten)]
    search: find_max::SearchArgs,
}

/// The arrival processes that need no file.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gaps {
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

/// Runs the load and reports the result.
pub fn run(context: &Context, args: LoadArgs) -> Result<(String, Exit), Refusal> {
    if args.print_study {
        return Ok((study::left_out(&args) + &study::text(&args, Secrets::Shown), Exit::Success));
    }
    if let Some(factor) = args.search.find_max {
        return find_max::run(context, args, factor);
    }
    let (_, plan) = study::plan(context, &args, Secrets::Shown)?;
    let mut order = study::order(&args, &plan)?;
    let mut load = order.of_site(0, args.site.len().max(1) as u64).load().map_err(Refusal::bad_input)?;
    let required = Requirements::of(&load, &args.limit, args.error_limit).map_err(Refusal::bad_input)?;
    load.grace = required.grace(&load);
    order.grace_ns = Some(load.grace);
    // Whatever is wrong with it is said before anything is recorded.
    let engine = args.site.is_empty().then(|| Engine::new(load.clone(), Arc::clone(&context.interrupt)));
    let engine = engine.transpose().map_err(failed)?;
    crate::quiet::wait(context)?;
    let store = record::store(context, &args)?;
    let recorder = Recorder::begin(context, &args, store.as_ref(), None)?;
    let mut view = View::new(context.json, recorder);
    let before = CpuTime::now().ok();
    let measured = match &engine {
        Some(engine) => {
            let ran = engine.run(&mut |second| view.see(second.second, &second.part)).map_err(failed);
            ran.map(|part| (Document::new(engine.load(), &part), part))
        }
        None => sites::run(context, (&args.site, args.ssh_config.as_deref()), &order, &load, &mut view),
    };
    let recorder = view.finish();
    let (mut document, part) = measured?;
    required.check(&mut document, &part, &load, before);
    let value = serde_json::to_value(&document).map_err(|why| Refusal::failure(format!("writing JSON: {why}")))?;
    let end = match document.ended {
        Ended::Complete => Ending::Complete("complete".to_owned()),
        Ended::Interrupted => Ending::Interrupted,
        Ended::SiteLost => Ending::Complete("a site was lost".to_owned()),
    };
    recorder.end(&end, &document, &part);
    let text = if context.json { format!("{value:#}\n") } else { words::describe(&document, &watch::style()) };
    Ok((text, exit_of(&document)))
}

/// The exit code of a load: a broken run before failures, failures before limits.
fn exit_of(document: &Document) -> Exit {
    let any =
        |verdict, stated| document.limits.iter().any(|row| row.verdict == verdict && (stated || !row.of_scenario));
    match document.ended {
        Ended::Interrupted => Exit::Interrupted,
        Ended::SiteLost => Exit::Failure,
        // Not one answer: nothing has been measured.
        Ended::Complete if document.counts.answered == 0 || document.has_failed() => Exit::Failure,
        Ended::Complete if any(Verdict::Exceeded, true) => Exit::Regression,
        // What only the scenario states is reported; too short a run is not refused for it.
        Ended::Complete if any(Verdict::Undecided, false) => Exit::Undecided,
        Ended::Complete => Exit::Success,
    }
}

/// A load that was refused is bad input; one that broke is a failure.
fn failed(why: LoadError) -> Refusal {
    let broke = matches!(why, LoadError::Thread(_) | LoadError::Loop(_) | LoadError::Panicked | LoadError::Merge(_));
    if broke { Refusal::failure(chain(&why)) } else { Refusal::bad_input(chain(&why)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_breaks_is_a_failure_and_what_is_refused_is_bad_input() {
        let refused = LoadError::Refused { what: "0 threads".to_owned(), remedy: "use 1 to 4096" };
        assert_eq!(failed(refused).exit, Exit::BadInput);
        for broken in [LoadError::Loop(io::Error::other("no more")), LoadError::Thread(io::Error::other("no more"))] {
            let told = failed(broken);
            assert_eq!(told.exit, Exit::Failure);
            assert!(told.message.ends_with(": no more"), "{}", told.message);
        }
    }
}
