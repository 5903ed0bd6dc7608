//! A window of a load under a dial: what was meant to start in it, and what became of that.

use crate::actor::{Actor, Role, State};
use crate::control::Order;
use crate::epoll;
use crate::failure::Failure;
use crate::record::{MOST_EXAMPLES, OperationPart, Part, ThreadPart};
use crate::scenario::Scenario;
use baremark_model::units::Nanos;

/// How often a thread looks at flags and profiles, at least.
pub(crate) const LOOK_NS: u64 = 50_000_000;

/// A window under way.
pub(super) struct Window {
    order: Order,
    part: Part,
    /// Operations meant to start in it that have not ended.
    outstanding: u64,
    /// Processor time and clock when it began, and what passed until it ended.
    began: Option<(u64, u64)>,
    spent: Option<ThreadPart>,
    /// When this thread looked last, from the begin of the window on, and the longest time between two looks.
    looked: u64,
    longest: u64,
}

impl Window {
    pub(super) fn new(order: Order, names: &[String]) -> Window {
        let (part, looked) = (Part::new(names), order.begin);
        Window { order, part, outstanding: 0, began: None, spent: None, looked, longest: 0 }
    }

    /// The record of an operation with this intended start, where that lies in the window.
    #[inline]
    fn record(&mut self, intended: u64, operation: usize) -> Option<&mut OperationPart> {
        if self.holds(intended) { self.part.operations.get_mut(operation) } else { None }
    }

    #[inline]
    fn holds(&self, at: u64) -> bool {
        (self.order.begin..self.order.end).contains(&at)
    }

    pub(super) fn lag(&mut self, intended: u64, lag: u64) {
        if self.holds(intended) {
            self.part.send_lag.record(lag);
        }
    }

    pub(super) fn unsent(&mut self, intended: u64) {
        if self.holds(intended) {
            self.part.counts.intended += 1;
            self.part.counts.unsent += 1;
        }
    }

    pub(super) fn begun(&mut self, intended: u64, operation: usize) {
        if let Some(record) = self.record(intended, operation) {
            record.intended += 1;
            self.part.counts.intended += 1;
            self.outstanding += 1;
        }
    }

    /// An operation has ended `now`, which decides whether it is in the rate of the window; its intended start decides whether its latency is
    /// recorded. Loops alongside users are recorded, but nobody waits for them, and they are in no rate.
    pub(super) fn ended(
        &mut self,
        (intended, operation): (u64, usize),
        now: u64,
        role: Role,
        latency: Result<(u64, u64), Failure>,
        limit: Option<Nanos>,
    ) {
        let is_counted = self.holds(now) && latency.is_ok() && !matches!(role, Role::Follow { .. });
        if let Some(record) = self.part.operations.get_mut(operation) {
            record.in_time += u64::from(is_counted);
        }
        let Some(record) = self.record(intended, operation) else { return };
        match latency {
            Ok((raw, corrected)) => {
                record.raw.record(raw);
                let whole = matches!(role, Role::Open | Role::User);
                if whole {
                    record.corrected.record(corrected);
                }
                let counted = if whole { corrected } else { raw };
                record.within_limit += u64::from(limit.is_none_or(|limit| counted <= limit.0));
            }
            Err(why) => record.failures[why as usize] += 1,
        }
        self.part.counts.ended += 1;
        if !matches!(role, Role::Follow { .. }) {
            self.outstanding = self.outstanding.saturating_sub(1);
        }
    }

    /// Whether a failure of what was meant to start then is to be reported in words.
    pub(super) fn wants_example(&self, intended: u64) -> bool {
        self.holds(intended) && self.part.examples.len() < MOST_EXAMPLES
    }

    pub(super) fn example(&mut self, text: String) {
        self.part.examples.push(text);
    }

    pub(super) fn delayed(&mut self, now: u64, operation: usize, delay: u64) {
        if let Some(record) = self.record(now, operation) {
            record.delay.record(delay);
        }
    }

