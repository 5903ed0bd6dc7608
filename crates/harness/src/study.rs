//! A study of an application: the same topology with other settings, arm by arm, in blocks of random order, and what the
//! arms keep of the first.
//!
//! A block runs every arm once from a fresh start; the ratio of an arm to the first within a block is one observation. Ratios
//! are averaged as logarithms with a t interval; from three blocks on there is one. An arm that this machine cannot run
//! stays in the table with the reason.

use crate::cluster::ClusterError;
use crate::conduct::{Event, Ground, RunError, run};
use crate::document::Document;
use crate::layers::{Layer, Reader, Section};
use crate::topology::{DEFAULTS, resolve};
use baremark_model::problem::{Problem, Problems};
use baremark_stats::Estimate;
use baremark_stats::rng::Rng;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;

/// The name and version of the format.
pub const FORMAT: &str = "baremark-auction-study/1";
/// Fewest blocks for an interval.
const FEWEST_BLOCKS: usize = 3;
const CONFIDENCE: f64 = 0.95;

/// The shipped studies: name, file.
pub const SHIPPED: [(&str, &str); 5] = [
    ("auction-places", include_str!("../../../studies/auction/places.toml")),
    ("auction-bursts", include_str!("../../../studies/auction/bursts.toml")),
    ("auction-elastic", include_str!("../../../studies/auction/elastic.toml")),
    ("auction-databases", include_str!("../../../studies/auction/databases.toml")),
    ("auction-tiers", include_str!("../../../studies/auction/tiers.toml")),
];

/// What a file asks for beside its topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Study {
    /// Blocks.
    pub blocks: u64,
    /// The arms; the first is what the others are compared with.
    pub arms: Vec<Arm>,
}

/// One arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Lines that lie over the file.
    pub set: Vec<String>,
}

/// The result of a study.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StudyDocument {
    /// [`FORMAT`].
    pub format: String,
    /// What was compared.
    pub title: String,
    /// What the arms' values are: `users` or `operations/s`.
    pub metric: String,
    /// One for each arm.
    pub arms: Vec<ArmRow>,
    /// Every run, in the order in which they ran.
    pub runs: Vec<RunRow>,
}

/// One arm's values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArmRow {
    /// Its name.
    pub name: String,
    /// Its value in each block; absent where it has none.
    pub values: Vec<Option<f64>>,
    /// Its ratio to the first arm.
    pub ratio: Option<Ratio>,
    /// Why it has no values.
    pub absent: Option<String>,
    /// Whether an instance of it ran on an emulated processor: it exercises the mechanics and has no ratio.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
}

/// A ratio over blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The geometric mean.
    pub ratio: f64,
    /// Lower end of its interval; absent below three blocks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Confidence of the interval.
    pub confidence: f64,
    /// Blocks.
    pub blocks: usize,
}

/// One run of an arm.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRow {
    /// The arm.
    pub arm: String,
    /// The block, from 0.
    pub block: u64,
    /// Its result.
    pub result: Document,
}

/// Reads what a file says of a study; `None` when it says nothing.
///
/// # Errors
/// Every mistake, with its line.
pub fn read(file: &str, text: &str, above: &[String]) -> Result<Option<Study>, Problems> {
    let defaults = Layer::parse("the defaults", DEFAULTS)?;
    let own = Layer::parse(file, text)?;
    let levels: Vec<Layer<'_>> = above.iter().map(|level| Layer::level(level)).collect::<Result<_, _>>()?;
    let mut layers: Vec<&Layer<'_>> = levels.iter().collect();
    layers.extend([&own, &defaults]);
    let root = Section::root(&layers);
    let mut reader = Reader::default();
    if !Section::root(&[&own]).has("study") {
        return Ok(None);
    }
    let section = reader.section(&root, "study");
    reader.known(&section, &["blocks", "arms"]);
    let blocks = reader.count(&section, "blocks", (1, 1000)).unwrap_or(1);
    let arms: Vec<Arm> = reader
        .tables(&section, "arms")
        .iter()
        .map(|entry| {
            reader.known(entry, &["name", "set"]);
            Arm { name: reader.text(entry, "name").unwrap_or_default(), set: reader.texts(entry, "set") }
        })
        .collect();
    if arms.is_empty() {
        reader.wrong(&section, "arms", "a study without arms", "add [[study.arms]] with name and set");
    }
    reader.finish()?;
    for arm in &arms {
        resolve(file, text, &arm.set).map_err(|mut problems| {
            let place = format!("with the settings of the arm '{}'", arm.name);
            problems.list.push(Problem::new(0, place, "see its set"));
            problems
        })?;
    }
    Ok(Some(Study { blocks, arms }))
}

/// Runs a study. `above` are lines that lie over file and arms.
///
/// # Errors
/// When no arm can run.
pub fn conduct(
    file: &str,
    text: &str,
    study: &Study,
    above: &[String],
    ground: &mut Ground<'_>,
) -> Result<StudyDocument, RunError> {
    let mut runs: Vec<RunRow> = Vec::new();
    let mut absent: Vec<Option<String>> = vec![None; study.arms.len()];
    let mut title = String::new();
    let mut random = Rng::new(resolve(file, text, above)?.seed);
    for block in 0..study.blocks {
        for at in shuffled(study.arms.len(), &mut random) {
            let arm = &study.arms[at];
            if absent[at].is_some() || ground.interrupt.load(Ordering::Relaxed) {
                continue;
            }
            let levels: Vec<String> = above.iter().chain(&arm.set).cloned().collect();
            let mut topology = resolve(file, text, &levels)?;
            title.clone_from(&topology.title);
            topology.title = arm.name.clone();
            topology.seed = topology.seed.wrapping_add(block);
            (ground.watch)(&Event::Step(format!("block {} of {}: {}", block + 1, study.blocks, arm.name)));
            match run(topology, ground) {
                Ok(result) => runs.push(RunRow { arm: arm.name.clone(), block, result }),
                Err(_) if ground.interrupt.load(Ordering::Relaxed) => {}
                Err(RunError::Cluster(
                    why @ (ClusterError::Missing(_) | ClusterError::Cpus(_) | ClusterError::Place { .. }),
                )) => {
                    absent[at] = Some(why.to_string());
                }
                Err(why) => return Err(why),
            }
        }
    }
    Ok(judged(title, study, runs, absent))
}

