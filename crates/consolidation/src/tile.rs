//! `tile`: a fixed set of unlike workloads side by side, as many times as this machine carries.
//!
//! A tile is its members: each is a workload of this program with a load, the metric of its throughput, a limit and a weight. One tile runs
//! first, then two, and so on up to `most`, or until a member breaks its limit. A tile's applications have the geometric mean of their normalized
//! throughputs, and so have the members that do the infrastructure's work (`guest-operations`); the tile's score is 0.8 of the one and 0.2 of
//! the other. The score of a number of tiles is their sum; a number of tiles in which a limit fails has no score.
//!
//! A member of the infrastructure that this machine has no kernel or emulator for is absent, with its reason; without any the score is that of
//! the applications alone.
//!
//! Members are prepared one after the other (`stagger` apart) and begin together. Their load has three phases: a warm-up, the measured time,
//! which alone is scored, and a ramp-down, in which they keep up their load for the neighbors that began later. A member that ended earlier
//! than that allows for is flagged: its neighbors did not have it next to them all the time.

use crate::members::{self, Member, Phases};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{DURATION, RAMP_DOWN, TIMEOUT, WARM_UP};
use baremark_model::config;
use baremark_model::descriptor::{Descriptor, OwnSection};
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob, Update};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::parameters::Parameters;
use baremark_model::problem::Problem;
use baremark_model::seam::Sample;
use baremark_model::wire::Detail;
use baremark_sys::wake::sleep_unless;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The kind as typed, and the name of the study's section.
pub const KIND: &str = "tile";
const SECOND: u64 = 1_000_000_000;
/// A number of tiles whose limits fail is measured so many times before it counts as too many.
const ATTEMPTS: usize = 2;
/// Ends of windows that differ by more than this share of the measured time are flagged.
const SKEW: f64 = 0.1;
/// The part of applications in a tile's score; the rest is the infrastructure's.
const APPLICATIONS: f64 = 0.8;

static PARAMETERS: [Knob; 6] = [
    Knob::new("most", Kind::Count { min: 1, max: 64 }, Default::Typed("8")).help("most tiles that are started"),
    Knob::new(DURATION, Kind::Time { min: SECOND, max: 24 * 3600 * SECOND }, Default::Typed("20 s"))
        .help("measured time of every member, for each number of tiles"),
    Knob::new(WARM_UP, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("5 s"))
        .help("time under load before it"),
    Knob::new(RAMP_DOWN, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("5 s")).help(
        "time under load after it, so that the neighbors of a member that ends late are at work until its \
         measured time is over",
    ),
    Knob::new("stagger", Kind::Time { min: 0, max: 600 * SECOND }, Default::Typed("500 ms"))
        .help("time between the starts of two members' preparations"),
    Knob::new(TIMEOUT.key, TIMEOUT.kind, Default::Typed("30 min"))
        .help("longest time that all numbers of tiles may take together"),
];

static METRICS: [Metric; 4] = [
    Metric::higher("score", "points", Aggregate::Sum).help(
        "sum over tiles of 0.8 of the geometric mean of applications' normalized throughputs and 0.2 of the \
         infrastructure's, for the most tiles; of applications alone where there is no infrastructure",
    ),
    Metric::higher("tiles", "tiles", Aggregate::Sum).help(
        "most tiles in which every member keeps its limit; absent, as score and latency_ratio are, where \
         `most` of them do",
    ),
    Metric::lower("latency_ratio", "1", Aggregate::Mean)
        .help("geometric mean of the members' limited metrics over those of one tile, for the most tiles"),
    Metric::higher("score_of_one", "points", Aggregate::Sum)
        .help("score of one tile; 1 where members have no reference"),
];

