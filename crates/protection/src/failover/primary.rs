//! The primary: runs the program, and sends a checkpoint of it to the secondary at the end of each epoch.
//!
//! It holds the other ends of the program's connections. They are local streams, so that nothing is on its way while the program stands:
//! what it has written is read out before the checkpoint, and what it has read is what was written to it less what waits there unread.

use super::checkpoint::{self, Connection, Head, Saved};
use super::control::{self, FromReplica, Order, Output, Release, ToReplica};
use super::descriptors::{self, Open};
use crate::encoding::put;
use crate::link::{Link, Sender};
use crate::memory::Memory;
use baremark_guest_program::Command;
use baremark_guest_program::image::{Description, Target};
use baremark_guest_program::protected::{self, Protected};
use baremark_model::units::Nanos;
use baremark_sys::ready::Ready;
use baremark_sys::{affinity, confine, local_socket, tracee};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// How long a program's threads may take to stop.
const STOP: Duration = Duration::from_secs(10);
/// How long input waits for a program that has not read what it has.
const GLANCE: Duration = Duration::from_millis(1);
/// How long a process that was killed may take to be gone.
const DYING: Duration = Duration::from_secs(2);
const CHUNK: usize = 64 << 10;
/// The standard streams, as connections.
pub const STREAMS: std::ops::Range<u64> = 0..3;
/// The exit code of a runner that could not continue.
const RUNNER_FAILED: i32 = 125;

/// Messages of the conductor; `None` when it is gone.
pub type Inbox = Receiver<Option<(ToReplica, Vec<u8>)>>;

/// The way to the conductor.
pub struct Control {
    pub stream: UnixStream,
    pub inbox: Inbox,
    /// A byte comes here with each message and each acknowledgement.
    pub wake: UnixStream,
    pub waker: UnixStream,
}

impl Control {
    /// Sends a message to the conductor.
    ///
    /// # Errors
    /// When it is gone.
    pub fn send(&self, message: &FromReplica, bytes: &[u8]) -> io::Result<()> {
        control::send(&self.stream, message, bytes)
    }

    /// Forgets that it was woken.
    pub fn rest(&self) {
        // It does not block; what was there is of no interest.
        while (&self.wake).read(&mut [0; 64]).is_ok_and(|read| read == 64) {}
    }
}

/// A connection of the program, or a standard stream.
struct Channel {
    end: UnixStream,
    server: String,
    client: String,
    /// Bytes that the program can read, or has read.
    given: u64,
    /// Bytes that do not fit yet.
    queue: Vec<u8>,
    input_ended: bool,
    /// Bytes of earlier epochs.
    sent: u64,
    /// Bytes of this epoch.
    output: Vec<u8>,
    ended: bool,
    end_reported: bool,
    /// Whether the program has it, as far as a checkpoint has seen.
    is_accepted: bool,
    /// Whether the client is lost, which the program has not been told.
    is_lost: bool,
}

impl Channel {
    fn new(end: UnixStream, connection: &Connection) -> io::Result<Channel> {
        end.set_nonblocking(true)?;
        let Connection { server, client, consumed, produced, ended, .. } = connection.clone();
        let (queue, output) = (Vec::new(), Vec::new());
        let (given, sent, end_reported) = (consumed, produced, ended);
        let (input_ended, is_accepted, is_lost) = (false, true, false);
        Ok(Channel {
            end,
            server,
            client,
            given,
            queue,
            input_ended,
            sent,
            output,
            ended,
            end_reported,
            is_accepted,
            is_lost,
        })
    }

    /// The client takes no more output: writing to it gives the program an error, and reading the end after what has come.
    fn lose(&mut self) {
        (self.is_lost, self.input_ended) = (true, true);
        self.push();
    }

