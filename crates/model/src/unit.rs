//! Units as text: which are known, and how one converts to another.
//!
//! Metrics carry their unit as printed text. A unit is a quantity with a prefix (`KiB`, `ms`, `Gbit/s`), a count of something (`pages`), or a
//! count by time (`requests/s`). Two units convert where they are of one dimension; counts convert where they count the same.

/// The dimension of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Seconds.
    Time,
    /// Bytes.
    Size,
    /// Bytes per second.
    Throughput,
    /// Floating-point operations per second.
    Flops,
    /// Updates per second.
    Updates,
    /// A share; the factor of percent is 1/100.
    Share,
    /// A number without a unit, or a count of this noun; empty for the former.
    Count(String),
    /// Something per second, by noun; empty where none is named.
    Rate(String),
    /// Any other known unit, which converts to itself alone.
    Other(String),
}

/// A unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// What it measures.
    pub dimension: Dimension,
    /// How many of the dimension's base unit one of it is.
    pub factor: f64,
}

const TIMES: [(&str, f64); 8] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)];
const SIZES: [(&str, f64); 14] = [
    ("B", 1.0),
    ("KB", 1e3),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("bit", 0.125),
    ("kbit", 125.0),
    ("Mbit", 125e3),
    ("Gbit", 125e6),
];
/// Units of floating-point operations and of updates per second, without regard to case.
const SPEEDS: [(&str, f64); 5] = [("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12)];
/// Words that are no unit here, with what is written in their place.
const MISSPELT: [(&str, &str); 16] = [
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("msec", "ms"),
    ("usec", "us"),
    ("nsec", "ns"),
    ("minutes", "min"),
    ("hours", "h"),
    ("byte", "B"),
    ("bytes", "B"),
    ("kb", "KB"),
    ("mb", "MB"),
    ("gb", "GB"),
    ("percent", "%"),
    ("b", "B"),
];

/// A text that is not a unit, with what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", instead(.0))]
pub struct UnknownUnit(pub String);

impl Unit {
    /// The unit that `text` names.
    ///
    /// # Errors
    /// For what is not a unit, with what to write in its place.
    pub fn of(text: &str) -> Result<Unit, UnknownUnit> {
        let unknown = || UnknownUnit(text.to_owned());
        let unit = |dimension, factor| Ok(Unit { dimension, factor });
        if let Some(factor) = factor(&TIMES, text) {
            return unit(Dimension::Time, factor);
        }
        if let Some(factor) = factor(&SIZES, text) {
            return unit(Dimension::Size, factor);
        }
        match text {
            "%" => return unit(Dimension::Share, 0.01),
            "1" | "" => return unit(Dimension::Count(String::new()), 1.0),
            "IOPS" => return unit(Dimension::Rate("I/O".to_owned()), 1.0),
            _ => {}
        }
        if let Some((noun, by)) = text.rsplit_once('/') {
            if let Some(seconds) = factor(&TIMES, by) {
                return per(noun, 1.0 / seconds).ok_or_else(unknown);
            }
            let sound = counts(noun).or_else(|| Unit::of(noun).ok().map(|_| noun.to_owned()));
            return match sound.filter(|_| counts(by).is_some()) {
                Some(_) => unit(Dimension::Other(text.to_owned()), 1.0),
                None => Err(unknown()),
            };
        }
        match counts(text) {
            Some(noun) => unit(Dimension::Count(noun), 1.0),
            None => Err(unknown()),
        }
    }

    /// How many of `other` one of this is; `None` where they measure different things.
    #[must_use]
    pub fn over(&self, other: &Unit) -> Option<f64> {
        (self.dimension == other.dimension).then(|| self.factor / other.factor)
    }

    /// Whether less of it, or more, is more speed: a time of which less is better, a rate of which more is. Of anything else, such as memory
    /// or packets, there is more or less.
    #[must_use]
    pub fn is_speed(&self, lower_is_better: bool) -> bool {
        use Dimension::{Flops, Other, Rate, Throughput, Time, Updates};
        match &self.dimension {
            Time => lower_is_better,
            Throughput | Flops | Updates | Rate(_) => !lower_is_better,
            Other(text) => lower_is_better && text.split('/').next().is_some_and(|noun| factor(&TIMES, noun).is_some()),
            _ => false,
        }
    }

    /// Whether nothing of it can be negative: times, sizes, and what is counted by time.
    #[must_use]
    pub fn is_magnitude(&self) -> bool {
        use Dimension::{Flops, Rate, Size, Throughput, Time, Updates};
        matches!(self.dimension, Time | Size | Throughput | Flops | Updates | Rate(_))
    }
}

/// How many of `to` one of `from` is, both as text.
#[must_use]
pub fn conversion(from: &str, to: &str) -> Option<f64> {
    Unit::of(from).ok()?.over(&Unit::of(to).ok()?)
}

/// As [`conversion`], where both may name what they count otherwise: `VMs` of a publication and `servers` here.
#[must_use]
pub fn comparable(from: &str, to: &str) -> Option<f64> {
    let plain = |text: &str| {
        let unit = Unit::of(text).ok()?;
        let dimension = match unit.dimension {
            Dimension::Count(_) => Dimension::Count(String::new()),
            Dimension::Rate(_) => Dimension::Rate(String::new()),
            other => other,
        };
        Some(Unit { dimension, ..unit })
    };
    plain(from)?.over(&plain(to)?)
}

fn factor(table: &[(&str, f64)], text: &str) -> Option<f64> {
    table.iter().find(|(name, _)| *name == text).map(|(_, factor)| *factor)
}

/// Something by time.
fn per(noun: &str, factor_of_time: f64) -> Option<Unit> {
    let unit = |dimension, factor: f64| Some(Unit { dimension, factor: factor * factor_of_time });
    if let Some(bytes) = factor(&SIZES, noun) {
        return unit(Dimension::Throughput, bytes);
    }
    let small = noun.to_lowercase();
    for (suffix, dimension) in [("flop", Dimension::Flops), ("up", Dimension::Updates)] {
        let speed = small.strip_suffix(suffix).and_then(|prefix| factor(&SPEEDS, prefix));
        if let Some(speed) = speed {
            return unit(dimension, speed);
        }
    }
    match noun {
        "" | "1" => unit(Dimension::Rate(String::new()), 1.0),
        "I/O" | "I/Os" => unit(Dimension::Rate("I/O".to_owned()), 1.0),
        "tx" => unit(Dimension::Rate("transactions".to_owned()), 1.0),
        noun => unit(Dimension::Rate(counts(noun)?), 1.0),
    }
}

/// The noun that is counted; `None` for what is not a word, or one for which there is a unit.
fn counts(text: &str) -> Option<String> {
    let word = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.');
    let sound = text.starts_with(char::is_alphabetic) && text.chars().all(|c| word(c) || c == '/');
    let misspelt = MISSPELT.iter().any(|(wrong, _)| *wrong == text);
    (sound && !misspelt).then(|| text.to_owned())
}

fn instead(text: &str) -> String {
    let (noun, rest) = text.split_once('/').map_or((text, String::new()), |(noun, by)| (noun, format!("/{by}")));
    match MISSPELT.iter().find(|(wrong, _)| *wrong == noun) {
        Some((_, right)) => format!("write {right}{rest}"),
        None => "write a unit such as ms, MiB, MB/s, % or pages".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_convert_within_their_dimension() {
        let rounded = |from: &str, to: &str| conversion(from, to).map(|factor| (1e6 * factor).round() / 1e6);
        assert_eq!([rounded("B", "KB"), rounded("KiB", "B"), rounded("s", "ms")], [0.001, 1024.0, 1000.0].map(Some));
        assert_eq!([rounded("Gbit/s", "MB/s"), rounded("GFLOP/s", "Gflop/s")], [125.0, 1.0].map(Some));
        assert_eq!([rounded("orders/min", "orders/s"), rounded("IOPS", "I/Os/s")], [0.016_667, 1.0].map(Some));
        assert_eq!(["B", "ms", "GUP/s", "pages"].map(|from| conversion(from, "MB/s")), [None; 4]);
        assert_eq!(conversion("requests/s", "pages/s"), None);
        assert_eq!(conversion("us/step", "us/step"), Some(1.0));
        assert_eq!(
            [comparable("VMs", "servers"), comparable("packets/s", "1/s"), comparable("B", "VMs")],
            [Some(1.0), Some(1.0), None]
        );
    }

    #[test]
    fn what_is_no_unit_is_named_with_what_to_write() {
        let of = |text: &str| Unit::of(text).map(|_| ()).map_err(|why| why.to_string());
        assert_eq!(["%", "1", "", "CPUs", "1/s", "/s per rank", "kbit/s"].map(of), [const { Ok(()) }; 7]);
        assert_eq!(of("sec"), Err("write s".to_owned()));
        assert_eq!(of("bytes/s"), Err("write B/s".to_owned()));
        assert!(of("!").is_err() && of("3").is_err());
    }

    #[test]
    fn speed_is_less_time_or_more_work() {
        let is = |text: &str, lower: bool| Unit::of(text).is_ok_and(|unit| unit.is_speed(lower));
        assert!(is("ms", true) && is("MB/s", false) && is("GUP/s", false) && is("us/step", true));
        assert!(!is("packets/s", true) && !is("MiB", true) && !is("users", false) && !is("%", true));
    }

    #[test]
    fn magnitudes_are_times_sizes_and_rates() {
        let is = |text: &str| Unit::of(text).is_ok_and(|unit| unit.is_magnitude());
        assert_eq!(
            ["ns", "MiB", "MB/s", "GUP/s", "requests/s", "%", "points"].map(is),
            [true, true, true, true, true, false, false]
        );
    }
}
