//! Links of frames: what is read of one interface is written to another when its time has come.
//!
//! One thread serves all links of a network: it sleeps until a frame has come or one is due, and never spins, so that it takes no CPU from the
//! programs whose traffic it carries. How late its sleeps end is followed while it runs and taken off the next ones.

use crate::line::{Delay, Draw, Meter, Report};
use baremark_sys::ready::{Ready, sharpen_waits};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes that may wait in one direction.
const WAITING: usize = 64 << 20;
/// Frames that are read from one interface before the others have their turn.
const TURN: usize = 64;
/// By how much the lateness that is allowed for changes with each frame, and its limit.
const STEP: Duration = Duration::from_nanos(500);
const LATEST: Duration = Duration::from_micros(200);

/// A direction of a link: frames of the file `from` go to the file `to`, both by their places.
#[derive(Clone, Copy, Debug)]
pub struct Direction {
    /// Where frames are read.
    pub from: usize,
    /// Where they are written.
    pub to: usize,
    /// How long each is held; the overhead of the path is not looked at, the lateness of sleeps is followed instead.
    pub delay: Delay,
    /// Whether its frames are counted and timed in the report.
    pub timed: bool,
}

/// Links that run. Dropping it ends them and closes their files.
#[derive(Debug)]
pub struct Links {
    meter: Arc<Meter>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Links {
    /// Carries frames between files, each read and write of which is one frame of at most `longest` bytes and does not wait, such as those of
    /// TAP interfaces. A file that has ended is left out from then on.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(files: Vec<File>, directions: &[Direction], longest: usize) -> io::Result<Links> {
        let (stopped, stop) = io::pipe()?;
        let meter = Arc::new(Meter::new(crate::Overhead::default()));
        let of = |direction: &Direction| Queue {
            direction: *direction,
            draw: Draw::new(direction.delay.seed),
            waiting: VecDeque::new(),
            bytes: 0,
        };
        let queues = directions.iter().map(of).collect();
        let mut carrier =
            Carrier { files, queues, meter: Arc::clone(&meter), buffer: vec![0; longest], late: Duration::ZERO };
        let work = move || {
            sharpen_waits();
            carrier.carry(&stopped);
        };
        let thread = thread::Builder::new().name("links".to_owned()).spawn(work)?;
        Ok(Links { meter, stop: Some(stop), thread: Some(thread) })
    }

    /// What was measured of the frames of timed directions, from reading to writing.
    #[must_use]
    pub fn report(&self) -> Report {
        self.meter.report()
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.stop = None;
        drop(self.thread.take().map(JoinHandle::join));
    }
}

struct Frame {
    came: Instant,
    due: Instant,
    bytes: Vec<u8>,
}

struct Queue {
    direction: Direction,
    draw: Draw,
    waiting: VecDeque<Frame>,
    bytes: usize,
}

struct Carrier {
    files: Vec<File>,
    queues: Vec<Queue>,
    meter: Arc<Meter>,
    buffer: Vec<u8>,
    /// By how much sleeps end late, followed by its median: a step up when it was more, down when it was less.
    late: Duration,
}

impl Carrier {
    fn carry(&mut self, stopped: &PipeReader) {
        let files: Vec<File> = self.files.iter().filter_map(|file| file.try_clone().ok()).collect();
        let mut watched: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        watched.push(stopped.as_fd());
        let mut ready = Ready::of(watched);
        loop {
            let due = self.queues.iter().filter_map(|queue| queue.waiting.front()).map(|frame| frame.due).min();
            let longest = due.map(|due| due.saturating_duration_since(Instant::now()).saturating_sub(self.late));
            if ready.wait(longest).is_err() || ready.is(files.len()) {
                return;
            }
            for at in 0..self.queues.len() {
                self.release(at);
                let from = self.queues[at].direction.from;
                if ready.is(from) && self.take(at).is_err() {
                    ready.forget(from);
                }
            }
        }
    }

    /// Writes the frames of a direction that are due.
    fn release(&mut self, at: usize) {
        let Carrier { files, queues, meter, late, .. } = self;
        let queue = &mut queues[at];
        let mut to = &files[queue.direction.to];
        while let Some(frame) = queue.waiting.pop_front_if(|frame| frame.due <= Instant::now() + *late) {
            queue.bytes -= frame.bytes.len();
            let written = to.write(&frame.bytes);
            let now = Instant::now();
            *late = if now > frame.due { (*late + STEP).min(LATEST) } else { late.saturating_sub(STEP) };
            queue.direction.account(meter, written.is_ok().then_some(now - frame.came));
        }
    }

