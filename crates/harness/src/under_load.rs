//! A cluster as something whose number of users can be set and whose behaviour under them can be read.

use crate::cluster::Cluster;
use crate::generator::{Generator, Seconds, Sites, Window};
use crate::topology::{Ceiling, Demand};
use crate::users;
use baremark_lab::search::{SubjectError, UnderLoad};
use baremark_load::load::Load;
use baremark_load::order::Order;
use baremark_load::reading::reading;
use baremark_load::record::Part;
use baremark_load::transport::Trust;
use baremark_model::qos::{Qos, Reading};
use baremark_model::units::Nanos;
use baremark_services::card::Tier;
use baremark_sys::process_tree::Waits;
use baremark_sys::stall_group::Stalls;
use baremark_sys::wake::sleep_unless;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether a queue grows shorter.
const LOOK: Duration = Duration::from_millis(750);
/// After an overload so many of the users stay: who goes home must log in again, which is load of another kind.
const STAY: f64 = 0.75;
/// How long what an overload has left may take to be answered.
const DRAIN_S: f64 = 6.0;
/// More operations in flight than this share of the users are those of a queue.
const QUEUED: f64 = 0.2;
/// Until users attend their auctions and do what they do for the rest of the time, so many cycles pass; and so many more
/// are waited for at most while operations queue up.
const CYCLES_TO_SETTLE: f64 = 10.0;
/// A load of which this share is new is as unsettled as a new one.
const NEW: f64 = 0.25;

/// Users who are there.
pub struct Running {
    /// Who makes them.
    pub generator: Generator,
    /// What each second showed.
    pub seconds: Seconds,
    /// How many there are.
    pub level: f64,
}

impl Running {
    /// Sets their number.
    ///
    /// # Errors
    /// When the load has ended.
    pub fn set(&mut self, level: f64) -> Result<(), SubjectError> {
        if level.total_cmp(&self.level).is_ne() {
            self.generator.set(level)?;
            self.level = level;
        }
        Ok(())
    }
}

/// One application and its users.
pub struct Loaded<'c> {
    cluster: &'c mut Cluster,
    demand: &'c Demand,
    seed: u64,
    highest: u64,
    interrupt: Arc<AtomicBool>,
    running: Option<Running>,
    trial: usize,
}

