//! A farm under load, as a search sees it: the level is the number of servers, each with the same rate of requests.

use crate::content;
use crate::farm::{Farm, Layout};
use baremark_journal::Journal;
use baremark_lab::search::{SubjectError, UnderLoad};
use baremark_load::arrival::Arrival;
use baremark_load::load::{Drive, Load, Pin, Pool, Stop};
use baremark_load::profile::Profile;
use baremark_load::rate_control::{RateControl, wait_until};
use baremark_load::reading::{patience, reading};
use baremark_load::record::Part;
use baremark_load::scenario::{Scenario, file};
use baremark_model::qos::{Qos, Reading};
use baremark_model::units::Nanos;
use baremark_sys::clock::monotonic_ns;
use baremark_sys::point;
use baremark_sys::wake::sleep_unless;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The name of the servers' use of their CPUs in readings: their own processor time over that of the CPUs, other programs apart.
pub const CPU: &str = "cpu";
/// The name of the share of windows in dense mode, in readings of farms that may be in it.
pub const DENSE: &str = "dense";
/// A window whose links were not in one mode is measured so many times.
const ATTEMPTS: usize = 3;
/// Connections by server: one for each request that is under way, and no more than the servers could ever use.
const CONNECTIONS: usize = 8;
const TIMEOUT: Nanos = Nanos(2_000_000_000);

/// Dense mode: fewer interrupts for many servers, while its conditions hold.
struct Dense {
    /// How long packets wait for others.
    timeout: Duration,
    /// Whether the level that is set is in dense mode.
    on: bool,
    /// Windows that were measured, and those of them in dense mode.
    windows: u64,
    entered: u64,
}

