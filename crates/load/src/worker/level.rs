//! Levels and windows of a load under a rate control: which orders a worker hears, and what it does by them.

use super::Worker;
use super::window::Window;
use crate::actor::Role;
use crate::load::Drive;
use crate::rng::Rng;
use std::cmp::Reverse;

impl Worker<'_> {
    /// Hears of orders, changes the level when that is due, and hands over a window that is complete.
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
        let wakes = self.actors.timers.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        let next = wakes.min(self.schedule.next_start);
        if let Some(window) = &mut self.record.window
            && let Some((id, part)) = window.look(self.clock.now, next)
        {
            self.record.window = None;
            listener.tell(id, part);
        }
        self.hire_users();
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
