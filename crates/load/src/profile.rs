//! How much is asked, over time: requests per second of an open loop, or users of a closed one.
//!
//! Every profile becomes one [`Curve`] of straight pieces, with its area and the inverse of its area. An arrival process of
//! unit rate put through that inverse has the profile's rate at every moment (the time change of a Poisson process), so
//! that any arrival process combines with any profile and neither knows the other.

use baremark_model::problem::nearest;
use baremark_model::units::Nanos;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A shape over time. Levels are per second or users, whichever it is used for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Shape {
    /// One level.
    Steady {
        /// The level.
        level: f64,
    },
    /// A straight line, then its end for ever.
    Ramp {
        /// At first.
        from: f64,
        /// At the end of `over_ns`.
        to: f64,
        /// How long.
        over_ns: Nanos,
    },
    /// Stairs, then the last level for ever.
    Steps {
        /// The first step.
        from: f64,
        /// Each step's rise, or fall when negative.
        by: f64,
        /// The length of a step.
        every_ns: Nanos,
        /// How many steps.
        count: u32,
    },
    /// Pieces one after the other, then the last one's end for ever.
    Intervals {
        /// The pieces.
        pieces: Vec<Piece>,
    },
    /// A sine about its mean, from the mean upward.
    Sine {
        /// The mean level.
        mean: f64,
        /// At most the mean.
        amplitude: f64,
        /// One period.
        period_ns: Nanos,
    },
    /// A base with bursts; repeats by itself.
    Burst {
        /// Between the bursts.
        base: f64,
        /// In them.
        peak: f64,
        /// From the start of one to the start of the next.
        every_ns: Nanos,
        /// The length of one.
        lasting_ns: Nanos,
    },
}

/// A straight piece of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// At its start.
    pub from: f64,
    /// At its end.
    pub to: f64,
    /// Its length.
    pub lasting_ns: Nanos,
}

/// A shape, once or again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The shape.
    #[serde(flatten)]
    pub shape: Shape,
    /// What comes after its end.
    pub after: After,
}

/// What comes after a shape's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    /// Its last level for ever.
    #[default]
    Hold,
    /// The shape again.
    Repeat,
}

/// Why a profile was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile {what}; {remedy}")]
pub struct ProfileError {
    what: String,
    remedy: String,
}

fn refused(what: impl Into<String>, remedy: impl Into<String>) -> ProfileError {
    ProfileError { what: what.into(), remedy: remedy.into() }
}

impl Profile {
    /// One level for ever.
    #[must_use]
    pub fn steady(level: f64) -> Profile {
        Profile { shape: Shape::Steady { level }, after: After::Hold }
    }

