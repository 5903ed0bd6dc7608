//! A search that is taken up: windows that an interrupted search has measured are not measured again.

use super::under_load::{SubjectError, UnderLoad};
use baremark_model::histogram::Histogram;
use baremark_model::qos::{Qos, Reading};
use baremark_model::units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Instant;

/// One window of a search, as it is stored while the search goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Trial, from 0.
    pub trial: usize,
    /// Its level.
    pub level: f64,
    /// What it showed.
    pub reading: Reading,
    /// The latencies of the reading: ns, and how often each was seen.
    latencies: Vec<(u64, u64)>,
}

impl Probe {
    /// A window of `trial` at `level`.
    #[must_use]
    pub fn new(trial: usize, level: f64, reading: &Reading) -> Probe {
        let latencies = reading.latencies.counts().to_vec();
        let reading = Reading { latencies: Histogram::default(), ..reading.clone() };
        Probe { trial, level, reading, latencies }
    }

    fn into_reading(self) -> Reading {
        Reading { latencies: self.latencies.into_iter().collect(), ..self.reading }
    }
}

/// Levels that were written as text and read again are the same within this share.
const SAME: f64 = 1e-9;

/// A subject that is started only when the stored windows are used up, or are not those that the search asks for.
pub(super) struct Resumed<'s> {
    subject: &'s mut dyn UnderLoad,
    stored: VecDeque<Probe>,
    trial: usize,
    level: f64,
    settle: Nanos,
    /// Whether the subject was started in this trial, and whether it has the level.
    started: bool,
    loaded: bool,
}

impl<'s> Resumed<'s> {
    pub(super) fn new(subject: &'s mut dyn UnderLoad, stored: Vec<Probe>) -> Self {
        let (trial, level, settle) = (0, 0.0, Nanos(0));
        Resumed { subject, stored: stored.into(), trial, level, settle, started: false, loaded: false }
    }

    pub(super) fn start(&mut self, trial: usize) -> Result<(), SubjectError> {
        (self.trial, self.started, self.loaded) = (trial, false, false);
        if self.stored.is_empty() { self.start_subject() } else { Ok(()) }
    }

    pub(super) fn set(&mut self, level: f64, settle: Nanos) -> Result<(), SubjectError> {
        (self.level, self.settle, self.loaded) = (level, settle, false);
        if self.has_stored() { Ok(()) } else { self.load_subject() }
    }

    /// The reading, and whether it is a stored one.
    pub(super) fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<(Reading, bool), SubjectError> {
        if self.has_stored()
            && let Some(probe) = self.stored.pop_front()
        {
            return Ok((probe.into_reading(), true));
        }
        self.load_subject()?;
        Ok((self.subject.read(qos, lasting)?, false))
    }

    pub(super) fn now(&self) -> Instant {
        self.subject.now()
    }

    pub(super) fn drain(&mut self) -> Result<(), SubjectError> {
        if self.started { self.subject.drain() } else { Ok(()) }
    }

    /// Whether the next stored window is of this trial and level; where it is not, all that are left belong to another search.
    fn has_stored(&mut self) -> bool {
        let fits =
            |probe: &Probe| probe.trial == self.trial && (probe.level - self.level).abs() <= SAME * self.level.abs();
        let found = self.stored.front().is_some_and(fits);
        if !found {
            self.stored.clear();
        }
        found
    }

    fn start_subject(&mut self) -> Result<(), SubjectError> {
        if !self.started {
            self.subject.start(self.trial)?;
            self.started = true;
        }
        Ok(())
    }

    fn load_subject(&mut self) -> Result<(), SubjectError> {
        self.start_subject()?;
        if !self.loaded {
            self.subject.set(self.level, self.settle)?;
            self.loaded = true;
        }
        Ok(())
    }
}
