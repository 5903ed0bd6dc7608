//! A load that is kept for a while, steady or varying, while the number of servers follows a schedule or a policy.
//!
//! Users are driven by a thread of their own, so that they come and go on time while servers are started and drained; the
//! caller's thread, with which servers end, watches and scales.

use crate::cluster::Cluster;
use crate::document::{ElasticityRow, LoadRow, SecondRow};
use crate::elastic::{Adaptation, Elastic, Fault, Signal, Wrong, demanded, metrics};
use crate::generator::{self, Seconds};
use crate::mix::{self, Mix};
use crate::phase_context::{Event, Ground, RunError};
use crate::topology::Demand;
use crate::under_load::{Loaded, Moment, Running, new_share, settling_s, shares};
use crate::users;
use baremark_lab::search::{SubjectError, UnderLoad};
use baremark_load::document::Document;
use baremark_load::latency::Latencies;
use baremark_load::load::Stop;
use baremark_load::profile::{Curve, Profile};
use baremark_load::reading::reading;
use baremark_load::record::Part;
use baremark_model::qos::{Bound, Qos, Reading};
use baremark_model::units::Nanos;
use baremark_services::card::Tier;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the number of users follows its profile.
const STEP: Duration = Duration::from_millis(200);
/// How often somebody who waits looks up.
const GLANCE: Duration = Duration::from_millis(20);

/// What the driver and the watcher share.
#[derive(Default)]
struct Shared {
    in_flight: AtomicU64,
    users: Mutex<Vec<(f64, f64)>>,
    seconds: Seconds,
    /// Measuring has begun: at this moment.
    begun: Mutex<Option<Instant>>,
    over: AtomicBool,
}

/// An application with a load for `users`, none of whom is there yet.
///
/// # Errors
/// When so many cannot be.
pub(crate) fn loaded<'c>(
    cluster: &'c mut Cluster,
    demand: &'c Demand,
    users: u64,
    seed: u64,
    ground: &Ground<'_>,
) -> Result<Loaded<'c>, RunError> {
    let highest = highest(demand, users)?;
    // Sites have limits of their own, and refuse what is beyond them.
    let most = if demand.on.is_empty() { users::most_with_connections(highest) } else { highest };
    if most < highest {
        let what = format!(
            "{highest} users need more open files than are allowed, which is enough for {most}; raise the limit (ulimit -n)"
        );
        return Err(RunError::Load(what.into()));
    }
    if highest > cluster.plan().max_users {
        let loaded = cluster.plan().max_users;
        let what = format!("{highest} users, and data for {loaded}; raise topology.max_users");
        return Err(RunError::Load(what.into()));
    }
    let mut loaded = Loaded::new(cluster, demand, highest, seed, Arc::clone(&ground.interrupt));
    loaded.start(0).map_err(RunError::Load)?;
    Ok(loaded)
}

/// One window over the demand's time with users who may be there already, and everything that it shows.
///
/// # Errors
/// When the load breaks off, or servers cannot be started.
pub(crate) fn window(
    loaded: &mut Loaded<'_>,
    demand: &Demand,
    users: u64,
    ground: &mut Ground<'_>,
) -> Result<(LoadRow, Part), RunError> {
    let curve = curve(demand, users)?;
    let highest = whole(curve.highest().max(users as f64));
    let mut load = loaded.load().map_err(RunError::Load)?;
    load.stop = Stop::After(Nanos(users::nanos(demand.duration_s)));
    let qos = users::qos(&load.scenario, demand);
    let running = loaded.take().map_err(RunError::Load)?;
    let shared = Arc::new(Shared { seconds: Arc::clone(&running.seconds), ..Shared::default() });
    let interrupt = Arc::clone(&ground.interrupt);
    let driver = {
        let (shared, interrupt, demand) = (Arc::clone(&shared), Arc::clone(&interrupt), demand.clone());
        thread::Builder::new().name("users".to_owned()).spawn(move || {
            let driven = drive(running, &curve, &demand, &shared, &interrupt);
            shared.over.store(true, Ordering::Release);
            driven
        })
    };
    let driver = driver.map_err(|why| RunError::Load(format!("starting a thread: {why}").into()))?;
    let cluster = loaded.cluster();
    let mut watcher = Watcher::new(cluster, &shared);
    let watched = watcher.watch(ground);
    if watched.is_err() {
        interrupt.store(true, Ordering::Relaxed);
    }
    let (timeline, left) = (watcher.timeline, watcher.faults);
    let driven = driver.join().unwrap_or_else(|_| Err("the thread of the users has panicked".into()));
    watched?;
    let (part, running) = driven.map_err(RunError::Load)?;
    // A load without a fault that was to be in it is another load.
    if let Some(fault) = left.iter().find(|fault| fault.at_s < demand.duration_s && !part.interrupted) {
        let what = format!(
            "the fault at {} s was not made before the load had ended; let it be earlier, or stop other programs",
            fault.at_s
        );
        return Err(RunError::Load(what.into()));
    }
    let mut reading = reading(&part, &qos);
    reading.utilization = shares(&timeline.used, demand);
    let document = Document::new(&load, &part);
    let mut row = row(&document, &reading, &qos, demand, cluster, timeline, &shared, highest as f64);
    row.sites = running.as_ref().map_or_else(Vec::new, |running| generator::rows(&load, &running.generator.parts()));
    loaded.put(running);
    Ok((row, part))
}

