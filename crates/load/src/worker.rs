//! One thread's event loop: due starts, ready sockets, answers, and what each actor does next.
//!
//! A request in steady state costs one write, one read and one look at the clock; memory is only allocated for what a
//! scenario keeps. Whatever fails comes back by way of the timers, so that a dead server can neither recurse nor spin.

mod exchange;
mod level;
mod multiplex;
mod state;
mod steps;
mod window;

use crate::actor::{Actor, NONE, Role, State};
use crate::control::Listener;
use crate::epoll;
use crate::load::{Drive, Engine};
use crate::record::{Part, SecondPart, ThreadPart};
use crate::rng::Rng;
use crate::scenario::Scenario;
use baremark_sys::clock::monotonic_ns;
use baremark_sys::wall::SystemClock;
use state::{Actors, Buffers, Clock, Record, SECOND_NS, Schedule, Shard, Sockets, Timer};
use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

pub(crate) use state::Tick;
pub(crate) use window::LOOK_NS;

/// One thread of the generator.
pub(crate) struct Worker<'e> {
    engine: &'e Engine,
    scenario: &'e Scenario,
    shard: Shard,
    rng: Rng,
    clock: Clock,
    /// For what servers have stamped.
    system_clock: SystemClock,
    schedule: Schedule,
    actors: Actors,
    sockets: Sockets,
    buffers: Buffers,
    record: Record,
}

/// A caller of a closed loop waits so long after a connection that could not be made.
const BACKOFF_NS: u64 = 10_000_000;
/// Operations that wait for a connection, at most; more are counted as unsent at once.
const MOST_QUEUED: usize = 1 << 20;
/// Users' random streams; the worker's own lie far above.
const WORKER_STREAM: u64 = 1 << 62;

