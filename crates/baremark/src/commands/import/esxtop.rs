//! Monitoring data of esxtop, shown by itself or added to a run.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record;
use baremark_model::imported::Imported;
use baremark_model::units::{Nanos, UnixTime};
use baremark_observe::esxtop::{self, Choice, EsxtopError};
use std::fmt::Write;
use std::io::{self, Cursor, Read};

/// The format's name.
pub(super) const NAME: &str = "esxtop";

/// Bytes in which a file says what it is.
const HEAD: u64 = 64;

/// Options of monitoring data.
#[derive(clap::Args)]
#[command(next_help_heading = "Monitoring data (esxtop -b -d 5 -n 60 > FILE)")]
pub struct Options {
    /// Add it to this run, whose reports show it from then on; a unique prefix is enough
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Take the columns whose heading contains TEXT as well, such as '% Ready' or ':web01'
    #[arg(long, value_name = "TEXT")]
    counter: Vec<String>,
    /// Add this to every time in the file, such as '-2 h' where its clock was two hours ahead [default: 0 s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = shift)]
    shift: Option<i64>,
    /// List what the file has instead
    #[arg(long)]
    list: bool,
}

impl Options {
    /// Whether any is set.
    pub(super) fn any(&self) -> bool {
        self.run.is_some() || !self.counter.is_empty() || self.shift.is_some() || self.list
    }
}

/// The first bytes of a file.
pub(super) fn head(input: &mut impl Read) -> io::Result<Cursor<Vec<u8>>> {
    let mut head = Vec::new();
    input.take(HEAD).read_to_end(&mut head)?;
    Ok(Cursor::new(head))
}

/// Whether a file that begins so is esxtop's.
pub(super) fn recognises(head: &Cursor<Vec<u8>>) -> bool {
    esxtop::recognises(head.get_ref())
}

/// A time with a sign.
fn shift(text: &str) -> Result<i64, String> {
    let (sign, time) = match text.strip_prefix('-') {
        Some(time) => (-1, time),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let time: Nanos = time.trim().parse().map_err(|why| format!("{why}"))?;
    i64::try_from(time.0).map(|time| sign * time).map_err(|why| why.to_string())
}

/// Shows a file, or adds it to a run.
pub(super) fn run(context: &Context, args: &Options, name: &str, input: impl Read) -> Result<(String, Exit), Refusal> {
    let wrong = |why: EsxtopError| Refusal::bad_input(format!("{name}: {why}"));
    if args.list {
        return Ok((listed(&esxtop::list(input).map_err(wrong)?, context.json), Exit::Success));
    }
    let choice = Choice { containing: args.counter.clone(), shift_ns: args.shift.unwrap_or(0) };
    let mut imported = esxtop::read(input, &choice).map_err(wrong)?;
    name.clone_into(&mut imported.file);
    if let Some(run) = &args.run {
        return Ok((attach(context, run, &imported)?, Exit::Success));
    }
    let text = match context.json {
        true => serde_json::to_string(&imported).map(|text| text + "\n").map_err(Refusal::failure)?,
        false => baremark_report::import::render(&imported, &crate::watch::style()),
    };
    Ok((text, Exit::Success))
}

fn listed(counters: &[(String, usize)], json: bool) -> String {
    if json {
        let rows: Vec<_> =
            counters.iter().map(|(name, columns)| serde_json::json!({ "counter": name, "columns": columns })).collect();
        return format!("{}\n", serde_json::Value::from(rows));
    }
    let mut text = String::new();
    for (name, columns) in counters {
        let _ = writeln!(text, "{columns:>6}  {name}");
    }
    text
}

/// Adds it to a run that it overlaps.
fn attach(context: &Context, run: &str, imported: &Imported) -> Result<String, Refusal> {
    let store = context.open_store()?;
    let id = record::find(&store, Some(run))?;
    let run = record::load(&store, &id)?;
    let (began, seconds) = (imported.began_unix_ns, imported.seconds.max(0.0));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of an observation")]
    let ended = began.saturating_add((seconds * 1e9) as u64);
    let lasted: u64 = run.trials.iter().map(|trial| trial.elapsed_ns).sum();
    let end_of_run = run.ended.map_or(run.started.0.saturating_add(lasted), |ended| ended.0);
    if ended < run.started.0 || began > end_of_run {
        return Err(Refusal::bad_input(format!(
            "the file holds {} to {}, and run {id} lasted from {} to {}; where a clock was wrong or in another zone, say \
             so with --shift",
            UnixTime(began),
            UnixTime(ended),
            run.started,
            UnixTime(end_of_run)
        )));
    }
    store.add_imported(&id, imported).map_err(Refusal::failure)?;
    let (rows, series) = (imported.rows, imported.series.len());
    Ok(format!("{rows} rows of {series} quantities were added to run {id}; `baremark report {id}` shows them\n"))
}
