//! Who makes the load of an application: threads of this process, or agents at the sites that `load.on` names.

use crate::users;
use baremark_lab::generators::{Generators, Heard, MakeEnvironment, MakeOrder, Place};
use baremark_lab::search::SubjectError;
use baremark_load::document::Document;
use baremark_load::load::{Load, Progress};
use baremark_load::order::Order;
use baremark_load::rate_control::{Asked, MOST_LOOKS, RateControl};
use baremark_load::record::{MergedSeconds, Part, SecondPart};
use baremark_model::environments;
use baremark_model::site::Environment;
use baremark_model::units::Nanos;
use baremark_sys::clock::monotonic_ns;
use baremark_sys::network::HeldPort;
use serde::Deserialize as _;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often somebody who waits looks up.
const GLANCE: Duration = Duration::from_millis(20);
/// How long after its end a window may take to come from all sites.
const HOMEWARD_NS: u64 = 20_000_000_000;

/// Makes the environment of a load generator's site: `native`, `container` or `ssh:HOST[:PORT]`, with the settings of
/// environments that the topology has; else why it cannot be, with the remedy.
pub type LoadSites = fn(&str, &crate::topology::Environments) -> Result<Box<dyn Environment>, String>;

/// The seconds that have passed under a load.
pub type Seconds = Arc<Mutex<Vec<Progress>>>;

/// Who makes a load.
pub enum Generator {
    /// This process.
    Here(Box<RateControl>),
    /// Agents elsewhere.
    Sites(Box<Sites>),
}

/// A window that was requested.
pub enum Window {
    /// Of this process.
    Here(Asked),
    /// Of sites: its number, and until when it is waited for.
    Sites {
        /// Its number.
        id: u64,
        /// Of this machine's monotonic clock.
        until_ns: u64,
    },
}

/// What a site has measured in a window.
pub(crate) struct SitePart {
    /// Its name.
    pub name: String,
    /// Whether it uses the CPUs of this machine.
    pub here: bool,
    /// By how much its clock may be off, in ns.
    pub clock_error_ns: u64,
    /// What it measured.
    pub part: Part,
}

/// Agents that make one load together.
pub struct Sites {
    generators: Generators,
    /// Of each, whether it uses the CPUs of this machine.
    here: Vec<bool>,
    operations: Vec<String>,
    seconds: Seconds,
    /// Seconds that not every site has told of.
    coming: MergedSeconds,
    windows: u64,
    /// What the sites have told of the latest window.
    latest: BTreeMap<usize, Part>,
    latest_id: u64,
    // Nobody else is given a port that may lead here while the sites are there.
    _ports: Vec<HeldPort>,
}

impl Generator {
    /// In this process.
    ///
    /// # Errors
    /// Whatever makes the load impossible.
    pub(crate) fn here(load: Load, seconds: Seconds) -> Result<Generator, SubjectError> {
        let watch = move |progress: &Progress| {
            seconds.lock().unwrap_or_else(PoisonError::into_inner).push(progress.clone());
        };
        RateControl::start_watched(load, watch).map(|dial| Generator::Here(Box::new(dial))).map_err(SubjectError::of)
    }

    /// Sets the number of users.
    ///
    /// # Errors
    /// When the load has ended, or a site is lost.
    pub(crate) fn set(&mut self, level: f64) -> Result<(), SubjectError> {
        match self {
            Generator::Here(dial) => dial.set(level).map(drop).map_err(SubjectError::of),
            Generator::Sites(sites) => sites.generators.set(level).map_err(SubjectError::of),
        }
    }

    /// Begins a window.
    ///
    /// # Errors
    /// As [`Generator::set`].
    pub(crate) fn ask(&mut self, lasting: Nanos) -> Result<Window, SubjectError> {
        let patience = users::patience();
        match self {
            Generator::Here(dial) => dial.ask(lasting, patience).map(Window::Here).map_err(SubjectError::of),
            Generator::Sites(sites) => sites.ask(lasting, patience),
        }
    }

    /// Waits for a window; `None` when interrupted.
    ///
    /// # Errors
    /// As [`Generator::set`].
    pub(crate) fn collect(&mut self, window: Window, interrupt: &AtomicBool) -> Result<Option<Part>, SubjectError> {
        match (self, window) {
            (Generator::Here(dial), Window::Here(asked)) => dial.collect(asked, interrupt).map_err(SubjectError::of),
            (Generator::Sites(sites), Window::Sites { id, until_ns }) => sites.collect(id, until_ns, interrupt),
            _ => Err("a window of another load".into()),
        }
    }