/// What the workload is.
pub static DESCRIPTOR: Descriptor = Descriptor {
    kind: KIND,
    help: "a set of unlike workloads side by side, once, twice and so on: the most such tiles whose limits are kept, and their score",
    source: "this program; tiles after the practice of consolidation benchmarks",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    section: Some(OwnSection {
        name: KIND,
        has: |_| false,
        check: check_section,
        check_arm,
        needs: |_| Vec::new(),
        help: HELP,
    }),
    quick: &[("duration", "4 s"), ("warm_up", "6 s"), ("most", "4")],
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

const HELP: &str = "the members of a tile, `[tile.members.NAME]` each: `workload`, `throughput` (a metric of it), `limit` (such as \
                    \"latency_p95_ms < 500\"), `weight` (1), `reference` (the throughput that counts as 1; else that of one tile), `cpus`, and \
                    parameters of the workload";

/// The section has members and nothing else; what a member is, arms are checked for.
fn check_section(file: &str, text: &str) -> Vec<Problem> {
    let read = config::read(file, text, |reader, root| {
        let section = reader.section(root, KIND);
        for key in section.keys().iter().filter(|key| *key != "members") {
            let remedy = "write [tile.members.NAME]; duration, warm_up and most are keys of [workload]";
            reader.wrong(&section, key, format!("unknown key '{key}' in [{KIND}]"), remedy);
        }
        Some(())
    });
    read.err().map(|problems| problems.list).unwrap_or_default()
}

fn phases(of: Parameters<'_>) -> Result<Phases, InvalidValue> {
    Ok(Phases { warm_up: of.get(WARM_UP)?, steady: of.get(DURATION)?, ramp_down: of.get(RAMP_DOWN)? })
}

/// The arms of those members of a tile that run this workload.
///
/// # Errors
/// A member that cannot be.
pub fn arms_of(arm: &ResolvedArm, workload: &'static Descriptor) -> Result<Vec<ResolvedArm>, InvalidValue> {
    let phases = phases(Parameters::of(arm, &PARAMETERS))?;
    let members = members::of(arm).map_err(|(_, misfit)| misfit)?;
    let own = members.iter().filter(|member| member.workload == workload.kind);
    own.map(|member| member.arm(workload, phases, arm.ranks)).collect()
}

fn check_arm(arm: &ResolvedArm) -> Vec<(String, InvalidValue)> {
    members::of(arm).err().into_iter().collect()
}

/// The workload `tile`.
#[derive(Clone, Copy)]
pub struct Tile {
    /// The workload of a name, for members.
    pub find: fn(&str) -> Option<&'static dyn Job>,
}

/// A member that this machine cannot have, and why.
#[derive(Clone, Debug)]
struct Absent {
    name: String,
    why: String,
}

/// A member that can run.
struct Runnable {
    member: Member,
    job: &'static dyn Job,
    arm: ResolvedArm,
}

impl Job for Tile {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let of = Parameters::of(arm, &PARAMETERS);
        let phases = phases(of)?;
        let members = members::of(arm).map_err(|(key, misfit)| JobError::failed(format!("{key}: {misfit}")))?;
        let runnable = |member: Member| -> Result<Runnable, JobError> {
            let found = (self.find)(&member.workload).filter(|_| member.workload != KIND);
            let job = found.ok_or_else(|| {
                let what = format!("member '{}': no workload '{}' runs in a tile", member.name, member.workload);
                InvalidValue::new(what, "write the name of another workload (`baremark list workloads`)")
            })?;
            let arm = member.arm(job.descriptor(), phases, around.cpus.len().max(1))?;
            Ok(Runnable { member, job, arm })
        };
        let (mut present, mut absent) = (Vec::new(), Vec::new());
        for of in members.into_iter().map(runnable) {
            let of = of?;
            match absence(&of, around)? {
                Some(why) => absent.push(Absent { name: of.member.name, why }),
                None => present.push(of),
            }
        }
        if present.is_empty() {
            let all = absent.iter().map(|one| format!("{}: {}", one.name, one.why)).collect::<Vec<_>>().join("; ");
            let remedy = "add a member that this machine can run".to_owned();
            return Err(JobError::Missing { what: format!("every member of the tile is absent: {all}"), remedy });
        }
        Ok(Box::new(PreparedTile {
            members: present,
            absent,
            most: of.get("most")?,
            duration: of.get(DURATION)?,
            ramp_down: of.get(RAMP_DOWN)?,
            stagger: of.get("stagger")?,
            around,
        }))
    }
}

