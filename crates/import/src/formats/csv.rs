//! CSV whose columns the user names: metrics with their direction and unit, and labels that say what a row is of.

use crate::format::Format;
use crate::result::{Column, Damage, Place};
use crate::results::Results;
use crate::rows::{self, Rows};
use crate::text::Text;
use ::csv::StringRecord;

pub(super) const FORMAT: Format = Format {
    name: "csv",
    help: "any file with a heading, with --columns 'test,seconds:lower:s,rate:higher:1/s'",
    recognises: |_| false,
    read,
};

fn read(text: &mut Text<'_>, columns: &[Column]) -> Result<Results, Damage> {
    if !columns.iter().any(|column| column.metric.is_some()) {
        let what = "no column is a metric; name some with --columns 'LABEL,METRIC:lower:UNIT'";
        return Err(Damage::at(Place::Whole, what));
    }
    let delimiter = delimiter(text.first_line());
    let mut rows = Rows::of(text, delimiter);
    let heading = rows.next()?.map(|(_, row)| row.clone()).unwrap_or_default();
    let places = columns.iter().map(|column| Ok((column, place(&heading, &column.name)?)));
    let places = places.collect::<Result<Vec<(&Column, usize)>, Damage>>()?;
    let labels: Vec<usize> = places.iter().filter(|(of, _)| of.metric.is_none()).map(|(_, at)| *at).collect();
    let mut results = Results::of_log("CSV");
    while let Some((line, row)) = rows.next()? {
        if row.len() != heading.len() {
            return Err(rows::unequal(line, row.len(), heading.len()));
        }
        let name = labels.iter().map(|at| row[*at].trim()).collect::<Vec<_>>().join(" ");
        for (column, at) in &places {
            let Some(metric) = &column.metric else { continue };
            let value = row[*at].trim();
            let wrong = |why| Damage::at(Place::Line(line), format!("column {}: '{value}': {why}", column.name));
            results.add(&name, metric, [value.parse::<f64>().map_err(wrong)?])?;
        }
    }
    Ok(results)
}

/// Of comma, semicolon and tab the one that the heading has most of.
fn delimiter(heading: &str) -> u8 {
    let count = |of: u8| heading.bytes().filter(|byte| *byte == of).count();
    [b';', b'\t'].into_iter().fold(b',', |most, of| if count(of) > count(most) { of } else { most })
}

fn place(heading: &StringRecord, name: &str) -> Result<usize, Damage> {
    heading.iter().position(|of| of.trim() == name).ok_or_else(|| {
        let known = heading.iter().map(str::trim).collect::<Vec<_>>().join(", ");
        Damage::at(Place::Line(1), format!("no column '{name}'; the file has {known}"))
    })
}