/// The most users that a demand brings at once.
///
/// # Errors
/// When its profile cannot be read.
pub(crate) fn highest(demand: &Demand, users: u64) -> Result<u64, RunError> {
    Ok(whole(curve(demand, users)?.highest().max(users as f64)))
}

/// What the watcher has seen.
#[derive(Default)]
struct Timeline {
    series: Vec<SecondRow>,
    adaptations: Vec<Adaptation>,
    supply: BTreeMap<Tier, Vec<(f64, u64)>>,
    used: BTreeMap<String, f64>,
    waits: BTreeMap<String, f64>,
    /// CPUs that checking passwords used; `None` where a server did not tell.
    password_cpus: Option<f64>,
}

fn curve(demand: &Demand, users: u64) -> Result<Curve, RunError> {
    let profile = if demand.profile.is_empty() {
        Profile::steady(users as f64)
    } else {
        demand.profile.parse::<Profile>().map_err(|why| RunError::Load(SubjectError::of(why)))?
    };
    profile.curve().map_err(|why| RunError::Load(SubjectError::of(why)))
}

fn whole(level: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    let whole = level.ceil() as u64;
    whole.max(1)
}

/// The thread of the users: warms, then measures one window over the whole time. Users who were cut short are gone.
fn drive(
    mut running: Running,
    curve: &Curve,
    demand: &Demand,
    shared: &Shared,
    interrupt: &AtomicBool,
) -> Result<(Part, Option<Running>), SubjectError> {
    let lasting = Nanos(users::nanos(demand.duration_s));
    let (begin, before) = (Instant::now(), running.level);
    let settling_s = settling_s(demand, new_share(before, curve.level(0.0)));
    let (coming_s, warm_s) = warming_s(demand, settling_s);
    let warm = Duration::from_secs_f64(warm_s);
    // Users come evenly: all at once would be a storm of logins.
    while begin.elapsed() < warm && !interrupt.load(Ordering::Relaxed) {
        let come = (begin.elapsed().as_secs_f64() / coming_s.max(1e-3)).min(1.0);
        running.set((before + (curve.level(0.0) - before) * come).round())?;
        // Seconds that sites tell of meanwhile are not left for the window.
        shared.in_flight.store(running.generator.in_flight()?, Ordering::Relaxed);
        thread::sleep(STEP.min(warm));
    }
    running.set(curve.level(0.0).round())?;
    let asked = running.generator.ask(lasting)?;
    let begin = Instant::now();
    shared.users.lock().unwrap_or_else(PoisonError::into_inner).push((0.0, running.level));
    *shared.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(begin);
    while begin.elapsed().as_secs_f64() < demand.duration_s && !interrupt.load(Ordering::Relaxed) {
        let at = begin.elapsed().as_secs_f64();
        let (wanted, before) = (curve.level(at).round(), running.level);
        running.set(wanted)?;
        if running.level.total_cmp(&before).is_ne() {
            shared.users.lock().unwrap_or_else(PoisonError::into_inner).push((at, wanted));
        }
        shared.in_flight.store(running.generator.in_flight()?, Ordering::Relaxed);
        thread::sleep(STEP);
    }
    match running.generator.collect(asked, interrupt)? {
        Some(part) => {
            // What is watched ends with the measured time; users stay for their neighbors' sake.
            shared.over.store(true, Ordering::Release);
            let (measured, ramp_down) = (Instant::now(), Duration::from_secs_f64(demand.ramp_down_s));
            while measured.elapsed() < ramp_down && !interrupt.load(Ordering::Relaxed) {
                // Seconds that sites report meanwhile are not kept.
                running.generator.in_flight()?;
                thread::sleep(STEP.min(ramp_down));
            }
            Ok((part, Some(running)))
        }
        // Cut short: all that there is, and the caller knows that it was.
        None => running.generator.stop().map(|part| (part, None)),
    }
}

