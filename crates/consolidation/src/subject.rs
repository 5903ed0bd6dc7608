//! A farm under load, as a search sees it: the level is the number of servers, each with the same rate of requests.

use crate::content;
use crate::farm::{Farm, Layout};
use baremark_journal::Journal;
use baremark_lab::search::UnderLoad;
use baremark_load::arrival::Arrival;
use baremark_load::dial::Dial;
use baremark_load::load::{Drive, Load, LoadError, Pin, Pool, Stop};
use baremark_load::profile::Profile;
use baremark_load::reading::{patience, reading};
use baremark_load::scenario::{Scenario, file};
use baremark_model::qos::{Qos, Reading};
use baremark_model::units::Nanos;
use baremark_sys::clock::monotonic_ns;
use baremark_sys::cpu_time::CpuTime;
use baremark_sys::point;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The name of the CPU use of the servers' CPUs in readings.
pub const CPU: &str = "cpu";
/// Connections by server: one for each request that is under way, and no more than the servers could ever use.
const CONNECTIONS: usize = 8;
const TIMEOUT: Nanos = Nanos(2_000_000_000);
/// How often a wait checks whether it was interrupted.
const GLANCE_NS: u64 = 50_000_000;

/// Dense mode: fewer interrupts for many servers, while its conditions hold.
struct Dense {
    /// How long packets wait for others.
    timeout: Duration,
    /// Levels that were set, and those of them in dense mode.
    levels: u64,
    entered: u64,
}

/// The published conditions: as many servers as CPUs, twice as many CPUs promised to them as there are, and half of the CPUs' time used.
fn is_dense(servers: usize, quota: f64, cpus: usize, used: f64) -> bool {
    servers >= cpus && servers as f64 * quota >= 2.0 * cpus as f64 && used >= 0.5
}

/// A farm whose number of loaded servers is set.
pub struct Subject {
    journal: Journal,
    layout: Layout,
    /// Requests per second to each server.
    rate: f64,
    /// The CPUs of the generator.
    generator: Vec<usize>,
    seed: u64,
    dense: Option<Dense>,
    interrupt: Arc<AtomicBool>,
    // The load ends before the servers do.
    dial: Option<Dial>,
    farm: Option<Farm>,
}

impl Subject {
    /// A farm that is built when the search starts it.
    #[must_use]
    pub fn new(
        journal: Journal,
        layout: Layout,
        rate: f64,
        (generator, seed): (Vec<usize>, u64),
        dense: Option<Duration>,
        interrupt: Arc<AtomicBool>,
    ) -> Subject {
        let dense = dense.map(|timeout| Dense { timeout, levels: 0, entered: 0 });
        Subject { journal, layout, rate, generator, seed, dense, interrupt, dial: None, farm: None }
    }

    /// Whether servers are held to their quota; `None` before any was started.
    #[must_use]
    pub fn has_quota(&self) -> Option<bool> {
        self.farm.as_ref().map(Farm::has_quota)
    }

    /// Of the levels that were set, the share in dense mode; `None` without it.
    #[must_use]
    pub fn dense_share(&self) -> Option<f64> {
        self.dense.as_ref().filter(|dense| dense.levels > 0).map(|dense| dense.entered as f64 / dense.levels as f64)
    }

    /// Enters dense mode where its conditions hold, by the CPU use from `before` on; whether it did.
    fn enter_dense(&mut self, count: usize, before: &CpuTime) -> Result<bool, String> {
        let (Some(dense), Some(farm)) = (&mut self.dense, &self.farm) else { return Ok(false) };
        let now = CpuTime::of(&self.layout.cpus).map_err(|why| why.to_string())?;
        let used = now.share_since(before).unwrap_or(0.0);
        let enters = is_dense(count, self.layout.quota, self.layout.cpus.len(), used);
        dense.levels += 1;
        if enters {
            farm.defer(Some(dense.timeout))?;
            dense.entered += 1;
        }
        Ok(enters)
    }