    /// Takes the frames that have come: writes them where nothing holds them, else lets them wait.
    ///
    /// # Errors
    /// That the file has ended.
    fn take(&mut self, at: usize) -> io::Result<()> {
        let Carrier { files, queues, meter, buffer, .. } = self;
        let queue = &mut queues[at];
        let (mut from, mut to) = (&files[queue.direction.from], &files[queue.direction.to]);
        for _ in 0..TURN {
            let length = match from.read(buffer) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Err(why) => return Err(why),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
            };
            let came = Instant::now();
            let wait = queue.draw.wait(&queue.direction.delay);
            if wait.is_zero() && queue.waiting.is_empty() {
                let written = to.write(&buffer[..length]);
                queue.direction.account(meter, written.is_ok().then(|| came.elapsed()));
            } else if queue.bytes + length > WAITING {
                queue.direction.account(meter, None);
            } else {
                queue.bytes += length;
                // None overtakes another.
                let last = queue.waiting.back().map_or(came, |last| last.due);
                queue.waiting.push_back(Frame { came, due: (came + wait).max(last), bytes: buffer[..length].to_vec() });
            }
        }
        Ok(())
    }
}

impl Direction {
    /// Counts a frame that was held so long, or was lost.
    fn account(&self, meter: &Meter, held: Option<Duration>) {
        match held {
            None => meter.drop_one(),
            Some(held) if self.timed => meter.record(held),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_sys::calls::again_after_signals;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    /// An end for frames, and the file of the other.
    fn port() -> (UnixDatagram, File) {
        let (near, far) = UnixDatagram::pair().expect("a pair");
        near.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        far.set_nonblocking(true).expect("set");
        (near, File::from(OwnedFd::from(far)))
    }

    fn links(files: Vec<File>, one_way: Duration, jitter: Duration) -> Links {
        let delay = Delay { one_way, jitter, ..Delay::default() };
        let there = Direction { from: 0, to: 1, delay, timed: true };
        let back = Direction { from: 1, to: 0, delay: Delay::default(), timed: false };
        Links::start(files, &[there, back], 2000).expect("started")
    }

    #[test]
    fn frames_pass_whole_in_order_and_after_their_delay_in_its_direction_alone() {
        let ((one, first), (other, second)) = (port(), port());
        let one_way = Duration::from_millis(5);
        let links = links(vec![first, second], one_way, Duration::from_millis(3));
        let began = Instant::now();
        let mut buffer = [0; 2000];
        // As many at a time as a socket of this kind keeps.
        for round in 0..12_u8 {
            let frames = || (8 * round..8 * round + 8).map(|number| vec![number; 10 + usize::from(number)]);
            for frame in frames() {
                one.send(&frame).expect("sent");
            }
            for frame in frames() {
                let length = again_after_signals(|| other.recv(&mut buffer)).expect("received");
                assert_eq!(buffer[..length], frame, "round {round}");
            }
        }
        assert!(began.elapsed() >= 12 * Duration::from_millis(2), "{:?}", began.elapsed());
        other.send(b"back").expect("sent");
        assert_eq!(again_after_signals(|| one.recv(&mut buffer)).expect("received"), 4);
        // A frame is counted just after it was written.
        let deadline = Instant::now() + Duration::from_secs(60);
        while links.report().chunks < 96 && Instant::now() < deadline {
            thread::yield_now();
        }
        let report = links.report();
        assert!(report.chunks == 96 && report.dropped == 0, "{report:?}: the other direction is not counted");
        assert!(report.median.is_some_and(|median| median >= Duration::from_millis(2)), "{report:?}");
    }

    #[test]
    fn a_file_that_has_ended_does_not_end_the_others() {
        let ((one, first), (other, second)) = (port(), port());
        let (ended, end) = io::pipe().expect("a pipe");
        drop(end);
        let delay = Delay::default();
        let directions = [(2, 0), (0, 1)].map(|(from, to)| Direction { from, to, delay, timed: true });
        let files = vec![first, second, File::from(OwnedFd::from(ended))];
        let links = Links::start(files, &directions, 100).expect("started");
        for _ in 0..3 {
            one.send(b"still here").expect("sent");
            assert_eq!(again_after_signals(|| other.recv(&mut [0; 100])).expect("received"), 10);
        }
        drop(links);
        one.set_nonblocking(true).expect("set");
        assert!(one.send(b"gone").is_err(), "its files are closed");
    }
}
