//! The search for the largest load that keeps its limits, on anything that can be loaded.
//!
//! `stats::search` has the mathematics; here it is conducted: a ramp that doubles until something breaks, then a staircase
//! about that level, approached from both sides, the state drained after each failure. A visit is as many windows as its
//! limits need samples, and too few samples never pass. The first trial gives a first answer; what counts is the interval
//! over trials from a fresh start. What is loaded is behind [`UnderLoad`]: an engine and a URL, or a whole topology.

mod judge;
mod outcome;
mod pace;
mod resumed;
mod under_load;

use outcome::Walked;
pub use pace::{takes_s, window_s};
pub use resumed::Probe;
use resumed::Resumed;
pub use under_load::{SubjectError, UnderLoad};

use baremark_model::maximum::{Document, Ended, Plan, Said, Window};
use baremark_model::qos::{Qos, Reading};
use baremark_model::units::Nanos;
use baremark_stats::search::{End, Next, Response, Staircase, Visit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What happens during a search, for whoever watches.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A window was read.
    Window {
        /// Trial, from 0.
        trial: usize,
        /// Its level.
        level: f64,
        /// What the visit says so far.
        said: Said,
        /// What it showed.
        reading: Box<Reading>,
        /// Whether it was measured before the search was interrupted.
        stored: bool,
    },
    /// A trial is over; with at least one trial there is an answer.
    Trial {
        /// Trial, from 0.
        trial: usize,
        /// The answer as of now.
        so_far: Box<Document>,
    },
}

/// A search to be made.
pub struct Search<'s> {
    /// What is loaded, in a line.
    pub title: &'s str,
    /// What is varied: `operations/s`, `users`.
    pub factor: &'s str,
    /// What must be kept.
    pub qos: &'s Qos,
    /// How it is searched.
    pub plan: Plan,
    /// Set when the user wants it to stop.
    pub interrupt: &'s AtomicBool,
    /// No window begins that would end after this; what is known by then is the result.
    pub deadline: Option<Instant>,
    /// What is known of where the answer is: then no trial ramps up to it. Where it is not there, the search goes on beyond.
    pub around: Option<Expected>,
    /// The windows that were measured before it was interrupted, in order: they are not measured again.
    pub stored: Vec<Probe>,
    /// Who watches.
    pub watch: &'s mut dyn FnMut(&Step),
}

/// What is known beforehand of where an answer is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// It is within a third of this level: the first trial begins there.
    Near(f64),
    /// It is somewhere about this level, such as the throughput of a closed loop: each trial brackets it by short windows from there on.
    About(f64),
}

/// Why a search was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// Nothing can break.
    #[error("there is no limit to keep; give at least one, such as p99<50ms")]
    NoLimits,
    /// The plan cannot be carried out.
    #[error("{0}")]
    Plan(String),
    /// The first trial could not start.
    #[error("nothing could be measured: {0}")]
    Start(String),
}

/// Why a trial broke off.
enum Cut {
    Interrupted,
    TimeOver,
    /// Windows at one level did not count.
    Uncounted,
    Broken(String),
}

impl From<SubjectError> for Cut {
    fn from(why: SubjectError) -> Cut {
        match why {
            SubjectError::Interrupted => Cut::Interrupted,
            SubjectError::Failed(why) => Cut::Broken(why),
        }
    }
}

/// A ramp's window is this share of a full one: it only finds where to look.
const RAMP_WINDOW: f64 = 0.3;
/// The first step of a staircase in a range, as a share of the range.
const COARSE_STEP: f64 = 0.25;
/// An answer that is known about is looked for within this share of it at first.
const EXPECTED_WITHIN: f64 = 0.3;
/// So many windows of a visit that do not count end a search.
const UNCOUNTED: usize = 3;
/// The first step of a bracket.
const FIRST_STEP: f64 = 0.15;
/// Where a bracket begins, as a share of the level that the answer is about: a closed loop carries somewhat more than keeps a limit.
const BEGIN: f64 = 0.85;
/// After a trial, some visits at this share of its maximum.
const CONFIRMED_AT: f64 = 0.9;