/// Why this machine cannot have a member; `None` where it can. Applications must be there.
fn absence(of: &Runnable, around: JobContext<'_>) -> Result<Option<String>, JobError> {
    if !of.member.is_infrastructure() {
        return Ok(None);
    }
    match of.job.prepare(&of.arm, around) {
        Ok(_) => Ok(None),
        Err(why @ JobError::Missing { .. }) => Ok(Some(why.to_string())),
        Err(why) => Err(why),
    }
}

struct PreparedTile<'s> {
    members: Vec<Runnable>,
    absent: Vec<Absent>,
    most: usize,
    duration: Duration,
    ramp_down: Duration,
    stagger: Duration,
    around: JobContext<'s>,
}

/// What one member of one tile did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Did {
    tile: usize,
    member: String,
    throughput: Option<f64>,
    /// The metric that has a limit.
    limited: Option<f64>,
    /// Why it does not keep its limit, where it does not.
    broken: Option<String>,
    /// From the common begin to the end of its run, in s.
    ended_s: f64,
    flags: Vec<String>,
}

/// What a number of tiles did; stored as it passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Level {
    tiles: usize,
    members: Vec<Did>,
}

impl Level {
    fn broken(&self) -> Vec<String> {
        let one = |did: &Did| Some(format!("{} of tile {}: {}", did.member, did.tile + 1, did.broken.as_ref()?));
        self.members.iter().filter_map(one).collect()
    }

    fn is_valid(&self) -> bool {
        self.members.iter().all(|did| did.broken.is_none())
    }

