//! Phoronix Test Suite: a result file (`composite.xml`), or what `phoronix-test-suite result-file-to-csv` writes.
//!
//! A file may hold several systems; the benchmark's name then ends with the system's.

use crate::format::Format;
use crate::number;
use crate::result::{Better, Column, Damage, Metric, Place};
use crate::results::Results;
use crate::rows::Rows;
use crate::text::Text;
use crate::xml;
use ::csv::StringRecord;
use roxmltree::Node;

pub(super) const FORMAT: Format = Format {
    name: "phoronix",
    help: "test-results/NAME/composite.xml, or phoronix-test-suite result-file-to-csv NAME",
    recognises: |head| head.contains("<PhoronixTestSuite>") || head.contains(",HIB,") || head.contains(",LIB,"),
    read,
};

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    if text.head().trim_start().starts_with('<') { document(&text.whole()?) } else { table(text) }
}

/// The metric of a scale such as `Seconds` or `MB/s`.
fn metric(scale: &str, proportion: &str, place: impl FnOnce() -> Place) -> Result<Metric, Damage> {
    let better = match proportion {
        "HIB" => Better::Higher,
        "LIB" => Better::Lower,
        other => return Err(Damage::at(place(), format!("'{other}' says neither HIB (higher is better) nor LIB"))),
    };
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let key: String = scale.chars().map(word).collect();
    let key = key.split('_').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_");
    let direction = if better == Better::Higher { "more" } else { "less" };
    let key = if key.is_empty() { direction.to_owned() } else { format!("{key}_{direction}") };
    Ok(Metric { key, unit: scale.to_owned(), better })
}

fn named(title: &str, arguments: &str, system: Option<&str>) -> String {
    let parts = [Some(title), Some(arguments), system];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" - ")
}

fn document(text: &str) -> Result<Results, Damage> {
    let document = xml::parsed(text)?;
    let mut imported = Results::of("Phoronix Test Suite");
    let root = document.root_element();
    let systems: Vec<&str> = all(root, "System").filter_map(|of| text_of(of, "Identifier")).collect();
    if let [one] = systems[..] {
        imported.host = Some(one.to_owned());
    }
    for result in all(root, "Result") {
        let lacks = |what: &str| Damage::at(line_of(result), format!("the result has no {what}"));
        let title = text_of(result, "Title").ok_or_else(|| lacks("Title"))?;
        let arguments = text_of(result, "Description").or_else(|| text_of(result, "ArgumentsDescription"));
        // Graphs over time and pictures are no figures.
        let Some(proportion) = text_of(result, "Proportion").filter(|of| !of.is_empty()) else {
            imported.note(format!("{title}: says not which way is better, left out"));
            continue;
        };
        let metric = metric(text_of(result, "Scale").unwrap_or_default(), proportion, || line_of(result))?;
        for entry in all(result, "Entry") {
            let system = text_of(entry, "Identifier").filter(|_| systems.len() != 1);
            let name = named(title, arguments.unwrap_or_default(), system);
            match values(entry)? {
                Some(values) => imported.add(&name, &metric, values)?,
                None => imported.note(format!("{name}: has no value and is left out")),
            }
        }
    }
    Ok(imported)
}

/// The runs of an entry, else its value; `None` where it has neither.
fn values(entry: Node<'_, '_>) -> Result<Option<Vec<f64>>, Damage> {
    let filled = |name: &str| child(entry, name).filter(|of| of.text().is_some_and(|text| !text.trim().is_empty()));
    let Some(node) = filled("RawString").or_else(|| filled("Value")) else { return Ok(None) };
    let raw = node.text().unwrap_or_default().trim();
    let number = |part: &str| {
        let what = |why| format!("'{part}' of '{raw}' is not a number: {why}");
        part.trim().parse::<f64>().map_err(|why| Damage::at(line_of(node), what(why)))
    };
    raw.split(':').map(number).collect::<Result<Vec<_>, _>>().map(Some)
}

#[cfg(test)]
thread_local! {
    /// Lines that were looked for, each by reading all text before it.
    static LOOKED_FOR: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Its line. The text before it is read for that, so only where something is wrong.
fn line_of(node: Node<'_, '_>) -> Place {
    #[cfg(test)]
    LOOKED_FOR.set(LOOKED_FOR.get() + 1);
    Place::Line(u64::from(node.document().text_pos_at(node.range().start).row))
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|of| of.has_tag_name(name))
}

fn all<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.descendants().filter(move |of| of.has_tag_name(name))
}

fn text_of<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(node, name)?.text().map(str::trim)
}

/// What `result-file-to-csv` writes: a table of the systems, one of the results, and an empty line at the end of each.
fn table(text: &mut Text<'_>) -> Result<Results, Damage> {
    let mut imported = Results::of("Phoronix Test Suite");
    let mut systems: Vec<String> = Vec::new();
    let mut rows = Rows::of(text, b',');
    let mut last = 1;
    while let Some((line, row)) = rows.next()? {
        if row.get(0).is_some_and(|first| first.trim().is_empty()) {
            systems = row.iter().skip(2).map(str::to_owned).collect();
        }
        if matches!(row.get(1), Some("HIB" | "LIB")) {
            result(&mut imported, &systems, row, line)?;
        }
        last = line;
    }
    if !rows.end_with_an_empty_line() {
        return Err(Damage::at(Place::Line(last), "the file ends without an empty line; it was cut off"));
    }
    if let [one] = systems.as_slice() {
        imported.host = Some(one.clone());
    }
    Ok(imported)
}

/// A row of test with its scale in parentheses, direction, and one value a system.
fn result(imported: &mut Results, systems: &[String], row: &StringRecord, line: u64) -> Result<(), Damage> {
    let place = Place::Line(line);
    if row.len() - 2 != systems.len() {
        let what = format!("has {} values for {} systems; the file was cut off", row.len() - 2, systems.len());
        return Err(Damage::at(place, what));
    }
    let (test, scale) = row[0].rsplit_once(" (").unwrap_or((&row[0], ""));
    let metric = metric(scale.trim_end_matches(')'), &row[1], || place)?;
    for (system, value) in systems.iter().zip(row.iter().skip(2)).filter(|(_, value)| !value.trim().is_empty()) {
        let several = (systems.len() > 1).then_some(system.as_str());
        let name = named(test.trim_end_matches([' ', '-']), "", several);
        imported.add(&name, &metric, [number::leading(value.trim(), line, test)?])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before, each of 20,000 results looked for its line from the beginning of the file.
    #[test]
    fn a_line_is_looked_for_only_where_something_is_wrong() {
        let result = |raw: &str| {
            format!(
                "<Result><Title>t</Title><Scale>s</Scale><Proportion>LIB</Proportion>\n<Data><Entry><Identifier>m</Identifier>\
                 <RawString>{raw}</RawString></Entry></Data></Result>\n"
            )
        };
        let looked_for = |results: &[String]| {
            LOOKED_FOR.set(0);
            let read = document(&format!("<PhoronixTestSuite><System/>{}</PhoronixTestSuite>", results.concat()));
            (read.is_ok(), LOOKED_FOR.get())
        };
        assert_eq!(looked_for(&vec![result("1:2"); 100]), (true, 0));
        assert_eq!(looked_for(&[result("1:2"), result("1:x")]), (false, 1));
    }
}
