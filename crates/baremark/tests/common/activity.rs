//! System activity that a run has observed.

use serde_json::Value;

/// The rows of a quantity at a place, of the arms of an environment.
pub fn rows<'v>(document: &'v Value, environment: &str, place: &str, quantity: &str) -> Vec<&'v Value> {
    let all = document["observed"]["rows"].as_array().unwrap_or_else(|| panic!("not observed: {}", document["run"]));
    let wanted = |row: &&Value| {
        let of = row["treatment"]["environment"].as_str().unwrap_or_default();
        of == environment && row["place"] == place && row["quantity"] == quantity && row["instance"] == ""
    };
    all.iter().filter(wanted).collect()
}
