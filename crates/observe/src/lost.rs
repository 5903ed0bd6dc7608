//! Lost time, CPU by CPU: a loop that does nothing but look at the clock, for a millisecond on one CPU at each reading.
//!
//! It takes what it looks at: a trial that runs on every CPU loses a thousandth of one to it each second. It is not used
//! unless a study asks for it; a trial looks for lost time of its own, before and after its phases.

use crate::source::row;
use baremark_model::observer::{Absence, Observer, Price, Readings};
use baremark_model::quantity::Quantity;
use baremark_model::seam::TickRate;
use baremark_sys::{affinity, clock, tsc_gaps};
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// For how long one CPU is looked at.
const LOOK: Duration = Duration::from_millis(1);
const CALIBRATION: Duration = Duration::from_millis(50);

/// What was found on one CPU so far.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    looked_ns: u64,
    lost_ns: u64,
    gaps: u64,
}

pub(crate) struct Lost {
    rate: Option<TickRate>,
    cpus: Vec<usize>,
    next: usize,
    found: BTreeMap<usize, Found>,
    quantities: [&'static Quantity; 3],
}

impl Lost {
    pub(crate) fn new() -> Self {
        let quantities = ["lost.looked", "lost.time", "lost.gaps"].map(row);
        Lost { rate: None, cpus: Vec::new(), next: 0, found: BTreeMap::new(), quantities }
    }
}

/// A look on that CPU, by a thread of its own: the caller's place is not changed.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds of a short look")]
fn look(cpu: usize, rate: TickRate) -> std::io::Result<Found> {
    let looking = thread::Builder::new().name("lost-time".to_owned()).spawn(move || {
        affinity::pin_current_thread(cpu)?;
        let seen = tsc_gaps::measure(LOOK, tsc_gaps::THRESHOLD, rate);
        let lost_ns = (seen.seconds * seen.lost_share * 1e9) as u64;
        Ok(Found { looked_ns: (seen.seconds * 1e9) as u64, lost_ns, gaps: seen.count })
    })?;
    looking.join().unwrap_or_else(|_| Err(std::io::Error::other("the look panicked")))
}

impl Observer for Lost {
    fn price(&self) -> Price {
        Price::High
    }

    fn start(&mut self) -> Result<(), Absence> {
        let absent = |why: String| Absence::new("lost", why);
        let (rate, _) = clock::tick_rate(CALIBRATION).map_err(|why| absent(why.to_string()))?;
        self.cpus = affinity::allowed_cpus().map_err(|why| absent(format!("asking which CPUs may be used: {why}")))?;
        self.rate = Some(rate);
        // From the first reading on every CPU has a count, so that growth is seen from the first look on.
        self.found = self.cpus.iter().map(|&cpu| (cpu, Found::default())).collect();
        Ok(())
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let (Some(rate), false) = (self.rate, self.cpus.is_empty()) else {
            return Err(Absence::new("lost", "it was read before it was started"));
        };
        let cpu = self.cpus[self.next % self.cpus.len()];
        self.next = self.next.wrapping_add(1);
        // A CPU that was taken away is left out; the others are looked at when their turn comes.
        if let Ok(more) = look(cpu, rate) {
            let sum = self.found.entry(cpu).or_default();
            sum.looked_ns += more.looked_ns;
            sum.lost_ns += more.lost_ns;
            sum.gaps += more.gaps;
        }
        let [looked, lost, gaps] = self.quantities;
        for (cpu, found) in &self.found {
            let cpu = cpu.to_string();
            into.part(looked, &cpu, found.looked_ns);
            into.part(lost, &cpu, found.lost_ns);
            into.part(gaps, &cpu, found.gaps);
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.rate = None;
    }
}
