//! The engine by hand: `load URL [connections=64] [threads=1] [seconds=3] [rate=N] [arrival=poisson] [profile=..] [insecure=]
//! [streams=N] [scenario=FILE]`; streams mean HTTP/2. Prints the document. `baremark load` is the command for people.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example's output")]

use baremark_load::arrival::Arrival;
use baremark_load::document::Document;
use baremark_load::load::{Drive, Engine, Load, Protocol, Stop};
use baremark_load::profile::Profile;
use baremark_load::scenario::{Scenario, file};
use baremark_load::transport::Trust;
use baremark_model::units::Nanos;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let url = words.next().ok_or("usage: load URL [connections=64] [threads=1] [seconds=3] [rate=N]")?;
    let words: Vec<String> = words.collect();
    let options: BTreeMap<&str, &str> = words.iter().filter_map(|word| word.split_once('=')).collect();
    let number = |key: &str, absent: u64| options.get(key).map_or(Ok(absent), |text| text.parse::<u64>());
    let seconds = number("seconds", 3)?;
    let drive = match (options.get("rate"), options.get("profile")) {
        (None, None) => Drive::Closed,
        (rate, profile) => {
            let poisson = options.get("arrival") == Some(&"poisson");
            let arrival = if poisson { Arrival::Poisson } else { Arrival::Constant };
            Drive::Open { arrival, profile: profile.or(rate).unwrap_or(&"").parse::<Profile>()? }
        }
    };
    let mut load = Load::new(Scenario::of_url(&url)?, drive, Stop::After(Nanos(seconds * 1_000_000_000)));
    load.connections = usize::try_from(number("connections", 64)?)?;
    load.threads = usize::try_from(number("threads", 1)?)?;
    if let Some(streams) = options.get("streams") {
        load.protocol = Protocol::Http2 { streams: streams.parse()? };
    }
    if let Some(path) = options.get("scenario") {
        load.scenario = file::parse(path, &std::fs::read(path)?, Some(&url), ".".as_ref())?;
    }
    if options.contains_key("insecure") {
        load.trust = Trust::Anything;
    }
    let engine = Engine::new(load, Arc::default())?;
    let part = engine.run(&mut |second| eprintln!("{:>4} s  {:>8} requests", second.second, second.part.answered))?;
    println!("{}", serde_json::to_string_pretty(&Document::new(engine.load(), &part))?);
    Ok(())
}
