//! Where one side of a trial waits for its turn, while the other runs its phases at another site.
//!
//! Both sides are prepared and stay. The lab gives the turns, one at a time, in the order of the schedule; the side that waits is
//! blocked in a read, what it has started is stopped, and it reports at the end what processor time both used meanwhile.

use crate::gate::GateError;
use baremark_model::wire::{FromAgent, Idle, Pass, ToAgent, WireError, write_frame};
use baremark_observe::watch::Watch;
use baremark_sys::clock;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

/// What this process had used of the CPUs when it last heard from the lab. Whoever waits for its turn is not charged with what it takes to have
/// it.
#[derive(Default)]
pub(crate) struct UsedUntilHeard {
    at_ns: AtomicU64,
    cpu_ns: AtomicU64,
}

impl UsedUntilHeard {
    /// Something was heard just now.
    pub(crate) fn note(&self) {
        self.at_ns.store(clock::monotonic_ns(), Ordering::Release);
        self.cpu_ns.store(clock::process_cpu_ns(), Ordering::Release);
    }

    /// The time and what was used from `since` to then.
    fn idle_since(&self, since: Idle) -> Idle {
        let (at_ns, cpu_ns) = (self.at_ns.load(Ordering::Acquire), self.cpu_ns.load(Ordering::Acquire));
        Idle { ns: at_ns.saturating_sub(since.ns), cpu_ns: cpu_ns.saturating_sub(since.cpu_ns) }
    }
}

/// The way to the lab while this side's phases alternate with another's.
pub(crate) struct Turns<'h> {
    heard: &'h Receiver<Result<ToAgent, WireError>>,
    used: &'h UsedUntilHeard,
    /// Which arm of the whole trial runs here, 0 or 1.
    pub(crate) arm: usize,
    /// The time between hearing of a turn and its phase, until whatever passed the message on is idle again.
    rest: Duration,
    /// What was used while the other side had its turns.
    pub(crate) idle: Idle,
    ended: bool,
}

impl<'h> Turns<'h> {
    pub(crate) fn new(
        (heard, used): (&'h Receiver<Result<ToAgent, WireError>>, &'h UsedUntilHeard),
        (arm, rest): (usize, Duration),
    ) -> Self {
        Turns { heard, used, arm, rest, idle: Idle::default(), ended: false }
    }

    /// Says that everything is prepared, and waits until the other side is, too; the repetitions that both run.
    pub(crate) fn prepared(&self, reps: Option<u64>, output: &mut impl Write) -> Result<u64, GateError> {
        write_frame(output, &FromAgent::AtTurn { reps })?;
        match self.heard.recv().unwrap_or(Err(WireError::Closed))? {
            ToAgent::Pass(Pass { reps, .. }) => Ok(reps),
            other => Err(GateError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// Waits for the next turn; whether there is one. What the observers have seen meanwhile was in the other side's phases. `resting_cpu_ns` reads what
    /// processes that should rest have used of the CPUs.
    pub(crate) fn next(
        &mut self,
        watch: Option<&Watch>,
        output: &mut impl Write,
        resting_cpu_ns: &mut dyn FnMut() -> u64,
    ) -> Result<bool, GateError> {
        if self.ended {
            return Ok(false);
        }
        let rested_ns = resting_cpu_ns();
        // Read first: whoever hears of it may begin at once, on this thread's CPU, so that it comes back only after the other's turn.
        let since = Idle { ns: clock::monotonic_ns(), cpu_ns: clock::process_cpu_ns() };
        write_frame(output, &FromAgent::AtTurn { reps: None })?;
        let others = match self.heard.recv().unwrap_or(Err(WireError::Closed))? {
            ToAgent::Turn { others } => others,
            ToAgent::EndTurns { others } => {
                self.ended = true;
                others
            }
            other => return Err(GateError::OutOfTurn(format!("{other:?}"))),
        };
        if others > 0 {
            let waited = self.used.idle_since(since);
            self.idle.ns += waited.ns;
            self.idle.cpu_ns += waited.cpu_ns + resting_cpu_ns().saturating_sub(rested_ns);
            if let Some(watch) = watch {
                watch.phase_done(1 - self.arm, others);
            }
        }
        if !self.ended {
            thread::sleep(self.rest);
        }
        Ok(!self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    /// Whoever reads this hears of the next turn as soon as something was written, and the writer goes on only then.
    struct OnTheSameCpu<'u>(&'u UsedUntilHeard);

    impl Write for OnTheSameCpu<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            thread::sleep(Duration::from_millis(1));
            self.0.note();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_side_that_loses_its_cpu_as_it_gives_up_its_turn_was_idle_meanwhile() {
        let (used, (sender, heard)) = (UsedUntilHeard::default(), channel());
        sender.send(Ok(ToAgent::Turn { others: 1 })).expect("a turn");
        let mut turns = Turns::new((&heard, &used), (0, Duration::ZERO));
        assert!(turns.next(None, &mut OnTheSameCpu(&used), &mut || 0).expect("a turn"));
        assert!(turns.idle.ns >= 1_000_000, "{:?}", turns.idle);
    }

    #[test]
    fn a_side_rests_before_its_phase_and_not_at_the_end() {
        let (used, (sender, heard)) = (UsedUntilHeard::default(), channel());
        let rest = Duration::from_millis(20);
        let mut turns = Turns::new((&heard, &used), (0, rest));
        for (told, has_turn) in [(ToAgent::Turn { others: 0 }, true), (ToAgent::EndTurns { others: 0 }, false)] {
            sender.send(Ok(told)).expect("a turn");
            turns.rest = if has_turn { rest } else { Duration::MAX };
            let began = Instant::now();
            assert_eq!(turns.next(None, &mut Vec::new(), &mut || 0).expect("an answer"), has_turn);
            assert!(!has_turn || began.elapsed() >= rest);
        }
    }

    /// Time of this process is noted by whoever hears of a turn, which is nobody here.
    #[test]
    fn what_processes_of_a_side_use_while_the_other_has_its_turns_is_the_sides() {
        let (used, (sender, heard)) = (UsedUntilHeard::default(), channel());
        for others in [1, 0, 2] {
            sender.send(Ok(ToAgent::Turn { others })).expect("a turn");
        }
        let mut turns = Turns::new((&heard, &used), (0, Duration::ZERO));
        let mut read_ns = [5, 1005, 2000, 3000, 3070].into_iter();
        let mut resting_cpu_ns = || read_ns.next().expect("read at the beginning, and where the other side had a turn");
        let found = [(); 3].map(|()| {
            assert!(turns.next(None, &mut Vec::new(), &mut resting_cpu_ns).expect("a turn"));
            turns.idle.cpu_ns
        });
        assert_eq!(found, [1000, 1000, 1070], "between two turns of its own nothing is counted");
    }
}