/// Whether a search with this plan can be made. [`Search::run`] checks it as well; whoever loads anything before that checks it first.
///
/// # Errors
/// [`SearchError::NoLimits`] or [`SearchError::Plan`].
pub fn check(qos: &Qos, plan: &Plan) -> Result<(), SearchError> {
    if qos.limits.is_empty() {
        return Err(SearchError::NoLimits);
    }
    let checks = [
        (
            plan.lowest > 0.0 && plan.lowest < plan.highest && plan.highest.is_finite(),
            "the search range is empty: use LOW..HIGH (--between) with 0 < LOW < HIGH",
        ),
        (plan.finest > 0.0 && plan.finest <= 0.5, "the final step is out of range: use up to 50 % (--step)"),
        (plan.window_s > 0.0 && plan.settle_s >= 0.0, "a window has no length: use a time above 0 (--window)"),
        (
            plan.visits >= 6 && plan.trials > 0 && plan.windows_per_visit > 0,
            "too few probes: use at least 6 visits (--visits) and 1 trial (--trials)",
        ),
        (plan.confidence > 0.5 && plan.confidence < 1.0, "the confidence must be between 50 % and 100 %"),
    ];
    let wrong: Vec<&str> = checks.into_iter().filter(|(right, _)| !right).map(|(_, what)| what).collect();
    if wrong.is_empty() { Ok(()) } else { Err(SearchError::Plan(wrong.join("\n"))) }
}

/// Where a staircase may go, and how it begins.
#[derive(Clone, Copy)]
struct Stairs {
    range: (f64, f64),
    start: f64,
    step: f64,
    /// The finest step is a share of this level.
    about: f64,
}

impl Stairs {
    /// In a range in which the answer is.
    fn within(range: (f64, f64), start: f64) -> Stairs {
        Stairs { range, start, step: COARSE_STEP * (range.1 - range.0), about: 0.5 * (range.0 + range.1) }
    }
}

