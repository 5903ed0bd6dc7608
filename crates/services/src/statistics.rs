//! What services report about themselves.

use std::collections::BTreeMap;

/// Numbers that a service reports about itself, by its own names.
pub type Statistics = BTreeMap<String, f64>;

/// Those of the pairs whose value is a number.
pub(crate) fn numbers<'t>(pairs: impl Iterator<Item = (&'t str, &'t str)>) -> Statistics {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    pairs.filter_map(|(key, value)| Some((key.to_owned(), number(value)?))).collect()
}