    /// The mean over tiles of what a member showed.
    fn mean(&self, member: &str, of: impl Fn(&Did) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.members.iter().filter(|did| did.member == member).filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// The throughput that counts as 1, by member: its reference, or that of one tile.
fn references(members: &[&Member], one: &Level) -> BTreeMap<String, f64> {
    let of = |member: &&Member| {
        let measured = || one.mean(&member.name, |did| did.throughput);
        Some((member.name.clone(), member.reference.or_else(measured).filter(|reference| *reference > 0.0)?))
    };
    members.iter().filter_map(of).collect()
}

/// The score of a number of tiles: for each [`APPLICATIONS`] of the applications' mean and the rest of the infrastructure's, summed; where a
/// tile has one of the two, that alone. `None` where a limit fails, or a member that has a weight has no throughput.
fn score(members: &[&Member], level: &Level, references: &BTreeMap<String, f64>) -> Option<f64> {
    let weighted = members.iter().copied().filter(|member| member.weight > 0.0);
    let (infrastructure, applications): (Vec<&Member>, Vec<&Member>) =
        weighted.partition(|member| member.is_infrastructure());
    if !level.is_valid() || (infrastructure.is_empty() && applications.is_empty()) {
        return None;
    }
    let one = |tile: usize| {
        let part = |members: &[&Member]| mean_of_part(members, tile, level, references);
        match (applications.as_slice(), infrastructure.as_slice()) {
            (all, []) | ([], all) => part(all),
            (applications, infrastructure) => {
                Some(APPLICATIONS * part(applications)? + (1.0 - APPLICATIONS) * part(infrastructure)?)
            }
        }
    };
    (0..level.tiles).map(one).sum()
}

/// The weighted geometric mean of the normalized throughputs of these members of one tile.
fn mean_of_part(members: &[&Member], tile: usize, level: &Level, references: &BTreeMap<String, f64>) -> Option<f64> {
    let weights: f64 = members.iter().map(|member| member.weight).sum();
    let mut sum = 0.0;
    for member in members {
        let did = level.members.iter().find(|did| did.tile == tile && did.member == member.name)?;
        let normalized = did.throughput.filter(|value| *value > 0.0)? / references.get(&member.name)?;
        sum += member.weight * normalized.ln();
    }
    Some((sum / weights).exp())
}

/// The geometric mean over members of their limited metric over that of one tile; members without either are left out.
fn latency_ratio(members: &[&Member], level: &Level, one: &Level) -> Option<f64> {
    let limited = |level: &Level, name: &str| level.mean(name, |did| did.limited).filter(|value| *value > 0.0);
    let ratios: Vec<f64> = members
        .iter()
        .filter_map(|member| Some((limited(level, &member.name)? / limited(one, &member.name)?).ln()))
        .collect();
    (!ratios.is_empty()).then(|| (ratios.iter().sum::<f64>() / ratios.len() as f64).exp())
}

/// The metrics of the most tiles that kept every limit, where `highest` was the most that are started. What bounds the search alone is no answer:
/// then it says so.
fn answer(
    members: &[&Member],
    (one, most): (&Level, &Level),
    highest: usize,
    references: &BTreeMap<String, f64>,
) -> (Vec<Sample>, Option<String>) {
    let (tiles, of_most) = (most.tiles, score(members, most, references));
    let found = |value: Option<f64>| value.filter(|_| tiles < highest);
    let values = [
        ("score", found(of_most)),
        ("tiles", found(Some(tiles as f64))),
        ("latency_ratio", found(latency_ratio(members, most, one))),
        ("score_of_one", score(members, one, references)),
    ];
    let sample = |(metric, value): (&str, Option<f64>)| Some(Sample::new(metric, value?));
    let bound = (tiles >= highest).then(|| {
        let score = of_most.map_or_else(String::new, |score| format!(" with a score of {score:.2}"));
        let (unit, keep) = if tiles == 1 { ("tile", "keeps") } else { ("tiles", "keep") };
        format!("ceiling reached: at least {tiles} {unit}{score} {keep} every limit; raise most")
    });
    (values.into_iter().filter_map(sample).collect(), bound)
}

impl PreparedTile<'_> {
    fn interrupted(&self) -> Result<(), JobError> {
        if self.around.interrupt.load(Ordering::Acquire) { Err(JobError::Interrupted) } else { Ok(()) }
    }

    /// So many tiles, all of whose members run at once.
    fn level(&self, tiles: usize) -> Result<Level, JobError> {
        let count = tiles * self.members.len();
        let (gate, failed, begun) = (Barrier::new(count), AtomicBool::new(false), Mutex::new(None));
        let one = |at: usize| {
            let (tile, of) = (at / self.members.len(), &self.members[at % self.members.len()]);
            self.wait(self.stagger * u32::try_from(at).unwrap_or(u32::MAX));
            let cpus = if of.member.cpus.is_empty() { self.around.cpus } else { &of.member.cpus };
            let around = JobContext {
                cpus,
                seed: self.around.seed.wrapping_add(at as u64),
                phase: self.duration,
                ..self.around
            };
            let prepared = self.interrupted().and_then(|()| of.job.prepare(&of.arm, around)).and_then(|mut ready| {
                ready.warm_up()?;
                Ok(ready)
            });
            failed.fetch_or(prepared.is_err(), Ordering::AcqRel);
            gate.wait();
            let begin = *begun.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
            // A tile without one of its members is none.
            let mut ready = prepared?;
            if failed.load(Ordering::Acquire) {
                return Ok(None);
            }
            Ok(Some(did(&of.member, tile, ready.run(), begin.elapsed())?))
        };
        let ran: Vec<Result<Option<Did>, JobError>> = thread::scope(|scope| {
            let one = &one;
            let started: Vec<_> = (0..count).map(|at| scope.spawn(move || one(at))).collect();
            let joined = started
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.collect()
        });
        self.interrupted()?;
        let members = ran.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        Ok(Level { tiles, members })
    }

    fn wait(&self, time: Duration) {
        sleep_unless(|| self.interrupted().is_err(), time);
    }

    fn measured(&self, stored: &[Value], report: &mut dyn FnMut(Update)) -> Result<JobRun, JobError> {
        let mut known = stored.iter().filter_map(|row| Level::deserialize(row).ok());
        let mut levels: Vec<Level> = Vec::new();
        for tiles in 1..=self.most {
            for attempt in 1..=ATTEMPTS {
                let level = match known.next().filter(|level| level.tiles == tiles) {
                    Some(level) => level,
                    None => {
                        let level = self.level(tiles)?;
                        report(Update::Part(serde_json::to_value(&level).map_err(JobError::failed)?));
                        level
                    }
                };
                let valid = level.is_valid();
                levels.push(level);
                if valid {
                    break;
                }
                if attempt == ATTEMPTS {
                    return Ok(self.reported(&levels));
                }
            }
        }
        Ok(self.reported(&levels))
    }

    fn reported(&self, levels: &[Level]) -> JobRun {
        let members: Vec<&Member> = self.members.iter().map(|of| &of.member).collect();
        let mut flags: Vec<String> = levels.iter().flat_map(|level| self.skewed(level)).collect();
        flags.extend(levels.iter().flat_map(|level| level.members.iter().flat_map(|did| did.flags.clone())));
        flags.extend(self.without_ramp_down());
        flags.extend(self.absent.iter().map(|one| format!("{} is absent: {}", one.name, one.why)));
        flags.sort();
        flags.dedup();
        let valid: Vec<&Level> = levels.iter().filter(|level| level.is_valid()).collect();
        let (Some(one), Some(most)) = (valid.first(), valid.last()) else {
            let broken = levels.iter().flat_map(Level::broken);
            let void = vec![format!("one tile does not keep its limits: {}", broken.collect::<Vec<_>>().join("; "))];
            return JobRun {
                void,
                flags,
                detail: Some(self.detail(levels, &BTreeMap::new(), None)),
                ..JobRun::default()
            };
        };
        let references = references(&members, one);
        let (samples, bound) = answer(&members, (one, most), self.most, &references);
        flags.extend(bound);
        JobRun {
            samples,
            checked: format!("every member of {} tiles kept its limit", most.tiles),
            flags,
            detail: Some(self.detail(levels, &references, Some(one))),
            ..JobRun::default()
        }
    }

    fn detail(&self, levels: &[Level], references: &BTreeMap<String, f64>, one: Option<&Level>) -> Detail {
        let members: Vec<&Member> = self.members.iter().map(|of| &of.member).collect();
        let mut detail = detail(&members, levels, references, one);
        let absent = self.absent.iter().map(|one| json!({ "name": one.name, "why": one.why }));
        detail.document["absent"] = absent.collect();
        detail
    }

    /// Members that ended so much earlier than others that these ran without them.
    fn skewed(&self, level: &Level) -> Option<String> {
        let ends = level.members.iter().map(|did| did.ended_s);
        let (first, last) = (ends.clone().fold(f64::MAX, f64::min), ends.fold(0.0, f64::max));
        let most = SKEW * self.duration.as_secs_f64() + self.ramp_down.as_secs_f64();
        (last - first > most).then(|| {
            format!("{} tiles: members ended {:.1} s apart, some after their verification", level.tiles, last - first)
        })
    }

    /// Members whose load ends with their measured time.
    fn without_ramp_down(&self) -> Option<String> {
        let has = |of: &&Runnable| of.arm.parameters.contains_key(RAMP_DOWN);
        let names: Vec<&str> = self.members.iter().filter(|of| !has(of)).map(|of| of.member.name.as_str()).collect();
        let some = !names.is_empty() && !self.ramp_down.is_zero();
        some.then(|| format!("no ramp-down of {}: the load ends with the measured time", names.join(", ")))
    }
}

/// What a run of a member shows of its throughput and limit.
fn did(member: &Member, tile: usize, ran: Result<JobRun, JobError>, ended: Duration) -> Result<Did, JobError> {
    let mut did = Did {
        tile,
        member: member.name.clone(),
        throughput: None,
        limited: None,
        broken: None,
        ended_s: ended.as_secs_f64(),
        flags: Vec::new(),
    };
    let run = match ran {
        Ok(run) => run,
        Err(JobError::Interrupted) => return Err(JobError::Interrupted),
        // Under too many tiles a member may fail altogether; that is what breaks its limit.
        Err(why) => return Ok(Did { broken: Some(format!("it failed: {why}")), ..did }),
    };
    let value = |metric: &str| run.samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value);
    (did.throughput, did.limited) = (value(&member.throughput), value(&member.limit.metric));
    let (metric, below) = (&member.limit.metric, member.limit.below);
    did.broken = match (did.limited, run.void.first(), did.throughput) {
        (_, Some(reason), _) => Some(format!("its run is invalid: {reason}")),
        (None, _, _) => Some(format!("it has no {metric}: too few samples")),
        (Some(limited), _, _) if limited >= below => Some(format!("{metric} is {limited:.3}, the limit {below}")),
        (_, _, None) if member.weight > 0.0 => Some(format!("it has no {}", member.throughput)),
        _ => None,
    };
    did.flags = run.flags.iter().map(|flag| format!("{}: {flag}", member.name)).collect();
    Ok(did)
}

