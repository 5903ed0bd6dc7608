//! What each actor does next: when an operation begins, when its requests are answered or fail, and when it has ended.

use super::state::Timer;
use super::{BACKOFF_NS, WORKER_STREAM, Worker};
use crate::actor::{Actor, NONE, Role, State};
use crate::failure::Failure;
use crate::http1::After;
use crate::load::Pool;
use crate::record::MOST_EXAMPLES;
use crate::response::Keep;
use crate::rng::Rng;
use crate::scenario::Scenario;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl Worker<'_> {
    /// Begins the operation that the actor has come to.
    pub(super) fn begin_next(&mut self, index: u32, intended: u64) {
        let actor = &mut self.actors.all[index as usize];
        if self.clock.ending || self.schedule.issued >= self.schedule.most {
            actor.state = State::Idle;
            return;
        }
        if actor.role == Role::Open && self.scenario.operations.len() > 1 {
            actor.operation = weighted(self.scenario, &mut self.rng);
        }
        let beside = matches!(actor.role, Role::Follow { .. });
        actor.request = 0;
        actor.each = 0;
        actor.retried = false;
        actor.intended = intended;
        actor.begun = 0;
        actor.first_event = 0;
        self.schedule.serial += 1;
        actor.serial = self.schedule.serial * self.shard.count + self.shard.index;
        if !beside {
            self.schedule.issued += 1;
            self.schedule.flying += 1;
            self.record.part.operations[actor.operation].intended += 1;
            if let Some(window) = &mut self.record.window {
                window.begun(intended, actor.operation);
            }
        }
        self.record.part.counts.intended += 1;
        self.record.second.intended += 1;
        self.send(index);
    }

    /// The current request has failed, and its operation with it.
    pub(super) fn fail(&mut self, index: u32, why: Failure, connecting: bool) {
        self.record.part.counts.failed_requests += 1;
        let intended = self.actors.all[index as usize].intended;
        let windowed = self.record.window.as_ref().is_some_and(|window| window.wants_example(intended));
        if windowed || self.record.part.examples.len() < MOST_EXAMPLES {
            let actor = &self.actors.all[index as usize];
            let status = if why == Failure::Status { format!(" {}", actor.heard.status) } else { String::new() };
            let name = &self.scenario.operations[actor.operation].name;
            let at = self.clock.now as f64 / 1e9;
            let example = format!("{at:.3} s: {name}: {}{status}", why.label());
            if let Some(window) = self.record.window.as_mut().filter(|_| windowed) {
                window.example(example.clone());
            }
            if self.record.part.examples.len() < MOST_EXAMPLES {
                self.record.part.examples.push(example);
            }
        }
        self.actors.all[index as usize].state = State::Flying;
        self.finish(index, Err((why, connecting)));
    }

    /// The current request has its answer.
    #[inline]
    pub(super) fn answered(&mut self, index: u32, after: After) {
        let scenario = self.scenario;
        let actor = &mut self.actors.all[index as usize];
        let request = &scenario.operations[actor.operation].requests[actor.request];
        let status = actor.heard.status;
        self.record.statuses[usize::from(status).min(999)] += 1;
        if !self.clock.ending {
            self.record.part.counts.answered += 1;
            self.record.second.answered += 1;
        }
        let connection = actor.connection;
        actor.retried = false;
        self.sockets.connections[connection as usize].used = true;
        if self.sockets.connections[connection as usize].session.is_some() {
            self.leave_stream(connection, index, after);
        } else if after == After::Close {
            self.close(connection);
        } else if self.engine.pool == Pool::Shared {
            actor.connection = NONE;
            self.release(connection);
        }
        let actor = &mut self.actors.all[index as usize];
        if scenario.cookies {
            actor.take_cookies(request.origin);
        }
        if !request.expects(status) {
            *self.record.part.failed_statuses.entry(status).or_default() += 1;
            return self.fail(index, Failure::Status, false);
        }
        // An answer without content has nothing to take: the variables keep what they hold.
        if actor.heard.keep == Keep::Body && status != 204 {
            let body = std::mem::take(&mut actor.heard.body);
            let sound = actor.extract(&request.extract, &body);
            self.record_delay(index, &body);
            drop(body);
            self.actors.all[index as usize].heard.release();
            if !sound {
                return self.fail(index, Failure::NotFound, false);
            }
        }
        let actor = &mut self.actors.all[index as usize];
        let again = request.each.is_some_and(|(variable, most)| {
            actor.each += 1;
            actor.each < most && actor.item(variable, actor.each).is_some()
        });
        if !again {
            actor.request += 1;
            actor.each = 0;
        }
        if actor.request < scenario.operations[actor.operation].requests.len() {
            // A stream ends an operation with its first event only where nothing follows it.
            actor.first_event = 0;
            return self.send(index);
        }
        self.finish(index, Ok(()));
    }

    /// An operation has ended, well or not; a failure says whether a connection could not even be made.
    #[inline]
    pub(super) fn finish(&mut self, index: u32, outcome: Result<(), (Failure, bool)>) {
        let scenario = self.scenario;
        let actor = &mut self.actors.all[index as usize];
        actor.heard.release();
        let operation = &scenario.operations[actor.operation];
        let record = &mut self.record.part.operations[actor.operation];
        let done = if actor.first_event == 0 { self.clock.now } else { actor.first_event };
        if !self.clock.ending {
            self.record.part.counts.ended += 1;
            record.in_time += u64::from(outcome.is_ok() && !matches!(actor.role, Role::Follow { .. }));
        }
        if let Some(window) = &mut self.record.window {
            let from = |start: u64| done.saturating_sub(start);
            let latency = outcome.map(|()| (from(actor.begun), from(actor.intended))).map_err(|(why, _)| why);
            window.ended((actor.intended, actor.operation), self.clock.now, actor.role, latency, operation.limit);
        }
        match outcome {
            Ok(()) => {
                let raw = done.saturating_sub(actor.begun);
                record.raw.record(raw);
                let mut latency = raw;
                if matches!(actor.role, Role::Open | Role::User) {
                    latency = done.saturating_sub(actor.intended);
                    record.corrected.record(latency);
                }
                if !matches!(actor.role, Role::Follow { .. }) {
                    self.record.second_latencies.record(latency);
                }
                record.within_limit += u64::from(operation.limit.is_none_or(|limit| latency <= limit.0));
            }
            Err((why, _)) => {
                record.failures[why as usize] += 1;
                self.record.second.failed += 1;
            }
        }
        match actor.role {
            Role::Closed => {
                self.schedule.flying -= 1;
                actor.operation = after_operation(scenario, actor, outcome.is_ok());
                if matches!(outcome, Err((_, true))) {
                    let at = self.clock.now + BACKOFF_NS;
                    return self.sleep_until(index, at);
                }
                let now = self.clock.now;
                // What failed, or took no time because there was nothing to send, comes back by way of the timers.
                if outcome.is_err() || done == actor.begun {
                    return self.sleep_until(index, now);
                }
                self.begin_next(index, now);
            }
            Role::Open => {
                self.schedule.flying -= 1;
                self.dismiss(index);
            }
            Role::User => {
                self.schedule.flying -= 1;
                self.user_goes_on(index, outcome.is_ok());
            }
            Role::Follow { .. } => self.loop_goes_on(index, outcome.is_ok()),
            Role::Free => {}
        }
    }

    /// The actor's place is free.
    pub(super) fn dismiss(&mut self, index: u32) {
        let connection = std::mem::replace(&mut self.actors.all[index as usize].connection, NONE);
        if connection != NONE {
            self.release(connection);
        }
        let actor = &mut self.actors.all[index as usize];
        actor.role = Role::Free;
        actor.state = State::Idle;
        self.actors.free.push(index);
    }

    pub(super) fn user_goes_on(&mut self, index: u32, well: bool) {
        let scenario = self.scenario;
        let ended = self.actors.all[index as usize].operation;
        let operation = &scenario.operations[ended];
        if well {
            for follow in &operation.begin {
                self.begin_loop(index, *follow);
            }
            for follow in &operation.end {
                self.end_loop(index, *follow);
            }
        }
        let actor = &mut self.actors.all[index as usize];
        actor.operation = after_operation(scenario, actor, well);
        let next = match (operation.think, scenario.cycle) {
            (Some(think), _) => self.clock.now + think.0,
            (None, Some(cycle)) => {
                let mean = cycle.mean.0 as f64;
                let limits = (mean * (1.0 - cycle.most), mean * (1.0 + cycle.most));
                let drawn = actor.rng.truncated_normal(mean, mean * cycle.deviation, limits);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
                let drawn = drawn as u64;
                actor.intended + drawn
            }
            (None, None) => self.clock.now,
        };
        actor.intended = next;
        if next <= self.clock.now {
            // The server has kept the user: late by its doing, not by ours, so that no send lag is recorded.
            let at = self.clock.now;
            return self.sleep_until(index, at);
        }
        self.sleep_until(index, next);
    }

    pub(super) fn begin_loop(&mut self, user: u32, follow: usize) {
        let number = self.actors.all[user as usize].number;
        let index = self.hire(Role::Follow { user, follow, step: 0 }, number);
        let variables = self.actors.all[user as usize].variables.clone();
        let cookies = self.actors.all[user as usize].cookies.clone();
        self.schedule.serial += 1;
        let stream = WORKER_STREAM + self.schedule.serial * self.shard.count + self.shard.index;
        let actor = &mut self.actors.all[index as usize];
        actor.variables = variables;
        actor.cookies = cookies;
        actor.rng = Rng::stream(self.engine.load.seed, stream);
        actor.operation = self.scenario.follows[follow].operations[0];
        self.actors.all[user as usize].follows.push((follow, index));
        let now = self.clock.now;
        self.sleep_until(index, now);
    }

    /// A user who is not wanted any more takes the loops along, and comes as a new one if ever.
    pub(super) fn send_home(&mut self, user: u32) {
        while let Some(&(follow, _)) = self.actors.all[user as usize].follows.first() {
            self.end_loop(user, follow);
        }
        let scenario = self.scenario;
        let actor = &mut self.actors.all[user as usize];
        actor.start_over(scenario);
        actor.operation = scenario.start;
    }

    /// Ends the oldest loop of this kind alongside a user.
    pub(super) fn end_loop(&mut self, user: u32, follow: usize) {
        let follows = &mut self.actors.all[user as usize].follows;
        let Some(at) = follows.iter().position(|(kind, _)| *kind == follow) else { return };
        let (_, index) = follows.remove(at);
        let connection = self.actors.all[index as usize].connection;
        if connection != NONE && self.actors.all[index as usize].state == State::Flying {
            if self.sockets.connections[connection as usize].session.is_some() {
                self.leave_stream(connection, index, After::Close);
            } else {
                self.close(connection);
            }
        }
        self.dismiss(index);
    }

    pub(super) fn loop_goes_on(&mut self, index: u32, well: bool) {
        let scenario = self.scenario;
        let actor = &mut self.actors.all[index as usize];
        let Role::Follow { user, follow, step } = actor.role else { return };
        let rule = &scenario.follows[follow];
        let ended = actor.operation;
        if well {
            actor.change(&scenario.operations[ended].changes);
        }
        let step = (step + 1) % rule.operations.len();
        actor.role = Role::Follow { user, follow, step };
        actor.operation = rule.operations[step];
        let over = !rule.until.is_empty() && actor.holds(&rule.until);
        self.tell_user(index);
        if over {
            self.actors.all[user as usize].follows.retain(|(_, other)| *other != index);
            return self.dismiss(index);
        }
        let pause = if !well {
            BACKOFF_NS.max(rule.pause.0)
        } else if step == 0 {
            rule.pause.0
        } else {
            0
        };
        let at = self.clock.now + pause;
        self.sleep_until(index, at);
    }

    /// Hands a loop's variables to its user. What the loop does not know it does not tell: the user may be thinking about
    /// what was told before, and would have nothing to act on.
    pub(super) fn tell_user(&mut self, index: u32) {
        let Role::Follow { user, follow, .. } = self.actors.all[index as usize].role else { return };
        for &variable in &self.scenario.follows[follow].tell {
            if let Some(value) = self.actors.all[index as usize].variables[variable].clone() {
                self.actors.all[user as usize].variables[variable] = Some(value);
            }
        }
    }

    /// The actor may have waited too long; the timer is for its latest request.
    pub(super) fn deadline(&mut self, index: u32, at: u64) {
        let actor = &mut self.actors.all[index as usize];
        if actor.armed != at {
            return;
        }
        actor.armed = 0;
        if actor.state != State::Flying || actor.connection == NONE {
            return;
        }
        if actor.deadline > self.clock.now {
            let later = actor.deadline;
            return arm(&mut self.actors.timers, actor, index, later);
        }
        let connection = actor.connection;
        if actor.heard.keep == Keep::Events && actor.heard.status != 0 {
            let request = &self.scenario.operations[actor.operation].requests[actor.request];
            if request.events.is_some_and(|stream| stream.lasting.is_some()) {
                return self.answered(index, After::Close);
            }
        }
        // Too late is not unreachable: nobody is made to wait before the next attempt.
        self.sockets.connections[connection as usize].connecting = false;
        self.give_up(index, Failure::Timeout);
    }
}

/// The actor gives up at `deadline`. One timer is under way for each actor, and only an earlier one replaces it.
#[inline]
pub(super) fn arm(timers: &mut BinaryHeap<Reverse<(u64, u32, Timer)>>, actor: &mut Actor, index: u32, deadline: u64) {
    actor.deadline = deadline;
    if actor.armed == 0 || deadline < actor.armed {
        actor.armed = deadline.max(1);
        timers.push(Reverse((actor.armed, index, Timer::Deadline)));
    }
}

fn after_operation(scenario: &Scenario, actor: &mut Actor, well: bool) -> usize {
    let operation = &scenario.operations[actor.operation];
    if !well {
        return operation.on_failure;
    }
    if !operation.changes.is_empty() {
        actor.change(&operation.changes);
    }
    actor.choose(scenario, operation.next)
}

fn weighted(scenario: &Scenario, rng: &mut Rng) -> usize {
    let sum: f64 = scenario.operations.iter().map(|operation| operation.weight).sum();
    let mut draw = rng.uniform() * sum;
    let found = scenario.operations.iter().position(|operation| {
        draw -= operation.weight;
        draw < 0.0
    });
    found.unwrap_or(scenario.start)
}
