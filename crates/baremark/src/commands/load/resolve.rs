//! From what was typed to a load that can be asked of the engine.

use super::{Gaps, LoadArgs, told};
use crate::exit::Refusal;
use baremark_load::arrival::Arrival;
use baremark_load::load::{Drive, Load, Pin, Pool, Stop};
use baremark_load::profile::{After, Profile};
use baremark_load::scenario::{Cycle, Scenario, file};
use baremark_load::transport::Trust;
use std::fs;
use std::path::Path;

pub(super) fn read(path: &Path) -> Result<String, Refusal> {
    fs::read_to_string(path).map_err(|why| Refusal::bad_input(format!("reading {}: {why}", path.display())))
}

pub(super) fn resolve(args: LoadArgs) -> Result<Load, Refusal> {
    let mut scenario = match (&args.scenario, &args.url) {
        (Some(path), url) => {
            let bytes =
                fs::read(path).map_err(|why| Refusal::bad_input(format!("reading {}: {why}", path.display())))?;
            let folder = path.parent().unwrap_or(Path::new("."));
            file::parse(&path.display().to_string(), &bytes, url.as_deref(), folder).map_err(told)?
        }
        (None, Some(url)) => Scenario::of_url(url).map_err(told)?,
        (None, None) => return Err(Refusal::bad_input("name a URL or a scenario (--scenario FILE)")),
    };
    for header in &args.header {
        let sound = |part: &str| !part.contains(['\r', '\n']);
        let Some((name, value)) = header.split_once(':').filter(|(name, _)| !name.is_empty() && sound(header)) else {
            return Err(Refusal::bad_input(format!("'{header}' is no header; write such as 'accept: text/html'")));
        };
        scenario.add_header(name.trim(), value.trim());
    }
    if let Some(mean) = args.cycle {
        scenario.set_cycle(Some(Cycle { mean, deviation: 0.25, most: 0.5 }));
    }
    let drive = drive(&args)?;
    let most = match &drive {
        Drive::Closed => 64,
        Drive::Open { .. } => 1000,
        Drive::Users { .. } if args.shared => 1000,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        Drive::Users { profile } => profile.curve().map_err(told)?.highest().ceil() as usize,
    };
    let stop = args.count.map_or(Stop::After(args.duration), Stop::Count);
    let mut load = Load::new(scenario, drive, stop);
    load.threads = args.threads;
    load.connections = args.connections.unwrap_or(most).max(if args.connections.is_some() { 0 } else { args.threads });
    load.pool = if args.shared { Pool::Shared } else { Pool::Own };
    load.timeout = args.timeout;
    load.seed = args.seed;
    load.sources = args.source;
    load.trust = match (args.ca, args.insecure) {
        (Some(path), _) => Trust::Authority(path),
        (None, true) => Trust::Anything,
        (None, false) => Trust::System,
    };
    if !args.cpus.is_empty() {
        load.pin = Pin::On(args.cpus);
    }
    Ok(load)
}

fn drive(args: &LoadArgs) -> Result<Drive, Refusal> {
    if let Some(profile) = &args.users {
        return Ok(Drive::Users { profile: profile.clone() });
    }
    let mut profile = args.rate.clone();
    if let Some(path) = &args.trace {
        let mut traced = Profile::from_trace(&read(path)?).map_err(told)?;
        traced.after = if args.repeat { After::Repeat } else { After::Hold };
        profile = Some(traced);
    }
    if let Some(path) = &args.replay {
        let (arrival, recorded) = Arrival::from_recording(&read(path)?).map_err(told)?;
        return Ok(Drive::Open { arrival, profile: profile.unwrap_or(Profile::steady(recorded)) });
    }
    let arrival = if args.arrival == Gaps::Poisson { Arrival::Poisson } else { Arrival::Constant };
    Ok(profile.map_or(Drive::Closed, |profile| Drive::Open { arrival, profile }))
}
