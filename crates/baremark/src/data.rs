//! Where the data of a study are on this machine: what features of disks are set for.

use baremark_model::value::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Parameters of workloads that name a folder, a file or a device with data.
const PARAMETERS: [&str; 3] = ["path", "file", "device"];
/// The key of an environment that names files or devices which its guest sees as disks.
const DISKS: &str = "disks";

/// Where data are that nobody has named a place for.
pub fn usual() -> Vec<PathBuf> {
    vec![std::env::temp_dir()]
}

/// What these parameters and environments name, without repetition; the usual place where they name nothing.
pub fn of<'v>(
    parameters: impl Iterator<Item = &'v BTreeMap<String, Value>>,
    environments: &BTreeMap<String, BTreeMap<String, Value>>,
) -> Vec<PathBuf> {
    let of_arm = |values: &BTreeMap<String, Value>| -> Vec<PathBuf> {
        let text = |key: &&str| match values.get(*key) {
            Some(Value::Text(path)) => Some(PathBuf::from(path)),
            _ => None,
        };
        PARAMETERS.iter().filter_map(text).collect()
    };
    let of_environment = |settings: &BTreeMap<String, Value>| match settings.get(DISKS) {
        Some(Value::Words(paths)) => paths.iter().map(PathBuf::from).collect(),
        _ => Vec::new(),
    };
    let mut found: Vec<PathBuf> = parameters.flat_map(of_arm).collect();
    found.extend(environments.values().flat_map(of_environment));
    // Names of other things, such as a page that a web server has, lead nowhere here.
    found.retain(|path| path.is_absolute());
    found.sort();
    found.dedup();
    if found.is_empty() { usual() } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(key: &str, value: Value) -> BTreeMap<String, Value> {
        BTreeMap::from([(key.to_owned(), value)])
    }

    #[test]
    fn places_are_those_that_a_study_names_or_the_usual_one() {
        let path = |text: &str| values("path", Value::Text(text.to_owned()));
        let disks = values(DISKS, Value::Words(vec!["/srv/disk".to_owned()]));
        let guests = BTreeMap::from([("qemu".to_owned(), disks)]);
        let found = of([path("/data"), path("/data"), path("relative")].iter(), &guests);
        assert_eq!(found, [PathBuf::from("/data"), PathBuf::from("/srv/disk")]);
        assert_eq!(of([].iter(), &BTreeMap::new()), usual());
    }
}
