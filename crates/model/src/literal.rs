//! Values of TOML as text again.

use toml::de::{DeTable, DeValue};

/// A value as TOML writes it, on one line.
pub(crate) fn literal(value: &DeValue<'_>) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => match number.radix() {
            16 => format!("0x{}", number.as_str()),
            8 => format!("0o{}", number.as_str()),
            2 => format!("0b{}", number.as_str()),
            _ => number.as_str().to_owned(),
        },
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Datetime(moment) => moment.to_string(),
        DeValue::Array(items) => {
            format!("[{}]", list(items.iter().map(|item| literal(item.get_ref())).collect()))
        }
        DeValue::Table(table) => format!("{{ {} }}", list(pairs(table))),
    }
}

fn pairs(table: &DeTable<'_>) -> Vec<String> {
    table.iter().map(|(key, value)| format!("{} = {}", quoted(key.get_ref()), literal(value.get_ref()))).collect()
}

/// A basic string of TOML.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
