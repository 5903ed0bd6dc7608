//! Numbers of copies and of tiles that a workload's own search tried: no number beyond one that failed keeps the limits, a number that fails has no
//! score, and what the phase answers is the most that kept them.

use super::violation::{Found, equal};
use baremark_model::seam::Sample;
use serde::Deserialize;
use serde_json::Value;

const BRACKET: &str = "no level beyond the bracket is the answer";
const ANSWER: &str = "an answer is the highest level that kept the limits";

/// The part of applications in a tile's score; the rest is the infrastructure's.
const APPLICATIONS: f64 = 0.8;

/// Copies of a small server.
#[derive(Deserialize)]
struct Density {
    levels: Vec<Copies>,
}

#[derive(Deserialize)]
struct Copies {
    copies: f64,
    latency_p99_ns: Option<f64>,
    cpus_used: Option<f64>,
    passed: bool,
}

/// Tiles of members.
#[derive(Deserialize)]
struct Tiles {
    members: Vec<TileMember>,
    levels: Vec<TileLevel>,
}

#[derive(Deserialize)]
struct TileMember {
    name: String,
    weight: f64,
    infrastructure: bool,
    reference: Option<f64>,
}

/// A number of tiles.
#[derive(Deserialize)]
struct TileLevel {
    tiles: usize,
    score: Option<f64>,
    broken: Vec<String>,
    members: Vec<MemberMean>,
    runs: Vec<MemberRun>,
}

/// What a member did on average over the tiles.
#[derive(Deserialize)]
struct MemberMean {
    name: String,
    throughput: Option<f64>,
    limited: Option<f64>,
    normalized_throughput: Option<f64>,
}

/// What a member of one tile did.
#[derive(Deserialize)]
struct MemberRun {
    tile: usize,
    member: String,
    throughput: Option<f64>,
    limited: Option<f64>,
    broken: Option<String>,
}

/// The levels of a detail, where it has some of these.
pub(super) fn of(place: &str, detail: &Value, found: &mut Found) {
    if let Ok(density) = Density::deserialize(detail) {
        density.check(place, found);
    }
    if let Ok(tiles) = Tiles::deserialize(detail) {
        tiles.check(place, found);
    }
}

/// What a phase answers, next to the levels of its detail.
pub(super) fn answers(place: &dyn Fn(&str) -> String, samples: &[Sample], detail: &Value, found: &mut Found) {
    let mut wanted: Vec<(&str, Option<f64>)> = Vec::new();
    if let Some(most) = Density::deserialize(detail).ok().as_ref().and_then(Density::most) {
        let cpu = most.cpus_used.map(|used| 100.0 * used / most.copies);
        wanted.extend([("copies", Some(most.copies)), ("cpu", cpu)]);
    }
    if let Ok(tiles) = Tiles::deserialize(detail) {
        let kept = || tiles.levels.iter().filter(|level| level.broken.is_empty());
        let most = kept().next_back();
        #[expect(clippy::cast_precision_loss, reason = "a number of tiles")]
        wanted.push(("tiles", most.map(|level| level.tiles as f64)));
        wanted.push(("score", most.and_then(|level| level.score)));
        wanted.push(("score_of_one", kept().next().and_then(|level| level.score)));
    }
    for (metric, level) in wanted {
        let Some(said) = samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value) else {
            continue;
        };
        let holds = level.is_some_and(|level| equal(said, level));
        found.unless(holds, || place(metric), || format!("{said}, and {level:?} by its levels"), ANSWER);
    }
}

impl Density {
    /// The most copies that kept every limit; of two tests of the same number the last.
    fn most(&self) -> Option<&Copies> {
        self.levels.iter().filter(|level| level.passed).max_by(|one, two| one.copies.total_cmp(&two.copies))
    }

    fn check(&self, place: &str, found: &mut Found) {
        let failed = || self.levels.iter().filter(|level| !level.passed);
        let least = failed().map(|level| level.copies).reduce(f64::min);
        if let (Some(most), Some(least)) = (self.most().map(|level| level.copies), least) {
            let what = || format!("{most} copies passed, and {least} failed");
            found.unless(most <= least, || place.to_owned(), what, BRACKET);
        }
        // One limit parts them.
        let kept = self.levels.iter().filter(|level| level.passed).filter_map(|level| level.latency_p99_ns);
        let broke = failed().filter_map(|level| level.latency_p99_ns);
        if let (Some(longest), Some(shortest)) = (kept.reduce(f64::max), broke.reduce(f64::min)) {
            let what = || format!("{longest} ns passed, and {shortest} ns failed");
            found.unless(
                longest < shortest,
                || format!("{place}: latency_p99_ns"),
                what,
                "what fails is beyond what passes",
            );
        }
    }
}

