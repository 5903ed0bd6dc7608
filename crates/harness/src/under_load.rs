//! A cluster as something whose number of users can be set and whose behaviour under them can be read.

use crate::cluster::Cluster;
use crate::topology::Demand;
use crate::users;
use baremark_lab::search::UnderLoad;
use baremark_load::dial::{Asked, Dial};
use baremark_load::load::Load;
use baremark_load::reading::reading;
use baremark_load::record::Part;
use baremark_model::qos::{Qos, Reading};
use baremark_model::units::Nanos;
use baremark_services::service::Tier;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const GLANCE: Duration = Duration::from_millis(20);
/// How long users may take to finish when all of them leave.
const DRAIN: Nanos = Nanos(10_000_000_000);

/// One application and its users.
pub struct Loaded<'c> {
    cluster: &'c mut Cluster,
    demand: &'c Demand,
    seed: u64,
    highest: u64,
    interrupt: Arc<AtomicBool>,
    dial: Option<Dial>,
    trial: usize,
}

/// What a window was, beside its reading.
pub struct WindowSeen {
    /// Counts and histograms of the window.
    pub part: Part,
    /// What it says of limits.
    pub reading: Reading,
}

impl<'c> Loaded<'c> {
    /// An application without users yet.
    pub fn new(cluster: &'c mut Cluster, demand: &'c Demand, seed: u64, interrupt: Arc<AtomicBool>) -> Loaded<'c> {
        let most = cluster.plan().max_users;
        let asked = demand.users.unwrap_or(u64::MAX);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        let highest = (demand.search.highest as u64).max(demand.users.unwrap_or(0)).min(most).min(asked.max(1));
        let highest = users::most_with_connections(highest);
        Loaded { cluster, demand, seed, highest, interrupt, dial: None, trial: 0 }
    }

    /// The most users that can be set: those that the data is for.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The cluster, to change it while users are there.
    pub fn cluster(&mut self) -> &mut Cluster {
        self.cluster
    }

    /// The load as it is made now.
    ///
    /// # Errors
    /// When nobody listens or the password is gone.
    pub fn load(&self) -> Result<Load, String> {
        let front = self.cluster.front().ok_or("no server listens")?;
        let password = self.cluster.password().map_err(|why| why.to_string())?;
        let scenario = users::scenario(front, &password).map_err(|why| why.to_string())?;
        Ok(users::load(scenario, self.demand, self.highest, self.seed.wrapping_add(self.trial as u64)))
    }

    /// Begins a window.
    ///
    /// # Errors
    /// When the load has ended.
    pub fn ask(&mut self, lasting: Nanos) -> Result<Asked, String> {
        self.dial()?.ask(lasting, users::patience()).map_err(told)
    }

    /// Waits for a window; the processor time of each tier is that since `cpu_before`.
    ///
    /// # Errors
    /// When the load has ended or the user wants to stop.
    pub fn collect(&mut self, asked: Asked, qos: &Qos) -> Result<WindowSeen, String> {
        let interrupt = Arc::clone(&self.interrupt);
        let part = self.dial()?.collect(asked, &interrupt).map_err(told)?.ok_or("interrupted")?;
        let reading = reading(&part, qos);
        Ok(WindowSeen { part, reading })
    }

    /// Operations in flight.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.dial.as_ref().map_or(0, Dial::in_flight)
    }

    /// Sets the number of users at once.
    ///
    /// # Errors
    /// When the load has ended.
    pub fn users(&mut self, count: f64) -> Result<(), String> {
        let most = self.highest as f64;
        self.dial()?.set(count.clamp(0.0, most)).map(drop).map_err(told)
    }

    fn dial(&mut self) -> Result<&mut Dial, String> {
        self.dial.as_mut().ok_or_else(|| "the load was not started".to_owned())
    }

    fn wait(&self, until: Instant) -> Result<(), String> {
        while Instant::now() < until {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            thread::sleep(GLANCE.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }
}

impl UnderLoad for Loaded<'_> {
    fn start(&mut self, trial: usize) -> Result<(), String> {
        self.dial = None;
        if trial > 0 {
            self.cluster.reset().map_err(told)?;
        }
        self.trial = trial;
        self.dial = Some(Dial::start(self.load()?).map_err(told)?);
        Ok(())
    }

    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), String> {
        self.users(level.round())?;
        self.wait(Instant::now() + Duration::from_nanos(settle.0))
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, String> {
        let (before, begin) = (self.cluster.cpu_ns(), Instant::now());
        let asked = self.ask(lasting)?;
        self.wait(begin + Duration::from_nanos(lasting.0))?;
        let after = self.cluster.cpu_ns();
        let utilization = utilization(&before, &after, begin.elapsed());
        let mut reading = self.collect(asked, qos)?.reading;
        reading.utilization = utilization;
        let fallen = self.cluster.fallen();
        if let Some(first) = fallen.first() {
            return Err(first.clone());
        }
        Ok(reading)
    }

    fn drain(&mut self) -> Result<(), String> {
        let interrupt = Arc::clone(&self.interrupt);
        let Some(dial) = self.dial.as_mut() else { return Ok(()) };
        dial.drain(DRAIN, &interrupt).map(drop).map_err(told)
    }
}

/// Processor time of each tier over the time that passed: 1 is one CPU.
#[must_use]
pub fn utilization(
    before: &BTreeMap<Tier, u64>,
    after: &BTreeMap<Tier, u64>,
    passed: Duration,
) -> BTreeMap<String, f64> {
    let used = |tier: &Tier, now: &u64| now.saturating_sub(before.get(tier).copied().unwrap_or(0)) as f64;
    let wall = passed.as_nanos().max(1) as f64;
    after.iter().map(|(tier, now)| (format!("{}.cpus", tier.label()), used(tier, now) / wall)).collect()
}

fn told(why: impl ToString) -> String {
    why.to_string()
}
