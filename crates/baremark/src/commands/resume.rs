//! `baremark resume`: continue with a run that was interrupted or killed.

use crate::commands::{load, run};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record::{self, Record};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark resume                       # the latest unfinished run
  baremark resume 20261120-0801-7f3a";

/// Continues the named run, or the latest unfinished one.
pub fn run(context: &Context, named: Option<&str>) -> Result<(String, Exit), Refusal> {
    // What is not there has nothing to resume, and nothing is made there.
    drop(record::open_existing(context)?);
    let store = context.open_store()?;
    let id = record::find_unfinished(&store, named)?;
    if record::is_resumable(&store, &id) {
        let turn = record::turn(context, &store)?;
        let resumed = load::find_max::resume(context, store, id);
        drop(turn);
        return resumed;
    }
    let turn = record::turn(context, &store)?;
    let record = Record::take_up(&store, id.clone())?;
    drop(turn);
    let then = record.run()?.machine;
    if baremark_sys::machine::this().fingerprint() != then.fingerprint() {
        return Err(Refusal::bad_input(format!(
            "run {id} was begun on another machine ({}); trials of two machines are not one run",
            record::machine_line(&then)
        )));
    }
    run::conduct(context, record)
}