impl<'e> Worker<'e> {
    pub(crate) fn new(
        engine: &'e Engine,
        (shard, shards): (u64, u64),
        most: u64,
        ticks: Sender<Tick>,
    ) -> std::io::Result<Worker<'e>> {
        let scenario = &engine.load.scenario;
        let shard = Shard { index: shard, count: shards };
        Ok(Worker {
            engine,
            scenario,
            rng: Rng::stream(engine.load.seed, WORKER_STREAM + shard.index),
            clock: Clock { begin: 0, now: 0, end: engine.end_ns(), ending: false, next_look: 0 },
            system_clock: SystemClock::default(),
            schedule: Schedule::new(engine, &shard, most),
            actors: Actors::default(),
            sockets: Sockets::new(scenario.origins.len())?,
            buffers: Buffers::new(),
            record: Record::new(&scenario.operation_names(), ticks),
            shard,
        })
    }

    /// Runs the load from `begin` of the monotonic clock and returns what was measured.
    pub(crate) fn run(mut self, begin: u64, cpu: Option<usize>) -> std::io::Result<Part> {
        baremark_sys::ready::sharpen_waits();
        self.clock.begin = begin;
        while monotonic_ns() < begin {
            std::thread::sleep(std::time::Duration::from_nanos(begin.saturating_sub(monotonic_ns())));
        }
        let cpu_before = epoll::thread_cpu_ns();
        self.look_at_clock();
        self.populate();
        while !self.clock.ending {
            self.dispatch();
            self.check_end();
            self.wait(self.clock.next_look.min(self.clock.end), self.clock.end)?;
        }
        let wall_ns = self.clock.now.max(1);
        let cpu_ns = epoll::thread_cpu_ns() - cpu_before;
        self.record.part.elapsed_ns = wall_ns;
        self.miss_starts();
        self.close_last_second(wall_ns);
        self.drain()?;
        // The clock was last looked at a little before: a thread uses one CPU at most.
        self.record.part.threads.push(ThreadPart { cpu, cpu_ns, wall_ns: wall_ns.max(cpu_ns), away_ns: 0 });
        for (status, count) in self.record.statuses.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.record.part.statuses.insert(u16::try_from(status).unwrap_or(0), *count);
        }
        Ok(self.record.part)
    }

    /// The first actors and starts.
    fn populate(&mut self) {
        let seed = self.engine.load.seed;
        match self.engine.load.drive {
            Drive::Closed => {
                let callers = self.engine.callers();
                for number in (self.shard.index..callers).step_by(usize::try_from(self.shard.count).unwrap_or(1)) {
                    let actor = self.hire(Role::Closed, number);
                    let now = self.clock.now;
                    self.begin_next(actor, now);
                }
            }
            Drive::Open { .. } => self.advance_starts(),
            // A dial hires them when they are requested.
            Drive::Users { .. } if self.schedule.listener.is_some() => {}
            Drive::Users { .. } => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
                let users = self.schedule.curve.as_ref().map_or(0, |curve| curve.highest().ceil() as u64);
                let cycle = self.scenario.cycle.map_or(0, |cycle| cycle.mean.0);
                for number in (self.shard.index..users).step_by(usize::try_from(self.shard.count).unwrap_or(1)) {
                    let actor = self.hire(Role::User, number);
                    let mut draw = Rng::stream(seed ^ 0x5eed, number);
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
                    let phase = (draw.uniform() * cycle as f64) as u64;
                    self.actors.all[actor as usize].intended = phase;
                    self.sleep_until(actor, phase);
                }
            }
        }
    }

    fn hire(&mut self, role: Role, number: u64) -> u32 {
        let seed = self.engine.load.seed;
        if let Some(index) = self.actors.free.pop() {
            let actor = &mut self.actors.all[index as usize];
            let armed = actor.armed;
            if self.scenario.variables.is_empty() && !self.scenario.cookies {
                actor.role = role;
                actor.number = number;
                actor.operation = self.scenario.start;
                actor.state = State::Idle;
                return index;
            }
            *actor = Actor::new(role, number, seed, self.scenario);
            actor.armed = armed;
            return index;
        }
        self.actors.all.push(Actor::new(role, number, seed, self.scenario));
        u32::try_from(self.actors.all.len() - 1).unwrap_or(NONE)
    }

    #[inline]
    fn look_at_clock(&mut self) {
        self.clock.now = monotonic_ns().saturating_sub(self.clock.begin);
        if self.clock.now >= self.record.second_end {
            self.roll_second();
        }
    }

    /// The last second stays open until the load has ended: what was to start in it and comes late belongs to it.
    fn roll_second(&mut self) {
        while self.clock.now >= self.record.second_end && self.record.second_end < self.clock.end {
            self.close_second();
            self.record.second_end += SECOND_NS;
        }
    }

    fn close_second(&mut self) {
        let mut part = std::mem::take(&mut self.record.second);
        part.latencies = self.record.second_latencies.to_v2();
        self.record.second_latencies.clear();
        // Nobody may be listening; the record is what counts.
        let _ = self.record.ticks.send(Tick { second: self.record.part.seconds.len(), part: part.clone() });
        self.record.part.seconds.push(part);
    }

    /// A last second that was cut short is kept, but for one of less than a hundredth in which nothing was.
    fn close_last_second(&mut self, elapsed: u64) {
        let closed = self.record.part.seconds.len() as u64;
        let left = elapsed.saturating_sub(closed * SECOND_NS);
        if closed == 0 || left >= SECOND_NS / 100 || self.record.second != SecondPart::default() {
            self.close_second();
        }
    }

    /// Flags and profiles, looked at now and then.
    fn look_around(&mut self) {
        self.heed_dial();
        let change = self.schedule.listener.as_ref().map_or(u64::MAX, Listener::next_change);
        self.clock.next_look = (self.clock.now + LOOK_NS).min(change);
        if self.engine.interrupt.load(Ordering::Relaxed) {
            self.record.part.interrupted = true;
            self.clock.ending = true;
        }
        if self.actors.parked.is_empty() {
            return;
        }
        let level = self.level();
        let mut parked = std::mem::take(&mut self.actors.parked);
        parked.retain(|&index| {
            let wakes = (self.actors.all[index as usize].number as f64) < level;
            if wakes {
                self.rouse(index);
            }
            !wakes
        });
        self.actors.parked = parked;
    }

    fn level(&self) -> f64 {
        if let Some(listener) = &self.schedule.listener {
            return listener.level;
        }
        self.schedule.curve.as_ref().map_or(f64::INFINITY, |curve| curve.level(self.clock.now as f64 / 1e9))
    }

    fn check_end(&mut self) {
        let out_of_work = self.schedule.issued >= self.schedule.most && self.schedule.flying == 0;
        let out_of_starts = self.schedule.listener.is_none()
            && self.schedule.starts.is_some()
            && self.schedule.next_start == u64::MAX
            && self.schedule.flying == 0;
        if self.clock.now >= self.clock.end || out_of_work || out_of_starts {
            self.clock.ending = true;
        }
    }

    fn advance_starts(&mut self) {
        self.schedule.next_start = self.schedule.starts.as_mut().and_then(Iterator::next).unwrap_or(u64::MAX);
        if self.schedule.next_start >= self.clock.end {
            self.schedule.next_start = u64::MAX;
        }
    }

    #[inline]
    fn is_due(&self) -> bool {
        self.schedule.next_start <= self.clock.now
            || self.actors.timers.peek().is_some_and(|Reverse((at, ..))| *at <= self.clock.now)
    }

    /// A start that will not be: it was intended, and nothing is sent for it.
    fn miss(&mut self, intended: u64) {
        if let Some(window) = &mut self.record.window {
            window.unsent(intended);
        }
        self.record.part.counts.intended += 1;
        self.record.part.counts.unsent += 1;
        self.record.second.intended += 1;
    }

    /// Starts that were due when the time was over, and that this thread, which was late, has not come to.
    fn miss_starts(&mut self) {
        if self.record.part.interrupted {
            return;
        }
        while self.schedule.next_start <= self.clock.now && self.schedule.issued < self.schedule.most {
            let intended = self.schedule.next_start;
            self.advance_starts();
            self.record.part.send_lag.record(self.clock.now - intended);
            self.miss(intended);
        }
    }

    /// Begins what is due and ends what has waited too long.
    fn dispatch(&mut self) {
        let looks = self.clock.now >= self.clock.next_look;
        if looks {
            self.look_around();
        }
        self.begin_due();
        if looks {
            self.hand_over_window();
        }
    }

    fn begin_due(&mut self) {
        // What falls due meanwhile comes next time, after the sockets; but each start is judged by the clock as it is then.
        let due = self.clock.now;
        let mut first = true;
        while self.schedule.next_start <= due && self.schedule.issued < self.schedule.most && !self.clock.ending {
            let intended = self.schedule.next_start;
            self.advance_starts();
            if !std::mem::take(&mut first) {
                self.look_at_clock();
            }
            self.record.part.send_lag.record(self.clock.now - intended);
            if let Some(window) = &mut self.record.window {
                window.lag(intended, self.clock.now - intended);
            }
            if self.actors.queue.len() >= MOST_QUEUED {
                self.miss(intended);
                continue;
            }
            let number = self.schedule.issued * self.shard.count + self.shard.index;
            let actor = self.hire(Role::Open, number);
            self.begin_next(actor, intended);
        }
        while let Some(&Reverse((at, index, timer))) = self.actors.timers.peek() {
            if at > due {
                return;
            }
            self.actors.timers.pop();
            if !std::mem::take(&mut first) {
                self.look_at_clock();
            }
            match timer {
                Timer::Wake => self.wake(index, at),
                Timer::Deadline => self.deadline(index, at),
            }
        }
    }

    fn sleep_until(&mut self, index: u32, at: u64) {
        let actor = &mut self.actors.all[index as usize];
        actor.state = State::Idle;
        actor.wake = at;
        self.actors.timers.push(Reverse((at, index, Timer::Wake)));
    }

    fn wake(&mut self, index: u32, at: u64) {
        let actor = &self.actors.all[index as usize];
        if actor.state != State::Idle || actor.wake != at || actor.role == Role::Free {
            return;
        }
        if actor.role == Role::User && actor.number as f64 >= self.level() {
            self.send_home(index);
            self.actors.all[index as usize].state = State::Parked;
            self.actors.parked.push(index);
            return;
        }
        if actor.role == Role::User {
            self.record.part.send_lag.record(self.clock.now - at);
            if let Some(window) = &mut self.record.window {
                window.lag(at, self.clock.now - at);
            }
        }
        let intended = if actor.role == Role::User { actor.intended } else { self.clock.now };
        self.begin_next(index, intended);
    }

    /// Waits until `until` at the latest and serves what is ready, until `cutoff`: the rest is served by the next call.
    fn wait(&mut self, until: u64, cutoff: u64) -> std::io::Result<()> {
        self.look_at_clock();
        if self.sockets.batch.0 == self.sockets.batch.1 {
            let timer = self.actors.timers.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            let until = until.min(timer).min(self.schedule.next_start).min(self.record.second_end);
            let until = if self.sockets.pending_reads.is_empty() { until } else { 0 };
            self.sockets.batch = (0, self.sockets.epoll.wait(until.saturating_sub(self.clock.now))?);
            self.look_at_clock();
            self.read_pending(cutoff);
        }
        while self.sockets.batch.0 < self.sockets.batch.1 && self.clock.now < cutoff {
            if self.is_due() {
                self.dispatch();
            }
            let event = self.sockets.batch.0;
            self.sockets.batch.0 += 1;
            let ready = self.sockets.epoll.ready(event);
            #[expect(clippy::cast_possible_truncation, reason = "the token is two halves of 32 bits")]
            let (connection, generation) = (ready.token as u32, (ready.token >> 32) as u32);
            let place = &self.sockets.connections[connection as usize];
            if place.generation != generation || place.transport.is_none() {
                continue;
            }
            if place.connecting && !self.connected(connection, ready.writable) {
                continue;
            }
            // First what waits to be sent: the event of room for it comes but once, and what is read may need it.
            if ready.writable && !self.flush(connection) {
                continue;
            }
            if ready.readable {
                self.read(connection, generation, ready.ended);
            }
            while !self.actors.queue.is_empty() && self.serve_queue() {}
        }
        // Deadlines free connections as well.
        while !self.actors.queue.is_empty() && self.serve_queue() {}
        Ok(())
    }

    /// After the end: what is on its way may still come, for a while; the rest is counted as unfinished.
    fn drain(&mut self) -> std::io::Result<()> {
        let grace = if self.record.part.interrupted { 0 } else { self.engine.load.grace.0 };
        let until = self.clock.now + grace;
        for index in std::mem::take(&mut self.actors.queue) {
            let actor = &mut self.actors.all[index as usize];
            if actor.state == State::Queued && !matches!(actor.role, Role::Follow { .. }) {
                actor.state = State::Idle;
                self.schedule.flying -= 1;
                self.record.part.counts.unsent += 1;
                // A caller that waits for a connection all the time has begun nothing: no moment was intended.
                if actor.role == Role::Closed {
                    self.record.part.operations[actor.operation].intended -= 1;
                }
            }
        }
        while self.schedule.flying > 0 && self.clock.now < until && !self.engine.interrupt.load(Ordering::Relaxed) {
            self.dispatch();
            let pause = (self.clock.now + LOOK_NS).min(until);
            self.schedule.next_start = u64::MAX;
            self.record.second_end = u64::MAX;
            self.wait(pause, until)?;
        }
        self.record.part.counts.unfinished += self.schedule.flying as u64;
        Ok(())
    }
}