fn detail(members: &[&Member], levels: &[Level], references: &BTreeMap<String, f64>, one: Option<&Level>) -> Detail {
    let member = |member: &&Member| {
        json!({
            "name": member.name, "workload": member.workload, "throughput": member.throughput, "weight": member.weight,
            "limit": format!("{} < {}", member.limit.metric, member.limit.below), "infrastructure": member.is_infrastructure(),
            "reference": references.get(&member.name),
        })
    };
    let level = |level: &Level| {
        let ratio = |name: &str| Some(level.mean(name, |did| did.throughput)? / references.get(name)?);
        let latency = |name: &str| {
            Some(
                level.mean(name, |did| did.limited)?
                    / one?.mean(name, |did| did.limited).filter(|value| *value > 0.0)?,
            )
        };
        let of = |member: &&Member| {
            let name = &member.name;
            json!({ "name": name, "normalized_throughput": ratio(name), "normalized_limited": latency(name),
                "limited": level.mean(name, |did| did.limited), "throughput": level.mean(name, |did| did.throughput) })
        };
        json!({
            "tiles": level.tiles, "score": score(members, level, references), "broken": level.broken(),
            "members": members.iter().map(of).collect::<Vec<_>>(), "runs": level.members,
        })
    };
    Detail {
        format: "baremark-tile/1".to_owned(),
        document: json!({
            "members": members.iter().map(member).collect::<Vec<_>>(), "levels": levels.iter().map(level).collect::<Vec<_>>(),
        }),
    }
}

