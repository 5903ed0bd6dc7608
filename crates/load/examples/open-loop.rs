//! An open loop for three seconds: `open-loop URL RATE`, and what came of it. `baremark load` is the command for people.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_load::arrival::Arrival;
use baremark_load::document::Document;
use baremark_load::load::{Drive, Engine, Load, Stop};
use baremark_load::profile::Profile;
use baremark_load::scenario::Scenario;
use baremark_model::units::Nanos;
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, rate] = words.as_slice() else { return Err("usage: open-loop URL RATE".into()) };
    let drive = Drive::Open { arrival: Arrival::Poisson, profile: Profile::steady(rate.parse()?) };
    let engine =
        Engine::new(Load::new(Scenario::of_url(url)?, drive, Stop::After(Nanos(3_000_000_000))), Arc::default())?;
    let part = engine.run(&mut |second| println!("second {}: {} answers", second.second, second.part.answered))?;
    let document = Document::new(engine.load(), &part);
    println!("{:.1} answers/s; the generator: {:?}", document.achieved.requests_per_s, document.generator.verdict);
    if let Some(latency) = document.latency.corrected {
        println!("median {:?} ns, 99th percentile {:?} ns, from the intended start", latency.p50_ns, latency.p99_ns);
    }
    Ok(())
}
