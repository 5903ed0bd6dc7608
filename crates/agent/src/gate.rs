//! Where a site waits for the others of its ensemble: machines that share no memory and no clock.
//!
//! Their ranks cannot meet at a barrier. The lab lets all of them go at one moment, which it tells each by that site's own
//! clock; while they wait it reads their clocks, so that it knows how well it knows them.

use baremark_model::seam::{RankTime, TickRate};
use baremark_model::wire::{FromAgent, Pass, Stretch, ToAgent, WireError, write_frame};
use baremark_sys::clock;
use std::io::Write;
use std::sync::mpsc::Receiver;

/// The other sites will not come.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The stream to the lab failed or ended.
    #[error("while this site waited for the others: {0}")]
    Wire(#[from] WireError),
    /// The lab said something else.
    #[error("while this site waited for the others the lab said {0}")]
    OutOfTurn(String),
}

/// The way to the lab while a trial runs, and what was timed so far.
pub(crate) struct Gate<'h> {
    heard: &'h Receiver<Result<ToAgent, WireError>>,
    pub(crate) stretches: Vec<Vec<Stretch>>,
}

impl<'h> Gate<'h> {
    pub(crate) fn new(heard: &'h Receiver<Result<ToAgent, WireError>>) -> Self {
        Gate { heard, stretches: Vec::new() }
    }

    /// Says that this site is here, and waits until all are.
    pub(crate) fn pass(&self, reps: u64, output: &mut impl Write) -> Result<Pass, GateError> {
        write_frame(output, &FromAgent::AtGate { reps })?;
        loop {
            match self.heard.recv().unwrap_or(Err(WireError::Closed))? {
                ToAgent::Pass(pass) => return Ok(pass),
                ToAgent::ReadClock => write_frame(output, &now())?,
                other => return Err(GateError::OutOfTurn(format!("{other:?}"))),
            }
        }
    }

    pub(crate) fn timed(&mut self, position: usize, stretch: Stretch) {
        self.stretches.resize(self.stretches.len().max(position + 1), Vec::new());
        self.stretches[position].push(stretch);
    }
}

/// What the site's clock shows.
pub(crate) fn now() -> FromAgent {
    FromAgent::Clock { monotonic_ns: clock::monotonic_ns() }
}

/// A moment of the monotonic clock as a tick; 0 where it has passed.
pub(crate) fn tick_of(begin_ns: u64, rate: TickRate) -> u64 {
    let ahead = begin_ns.saturating_sub(clock::monotonic_ns());
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a moment ahead is short and positive"
    )]
    let ticks = (ahead as f64 / 1e9 * rate.0) as u64;
    if ticks == 0 { 0 } else { clock::ticks() + ticks }
}

/// From the first start to the last end of a run that has just ended, by the monotonic clock.
pub(crate) fn stretch_of(times: &[RankTime], rate: TickRate) -> Stretch {
    let (ticks, now) = (clock::ticks(), clock::monotonic_ns());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a run lasts less than 500 years and lies in the past"
    )]
    let at = |tick: Option<u64>| {
        now.saturating_sub((rate.seconds(ticks.saturating_sub(tick.unwrap_or(ticks))) * 1e9) as u64)
    };
    Stretch {
        begin_ns: at(times.iter().map(|time| time.start_ticks).min()),
        end_ns: at(times.iter().map(|time| time.end_ticks).max()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::wire::read_frame;
    use std::sync::mpsc::channel;

    #[test]
    fn a_site_tells_its_clock_while_it_waits_and_goes_when_it_may() {
        let (lab, heard) = channel();
        let gate = Gate::new(&heard);
        let pass = Pass { reps: 7, begin_ns: 5 };
        lab.send(Ok(ToAgent::ReadClock)).expect("it listens");
        lab.send(Ok(ToAgent::Pass(pass))).expect("it listens");
        let mut said = Vec::new();
        assert_eq!(gate.pass(3, &mut said).expect("it may"), pass);
        let mut said = said.as_slice();
        assert_eq!(read_frame::<FromAgent>(&mut said).expect("a frame"), FromAgent::AtGate { reps: 3 });
        let clock = read_frame::<FromAgent>(&mut said).expect("a frame");
        assert!(matches!(clock, FromAgent::Clock { monotonic_ns: 1.. }), "{clock:?}");
        lab.send(Ok(ToAgent::Goodbye)).expect("it listens");
        let why = gate.pass(3, &mut Vec::new()).expect_err("the lab leaves").to_string();
        assert!(why.ends_with("the lab said Goodbye"), "{why}");
        drop(lab);
        let why = gate.pass(3, &mut Vec::new()).expect_err("the lab has ended").to_string();
        assert!(why.ends_with("the other side closed the connection"), "{why}");
    }

    #[test]
    fn a_moment_that_has_passed_is_not_waited_for_and_one_ahead_is_a_tick_ahead() {
        let rate = TickRate(1e9);
        assert_eq!(tick_of(1, rate), 0);
        assert!(tick_of(clock::monotonic_ns() + 3_600_000_000_000, rate) > clock::ticks());
    }

    #[test]
    fn a_run_is_told_by_the_monotonic_clock() {
        let (rate, _) = clock::tick_rate(std::time::Duration::from_millis(20)).expect("a clock");
        let before = clock::monotonic_ns();
        let start_ticks = clock::ticks();
        while clock::monotonic_ns() < before + 10_000_000 {}
        let end_ticks = clock::ticks();
        let stretch = stretch_of(&[RankTime { rank: 0, start_ticks, end_ticks }], rate);
        assert!(stretch.begin_ns + 1_000_000 > before && stretch.end_ns <= clock::monotonic_ns(), "{stretch:?}");
        assert!(stretch.end_ns - stretch.begin_ns >= 9_000_000, "{stretch:?}");
    }
}