/// Processor time of all servers up to a moment.
struct CpuTime {
    at_ns: u64,
    cpu_ns: u64,
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
    /// Settling time and servers of the level that is set.
    settle: Nanos,
    count: usize,
    interrupt: Arc<AtomicBool>,
    // The load ends before the servers do.
    dial: Option<RateControl>,
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
        let dense = dense.map(|timeout| Dense { timeout, on: false, windows: 0, entered: 0 });
        Subject {
            journal,
            layout,
            rate,
            generator,
            seed,
            dense,
            settle: Nanos(0),
            count: 0,
            interrupt,
            dial: None,
            farm: None,
        }
    }

    /// Whether servers are held to their quota; `None` before any was started.
    #[must_use]
    pub fn has_quota(&self) -> Option<bool> {
        self.farm.as_ref().map(Farm::has_quota)
    }

    /// Of the windows that were measured, the share in dense mode; `None` without it.
    #[must_use]
    pub fn dense_share(&self) -> Option<f64> {
        self.dense.as_ref().filter(|dense| dense.windows > 0).map(|dense| dense.entered as f64 / dense.windows as f64)
    }

    /// The share of their CPUs that the servers used between two readings.
    fn share(&self, before: &CpuTime, after: &CpuTime) -> f64 {
        let cpus = self.layout.cpus.len().max(1) as f64;
        let time_ns = after.at_ns.saturating_sub(before.at_ns).max(1) as f64;
        after.cpu_ns.saturating_sub(before.cpu_ns) as f64 / time_ns / cpus
    }

    /// Enters dense mode where its conditions hold, by the CPU use from `before` on, and settles in it.
    fn enter_dense(&mut self, count: usize, before: &CpuTime) -> Result<(), SubjectError> {
        let Some(timeout) = self.dense.as_ref().map(|dense| dense.timeout) else { return Ok(()) };
        if self.is_dense(count, self.share(before, &used_by(self.farm.as_ref())?)) {
            self.turn(Some(timeout))?;
            self.stay(Duration::from_nanos(self.settle.0));
        }
        Ok(())
    }

    fn is_dense(&self, count: usize, used: f64) -> bool {
        is_dense(count, self.layout.quota, self.layout.cpus.len(), used)
    }

    /// Brings all links into dense mode, or back to the default.
    fn turn(&mut self, timeout: Option<Duration>) -> Result<(), SubjectError> {
        if let (Some(dense), Some(farm)) = (&mut self.dense, &self.farm) {
            farm.defer(timeout)?;
            dense.on = timeout.is_some();
        }
        Ok(())
    }

    /// Why a window does not count, after which links are in the mode that holds: another program has changed them, or the conditions of dense
    /// mode held before it and do not hold under it.
    fn out_of_mode(&mut self, used: f64) -> Result<Option<String>, SubjectError> {
        let (Some(dense), Some(farm)) = (&self.dense, &self.farm) else { return Ok(None) };
        let mode = dense.on.then_some(dense.timeout);
        if let Some(link) = farm.in_other_mode(mode)? {
            self.turn(mode)?;
            return Ok(Some(format!("another program has changed {link}")));
        }
        if mode.is_some() && !self.is_dense(self.count, used) {
            self.turn(None)?;
            return Ok(Some("the conditions of dense mode held no longer under load".to_owned()));
        }
        Ok(None)
    }

    /// One window of the load: its counts, and the servers' use of their CPUs.
    fn window(&mut self, qos: &Qos, lasting: Nanos) -> Result<Option<(Part, f64)>, SubjectError> {
        let dial = self.dial.as_mut().ok_or("the load has not been started")?;
        let farm = self.farm.as_ref();
        point::reached("farm-loaded");
        let measured =
            dial.metered((lasting, patience(qos)), &self.interrupt, || used_by(farm)).map_err(SubjectError::of)?;
        if let Some(why) = self.farm.as_mut().and_then(Farm::fallen) {
            return Err(why.into());
        }
        let Some((part, before, after)) = measured else { return Ok(None) };
        Ok(Some((part, self.share(&before?, &after?))))
    }

    /// Keeps the load up for so long.
    pub fn stay(&self, time: Duration) {
        sleep_unless(|| self.interrupt.load(Ordering::Relaxed), time);
    }

    fn load(&self, addresses: &[SocketAddr]) -> Result<Load, SubjectError> {
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
fn scenario(addresses: &[SocketAddr]) -> Result<Scenario, SubjectError> {
    let (mut origins, mut operations) = ("[origins]\n".to_owned(), String::new());
    for (at, address) in addresses.iter().enumerate() {
        let _ = writeln!(origins, "s{at} = \"http://{address}\"");
        let _ = writeln!(operations, "[operations.s{at}]\nweight = 1");
        for file in content::files() {
            let _ = writeln!(operations, "[[operations.s{at}.requests]]\nget = \"{}\"\norigin = \"s{at}\"", file.path);
        }
    }
    let base = addresses.first().map(|address| format!("http://{address}")).ok_or("there is no server")?;
    file::parse("web-farm", (origins + &operations).as_bytes(), Some(&base), Path::new(".")).map_err(SubjectError::of)
}

/// What the servers of a farm have used up to now.
fn used_by(farm: Option<&Farm>) -> Result<CpuTime, SubjectError> {
    let cpu_ns = farm.and_then(Farm::cpu_ns).ok_or("a web server's CPU time is unknown")?;
    Ok(CpuTime { at_ns: monotonic_ns(), cpu_ns })
}

/// The number of servers of a level.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
pub fn servers(level: f64) -> usize {
    (level.round() as usize).max(1)
}

impl UnderLoad for Subject {
    fn start(&mut self, _: usize) -> Result<(), SubjectError> {
        self.dial = None;
        // Servers that run and are under no load are as new: they keep no state.
        if self.farm.as_mut().is_some_and(|farm| farm.fallen().is_none()) {
            return Ok(());
        }
        self.farm = None;
        self.farm = Some(Farm::new(&self.journal, self.layout.clone())?);
        Ok(())
    }

    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), SubjectError> {
        self.dial = None;
        let farm = self.farm.as_mut().ok_or("there is no farm")?;
        let count = servers(level);
        farm.grow(count)?;
        let addresses = farm.addresses(count);
        // Every level begins in the default mode, as its conditions are found.
        self.turn(None)?;
        (self.settle, self.count) = (settle, count);
        let mut dial = RateControl::start(self.load(&addresses)?).map_err(SubjectError::of)?;
        let at = dial.set(self.rate * count as f64).map_err(SubjectError::of)?;
        self.dial = Some(dial);
        let before = used_by(self.farm.as_ref())?;
        wait_until(at + settle.0, &self.interrupt);
        self.enter_dense(count, &before)
    }

    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, SubjectError> {
        let mut reason = String::new();
        for _ in 0..ATTEMPTS {
            let Some((part, share)) = self.window(qos, lasting)? else {
                // Whoever interrupts takes no more readings.
                return Ok(Reading::default());
            };
            if let Some(why) = self.out_of_mode(share)? {
                reason = why;
                self.stay(Duration::from_nanos(self.settle.0));
                continue;
            }
            let mut reading = reading(&part, qos);
            reading.utilization.insert(CPU.to_owned(), share);
            if let Some(dense) = &mut self.dense {
                reading.utilization.insert(DENSE.to_owned(), f64::from(u8::from(dense.on)));
                dense.windows += 1;
                dense.entered += u64::from(dense.on);
            }
            return Ok(reading);
        }
        Err(format!("{ATTEMPTS} windows did not count: {reason}").into())
    }

    fn drain(&mut self) -> Result<(), SubjectError> {
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
