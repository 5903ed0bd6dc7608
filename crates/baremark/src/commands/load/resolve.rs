//! From what was typed to an order, and from that to a load: one way for this process and for sites elsewhere.

use super::{Gaps, LoadArgs, told};
use crate::exit::Refusal;
use baremark_load::arrival::Arrival;
use baremark_load::bounded_file;
use baremark_load::load::{Drive, Load, Pin, Pool, Protocol, Stop};
use baremark_load::order::Order;
use baremark_load::profile::{After, Profile};
use baremark_load::scenario::file;
use baremark_load::transport::Trust;
use std::path::Path;

/// Connections of a closed loop, and the most of an open one, where nobody says.
const CLOSED: usize = 64;
const OPEN: usize = 1000;

/// Connections of a user who keeps one, with those of the loops that run beside.
const BESIDE: usize = 4;

/// The longest recording, trace or list of certificates, in MiB.
const LONGEST_MIB: u64 = 256;

/// A text file that the command line names, of at most so many MiB.
fn read(path: &Path, most_mib: u64) -> Result<String, Refusal> {
    let bytes = bounded_file::read(path, most_mib).map_err(told)?;
    String::from_utf8(bytes).map_err(|why| {
        Refusal::bad_input(format!("{} is not UTF-8 text ({}); save it as UTF-8", path.display(), why.utf8_error()))
    })
}

/// The order, with every file read that it names.
pub(super) fn order(args: &LoadArgs) -> Result<Order, Refusal> {
    let scenario = match &args.scenario {
        Some(path) => Some((path.display().to_string(), read(path, file::LONGEST_MIB)?)),
        None => None,
    };
    let folder = args.scenario.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    let (drive, points) = drive(args)?;
    let most = match &drive {
        Drive::Closed => CLOSED,
        Drive::Open { .. } => OPEN,
        Drive::Users { .. } if args.shared => OPEN,
        // Of users without loops beside them, the engine takes as many as there are users.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        Drive::Users { profile } => (profile.curve().map_err(told)?.highest().ceil() as usize).saturating_mul(BESIDE),
    };
    let trust = match (&args.ca, args.insecure) {
        (Some(file), _) => Trust::Certificates { file: file.clone(), pem: read(file, LONGEST_MIB)? },
        (None, true) => Trust::Anything,
        (None, false) => Trust::System,
    };
    Ok(Order {
        url: args.url.clone(),
        scenario,
        folder: folder.to_owned(),
        headers: headers(&args.header)?,
        cycle_ns: args.cycle,
        drive,
        points,
        stop: args.count.map_or(Stop::After(args.duration), Stop::Count),
        threads: args.threads,
        connections: args.connections.unwrap_or(most.max(args.threads)),
        pool: if args.shared { Pool::Shared } else { Pool::Own },
        protocol: if args.http2 { Protocol::Http2 { streams: args.streams } } else { Protocol::Http1 },
        timeout_ns: args.timeout,
        grace_ns: None,
        seed: args.seed,
        trust,
        sources: args.source.clone(),
        pin: if args.cpus.is_empty() { Pin::Spread } else { Pin::On(args.cpus.clone()) },
        site: (0, 1),
    })
}

/// The load of an order.
pub(super) fn load(order: Order) -> Result<Load, Refusal> {
    order.load().map_err(Refusal::bad_input)
}

fn headers(typed: &[String]) -> Result<Vec<(String, String)>, Refusal> {
    let mut headers = Vec::new();
    for header in typed {
        let sound = |part: &str| !part.contains(['\r', '\n']);
        let Some((name, value)) = header.split_once(':').filter(|(name, _)| !name.is_empty() && sound(header)) else {
            return Err(Refusal::bad_input(format!("'{header}' is no header; write such as 'accept: text/html'")));
        };
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    Ok(headers)
}

/// Who decides when, and the points of a recording.
fn drive(args: &LoadArgs) -> Result<(Drive, Option<Vec<f64>>), Refusal> {
    if let Some(profile) = &args.users {
        return Ok((Drive::Users { profile: profile.clone() }, None));
    }
    let mut profile = args.rate.clone();
    if let Some(path) = &args.trace {
        let mut traced = Profile::from_trace(&read(path, LONGEST_MIB)?).map_err(told)?;
        traced.after = if args.repeat { After::Repeat } else { After::Hold };
        profile = Some(traced);
    }
    if let Some(path) = &args.replay {
        let (arrival, recorded) = Arrival::from_recording(&read(path, LONGEST_MIB)?).map_err(told)?;
        let points = if let Arrival::Replayed { points } = &arrival { Some(points.to_vec()) } else { None };
        return Ok((Drive::Open { arrival, profile: profile.unwrap_or(Profile::steady(recorded)) }, points));
    }
    let arrival = if args.arrival == Gaps::Poisson { Arrival::Poisson } else { Arrival::Constant };
    Ok((profile.map_or(Drive::Closed, |profile| Drive::Open { arrival, profile }), None))
}
