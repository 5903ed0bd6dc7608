//! Treatments in words: "microvm with 4k pages and host backing 2m".

use crate::text::clean;
use baremark_model::distinct::distinct;
use baremark_model::document::{Document, RunHead};
use baremark_model::environments;
use baremark_model::plan::Treatment;
use baremark_model::tables::WORKLOAD;

/// The factor that says where work runs.
pub(crate) const ENVIRONMENT: &str = environments::FACTOR;

/// The treatments that have a value, in the order of their values.
pub(crate) fn measured(document: &Document) -> Vec<&Treatment> {
    distinct(document.estimates.iter().map(|row| &row.treatment))
}

/// The factors of a run, in the study's order, and which of them vary.
pub(crate) struct Factors<'d> {
    run: &'d RunHead,
}

impl<'d> Factors<'d> {
    pub(crate) fn of(run: &'d RunHead) -> Self {
        Factors { run }
    }

    /// Whether `key` has more than one level. What does not vary is said once, not in every sentence.
    fn varies(&self, key: &str) -> bool {
        self.run.factors.iter().find(|(name, _)| name == key).is_none_or(|(_, levels)| levels.len() > 1)
    }

    /// The factors with one level: key and level.
    pub(crate) fn fixed(&self) -> Vec<String> {
        let one = self.run.factors.iter().filter(|(_, levels)| levels.len() == 1);
        one.map(|(key, levels)| phrase(key, &levels[0])).collect()
    }

    /// The varying factors of `treatment` but those in `without`, in the study's order.
    pub(crate) fn levels<'t>(&self, treatment: &'t Treatment, without: &[&str]) -> Vec<(&'t str, &'t str)> {
        let mut levels: Vec<(&str, &str)> = treatment
            .iter()
            .map(|(key, label)| (key.as_str(), label.as_str()))
            .filter(|(key, _)| self.varies(key) && !without.contains(key))
            .collect();
        baremark_model::order::by_key(&mut levels, |(key, _)| self.position(key));
        levels
    }

    fn position(&self, key: &str) -> usize {
        self.run.factors.iter().position(|(name, _)| name == key).unwrap_or(usize::MAX)
    }

    /// Where `label` stands among the levels of `key`.
    pub(crate) fn rank(&self, key: &str, label: &str) -> usize {
        let levels = self.run.factors.iter().find(|(name, _)| name == key).map(|(_, levels)| levels);
        levels.and_then(|levels| levels.iter().position(|level| level == label)).unwrap_or(usize::MAX)
    }

    /// The whole treatment: "microvm with 4k pages and 2 ranks".
    pub(crate) fn name(&self, treatment: &Treatment) -> String {
        let rest = self.levels(treatment, &[ENVIRONMENT, WORKLOAD]);
        let place = treatment.get(ENVIRONMENT).map(|label| clean(label));
        let name = match (place, rest.is_empty()) {
            (Some(place), true) => place,
            (Some(place), false) => format!("{place} with {}", join(&rest)),
            (None, true) => self.run.workload.clone(),
            (None, false) => join(&rest),
        };
        match treatment.get(WORKLOAD) {
            Some(workload) => format!("{}, {name}", clean(workload)),
            None => name,
        }
    }
}

/// One level in words.
pub(crate) fn phrase(key: &str, label: &str) -> String {
    let (key, label) = (clean(key), clean(label));
    match key.as_str() {
        ENVIRONMENT => label,
        "page" => format!("{label} pages"),
        "page_frames" => format!("{label} frames"),
        "guest_tables" => format!("{label} guest tables"),
        "ranks" if label == "1" => "1 rank".to_owned(),
        "ranks" => format!("{label} ranks"),
        _ => format!("{} {label}", key.replace('_', " ")),
    }
}

/// Levels as a list: "a, b, c".
pub(crate) fn list(levels: &[(&str, &str)]) -> String {
    phrases(levels).join(", ")
}

/// Levels in words: "a", "a and b", "a, b and c".
pub(crate) fn join(levels: &[(&str, &str)]) -> String {
    match phrases(levels).split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

fn phrases(levels: &[(&str, &str)]) -> Vec<String> {
    levels.iter().map(|(key, label)| phrase(key, label)).collect()
}