impl Tiles {
    fn check(&self, place: &str, found: &mut Found) {
        for level in &self.levels {
            let at = || format!("{place}: {} tiles", level.tiles);
            let kept = level.broken.is_empty();
            let runs_kept = level.runs.iter().all(|run| run.broken.is_none());
            found.unless(
                kept == runs_kept,
                at,
                || format!("{:?}", level.broken),
                "a limit is broken by a member of a tile",
            );
            let all = level.tiles * self.members.len();
            let what = || format!("{} runs, and {all} members of all tiles", level.runs.len());
            found.unless(level.runs.len() == all, at, what, "every tile has every member once");
            level.members.iter().for_each(|mean| self.mean(level, mean, &at, found));
            let Some(score) = level.score else { continue };
            found.unless(kept, at, || format!("a score of {score}"), "a level that exceeds a limit has no score");
            let sum = self.score(level);
            let holds = !kept || sum.is_some_and(|sum| equal(sum, score));
            found.unless(
                holds,
                at,
                || format!("a score of {score}, and {sum:?} by its members"),
                "parts add up to the whole",
            );
        }
        let kept = self.levels.iter().filter(|level| level.broken.is_empty()).map(|level| level.tiles);
        // A number that fails is measured again.
        let failed = |tiles: usize| {
            self.levels.iter().filter(|level| level.tiles == tiles).all(|level| !level.broken.is_empty())
        };
        let least = self.levels.iter().map(|level| level.tiles).filter(|tiles| failed(*tiles)).min();
        if let (Some(most), Some(least)) = (kept.max(), least) {
            let what = || format!("{most} tiles kept every limit, and {least} did not");
            found.unless(most < least, || place.to_owned(), what, BRACKET);
        }
    }

    /// What a member did on average is the mean of its runs; normalized, that over what counts as 1.
    fn mean(&self, level: &TileLevel, mean: &MemberMean, at: &dyn Fn() -> String, found: &mut Found) {
        let own = || level.runs.iter().filter(|run| run.member == mean.name);
        let of = |values: Vec<f64>| {
            #[expect(clippy::cast_precision_loss, reason = "a number of tiles")]
            let count = values.len() as f64;
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
        };
        let reference = self.members.iter().find(|member| member.name == mean.name).and_then(|member| member.reference);
        let throughput = of(own().filter_map(|run| run.throughput).collect());
        let normalized = throughput.zip(reference).map(|(throughput, reference)| throughput / reference);
        for (what, said, is) in [
            ("throughput", mean.throughput, throughput),
            ("limited metric", mean.limited, of(own().filter_map(|run| run.limited).collect())),
            ("normalized throughput", mean.normalized_throughput, normalized),
        ] {
            let holds = said.zip(is).map_or(said.is_none() && is.is_none(), |(said, is)| equal(said, is));
            let what = || format!("{what} of {}: {said:?}, and {is:?} by its runs", mean.name);
            found.unless(holds, at, what, "a mean is that of its parts");
        }
    }

    /// The sum over tiles of the weighted geometric means of normalized throughputs: of applications and of the infrastructure, where both are there.
    fn score(&self, level: &TileLevel) -> Option<f64> {
        let part = |tile: usize, infrastructure: bool| {
            let members: Vec<&TileMember> = self
                .members
                .iter()
                .filter(|member| member.weight > 0.0 && member.infrastructure == infrastructure)
                .collect();
            let log = |member: &&TileMember| {
                let run = level.runs.iter().find(|run| run.tile == tile && run.member == member.name)?;
                Some(member.weight * (run.throughput.filter(|value| *value > 0.0)? / member.reference?).ln())
            };
            let sum = members.iter().map(log).sum::<Option<f64>>();
            let weights: f64 = members.iter().map(|member| member.weight).sum();
            (!members.is_empty()).then(|| sum.map(|sum| (sum / weights).exp()))
        };
        let of_tile = |tile: usize| match (part(tile, false), part(tile, true)) {
            (Some(applications), Some(infrastructure)) => {
                Some(APPLICATIONS * applications? + (1.0 - APPLICATIONS) * infrastructure?)
            }
            (Some(alone), None) | (None, Some(alone)) => alone,
            (None, None) => None,
        };
        (0..level.tiles).map(of_tile).sum()
    }
}