    /// Operations on their way.
    ///
    /// # Errors
    /// As [`Generator::set`].
    pub(crate) fn in_flight(&mut self) -> Result<u64, SubjectError> {
        match self {
            Generator::Here(dial) => Ok(dial.in_flight()),
            Generator::Sites(sites) => {
                sites.hear(Duration::ZERO)?;
                Ok(sites.generators.in_flight())
            }
        }
    }

    /// Ends the load and returns what there is; of sites nothing, for who interrupts a load of several has no use for a part.
    ///
    /// # Errors
    /// When it had failed meanwhile.
    pub(crate) fn stop(self) -> Result<Part, SubjectError> {
        match self {
            Generator::Here(dial) => dial.stop().map_err(SubjectError::of),
            Generator::Sites(sites) => Ok(Part { interrupted: true, ..Part::new(&sites.operations) }),
        }
    }

    /// CPUs of this machine that it used in the latest window, of which `whole` is what all its sites have measured.
    pub(crate) fn cpus_used_here(&self, whole: &Part) -> f64 {
        match self {
            Generator::Here(_) => whole.cpus_used(),
            Generator::Sites(sites) => {
                sites.latest.iter().filter(|(at, _)| sites.here[**at]).map(|(_, part)| part.cpus_used()).sum()
            }
        }
    }

    /// What each site has measured in the latest window; empty where the load is made here.
    pub(crate) fn parts(&self) -> Vec<SitePart> {
        let Generator::Sites(sites) = self else { return Vec::new() };
        let named = sites.generators.sites().enumerate();
        named
            .filter_map(|(at, (name, clock_error_ns))| {
                let part = sites.latest.get(&at)?.clone();
                Some(SitePart { name: name.to_owned(), here: sites.here[at], clock_error_ns, part })
            })
            .collect()
    }
}

impl Sites {
    /// Agents at these sites, each with its share of the users.
    ///
    /// # Errors
    /// The first site that cannot take part, by its name.
    pub(crate) fn start(
        places: Vec<(String, MakeEnvironment)>,
        order: Order,
        seconds: Seconds,
        interrupt: &Arc<AtomicBool>,
    ) -> Result<Sites, SubjectError> {
        let count = places.len() as u64;
        let here = places.iter().map(|(name, _)| is_here(name)).collect();
        let mut sites = Vec::new();
        let mut ports = Vec::new();
        for (at, (name, environment)) in places.into_iter().enumerate() {
            let name = format!("{} ({name})", at + 1);
            let mut offers = Vec::new();
            for front in &order.addresses {
                let there = HeldPort::any().map_err(|why| format!("looking for a free port: {why}"))?;
                offers.push((front.port(), there.number()));
                ports.push(there);
            }
            sites.push(Place { name, environment, offers });
        }
        let operations = order.clone().load().map_err(SubjectError::of)?.scenario.operation_names();
        let of_site = move |at: usize, addresses: &[SocketAddr]| {
            let own = Order { addresses: addresses.to_vec(), ..order.of_site(at as u64, count) };
            serde_json::to_value(own).map_err(|why| format!("writing JSON: {why}"))
        };
        let make_order: Arc<MakeOrder> = Arc::new(of_site);
        let generators = Generators::start(sites, &make_order, monotonic_ns, interrupt).map_err(SubjectError::of)?;
        Ok(Sites {
            generators,
            here,
            operations,
            seconds,
            coming: MergedSeconds::default(),
            windows: 0,
            latest: BTreeMap::new(),
            latest_id: 0,
            _ports: ports,
        })
    }

    fn ask(&mut self, lasting: Nanos, patience: Nanos) -> Result<Window, SubjectError> {
        self.windows += 1;
        self.latest.clear();
        self.latest_id = self.windows;
        let begin_ns = self.generators.ask(self.windows, lasting.0, patience.0).map_err(SubjectError::of)?;
        let until_ns = begin_ns + lasting.0 + patience.0 + HOMEWARD_NS;
        Ok(Window::Sites { id: self.windows, until_ns })
    }

