//! Keys, values and sections as TOML writes them.

use toml::de::DeValue;
use toml_writer::{ToTomlKey as _, ToTomlValue as _, TomlKeyBuilder, TomlStringBuilder};

/// A value, on one line.
pub(crate) fn literal(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Datetime(moment) => moment.to_string(),
        DeValue::Array(items) => {
            format!("[{}]", items.iter().map(|item| literal(item.get_ref())).collect::<Vec<_>>().join(", "))
        }
        DeValue::Table(table) => {
            let pairs =
                table.iter().map(|(name, value)| format!("{} = {}", key(name.get_ref()), literal(value.get_ref())));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text, on one line.
#[must_use]
pub fn quoted(text: &str) -> String {
    TomlStringBuilder::new(text).as_basic().to_toml_value()
}

/// A key: bare where it may be.
#[must_use]
pub fn key(name: &str) -> String {
    TomlKeyBuilder::new(name).as_default().to_toml_key()
}

/// A section with these keys, in their order.
#[must_use]
pub fn section<const N: usize>(keys: [(&str, toml::Value); N]) -> toml::Table {
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A whole number; the most that TOML has for one beyond that.
pub fn whole(number: impl TryInto<i64>) -> toml::Value {
    number.try_into().unwrap_or(i64::MAX).into()
}