impl Search<'_> {
    /// Searches. Always returns what is known by the end; how it ended is in the document, and why it broke, if it did,
    /// alongside it.
    ///
    /// # Errors
    /// When there is nothing to search, or not even the first trial could start.
    pub fn run(&mut self, subject: &mut dyn UnderLoad) -> Result<(Document, Option<String>), SearchError> {
        check(self.qos, &self.plan)?;
        let subject = &mut Resumed::new(subject, std::mem::take(&mut self.stored));
        let mut trials: Vec<Walked> = Vec::new();
        let mut broken = None;
        for trial in 0..self.plan.trials {
            let around = outcome::levels(&trials, self.qos, &self.plan).first().copied();
            let mut windows = Vec::new();
            let ended = match self.trial(subject, trial, around, &mut windows) {
                Ok(ended) => ended,
                Err(Cut::Interrupted) => Ended::Interrupted,
                Err(Cut::TimeOver) => Ended::TimeOver,
                Err(Cut::Uncounted) => Ended::Insufficient,
                Err(Cut::Broken(why)) if trials.is_empty() && windows.is_empty() => {
                    return Err(SearchError::Start(why));
                }
                Err(Cut::Broken(why)) => {
                    broken = Some(why);
                    Ended::Broken
                }
            };
            trials.push(Walked { ended, windows, at_answer: 0 });
            let so_far = outcome::document(self.title, self.factor, self.qos, self.plan, &trials);
            (self.watch)(&Step::Trial { trial, so_far: Box::new(so_far) });
            if ended != Ended::Found {
                break;
            }
        }
        if broken.is_none() {
            broken = self.at_answer(subject, &mut trials);
        }
        // What a search leaves behind is a system at rest; one that is broken cannot be asked.
        if broken.is_none()
            && let Err(SubjectError::Failed(why)) = subject.drain()
        {
            broken = Some(why);
        }
        Ok((outcome::document(self.title, self.factor, self.qos, self.plan, &trials), broken))
    }

    fn trial(
        &mut self,
        subject: &mut Resumed<'_>,
        trial: usize,
        around: Option<f64>,
        windows: &mut Vec<Window>,
    ) -> Result<Ended, Cut> {
        subject.start(trial)?;
        let plan = self.plan;
        let mut stairs = match (around, self.around) {
            // A fresh start begins where the first did, about what is known by then.
            (found, Some(Expected::About(level))) => {
                self.bracket(subject, trial, BEGIN * found.unwrap_or(level), windows)?
            }
            (None, Some(Expected::Near(expected))) => {
                let level = expected.clamp(plan.lowest, plan.highest);
                let low = ((1.0 - EXPECTED_WITHIN) * level).max(plan.lowest);
                Stairs::within((low, ((1.0 + EXPECTED_WITHIN) * level).min(plan.highest)), level)
            }
            // A fresh start looks in a range about the last answer that does not presuppose it.
            (Some(level), _) => {
                let low = (0.5 * level).max(plan.lowest);
                Stairs::within((low, (1.5 * level).min(plan.highest)), low)
            }
            (None, None) => self.ramp(subject, windows)?,
        };
        loop {
            let ended = self.stairs(subject, trial, stairs, windows)?;
            let (lowest, highest) = stairs.range;
            let range = match ended {
                End::Turned => {
                    self.confirm(subject, trial, windows)?;
                    return Ok(Ended::Found);
                }
                End::Insufficient => return Ok(Ended::Insufficient),
                // Not in this range: in the next, as far as the plan goes.
                End::PassesAll if highest < plan.highest => (highest, (2.0 * highest).min(plan.highest)),
                End::FailsAll if lowest > plan.lowest => ((0.5 * lowest).max(plan.lowest), lowest),
                End::PassesAll => return Ok(Ended::PassesAll),
                End::FailsAll => return Ok(Ended::FailsAll),
            };
            stairs = Stairs::within(range, range.0);
        }
    }

    /// Measures somewhat below the maximum just found, where the limits should be kept: a staircase spends few windows there.
    fn confirm(&mut self, subject: &mut Resumed<'_>, trial: usize, windows: &mut Vec<Window>) -> Result<(), Cut> {
        if self.plan.confirming == 0 {
            return Ok(());
        }
        let walked = Walked { ended: Ended::Found, windows: windows.clone(), at_answer: 0 };
        let Some(&level) = outcome::levels(&[walked], self.qos, &self.plan).first() else { return Ok(()) };
        subject.drain()?;
        for _ in 0..self.plan.confirming {
            self.visit(subject, trial, (CONFIRMED_AT * level).max(self.plan.lowest), self.full(), windows)?;
        }
        Ok(())
    }

    /// Measures at the answer of all trials, under the last start, so that the values printed for it were measured there: staircases visit levels about it. These windows
    /// are fitted to no curve: the level found and its interval do not depend on them, so that a search whose time is over has both without them; the knee, the level
    /// that is shown to keep the limits and what limited are of all windows. Why the system broke, if it did.
    fn at_answer(&mut self, subject: &mut Resumed<'_>, trials: &mut [Walked]) -> Option<String> {
        if self.plan.confirming == 0 {
            return None;
        }
        let level = outcome::answer(trials, self.qos, &self.plan)?.level.clamp(self.plan.lowest, self.plan.highest);
        let trial = trials.len().checked_sub(1)?;
        let last = trials.last_mut().filter(|last| last.ended == Ended::Found)?;
        let walked = last.windows.len();
        let measured = subject.drain().map_err(Cut::from);
        let measured = measured.and_then(|()| self.visit(subject, trial, level, self.full(), &mut last.windows));
        last.at_answer = last.windows.len() - walked;
        match measured {
            Err(Cut::Broken(why)) => Some(why),
            Ok(_) | Err(Cut::Interrupted | Cut::TimeOver | Cut::Uncounted) => None,
        }
    }

    /// One staircase in a range; marks the windows to which a curve is fitted.
    fn stairs(
        &mut self,
        subject: &mut Resumed<'_>,
        trial: usize,
        Stairs { range: (lowest, highest), start, step, about }: Stairs,
        windows: &mut Vec<Window>,
    ) -> Result<End, Cut> {
        let finest = self.plan.finest * about;
        let stairs = Staircase { lowest, start, highest, step, finest, windows: self.plan.visits };
        let (mut visits, mut first): (Vec<Visit>, Vec<usize>) = (Vec::new(), Vec::new());
        let end = loop {
            let (level, drain) = match stairs.next(&visits) {
                Next::Measure { level, drain } => (level, drain),
                Next::Done(end) => break end,
            };
            if drain {
                subject.drain()?;
            }
            first.push(windows.len());
            let said = self.visit(subject, trial, level, self.full(), windows)?;
            visits.push(Visit { level, response: response(said) });
        };
        if let Some(visit) = stairs.fine_from(&visits) {
            windows[first[visit]..].iter_mut().for_each(|window| window.fitted = true);
        }
        Ok(end)
    }

    fn full(&self) -> (f64, usize) {
        (self.plan.window_s, self.plan.windows_per_visit)
    }

    /// Doubles the level until something breaks.
    fn ramp(&mut self, subject: &mut Resumed<'_>, windows: &mut Vec<Window>) -> Result<Stairs, Cut> {
        let plan = self.plan;
        let (mut kept, mut level) = (plan.lowest, plan.first.clamp(plan.lowest, plan.highest));
        loop {
            let said = self.visit(subject, 0, level, (RAMP_WINDOW * plan.window_s, 1), windows)?;
            if said == Said::Fail {
                subject.drain()?;
                // One failure may be chance: the staircase may go beyond it.
                return Ok(Stairs::within((kept, (1.5 * level).min(plan.highest)), (kept * level).sqrt()));
            }
            if level >= plan.highest {
                return Ok(Stairs::within((kept, plan.highest), kept));
            }
            if said == Said::Pass {
                kept = level;
            }
            level = (2.0 * level).min(plan.highest);
        }
    }

    /// From a level on up after a pass and down after a failure, by steps that double, until one level passed and another failed. In a short window
    /// either may be chance: the staircase begins between both, and may go beyond.
    fn bracket(
        &mut self,
        subject: &mut Resumed<'_>,
        trial: usize,
        level: f64,
        windows: &mut Vec<Window>,
    ) -> Result<Stairs, Cut> {
        let plan = self.plan;
        let begin = |start: f64, step: f64| Stairs { range: (plan.lowest, plan.highest), start, step, about: start };
        let (mut kept, mut broken, mut step) = (None, None, FIRST_STEP);
        let mut level = level.clamp(plan.lowest, plan.highest);
        loop {
            let said =
                self.visit(subject, trial, level, (RAMP_WINDOW * plan.window_s, plan.windows_per_visit), windows)?;
            if said == Said::Fail {
                broken = Some(level);
                subject.drain()?;
            } else {
                // Without samples enough nothing was broken.
                kept = Some(level);
            }
            level = match (kept, broken) {
                (Some(kept), Some(broken)) => {
                    let start = (kept * broken).sqrt();
                    // Not so small that a bracket that was wrong is left in many steps.
                    return Ok(begin(start, (COARSE_STEP * (broken - kept)).max(0.5 * FIRST_STEP * start)));
                }
                (Some(kept), None) if kept >= plan.highest => return Ok(begin(kept, FIRST_STEP * kept)),
                (None, Some(broken)) if broken <= plan.lowest => return Ok(begin(broken, FIRST_STEP * broken)),
                (Some(kept), None) => ((1.0 + step) * kept).min(plan.highest),
                (None, Some(broken)) => (broken / (1.0 + step)).max(plan.lowest),
                (None, None) => level,
            };
            step = (2.0 * step).min(1.0);
        }
    }

    /// As many windows at one level as its limits need samples, at most `most`; what they say together.
    fn visit(
        &mut self,
        subject: &mut Resumed<'_>,
        trial: usize,
        level: f64,
        (window_s, most): (f64, usize),
        windows: &mut Vec<Window>,
    ) -> Result<Said, Cut> {
        let begin = windows.len();
        let from_above = windows.last().is_some_and(|before| before.level > level);
        self.has_time(subject, self.plan.settle_s + window_s)?;
        subject.set(level, nanos(self.plan.settle_s))?;
        let (mut counted, mut uncounted) = (0, 0);
        while counted < most {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Cut::Interrupted);
            }
            self.has_time(subject, window_s)?;
            let (reading, stored) = subject.read(self.qos, nanos(window_s))?;
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Cut::Interrupted);
            }
            if reading == Reading::default() {
                uncounted += 1;
                if uncounted == UNCOUNTED {
                    return Err(Cut::Uncounted);
                }
                continue;
            }
            counted += 1;
            windows.push(Window { level, from_above, fitted: false, said: Said::Insufficient, reading });
            let said = judge::visit(&windows[begin..], self.qos, self.plan.samples);
            windows[begin..].iter_mut().for_each(|window| window.said = said);
            let reading = Box::new(windows[windows.len() - 1].reading.clone());
            (self.watch)(&Step::Window { trial, level, said, reading, stored });
            if said != Said::Insufficient {
                return Ok(said);
            }
        }
        Ok(Said::Insufficient)
    }

    fn has_time(&self, subject: &Resumed<'_>, seconds: f64) -> Result<(), Cut> {
        let end = subject.now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
        if self.deadline.is_some_and(|deadline| end > deadline) { Err(Cut::TimeOver) } else { Ok(()) }
    }
}

fn response(said: Said) -> Response {
    match said {
        Said::Pass => Response::Pass,
        Said::Fail => Response::Fail,
        Said::Insufficient => Response::Insufficient,
    }
}

fn nanos(seconds: f64) -> Nanos {
    Nanos(std::time::Duration::from_secs_f64(seconds.clamp(0.0, 1e9)).as_nanos().try_into().unwrap_or(u64::MAX))
}
