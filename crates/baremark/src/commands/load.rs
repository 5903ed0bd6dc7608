//! `baremark load`: requests to a server, by connections, a rate or users, and what became of them.

mod find_max;
mod page;
pub mod record;
mod resolve;
mod sites;
mod view;
mod words;

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch;
use baremark_load::document::{Document, Ended, FORMAT};
use baremark_load::load::{Engine, LoadError};
use baremark_load::profile::Profile;
use baremark_model::units::Nanos;
use clap::{Args, ValueEnum};
use record::Recorder;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use view::View;

/// What the command line asks for.
#[derive(Args)]
pub struct LoadArgs {
    /// Where to, such as `http://127.0.0.1:8080/`; with a scenario, the server that stands for its base
    #[arg(required_unless_present = "scenario")]
    url: Option<String>,
    /// What users do, as a scenario file
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Open loop: starts per second, whatever the server does; a number or a profile such as 'ramp from=0 to=2000 over=30s'
    #[arg(long, value_name = "PROFILE", conflicts_with = "users")]
    rate: Option<Profile>,
    /// Closed loop of users who keep the scenario's cycle; a number or a profile
    #[arg(long, value_name = "PROFILE")]
    users: Option<Profile>,
    /// How the gaps of an open loop are made
    #[arg(long, value_enum, default_value = "constant")]
    arrival: Gaps,
    /// Open loop with the gaps of a recording: a file with a time in seconds on each line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["users", "arrival"])]
    replay: Option<PathBuf>,
    /// Take the profile of the rate from a file with seconds,level on each line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "users"])]
    trace: Option<PathBuf>,
    /// When the trace ends, it starts over
    #[arg(long, requires = "trace")]
    repeat: bool,
    /// Connections: so many without --rate or --users, at most so many with them [default: 64, or as many as are needed]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Users share connections instead of keeping one each
    #[arg(long)]
    shared: bool,
    /// Speak HTTP/2
    #[arg(long)]
    http2: bool,
    /// Requests at a time on a connection in HTTP/2
    #[arg(long, value_name = "N", default_value_t = 10, requires = "http2")]
    streams: usize,
    /// Take part from here as well; native, container or ssh:HOST[:PORT], once for each site [default: this process alone]
    #[arg(long, value_name = "SITE")]
    site: Vec<String>,
    /// ssh's configuration for the sites behind it [default: ssh's own]
    #[arg(long, value_name = "FILE", requires = "site")]
    ssh_config: Option<PathBuf>,
    /// Keep no record in the store
    #[arg(long)]
    no_record: bool,
    /// Event loops, each on a CPU of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// The CPUs for them, such as 2,3 [default: those that this process may use]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// For how long
    #[arg(long, value_name = "TIME", default_value = "10 s", conflicts_with = "count")]
    duration: Nanos,
    /// Until so many operations
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// After this a request has failed
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    timeout: Nanos,
    /// From the intended start of a user's operation to that of the next, whatever the scenario says
    #[arg(long, value_name = "TIME")]
    cycle: Option<Nanos>,
    /// Everything that is drawn follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A header for every request, such as 'accept: text/html'
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Trust the authorities in this PEM file
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Check no certificate
    #[arg(long)]
    insecure: bool,
    /// An address to come from; several are used in turn
    #[arg(long, value_name = "ADDRESS")]
    source: Vec<IpAddr>,
    #[command(flatten)]
    search: find_max::SearchArgs,
}

/// The arrival processes that need no file.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gaps {
    /// Equal gaps
    Constant,
    /// Exponential gaps, as many independent clients make them
    Poisson,
}

/// Runs the load and says what became of it.
pub fn run(context: &Context, args: LoadArgs) -> Result<(String, Exit), Refusal> {
    if let Some(factor) = args.search.find_max {
        return find_max::run(context, args, factor);
    }
    let order = resolve::order(&args)?;
    let load = resolve::load(order.of_site(0, args.site.len().max(1) as u64))?;
    // Whatever is wrong with it is said before anything is recorded.
    let engine = if args.site.is_empty() {
        Some(Engine::new(load.clone(), Arc::clone(&context.interrupt)).map_err(failed)?)
    } else {
        None
    };
    let recorder = Recorder::begin(context, &args, FORMAT, &load.scenario.title)?;
    let mut view = View::new(context.json, recorder);
    let measured = match &engine {
        Some(engine) => {
            let ran = engine.run(&mut |second| view.see(second.second, &second.part)).map_err(failed);
            ran.map(|part| Document::new(engine.load(), &part))
        }
        None => sites::run(context, (&args.site, args.ssh_config.as_deref()), &order, load, &mut view),
    };
    let recorder = view.finish();
    let document = measured?;
    let value = serde_json::to_value(&document).map_err(|why| Refusal::failure(format!("writing JSON: {why}")))?;
    let reason = match document.ended {
        Ended::Complete => "complete",
        Ended::Interrupted => "interrupted",
        Ended::SiteLost => "a site was lost",
    };
    recorder.end(reason, &value);
    let exit = match document.ended {
        Ended::Interrupted => Exit::Interrupted,
        Ended::SiteLost => Exit::Failure,
        // Not one answer: nobody has been measured.
        Ended::Complete if document.counts.answered == 0 => Exit::Failure,
        Ended::Complete => Exit::Success,
    };
    let text = if context.json { format!("{value:#}\n") } else { words::describe(&document, &watch::style()) };
    Ok((text, exit))
}

/// A load that was refused is bad input; one that broke is a failure.
fn failed(why: LoadError) -> Refusal {
    let message = chain(&why);
    match why {
        LoadError::Profile(_) | LoadError::Url(_) | LoadError::Trust(_) | LoadError::Refused { .. } => {
            Refusal::bad_input(message)
        }
        LoadError::Thread(_) | LoadError::Loop(_) | LoadError::Panicked | LoadError::Merge(_) => {
            Refusal::failure(message)
        }
    }
}

/// Bad input, with what caused it.
fn told(why: impl std::error::Error) -> Refusal {
    Refusal::bad_input(chain(&why))
}

/// The error with what caused it.
fn chain(why: &dyn std::error::Error) -> String {
    let mut message = why.to_string();
    let mut source = why.source();
    while let Some(cause) = source {
        let _ = write!(message, ": {cause}");
        source = cause.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_breaks_is_a_failure_and_what_is_refused_is_bad_input() {
        let refused = LoadError::Refused { what: "0 threads".to_owned(), remedy: "ask for 1" };
        assert_eq!(failed(refused).exit, Exit::BadInput);
        for broken in [LoadError::Loop(io::Error::other("no more")), LoadError::Thread(io::Error::other("no more"))] {
            let told = failed(broken);
            assert_eq!(told.exit, Exit::Failure);
            assert!(told.message.ends_with(": no more"), "{}", told.message);
        }
    }
}