impl<'c> Loaded<'c> {
    /// An application without users yet, for at most `highest` of them.
    pub fn new(
        cluster: &'c mut Cluster,
        demand: &'c Demand,
        highest: u64,
        seed: u64,
        interrupt: Arc<AtomicBool>,
    ) -> Loaded<'c> {
        Loaded { cluster, demand, seed, highest, interrupt, running: None, trial: 0 }
    }

    /// The most users that a search may set: those that the data is for, and that may have connections.
    #[must_use]
    pub fn searchable(cluster: &Cluster, demand: &Demand) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        let highest = (demand.search.highest as u64).min(cluster.plan().max_users);
        users::most_with_connections(highest)
    }

    /// The most users that can be set.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// What is asked of it.
    #[must_use]
    pub fn demand(&self) -> &'c Demand {
        self.demand
    }

    /// The cluster, to change it while users are there.
    pub fn cluster(&mut self) -> &mut Cluster {
        self.cluster
    }

    /// Starts the load where a search has not: all its windows were stored.
    ///
    /// # Errors
    /// When no server listens.
    pub fn begin(&mut self) -> Result<(), SubjectError> {
        if self.running.is_none() { self.start(0) } else { Ok(()) }
    }

    /// The users, to drive them elsewhere; they are to be put back.
    ///
    /// # Errors
    /// When there is no load.
    pub fn take(&mut self) -> Result<Running, SubjectError> {
        self.running.take().ok_or_else(|| "the load was not started".into())
    }

    /// Puts users back.
    pub fn put(&mut self, running: Option<Running>) {
        self.running = running;
    }

    /// The load as it is made now.
    ///
    /// # Errors
    /// When nobody listens or the password is gone.
    pub fn load(&self) -> Result<Load, SubjectError> {
        self.order()?.load().map_err(SubjectError::of)
    }

    fn order(&self) -> Result<Order, SubjectError> {
        let front = self.cluster.front_url().ok_or("no server listens")?;
        let password = self.cluster.password().map_err(SubjectError::of)?;
        let seed = self.seed.wrapping_add(self.trial as u64);
        let mut order = users::order(&front, &password, self.demand, self.highest, seed).map_err(SubjectError::of)?;
        order.addresses = self.cluster.fronts();
        if let Some(pem) = self.cluster.authority() {
            order.trust = Trust::Certificates { file: PathBuf::from("the run's authority"), pem: pem.to_owned() };
        }
        Ok(order)
    }

    /// Begins a window.
    ///
    /// # Errors
    /// When the load has ended.
    pub fn ask(&mut self, lasting: Nanos) -> Result<Window, SubjectError> {
        self.running()?.generator.ask(lasting)
    }

    /// Waits for a window: its counts, and what they say of limits.
    ///
    /// # Errors
    /// When the load has ended or the user wants to stop.
    pub fn collect(&mut self, asked: Window, qos: &Qos) -> Result<(Part, Reading), SubjectError> {
        let interrupt = Arc::clone(&self.interrupt);
        let part = self.running()?.generator.collect(asked, &interrupt)?.ok_or(SubjectError::Interrupted)?;
        let reading = reading(&part, qos);
        Ok((part, reading))
    }

    /// Sets the number of users at once.
    ///
    /// # Errors
    /// When the load has ended.
    pub fn users(&mut self, count: f64) -> Result<(), SubjectError> {
        let most = self.highest as f64;
        self.running()?.set(count.clamp(0.0, most).round())
    }

    fn running(&mut self) -> Result<&mut Running, SubjectError> {
        self.running.as_mut().ok_or_else(|| "the load was not started".into())
    }

    /// Whether operations queue up.
    fn queues(&mut self) -> Result<bool, SubjectError> {
        let level = self.running.as_ref().map_or(0.0, |running| running.level);
        Ok(self.in_flight()? as f64 > (QUEUED * level).max(2.0))
    }

    fn in_flight(&mut self) -> Result<u64, SubjectError> {
        self.running.as_mut().map_or(Ok(0), |running| running.generator.in_flight())
    }

    fn wait(&self, until: Instant) -> Result<(), SubjectError> {
        let left = until.saturating_duration_since(Instant::now());
        let over = sleep_unless(|| self.interrupt.load(Ordering::Relaxed), left);
        over.then_some(()).ok_or(SubjectError::Interrupted)
    }

    /// Waits while operations queue up, as long as they grow fewer.
    fn wait_while_queued(&mut self, until: Instant) -> Result<(), SubjectError> {
        let mut before = u64::MAX;
        while self.queues()? && Instant::now() < until {
            let now = self.in_flight()?;
            if now >= before {
                return Ok(());
            }
            before = now;
            self.wait((Instant::now() + LOOK).min(until))?;
        }
        Ok(())
    }
}

