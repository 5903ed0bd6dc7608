//! Headings of columns: `\\host\Object(Instance)\Counter`.

use baremark_model::quantity::{join, split};
use baremark_model::view;

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    /// The host that was observed.
    pub host: String,
    /// The object, such as `Physical Cpu`.
    pub object: String,
    /// Of which of many; may be empty, and may have any character in it.
    pub instance: String,
    /// The counter, such as `% Util Time`.
    pub counter: String,
}

impl Heading {
    /// Reads a heading; `None` for one of another form, such as the first column's.
    pub(crate) fn read(field: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(field);
        let (host, rest) = text.strip_prefix(r"\\")?.split_once('\\')?;
        // An instance may hold backslashes and brackets: the counter stands behind the last bracket that ends one.
        let (object, instance, counter) = match (rest.find('('), rest.rfind(r")\")) {
            (Some(from), Some(to)) if from < to => (&rest[..from], &rest[from + 1..to], &rest[to + 2..]),
            _ => {
                let (object, counter) = rest.rsplit_once('\\')?;
                (object, "", counter)
            }
        };
        let whole = !object.is_empty() && !counter.is_empty();
        let [host, object, instance, counter] = [host, object, instance, counter].map(|part| part.trim().to_owned());
        whole.then_some(Heading { host, object, instance, counter })
    }

    /// The heading without its host.
    pub(crate) fn words(&self) -> String {
        format!(r"{}({})\{}", self.object, self.instance, self.counter)
    }

    /// The key of its values. Colons part a key and are common in instances, so that only the first one parts.
    pub(crate) fn key(&self) -> String {
        join(&format!("esxtop.{} {}", self.object, self.counter).replace(':', " "), &self.instance)
    }

    fn unit(&self) -> &'static str {
        match self.counter.as_str() {
            counter if counter.starts_with('%') => "%",
            counter if counter.contains("MilliSec") => "ms",
            _ => "",
        }
    }
}

/// Objects of which a few counters are always taken.
const USUAL: &[(&str, &[&str])] = &[
    ("Physical Cpu", &["% Processor Time", "% Util Time", "% Core Util Time"]),
    ("Memory", &["Free MBytes", "Machine MBytes", "Swap Used MBytes", "Memory Overcommit (1 Minute Avg)"]),
    (
        "Physical Disk Adapter",
        &[
            "Commands/sec",
            "Reads/sec",
            "Writes/sec",
            "MBytes Read/sec",
            "MBytes Written/sec",
            "Average Driver MilliSec/Command",
            "Average Kernel MilliSec/Command",
            "Average Guest MilliSec/Command",
        ],
    ),
    (
        "Network Port",
        &["Packets Received/sec", "Packets Transmitted/sec", "MBits Received/sec", "MBits Transmitted/sec"],
    ),
];

/// Whether a column is taken though nobody names it: the whole host, its adapters and its physical ports.
pub(crate) fn is_usual(heading: &Heading) -> bool {
    let Some((object, counters)) = USUAL.iter().find(|(object, _)| heading.object.eq_ignore_ascii_case(object)) else {
        return false;
    };
    let whole = match *object {
        "Physical Cpu" => heading.instance.eq_ignore_ascii_case("_Total"),
        "Network Port" => is_physical(&heading.instance),
        _ => true,
    };
    whole && counters.iter().any(|counter| heading.counter.eq_ignore_ascii_case(counter))
}

/// Whether a port is a network card of the host: its packets are those of all others that leave it.
pub(crate) fn is_physical(port: &str) -> bool {
    let last = port.rsplit(':').next().unwrap_or_default().trim();
    last.len() > 5 && last.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("vmnic"))
}

/// Quantity, instance and unit of a key: a view's own, or a column's.
pub(crate) fn named(key: &str, columns: &[(usize, Heading)]) -> (String, String, String) {
    let (quantity, instance) = split(key);
    let unit = match view::find(quantity) {
        Some(view) => view.unit,
        None => columns.iter().find(|(_, heading)| heading.key() == key).map_or("", |(_, heading)| heading.unit()),
    };
    (quantity.to_owned(), instance.to_owned(), unit.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<[String; 3]> {
        Heading::read(text.as_bytes()).map(|heading| [heading.object, heading.instance, heading.counter])
    }

    #[test]
    fn headings_come_apart_whatever_the_instance_is_called() {
        let expected = |parts: [&str; 3]| Some(parts.map(str::to_owned));
        assert_eq!(
            read(r"\\esx1\Physical Cpu(_Total)\% Util Time"),
            expected(["Physical Cpu", "_Total", "% Util Time"])
        );
        assert_eq!(read(r"\\esx1\Memory\Free MBytes"), expected(["Memory", "", "Free MBytes"]));
        assert_eq!(
            read(r"\\esx1\Memory\Memory Overcommit (1 Minute Avg)"),
            expected(["Memory", "", "Memory Overcommit (1 Minute Avg)"])
        );
        assert_eq!(
            read(r"\\esx1\Group Cpu(12:a (b) \c, d)\% Ready"),
            expected(["Group Cpu", r"12:a (b) \c, d", "% Ready"])
        );
        for odd in ["", "(PDH-CSV 4.0) (UTC)(0)", r"\\host", r"\\host\x", r"\\host\(i)\c", r"\host\a\b"] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn only_physical_ports_count_for_the_host() {
        assert!(is_physical("vSwitch0:33554434:vmnic0"));
        assert!(!is_physical("vSwitch0:33554437:web01.eth0"));
        assert!(!is_physical("vmni"));
        assert!(!is_physical("é"));
    }
}