/// Over how long users come, and when measuring begins, in s: as long as is asked for, and not before those who came last have logged in and
/// attend their auctions. Measured time has the log-ins of those alone who log in again.
pub(crate) fn warming_s(demand: &Demand, settling_s: f64) -> (f64, f64) {
    let coming_s = (demand.warm_s - settling_s).min(0.5 * demand.warm_s).max(demand.cycle_s.min(settling_s));
    (coming_s, demand.warm_s.max(coming_s + settling_s))
}

struct Watcher<'w> {
    cluster: &'w mut Cluster,
    shared: &'w Shared,
    timeline: Timeline,
    seen: usize,
    last: Moment,
    looked: f64,
    changed: f64,
    /// Faults to come, and killed instances that come back: when, whose.
    faults: Vec<Fault>,
    back: Vec<(f64, Tier, usize)>,
}

impl<'w> Watcher<'w> {
    fn new(cluster: &'w mut Cluster, shared: &'w Shared) -> Watcher<'w> {
        let last = Moment::now(cluster);
        let faults = cluster.plan().faults.clone();
        Watcher {
            cluster,
            shared,
            timeline: Timeline::default(),
            seen: 0,
            last,
            looked: 0.0,
            faults,
            back: Vec::new(),
            changed: f64::NEG_INFINITY,
        }
    }

    fn watch(&mut self, ground: &mut Ground<'_>) -> Result<(), RunError> {
        let begin = loop {
            if let Some(begin) = *self.shared.begun.lock().unwrap_or_else(PoisonError::into_inner) {
                break begin;
            }
            if self.shared.over.load(Ordering::Acquire) {
                return Ok(());
            }
            thread::sleep(GLANCE);
        };
        let passwords_ns = self.cluster.passwords_ns();
        self.last = Moment::now(self.cluster);
        let first = self.last.clone();
        for tier in [Tier::App, Tier::Web] {
            self.timeline.supply.insert(tier, vec![(0.0, self.cluster.count(tier))]);
        }
        self.seen = self.shared.seconds.lock().unwrap_or_else(PoisonError::into_inner).len();
        while !self.shared.over.load(Ordering::Acquire) {
            let at = begin.elapsed().as_secs_f64();
            self.go_wrong(at)?;
            self.scale(at)?;
            if self.last.at.elapsed() >= Duration::from_secs(1) {
                let row = self.second(begin.elapsed().as_secs_f64());
                (ground.watch)(&Event::Second(&row));
                self.timeline.series.push(row);
            }
            thread::sleep(GLANCE);
        }
        let last = Moment::now(self.cluster);
        (self.timeline.used, self.timeline.waits) = (last.cpus_since(&first), last.waits_since(&first));
        let checked_ns = self.cluster.passwords_ns().zip(passwords_ns).map(|(now, before)| now.saturating_sub(before));
        self.timeline.password_cpus = checked_ns.map(|ns| ns as f64 / (last.at - first.at).as_nanos().max(1) as f64);
        Ok(())
    }

    /// Does what is to go wrong by now.
    fn go_wrong(&mut self, at: f64) -> Result<(), RunError> {
        for (_, tier, index) in self.back.extract_if(.., |(moment, ..)| *moment <= at).collect::<Vec<_>>() {
            self.cluster.restart(tier, index)?;
        }
        for fault in self.faults.extract_if(.., |fault| fault.at_s <= at).collect::<Vec<_>>() {
            match fault.what {
                Wrong::Killed(down) => {
                    self.cluster.kill(fault.tier, fault.index)?;
                    self.back.extend(down.map(|down| (at + down, fault.tier, fault.index)));
                }
                Wrong::Reloaded => self.cluster.reload(fault.tier, fault.index)?,
            }
        }
        Ok(())
    }

    /// Brings the counts to what the schedule or the policy wants.
    fn scale(&mut self, at: f64) -> Result<(), RunError> {
        let elastic = self.cluster.plan().elastic.clone();
        for (tier, wanted) in self.wanted(&elastic, at) {
            let from = self.cluster.count(tier);
            if from == 0 || from == wanted {
                continue;
            }
            let took = self.cluster.scale(tier, wanted)?;
            let done = at + took.as_secs_f64();
            // More serve when the last step is done; fewer as soon as it begins.
            let moment = if wanted > from { done } else { at };
            self.timeline.supply.entry(tier).or_default().push((moment, wanted));
            self.changed = done;
            self.timeline.adaptations.push(Adaptation {
                at_s: at,
                tier: tier.label().to_owned(),
                from,
                to: wanted,
                took_s: took.as_secs_f64(),
            });
        }
        Ok(())
    }

    fn wanted(&mut self, elastic: &Elastic, at: f64) -> Vec<(Tier, u64)> {
        if let Some(policy) = &elastic.policy {
            if at - self.looked < policy.every_s || at - self.changed < policy.cooldown_s {
                return Vec::new();
            }
            self.looked = at;
            let count = self.cluster.count(policy.tier);
            let signal = self.signal(policy.signal, policy.tier, policy.every_s);
            return vec![(policy.tier, policy.decide(count, signal))];
        }
        [Tier::App, Tier::Web].into_iter().filter_map(|tier| Some((tier, elastic.scheduled(tier, at)?))).collect()
    }

    fn signal(&self, signal: Signal, tier: Tier, every_s: f64) -> f64 {
        let servers = self.cluster.count(tier).max(1) as f64;
        match signal {
            Signal::Queue => self.shared.in_flight.load(Ordering::Relaxed) as f64 / servers,
            Signal::Utilization => {
                let latest =
                    self.timeline.series.last().and_then(|row| row.cpus_used.get(&format!("{}.cpus", tier.label())));
                latest.map_or(0.0, |used| used / servers)
            }
            Signal::Latency => {
                let seconds = self.shared.seconds.lock().unwrap_or_else(PoisonError::into_inner);
                let some = usize::try_from(whole(every_s)).unwrap_or(1);
                let mut latencies = Latencies::coarse();
                for second in seconds.iter().rev().take(some) {
                    latencies.merge(&second.part.histogram().unwrap_or_default());
                }
                let p99 = latencies.percentile(0.99).or(latencies.largest());
                p99.map_or(0.0, |ns| ns as f64 / 1e9)
            }
        }
    }

    fn second(&mut self, at_s: f64) -> SecondRow {
        let now = Moment::now(self.cluster);
        let (cpus_used, waits) = (now.cpus_since(&self.last), now.waits_since(&self.last));
        self.last = now;
        let seconds = self.shared.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = &seconds[self.seen.min(seconds.len())..];
        let mut latencies = Latencies::coarse();
        for second in fresh {
            latencies.merge(&second.part.histogram().unwrap_or_default());
        }
        let row = SecondRow {
            at_s,
            users: self
                .shared
                .users
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .last()
                .map_or(0.0, |(_, users)| *users),
            apps: self.cluster.count(Tier::App),
            webs: self.cluster.count(Tier::Web),
            answered: fresh.iter().map(|second| second.part.answered).sum(),
            failed: fresh.iter().map(|second| second.part.failed).sum(),
            p99_ns: latencies.percentile(0.99).or(latencies.largest()),
            cpus_used,
            waits,
        };
        self.seen = seconds.len();
        row
    }
}

