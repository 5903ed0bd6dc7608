//! Load generators at several sites that are steered from here while they run: one level of users, one window at a time.
//!
//! A load whose schedule is known beforehand goes to its sites as a whole ([`crate::spread`]). Here the level follows what is
//! measured, so that every change and every window is ordered as it comes: at one moment of all sites' clocks, far enough ahead
//! that each has heard of it. A site that is lost fails the load, and the error names it: users who are missing cannot be
//! counted as served. The lab knows neither orders nor parts: it carries them.

use crate::link::{AgentLink, LinkError};
use crate::spread::SitesError;
use baremark_model::site::{Environment, SiteError};
use baremark_model::wire::{FromAgent, ToAgent};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A site that shall generate load.
pub struct Place {
    /// Its name, for whoever reads the result.
    pub name: String,
    /// Makes the environment that its agent comes from, on the site's own thread.
    pub environment: MakeEnvironment,
    /// Ports of this machine's loopback that it needs, each with a free port of its own that may lead here.
    pub offers: Vec<(u16, u16)>,
}

/// Makes an environment, or says why it cannot be had, with the remedy.
pub type MakeEnvironment = Box<dyn FnOnce() -> Result<Box<dyn Environment>, String> + Send>;

/// Writes the order of a site, given its place among them and where it reaches the ports that it was offered.
pub type MakeOrder = dyn Fn(usize, &[SocketAddr]) -> Result<Value, String> + Send + Sync;

/// What comes from a site.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// A second has passed.
    Second {
        /// Which, from 0.
        second: usize,
        /// What happened in it.
        part: Value,
    },
    /// A window is over.
    Window {
        /// Its number.
        id: u64,
        /// What was measured in it.
        part: Value,
    },
}

/// Between an order and the moment that it is for: each site has heard of it by then.
const NOTICE_NS: u64 = 300_000_000;
/// The same for a window: a site that hears of it too late cannot count it and ends the load, also one that is only
/// busy.
const WINDOW_NOTICE_NS: u64 = 1_000_000_000;
/// How often a site's thread looks for orders and frames.
const GLANCE: Duration = Duration::from_millis(5);
/// How long a site may take to come to be and to prepare its part.
const READY: Duration = Duration::from_secs(600);

/// A load at several sites under way. Dropping it ends it everywhere.
pub struct Generators {
    sites: Vec<Site>,
    heard: Receiver<(usize, Result<Told, LinkError>)>,
    clock_ns: fn() -> u64,
}

struct Site {
    name: String,
    orders: Option<Sender<Order>>,
    /// Its clock less ours, and by how much that may be off.
    offset_ns: i64,
    error_ns: u64,
    in_flight: u64,
    thread: Option<JoinHandle<()>>,
}

/// What a site's thread is to do.
enum Order {
    ReadClock,
    Begin { begin_ns: u64 },
    Send(ToAgent),
}

/// What a site's thread tells.
enum Told {
    Ready,
    Clock { offset_ns: i64, error_ns: u64 },
    Frame(FromAgent),
}

impl Generators {
    /// Starts an agent at each place, side by side, and lets all begin at one moment, at level 0.
    ///
    /// # Errors
    /// The first site that could not take part, by its name; interrupted.
    pub fn start(
        places: Vec<Place>,
        order: &Arc<MakeOrder>,
        clock_ns: fn() -> u64,
        interrupt: &Arc<AtomicBool>,
    ) -> Result<Generators, SitesError> {
        let (sender, heard) = channel();
        let mut all = Generators { sites: Vec::new(), heard, clock_ns };
        for (index, place) in places.into_iter().enumerate() {
            let (orders, ordered) = channel();
            let name = place.name.clone();
            let (order, interrupt, sender) = (Arc::clone(order), Arc::clone(interrupt), sender.clone());
            let thread = thread::Builder::new().name(format!("generator {index}")).spawn(move || {
                let told = |told| drop(sender.send((index, told)));
                let order = |addresses: &[SocketAddr]| order(index, addresses);
                if let Err(why) = attend(place, &order, &ordered, clock_ns, &interrupt, &told) {
                    told(Err(why));
                }
            });
            let thread = thread.map_err(|source| SitesError::Site {
                name: name.clone(),
                why: SiteError::Io { what: "starting a thread".to_owned(), source }.into(),
            })?;
            let orders = Some(orders);
            all.sites.push(Site { name, orders, offset_ns: 0, error_ns: 0, in_flight: 0, thread: Some(thread) });
        }
        let deadline = Instant::now() + READY;
        for _ in 0..all.sites.len() {
            all.expect(deadline)?;
        }
        // Clocks are read when nothing is being started any more, for that would make their answers slow.
        for index in 0..all.sites.len() {
            all.order(index, Order::ReadClock)?;
            if let (site, Told::Clock { offset_ns, error_ns }) = all.expect(deadline)? {
                (all.sites[site].offset_ns, all.sites[site].error_ns) = (offset_ns, error_ns);
            }
        }
        let begin_ns = clock_ns() + NOTICE_NS;
        for index in 0..all.sites.len() {
            all.order(index, Order::Begin { begin_ns: all.there(index, begin_ns) })?;
        }
        Ok(all)
    }

    /// The sites' names, each with by how much its clock may be off, in ns.
    pub fn sites(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sites.iter().map(|site| (site.name.as_str(), site.error_ns))
    }