    /// Reads a trace: lines of `seconds,level` (comma or blanks, `#` comments), levels held until the next line, the last for
    /// as long as the one before.
    ///
    /// # Errors
    /// The first line that is none.
    pub fn from_trace(text: &str) -> Result<Profile, ProfileError> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let mut numbers = line.split([',', ' ', '\t']).filter(|word| !word.is_empty()).map(str::parse::<f64>);
            let (Some(Ok(at)), Some(Ok(level)), None) = (numbers.next(), numbers.next(), numbers.next()) else {
                let what = format!("trace, line {}: '{line}' is not a pair of numbers", index + 1);
                return Err(refused(what, "write seconds,level on each line"));
            };
            if points.last().is_some_and(|(before, _)| at <= *before) || at < 0.0 || level < 0.0 {
                let what = format!("trace, line {}: {at},{level} does not go forward or is negative", index + 1);
                return Err(refused(what, "write ascending seconds and levels from 0"));
            }
            points.push((at, level));
        }
        let Some(&(first, _)) = points.first() else {
            return Err(refused("trace has no lines", "write seconds,level on each line"));
        };
        let mut pieces: Vec<Piece> = points.windows(2).map(|two| flat(two[0].1, two[1].0 - two[0].0)).collect();
        let last = pieces.last().map_or(1.0, |piece| piece.lasting_ns.seconds());
        pieces.extend(points.last().map(|(_, level)| flat(*level, last)));
        if first > 0.0 {
            pieces.insert(0, flat(0.0, first));
        }
        Ok(Profile { shape: Shape::Intervals { pieces }, after: After::Hold })
    }

    /// The profile as straight pieces.
    ///
    /// # Errors
    /// When a level is negative or no number, a length is 0, or nothing is ever asked.
    pub fn curve(&self) -> Result<Curve, ProfileError> {
        let pieces = self.pieces();
        let sound = |level: f64| level.is_finite() && (0.0..=1e12).contains(&level);
        for piece in &pieces {
            if !sound(piece.from) || !sound(piece.to) {
                let what = format!("goes from {} to {}", piece.from, piece.to);
                return Err(refused(what, "levels are from 0 to 10^12"));
            }
            if piece.lasting_ns.0 == 0 {
                return Err(refused("has a piece of no length", "give every piece a duration such as 10 s"));
            }
        }
        if pieces.is_empty() || pieces.iter().all(|piece| piece.from <= 0.0 && piece.to <= 0.0) {
            return Err(refused("never sends a request", "give it a level above 0"));
        }
        let repeats = self.after == After::Repeat || matches!(self.shape, Shape::Sine { .. } | Shape::Burst { .. });
        Ok(Curve::new(&pieces, repeats))
    }

    fn pieces(&self) -> Vec<Piece> {
        match &self.shape {
            Shape::Steady { level } => vec![flat(*level, 1.0)],
            Shape::Ramp { from, to, over_ns } => vec![Piece { from: *from, to: *to, lasting_ns: *over_ns }],
            Shape::Steps { from, by, every_ns, count } => (0..*count)
                .map(|step| (from + by * f64::from(step)).max(0.0))
                .map(|level| Piece { from: level, to: level, lasting_ns: *every_ns })
                .collect(),
            Shape::Intervals { pieces } => pieces.clone(),
            Shape::Sine { mean, amplitude, period_ns } => {
                let at = |step: u64| {
                    mean + amplitude * (2.0 * std::f64::consts::PI * step as f64 / SINE_PIECES as f64).sin()
                };
                let length = Nanos(period_ns.0 / SINE_PIECES);
                (0..SINE_PIECES).map(|step| Piece { from: at(step), to: at(step + 1), lasting_ns: length }).collect()
            }
            Shape::Burst { base, peak, every_ns, lasting_ns } => vec![
                Piece { from: *peak, to: *peak, lasting_ns: *lasting_ns },
                Piece { from: *base, to: *base, lasting_ns: Nanos(every_ns.0.saturating_sub(lasting_ns.0)) },
            ],
        }
    }
}

fn flat(level: f64, seconds: f64) -> Piece {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    let lasting_ns = Nanos((seconds * 1e9).round() as u64);
    Piece { from: level, to: level, lasting_ns }
}

/// A sine is this many straight pieces: off by less than 0.2 % of its amplitude.
const SINE_PIECES: u64 = 64;

/// A profile in straight pieces, with its area.
#[derive(Clone, Debug)]
pub struct Curve {
    pieces: Vec<Straight>,
    /// Length and area of all pieces.
    length: f64,
    area: f64,
    repeats: bool,
}

#[derive(Clone, Copy, Debug)]
struct Straight {
    start: f64,
    area_before: f64,
    length: f64,
    from: f64,
    to: f64,
}