#[expect(clippy::too_many_arguments, reason = "one row gathers all that was seen")]
fn row(
    document: &Document,
    reading: &Reading,
    qos: &Qos,
    demand: &Demand,
    cluster: &Cluster,
    timeline: Timeline,
    shared: &Shared,
    highest: f64,
) -> LoadRow {
    let pushed = document.operations.iter().find(|row| row.name == users::PUSHED);
    let mix = match demand.scenario {
        None => mix::judge(document, demand.mix, whole(highest)),
        // Other users have another mix.
        Some(_) => Mix { kept: true, off: Vec::new(), shares: Vec::new() },
    };
    let mut broken = broken(reading, qos);
    broken.extend(mix.off.iter().map(|off| format!("mix: {off}")));
    let app = timeline.used.get("app.cpus").copied().unwrap_or(0.0);
    let mix_cpus = timeline.password_cpus.map(|passwords| app - passwords).filter(|cpus| *cpus > 0.0);
    let failed = document.operations.iter().map(|row| row.failed).sum();
    LoadRow {
        users: highest,
        elapsed_s: document.elapsed_s,
        kept: broken.is_empty(),
        broken,
        operations_per_s: reading.achieved_per_s,
        operations: document.operations.clone(),
        failures: document.failures.clone(),
        failure_examples: document.failure_examples.clone(),
        propagation: pushed.and_then(|row| row.delay.clone()),
        propagation_within_limit_share: seen_in_time(reading, qos),
        mix,
        generator_cpus_used: reading.generator_cpus.unwrap_or(0.0),
        generator: document.generator.clone(),
        password_cpus_used: timeline.password_cpus,
        operations_per_app_cpu_second: mix_cpus.map(|cpus| reading.achieved_per_s / cpus),
        elasticity: elasticity(cluster, demand, &timeline, shared, failed),
        cpus_used: timeline.used,
        waits: timeline.waits,
        series: timeline.series,
        sites: Vec::new(),
    }
}

