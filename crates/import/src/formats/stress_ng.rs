//! stress-ng 0.12 or later: the file of `--metrics --yaml FILE`.
//!
//! The file is of a fixed shape, which is read line by line: sections without indentation, in `metrics` one list entry for each kind of stressor, and
//! `...` at the end. A "bogo operation" is one round of a stressor's loop: what it does is up to the stressor and to the program's version, so that
//! the version is a parameter, which two sides must share.

use crate::format::Format;
use crate::lines::Lines;
use crate::number;
use crate::result::{Column, Damage, Metric, Place};
use crate::results::Results;
use crate::text::Text;
use std::num::ParseIntError;

pub(super) const FORMAT: Format = Format {
    name: "stress-ng",
    help: "stress-ng --STRESSOR N --timeout T --metrics --yaml FILE",
    recognises: |head| head.lines().take(20).any(|line| line.trim_start().starts_with("stress-ng-version:")),
    read,
};

const PER_REAL: &str = "bogo-ops-per-second-real-time";
const PER_CPU: &str = "bogo-ops-per-second-usr-sys-time";

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let text = text.whole()?;
    let lines = Lines(&text);
    let (_, version) = lines.after("stress-ng-version:").ok_or_else(|| lines.lacks("stress-ng-version:"))?;
    let mut imported = Results::of(format!("stress-ng {}", unquoted(version)));
    imported.parameter("version", Some(unquoted(version)));
    imported.host = lines.after("hostname:").map(|(_, name)| unquoted(name).to_owned());
    let whole = |word: &str| -> Result<Option<u64>, Damage> {
        let Some((line, value)) = lines.after(word) else { return Ok(None) };
        let wrong = |why| format!("'{value}' behind '{word}' is not a whole number: {why}");
        value.parse().map(Some).map_err(|why: ParseIntError| Damage::at(Place::Line(line), wrong(why)))
    };
    imported.unix_s = whole("epoch-secs:")?;
    imported.cpus = whole("cpus-online:")?;
    lines.all().find(|(_, line)| *line == "...").ok_or_else(|| lines.lacks("..."))?;
    stressors(&mut imported, lines)?;
    Ok(imported)
}

/// The rates of each stressor, in operations for each second of wall time and of CPU time.
fn stressors(imported: &mut Results, lines: Lines<'_>) -> Result<(), Damage> {
    let mut of: Option<&str> = None;
    let metrics = lines.all().skip_while(|(_, line)| *line != "metrics:").skip(1);
    for (line, text) in metrics.take_while(|(_, line)| *line != "...") {
        let Some((key, value)) = text.split_once(':') else { continue };
        if let ("- stressor", name) = (key, unquoted(value)) {
            of = Some(name);
            continue;
        }
        let metric = match key {
            PER_REAL => Metric::higher("bogo_ops_per_s", "bogo ops/s"),
            PER_CPU => Metric::higher("bogo_ops_per_cpu_s", "bogo ops/CPU s"),
            _ => continue,
        };
        let stressor = of.ok_or_else(|| Damage::at(Place::Line(line), format!("'{key}' belongs to no stressor")))?;
        imported.add(stressor, &metric, [number::leading(value.trim(), line, key)?])?;
    }
    Ok(())
}

/// A scalar of YAML without the quotation marks that it may stand in.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('\'').and_then(|inner| inner.strip_suffix('\'')).unwrap_or(text)
}
