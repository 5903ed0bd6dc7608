//! `baremark explain`: which layer is saturated, while a stored run was measured or on this machine now.

use super::histograms;
use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::{predicted, record};
use baremark_lab::layers;
use baremark_model::layers::Explanation;
use baremark_model::observation::Values;
use baremark_model::observer::{ObserveSpec, USUAL};
use baremark_model::units::Nanos;
use baremark_observe::Root;
use baremark_observe::recorder::Recorder;
use std::time::{Duration, Instant};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark explain                      # the latest run
  baremark explain --now                # this machine";

/// Windows over which an interval is made, and readings of each: two, or as many as keep them this close together.
const WINDOWS: u32 = 10;
const READINGS: u32 = 2;
const FARTHEST_NS: u64 = 250_000_000;

/// What is explained.
#[derive(clap::Args)]
pub struct ExplainArgs {
    /// Run ID or unique prefix [default: the latest one]
    #[arg(conflicts_with = "now")]
    run: Option<String>,
    /// Observe this machine now instead of opening a stored run
    #[arg(long)]
    now: bool,
    /// With --now: observation time (2 s to 10 min)
    #[arg(long = "for", value_name = "TIME", default_value = "5s", requires = "now")]
    time: Nanos,
}

/// Explains a run, or this machine now.
pub fn run(context: &Context, args: &ExplainArgs) -> Result<(String, Exit), Refusal> {
    let found = match args.now {
        true => now(context, args.time)?,
        false => of_run(context, args.run.as_deref())?,
    };
    let Some(found) = found else { return Ok((String::new(), Exit::Interrupted)) };
    let text = match context.json {
        true => {
            serde_json::to_string_pretty(&found).map_err(|why| Refusal::failure(format!("writing JSON: {why}")))? + "\n"
        }
        false => baremark_report::layers::render(&found, &crate::watch::style()),
    };
    Ok((text, Exit::Success))
}

fn of_run(context: &Context, named: Option<&str>) -> Result<Option<Explanation>, Refusal> {
    let store = record::open_existing(context)?;
    let run = record::load(&store, &record::find(&store, named)?)?;
    let document = predicted::document(context, &run, &descriptors_of(&run)?);
    let none = || {
        Refusal::bad_input(format!(
            "run {}: no observations; remove which = \"null\" from [observe] and run it again",
            run.id
        ))
    };
    layers::of_run(&document).ok_or_else(none).map(Some)
}

/// Observes for `time`; `None` where the user ended it before.
fn now(context: &Context, time: Nanos) -> Result<Option<Explanation>, Refusal> {
    if !(2_000_000_000..=600_000_000_000).contains(&time.0) {
        return Err(Refusal::bad_input(format!("--for is {time}; write a time from 2 s to 10 min")));
    }
    let readings = u32::try_from(time.0.div_ceil(u64::from(WINDOWS) * FARTHEST_NS)).unwrap_or(READINGS).max(READINGS);
    let interval = Duration::from_nanos(time.0) / (WINDOWS * readings);
    let which = USUAL.iter().map(|&name| name.to_owned()).collect();
    let spec = ObserveSpec { interval: Nanos(time.0 / u64::from(WINDOWS * readings)), which, per_cpu: false };
    let mut recorder = Recorder::start(&spec, &Root::default());
    let mut laps: Vec<(Values, f64)> = Vec::new();
    let mut due = Instant::now();
    for _ in 0..WINDOWS * readings {
        due += interval;
        if histograms::wait(context, due) {
            return Ok(None);
        }
        let lap = recorder.lap();
        laps.push((lap.values, lap.seconds));
    }
    let windows: Vec<(Values, f64)> = laps.chunks(readings as usize).map(layers::joined).collect();
    Ok(Some(layers::of_windows(&windows, recorder.absent())))
}