/// The share of pushed bids that were seen within their limit; absent without any.
fn seen_in_time(reading: &Reading, qos: &Qos) -> Option<f64> {
    let at = qos.limits.iter().position(|limit| matches!(limit.bound, Bound::Delay { .. }))?;
    let counts = (*reading.broken.get(at)?)?;
    (counts.all > 0).then(|| 1.0 - counts.bad as f64 / counts.all as f64)
}

/// Limits that a window breaks by its counts.
pub(crate) fn broken(reading: &Reading, qos: &Qos) -> Vec<String> {
    let breaks = |(limit, counts): (&baremark_model::qos::Limit, &Option<baremark_model::qos::Broken>)| {
        let (allowed, counts) = (limit.allowed()?, (*counts)?);
        let share = counts.bad as f64 / counts.all.max(1) as f64;
        let what = if matches!(limit.bound, Bound::Failures { .. }) { "failed" } else { "broke it" };
        (share > allowed).then(|| format!("{limit}: {:.2} % of {} {what}", 100.0 * share, counts.all))
    };
    let busy = |limit: &baremark_model::qos::Limit| {
        let Bound::Utilization { resource: Some(tier), most } = &limit.bound else { return None };
        let used = reading.utilization.get(tier).filter(|used| *used > most)?;
        Some(format!("{limit}: {:.1} % used", 100.0 * used))
    };
    let counted = qos.limits.iter().zip(&reading.broken).filter_map(breaks);
    counted.chain(qos.limits.iter().filter_map(busy)).collect()
}

fn elasticity(
    cluster: &Cluster,
    demand: &Demand,
    timeline: &Timeline,
    shared: &Shared,
    failed: u64,
) -> Option<ElasticityRow> {
    let elastic = &cluster.plan().elastic;
    if !elastic.changes() {
        return None;
    }
    let mut all = BTreeMap::new();
    if let Some(capacity) = elastic.capacity {
        let users = shared.users.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: Vec<(f64, u64)> = users
            .iter()
            .enumerate()
            .map(|(at, (moment, users))| (if at == 0 { 0.0 } else { *moment }, demanded(*users, capacity)))
            .collect();
        for (tier, supply) in &timeline.supply {
            if elastic.most(*tier) > 0
                && let Some(found) = metrics(&wanted, supply, demand.duration_s)
            {
                all.insert(tier.label().to_owned(), found);
            }
        }
    }
    Some(ElasticityRow { adaptations: timeline.adaptations.clone(), failed_operations: failed, metrics: all })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;

    /// The load of the defaults with another cycle and warm-up.
    fn demand(cycle: &str, warm: &str) -> Demand {
        let text = format!("[load]\nusers = 10\ncycle = \"{cycle}\"\nwarm_up = \"{warm}\"\n");
        let mut topology = topology::resolve_levels("test", &text, &[]).expect("a topology");
        topology.applications.remove(0).load
    }

    /// With a cycle of 2 s and 2 s of warm-up log-ins were two thirds of what was measured, and nobody had bid.
    #[test]
    fn log_ins_of_a_steady_population_belong_to_its_warm_up() {
        let warming = |cycle: &str, warm: &str, new: f64| {
            let demand = demand(cycle, warm);
            warming_s(&demand, settling_s(&demand, new))
        };
        assert_eq!(warming("2 s", "2 s", 1.0), (2.0, 22.0), "ten cycles after the last has come");
        assert_eq!(warming("500 ms", "6 s", 1.0), (1.0, 6.0), "as long as is asked for");
        assert_eq!(warming("500 ms", "60 s", 1.0), (30.0, 60.0), "evenly over half of it");
        assert_eq!(warming("2 s", "2 s", 0.0), (1.0, 2.0), "whoever is there has logged in");
    }
}
