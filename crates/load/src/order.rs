//! A load as it is written down: what a command line says, and what travels to a site that shall take part in it.
//!
//! Files are read where they were named; the order carries their text. Only what a scenario uploads is looked for at the site.

use crate::arrival::{Arrival, RecordingError};
use crate::bounded_file::FileError;
use crate::load::{Drive, Load, Pin, Pool, Protocol, Stop};
use crate::profile::ProfileError;
use crate::scenario::{Cycle, Scenario, file};
use crate::transport::Trust;
use crate::url::UrlError;
use baremark_model::knob::InvalidValue;
use baremark_model::problem::Problems;
use baremark_model::units::Nanos;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::Utf8Error;

/// Why an order is no load, or what is requested is no order.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// A parameter.
    #[error(transparent)]
    Parameter(#[from] InvalidValue),
    /// A file that is named cannot be read.
    #[error("{0}{cause}", cause = cause(.0))]
    File(#[from] FileError),
    /// A file that is named is not text.
    #[error("{path} is not UTF-8 text ({source}); save it as UTF-8")]
    NotText {
        /// Which.
        path: PathBuf,
        /// Where it is not.
        source: Utf8Error,
    },
    /// The trace that the rate follows.
    #[error(transparent)]
    Trace(#[from] ProfileError),
    /// The recording whose arrivals are replayed.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The scenario.
    #[error(transparent)]
    Scenario(#[from] Problems),
    /// The URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Nothing is said of where to.
    #[error("there is neither a URL nor a scenario; name one")]
    Nowhere,
}

/// What the system said, which the text of the error leaves to its source.
fn cause(why: &FileError) -> String {
    why.source().map_or_else(String::new, |cause| format!(": {cause}"))
}

/// A load in words. Unknown keys of a later version are passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Where to; with a scenario, what replaces its base.
    pub url: Option<String>,
    /// A scenario's file name and text.
    pub scenario: Option<(String, String)>,
    /// Where files that it uploads are.
    pub folder: PathBuf,
    /// Headers for every request.
    pub headers: Vec<(String, String)>,
    /// The mean of the users' cycle, whatever the scenario says; its spread is the scenario's, if that has a cycle.
    pub cycle_ns: Option<Nanos>,
    /// Who decides when.
    pub drive: Drive,
    /// The points of a replayed arrival.
    pub points: Option<Vec<f64>>,
    /// Until when.
    pub stop: Stop,
    /// Event loops.
    pub threads: usize,
    /// Connections.
    pub connections: usize,
    /// Whether a user keeps a connection.
    pub pool: Pool,
    /// What is spoken.
    pub protocol: Protocol,
    /// After this a request has failed.
    pub timeout_ns: Nanos,
    /// How long what is under way at the end may still take; the default of [`Load::new`] where nothing is said.
    #[serde(default)]
    pub grace_ns: Option<Nanos>,
    /// Of everything drawn.
    pub seed: u64,
    /// Whose certificates are accepted.
    pub trust: Trust,
    /// Where its first server answers, instead of at the addresses of its name.
    #[serde(default)]
    pub addresses: Vec<SocketAddr>,
    /// Addresses to come from.
    pub sources: Vec<IpAddr>,
    /// Where the threads run.
    pub pin: Pin,
    /// Which of how many sites.
    pub site: (u64, u64),
}

/// Spread about the mean of a cycle given by itself, where the scenario has none: a quarter of it, at most a half.
const DEVIATION: f64 = 0.25;
const MOST_OFF: f64 = 0.5;

impl Order {
    /// The load.
    ///
    /// # Errors
    /// What is wrong with the scenario or the URL.
    pub fn load(self) -> Result<Load, OrderError> {
        let mut scenario = match (&self.scenario, &self.url) {
            (Some((name, text)), url) => file::parse(name, text.as_bytes(), url.as_deref(), &self.folder)?,
            (None, Some(url)) => Scenario::of_url(url)?,
            (None, None) => return Err(OrderError::Nowhere),
        };
        for (name, value) in &self.headers {
            scenario.add_header(name, value);
        }
        if let Some(mean) = self.cycle_ns {
            let spread = Cycle { mean, deviation: DEVIATION, most: MOST_OFF };
            scenario.set_cycle(Some(scenario.cycle().map_or(spread, |cycle| Cycle { mean, ..cycle })));
        }
        let drive = match (self.drive, self.points) {
            (Drive::Open { profile, .. }, Some(points)) => {
                Drive::Open { arrival: Arrival::Replayed { points: points.into() }, profile }
            }
            (drive, _) => drive,
        };
        let mut load = Load::new(scenario, drive, self.stop);
        load.threads = self.threads;
        load.connections = self.connections;
        load.pool = self.pool;
        load.protocol = self.protocol;
        load.timeout = self.timeout_ns;
        load.grace = self.grace_ns.unwrap_or(load.grace);
        load.seed = self.seed;
        load.trust = self.trust;
        load.addresses = self.addresses;
        load.sources = self.sources;
        load.pin = self.pin;
        load.site = self.site;
        Ok(load)
    }

    /// The order of one of several sites: they deal starts and users among them.
    #[must_use]
    pub fn of_site(&self, site: u64, sites: u64) -> Order {
        Order { site: (site, sites), ..self.clone() }
    }
}
