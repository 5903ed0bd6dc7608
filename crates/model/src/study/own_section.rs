//! The section of a study that its workload reads itself: its keys become parameters under their dotted paths.

use super::{Chosen, Entry, Reader};
use crate::descriptor::Descriptor;
use crate::former;
use crate::literal::literal;
use crate::value::Value;
use std::collections::BTreeMap;
use toml::de::DeValue;

impl Chosen {
    /// The workload's own section, where the study sets `key` in it, by today's name or by the one of an earlier version.
    pub(super) fn sets_in_section(&self, key: &str) -> Option<&'static str> {
        let name = self.descriptor.section?.name;
        let inside = |typed: &String| Some(former::path_now(typed.strip_prefix(name)?.strip_prefix('.')?));
        self.parameters.keys().any(|typed| inside(typed).is_some_and(|path| path == key)).then_some(name)
    }
}

impl Reader<'_> {
    /// Has the chosen workload check its section and takes the section's keys as the workload's parameters.
    pub(super) fn own_section(&mut self, chosen: &mut [Chosen], sections: &BTreeMap<&str, (usize, Vec<Entry<'_>>)>) {
        for chosen in chosen {
            let Some(section) = chosen.descriptor.section else { continue };
            let Some((_, entries)) = sections.get(section.name) else { continue };
            for problem in (section.check)(&self.layer.file, self.layer.text) {
                self.mistakes.add(&self.layer.file, problem);
            }
            for &(key, _, value) in entries {
                let path = format!("{}.{key}", section.name);
                if let Some(table) = value.get_ref().as_table() {
                    self.renamed.extend(self.layer.renamed_in(&path, table));
                }
                flatten(&path, value.get_ref(), &mut chosen.parameters);
            }
        }
    }

    /// Refuses a section that belongs to a workload which the study does not name.
    pub(super) fn sections_of_others(
        &mut self,
        chosen: &[Chosen],
        known: &[&'static Descriptor],
        sections: &BTreeMap<&str, (usize, Vec<Entry<'_>>)>,
    ) {
        let used: Vec<&str> = chosen.iter().filter_map(|chosen| Some(chosen.descriptor.section?.name)).collect();
        let owners = known.iter().filter_map(|descriptor| Some((descriptor.kind, descriptor.section?.name)));
        for (kind, name) in owners.filter(|(_, name)| !used.contains(name)) {
            if let Some((line, _)) = sections.get(name) {
                let what = format!("[{name}] belongs to the workload '{kind}', which this study does not run");
                self.report(*line, what, format!("write kind = \"{kind}\" in [workload], or remove the section"));
            }
        }
    }
}

/// Takes a value under `path`, or of a table every value below it.
fn flatten(path: &str, value: &DeValue<'_>, into: &mut BTreeMap<String, Value>) {
    match value {
        // An empty one is a value: that a key is there may say something.
        DeValue::Table(table) if !table.is_empty() => {
            for (key, value) in table {
                flatten(&format!("{path}.{}", key.get_ref()), value.get_ref(), into);
            }
        }
        other => drop(into.insert(path.to_owned(), Value::Literal(literal(other)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::de::DeTable;

    #[test]
    fn a_section_comes_back_as_it_was_typed() {
        let text = r#"
            max_users = 400
            history = "10 %"
            faults = [{ at = "3 s", tier = "app" }]
            empty = {}
            [database]
            service = 'say "hi"'
            settings = { shared_buffers = "16MB", hex = 0x10, share = 0.5, on = true, list = ["a", "b"] }
        "#;
        let document = DeTable::parse(text).expect("TOML");
        let mut flat = BTreeMap::new();
        for (key, value) in document.get_ref() {
            flatten(key.get_ref(), value.get_ref(), &mut flat);
        }
        let lines: Vec<String> = flat
            .iter()
            .map(|(key, value)| match value {
                Value::Literal(text) => format!("{key} = {text}"),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(lines.contains(&"database.settings.hex = 0x10".to_owned()), "{lines:?}");
        assert_eq!(flat["database.service"].to_string(), r#""say \"hi\"""#);
        assert_eq!(flat["history"].to_string(), "10 %");
        let again = lines.join("\n");
        let read: toml::Table = toml::from_str(&again).expect("TOML again");
        let typed: toml::Table = toml::from_str(text).expect("TOML");
        assert_eq!(read, typed);
    }
}