impl UnderLoad for Loaded<'_> {
    fn start(&mut self, trial: usize) -> Result<(), SubjectError> {
        self.running = None;
        if trial > 0 {
            self.cluster.reset().map_err(SubjectError::of)?;
        }
        self.trial = trial;
        let seconds = Seconds::default();
        let generator = match &self.demand.on[..] {
            [] => Generator::here(self.load()?, Arc::clone(&seconds))?,
            names => {
                let places = names.iter().map(|name| (name.clone(), self.cluster.load_site(name))).collect();
                let sites = Sites::start(places, self.order()?, Arc::clone(&seconds), &self.interrupt)?;
                Generator::Sites(Box::new(sites))
            }
        };
        self.running = Some(Running { generator, seconds, level: 0.0 });
        Ok(())
    }

    /// New users log in, which costs more than what they do later, and attend no auctions yet, which costs less.
    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), SubjectError> {
        let new = new_share(self.running()?.level, level);
        let cycles = Duration::from_secs_f64(settling_s(self.demand, new));
        let begin = Instant::now();
        self.users(level)?;
        let settled = begin + cycles.max(Duration::from_nanos(settle.0));
        self.wait(settled)?;
        self.wait_while_queued(settled + cycles)
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, SubjectError> {
        let before = Moment::now(self.cluster);
        let asked = self.ask(lasting)?;
        self.wait(before.at + Duration::from_nanos(lasting.0))?;
        let after = Moment::now(self.cluster);
        let mut utilization = after.cpus_since(&before);
        utilization.extend(after.waits_since(&before));
        utilization.extend(shares(&utilization, self.demand));
        let (part, mut reading) = self.collect(asked, qos)?;
        reading.utilization = utilization;
        reading.generator_cpus = Some(self.running()?.generator.cpus_used_here(&part));
        let fallen = self.cluster.fallen();
        if let Some(first) = fallen.first() {
            return Err(first.clone().into());
        }
        Ok(reading)
    }

    fn drain(&mut self) -> Result<(), SubjectError> {
        let stay = STAY * self.running()?.level;
        self.users(stay)?;
        self.wait_while_queued(Instant::now() + Duration::from_secs_f64(DRAIN_S))
    }
}

/// The share of users that is new at `level`, where there were `before`.
pub(crate) fn new_share(before: f64, level: f64) -> f64 {
    (1.0 - before / level.max(1.0)).clamp(0.0, 1.0)
}

/// How long users take to do what they do for the rest of the time, in s, where this share of them is new.
pub(crate) fn settling_s(demand: &Demand, new: f64) -> f64 {
    CYCLES_TO_SETTLE * demand.cycle_s * (new / NEW).min(1.0)
}

/// What the tiers have used and waited for until a moment.
#[derive(Clone)]
pub(crate) struct Moment {
    /// When.
    pub at: Instant,
    cpu_ns: BTreeMap<Tier, u64>,
    waits: BTreeMap<Tier, BTreeMap<u32, Waits>>,
    stalls: BTreeMap<Tier, BTreeMap<u32, Stalls>>,
}

impl Moment {
    /// Until now.
    pub fn now(cluster: &mut Cluster) -> Moment {
        Moment { at: Instant::now(), cpu_ns: cluster.cpu_ns(), waits: cluster.waits(), stalls: cluster.stalls() }
    }

    /// Processor time of each tier since `before` over the time that passed, by `TIER.cpus`: 1 is one CPU.
    pub fn cpus_since(&self, before: &Moment) -> BTreeMap<String, f64> {
        let used = |tier: &Tier, now: &u64| now.saturating_sub(before.cpu_ns.get(tier).copied().unwrap_or(0)) as f64;
        let wall = self.wall_ns(before);
        self.cpu_ns.iter().map(|(tier, now)| (format!("{}{CPUS}", tier.label()), used(tier, now) / wall)).collect()
    }

    /// What the threads of each tier waited for since `before`: by `TIER.waiting` how many waited for a CPU on average, by
    /// `TIER.disk` bytes read from and written to disks per second, and by `TIER.cpu_stall`, `TIER.memory_stall` and
    /// `TIER.io_stall` the share of the time in which some of an instance's threads stalled, on average over the instances.
    pub fn waits_since(&self, before: &Moment) -> BTreeMap<String, f64> {
        let wall = self.wall_ns(before);
        let of = |(tier, now): (&Tier, &BTreeMap<u32, Waits>)| {
            let then = before.waits.get(tier);
            let waiting = grown(now, then, |of| of.cpu_wait_ns) as f64 / wall;
            let disk = grown(now, then, |of| of.disk_bytes) as f64 / wall * 1e9;
            [(format!("{}{WAITING}", tier.label()), waiting), (format!("{}{DISK}", tier.label()), disk)]
        };
        let stalled = |(tier, now): (&Tier, &BTreeMap<u32, Stalls>)| {
            let then = before.stalls.get(tier);
            let share =
                |us: fn(&Stalls) -> u64| (grown(now, then, us) as f64 * 1e3 / wall / now.len().max(1) as f64).min(1.0);
            [
                (format!("{}{CPU_STALL}", tier.label()), share(|of| of.cpu_us)),
                (format!("{}{MEMORY_STALL}", tier.label()), share(|of| of.memory_us)),
                (format!("{}{IO_STALL}", tier.label()), share(|of| of.io_us)),
            ]
        };
        self.waits.iter().flat_map(of).chain(self.stalls.iter().flat_map(stalled)).collect()
    }