impl ReadyJob for PreparedTile<'_> {
    fn run(&mut self) -> Result<JobRun, JobError> {
        self.resume(&[], &mut |_| ())
    }

    fn resume(&mut self, stored: &[Value], report: &mut dyn FnMut(Update)) -> Result<JobRun, JobError> {
        self.measured(stored, report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest_operations;
    use crate::members::{Limit, PREFIX};

    fn member(name: &str, weight: f64, reference: Option<f64>) -> Member {
        Member {
            name: name.to_owned(),
            workload: "load".to_owned(),
            throughput: "x".to_owned(),
            limit: Limit { metric: "ms".to_owned(), below: 10.0 },
            weight,
            reference,
            cpus: Vec::new(),
            parameters: BTreeMap::new(),
        }
    }

    fn ran(member: &Member, tile: usize, throughput: f64, limited: f64) -> Did {
        let run =
            JobRun { samples: vec![Sample::new("x", throughput), Sample::new("ms", limited)], ..JobRun::default() };
        did(member, tile, Ok(run), Duration::from_secs(1)).expect("not interrupted")
    }

    /// Two members of weights 1 and 3: (2/1)^(1/4) (8/16)^(3/4) = 0.7071 in one tile, (1/1)^(1/4) (16/16)^(3/4) = 1 in the other.
    #[test]
    fn a_score_is_the_sum_of_weighted_geometric_means() {
        let (a, b, idle) = (member("a", 1.0, Some(1.0)), member("b", 3.0, None), member("idle", 0.0, None));
        let members = [&a, &b, &idle];
        let one =
            Level { tiles: 1, members: vec![ran(&a, 0, 2.0, 1.0), ran(&b, 0, 16.0, 2.0), ran(&idle, 0, 5.0, 1.0)] };
        let references = references(&members, &one);
        assert_eq!((references["a"], references["b"]), (1.0, 16.0), "its own, and that of one tile");
        let two = Level {
            tiles: 2,
            members: [(0, 2.0, 8.0), (1, 1.0, 16.0)]
                .iter()
                .flat_map(|(tile, x, y)| {
                    [ran(&a, *tile, *x, 4.0), ran(&b, *tile, *y, 2.0), ran(&idle, *tile, 0.1, 1.0)]
                })
                .collect(),
        };
        let score_of_two = score(&members, &two, &references).expect("valid");
        assert!((score_of_two - (0.5_f64.sqrt() + 1.0)).abs() < 1e-12, "{score_of_two}");
        let ratio = latency_ratio(&members, &two, &one).expect("latencies");
        assert!((ratio - 4.0_f64.powf(1.0 / 3.0)).abs() < 1e-12, "4 x 1 x 1: {ratio}");
    }

    /// Applications at 1/2 and infrastructure at 1/4 of one tile: 0.8 x 0.5 + 0.2 x 0.25 = 0.45 in that tile; either alone counts whole.
    #[test]
    fn a_fifth_of_a_tiles_score_is_of_its_infrastructure() {
        let operations =
            |name: &str| Member { workload: guest_operations::KIND.to_owned(), ..member(name, 1.0, Some(8.0)) };
        let (web, deploy, clone) = (member("web", 2.0, Some(4.0)), operations("deploy"), operations("clone"));
        let did = vec![ran(&web, 0, 2.0, 1.0), ran(&deploy, 0, 1.0, 1.0), ran(&clone, 0, 4.0, 1.0)];
        let level = Level { tiles: 1, members: did };
        for (members, expected) in
            [(vec![&web, &deploy, &clone], 0.45), (vec![&web], 0.5), (vec![&deploy, &clone], 0.25)]
        {
            let found = score(&members, &level, &references(&members, &level)).expect("valid");
            assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
        }
        // Members that only have to keep their limits are neither.
        let idle = Member { weight: 0.0, ..operations("deploy") };
        let found = score(&[&web, &idle], &level, &references(&[&web], &level)).expect("valid");
        assert!((found - 0.5).abs() < 1e-12, "{found}");
    }

    #[test]
    fn a_broken_limit_leaves_no_score() {
        let a = member("a", 1.0, Some(1.0));
        for did in [
            ran(&a, 0, 5.0, 10.0),
            did(&a, 0, Ok(JobRun::default()), Duration::ZERO).expect("a run"),
            did(&a, 0, Ok(JobRun { void: vec!["x".to_owned()], ..JobRun::default() }), Duration::ZERO).expect("a run"),
            did(&a, 0, Err(JobError::failed("no server")), Duration::ZERO).expect("a run"),
        ] {
            let level = Level { tiles: 1, members: vec![did] };
            assert_eq!(score(&[&a], &level, &[("a".to_owned(), 1.0)].into()), None, "{level:?}");
            assert_eq!(level.broken().len(), 1);
        }
        assert!(matches!(did(&a, 0, Err(JobError::Interrupted), Duration::ZERO), Err(JobError::Interrupted)));
        assert!(ran(&a, 0, 5.0, 9.9).broken.is_none());
    }

    /// "3 tiles" was printed of a search that had not tried more.
    #[test]
    fn the_ceiling_of_a_search_is_no_answer() {
        let web = member("web", 1.0, Some(4.0));
        let one = Level { tiles: 1, members: vec![ran(&web, 0, 4.0, 1.0)] };
        let two = Level { tiles: 2, members: vec![ran(&web, 0, 4.0, 1.0), ran(&web, 1, 2.0, 1.0)] };
        let of = |highest: usize| {
            let (samples, bound) = answer(&[&web], (&one, &two), highest, &references(&[&web], &one));
            let named: BTreeMap<String, f64> = samples.into_iter().map(|one| (one.metric, one.value)).collect();
            (named, bound)
        };
        let (ceiling, bound) = of(2);
        assert_eq!(ceiling, BTreeMap::from([("score_of_one".to_owned(), 1.0)]));
        assert_eq!(
            bound.as_deref(),
            Some("ceiling reached: at least 2 tiles with a score of 1.50 keep every limit; raise most")
        );
        let (found, bound) = of(3);
        assert_eq!((found["tiles"], found["score"], bound), (2.0, 1.5, None));
    }

    #[test]
    fn a_section_has_members_alone() {
        let problems = check_section("t.toml", "[tile]\nmost = 3\n[tile.members.a]\nworkload = \"load\"\n");
        assert_eq!(problems.len(), 1);
        assert_eq!((problems[0].line, problems[0].what.as_str()), (2, "unknown key 'most' in [tile]"));
        assert_eq!(PREFIX, format!("{KIND}.members."));
    }
}