impl Curve {
    fn new(pieces: &[Piece], repeats: bool) -> Curve {
        let (mut length, mut area) = (0.0, 0.0);
        let mut straight = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let seconds = piece.lasting_ns.seconds();
            straight.push(Straight {
                start: length,
                area_before: area,
                length: seconds,
                from: piece.from,
                to: piece.to,
            });
            length += seconds;
            area += 0.5 * (piece.from + piece.to) * seconds;
        }
        Curve { pieces: straight, length, area, repeats }
    }

    /// The level at `seconds` from the start.
    #[must_use]
    pub fn level(&self, seconds: f64) -> f64 {
        let within = if self.repeats { seconds % self.length } else { seconds };
        let after = self.pieces.partition_point(|piece| piece.start <= within);
        let Some(piece) = self.pieces.get(after.saturating_sub(1)) else { return 0.0 };
        piece.from + (piece.to - piece.from) * ((within - piece.start) / piece.length).min(1.0)
    }

    /// What has been asked in total by `seconds`: the area under the curve.
    #[must_use]
    pub fn total(&self, seconds: f64) -> f64 {
        let (rounds, within) = if self.repeats {
            let rounds = (seconds / self.length).floor();
            (rounds, seconds - rounds * self.length)
        } else {
            (0.0, seconds)
        };
        let after = self.pieces.partition_point(|piece| piece.start <= within);
        let Some(piece) = self.pieces.get(after.saturating_sub(1)) else { return 0.0 };
        let x = within - piece.start;
        let inside = x.min(piece.length);
        let slope = (piece.to - piece.from) / piece.length;
        let beyond = (x - inside) * piece.to;
        rounds * self.area + piece.area_before + inside * (piece.from + 0.5 * slope * inside) + beyond
    }

    /// When the total reaches `area`, in seconds; `None` when it never does.
    #[must_use]
    pub fn time_of(&self, area: f64) -> Option<f64> {
        let (rounds, within) = if self.repeats {
            let rounds = (area / self.area).floor();
            (rounds, area - rounds * self.area)
        } else {
            (0.0, area)
        };
        let base = rounds * self.length;
        if !self.repeats && within >= self.area {
            let level = self.pieces.last()?.to;
            return (level > 0.0).then(|| base + self.length + (within - self.area) / level);
        }
        // The last piece that begins at or below this area and has any.
        let after = self.pieces.partition_point(|piece| piece.area_before <= within);
        let piece = self.pieces.get(after.saturating_sub(1))?;
        let need = within - piece.area_before;
        let slope = (piece.to - piece.from) / piece.length;
        let root = (piece.from * piece.from + 2.0 * slope * need).max(0.0).sqrt();
        let divisor = piece.from + root;
        let x = if need <= 0.0 || divisor <= 0.0 { 0.0 } else { 2.0 * need / divisor };
        Some(base + piece.start + x.min(piece.length))
    }

    /// The highest level that it ever has.
    #[must_use]
    pub fn highest(&self) -> f64 {
        self.pieces.iter().fold(0.0, |most, piece| most.max(piece.from).max(piece.to))
    }
}

const KINDS: &[&str] = &["steady", "ramp", "steps", "intervals", "sine", "burst"];

/// A profile as typed: `KIND KEY=VALUE ...`, with `repeat` at the end where it shall.
///
/// `steady level=2000`, `ramp from=0 to=2000 over=30s`, `steps from=500 by=500 every=10s count=4`,
/// `sine mean=1000 amplitude=500 period=60s`, `burst base=100 peak=2000 every=10s lasting=1s`,
/// `intervals 100:10s 100..500:20s 500:30s repeat`.
impl FromStr for Profile {
    type Err = ProfileError;
    fn from_str(text: &str) -> Result<Profile, ProfileError> {
        let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
        let after = if words.last() == Some(&"repeat") { After::Repeat } else { After::Hold };
        words.retain(|word| *word != "repeat");
        let Some((&kind, rest)) = words.split_first() else {
            return Err(refused("is empty", "write such as: ramp from=0 to=2000 over=30s"));
        };
        let profile = match kind.parse() {
            Ok(level) if rest.is_empty() => Profile::steady(level),
            _ => Profile { shape: if kind == "intervals" { intervals(rest)? } else { keyed(kind, rest)? }, after },
        };
        profile.curve()?;
        Ok(profile)
    }
}

fn intervals(words: &[&str]) -> Result<Shape, ProfileError> {
    let piece = |word: &&str| -> Option<Piece> {
        let (levels, lasting) = word.split_once(':')?;
        let (from, to) = levels.split_once("..").unwrap_or((levels, levels));
        Some(Piece { from: from.parse().ok()?, to: to.parse().ok()?, lasting_ns: lasting.parse().ok()? })
    };
    let mut pieces = Vec::new();
    for word in words {
        let remedy = "write LEVEL:DURATION or FROM..TO:DURATION, such as 100..500:20s";
        pieces.push(piece(word).ok_or_else(|| refused(format!("has the piece '{word}'"), remedy))?);
    }
    Ok(Shape::Intervals { pieces })
}