fn shuffled(count: usize, random: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    random.shuffle(&mut order);
    order
}

/// A run's value: the most users, or operations per second of a load that is kept. A run that does not count has none.
fn value(result: &Document) -> Option<f64> {
    if !result.valid {
        return None;
    }
    if let Some(users) = &result.users {
        return Some(users.most);
    }
    let searched = result.applications.iter().any(|row| row.search.is_some());
    let loads: Option<f64> =
        result.applications.iter().map(|row| row.load.as_ref().map(|load| load.operations_per_s)).sum();
    loads.filter(|_| !searched)
}

fn judged(title: String, study: &Study, runs: Vec<RunRow>, absent: Vec<Option<String>>) -> StudyDocument {
    let of = |name: &str, block: u64| {
        runs.iter().find(|run| run.arm == name && run.block == block).and_then(|run| value(&run.result))
    };
    let searched = runs.iter().any(|run| run.result.applications.iter().any(|row| row.search.is_some()));
    let arms = study.arms.iter().zip(absent).map(|(arm, absent)| {
        let values: Vec<Option<f64>> = (0..study.blocks).map(|block| of(&arm.name, block)).collect();
        let first = &study.arms[0].name;
        let emulated = emulated(&runs, &arm.name);
        let compared = arm.name != *first && !emulated && !self::emulated(&runs, first);
        let logs: Vec<f64> = (0..study.blocks)
            .filter_map(|block| Some((of(&arm.name, block)?, of(first, block)?)))
            .filter(|(one, base)| *one > 0.0 && *base > 0.0)
            .map(|(one, base)| (one / base).ln())
            .collect();
        let ratio = compared.then(|| ratio(&logs)).flatten();
        ArmRow { name: arm.name.clone(), values, ratio, absent, emulated }
    });
    let arms = arms.collect();
    StudyDocument {
        format: FORMAT.to_owned(),
        title,
        metric: if searched { "users" } else { "operations/s" }.to_owned(),
        arms,
        runs,
    }
}

/// Whether an instance of an arm ran on an emulated processor.
fn emulated(runs: &[RunRow], arm: &str) -> bool {
    let of_arm = runs.iter().filter(|run| run.arm == arm).flat_map(|run| &run.result.applications);
    of_arm.flat_map(|row| &row.instances).any(|instance| instance.emulated)
}

fn ratio(logs: &[f64]) -> Option<Ratio> {
    if logs.is_empty() {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let interval =
        if logs.len() >= FEWEST_BLOCKS { Estimate::of(logs).map(|of| of.interval(CONFIDENCE)) } else { None };
    Some(Ratio {
        ratio: mean.exp(),
        low: interval.as_ref().map(|interval| interval.lo.exp()),
        high: interval.as_ref().map(|interval| interval.hi.exp()),
        confidence: CONFIDENCE,
        blocks: logs.len(),
    })
}

/// The mean of an arm's values, in words.
pub(crate) fn mean(arm: &ArmRow) -> String {
    let known: Vec<f64> = arm.values.iter().flatten().copied().collect();
    if known.is_empty() { "-".to_owned() } else { format!("{:.0}", known.iter().sum::<f64>() / known.len() as f64) }
}

/// The table in words.
#[must_use]
pub fn describe(document: &StudyDocument) -> String {
    use std::fmt::Write as _;
    let mut text =
        format!("{}\n\n{:<28} {:>12} {:>24}\n", document.title, "arm", document.metric, "ratio to the first");
    for arm in &document.arms {
        let ratio = arm.ratio.map_or("-".to_owned(), |ratio| match (ratio.low, ratio.high) {
            (Some(low), Some(high)) => format!("{:.3} ({low:.3} to {high:.3})", ratio.ratio),
            _ => format!("{:.3} (no interval)", ratio.ratio),
        });
        let _ = writeln!(text, "{:<28} {:>12} {ratio:>24}", arm.name, mean(arm));
        if let Some(why) = &arm.absent {
            let _ = writeln!(text, "    not available here: {why}");
        }
        if arm.emulated {
            let _ = writeln!(text, "    emulated: it exercises the mechanics and is no measure, so it has no ratio");
        }
    }
    for run in &document.runs {
        if run.result.no_level_verified() {
            let _ = writeln!(text, "no level verified: {} in block {}", run.arm, run.block + 1);
        }
        for why in &run.result.void {
            let _ = writeln!(text, "void: {} in block {}: {why}", run.arm, run.block + 1);
        }
        for load in run.result.applications.iter().filter_map(|row| row.load.as_ref()) {
            for broken in &load.broken {
                let _ = writeln!(text, "{} in block {}: broken: {broken}", run.arm, run.block + 1);
            }
            if let Some(elastic) = &load.elasticity {
                let _ = writeln!(
                    text,
                    "{} in block {}: {} adaptations, {} failed operations",
                    run.arm,
                    run.block + 1,
                    elastic.adaptations.len(),
                    elastic.failed_operations
                );
            }
        }
    }
    text
}