    /// Changes the level of all sites together, at one moment.
    ///
    /// # Errors
    /// The site that is lost.
    pub fn set(&mut self, level: f64) -> Result<(), SitesError> {
        let at_ns = (self.clock_ns)() + NOTICE_NS;
        for index in 0..self.sites.len() {
            let at_ns = self.there(index, at_ns);
            self.order(index, Order::Send(ToAgent::SetLevel { at_ns, level }))?;
        }
        Ok(())
    }

    /// Asks every site for the same window; returns when it begins, by the clock here.
    ///
    /// # Errors
    /// The site that is lost.
    pub fn ask(&mut self, id: u64, lasting_ns: u64, patience_ns: u64) -> Result<u64, SitesError> {
        let begin_ns = (self.clock_ns)() + WINDOW_NOTICE_NS;
        for index in 0..self.sites.len() {
            let begin_ns = self.there(index, begin_ns);
            self.order(index, Order::Send(ToAgent::AskWindow { id, begin_ns, lasting_ns, patience_ns }))?;
        }
        Ok(begin_ns)
    }

    /// Operations on their way, as each site has last told.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.sites.iter().map(|site| site.in_flight).sum()
    }

    /// What has come from a site, by its place, waiting for it at most so long.
    ///
    /// # Errors
    /// The site that is lost, or does not take part as it should.
    pub fn next(&mut self, within: Duration) -> Result<Option<(usize, Heard)>, SitesError> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (site, told) = match self.heard.recv_timeout(left) {
                Ok((site, told)) => (site, told.map_err(|why| self.lost(site, why))?),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(None),
            };
            let heard = match told {
                Told::Frame(FromAgent::LoadSecond { second, part }) => Heard::Second { second, part },
                Told::Frame(FromAgent::LoadWindow { id, part }) => Heard::Window { id, part: *part },
                Told::Frame(FromAgent::LoadInFlight { operations }) => {
                    self.sites[site].in_flight = operations;
                    continue;
                }
                Told::Frame(FromAgent::Failed { what, why }) => {
                    return Err(self.lost(site, LinkError::Refused { what, why }));
                }
                Told::Frame(other) => return Err(self.lost(site, LinkError::OutOfTurn(format!("{other:?}")))),
                Told::Ready | Told::Clock { .. } => continue,
            };
            return Ok(Some((site, heard)));
        }
    }

    fn expect(&mut self, deadline: Instant) -> Result<(usize, Told), SitesError> {
        match self.heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((site, told)) => told.map(|told| (site, told)).map_err(|why| self.lost(site, why)),
            // Each site has limits of its own, which end before.
            Err(_) => Err(SitesError::Interrupted),
        }
    }

    /// A moment of the clock here by that of a site.
    fn there(&self, index: usize, at_ns: u64) -> u64 {
        at_ns.saturating_add_signed(self.sites[index].offset_ns)
    }

    fn order(&mut self, index: usize, order: Order) -> Result<(), SitesError> {
        let sent = self.sites[index].orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if sent {
            return Ok(());
        }
        // Its thread has ended, and has told why.
        loop {
            match self.heard.try_recv() {
                Ok((site, Err(why))) => return Err(self.lost(site, why)),
                Ok(_) => {}
                Err(_) => return Err(self.lost(index, LinkError::OutOfTurn("it has ended".to_owned()))),
            }
        }
    }

    fn lost(&self, index: usize, why: LinkError) -> SitesError {
        match why {
            LinkError::Interrupted => SitesError::Interrupted,
            why => SitesError::Site { name: self.sites[index].name.clone(), why },
        }
    }
}

impl Drop for Generators {
    fn drop(&mut self) {
        for site in &mut self.sites {
            site.orders = None;
        }
        // A site is gone when its thread is.
        for thread in self.sites.iter_mut().filter_map(|site| site.thread.take()) {
            drop(thread.join());
        }
    }
}

/// Starts an agent and hands orders to it and frames from it, until nobody orders any more.
fn attend(
    Place { environment, offers, .. }: Place,
    order: &dyn Fn(&[SocketAddr]) -> Result<Value, String>,
    ordered: &Receiver<Order>,
    clock_ns: fn() -> u64,
    interrupt: &AtomicBool,
    told: &dyn Fn(Result<Told, LinkError>),
) -> Result<(), LinkError> {
    let environment = environment().map_err(LinkError::Host)?;
    environment.probe().map_err(SiteError::from)?;
    let mut link = AgentLink::start(&*environment, interrupt)?;
    let offers = offers.into_iter().map(|(here, there)| link.site.offer(here, there));
    let addresses = offers.collect::<Result<Vec<_>, _>>()?;
    let order = order(&addresses).map_err(LinkError::Host)?;
    link.prepare_load(&order)?;
    told(Ok(Told::Ready));
    loop {
        let quiet = match ordered.try_recv() {
            Ok(Order::ReadClock) => {
                let (offset_ns, error_ns) = link.clock_offset(clock_ns)?;
                told(Ok(Told::Clock { offset_ns, error_ns }));
                false
            }
            Ok(Order::Begin { begin_ns }) => link.steer_load(begin_ns).map(|()| false)?,
            Ok(Order::Send(message)) => link.send(&message).map(|()| false)?,
            Err(TryRecvError::Empty) => true,
            Err(TryRecvError::Disconnected) => return Ok(()),
        };
        match link.heard()? {
            Some(frame) => told(Ok(Told::Frame(frame))),
            None if quiet => thread::sleep(GLANCE),
            None => {}
        }
    }
}