    fn push(&mut self) {
        // A connection that has ended would be forgotten before the program accepts it.
        if self.is_accepted && std::mem::take(&mut self.is_lost) {
            drop(self.end.shutdown(Shutdown::Read));
        }
        while !self.queue.is_empty() {
            match self.end.write(&self.queue) {
                Ok(length) => {
                    self.given += length as u64;
                    self.queue.drain(..length);
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => return,
                // The program has closed it and reads no more.
                Err(_) => self.queue.clear(),
            }
        }
        if std::mem::take(&mut self.input_ended) {
            drop(self.end.shutdown(Shutdown::Write));
        }
    }

    fn drain(&mut self, buffer: &mut [u8]) {
        while !self.ended {
            match self.end.read(buffer) {
                Ok(0) => self.ended = true,
                Ok(length) => self.output.extend_from_slice(&buffer[..length]),
                Err(why) if why.kind() == ErrorKind::WouldBlock => return,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.ended = true,
            }
        }
    }

    /// What it adds to a checkpoint's output.
    fn take_output(&mut self, channel: u64, is_open: bool, bytes: &mut Vec<u8>) -> Option<Output> {
        let closed = self.ended && !is_open;
        if self.output.is_empty() && !closed && self.ended == self.end_reported {
            return None;
        }
        let output = Output { channel, offset: self.sent, bytes: self.output.len(), ended: self.ended, closed };
        self.sent += self.output.len() as u64;
        self.end_reported = self.ended;
        bytes.append(&mut self.output);
        Some(output)
    }
}

/// A client to whom the program does not listen yet.
struct Early {
    connection: Connection,
    input: Vec<u8>,
    ended: bool,
    is_lost: bool,
}

/// Output of a checkpoint that is not acknowledged yet.
struct Flight {
    epoch: u64,
    outputs: Vec<Output>,
    bytes: Vec<u8>,
}

/// The program and all that belongs to it.
pub struct Primary<'c> {
    control: &'c Control,
    order: Order,
    program: Protected,
    memory: Memory,
    channels: BTreeMap<u64, Channel>,
    waiting: Vec<Early>,
    sender: Option<Sender>,
    /// The number of the secondary to which that sends, or did last.
    secondary: u32,
    epoch: u64,
    in_flight: Option<Flight>,
    /// Output that a lost secondary had not acknowledged.
    again: Flight,
    is_over: bool,
}

/// A connection's ends: the one that is kept, with a name that says whose it is, and the program's.
fn pair(connection: &Connection) -> io::Result<[UnixStream; 2]> {
    let (own, programs) = UnixStream::pair()?;
    let (process, channel) = (std::process::id(), connection.channel);
    local_socket::set_name(&own, &format!("baremark/{process}/c{channel}/{}", connection.client))?;
    local_socket::set_name(&programs, &format!("baremark/{process}/r{channel}/{}", connection.server))?;
    Ok([own, programs])
}