    fn collect(&mut self, id: u64, until_ns: u64, interrupt: &AtomicBool) -> Result<Option<Part>, SubjectError> {
        let is_there = looked_for(until_ns, || {
            let is_there = self.latest_id == id && self.latest.len() >= self.generators.sites().count();
            if !is_there && !interrupt.load(Ordering::Relaxed) {
                self.hear(GLANCE)?;
                return Ok(None);
            }
            Ok(Some(is_there))
        })?;
        match is_there {
            Some(true) => {}
            Some(false) => return Ok(None),
            None => {
                let silent = self.generators.sites().enumerate().find(|(at, _)| !self.latest.contains_key(at));
                let name = silent.map_or("?", |(_, (name, _))| name);
                return Err(format!("site {name}: it has not sent its part of a window").into());
            }
        }
        let mut whole = Part::new(&self.operations);
        for part in self.latest.values() {
            whole.merge(part).map_err(SubjectError::of)?;
        }
        Ok(Some(whole))
    }

    /// Takes what the sites have told, waiting for the first of it at most so long.
    fn hear(&mut self, within: Duration) -> Result<(), SubjectError> {
        let mut wait = within;
        let said = |why: serde_json::Error| format!("a site's result cannot be read: {why}");
        while let Some((site, heard)) = self.generators.next(wait).map_err(SubjectError::of)? {
            wait = Duration::ZERO;
            match heard {
                Heard::Second { second, part } => {
                    let (part, sites) = (SecondPart::deserialize(part).map_err(said)?, self.generators.sites().count());
                    self.coming.add(second, &part, sites, &mut |second, part| {
                        self.seconds.lock().unwrap_or_else(PoisonError::into_inner).push(Progress { second, part });
                    });
                }
                Heard::Window { id, part } if id == self.latest_id => {
                    self.latest.insert(site, Part::deserialize(part).map_err(said)?);
                }
                // Of a window that nobody waited for.
                Heard::Window { .. } => {}
            }
        }
        Ok(())
    }
}

/// What `look` says; `None` when it has said nothing until a moment of this machine's monotonic clock and [`MOST_LOOKS`] times after that: what came
/// while this process was stopped has not been heard.
fn looked_for<T>(
    until_ns: u64,
    mut look: impl FnMut() -> Result<Option<T>, SubjectError>,
) -> Result<Option<T>, SubjectError> {
    let mut vain = 0;
    while vain < MOST_LOOKS {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        vain += u32::from(monotonic_ns() >= until_ns);
    }
    Ok(None)
}

/// What each site contributed to a window, for the result.
pub(crate) fn rows(load: &Load, parts: &[SitePart]) -> Vec<crate::document::SiteRow> {
    let of = |site: &SitePart| {
        let document = Document::new(load, &site.part);
        let sum = |of: fn(&baremark_load::document::OperationRow) -> u64| document.operations.iter().map(of).sum();
        crate::document::SiteRow {
            name: site.name.clone(),
            here: site.here,
            succeeded: sum(|row| row.succeeded),
            failed: sum(|row| row.failed),
            failures: document.failures.clone(),
            cpus_used: site.part.cpus_used(),
            generator: document.generator,
            clock_error_ns: site.clock_error_ns,
        }
    };
    parts.iter().map(of).collect()
}

/// Whether a generator at a place such as `container` or `ssh:HOST` uses the CPUs of this machine.
fn is_here(place: &str) -> bool {
    let kind = place.split_once(':').map_or(place, |(kind, _)| kind);
    environments::can(kind).on_these_processors()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_on_another_machine_uses_none_of_these_cpus() {
        assert_eq!(["native", "container", "ssh:load.example:2222"].map(is_here), [true, true, false]);
    }

    /// Of a run that was stopped and went on a minute later, "site 1 (native): it has not sent its part of a window" was said: nobody had listened.
    #[test]
    fn what_came_while_this_process_was_stopped_is_heard() {
        let mut looks = 0;
        let second = looked_for(0, || {
            looks += 1;
            Ok((looks == 2).then_some(looks))
        });
        assert!(second.is_ok_and(|found| found == Some(2)));
        assert!(looked_for(0, || Ok(None::<u32>)).is_ok_and(|found| found.is_none()), "it is not looked for for ever");
    }
}