    fn wall_ns(&self, before: &Moment) -> f64 {
        (self.at - before.at).as_nanos().max(1) as f64
    }
}

/// By how much a count of these processes grew, summed over them. One that was not there before began since then.
fn grown<T>(now: &BTreeMap<u32, T>, before: Option<&BTreeMap<u32, T>>, count: fn(&T) -> u64) -> u64 {
    let then = |pid: &u32| before.and_then(|before| before.get(pid)).map_or(0, count);
    now.iter().map(|(pid, now)| count(now).saturating_sub(then(pid))).sum()
}

/// The share of its CPUs that each tier used on which there is a limit, by the tier's label, of CPUs used by `TIER.cpus`.
pub(crate) fn shares(used: &BTreeMap<String, f64>, demand: &Demand) -> BTreeMap<String, f64> {
    let share = |(tier, ceiling): (&Tier, &Ceiling)| {
        let cpus = used.get(&format!("{}{CPUS}", tier.label()))?;
        Some((tier.label().to_owned(), cpus / ceiling.cpus.max(1) as f64))
    };
    demand.utilization.iter().filter_map(share).collect()
}

/// How the names of figures by tier end: CPUs used, threads that waited for a CPU, and bytes per second of disks.
pub(crate) const CPUS: &str = ".cpus";
pub(crate) const WAITING: &str = ".waiting";
pub(crate) const DISK: &str = ".disk";
/// And shares of the time in which threads stalled.
pub(crate) const CPU_STALL: &str = ".cpu_stall";
pub(crate) const MEMORY_STALL: &str = ".memory_stall";
pub(crate) const IO_STALL: &str = ".io_stall";

#[cfg(test)]
mod tests {
    use super::*;

    /// A moment at which the app tier has these processes, each of which has waited for so many seconds since it began.
    fn moment(begun: Instant, at_s: u64, waited_s: &[(u32, u64)]) -> Moment {
        let of = |(pid, seconds): &(u32, u64)| (*pid, Waits { cpu_wait_ns: seconds * 1_000_000_000, disk_bytes: 0 });
        let stalled = |(pid, seconds): &(u32, u64)| (*pid, Stalls { io_us: seconds * 1_000_000, ..Stalls::default() });
        Moment {
            at: begun + Duration::from_secs(at_s),
            cpu_ns: BTreeMap::new(),
            waits: [(Tier::App, waited_s.iter().map(of).collect())].into(),
            stalls: [(Tier::App, waited_s.iter().map(stalled).collect())].into(),
        }
    }

    #[test]
    fn waits_are_of_the_time_between_whichever_instances_come_and_go() {
        let begun = Instant::now();
        let since = |now: &[(u32, u64)], before: &[(u32, u64)]| {
            let waits = moment(begun, 12, now).waits_since(&moment(begun, 10, before));
            (waits["app.waiting"], waits["app.io_stall"])
        };
        assert_eq!(since(&[(1, 42), (2, 31)], &[(1, 41), (2, 30)]), (1.0, 0.5));
        assert_eq!(since(&[(1, 42)], &[(1, 41), (2, 30)]), (0.5, 0.5), "the second was killed, or has left");
        assert_eq!(since(&[(1, 42), (3, 1)], &[(1, 41)]), (1.0, 0.5), "it was started again");
    }
}