    /// Keeps the load up for so long.
    pub fn stay(&self, time: Duration) {
        self.wait_until(monotonic_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
    }

    fn wait_until(&self, at_ns: u64) {
        while !self.interrupt.load(Ordering::Relaxed) {
            let left = at_ns.saturating_sub(monotonic_ns());
            if left == 0 {
                return;
            }
            thread::sleep(Duration::from_nanos(left.min(GLANCE_NS)));
        }
    }

    fn dial(&mut self) -> Result<&mut Dial, String> {
        self.dial.as_mut().ok_or_else(|| "the load has not been started".to_owned())
    }

    fn load(&self, addresses: &[SocketAddr]) -> Result<Load, String> {
        let rate = self.rate * addresses.len() as f64;
        // Poisson arrivals that are dealt at random are independent Poisson arrivals at each server.
        let drive = Drive::Open { arrival: Arrival::Poisson, profile: Profile::steady(rate) };
        let mut load = Load::new(scenario(addresses)?, drive, Stop::Count(u64::MAX));
        load.pool = Pool::Shared;
        load.connections = CONNECTIONS * addresses.len();
        load.timeout = TIMEOUT;
        load.seed = self.seed;
        load.pin = if self.generator.is_empty() { Pin::Free } else { Pin::On(self.generator.clone()) };
        load.threads = self.generator.len().max(1);
        Ok(load)
    }
}

/// One operation for each server, all equally frequent: a request of each file of the page.
fn scenario(addresses: &[SocketAddr]) -> Result<Scenario, String> {
    let (mut origins, mut operations) = ("[origins]\n".to_owned(), String::new());
    for (at, address) in addresses.iter().enumerate() {
        let _ = writeln!(origins, "s{at} = \"http://{address}\"");
        let _ = writeln!(operations, "[operations.s{at}]\nweight = 1");
        for file in content::files() {
            let _ = writeln!(operations, "[[operations.s{at}.requests]]\nget = \"{}\"\norigin = \"s{at}\"", file.path);
        }
    }
    let base = addresses.first().map(|address| format!("http://{address}")).ok_or("there is no server")?;
    file::parse("web-farm", (origins + &operations).as_bytes(), Some(&base), Path::new("."))
        .map_err(|why| why.to_string())
}

/// The number of servers of a level.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
pub fn servers(level: f64) -> usize {
    (level.round() as usize).max(1)
}

fn words(why: LoadError) -> String {
    why.to_string()
}

impl UnderLoad for Subject {
    fn start(&mut self, _: usize) -> Result<(), String> {
        self.dial = None;
        // Servers that run and are under no load are as new: they keep no state.
        if self.farm.as_mut().is_some_and(|farm| farm.fallen().is_none()) {
            return Ok(());
        }
        self.farm = None;
        self.farm = Some(Farm::new(&self.journal, self.layout.clone())?);
        Ok(())
    }

    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), String> {
        self.dial = None;
        let farm = self.farm.as_mut().ok_or("there is no farm")?;
        let count = servers(level);
        farm.grow(count)?;
        if self.dense.is_some() {
            // Every level begins in the default mode, as its conditions are found.
            farm.defer(None)?;
        }
        let addresses = farm.addresses(count);
        let mut dial = Dial::start(self.load(&addresses)?).map_err(words)?;
        let at = dial.set(self.rate * count as f64).map_err(words)?;
        self.dial = Some(dial);
        let before = CpuTime::of(&self.layout.cpus).map_err(|why| why.to_string())?;
        self.wait_until(at + settle.0);
        if self.enter_dense(count, &before)? {
            self.wait_until(monotonic_ns() + settle.0);
        }
        Ok(())
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, String> {
        let asked = self.dial()?.ask(lasting, patience(qos)).map_err(words)?;
        point::reached("farm-loaded");
        self.wait_until(asked.begin_ns);
        let before = CpuTime::of(&self.layout.cpus);
        self.wait_until(asked.end_ns);
        let after = CpuTime::of(&self.layout.cpus);
        let interrupt = Arc::clone(&self.interrupt);
        let Some(part) = self.dial()?.collect(asked, &interrupt).map_err(words)? else {
            // Whoever interrupts takes no more readings.
            return Ok(Reading::default());
        };
        let mut reading = reading(&part, qos);
        if let Some(share) = after.and_then(|after| Ok(after.share_since(&before?))).map_err(|why| why.to_string())? {
            reading.utilization.insert(CPU.to_owned(), share);
        }
        match self.farm.as_mut().and_then(Farm::fallen) {
            Some(why) => Err(why),
            None => Ok(reading),
        }
    }

    fn drain(&mut self) -> Result<(), String> {
        // Every level has a load of its own, with new connections: without one nothing is on its way.
        self.dial = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_mode_needs_all_three_conditions() {
        assert!(is_dense(4, 1.0, 2, 0.5));
        assert!(!is_dense(1, 1.0, 2, 0.9), "fewer servers than CPUs");
        assert!(!is_dense(3, 1.0, 2, 0.9), "three CPUs promised of two");
        assert!(is_dense(40, 0.1, 2, 0.9) && !is_dense(39, 0.1, 2, 0.9));
        assert!(!is_dense(4, 1.0, 2, 0.49), "CPUs at rest");
    }

    #[test]
    fn every_server_gets_the_same_share_of_requests_for_every_file() {
        let addresses: Vec<SocketAddr> = (1..=5).map(|last| SocketAddr::from(([10, 1, 1, last], 80))).collect();
        let scenario = scenario(&addresses).expect("a scenario");
        let mix = scenario.mix();
        assert_eq!(mix.len(), 5);
        assert!(mix.values().all(|share| (share - 0.2).abs() < 1e-12), "{mix:?}");
        assert_eq!([0.2, 1.4, 1.6, 99.5].map(servers), [1, 1, 2, 100]);
    }
}
