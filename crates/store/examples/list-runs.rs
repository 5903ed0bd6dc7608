//! The runs of a store, and the trials of the latest: `list-runs STORE`.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_store::Store;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: list-runs STORE")?;
    let store = Store::open_read_only(path)?;
    for run in store.runs()? {
        println!("{}  {:10} {:3} trials  {}", run.id, run.state.word(), run.trials, run.title);
    }
    let Some(latest) = store.latest()? else { return Ok(()) };
    for trial in store.load_intact(&latest.id)?.trials {
        println!("block {}, cell {}: {:?}", trial.block, trial.cell, trial.status);
    }
    Ok(())
}
