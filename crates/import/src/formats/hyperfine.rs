//! hyperfine: `hyperfine --export-json FILE`.
//!
//! Commands of one file did not take turns, so that they are not paired with each other.

use crate::format::Format;
use crate::json;
use crate::result::{Column, Damage, Metric};
use crate::results::Results;
use crate::text::Text;
use serde::Deserialize;

pub(super) const FORMAT: Format = Format {
    name: "hyperfine",
    help: "hyperfine --export-json FILE COMMAND",
    recognises: |head| head.contains("\"results\"") && head.contains("\"command\"") && head.contains("\"median\""),
    read,
};

#[derive(Deserialize)]
struct File {
    results: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    command: String,
    mean: f64,
    #[serde(default)]
    times: Option<Vec<f64>>,
    #[serde(default)]
    exit_codes: Vec<Option<i64>>,
}

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let file: File = json::read(&text.whole()?)?;
    let mut imported = Results::of("hyperfine");
    imported.free_names = true;
    for row in file.results {
        let failed = row.exit_codes.iter().filter(|code| **code != Some(0)).count();
        if failed > 0 {
            imported.note(format!("{}: {failed} runs did not end with exit code 0", row.command));
        }
        let times = row.times.filter(|times| !times.is_empty()).unwrap_or_else(|| vec![row.mean]);
        imported.add(&row.command, &Metric::lower("wall_s", "s"), times)?;
    }
    Ok(imported)
}
