//! One load from several sites: they start side by side, each agent prepares its part, all begin at one agreed moment, and
//! what they measured comes home.
//!
//! The lab knows neither orders nor parts: it carries them. Clocks differ from site to site; each agent's is read a few times
//! and its offset taken from the quickest answer, which is off by at most half of that answer's time.

use crate::link::{AgentLink, LinkError};
use crate::parallel_start::start_in_parallel;
use baremark_model::site::{Environment, SiteError};
use baremark_model::wire::FromAgent;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A site that shall take part.
pub struct Place<'p> {
    /// Its name, for whoever reads the result.
    pub name: String,
    /// Where its agent comes from.
    pub environment: &'p dyn Environment,
    /// What it is asked to do.
    pub order: Value,
}

/// What became of a site's part.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteEnd {
    /// Its name.
    pub name: String,
    /// What it measured; `None` when it was lost.
    pub part: Option<Value>,
    /// Why it was lost.
    pub lost: Option<String>,
    /// Seconds that it told of.
    pub seconds: usize,
    /// By how much its begin may have been off, in nanoseconds.
    pub begin_error_ns: u64,
}

/// What happens meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub enum SiteEvent {
    /// A second has passed at a site.
    Second {
        /// Which site, by place.
        site: usize,
        /// Which second, from 0.
        second: usize,
        /// What happened in it.
        part: Value,
    },
    /// A site is lost; the others go on.
    Lost {
        /// Which site, by place.
        site: usize,
        /// Why.
        why: String,
    },
}

/// Why no load was made.
#[derive(Debug, thiserror::Error)]
pub enum SitesError {
    /// A site could not take part.
    #[error("site {name}: {why}")]
    Site {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        why: LinkError,
    },
    /// The user stopped it before it began.
    #[error("interrupted")]
    Interrupted,
}

/// Between the last preparation and the begin.
const NOTICE_NS: u64 = 300_000_000;
/// After the user's stop, or the load's own end, a site may take so long to send what it has.
const HOMEWARD: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(5);

/// One site on its way.
struct Member<'i> {
    link: AgentLink<'i>,
    end: SiteEnd,
    over: bool,
}

/// Runs one load at all places; `lasting` is how long it is to take, `None` where nobody knows. A site that cannot take part
/// refuses the whole; one that is lost on the way is told as lost.
///
/// # Errors
/// When a site could not be prepared, or the user stopped before the begin.
pub fn run(
    places: &[Place<'_>],
    lasting: Option<Duration>,
    clock_ns: fn() -> u64,
    interrupt: &AtomicBool,
    watch: &mut dyn FnMut(&SiteEvent),
) -> Result<Vec<SiteEnd>, SitesError> {
    let refused = |(index, why): (usize, LinkError)| match why {
        LinkError::Interrupted => SitesError::Interrupted,
        why => SitesError::Site { name: places[index].name.clone(), why },
    };
    let ready = |index: usize, given_up: &AtomicBool| prepared(&places[index], given_up, interrupt);
    let links = start_in_parallel(places.len(), interrupt, ready).map_err(refused)?;
    // Clocks are read when nothing is being started any more, for that would make their answers slow.
    let mut members = Vec::new();
    let mut offsets = Vec::new();
    for (index, (place, mut link)) in places.iter().zip(links).enumerate() {
        let (offset_ns, error_ns) = link.clock_offset(clock_ns).map_err(|why| refused((index, why)))?;
        offsets.push(offset_ns);
        let end = SiteEnd { name: place.name.clone(), part: None, lost: None, seconds: 0, begin_error_ns: error_ns };
        members.push(Member { link, end, over: false });
    }
    let begin_ns = clock_ns() + NOTICE_NS;
    for (member, offset_ns) in members.iter_mut().zip(offsets) {
        if let Err(why) = member.link.start_load(begin_ns.saturating_add_signed(offset_ns)) {
            member.lose(why.to_string());
        }
    }
    gather(&mut members, lasting, interrupt, watch);
    Ok(members.into_iter().map(|member| member.end).collect())
}

/// An agent at a place that has prepared its part.
fn prepared<'i>(
    place: &Place<'_>,
    given_up: &AtomicBool,
    interrupt: &'i AtomicBool,
) -> Result<AgentLink<'i>, LinkError> {
    place.environment.probe().map_err(SiteError::from)?;
    let mut link = AgentLink::start_unless(given_up, place.environment, interrupt)?;
    link.prepare_load(&place.order)?;
    Ok(link)
}

impl Member<'_> {
    fn lose(&mut self, why: String) {
        self.end.lost = Some(why);
        self.over = true;
    }
}

/// Hears all sites until each has ended or is lost.
fn gather(
    members: &mut [Member<'_>],
    lasting: Option<Duration>,
    interrupt: &AtomicBool,
    watch: &mut dyn FnMut(&SiteEvent),
) {
    let mut deadline = lasting.map(|lasting| Instant::now() + lasting + HOMEWARD);
    let mut stopped = false;
    while members.iter().any(|member| !member.over) {
        if interrupt.load(Ordering::Relaxed) && !std::mem::replace(&mut stopped, true) {
            members.iter_mut().filter(|member| !member.over).for_each(|member| drop(member.link.stop_load()));
            deadline = Some(Instant::now() + HOMEWARD);
        }
        let mut quiet = true;
        for (site, member) in members.iter_mut().enumerate().filter(|(_, member)| !member.over) {
            match member.link.heard() {
                Ok(None) => {
                    if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                        member.lose("it has not answered in time".to_owned());
                    }
                }
                Ok(Some(FromAgent::LoadSecond { second, part })) => {
                    quiet = false;
                    member.end.seconds = member.end.seconds.max(second + 1);
                    watch(&SiteEvent::Second { site, second, part });
                }
                Ok(Some(FromAgent::LoadDone { part })) => {
                    member.end.part = Some(*part);
                    member.over = true;
                }
                Ok(Some(FromAgent::Failed { what, why })) => member.lose(format!("{what} failed: {why}")),
                Ok(Some(other)) => member.lose(format!("its agent does not fit: {other:?}")),
                Err(why) => member.lose(why.to_string()),
            }
            if let (true, Some(why)) = (member.over, &member.end.lost) {
                watch(&SiteEvent::Lost { site, why: why.clone() });
            }
        }
        if quiet {
            thread::sleep(GLANCE);
        }
    }
}
