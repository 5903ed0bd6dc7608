//! CSV whose columns the user names: metrics with their direction and unit, and labels that say what a row is of.

use crate::format::Format;
use crate::result::{Column, Damage, Imported, Place};
use ::csv::{Error, ErrorKind, ReaderBuilder, StringRecord};

pub(super) const FORMAT: Format = Format {
    name: "csv",
    help: "any file with a heading, with --columns 'test,seconds:lower:s,rate:higher:1/s'",
    recognises: |_| false,
    read,
};

fn read(text: &str, columns: &[Column]) -> Result<Imported, Damage> {
    if !columns.iter().any(|column| column.metric.is_some()) {
        let what = "no column is a metric; name some with --columns 'LABEL,METRIC:lower:UNIT'";
        return Err(Damage::at(Place::Whole, what));
    }
    let mut reader = ReaderBuilder::new().delimiter(delimiter(text)).from_reader(text.as_bytes());
    let heading = reader.headers().map_err(|why| damage(&why))?.clone();
    let places = columns.iter().map(|column| Ok((column, place(&heading, &column.name)?)));
    let places = places.collect::<Result<Vec<(&Column, usize)>, Damage>>()?;
    let mut imported = Imported::of("CSV");
    for row in reader.records() {
        let row = row.map_err(|why| damage(&why))?;
        let line = row.position().map_or(0, ::csv::Position::line);
        let labels = places.iter().filter(|(column, _)| column.metric.is_none()).map(|(_, at)| row[*at].trim());
        let name = labels.collect::<Vec<_>>().join(" ");
        for (column, at) in &places {
            let Some(metric) = &column.metric else { continue };
            let value = row[*at].trim();
            let wrong = |why| Damage::at(Place::Line(line), format!("column {}: '{value}': {why}", column.name));
            imported.add(&name, metric.clone(), [value.parse::<f64>().map_err(wrong)?]);
        }
    }
    Ok(imported)
}

/// Of comma, semicolon and tab the one that the heading has most of.
fn delimiter(text: &str) -> u8 {
    let heading = text.lines().next().unwrap_or_default().as_bytes();
    let count = |of: u8| heading.iter().filter(|byte| **byte == of).count();
    [b';', b'\t'].into_iter().fold(b',', |most, of| if count(of) > count(most) { of } else { most })
}

fn place(heading: &StringRecord, name: &str) -> Result<usize, Damage> {
    heading.iter().position(|of| of.trim() == name).ok_or_else(|| {
        let known = heading.iter().map(str::trim).collect::<Vec<_>>().join(", ");
        Damage::at(Place::Line(1), format!("no column '{name}'; the file has {known}"))
    })
}

/// What is wrong with a row.
pub(super) fn damage(why: &Error) -> Damage {
    let line = why.position().map_or(1, ::csv::Position::line);
    let what = match why.kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("has {len} of {expected_len} columns; the file was cut off, or a field lacks its quotes")
        }
        ErrorKind::Deserialize { err, .. } => err.to_string(),
        other => format!("{other:?}"),
    };
    Damage::at(Place::Line(line), what)
}