fn keyed(kind: &str, words: &[&str]) -> Result<Shape, ProfileError> {
    let text = |key: &str| -> Result<&str, ProfileError> {
        words
            .iter()
            .find_map(|word| word.split_once('=').filter(|(name, _)| *name == key))
            .map(|(_, value)| value)
            .ok_or_else(|| refused(format!("{kind} has no {key}"), format!("add {key}=VALUE")))
    };
    let number = |key: &str| -> Result<f64, ProfileError> {
        let value = text(key)?;
        let refusal = || refused(format!("{kind}: {key}={value} must be a number"), "write a number");
        value.parse().ok().ok_or_else(refusal)
    };
    let time = |key: &str| -> Result<Nanos, ProfileError> {
        text(key)?.parse().map_err(|why| refused(format!("{kind}: {key}: {why}"), "write such as 30s"))
    };
    let keys: &[&str] = match kind {
        "steady" => &["level"],
        "ramp" => &["from", "to", "over"],
        "steps" => &["from", "by", "every", "count"],
        "sine" => &["mean", "amplitude", "period"],
        "burst" => &["base", "peak", "every", "lasting"],
        _ => return Err(refused(format!("'{kind}' is not known"), nearest(kind, KINDS))),
    };
    if let Some(word) = words.iter().find(|word| !keys.iter().any(|key| word.split('=').next() == Some(key))) {
        return Err(refused(format!("{kind} has no '{word}'"), nearest(word.split('=').next().unwrap_or(word), keys)));
    }
    Ok(match kind {
        "steady" => Shape::Steady { level: number("level")? },
        "ramp" => Shape::Ramp { from: number("from")?, to: number("to")?, over_ns: time("over")? },
        "steps" => {
            let count = number("count")?;
            if !(1.0..=10_000.0).contains(&count) {
                return Err(refused(format!("steps: count={count} is out of range"), "write 1 to 10000"));
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
            let count = count as u32;
            Shape::Steps { from: number("from")?, by: number("by")?, every_ns: time("every")?, count }
        }
        "sine" => Shape::Sine { mean: number("mean")?, amplitude: number("amplitude")?, period_ns: time("period")? },
        _ => Shape::Burst {
            base: number("base")?,
            peak: number("peak")?,
            every_ns: time("every")?,
            lasting_ns: time("lasting")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(text: &str) -> Curve {
        text.parse::<Profile>().expect(text).curve().expect(text)
    }

    #[test]
    fn each_shape_has_the_levels_that_it_says() {
        let ramp = curve("ramp from=0 to=100 over=10s");
        assert!((ramp.level(5.0) - 50.0).abs() < 1e-9 && (ramp.level(99.0) - 100.0).abs() < 1e-9);
        let steps = curve("steps from=10 by=10 every=1s count=3");
        assert!((steps.level(1.5) - 20.0).abs() < 1e-9 && (steps.level(50.0) - 30.0).abs() < 1e-9);
        let burst = curve("burst base=1 peak=9 every=10s lasting=2s");
        assert!((burst.level(11.0) - 9.0).abs() < 1e-9 && (burst.level(13.0) - 1.0).abs() < 1e-9);
        let sine = curve("sine mean=100 amplitude=50 period=60s");
        assert!((sine.level(15.0) - 150.0).abs() < 0.2 && (sine.level(60.0 + 45.0) - 50.0).abs() < 0.2);
        let pieces = curve("intervals 100:10s 100..500:20s repeat");
        assert!((pieces.level(20.0) - 300.0).abs() < 1e-9 && (pieces.level(35.0) - 100.0).abs() < 1e-9);
        let trace = Profile::from_trace("# s, rate\n0,5\n10 7\n").expect("a trace").curve().expect("a curve");
        assert!((trace.level(3.0) - 5.0).abs() < 1e-9 && (trace.level(12.0) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_profile_is_refused_with_a_remedy() {
        for (text, part) in [
            ("ramps from=0 to=1 over=1s", "did you mean 'ramp'"),
            ("ramp from=0 to=1", "add over=VALUE"),
            ("ramp from=0 to=0 over=1s", "never sends"),
            ("steady level=-1", "levels are from 0"),
            ("sine mean=1 amplitude=5 period=6s", "levels are from 0"),
            ("steps from=1 by=1 every=1s count=1000000", "1 to 10000"),
            ("intervals 5:10", "LEVEL:DURATION"),
            ("burst base=1 peak=2 every=1s lasting=1s", "no length"),
        ] {
            let why = text.parse::<Profile>().expect_err(text).to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_time_of_a_total_is_where_the_total_is_reached(
            levels in proptest::collection::vec((0.0..1000.0_f64, 0.0..1000.0_f64, 1..5000_u64), 1..8),
            share in 0.0..3.0_f64,
            repeats: bool,
        ) {
            let pieces: Vec<Piece> = levels
                .iter()
                .map(|&(from, to, ms)| Piece { from, to: to + 0.5, lasting_ns: Nanos(ms * 1_000_000) })
                .collect();
            let curve = Curve::new(&pieces, repeats);
            let area = curve.area * share;
            let at = curve.time_of(area).expect("it goes on for ever");
            prop_assert!((curve.total(at) - area).abs() <= 1e-6 * area.max(1.0), "{} {area}", curve.total(at));
        }
    }
}