impl<'c> Primary<'c> {
    /// Starts the program, or continues it from the last checkpoint. The calling thread must live as long as the program.
    ///
    /// # Errors
    /// Why it cannot run.
    pub fn start(control: &'c Control, order: &Order, saved: Option<&Saved>) -> io::Result<Primary<'c>> {
        // The program has its CPUs from this thread.
        let all = affinity::allowed_cpus()?;
        if !order.cpus.is_empty() {
            affinity::restrict_current_thread(&order.cpus)?;
        }
        let started = saved.map_or_else(|| begin(order), go_on);
        affinity::restrict_current_thread(&all)?;
        let (mut program, channels) = started?;
        let stands = program.stop(STOP)?;
        let failed = || io::Error::other(program.failure().unwrap_or_else(|| "the program ended at once".to_owned()));
        let (true, Some(faults)) = (stands, program.faults()) else { return Err(failed()) };
        let process = i32::try_from(program.id()).map_err(io::Error::other)?;
        let memory = Memory::with_faults(process, tracee::take_descriptor(process, faults.into())?)?;
        let epoch = saved.map_or(1, |saved| saved.head.release.epoch + 1);
        program.resume();
        control.send(&FromReplica::Running { epoch, process: program.id() }, &[])?;
        let again = Flight { epoch: 0, outputs: Vec::new(), bytes: Vec::new() };
        let (waiting, sender, in_flight, order) = (Vec::new(), None, None, order.clone());
        let (secondary, is_over) = (0, false);
        Ok(Primary {
            control,
            order,
            program,
            memory,
            channels,
            waiting,
            sender,
            secondary,
            epoch,
            in_flight,
            again,
            is_over,
        })
    }

    /// Runs the program to its end, or until the conductor is gone.
    ///
    /// # Errors
    /// Why it cannot go on.
    pub fn conduct(mut self) -> io::Result<()> {
        let epoch = Duration::from_micros(self.order.epoch_us);
        let mut due = Instant::now() + epoch;
        let mut buffer = vec![0; CHUNK];
        while self.hear()? {
            self.acknowledge()?;
            self.connect_waiting()?;
            self.channels.values_mut().for_each(|channel| {
                channel.push();
                channel.drain(&mut buffer);
            });
            let may_send = self.in_flight.is_none() && self.sender.is_some() && !self.is_over;
            match self.program.has_ended()? {
                Some(status) if may_send => self.finish(status, &mut buffer)?,
                None if may_send && Instant::now() >= due => {
                    self.checkpoint_if_alive(&mut buffer)?;
                    due = Instant::now() + epoch;
                }
                _ => {}
            }
            let left = due.saturating_duration_since(Instant::now());
            let limit = if left.is_zero() { epoch.max(GLANCE) } else { left };
            self.sleep(limit)?;
        }
        Ok(())
    }

    fn sleep(&self, limit: Duration) -> io::Result<()> {
        let is_full = self.channels.values().any(|channel| !channel.queue.is_empty());
        let limit = if is_full || !self.waiting.is_empty() { limit.min(GLANCE) } else { limit };
        let open = self.channels.values().filter(|channel| !channel.ended).map(|channel| channel.end.as_fd());
        let files: Vec<BorrowedFd<'_>> = std::iter::once(self.control.wake.as_fd()).chain(open).collect();
        Ready::of(files).wait(Some(limit))?;
        self.control.rest();
        Ok(())
    }

    /// Does what the conductor says; false when it is gone.
    fn hear(&mut self) -> io::Result<bool> {
        loop {
            let (message, bytes) = match self.control.inbox.try_recv() {
                Ok(Some(message)) => message,
                Ok(None) | Err(TryRecvError::Disconnected) => return Ok(false),
                Err(TryRecvError::Empty) => return Ok(true),
            };
            match message {
                ToReplica::Protect { secondary, at, token, released } => {
                    self.secondary = secondary;
                    self.protect(at, token, released)?;
                }
                ToReplica::Connect { channel, server, client } => {
                    let connection = Connection { channel, server, client, ..Connection::default() };
                    self.waiting.push(Early { connection, input: Vec::new(), ended: false, is_lost: false });
                }
                ToReplica::Input { channel, offset, ended } => self.input(channel, offset, &bytes, ended)?,
                ToReplica::Lost { channel } => self.lose(channel),
                other => return Err(io::Error::other(format!("a primary cannot follow {other:?}"))),
            }
        }
    }

    fn input(&mut self, channel: u64, offset: u64, bytes: &[u8], ended: bool) -> io::Result<()> {
        if let Some(early) = self.waiting.iter_mut().find(|early| early.connection.channel == channel) {
            early.input.extend_from_slice(bytes);
            early.ended |= ended;
            return Ok(());
        }
        // One that the program has closed takes nothing any more.
        let Some(channel) = self.channels.get_mut(&channel) else { return Ok(()) };
        let expected = channel.given + channel.queue.len() as u64;
        if offset != expected && !channel.ended {
            return Err(io::Error::other(format!("input at byte {offset} instead of {expected}")));
        }
        channel.queue.extend_from_slice(bytes);
        channel.input_ended |= ended;
        channel.push();
        Ok(())
    }

    fn lose(&mut self, channel: u64) {
        if let Some(early) = self.waiting.iter_mut().find(|early| early.connection.channel == channel) {
            early.is_lost = true;
        }
        // One that the program has closed needs no notice.
        self.channels.get_mut(&channel).into_iter().for_each(Channel::lose);
    }

    /// Begins to send checkpoints to another secondary, which has nothing yet.
    fn protect(&mut self, at: std::net::SocketAddr, token: u64, released: u64) -> io::Result<()> {
        if let Some(mut flight) = self.in_flight.take().filter(|flight| flight.epoch > released) {
            self.again.outputs.append(&mut flight.outputs);
            self.again.bytes.append(&mut flight.bytes);
        }
        self.is_over = false;
        self.memory.start_over();
        let link = Link {
            rate_mbit: self.order.link_mbit,
            delay: Duration::from_micros(self.order.link_delay_us),
            limit: self.order.heartbeat(),
        };
        let waker = self.control.waker.try_clone()?;
        match Sender::connect(at, link, &token.to_le_bytes(), |_| {}, waker) {
            Ok(sender) => self.sender = Some(sender),
            Err(_) => self.lose_secondary()?,
        }
        Ok(())
    }

    fn lose_secondary(&mut self) -> io::Result<()> {
        self.sender = None;
        self.control.send(&FromReplica::Unprotected { secondary: self.secondary }, &[])
    }

    fn acknowledge(&mut self) -> io::Result<()> {
        let Some(sender) = &self.sender else { return Ok(()) };
        match sender.acknowledged() {
            Ok(Some(_)) => self.in_flight = None,
            Ok(None) => {}
            Err(_) => self.lose_secondary()?,
        }
        Ok(())
    }

    /// Connects clients to the program as soon as it listens to them.
    fn connect_waiting(&mut self) -> io::Result<()> {
        let process = std::process::id();
        let mut still = Vec::new();
        for early in std::mem::take(&mut self.waiting) {
            let Connection { channel, server, client, .. } = &early.connection;
            let own = format!("baremark/{process}/c{channel}/{client}");
            match local_socket::connect(&own, &format!("baremark/{process}/l0/{server}")) {
                Ok(end) => {
                    let mut new = Channel::new(end, &early.connection)?;
                    (new.queue, new.input_ended) = (early.input, early.ended || early.is_lost);
                    (new.is_accepted, new.is_lost) = (false, early.is_lost);
                    self.channels.insert(*channel, new);
                }
                Err(why) if matches!(why.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock) => {
                    still.push(early);
                }
                Err(why) => return Err(why),
            }
        }
        self.waiting = still;
        Ok(())
    }

    /// A checkpoint, unless the program ends or is killed meanwhile: of that there is none.
    fn checkpoint_if_alive(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let Err(why) = self.checkpoint(buffer) else { return Ok(()) };
        let begun = Instant::now();
        while begun.elapsed() < DYING {
            if self.program.has_ended()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(GLANCE);
        }
        Err(why)
    }

    fn checkpoint(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let begun = Instant::now();
        if !self.program.stop(STOP)? {
            return Ok(());
        }
        self.channels.values_mut().for_each(|channel| channel.drain(buffer));
        let own = self.program.own_memory();
        let process = i32::try_from(self.program.id()).map_err(io::Error::other)?;
        let open = descriptors::read(process, self.program.first_own_descriptor())?;
        self.memory.leave_out(own.clone());
        let mut copy = Vec::new();
        [self.epoch, 1].into_iter().for_each(|number| put(&mut copy, number));
        let collected = self.memory.collect(&mut copy, false)?;
        if collected.unreadable > 0 {
            return Err(io::Error::other(format!("{} pages of the program cannot be read", collected.unreadable)));
        }
        let present = self.memory.present()?;
        let registers = self.program.registers();
        self.program.resume();
        let paused = begun.elapsed();
        let (mappings, vdso) = descriptors::mappings(self.memory.maps(), &own);
        let (release, output) = self.release(&open);
        let release = Release {
            threads: self.program.threads() as u64,
            pages: collected.pages,
            link_bytes: (copy.len() + output.len() + registers.len()) as u64,
            paused_ns: Nanos::from(paused).0,
            ..release
        };
        let connections = self.connections(&open);
        let Open { descriptors, pipes, .. } = open;
        let description = Description { mappings, descriptors, pipes, vdso, inherited: Vec::new() };
        self.send(Head { release, description, connections, present }, &registers, output, &copy)
    }

    /// What this epoch allows to leave, and the bytes of it.
    fn release(&mut self, open: &Open) -> (Release, Vec<u8>) {
        let mut output = std::mem::take(&mut self.again.bytes);
        let mut outputs = std::mem::take(&mut self.again.outputs);
        for (&id, channel) in &mut self.channels {
            channel.is_accepted |= open.unread.contains_key(&id);
            outputs.extend(channel.take_output(id, open.unread.contains_key(&id), &mut output));
        }
        self.channels.retain(|id, channel| !channel.ended || open.unread.contains_key(id));
        let given = |(id, unread): (&u64, &u64)| Some((*id, self.channels.get(id)?.given.saturating_sub(*unread)));
        let release = Release {
            epoch: self.epoch,
            outputs,
            consumed: open.unread.iter().filter_map(given).collect(),
            listeners: open.listeners.iter().cloned().collect(),
            refused: self.program.refused().iter().map(ToString::to_string).collect(),
            ..Release::default()
        };
        (release, output)
    }

    /// The connections that the program has at the end of this epoch.
    fn connections(&self, open: &Open) -> Vec<Connection> {
        let connection = |(id, unread): (&u64, &u64)| {
            let channel = self.channels.get(id)?;
            let (server, client) = (channel.server.clone(), channel.client.clone());
            let consumed = channel.given.saturating_sub(*unread);
            Some(Connection { channel: *id, server, client, consumed, produced: channel.sent, ended: channel.ended })
        };
        open.unread.iter().filter_map(connection).collect()
    }

    fn send(&mut self, head: Head, registers: &[u8], output: Vec<u8>, copy: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(copy.len() + output.len() + registers.len() + (16 << 10));
        checkpoint::write(&mut message, &head, registers, &output)?;
        message.extend_from_slice(copy);
        self.in_flight = Some(Flight { epoch: self.epoch, outputs: head.release.outputs, bytes: output });
        self.epoch += 1;
        let sent = self.sender.as_ref().map_or(Ok(()), |sender| sender.send(message));
        sent.or_else(|_lost| self.lose_secondary())
    }

    /// The last checkpoint, of a program that has ended: its output and its exit code.
    fn finish(&mut self, status: ExitStatus, buffer: &mut [u8]) -> io::Result<()> {
        if status.signal() == Some(confine::SIGKILL) {
            return Err(io::Error::new(ErrorKind::ConnectionAborted, "the program was killed"));
        }
        if status.code() == Some(RUNNER_FAILED)
            && let Some(message) = self.program.failure()
        {
            self.control.send(&FromReplica::Failed { message }, &[])?;
            self.is_over = true;
            return Ok(());
        }
        self.channels.values_mut().for_each(|channel| channel.drain(buffer));
        let (release, output) = self.release(&Open::default());
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        let mut copy = Vec::new();
        [self.epoch, 0].into_iter().for_each(|number| put(&mut copy, number));
        let head = Head { release: Release { ended: code, ..release }, ..Head::default() };
        self.is_over = true;
        self.send(head, &[], output, &copy)
    }
}

/// Starts the program with new standard streams.
fn begin(order: &Order) -> io::Result<(Protected, BTreeMap<u64, Channel>)> {
    let missing = || io::Error::new(ErrorKind::InvalidInput, "no program: name one after --");
    let (program, arguments) = order.program.split_first().ok_or_else(missing)?;
    let mut command = Command::new(program);
    command.args(arguments);
    let mut channels = BTreeMap::new();
    for channel in STREAMS {
        let connection = Connection { channel, ..Connection::default() };
        let [own, programs] = pair(&connection)?;
        channels.insert(channel, Channel::new(own, &connection)?);
        let programs = OwnedFd::from(programs);
        match channel {
            0 => command.stdin(programs),
            1 => command.stdout(programs),
            _ => command.stderr(programs),
        };
    }
    command.protect().map(|program| (program, channels)).map_err(io::Error::other)
}

/// Continues the program, with new ends of the connections that it had.
fn go_on(saved: &Saved) -> io::Result<(Protected, BTreeMap<u64, Channel>)> {
    let has = |id: u64| saved.head.description.descriptors.iter().any(|open| open.target == Target::Channel(id));
    let (mut channels, mut ends) = (BTreeMap::new(), Vec::new());
    for connection in saved.head.connections.iter().filter(|connection| has(connection.channel)) {
        let [own, programs] = pair(connection)?;
        if connection.ended {
            programs.shutdown(Shutdown::Write)?;
        }
        channels.insert(connection.channel, Channel::new(own, connection)?);
        ends.push((connection.channel, programs));
    }
    let inherited: Vec<(u64, i32)> = ends.iter().map(|(id, end)| (*id, end.as_raw_fd())).collect();
    let numbers: Vec<i32> = inherited.iter().map(|(_, number)| *number).collect();
    let image = protected::image_file()?;
    saved.write_image(&image, inherited)?;
    let mut command = Command::new("continued");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    command.continue_from(&image, &numbers).map(|program| (program, channels)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn channel() -> (Channel, UnixStream) {
        let (own, programs) = UnixStream::pair().expect("two ends");
        (Channel::new(own, &Connection::default()).expect("a channel"), programs)
    }

    #[test]
    fn a_program_reads_what_a_lost_client_has_sent_and_cannot_write_to_it() {
        let (mut channel, mut programs) = channel();
        // More than fits.
        let input = vec![7_u8; 4 << 20];
        channel.queue.extend_from_slice(&input);
        programs.write_all(b"abc").expect("written");
        channel.lose();
        assert_eq!(programs.write(b"d").expect_err("lost").kind(), ErrorKind::BrokenPipe);
        let reading = thread::spawn(move || {
            let mut read = Vec::new();
            programs.read_to_end(&mut read).map(|_| read)
        });
        while !channel.queue.is_empty() {
            channel.push();
        }
        assert!(reading.join().expect("a thread").expect("the end") == input);
        channel.drain(&mut [0; 64]);
        assert_eq!((channel.output.as_slice(), channel.ended), (b"abc".as_slice(), true));
    }

    #[test]
    fn a_client_that_is_lost_before_the_program_accepts_it_stays_until_then() {
        let (mut channel, mut programs) = channel();
        channel.is_accepted = false;
        channel.lose();
        channel.drain(&mut [0; 64]);
        assert!(!channel.ended);
        programs.write_all(b"abc").expect("accepted, which no checkpoint has seen");
        channel.is_accepted = true;
        channel.push();
        assert_eq!(programs.write(b"d").expect_err("lost").kind(), ErrorKind::BrokenPipe);
        channel.drain(&mut [0; 64]);
        assert!(channel.ended);
    }
}
