//! The host's own figures, summed over its adapters and ports, by the keys of our views.

use super::heading::{Heading, is_physical};
use baremark_model::observation::Values;

/// A view, the object and counters that are summed for it, and what one of them is in the view's unit.
const SUMS: &[(&str, &str, &[&str], f64)] = &[
    ("disk.iops", "Physical Disk Adapter", &["Commands/sec"], 1.0),
    ("disk.read_iops", "Physical Disk Adapter", &["Reads/sec"], 1.0),
    ("disk.write_iops", "Physical Disk Adapter", &["Writes/sec"], 1.0),
    ("disk.mb_per_s", "Physical Disk Adapter", &["MBytes Read/sec", "MBytes Written/sec"], 1.0),
    ("net.receive_packets", "Network Port", &["Packets Received/sec"], 1.0),
    ("net.transmit_packets", "Network Port", &["Packets Transmitted/sec"], 1.0),
    ("net.receive_mb_per_s", "Network Port", &["MBits Received/sec"], 0.125),
    ("net.transmit_mb_per_s", "Network Port", &["MBits Transmitted/sec"], 0.125),
];
/// What the host's utilization is called, the best first.
const UTILIZATION: [&str; 2] = ["% Util Time", "% Processor Time"];

/// Which columns are summed for which view.
pub(crate) struct Sums {
    sums: Vec<(&'static str, Vec<String>, f64)>,
}

impl Sums {
    pub(crate) fn of(columns: &[(usize, Heading)]) -> Self {
        let all = || columns.iter().map(|(_, heading)| heading);
        let mut sums: Vec<(&'static str, Vec<String>, f64)> = Vec::new();
        for (view, object, counters, scale) in SUMS {
            let of = |heading: &&Heading| {
                let whole = *object != "Network Port" || is_physical(&heading.instance);
                whole
                    && heading.object.eq_ignore_ascii_case(object)
                    && counters.iter().any(|counter| heading.counter.eq_ignore_ascii_case(counter))
            };
            sums.push((view, all().filter(of).map(Heading::key).collect(), *scale));
        }
        let utilization = UTILIZATION.iter().find_map(|counter| {
            all().find(|heading| {
                heading.object.eq_ignore_ascii_case("Physical Cpu")
                    && heading.instance.eq_ignore_ascii_case("_Total")
                    && heading.counter.eq_ignore_ascii_case(counter)
            })
        });
        sums.extend(utilization.map(|heading| ("cpu.utilization", vec![heading.key()], 1.0)));
        sums.retain(|(_, keys, _)| !keys.is_empty());
        Sums { sums }
    }

    /// Adds the sums of which every part is there.
    pub(crate) fn add(&self, values: &mut Values) {
        for (view, keys, scale) in &self.sums {
            let parts: Option<Vec<f64>> = keys.iter().map(|key| values.get(key).copied()).collect();
            if let Some(parts) = parts {
                values.insert((*view).to_owned(), parts.iter().sum::<f64>() * scale);
            }
        }
    }
}
