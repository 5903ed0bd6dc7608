//! `baremark compare`: two sides, and what differs between them.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::sides;
use baremark_lab::comparison::{self, Chosen, Request};
use baremark_model::codes::Origin;
use baremark_model::comparison::Comparison;
use baremark_model::units::Share;
use baremark_report::comparison::{Names, render};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark compare old.json new.json    # of --json, or of another program
  baremark compare old new              # names given by `import --as`
  baremark compare 7f3a:environment=native 7f3a:environment=microvm
  baremark compare 7f3a,91c0,aa01 b2e4,c3d9,d017
  baremark compare --join 7f3a 91c0 b2e4     # boots or MMU modes in one table";

/// With several sides it is another command, which takes other options.
pub const USAGE: &str = "\
baremark compare [OPTIONS] <BASE> <OTHER>
       baremark compare --join <BASE> <OTHER> [MORE]...";

/// Options of both `compare` and `check`.
#[derive(clap::Args)]
pub struct CompareArgs {
    /// The difference that matters, such as "2 %" [default: the largest that the runs were measured for]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub delta: Option<Share>,
    /// Fact varied on purpose, such as machine.kernel.release (repeatable)
    #[arg(long, value_name = "FACT")]
    pub factor: Vec<String>,
}

pub fn share(text: &str) -> Result<Share, String> {
    let share: Share = text.parse().map_err(|why| format!("{why}"))?;
    if (0.0002..=1.0).contains(&share.0) { Ok(share) } else { Err("write a share from 0.02 % to 100 %".to_owned()) }
}

/// The comparison of `other` with `base` as text or JSON.
pub fn run(context: &Context, base: &str, other: &str, args: &CompareArgs) -> Result<(String, Exit), Refusal> {
    let (base, other) = (sides::find(context, base)?, sides::find(context, other)?);
    let comparison = of(&base, &other, args, (None, None))?;
    Ok((show(context, &comparison, &names([&base, &other]))?, Exit::Success))
}

/// Compares two sides; `margin` is the loss that a gate must not miss, `level` its error rate where that is not the usual one.
pub fn of(
    base: &Chosen,
    other: &Chosen,
    args: &CompareArgs,
    (margin, level): (Option<Share>, Option<f64>),
) -> Result<Comparison, Refusal> {
    let request = Request { delta: args.delta, declared: args.factor.clone(), margin, level };
    comparison::compare(base, other, &request).map_err(Refusal::bad_input)
}

/// The names by which runs were imported.
pub fn names(sides: [&Chosen; 2]) -> Names {
    let runs = sides.into_iter().flat_map(|side| &side.documents).map(|document| &document.run);
    runs.filter_map(|run| Some((run.id.clone(), Origin::of(&run.file).import()?.to_owned()))).collect()
}

/// A comparison as text or JSON.
pub fn show(context: &Context, comparison: &Comparison, names: &Names) -> Result<String, Refusal> {
    if context.json {
        return Ok(serde_json::to_string_pretty(comparison).map_err(Refusal::failure)? + "\n");
    }
    Ok(render(comparison, names, &crate::watch::style()))
}