    /// What users below `level` were meant to start in the window, which has ended, and have not, since the server keeps them with what came before. Of
    /// what was due within the patience before `now` nothing is said. When it was due is not drawn yet: after what is under way it is taken for the
    /// longest cycle, and for the mean one from then on. By the operation that each user is at: which one the next would have been is not drawn either.
    pub(super) fn kept(&self, now: u64, actors: &[Actor], scenario: &Scenario, level: f64) -> Vec<u64> {
        let mut kept = vec![0; scenario.operations.len()];
        let Some(cycle) = scenario.cycle else { return kept };
        let mean = cycle.mean.0.max(1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        let longest = (mean as f64 * (1.0 + cycle.most)) as u64;
        let due = |actor: &Actor| {
            let is_followed_by_cycle = || scenario.operations[actor.operation].think.is_none();
            match actor.state {
                State::Idle => Some(actor.intended),
                State::Flying | State::Queued if is_followed_by_cycle() => Some(actor.intended.saturating_add(longest)),
                State::Flying | State::Queued | State::Parked => None,
            }
        };
        let (begin, end) = (self.order.begin, self.order.end);
        let end = end.min(now.saturating_sub(self.order.close - end));
        let starts_before = |at: u64, due: u64| at.saturating_sub(due).div_ceil(mean);
        let users = actors.iter().filter(|actor| actor.role == Role::User && (actor.number as f64) < level);
        for (actor, due) in users.filter_map(|actor| Some((actor, due(actor)?))) {
            kept[actor.operation] += starts_before(end, due).saturating_sub(starts_before(begin, due));
        }
        kept
    }

    /// Looks at the clock; the part, once all that was due in the window has begun and has ended or was waited for long enough. What is due at
    /// `next` has not begun: where that is before the end of the window, this thread was late, and begins it next.
    pub(super) fn look(&mut self, now: u64, next: u64) -> Option<(u64, Part)> {
        if now >= self.order.begin && self.began.is_none() {
            self.began = Some((epoll::thread_cpu_ns(), now));
        }
        if now >= self.order.begin && self.looked < self.order.end {
            (self.longest, self.looked) = (self.longest.max(now - self.looked), now);
        }
        if now < self.order.end {
            return None;
        }
        if let (None, Some((cpu, at))) = (self.spent, self.began) {
            let cpu_ns = epoll::thread_cpu_ns() - cpu;
            // A thread that came to look only after the window was kept from running in it, and used little.
            let wall_ns = if at < self.order.end { now - at } else { self.order.end - self.order.begin };
            // `now` is a little before the time of the CPU was read: a thread uses one CPU at most.
            let away_ns = self.longest.saturating_sub(LOOK_NS);
            self.spent = Some(ThreadPart { cpu: None, cpu_ns, wall_ns: wall_ns.max(cpu_ns).max(1), away_ns });
        }
        if next < self.order.end || self.outstanding > 0 && now < self.order.close {
            return None;
        }
        let mut part = std::mem::take(&mut self.part);
        part.threads.extend(self.spent);
        part.counts.unfinished = self.outstanding;
        part.elapsed_ns = self.order.end - self.order.begin;
        Some((self.order.id, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_waits_for_what_is_due_in_it_and_for_what_began_in_it() {
        let order = Order { id: 7, begin: 10, end: 20, close: 100 };
        let window = || Window::new(order, &["one".to_owned()]);
        assert!(window().look(25, 19).is_none(), "a start at 19 was due while the thread was late");
        assert!(window().look(25, 20).is_some_and(|(id, part)| id == 7 && part.elapsed_ns == 10));
        assert!(window().look(100, 19).is_none(), "however late it is, it begins");
        let mut begun = window();
        begun.begun(19, 0);
        assert!(begun.look(25, 30).is_none());
        let mut waited = window();
        waited.begun(19, 0);
        let (_, part) = waited.look(100, 30).expect("it is waited for no longer");
        assert_eq!((part.counts.intended, part.counts.unfinished), (1, 1));
        begun.ended((19, 0), 22, Role::Open, Ok((3, 4)), None);
        let (_, part) = begun.look(26, 30).expect("all has ended");
        assert_eq!((part.counts.intended, part.counts.ended, part.counts.unfinished), (1, 1, 0));
    }

    /// "A thread was busy 20000 % of the time" was said of one that had slept over the whole window.
    #[test]
    fn a_thread_uses_one_cpu_at_most() {
        let order = Order { id: 7, begin: 10, end: 2_000_000_010, close: 3_000_000_000 };
        let share = |part: &Part| part.threads[0].cpu_ns as f64 / part.threads[0].wall_ns as f64;
        let slept = Window::new(order, &["one".to_owned()]).look(2_500_000_000, u64::MAX);
        assert!(slept.is_some_and(|(_, part)| share(&part) < 0.1));
        let mut short = Window::new(Order { end: 20, ..order }, &["one".to_owned()]);
        assert!(short.look(12, u64::MAX).is_none());
        assert!(short.look(21, u64::MAX).is_some_and(|(_, part)| share(&part) <= 1.0));
    }

    /// It looks at the clock every 50 ms at the latest.
    #[test]
    fn a_thread_that_did_not_run_in_a_window_knows_for_how_long() {
        let order = Order { id: 7, begin: 10, end: 2_000_000_010, close: 3_000_000_000 };
        let away = |looks: &[u64]| {
            let mut window = Window::new(order, &["one".to_owned()]);
            let (_, part) = looks.iter().find_map(|&now| window.look(now, u64::MAX)).expect("its end is seen");
            part.threads[0].away_ns
        };
        assert_eq!(away(&[2_500_000_010]), 2_450_000_000, "it slept over all of it");
        assert_eq!(away(&[5, 300_000_010, 2_000_000_010]), 1_650_000_000);
        assert_eq!(away(&[300_000_010, 2_000_000_010, 9_000_000_010]), 1_650_000_000, "after its end is not in it");
        assert_eq!(away(&(0..42).map(|at| at * LOOK_NS).collect::<Vec<_>>()), 0);
    }

    /// Ten were meant to start in 10 ns, and one ends every 2 ns: five are in the rate, and all have a latency.
    #[test]
    fn a_rate_is_of_what_ended_within_the_window() {
        let mut window = Window::new(Order { id: 7, begin: 10, end: 20, close: 100 }, &["one".to_owned()]);
        (10..20).for_each(|at| window.begun(at, 0));
        for at in 0..10 {
            let now = 11 + 2 * at;
            window.ended((10 + at, 0), now, Role::Open, Ok((2, now - 10 - at)), None);
        }
        // It was meant to start before the window, and ended in it; a failure is no success.
        window.ended((9, 0), 12, Role::Open, Ok((2, 3)), None);
        window.ended((9, 0), 12, Role::Open, Err(Failure::Reset), None);
        // A loop alongside users is in no rate.
        window.ended((12, 0), 13, Role::Follow { user: 0, follow: 0, step: 0 }, Ok((1, 1)), None);
        let (_, part) = window.look(31, 30).expect("all has ended");
        assert_eq!((part.counts.intended, part.operations[0].raw.count(), part.succeeded()), (10, 11, 6));
    }
}
