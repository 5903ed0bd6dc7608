//! Levels and windows of a load under a rate control: which orders a worker hears, and what it does by them.

use super::Worker;
use super::window::Window;
use crate::actor::Role;
use crate::load::Drive;
use crate::rng::Rng;
use std::cmp::Reverse;

impl Worker<'_> {
    /// Hears of orders, and changes the level when that is due.
    pub(super) fn heed_dial(&mut self) {
        let Some(listener) = &mut self.schedule.listener else { return };
        if let Some(order) = listener.listen(self.schedule.flying) {
            self.record.window = Some(Box::new(Window::new(order, &self.scenario.operation_names())));
        }
        while let Some((at, level)) = listener.due(self.clock.now) {
            if let Some(starts) = &mut self.schedule.starts {
                let at_s = at as f64 / 1e9;
                self.schedule.next_start = starts.change(at_s, level).unwrap_or(u64::MAX);
            }
        }
        self.hire_users();
    }

    /// Hands over a window that is complete, or that is waited for no longer. What was due in it has begun by now, also where this thread was kept
    /// from running: it counts. A load that ends begins nothing more.
    pub(super) fn hand_over_window(&mut self) {
        let (Some(window), Some(listener)) = (&mut self.record.window, &self.schedule.listener) else { return };
        let wakes = self.actors.timers.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        let next = if self.clock.ending { u64::MAX } else { wakes.min(self.schedule.next_start) };
        if let Some((id, mut part)) = window.look(self.clock.now, next) {
            if matches!(self.engine.load.drive, Drive::Users { .. }) {
                let kept = window.kept(self.clock.now, &self.actors.all, self.scenario, listener.level);
                for (operation, kept) in part.operations.iter_mut().zip(kept) {
                    operation.kept += kept;
                    part.counts.intended += kept;
                    part.counts.unsent += kept;
                }
            }
            self.record.window = None;
            listener.tell(id, part);
        }
    }

    /// Users who are requested for the first time begin somewhere in their cycle.
    fn hire_users(&mut self) {
        if !matches!(self.engine.load.drive, Drive::Users { .. }) {
            return;
        }
        let Some((level, hired)) = self.schedule.listener.as_ref().map(|listener| (listener.level, listener.hired))
        else {
            return;
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        let wanted = level.ceil() as u64;
        let (shard, shards) = (self.shard.index, self.shard.count);
        for number in (hired..wanted).filter(|number| number % shards == shard) {
            let actor = self.hire(Role::User, number);
            self.rouse(actor);
        }
        if let Some(listener) = &mut self.schedule.listener {
            listener.hired = hired.max(wanted);
        }
    }

    /// A user begins after a part of a cycle that is drawn: many who are requested at once do not come at once.
    pub(super) fn rouse(&mut self, index: u32) {
        let cycle = self.scenario.cycle.map_or(0, |cycle| cycle.mean.0);
        let number = self.actors.all[index as usize].number;
        let mut draw = Rng::stream(self.engine.load.seed ^ 0x5eed, number);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        let at = self.clock.now + (draw.uniform() * cycle as f64) as u64;
        self.actors.all[index as usize].intended = at;
        self.sleep_until(index, at);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Worker;
    use crate::arrival::Arrival;
    use crate::control::{Control, Order};
    use crate::load::{Drive, Engine, Load, Stop};
    use crate::profile::Profile;
    use crate::scenario::Scenario;
    use baremark_sys::clock::monotonic_ns;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    /// Next to busy loops a thread slept over a window and the time for which it is waited for: half of the starts in it were none.
    #[test]
    fn a_thread_that_slept_over_a_window_counts_all_that_was_to_start_in_it() {
        const MS: u64 = 1_000_000;
        let server = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/", server.local_addr().expect("it is bound"));
        let drive = Drive::Open { arrival: Arrival::Constant, profile: Profile::steady(1000.0) };
        let load = Load::new(Scenario::of_url(&url).expect("a URL"), drive, Stop::Count(u64::MAX));
        let begin = monotonic_ns() - 2000 * MS;
        let (sender, parts) = mpsc::channel();
        let control = Arc::new(Control::new(begin, 1, sender));
        let mut engine = Engine::new(load, Arc::new(AtomicBool::new(false))).expect("it can be run");
        engine.control = Some(Arc::clone(&control));
        control.change(begin, 200.0);
        let at = |ms: u64| begin + ms * MS;
        control.open(Order { id: 7, begin: at(100), end: at(400), close: at(600) });
        let (ticks, _seconds) = mpsc::channel();
        let mut worker = Worker::new(&engine, (0, 1), u64::MAX, ticks).expect("it has its descriptors");
        worker.clock.begin = begin;
        worker.look_at_clock();
        worker.populate();
        worker.dispatch();
        let (id, part) = parts.try_recv().expect("it is waited for no longer");
        assert_eq!((id, part.counts.intended, part.counts.unfinished), (7, 60, 60));
        assert!(part.send_lag.count() == 60 && part.send_lag.largest() > Some(1500 * MS));
    }
}
