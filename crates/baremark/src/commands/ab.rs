//! `baremark ab`, commands compared by interleaved runs, and `baremark run --in`, one program in several environments. Both
//! write a study and run it as any other.

mod arguments;
mod elsewhere;
mod study;
mod words;

pub use arguments::{Arguments, Options};
pub use words::quote;
#[cfg(test)]
pub use words::split;

use crate::commands::{check, run, show};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::source::Source;
use crate::{context, planning, predicted};
use baremark_lab::analysis::Run;
use baremark_lab::gates;
use baremark_model::codes::Origin;
use baremark_model::command;
use baremark_model::comparison::{Answer, Gate};
use baremark_model::document::Document;
use baremark_model::plan::{Mode, Plan, Treatment};
use baremark_model::units::Share;
use baremark_model::value::Program;
use baremark_report::commands as report;

/// What `--help` shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  baremark ab 'gzip -1 -c data' 'gzip -6 -c data'
  baremark ab -n old=./a.out -n new=./b.out --fail-above 1%
  baremark ab ./old ./new -- --size 10 file
  baremark ab 'sort --parallel={threads} file' -L threads=1..2";

/// What `baremark run --help` shows at its end.
pub const RUN_EXAMPLES: &str = "\
Examples:
  baremark run standard --quick --in native,sandbox
  baremark run standard --budget 5min --set table='256 MiB'
  baremark run --in native,microvm -- gzip -9 -c data
  baremark run --in native,container,qemu,ssh:host -- ./prog --size 10 data
  baremark run --in native,microvm --print-study -- ./prog   # to be changed";

/// Runs the comparison, or prints its study.
pub fn run(context: &Context, arguments: Arguments) -> Result<(String, Exit), Refusal> {
    let arguments = &arguments.joined();
    compared(context, study::of_commands(arguments)?, &arguments.options)
}

/// Runs one program in several environments, or prints the study of it.
pub fn places(context: &Context, options: &Options, program: &[String]) -> Result<(String, Exit), Refusal> {
    compared(context, study::of_program(options, program)?, options)
}

fn compared(context: &Context, study: study::Study, options: &Options) -> Result<(String, Exit), Refusal> {
    let source = Source::new(study.name.to_owned(), study.text.into_bytes());
    if options.spending.print_study {
        return show::print(context, &source);
    }
    let plan = planning::of(&source, Mode::default(), &context.interrupt)?;
    each_can_start(&plan, &study.commands)?;
    let (run, ended) = run::of_plan(context, &Source::new(study.command_line, source.bytes), &plan)?;
    let exit = run::answered(ended, &run);
    let descriptors = context::descriptors_of(&run)?;
    let document = predicted::document(context, &run, &descriptors);
    if exit == Exit::Failure && options.ignore_exit.is_none() {
        crate::watch::say("a command that ends with another exit code than 0 is not counted; --ignore-exit counts it");
    }
    if let Some(path) = &options.export_markdown {
        let table = report::markdown(&document, &study.commands);
        std::fs::write(path, table)
            .map_err(|why| Refusal::failure(format!("writing {}: {why}; name another file", path.display())))?;
    }
    let gate = options.fail_above.and_then(|margin| gate_of(&run, &document, margin));
    let answer = match (&gate, options.fail_above) {
        (_, None) => Exit::Success,
        (None, Some(_)) => Exit::Undecided,
        (Some(gate), Some(_)) => check::exit_of(gate.answer),
    };
    let gate = gate.map(|gate| lines(&document, &gate)).unwrap_or_default();
    let text = match (context.json, options.csv) {
        (true, _) => baremark_report::json::render(&document),
        (_, true) => baremark_report::csv::results(&document),
        _ => report::render(&document, &study.commands, &crate::watch::style()) + &gate,
    };
    Ok((text, if exit == Exit::Success { answer } else { exit }))
}

/// A stored run of `ab` or `run --in` as these print it at their end; `None` of any other run, and where JSON is requested.
pub fn shown(context: &Context, run: &Run) -> Result<Option<String>, Refusal> {
    let Some(commands) = commands_of(run).filter(|_| !context.json) else { return Ok(None) };
    let document = predicted::document(context, run, &context::descriptors_of(run)?);
    Ok(Some(report::render(&document, &commands, &crate::watch::style())))
}

/// The commands of a run whose study a command line has written, by name as they were typed.
fn commands_of(run: &Run) -> Option<Vec<(String, String)>> {
    let Origin::Command(_) = Origin::of(&run.file) else { return None };
    let mut commands: Vec<(String, String)> = Vec::new();
    for program in run.plan.arms.iter().filter_map(|arm| command::of_arm(&arm.arm)) {
        if !commands.iter().any(|(name, _)| *name == program.name) {
            commands.push((program.name.clone(), typed(program)));
        }
    }
    Some(commands).filter(|commands| !commands.is_empty())
}

/// A program's words with its placeholders, as a command line has them.
fn typed(program: &Program) -> String {
    let word = |text: &String| {
        let shown = command::fill(text, |key| Some(format!("{{{key}}}")));
        quote(shown.as_deref().unwrap_or(text))
    };
    program.argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Refuses a comparison of commands of which one cannot start anywhere: what was asked could not be answered.
fn each_can_start(plan: &Plan, commands: &[(String, String)]) -> Result<(), Refusal> {
    let is_of = |treatment: &Treatment, name: &String| treatment.get(command::KIND).is_some_and(|level| level == name);
    for (name, text) in commands.iter().filter(|_| commands.len() > 1) {
        let absent = plan.absent.iter().find(|absent| is_of(&absent.treatment, name));
        if let Some(absent) = absent.filter(|_| !plan.arms.iter().any(|arm| is_of(&arm.treatment, name))) {
            return Err(Refusal::missing(format!("command {name} ({text}): {}", absent.reason)));
        }
    }
    Ok(())
}

/// The gate of the headline's ratios; `None` where nothing was measured.
fn gate_of(run: &Run, document: &Document, margin: Share) -> Option<Gate> {
    let estimate = document.estimates.iter().find(|of| of.metric == document.run.metric)?;
    Some(gates::of_run(run, estimate.better, margin))
}

/// The lines of the gate.
fn lines(document: &Document, gate: &Gate) -> String {
    let mut text = String::from("\n");
    let margin = gate.margin;
    let rows = document.ratios.iter().filter(|row| row.metric == document.run.metric);
    for (row, found) in rows.zip(&gate.rows) {
        let power = found.power.map_or_else(String::new, |power| {
            format!("; a loss of {margin} would have been found with power {:.0} %", 100.0 * power)
        });
        let says = match (found.answer, found.needed) {
            (Answer::Loss, _) => format!("FAIL: worse by more than {margin}"),
            (Answer::Passed, _) => format!("ok: not worse by more than {margin}{power}"),
            (Answer::Undecided, Some(blocks)) => {
                format!("undecided within {margin}{power}; about {blocks} blocks would settle it, {} ran", row.blocks)
            }
            (Answer::Undecided, None) => {
                format!("undecided within {margin}{power}; raise --budget, or fail above a larger share")
            }
        };
        text.push_str(&format!("{}  {says}\n", report::pair(row)));
    }
    text
}
